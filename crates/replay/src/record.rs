//! Measurements of a replay: latencies, lateness, counts per second, outstanding requests,
//! failures.
//!
//! Definitions: `docs/concepts/replay.md`. Latency is measured from a request's release, when it
//! was due, until its completion is taken; service time from just before the system call that
//! issues it; lateness is the time between. A request counts in the second in which it completes.
//! Failed requests are counted and listed, and are in no latency.

use std::collections::BTreeMap;

use drivebay_trace::Op;
use drivebay_units::{Histogram, IoCounts, Nanos};

use crate::uring::Command;

/// Limits of latencies that are counted exactly: more than 10 ms, and more than 100 ms.
const LONG: [Nanos; 2] = [Nanos::millis(10), Nanos::millis(100)];
/// Upper bounds of the published buckets of queue depth; the last bucket is unbounded.
const BUCKETS: [u32; 7] = [1, 2, 3, 5, 10, 20, 32];
/// Most failed requests that are listed individually.
pub const LISTED_MAX: usize = 100;

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Position in the recording, from 0.
    pub number: u64,
    /// Command that was sent to the target.
    pub command: Command,
    /// Error number of the kernel; 0 if fewer bytes were moved than requested.
    pub errno: i32,
    /// Time of its completion.
    pub at: Nanos,
}

/// Measurements of a replay. Times are since its start.
#[derive(Clone, Default)]
pub struct Record {
    /// Reads and writes per second.
    pub rows: Vec<IoCounts>,
    /// Latencies by [`Op`].
    pub latency: [Histogram; 4],
    /// Service times, the drive's part of the latencies, by [`Op`].
    pub service: [Histogram; 4],
    /// Sums of the latencies in nanoseconds, by [`Op`].
    pub latency_ns_sum: [u64; 4],
    /// Reads and writes with a latency of more than 10 ms, and of more than 100 ms.
    pub long: [u64; 2],
    /// Lateness of issued requests.
    pub lateness: Histogram,
    /// Longest lateness.
    pub lateness_max: Nanos,
    /// Requests issued more than 100 us late.
    pub late: u64,
    /// Late requests that waited for a place in the full queue.
    pub late_queue_full: u64,
    /// Late requests that were not read from the trace in time.
    pub late_not_read: u64,
    /// Requests issued, including failed ones.
    pub issued: u64,
    /// Requests completed, including failed ones.
    pub completed: u64,
    /// Failed requests by operation and error number.
    pub failures: BTreeMap<(Op, i32), u64>,
    /// First failed requests, at most [`LISTED_MAX`].
    pub listed: Vec<Failure>,
    /// Integral of the outstanding reads and writes over time: divided by a time, it is their mean.
    pub outstanding_ns: u128,
    /// Time with any request outstanding.
    pub busy: Nanos,
    /// Largest number outstanding.
    pub outstanding_max: u32,
    /// Reads and writes by the number outstanding at their issue, including themselves: 1, 2, 3,
    /// 4-5, 6-10, 11-20, 21-32, more.
    pub by_depth: [u64; BUCKETS.len() + 1],
    /// Time of the last completion.
    pub end: Nanos,
    data_out: u32,
    any_out: u32,
    since: Nanos,
}

impl Record {
    fn step(&mut self, now: Nanos) {
        let length = now.since_or_zero(self.since);
        self.outstanding_ns += u128::from(self.data_out) * u128::from(length.0);
        if self.any_out > 0 {
            self.busy = self.busy.after(length);
        }
        self.since = self.since.max(now);
    }

    /// Records the issue of a request that was due at or before `now`; it counts as outstanding
    /// since it was due.
    pub(crate) fn issue(&mut self, op: Op, due: Nanos, now: Nanos) {
        let waited = now.since_or_zero(due);
        if self.any_out == 0 {
            // Idle until the request was due, or until just now.
            self.busy = self.busy.after(now.since_or_zero(due.max(self.since)));
        }
        self.step(now);
        self.outstanding_ns += u128::from(op.moves_data()) * u128::from(waited.0);
        self.issued += 1;
        self.any_out += 1;
        self.data_out += u32::from(op.moves_data());
        self.outstanding_max = self.outstanding_max.max(self.data_out);
        if op.moves_data() {
            self.by_depth[BUCKETS.partition_point(|&bound| bound < self.data_out)] += 1;
        }
    }

    /// Records the lateness of a request; lateness up to `late_after` does not count as late.
    pub(crate) fn lateness(&mut self, late: Nanos, late_after: Nanos, full: bool, unread: bool) {
        self.lateness.record(late.0);
        self.lateness_max = self.lateness_max.max(late);
        if late > late_after {
            self.late += 1;
            self.late_queue_full += u64::from(full);
            self.late_not_read += u64::from(unread && !full);
        }
    }

    /// Records the completion of a request.
    pub(crate) fn complete(
        &mut self,
        number: u64,
        command: Command,
        result: i32,
        (due, issued): (Nanos, Nanos),
        now: Nanos,
    ) {
        let Command { op, bytes, .. } = command;
        self.step(now);
        self.completed += 1;
        self.any_out -= 1;
        self.data_out -= u32::from(op.moves_data());
        self.end = now;
        let moved = u64::try_from(result).ok();
        if moved.is_none() || op.moves_data() && moved != Some(bytes) {
            return self.fail(Failure { number, command, errno: (-result).max(0), at: now });
        }
        let latency = now.since(due);
        self.service[op as usize].record(now.since(issued).0);
        self.latency[op as usize].record(latency.0);
        self.latency_ns_sum[op as usize] += latency.0;
        if !op.moves_data() {
            return;
        }
        for (count, limit) in self.long.iter_mut().zip(LONG) {
            *count += u64::from(latency > limit);
        }
        let second = (now.0.saturating_sub(1) / 1_000_000_000) as usize;
        if second >= self.rows.len() {
            self.rows.resize(second + 1, IoCounts::default());
        }
        self.rows[second].count(op.writes(), bytes, latency);
    }

    /// Records a failed request, or one that was never sent.
    pub(crate) fn fail(&mut self, failure: Failure) {
        *self.failures.entry((failure.command.op, failure.errno)).or_insert(0) += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(failure);
        }
    }

    /// Number of failed requests, over all errors.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}
