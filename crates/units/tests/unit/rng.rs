//! Unit tests of `rng.rs`, with its private items in reach.

use super::*;

/// First outputs of the reference implementation of xoshiro256++ from the state 1, 2, 3, 4.
#[test]
fn reference_vector() {
    let mut rng = Rng { state: [1, 2, 3, 4] };
    let got: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
    assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
}

#[test]
fn forks_differ_and_repeat() {
    let root = Rng::new(7);
    let mut a = root.fork("workload");
    let mut b = root.fork("collection");
    let first = a.next_u64();
    assert_ne!(first, b.next_u64());
    assert_eq!(first, root.fork("workload").next_u64());
}

#[test]
fn below_stays_below_and_is_even() {
    let mut rng = Rng::new(1);
    let mut counts = [0u32; 10];
    for _ in 0..100_000 {
        counts[rng.below(10) as usize] += 1;
    }
    assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
}
