//! Time of day: the feature Timestamp.
//!
//! Source: NVM Express base specification 2.0, Timestamp. It follows the drive's clock, which
//! stands still while the drive is off.

use drivebay_units::Nanos;
use serde::{Deserialize, Serialize};

/// Time of day as a host has set it, or time since the drive began.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Timestamp {
    ms: u64,
    at: Nanos,
    is_set: bool,
    /// First time since the timestamp was set at which the drive was off, for an unknown time.
    stopped: Option<Nanos>,
}

impl Timestamp {
    /// Value of the feature: milliseconds, in bit 48 a flag that the clock stood still at times,
    /// and from bit 49 on the origin.
    pub fn value(&self, now: Nanos) -> u64 {
        let ms = self.ms + now.since_or_zero(self.at).0 / 1_000_000;
        let has_stopped = self.stopped.is_some_and(|from| now >= from);
        ms & ((1 << 48) - 1) | u64::from(has_stopped) << 48 | u64::from(self.is_set) << 49
    }

    pub fn set(&mut self, ms: u64, now: Nanos) {
        *self = Timestamp { ms: ms & ((1 << 48) - 1), at: now, is_set: true, stopped: None };
    }

    /// Records that the drive has been off until now.
    pub fn stop(&mut self, now: Nanos) {
        self.stopped = self.stopped.or(self.is_set.then_some(now));
    }
}
