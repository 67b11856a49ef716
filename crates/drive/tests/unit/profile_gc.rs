//! Unit tests of `profile/gc.rs`, with its private items in reach.

use super::*;

#[test]
fn gain_and_duty_limit_grow_as_space_shrinks() {
    let pacing = PacingSpec::new(1000, 200, (0.5, 3.0), 20.0, 1);
    // Slopes are truncated: a gain is exact to 1/256.
    let near = |got: u64, expected: u64| assert!(got.abs_diff(expected) <= 1, "{got}");
    for (free, gain) in [(2000, 128), (1000, 128), (600, 192), (200, 256), (100, 512), (0, 768)] {
        near(pacing.gain_256(free), gain);
    }
    for (free, limit) in [(1000, 256), (200, 256), (100, 2688), (0, 5120)] {
        near(pacing.duty_256(free), limit);
    }
}
