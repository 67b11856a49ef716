//! Unit tests of `divide.rs`, with its private items in reach.

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
