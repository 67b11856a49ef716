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
#[path = "../tests/unit/auto_scale.rs"]
mod tests;
