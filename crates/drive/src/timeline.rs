//! Timelines: resources that assign time, so that no event queue is needed.
//!
//! `Fifo` is for a resource that is reserved in time order (a core). `Calendar` is for a resource
//! that is reserved for future times out of order (a flash channel, the link back to the host): a
//! plain `free_at` would make early requests wait after late ones. The calendar keeps the busy
//! intervals themselves; docs/adr/0002-interval-calendar.md explains why it does not use bins.
//!
//! Not modelled: requests that wait for the same gap get it in the order of their calls, not of
//! arrival; a transfer may be split by one that was reserved earlier. Both keep the mean; tails of
//! a saturated link come out up to a quarter too low (`tests/oracle.rs`).

use drivebay_units::Nanos;

use crate::persist::{StateError, TIME_MAX, ensure, persist};

/// A time that never comes.
pub const NEVER: Nanos = Nanos(u64::MAX);

/// A resource that serves requests strictly in the order of calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo {
    free_at: Nanos,
}

persist!(Fifo: free_at);

impl Fifo {
    /// Reserves `len` not before `from`; returns the beginning and end of the reserved time.
    #[inline(always)]
    pub fn reserve(&mut self, from: Nanos, len: Nanos) -> (Nanos, Nanos) {
        let begin = self.free_at.max(from);
        self.free_at = begin.after(len);
        (begin, self.free_at)
    }

    /// Time at which all requests so far are done.
    #[inline(always)]
    #[must_use]
    pub fn free_at(&self) -> Nanos {
        self.free_at
    }
}

/// Maximum number of busy intervals of a calendar (a power of two). When more are needed, the
/// latest is booked directly after the previous one: far-off time moves a little, none is lost, and
/// nobody waits for a gap. (An earlier version joined the two earliest including the gap, which
/// made reads after deep queues of programs wait 50 times too long.)
const INTERVALS_MAX: usize = 64;

/// Intervals that are checked one by one from the back before binary search.
const STEPS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    from: u64,
    to: u64,
}

persist!(Busy: from, to);

/// A shared resource that can be reserved for any future time and never idles while a request
/// waits.
///
/// Busy intervals are disjoint and in time order in a ring; adjacent ones are mostly joined.
#[derive(Clone, Debug)]
pub struct Calendar {
    ring: [Busy; INTERVALS_MAX],
    head: usize,
    len: usize,
}

persist!(Calendar: ring, head, len);

impl Default for Calendar {
    fn default() -> Calendar {
        Calendar { ring: [Busy::default(); INTERVALS_MAX], head: 0, len: 0 }
    }
}

impl Calendar {
    /// Checks that the ring and its intervals are valid.
    pub fn check(&self) -> Result<(), StateError> {
        ensure(self.head < INTERVALS_MAX && self.len <= INTERVALS_MAX, "a calendar's ring")?;
        let whole = self.ring.iter().all(|busy| busy.from <= busy.to && busy.to <= TIME_MAX);
        ensure(whole, "a calendar's intervals")
    }

    #[inline(always)]
    fn at(&mut self, index: usize) -> &mut Busy {
        &mut self.ring[(self.head + index) & (INTERVALS_MAX - 1)]
    }

    /// Reserves `len` in the free time from `from` on; returns the end of its last part.
    ///
    /// `floor` is a time before which no later call will reserve (it must never go back). Cost: one
    /// step when nothing later is reserved, else usually two or three from the back.
    #[inline(always)]
    pub fn reserve(&mut self, floor: Nanos, from: Nanos, len: Nanos) -> Nanos {
        debug_assert!(from >= floor);
        if self.len > 0 {
            let last = self.at(self.len - 1);
            if from.0 >= last.from && from.0 <= last.to {
                last.to += len.0;
                return Nanos(last.to);
            }
            if from.0 < last.from {
                return self.reserve_between(floor, from, len);
            }
        }
        self.forget(floor);
        let to = from.after(len);
        self.insert(self.len, Busy { from: from.0, to: to.0 });
        to
    }

    /// Removes intervals that end at `floor` or before.
    #[inline(always)]
    fn forget(&mut self, floor: Nanos) {
        while self.len > 0 && self.at(0).to <= floor.0 {
            self.head = (self.head + 1) & (INTERVALS_MAX - 1);
            self.len -= 1;
        }
    }

    /// Reserves for a time before the last interval.
    fn reserve_between(&mut self, floor: Nanos, from: Nanos, len: Nanos) -> Nanos {
        self.forget(floor);
        let first = self.first_not_before(from.0);
        let (mut clock, mut need, mut next) = (from.0, len.0, first);
        while next < self.len {
            let busy = *self.at(next);
            let gap = busy.from.saturating_sub(clock);
            if gap >= need {
                break;
            }
            need -= gap;
            clock = clock.max(busy.to);
            next += 1;
        }
        let end = clock + need;
        // All time from `from` to `end` is busy now: intervals first..next are merged, together
        // with the following one if it is adjacent.
        let touches = next < self.len && self.at(next).from == end;
        let to = if touches { self.at(next).to } else { end };
        let last = next + usize::from(touches);
        if last == first {
            self.insert(first, Busy { from: from.0, to });
        } else {
            let begin = self.at(first).from.min(from.0);
            *self.at(first) = Busy { from: begin, to };
            self.remove(first + 1, last - first - 1);
        }
        Nanos(end)
    }

    /// First interval that ends at or after `from`: it may touch or delay a reservation that begins
    /// then. Near the end it is searched step by step, otherwise by halves.
    #[inline(always)]
    fn first_not_before(&mut self, from: u64) -> usize {
        let near = self.len.saturating_sub(STEPS);
        let mut first = self.len;
        while first > near {
            if self.at(first - 1).to < from {
                return first;
            }
            first -= 1;
        }
        // Without branches, because their outcome is unpredictable.
        let (mut low, mut size) = (0, first);
        while size > 0 {
            let half = size.div_ceil(2);
            low += if self.at(low + half - 1).to < from { half } else { 0 };
            size /= 2;
        }
        low
    }

    fn insert(&mut self, index: usize, busy: Busy) {
        if self.len == INTERVALS_MAX {
            let latest = self.len - 1;
            if index >= latest {
                self.at(index - 1).to += busy.to - busy.from;
                return;
            }
            let Busy { from, to } = *self.at(latest);
            self.at(latest - 1).to += to - from;
            self.len = latest;
        }
        let mut i = self.len;
        while i > index {
            *self.at(i) = *self.at(i - 1);
            i -= 1;
        }
        *self.at(index) = busy;
        self.len += 1;
    }

    fn remove(&mut self, index: usize, count: usize) {
        if count == 0 {
            return;
        }
        for i in index..self.len - count {
            *self.at(i) = *self.at(i + count);
        }
        self.len -= count;
    }
}

#[cfg(test)]
#[path = "../tests/unit/timeline.rs"]
mod tests;
