//! Unit tests of `sprandom.rs`, with access to its private items.

use super::*;

#[test]
fn a_pass_writes_each_block_and_has_the_announced_length() {
    for (blocks, spare) in [(1, 0.07), (99, 0.3), (5_000, 0.07), (100_000, 0.28), (40_000, 1.0)] {
        let mut generator = Sprandom::new(blocks, spare, Rng::new(3));
        let length = Sprandom::pass_blocks(blocks, spare);
        for pass in 0..2 {
            let mut times = vec![0u32; blocks as usize];
            (0..length).for_each(|_| times[generator.next() as usize] += 1);
            assert!(times.iter().all(|&times| times > 0), "pass {pass} of {blocks} blocks");
            assert_eq!(generator.placed, blocks, "pass {pass} of {blocks} blocks is over");
        }
    }
}

/// Spans larger than any drive are refused later, with a message.
#[test]
fn a_span_larger_than_any_drive_has_a_length() {
    assert!(Sprandom::pass_blocks(u64::MAX >> 9, 1.0) > u64::MAX >> 9);
}

/// The share of a region's pages that the next region writes again equals the share of invalid
/// pages in theory: 1 / WA for the first region (the victim), none for the last, and the share of
/// the spare flash on average.
#[test]
fn regions_are_as_full_as_superblocks_in_steady_state() {
    for spare in [0.07, 0.15, 0.28] {
        let invalid: Vec<f64> =
            invalid_shares(spare).map(|share| share as f64 / (1u64 << 32) as f64).collect();
        let victim = 1.0 / (0.5 / spare + 0.7);
        assert!((invalid[0] - victim).abs() < 1e-6 && invalid[REGIONS - 1] < 1e-6);
        // Amounts in proportion to 1 / v: half of the flash lies below the geometric mean of both
        // ends.
        let middle = 1.0 - (1.0 - victim).sqrt();
        assert!((invalid[REGIONS / 2] - middle).abs() < 0.005, "{spare}: {}", invalid[REGIONS / 2]);
        assert!(invalid.windows(2).all(|pair| pair[0] > pair[1]), "{invalid:?}");
        let mean = invalid.iter().sum::<f64>() / REGIONS as f64;
        assert!((mean / (spare / (1.0 + spare)) - 1.0).abs() < 0.1, "{spare}: {mean}");
    }
}
