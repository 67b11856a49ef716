//! Unit tests of `synth/timing.rs`, with its private items in reach.

use super::*;

#[test]
fn exponential_in_the_mean_and_in_the_tail() {
    let mut rng = Rng::new(1);
    let draws: Vec<u64> = (0..1_000_000).map(|_| exponential(10_000, rng.next_u64())).collect();
    let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
    assert!((mean - 10_000.0).abs() < 50.0, "{mean}");
    // e^-3 = 4.98 %.
    let tail = draws.iter().filter(|&&draw| draw > 30_000).count() as f64 / 1e6;
    assert!((0.040..0.055).contains(&tail), "{tail}");
}
