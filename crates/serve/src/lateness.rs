//! The difference between the time of each answer by the model and the time at which the kernel took it,
//! either way. What the client's own wake-up adds is not in it.
//!
//! It is counted on the host's clock, whatever the drive's time scale is. To copy and send an answer takes the server a few microseconds, most of it in the kernel, which
//! wakes the client. The server measures how long and begins that much earlier.

use drivebay_units::{Histogram, Nanos};
use serde::Serialize;

use crate::clock::TimeScale;

/// An answer that is later than this counts as late.
const LATE: Nanos = Nanos::micros(100);

/// Fewest answers that say how far the host keeps up. guess: one that is late by chance should not.
const LATELY_MIN: u64 = 20;

/// Longest send time that is compensated; guess: some times what sending 4 KiB took on a virtual machine
/// of 2 cores, 7 to 17 us. Beyond it an answer is late rather than too early.
const SEND_TIME_MAX: Nanos = Nanos::micros(25);
/// Step by which the estimate follows each iteration that answers: so it converges to the median, whatever
/// the outliers are.
const SEND_TIME_STEP: Nanos = Nanos(100);

/// Lateness of answers, microseconds of the host's clock; zeros if the server is not paced.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LatenessFigures {
    /// Number of answers.
    pub answers: u64,
    /// Median.
    pub us_p50: f64,
    /// 99th percentile.
    pub us_p99: f64,
    /// 99.9th percentile.
    pub us_p999: f64,
    /// Maximum.
    pub us_max: f64,
    /// Number of answers later than `late_from_us`.
    pub late: u64,
    /// Lateness from which an answer counts as late.
    pub late_from_us: f64,
    /// How far the host kept up: the latencies that the model gave over these with the lateness of their
    /// answers and the time for which the server could not read the requests, percent; none before the first
    /// answer.
    pub kept_up_percent: Option<f64>,
}

/// Lateness of all answers so far, and the send time that is expected of the next.
#[derive(Default)]
pub(crate) struct Lateness {
    histogram: Histogram,
    count: u64,
    late: u64,
    longest: u64,
    /// Sums over all answers, nanoseconds: what the model gave, and what the host added.
    modelled: u64,
    added: u64,
    scale: TimeScale,
    /// As `count`, `modelled` and `added` were when the last second began.
    before: (u64, u64, u64),
    /// On the host's clock.
    send_time: Nanos,
    /// When the answers of this iteration were due.
    due: Vec<Nanos>,
    /// When the first of them was begun.
    begun: Nanos,
}

impl Lateness {
    /// Of a drive with this time scale.
    pub fn new(scale: TimeScale) -> Lateness {
        Lateness { scale, ..Lateness::default() }
    }

    /// How long before it is due an answer is begun, on the drive's clock.
    #[inline]
    pub fn send_time(&self) -> Nanos {
        self.scale.to_drive(self.send_time)
    }

    /// The answer that was due at `due` is begun: `modelled` after its request was read on the drive's clock,
    /// which had waited for `starved` on the host's.
    pub fn begin_answer(
        &mut self,
        due: Nanos,
        modelled: Nanos,
        starved: Nanos,
        now: impl FnOnce() -> Nanos,
    ) {
        self.modelled += self.scale.to_host(modelled).0;
        self.added += starved.0;
        if self.due.is_empty() {
            self.begun = now();
        }
        self.due.push(due);
    }

    /// The answers of this iteration will not be sent.
    pub fn drop_answers(&mut self) {
        self.due.clear();
    }

    /// The kernel has taken the answers of this iteration.
    pub fn end_iteration(&mut self, now: impl FnOnce() -> Nanos) {
        if self.due.is_empty() {
            return;
        }
        let now = now();
        self.learn_send_time(self.scale.to_host(now.since_or_zero(self.begun)));
        for due in std::mem::take(&mut self.due) {
            self.added += self.scale.to_host(now.since_or_zero(due)).0;
            self.record(self.scale.to_host(Nanos(now.0.abs_diff(due.0))));
        }
    }

    fn learn_send_time(&mut self, took: Nanos) {
        self.send_time = if took > self.send_time {
            self.send_time.after(SEND_TIME_STEP).min(SEND_TIME_MAX)
        } else {
            self.send_time.since_or_zero(SEND_TIME_STEP)
        };
    }

    fn record(&mut self, by: Nanos) {
        self.histogram.record(by.0);
        self.count += 1;
        self.late += u64::from(by > LATE);
        self.longest = self.longest.max(by.0);
    }

    /// The lateness that `per_mille` of the answers do not exceed, nearest rank, at most 1.6 % high;
    /// zero if there were none.
    fn percentile(&self, per_mille: u64) -> Nanos {
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

    /// How far the host kept up since this was asked before, percent; None after too few answers to say.
    pub fn kept_up_lately(&mut self) -> Option<f64> {
        let (count, modelled, added) = self.before;
        self.before = (self.count, self.modelled, self.added);
        (self.count - count >= LATELY_MIN).then(|| {
            let modelled = (self.modelled - modelled).max(1) as f64;
            100.0 * modelled / (modelled + (self.added - added) as f64)
        })
    }

    pub fn figures(&self) -> LatenessFigures {
        let us = |per_mille| self.percentile(per_mille).0 as f64 / 1e3;
        LatenessFigures {
            answers: self.count,
            us_p50: us(500),
            us_p99: us(990),
            us_p999: us(999),
            us_max: self.longest as f64 / 1e3,
            late: self.late,
            late_from_us: LATE.0 as f64 / 1e3,
            kept_up_percent: (self.count > 0).then(|| {
                let modelled = self.modelled.max(1) as f64;
                100.0 * modelled / (modelled + self.added as f64)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_send_time_converges_to_the_median() {
        let mut lateness = Lateness::default();
        for iteration in 0..1000 {
            lateness.learn_send_time(Nanos::micros(if iteration % 3 == 0 { 4000 } else { 8 }));
        }
        assert!((7_800..=8_400).contains(&lateness.send_time().0), "{:?}", lateness.send_time());
        for _ in 0..1000 {
            lateness.learn_send_time(Nanos::micros(500));
        }
        assert_eq!(lateness.send_time(), SEND_TIME_MAX);
        for _ in 0..1000 {
            lateness.learn_send_time(Nanos::ZERO);
        }
        assert!(lateness.send_time() <= SEND_TIME_STEP);
    }

    #[test]
    fn a_host_keeps_up_by_what_it_adds_to_the_modelled_times() {
        let mut lateness = Lateness::new("1/2".parse().expect("a scale"));
        assert_eq!(lateness.figures().kept_up_percent, None);
        // 30 us of the drive are 60 us here; early answers add nothing.
        for (starved, sent) in [(Nanos::ZERO, 29), (Nanos::ZERO, 30), (Nanos::micros(20), 35)] {
            lateness.begin_answer(Nanos::micros(30), Nanos::micros(30), starved, || Nanos::ZERO);
            lateness.end_iteration(|| Nanos::micros(sent));
        }
        let kept = lateness.figures().kept_up_percent.expect("answers");
        assert!((kept - 100.0 * 180.0 / 210.0).abs() < 0.01, "{kept}");
        assert_eq!(lateness.kept_up_lately(), None, "three answers say nothing");
        for _ in 0..LATELY_MIN {
            lateness
                .begin_answer(Nanos::micros(30), Nanos::micros(30), Nanos::ZERO, || Nanos::ZERO);
            lateness.end_iteration(|| Nanos::micros(60));
        }
        assert_eq!(lateness.kept_up_lately(), Some(50.0));
        assert_eq!(lateness.kept_up_lately(), None);
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
        assert_eq!((lateness.count, lateness.late), (61, 1));
    }
}
