//! Unit tests of `permutation.rs`, with access to its private items.

use super::*;

#[test]
fn every_number_comes_once_whatever_the_length() {
    for n in (1..70).chain([1000, 4095, 4096, 4097, 65_537]) {
        let permutation = Permutation::new(n, &mut Rng::new(n));
        let mut seen = vec![false; n as usize];
        for place in 0..n {
            let to = permutation.at(place) as usize;
            assert!(!std::mem::replace(&mut seen[to], true), "{to} twice of {n}");
        }
    }
}

/// Consecutive numbers, mean step and direction of the steps match a random order: steps are n/3 on
/// average, half of them upwards.
#[test]
fn the_order_looks_random() {
    let n = 100_000;
    let permutation = Permutation::new(n, &mut Rng::new(1));
    let order: Vec<u64> = (0..n).map(|place| permutation.at(place)).collect();
    let steps = || order.windows(2).map(|w| (w[0], w[1]));
    let mean = steps().map(|(a, b)| a.abs_diff(b) as f64).sum::<f64>() / (n - 1) as f64;
    assert!((mean / (n as f64 / 3.0) - 1.0).abs() < 0.01, "{mean}");
    let up = steps().filter(|(a, b)| a < b).count() as f64 / n as f64;
    assert!((up - 0.5).abs() < 0.01, "{up}");
    let follow = steps().filter(|(a, b)| a + 1 == *b).count();
    assert!(follow < 10, "{follow} follow on; one is expected");
}

#[test]
fn two_passes_differ() {
    let mut rng = Rng::new(1);
    let (a, b) = (Permutation::new(1000, &mut rng), Permutation::new(1000, &mut rng));
    let same = (0..1000).filter(|&place| a.at(place) == b.at(place)).count();
    assert!(same < 10, "{same} of 1000 in the same place; one is expected");
}
