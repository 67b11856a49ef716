//! Counts of reads and writes over an interval, as the rows of a run or replay have them.

use crate::Nanos;

/// Counts of the reads and writes that completed in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Sum of the latencies.
    pub latency_ns_sum: u64,
    /// Longest latency.
    pub latency_ns_max: u64,
}

impl IoCounts {
    /// Counts a completed read or write.
    #[inline(always)]
    pub fn count(&mut self, is_write: bool, bytes: u64, latency: Nanos) {
        if is_write {
            self.writes += 1;
            self.write_bytes += bytes;
        } else {
            self.reads += 1;
            self.read_bytes += bytes;
        }
        self.latency_ns_sum += latency.0;
        self.latency_ns_max = self.latency_ns_max.max(latency.0);
    }

    /// Reads and writes completed.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes read and written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}
