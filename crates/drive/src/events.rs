//! Events inside a drive, kept on request: superblocks that are emptied, erased and opened, and the
//! activity of dies and channels.
//!
//! Nothing here changes the behaviour of the drive. While no events are kept, reads have no
//! additional cost: keeping events is a second reason for a branch that reads take anyway, for dies
//! with independent planes. The cost is one test of a pointer for each program of a die, for each
//! flash page copied, and for each superblock emptied, erased or opened. The times of programs and
//! erases are recorded as known when they are requested: later reads may suspend them, so that they
//! end later than recorded. Their lengths do not change. A transfer that the calendar splits is
//! recorded as if it had no gap. Left out: the host core, the link; the work of a journal or a map
//! cache, except for its time on dies and channels.

use drivebay_units::{Nanos, named};

use crate::superblock::State;

named! {
    /// The kind of an event of a superblock.
    pub enum EventKind {
        /// Garbage collection emptied the superblock.
        Collection = "collection",
        /// Folding emptied the superblock.
        Fold = "fold",
        /// The superblock was erased.
        Erase = "erase",
        /// A write stream began to fill the superblock.
        Open = "open",
    }
}

named! {
    /// The trigger to empty a victim.
    pub enum Trigger {
        /// After commands, as much as pacing or the fold ratio specifies.
        Behind = "behind",
        /// In the foreground: a write waits for space.
        Foreground = "foreground",
        /// While the flash core has no commands.
        Idle = "idle",
    }
}

/// An event of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Time of a victim's first copy, or time at which an erase or the opening is due.
    pub begin: Nanos,
    /// Time at which a victim was completely read, or all dies have erased; equals `begin` for an
    /// opening. `None` if not before the events were taken.
    pub end: Option<Nanos>,
    /// Number of the superblock.
    pub superblock: u32,
    /// 4 KiB pages with valid data in a victim before its first copy.
    pub valid_pages: u32,
    /// 4 KiB pages copied out of a victim; less than `valid_pages` if the host overwrote some
    /// meanwhile.
    pub copied_pages: u32,
    /// Number of erases, including this one.
    pub erases: u32,
    /// True if the superblock has one bit per cell: in its last use, or from its opening on.
    pub slc: bool,
    /// Trigger to empty the victim; `None` for other events.
    pub trigger: Option<Trigger>,
}

/// The state of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperblockState {
    /// Current state.
    pub state: State,
    /// 4 KiB pages with valid data.
    pub valid_pages: u32,
    /// Number of erases.
    pub erases: u32,
    /// Number of erases after use with one bit per cell.
    pub slc_erases: u32,
    /// True if used with one bit per cell since it was last opened.
    pub slc: bool,
}

/// Maximum number of victims at a time: of garbage collection after writes, in idle time, and of
/// folding.
const VICTIMS_MAX: usize = 3;

/// Kept events: the first ones up to a limit.
pub struct EventLog {
    limit: usize,
    kept: Vec<Event>,
    dropped: u64,
    /// Victims that are being emptied.
    victims: Vec<Event>,
}

impl EventLog {
    /// Creates a log that keeps the first `limit` events.
    pub fn new(limit: usize) -> EventLog {
        EventLog { limit, kept: Vec::new(), dropped: 0, victims: Vec::with_capacity(VICTIMS_MAX) }
    }

    pub fn add(&mut self, event: Event) {
        if self.kept.len() < self.limit {
            self.kept.push(event);
        } else {
            self.dropped += 1;
        }
    }

    /// Records pages copied out of a victim; `now` is the event if these are the first.
    #[cold]
    pub fn note_copy(&mut self, pages: u32, now: Event) {
        let victim = match self.position(now.superblock) {
            Some(index) => &mut self.victims[index],
            None => {
                debug_assert!(self.victims.len() < VICTIMS_MAX, "one victim of each kind");
                self.victims.push(now);
                self.victims.last_mut().expect("one was just added")
            }
        };
        victim.copied_pages += pages;
    }

    /// Records a victim that is reclaimed; `now` is the event if no copy was needed.
    #[cold]
    pub fn note_retired(&mut self, now: Event) {
        let begun = self.position(now.superblock).map(|index| self.victims.swap_remove(index));
        self.add(Event { end: now.end, ..begun.unwrap_or(now) });
    }

    fn position(&self, superblock: u32) -> Option<usize> {
        self.victims.iter().position(|victim| victim.superblock == superblock)
    }

    /// Returns all kept events, including victims that are still being emptied, and the number of
    /// dropped events.
    pub fn finish(mut self) -> (Vec<Event>, u64) {
        for victim in std::mem::take(&mut self.victims) {
            self.add(victim);
        }
        self.kept.sort_by_key(|event| event.begin);
        (self.kept, self.dropped)
    }
}

/// Minimum length of an interval.
const INTERVAL_MIN: Nanos = Nanos::millis(1);

/// Busy time of several resources, by interval of the drive's time.
///
/// Intervals are 1 ms long; when there are 4096 of them, pairs are merged. Memory is bounded, and a
/// long run loses no time.
#[derive(Clone, Debug)]
pub struct Activity {
    start: Nanos,
    interval: Nanos,
    columns: usize,
    /// Busy time in nanoseconds, row by row.
    busy_ns: Vec<u64>,
}

impl Activity {
    /// Maximum number of intervals.
    pub const INTERVALS_MAX: usize = 4096;

    /// Creates a record of `columns` resources from `start` on.
    #[must_use]
    pub fn new(start: Nanos, columns: usize) -> Activity {
        Activity { start, interval: INTERVAL_MIN, columns, busy_ns: Vec::new() }
    }

    /// Length of an interval.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Busy nanoseconds of a resource in each of the first `intervals`.
    pub fn of(&self, column: usize, intervals: usize) -> impl Iterator<Item = u64> + '_ {
        let entry = move |row| self.busy_ns.get(row * self.columns + column).copied();
        (0..intervals).map(move |row| entry(row).unwrap_or(0))
    }

    /// Adds a busy time from `from` to `to`; the part before the start is ignored.
    pub fn add(&mut self, column: usize, from: Nanos, to: Nanos) {
        let (mut from, to) = (from.since_or_zero(self.start).0, to.since_or_zero(self.start).0);
        while to.div_ceil(self.interval.0) > Self::INTERVALS_MAX as u64 {
            self.coarsen();
        }
        let rows = to.div_ceil(self.interval.0) as usize * self.columns;
        if rows > self.busy_ns.len() {
            self.busy_ns.resize(rows, 0);
        }
        while from < to {
            let row = from / self.interval.0;
            let end = to.min((row + 1) * self.interval.0);
            self.busy_ns[row as usize * self.columns + column] += end - from;
            from = end;
        }
    }

    /// Merges pairs of intervals.
    fn coarsen(&mut self) {
        self.interval = self.interval.times(2);
        let pairs = self.busy_ns.chunks(2 * self.columns);
        let merged = pairs.flat_map(|pair| {
            let (first, second) = pair.split_at(self.columns);
            (0..self.columns).map(move |i| first[i] + second.get(i).unwrap_or(&0))
        });
        self.busy_ns = merged.collect();
    }

    /// Merges intervals until they are as long as `interval`, which is that of another record with
    /// the same start.
    pub fn coarsen_to(&mut self, interval: Nanos) {
        while self.interval < interval {
            self.coarsen();
        }
    }
}

/// Activity of dies and channels, as columns of an [`Activity`].
#[derive(Clone, Debug)]
pub struct FlashActivity {
    /// Number of dies.
    pub dies: usize,
    /// Number of channels.
    pub channels: usize,
    /// Busy time of reads of all dies, then programs of all, erases of all, and the channels.
    pub busy: Activity,
}

impl FlashActivity {
    pub(crate) fn new(start: Nanos, dies: usize, channels: usize) -> FlashActivity {
        FlashActivity { dies, channels, busy: Activity::new(start, 3 * dies + channels) }
    }

    pub(crate) fn read(&mut self, die: usize, from: Nanos, to: Nanos) {
        self.busy.add(die, from, to);
    }

    pub(crate) fn program(&mut self, die: usize, from: Nanos, to: Nanos) {
        self.busy.add(self.dies + die, from, to);
    }

    pub(crate) fn erase(&mut self, die: usize, from: Nanos, to: Nanos) {
        self.busy.add(2 * self.dies + die, from, to);
    }

    /// Records a transfer that took `len` until `to`.
    pub(crate) fn transfer(&mut self, channel: usize, len: Nanos, to: Nanos) {
        self.busy.add(3 * self.dies + channel, Nanos(to.0 - len.0), to);
    }
}

/// Events of a drive since [`crate::Device::keep_events`].
pub struct Events {
    /// Events in the order of their beginnings.
    pub events: Vec<Event>,
    /// Number of events beyond the limit.
    pub dropped: u64,
    /// Activity of dies and channels.
    pub flash: FlashActivity,
    /// All superblocks at the end.
    pub superblocks: Vec<SuperblockState>,
}
