//! How late the server itself was: from the time the model gave to the time the answer was handed to
//! the kernel. What the client's own wake-up adds is not in it.

use drivebay_units::{Histogram, Nanos};

/// From here on an I/O counts as not served in time.
pub const LATE: Nanos = Nanos::micros(100);

/// Counts of how late answers were.
#[derive(Clone, Default)]
pub struct Lateness {
    histogram: Histogram,
    count: u64,
    late: u64,
    longest: u64,
}

impl Lateness {
    /// Counts one answer.
    #[inline]
    pub fn record(&mut self, by: Nanos) {
        self.histogram.record(by.0);
        self.count += 1;
        self.late += u64::from(by > LATE);
        self.longest = self.longest.max(by.0);
    }

    /// Answers counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Answers later than [`LATE`].
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The longest, exactly.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        Nanos(self.longest)
    }

    /// The value that `per_mille` of the answers do not exceed, nearest rank, at most 1.6 % high; zero
    /// if nothing was counted.
    #[must_use]
    pub fn percentile(&self, per_mille: u64) -> Nanos {
        let rank = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for bin in self.histogram.bins() {
            seen += bin.count;
            if seen >= rank {
                return Nanos((bin.high - 1).min(self.longest));
            }
        }
        Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.percentile(500), Nanos::ZERO);
        for value in 1..=60 {
            lateness.record(Nanos(value));
        }
        lateness.record(LATE.after(Nanos(1)));
        assert_eq!(lateness.percentile(500), Nanos(31));
        assert_eq!(lateness.percentile(0), Nanos(1));
        assert_eq!(lateness.percentile(1000), LATE.after(Nanos(1)));
        assert_eq!((lateness.count(), lateness.late()), (61, 1));
    }
}
