//! `--time-scale auto`: the fastest scale that this machine keeps.
//!
//! Judged about once a second by the answers of that time (`lateness.rs`): 99 % of them in time, and the rate of the
//! drive kept within 2 %. Where that is lost the scale falls at once; after some seconds in which it held, the next
//! faster one is tried, and after each trial that is lost at once, half as often (as TCP's additive increase and
//! multiplicative decrease, Chiu and Jain 1989, and exponential backoff). It is never faster than the drive itself.
//! The client's own time is not judged, as it may be a pause; that no answer but one in a hundred is late by a fourth makes
//! latencies so long that wake-ups of a client, which are as late as the server's, are a small part of them.

use crate::lateness::Lately;

/// Share of answers that must be in time, percent.
const IN_TIME_MIN: f64 = 99.0;
/// Share of the drive's rate that must be kept, percent.
const KEPT_UP_MIN: f64 = 98.0;
/// Share of answers in time below which a step down is the largest, percent. guess.
const IN_TIME_BAD: f64 = 95.0;
/// guess: a step down halves at most, a step up is smaller than the smallest down.
const STEPS_DOWN: std::ops::RangeInclusive<f64> = 0.5..=0.8;
const STEP_UP: f64 = 1.2;
/// Judgements for which a scale must have held before a faster one is tried: at first, and at most. guess: seconds to
/// a minute or so.
const CALM: std::ops::RangeInclusive<u32> = 4..=64;
/// A trial that is lost within so many judgements is repeated half as often.
const TRIAL: u32 = 3;
/// Slowest that is looked for. guess: there a drive of 100 us answers ten times a second.
const SLOWEST: f64 = 1e-3;

/// What is known of the scales tried so far.
#[derive(Debug)]
pub(crate) struct AutoScale {
    /// Judgements since the scale changed.
    held: u32,
    /// For how many it must hold before a faster one is tried.
    calm: u32,
    /// The present scale is a trial.
    is_trial: bool,
}

impl Default for AutoScale {
    fn default() -> AutoScale {
        AutoScale { held: 0, calm: *CALM.start(), is_trial: false }
    }
}

impl AutoScale {
    /// The scale from now on, if another than `scale`.
    pub fn judge(&mut self, scale: f64, lately: &Lately) -> Option<f64> {
        let kept_up = lately.kept_up_percent;
        self.held += 1;
        let is_lost = kept_up < KEPT_UP_MIN || lately.in_time_percent < IN_TIME_MIN;
        let next = if is_lost {
            if self.is_trial && self.held <= TRIAL {
                self.calm = (2 * self.calm).min(*CALM.end());
            }
            let is_bad = lately.in_time_percent < IN_TIME_BAD;
            let least = if is_bad { *STEPS_DOWN.start() } else { *STEPS_DOWN.end() };
            let step = (kept_up / 100.0).clamp(*STEPS_DOWN.start(), least);
            (scale * step).max(SLOWEST)
        } else if self.held >= self.calm {
            if self.is_trial {
                self.calm = (self.calm / 2).max(*CALM.start());
            }
            (scale * STEP_UP).min(1.0)
        } else {
            scale
        };
        if next == scale {
            return None;
        }
        (self.held, self.is_trial) = (0, next > scale);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a machine that keeps up to `limit` ends after so many judgements, and how often it was late.
    fn found(limit: f64, judgements: u32) -> (f64, u32) {
        let (mut auto, mut scale, mut lost) = (AutoScale::default(), 1.0, 0);
        for _ in 0..judgements {
            let kept_up_percent = (100.0 * limit / scale).min(100.0);
            lost += u32::from(kept_up_percent < KEPT_UP_MIN);
            let lately = Lately { kept_up_percent, in_time_percent: 100.0 };
            scale = auto.judge(scale, &lately).unwrap_or(scale);
        }
        (scale, lost)
    }

    #[test]
    fn it_finds_what_the_machine_keeps_and_seldom_tries_more() {
        for limit in [1.0, 0.3, 0.05, 0.011] {
            let (scale, lost) = found(limit, 600);
            assert!(scale <= 1.25 * limit && scale >= limit / 1.6, "{limit}: {scale}");
            assert!(lost < 30, "{limit}: {lost} of 600");
        }
        assert_eq!(found(2.0, 100).0, 1.0);
        assert_eq!(found(1e-9, 100).0, SLOWEST);
    }

    #[test]
    fn late_answers_alone_slow_it_too() {
        let late = Lately { kept_up_percent: 100.0, in_time_percent: 98.0 };
        assert_eq!(AutoScale::default().judge(1.0, &late), Some(0.8));
        let bad = Lately { in_time_percent: 90.0, ..late };
        assert_eq!(AutoScale::default().judge(1.0, &bad), Some(0.5));
    }
}
