//! Number of outstanding requests over time, updated at every release and completion.
//!
//! It is counted independently of the latencies, whose sum must agree with it by Little's law. A
//! difference reveals a lost request or a wrong clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drivebay_units::Nanos;

/// Most completions kept, 8 MiB. Deeper queues are reported with this depth; time and mean remain
/// exact.
const ENDS_MAX: usize = 1 << 20;

/// Upper bounds of the published buckets of queue depth; the last bucket is unbounded.
const BUCKETS: [usize; 7] = [1, 2, 3, 5, 10, 20, 32];

/// Tracks the number of requests that are released and not completed.
#[derive(Debug, Default)]
pub struct DepthTracker {
    /// Completion times later than `reached`.
    ends: BinaryHeap<Reverse<u64>>,
    /// Released requests whose completion time is not known yet.
    unknown: usize,
    reached: u64,
    /// Integral of the number outstanding over time, and time with at least one outstanding.
    request_ns: u128,
    busy_ns: u64,
    /// Requests by the number outstanding at their release, including themselves.
    by_depth: [u64; BUCKETS.len() + 1],
    max: usize,
}

impl DepthTracker {
    /// Creates a tracker with nothing outstanding at `start`.
    #[must_use]
    pub fn new(start: Nanos) -> DepthTracker {
        let ends = BinaryHeap::with_capacity(1 << 12);
        DepthTracker { ends, reached: start.0, ..DepthTracker::default() }
    }

    /// Notes the release of a request. Releases come in time order, and every completion until then
    /// is known.
    #[inline]
    pub fn released(&mut self, at: Nanos) {
        self.advance(at.0);
        self.unknown += 1;
        let depth = self.ends.len() + self.unknown;
        self.max = self.max.max(depth);
        self.by_depth[BUCKETS.partition_point(|&bound| bound < depth)] += 1;
    }

    /// Notes the completion of a released request, at a time not before the last release.
    #[inline]
    pub fn completed(&mut self, done: Nanos) {
        self.unknown -= 1;
        self.ends.push(Reverse(done.0));
        if self.ends.len() > ENDS_MAX {
            self.forget_soonest();
        }
    }

    /// Completes all remaining requests at `at`: the drive refused them.
    pub fn refuse_rest(&mut self, at: Nanos) {
        while self.unknown > 0 {
            self.completed(at);
        }
    }

    /// Accounts for the rest of the earliest request now. Others are still outstanding, so the busy
    /// time does not change.
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
        // A completion before the last release lies in a time already counted: see `completed`.
        let len = until.saturating_sub(self.reached);
        if count > 0 {
            self.busy_ns += len;
            self.request_ns += count as u128 * u128::from(len);
        }
        self.reached = self.reached.max(until);
    }

    /// Returns the statistics, after everything has completed.
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

/// Statistics of the host's queue depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueDepths {
    /// Time with at least one request outstanding.
    pub busy: Nanos,
    /// Mean number outstanding over the busy time.
    pub mean: f64,
    /// Largest number outstanding.
    pub max: u64,
    /// Requests by the number outstanding at their release, including themselves: 1, 2, 3, 4-5,
    /// 6-10, 11-20, 21-32, above.
    pub by_depth: [u64; 8],
}

#[cfg(test)]
#[path = "../tests/unit/queue_depth.rs"]
mod tests;
