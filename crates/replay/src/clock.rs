//! Clock of a replay: monotonic time since its start.

use std::time::Instant;

use drivebay_units::Nanos;

/// Source of time; tests have their own.
pub trait Clock {
    /// Time since the clock was created.
    fn now(&self) -> Nanos;
}

/// CLOCK_MONOTONIC, which `Instant` reads on Linux.
#[derive(Debug)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Monotonic {
        Monotonic(Instant::now())
    }
}

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Nanos {
        // 2^64 ns are 584 years.
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
}
