//! How many requests are outstanding over time: counted at every release and completion.
//!
//! Apart from the latencies: the sum of these must agree with it by Little's law, and shows by
//! disagreeing that a request was lost or a clock went wrong.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drivebay_units::Nanos;

/// Completions kept, 8 MiB: deeper queues are shown as this deep, with time and mean still exact.
const ENDS_MAX: usize = 1 << 20;

/// Upper bounds of the published buckets of queue depth; the last has none.
const BUCKETS: [usize; 7] = [1, 2, 3, 5, 10, 20, 32];

/// Follows the number of requests that are released and not completed.
#[derive(Debug)]
pub struct DepthTracker {
    /// Completions that lie ahead of the time reached.
    ends: BinaryHeap<Reverse<u64>>,
    /// Requests released, the completion of which is not known yet.
    unknown: usize,
    reached: u64,
    /// Sum of the number outstanding over time, and time with any.
    request_ns: u128,
    busy_ns: u64,
    /// Requests by the number outstanding when they were released, themselves included.
    by_depth: [u64; BUCKETS.len() + 1],
    max: usize,
}

impl DepthTracker {
    /// Nothing is outstanding at `start`.
    #[must_use]
    pub fn new(start: Nanos) -> DepthTracker {
        DepthTracker {
            ends: BinaryHeap::with_capacity(1 << 12),
            unknown: 0,
            reached: start.0,
            request_ns: 0,
            busy_ns: 0,
            by_depth: [0; BUCKETS.len() + 1],
            max: 0,
        }
    }

    /// A request is released. Releases come in order of time, and every completion up to then is
    /// known.
    #[inline]
    pub fn released(&mut self, at: Nanos) {
        self.advance(at.0);
        self.unknown += 1;
        let depth = self.ends.len() + self.unknown;
        self.max = self.max.max(depth);
        self.by_depth[BUCKETS.partition_point(|&bound| bound < depth)] += 1;
    }

    /// One that was released is completed, at a time not before the last release.
    #[inline]
    pub fn completed(&mut self, done: Nanos) {
        self.unknown -= 1;
        self.ends.push(Reverse(done.0));
        if self.ends.len() > ENDS_MAX {
            self.forget_soonest();
        }
    }

    /// Those that were released and never completed were refused, by `at`.
    pub fn refuse_rest(&mut self, at: Nanos) {
        while self.unknown > 0 {
            self.completed(at);
        }
    }

    /// Books the rest of a request's time now; the others are out as well, so it adds no busy time.
    #[cold]
    fn forget_soonest(&mut self) {
        let Some(Reverse(end)) = self.ends.pop() else { return };
        self.request_ns += u128::from(end.saturating_sub(self.reached));
    }

    #[inline]
    fn advance(&mut self, until: u64) {
        while let Some(&Reverse(end)) = self.ends.peek()
            && end <= until
        {
            self.step(end);
            self.ends.pop();
        }
        self.step(until);
    }

    #[inline]
    fn step(&mut self, until: u64) {
        let count = self.ends.len() + self.unknown;
        // A completion before the last release belongs to a time already counted: see `completed`.
        let len = until.saturating_sub(self.reached);
        if count > 0 {
            self.busy_ns += len;
            self.request_ns += count as u128 * u128::from(len);
        }
        self.reached = self.reached.max(until);
    }

    /// What was counted, after everything has completed.
    #[must_use]
    pub fn finish(mut self) -> QueueDepths {
        self.advance(u64::MAX);
        debug_assert_eq!(self.unknown, 0, "everything has completed");
        QueueDepths {
            busy: Nanos(self.busy_ns),
            mean: if self.busy_ns == 0 {
                0.0
            } else {
                self.request_ns as f64 / self.busy_ns as f64
            },
            max: self.max as u64,
            by_depth: self.by_depth,
        }
    }
}

/// How full the host's queue was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueDepths {
    /// Time with at least one request outstanding.
    pub busy: Nanos,
    /// Mean number outstanding over the busy time.
    pub mean: f64,
    /// Most outstanding at once.
    pub max: u64,
    /// Requests by the number outstanding at their release, themselves included: 1, 2, 3, 4-5,
    /// 6-10, 11-20, 21-32, above.
    pub by_depth: [u64; 8],
}

#[cfg(test)]
#[path = "../tests/unit/queue_depth.rs"]
mod tests;
