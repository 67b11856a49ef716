//! How far the server itself was from the model: from the time that the model gave to the time at which
//! the kernel had taken the answer, either way. What the client's own wake-up adds is not in it.
//!
//! To copy an answer and to send it takes the server a few microseconds, most of it in the kernel, which
//! wakes the client. [`Lead`] learns how long, and by so much the server begins earlier.

use drivebay_units::{Histogram, Nanos};

/// From here on an I/O counts as not served in time.
pub const LATE: Nanos = Nanos::micros(100);

/// Longest lead; guess: some times what sending 4 KiB took on a virtual machine of 2 cores, 7 to 17 us.
/// Beyond it an answer is late rather than too early.
const LEAD_MAX: Nanos = Nanos::micros(25);
/// By so much the lead follows each turn that answers: it walks to the median and stays there, whatever
/// the outliers are.
const LEAD_STEP: Nanos = Nanos(100);

/// How long before its time an answer is begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lead(Nanos);

impl Lead {
    /// At present.
    #[inline]
    pub fn get(self) -> Nanos {
        self.0
    }

    /// To answer took so long this time.
    pub fn learn(&mut self, took: Nanos) {
        self.0 = if took > self.0 {
            self.0.after(LEAD_STEP).min(LEAD_MAX)
        } else {
            self.0.since_or_zero(LEAD_STEP)
        };
    }
}

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
    fn the_lead_walks_to_the_median() {
        let mut lead = Lead::default();
        for turn in 0..1000 {
            lead.learn(Nanos::micros(if turn % 3 == 0 { 4000 } else { 8 }));
        }
        assert!((7_800..=8_400).contains(&lead.get().0), "{lead:?}");
        for _ in 0..1000 {
            lead.learn(Nanos::micros(500));
        }
        assert_eq!(lead.get(), LEAD_MAX);
        for _ in 0..1000 {
            lead.learn(Nanos::ZERO);
        }
        assert!(lead.get() <= LEAD_STEP);
    }

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
