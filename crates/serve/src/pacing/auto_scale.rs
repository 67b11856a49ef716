//! `--time-scale auto`: the fastest scale that this machine can keep.
//!
//! The time that server and client add to an answer is host time and does not depend on the scale.
//! So the answers of about a second (`lateness.rs`) determine the scale at which it is a small
//! enough part of the drive's latencies: the drive's rate is kept within 2 %, and 99 % of the
//! answers are in time. If that scale is slower, the scale falls at once, at most to a half; if it
//! is faster, the scale rises, at most by a fifth. It is never faster than the drive itself. The
//! wake-ups of a client that asks again at once count as the machine's, so the client also sees the
//! rate within 2 %. A longer gap is not judged, as it may be the client's own work.

use crate::pacing::lateness::{LATE, Lately};

/// Mean time that may be added to the drive's latencies, as a share: 2 %, less [`BAND`].
const MORE_MAX: f64 = 0.018;
/// An answer is in time if its lateness is at most this part of its latency, or at most [`LATE`].
/// guess: more lateness changes its rank among all latencies.
const LATE_MAX: f64 = 0.25;
/// guess: a scale within this distance is kept.
const BAND: f64 = 0.1;
/// guess: one bad second costs only a few more.
const STEPS: std::ops::RangeInclusive<f64> = 0.5..=1.2;
/// Slowest scale. guess: there a drive with 100 us latency answers ten times a second.
const SLOWEST: f64 = 1e-3;

/// Returns the new scale, if it differs from `scale`.
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
#[path = "../../tests/unit/pacing_auto_scale.rs"]
mod tests;
