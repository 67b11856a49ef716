//! Latencies of completed requests in buckets, by operation.
//!
//! A latency is the model's, as in [`super::latency_monitor`].

use std::collections::BTreeMap;

use drivebay_units::Nanos;
use serde::Serialize;

use crate::request::Op;

/// Number of buckets: up to 1 us, 2 us, 4 us and so on up to 67 s, and above.
const BUCKETS: usize = 28;
const OPERATIONS: [&str; 5] = ["read", "write", "discard", "write_zeroes", "flush"];

/// Latencies of one operation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LatencyFigures {
    /// Number of requests by latency: bucket `n` ends at 2^n us, and the last one is open.
    pub buckets: [u64; BUCKETS],
    /// Sum of all latencies, seconds of the drive's clock.
    pub sum_seconds: f64,
}

/// Latencies of all operations.
#[derive(Default)]
pub(crate) struct LatencyHistogram {
    counts: [[u64; BUCKETS]; OPERATIONS.len()],
    sums: [Nanos; OPERATIONS.len()],
}

impl LatencyHistogram {
    /// Counts a completed request.
    #[inline]
    pub fn record(&mut self, op: Op, latency: Nanos) {
        let operation = match op {
            Op::Read => 0,
            Op::Write { .. } | Op::Append { .. } => 1,
            Op::Trim { .. } => 2,
            Op::WriteZeroes { .. } => 3,
            Op::Flush => 4,
            Op::HandleUpdate | Op::Zone(_) => return,
        };
        let started_us = latency.0.saturating_sub(1) / 1000;
        let bucket = (u64::BITS - started_us.leading_zeros()) as usize;
        self.counts[operation][bucket.min(BUCKETS - 1)] += 1;
        self.sums[operation] = self.sums[operation].after(latency);
    }

    pub fn figures(&self) -> BTreeMap<&'static str, LatencyFigures> {
        let all = self.counts.iter().zip(&self.sums);
        let figures =
            all.map(|(&buckets, sum)| LatencyFigures { buckets, sum_seconds: sum.as_secs_f64() });
        OPERATIONS.into_iter().zip(figures).collect()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/interface_latency_histogram.rs"]
mod tests;
