//! Times of a synthesized trace: arrivals of a group, the recorded drive's response times, gaps and
//! pauses.
//!
//! The recorded drive serves one I/O after the other, so a group's last I/O ends after the sum of
//! their times. It is followed by a gap, in which the host computes, or by a pause, in which it
//! waits for a person. Both are exponentially distributed and drawn in whole numbers, so that every
//! platform draws the same.

use drivebay_units::{Nanos, Rng};

use super::profile::{Phase, Profile};

#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub spacing_ns: u64,
    fixed_ns: u64,
    /// Femtoseconds per byte, because a rate in MB/s is rarely whole nanoseconds per byte.
    fs_per_byte: u64,
    idle_ns_max: u64,
    gap_us: f64,
    pauses: f64,
    gap_ns: u64,
    pauses_per_10000: u64,
    pause_ns: u64,
    pub now: Nanos,
    rng: Rng,
}

impl Timing {
    pub(crate) fn new(profile: &Profile, rng: Rng) -> Timing {
        let chosen = &profile.chosen;
        Timing {
            spacing_ns: chosen.spacing_ns,
            fixed_ns: (chosen.recorded_us * 1e3).round() as u64,
            fs_per_byte: (1e9 / chosen.recorded_mb_per_s).round() as u64,
            idle_ns_max: profile.published.idle_ms_max * 1_000_000,
            gap_us: chosen.gap_us,
            pauses: chosen.pauses_per_10000 as f64,
            gap_ns: 0,
            pauses_per_10000: 0,
            pause_ns: (chosen.pause_ms * 1e6).round() as u64,
            now: Nanos::ZERO,
            rng,
        }
    }

    pub(crate) fn begin_phase(&mut self, phase: &Phase) {
        self.gap_ns = (self.gap_us * phase.gaps * 1e3).round() as u64;
        self.pauses_per_10000 = (self.pauses * phase.pauses).round() as u64;
    }

    /// Service time of the recorded drive for `bytes` bytes.
    #[inline]
    pub(crate) fn service_ns(&self, bytes: u64) -> u64 {
        self.fixed_ns + bytes * self.fs_per_byte / 1_000_000
    }

    /// Ends the group at `end`; the next one comes after a gap or a pause.
    #[inline]
    pub(crate) fn idle_after(&mut self, end: u64) {
        let pause = self.rng.below(10_000) < self.pauses_per_10000;
        let mean = if pause { self.pause_ns } else { self.gap_ns };
        let idle = exponential(mean, self.rng.next_u64()).min(self.idle_ns_max);
        self.now = Nanos(end + idle);
    }
}

/// Returns an exponentially distributed number: -ln u, from the leading zeros as the whole part of
/// -log2 u, and linear interpolation between; its mean is exact, and its error is within 9 %
/// everywhere.
#[inline]
fn exponential(mean: u64, random: u64) -> u64 {
    let random = random | 1;
    let zeros = random.leading_zeros();
    // The 32 bits after the leading one, from 0 to 1 as a fraction of 2^32.
    let rest = (random << zeros << 1) >> 32;
    let minus_log2 = (u64::from(zeros) << 32) + (1 << 32) - rest;
    // With the linear interpolation, the mean of -log2 u is 1.5.
    ((u128::from(minus_log2) * u128::from(mean) * 2 / 3) >> 32) as u64
}

#[cfg(test)]
#[path = "../../tests/unit/synth_timing.rs"]
mod tests;
