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
mod tests {
    use super::*;

    #[test]
    fn equals_plain_division_at_the_edges() {
        for divisor in [2, 3, 5, 64, 255, 256, 257, 131_072, 147_456, u32::MAX] {
            let fast = Divider::new(divisor);
            for base in [0, 1, divisor / 2, divisor - 1, divisor, u32::MAX - 1, u32::MAX] {
                for delta in 0..3u32 {
                    let n = base.saturating_sub(delta);
                    assert_eq!(fast.divide(n), n / divisor, "{n} / {divisor}");
                }
            }
            let mut rng = crate::Rng::new(u64::from(divisor));
            for _ in 0..10_000 {
                let n = rng.below(1 << 32) as u32;
                assert_eq!(fast.divide(n), n / divisor, "{n} / {divisor}");
            }
        }
    }
}
