//! Latency of answers on the host's clock, compared with the latency of the model.
//!
//! The measurement begins when a request arrives and ends when the kernel has taken its answer; it
//! excludes the client's own wake-up. To copy and send an answer takes the server a few
//! microseconds, most of it in the kernel, which wakes the client. The server measures this time
//! and begins the answer that much earlier.
//!
//! The share that a client sees lies between two figures: `kept_up_percent` excludes the time from
//! an answer to the client's next request, which is the client's wake-up and its own pause;
//! `kept_up_least_percent` attributes all of it to the host. With several requests in flight, each
//! new request is matched with the answer that has waited longest for one, as a client with that
//! queue depth would see it.

use std::collections::VecDeque;

use drivebay_units::{Histogram, Nanos};
use serde::Serialize;

/// Lateness above which an answer counts as late.
pub(crate) const LATE: Nanos = Nanos::micros(100);

/// guess: a client that sends nothing for this time after its last answer pauses; wake-ups took up
/// to 90 ms where nine programs shared two processors.
const PAUSE_MIN: Nanos = Nanos::millis(100);

/// A client that sends within this time of an answer asked again at once: the wake-ups of an
/// idle virtual machine took 17 to 50 us, and more with other programs running. guess: longer gaps
/// are its own work.
const AT_ONCE: Nanos = Nanos::micros(100);

/// Fewest answers for a judgement of the host: one percent of them is more than one that is late by
/// chance.
const LATELY_MIN: u64 = 200;

/// Longest send time that is compensated; guess: a few times the time to send 4 KiB on a virtual
/// machine of 2 cores, 7 to 17 us. Beyond it an answer is late rather than too early.
const SEND_TIME_MAX: Nanos = Nanos::micros(25);
/// Step by which each iteration with answers moves the estimate: it converges to the median,
/// independent of outliers.
const SEND_TIME_STEP: Nanos = Nanos(100);

/// Lateness of answers, microseconds of the host's clock; zeros if the server is not paced.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LatenessFigures {
    /// Number of answers.
    pub answers: u64,
    /// Mean latency of the model, microseconds of the drive's clock.
    pub modelled_us_mean: f64,
    /// Median of the absolute difference between the time of an answer and its due time.
    pub us_p50: f64,
    /// 99th percentile.
    pub us_p99: f64,
    /// 99.9th percentile.
    pub us_p999: f64,
    /// Maximum.
    pub us_max: f64,
    /// Number of answers later than `late_from_us`.
    pub late: u64,
    /// Lateness above which an answer counts as late.
    pub late_from_us: f64,
    /// Latency of the model divided by the latency of the answers, percent; missing before the
    /// first answer.
    pub kept_up_percent: Option<f64>,
    /// The same share if the time from each answer to the next request is also attributed to the
    /// host: a client that asks again at once sees at least this.
    pub kept_up_least_percent: Option<f64>,
}

/// Sums over answers; times in nanoseconds of the host's clock.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    answers: u64,
    /// Latency of the model.
    modelled: u64,
    /// Latency of the model, on the drive's clock.
    modelled_drive: u64,
    /// Latency of the answers.
    took: u64,
    /// Time from each answer to the next request.
    gaps: u64,
    /// Time from each answer to the next request, where this came at once.
    wake_ups: u64,
}

impl Sums {
    fn since(&self, before: &Sums) -> Sums {
        Sums {
            answers: self.answers - before.answers,
            modelled: self.modelled - before.modelled,
            modelled_drive: self.modelled_drive - before.modelled_drive,
            took: self.took - before.took,
            gaps: self.gaps - before.gaps,
            wake_ups: self.wake_ups - before.wake_ups,
        }
    }

    /// Latency of the model divided by the latency of the answers plus `between`, percent.
    fn kept_up(&self, between: u64) -> f64 {
        let took = self.took + between;
        (100.0 * self.modelled.max(1) as f64 / took.max(1) as f64).min(100.0)
    }
}

/// Performance of the host since the last call of [`Lateness::lately`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lately {
    /// As [`LatenessFigures::kept_up_percent`].
    pub kept_up_percent: f64,
    /// Mean latency of the model, on the drive's clock.
    pub modelled: Nanos,
    /// Mean excess of an answer's latency, plus the wake-ups of a client that asks again at once,
    /// on the host's clock.
    pub more: Nanos,
    /// 99th percentile of the lateness of answers, on the host's clock.
    pub late_p99: Nanos,
}

/// Answer that is being sent; times on the host's clock.
struct Answer {
    arrived: Nanos,
    modelled: Nanos,
}

/// Lateness of all answers so far, and the expected send time of the next.
#[derive(Default)]
pub(crate) struct Lateness {
    histogram: Histogram,
    late: u64,
    longest: u64,
    /// Lateness of answers since the start of the current judgement period.
    lately: Histogram,
    sums: Sums,
    /// Sums at the start of the current judgement period.
    before: Sums,
    /// Expected send time on the host's clock.
    send_time: Nanos,
    /// Answers of this iteration.
    answers: Vec<Answer>,
    /// Due time of the last answer of this iteration, on the drive's clock.
    due: Nanos,
    /// Start of the first answer of this iteration, on the host's clock.
    begun: Nanos,
    /// Send times of answers that no request has followed yet, oldest first.
    unfollowed: VecDeque<Nanos>,
}

impl Lateness {
    /// Time before its due time at which an answer is begun, on the host's clock.
    #[inline]
    pub fn send_time(&self) -> Nanos {
        self.send_time
    }

    /// Counts a request that arrived at this time of the host's clock.
    #[inline]
    pub fn request(&mut self, arrived: Nanos) {
        let from = self.unfollowed.pop_front();
        let gap = from.map_or(Nanos::ZERO, |from| arrived.since_or_zero(from));
        self.sums.gaps += if gap < PAUSE_MIN { gap.0 } else { 0 };
        self.sums.wake_ups += if gap < AT_ONCE { gap.0 } else { 0 };
    }

    /// Records that at `now` an answer is begun, which is due at `due` on the drive's clock. Its
    /// request arrived at `arrived` on the host's clock; `modelled` is the model's latency on the
    /// drive's and on the host's clock.
    pub fn begin_answer(&mut self, due: Nanos, arrived: Nanos, modelled: [Nanos; 2], now: Nanos) {
        if self.answers.is_empty() {
            (self.begun, self.due) = (now, due);
        }
        self.due = self.due.max(due);
        self.sums.modelled_drive += modelled[0].0;
        self.answers.push(Answer { arrived, modelled: modelled[1] });
    }

    /// Drops the answers of this iteration, which will not be sent.
    pub fn drop_answers(&mut self) {
        self.answers.clear();
        self.unfollowed.clear();
    }

    /// Records that the kernel has taken the answers of this iteration. Returns the time, and the
    /// due time of the last answer on the drive's clock; `None` if there were no answers.
    pub fn end_iteration(&mut self, now: impl FnOnce() -> Nanos) -> Option<(Nanos, Nanos)> {
        if self.answers.is_empty() {
            return None;
        }
        let now = now();
        self.learn_send_time(now.since_or_zero(self.begun));
        let mut answers = std::mem::take(&mut self.answers);
        for answer in answers.drain(..) {
            self.record(&answer, now);
            self.unfollowed.push_back(now);
        }
        // The clients of these answers have paused.
        while self.unfollowed.front().is_some_and(|&from| now.since_or_zero(from) >= PAUSE_MIN) {
            self.unfollowed.pop_front();
        }
        self.answers = answers;
        Some((now, self.due))
    }

    fn learn_send_time(&mut self, took: Nanos) {
        self.send_time = if took > self.send_time {
            self.send_time.after(SEND_TIME_STEP).min(SEND_TIME_MAX)
        } else {
            self.send_time.since_or_zero(SEND_TIME_STEP)
        };
    }

    fn record(&mut self, answer: &Answer, now: Nanos) {
        let (took, modelled) = (now.since_or_zero(answer.arrived), answer.modelled);
        let by = took.0.abs_diff(modelled.0);
        self.histogram.record(by);
        self.longest = self.longest.max(by);
        let is_late = took > modelled && by > LATE.0;
        self.late += u64::from(is_late);
        self.lately.record(if took > modelled { by } else { 0 });
        self.sums.answers += 1;
        self.sums.modelled += modelled.0;
        self.sums.took += took.0;
    }

    /// Performance of the host since the last call that returned a result; `None` while there are
    /// too few answers.
    pub fn lately(&mut self) -> Option<Lately> {
        let sums = self.sums.since(&self.before);
        (sums.answers >= LATELY_MIN).then(|| {
            self.before = self.sums;
            let more = (sums.took + sums.wake_ups).saturating_sub(sums.modelled) / sums.answers;
            let late_p99 = percentile(&std::mem::take(&mut self.lately), 990, u64::MAX);
            let modelled = Nanos(sums.modelled_drive / sums.answers);
            Lately { kept_up_percent: sums.kept_up(0), modelled, more: Nanos(more), late_p99 }
        })
    }

    pub fn figures(&self) -> LatenessFigures {
        let us = |per_mille| percentile(&self.histogram, per_mille, self.longest).0 as f64 / 1e3;
        let answers = self.sums.answers;
        let kept_up = |between| (answers > 0).then(|| self.sums.kept_up(between));
        LatenessFigures {
            answers,
            modelled_us_mean: self.sums.modelled_drive as f64 / 1e3 / answers.max(1) as f64,
            us_p50: us(500),
            us_p99: us(990),
            us_p999: us(999),
            us_max: self.longest as f64 / 1e3,
            late: self.late,
            late_from_us: LATE.0 as f64 / 1e3,
            kept_up_percent: kept_up(0),
            kept_up_least_percent: kept_up(self.sums.gaps),
        }
    }
}

/// Returns the percentile `per_mille` by nearest rank, at most 1.6 % too high and at most
/// `longest`; zero for an empty histogram.
fn percentile(histogram: &Histogram, per_mille: u64, longest: u64) -> Nanos {
    let count: u64 = histogram.bins().map(|bin| bin.count).sum();
    let rank = (count * per_mille).div_ceil(1000).max(1);
    let mut seen = 0;
    for bin in histogram.bins() {
        seen += bin.count;
        if seen >= rank {
            return Nanos((bin.high - 1).min(longest));
        }
    }
    Nanos::ZERO
}

#[cfg(test)]
#[path = "../../tests/unit/pacing_lateness.rs"]
mod tests;
