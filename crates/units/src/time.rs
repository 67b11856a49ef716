//! Simulated time.

use serde::{Deserialize, Serialize};

/// A point in simulated time, or a duration, in integer nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero duration, or the origin of time.
    pub const ZERO: Nanos = Nanos(0);

    /// `us` microseconds.
    #[must_use]
    pub const fn micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// `s` seconds.
    #[must_use]
    pub const fn secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// Returns the time `len` after this one.
    #[must_use]
    pub const fn after(self, len: Nanos) -> Nanos {
        Nanos(self.0 + len.0)
    }

    /// Returns the duration from `earlier` to this time.
    ///
    /// # Panics
    /// In debug builds, if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Nanos) -> Nanos {
        debug_assert!(self.0 >= earlier.0);
        Nanos(self.0 - earlier.0)
    }

    /// Returns the duration from `earlier` to this time; zero if `earlier` is later.
    #[must_use]
    pub const fn since_or_zero(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns this duration multiplied by `count`.
    #[must_use]
    pub const fn times(self, count: u64) -> Nanos {
        Nanos(self.0 * count)
    }

    /// Returns whole seconds, rounded down.
    #[must_use]
    pub const fn whole_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Returns seconds as a float, for reports only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}
