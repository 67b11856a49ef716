//! Simulated time.

use serde::{Deserialize, Serialize};

/// A point in, or a length of, simulated time, in integer nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time, or the start of it.
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

    /// The point `len` after this one.
    #[must_use]
    pub const fn after(self, len: Nanos) -> Nanos {
        Nanos(self.0 + len.0)
    }

    /// The length from `earlier` to this point.
    ///
    /// # Panics
    /// In debug builds, when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Nanos) -> Nanos {
        debug_assert!(self.0 >= earlier.0);
        Nanos(self.0 - earlier.0)
    }

    /// The length from `earlier` to this point, zero if `earlier` is later.
    #[must_use]
    pub const fn since_or_zero(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// This length, `count` times.
    #[must_use]
    pub const fn times(self, count: u64) -> Nanos {
        Nanos(self.0 * count)
    }

    /// Whole seconds, rounded down.
    #[must_use]
    pub const fn whole_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Seconds as a float, for reports only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}
