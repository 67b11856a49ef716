//! `--time-scale auto`: the fastest scale that this machine keeps.
//!
//! What server and client add to an answer is the host's time, whatever the scale. So the answers
//! of about a second (`lateness.rs`) say which scale makes it a small enough part of the drive's
//! latencies: the rate of the drive kept within 2 %, and 99 % of the answers in time. Where that is
//! slower the scale falls at once, by a half at most; where it is faster it rises, by a fifth at
//! most. It is never faster than the drive itself. The wake-ups of a client that asks again at once
//! count as the machine's: what it sees is then within 2 %, too. A longer gap is not judged, as it
//! may be the client's own work.

use crate::lateness::{LATE, Lately};

/// What may be added to the drive's latencies in the mean: 2 %, less [`BAND`].
const MORE_MAX: f64 = 0.018;
/// An answer is in time if it is late by this part of its latency at most, or by [`LATE`]. guess:
/// its place among all latencies is another then.
const LATE_MAX: f64 = 0.25;
/// guess: a scale that is so near stays.
const BAND: f64 = 0.1;
/// guess: one bad second costs a few more.
const STEPS: std::ops::RangeInclusive<f64> = 0.5..=1.2;
/// Slowest that is looked for. guess: there a drive of 100 us answers ten times a second.
const SLOWEST: f64 = 1e-3;

/// The scale from now on, if another than `scale`.
pub(crate) fn judge(scale: f64, lately: &Lately) -> Option<f64> {
    let modelled = lately.modelled.0 as f64;
    let for_rate = MORE_MAX * modelled / lately.more.0 as f64;
    let late = if lately.late_p99 > LATE { lately.late_p99.0 as f64 } else { 0.0 };
    let wanted = for_rate.min(LATE_MAX * modelled / late).clamp(SLOWEST, 1.0);
    let step = (wanted / scale).clamp(*STEPS.start(), *STEPS.end());
    let stays = (step - 1.0).abs() < BAND && wanted < 1.0 || wanted == scale;
    (!stays).then(|| (scale * step).min(1.0))
}

#[cfg(test)]
mod tests {
    use drivebay_units::Nanos;

    use super::*;

    fn lately(modelled_us: u64, more_us: u64, late_p99_us: u64) -> Lately {
        let [modelled, more, late_p99] = [modelled_us, more_us, late_p99_us].map(Nanos::micros);
        Lately { kept_up_percent: 100.0, modelled, more, late_p99 }
    }

    #[test]
    fn it_finds_what_the_machine_keeps_and_stays_there() {
        for (modelled, more, late) in [(100, 0, 0), (100, 1, 90), (20, 15, 90), (100, 1, 4_000)] {
            let (mut scale, mut changes) = (1.0, 0);
            for _ in 0..60 {
                if let Some(next) = judge(scale, &lately(modelled, more, late)) {
                    (scale, changes) = (next, changes + 1);
                }
            }
            let kept = more as f64 / (modelled as f64 / scale);
            let in_time = late <= 100 || late as f64 <= 0.28 * modelled as f64 / scale;
            assert!(kept <= 0.02 && in_time, "{scale}: {kept}");
            assert!(scale == 1.0 || kept > 0.015 || late > 100, "{scale}: no faster one: {kept}");
            assert!(changes < 12, "{changes}");
        }
    }

    #[test]
    fn a_bad_second_costs_seconds_and_no_more() {
        let (good, bad) = (lately(100, 0, 50), lately(100, 900, 90_000));
        let mut scale = judge(1.0, &bad).expect("slower");
        assert_eq!(scale, 0.5);
        let back = (0..10).position(|_| match judge(scale, &good) {
            Some(next) => std::mem::replace(&mut scale, next) == 1.0,
            None => true,
        });
        assert_eq!(back, Some(4));
        let mut scale = 1.0;
        for _ in 0..100 {
            scale = judge(scale, &bad).unwrap_or(scale);
        }
        assert_eq!(scale, SLOWEST);
    }
}
