//! Division by a number fixed at start, as one multiplication.
//!
//! Source: Granlund and Montgomery, "Division by Invariant Integers using Multiplication", PLDI
//! 1994. A 33-bit-wide reciprocal in 64-bit arithmetic is exact for every 32-bit dividend.

/// Divides 32-bit numbers by a constant chosen at run time. Cost: one multiplication, one shift.
#[derive(Clone, Copy, Debug)]
pub struct Divider {
    reciprocal: u64,
    divisor: u32,
}

impl Divider {
    /// Creates a divider by `divisor`.
    ///
    /// # Panics
    /// If `divisor` is zero or one (no drive has one-page superblocks).
    #[must_use]
    pub fn new(divisor: u32) -> Divider {
        assert!(divisor > 1, "a divider needs a divisor of at least two");
        Divider { reciprocal: u64::MAX / u64::from(divisor) + 1, divisor }
    }

    /// Returns `dividend / divisor`, rounded down.
    #[inline(always)]
    #[must_use]
    pub fn divide(self, dividend: u32) -> u32 {
        ((u128::from(self.reciprocal) * u128::from(dividend)) >> 64) as u32
    }

    /// Returns the divisor.
    #[must_use]
    pub fn divisor(self) -> u32 {
        self.divisor
    }
}

#[cfg(test)]
#[path = "../tests/unit/divide.rs"]
mod tests;
