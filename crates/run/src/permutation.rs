//! A permutation of the blocks of a span, without memory: each is drawn once, in random order.
//!
//! Sources: M. Luby and C. Rackoff, "How to construct pseudorandom permutations from pseudorandom
//! functions", SIAM J. Computing 17 (1988), for the Feistel network, of which four rounds are
//! enough; J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, for
//! walking the cycle until the number lies in the domain. The round function is the finaliser of
//! splitmix64. fio keeps a bitmap instead and takes the next free block where it drew a used one:
//! near the end of its passes blocks follow each other in order more often than here.

use drivebay_units::{Rng, mix};

const ROUNDS: usize = 4;

/// A bijection of `0..n`.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    /// Bits of the right half; the left has as many, or one more.
    right_bits: u32,
    left_mask: u64,
    right_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// One of the bijections of `0..n`, drawn from `rng`; `n` is at least 1 and below 2^63.
    pub fn new(n: u64, rng: &mut Rng) -> Permutation {
        assert!((1..1 << 63).contains(&n), "spans are shorter");
        // At least one bit on each side; the domain is under 2 n, so the walk takes under 2 steps.
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let right_bits = bits / 2;
        Permutation {
            n,
            right_bits,
            left_mask: (1 << (bits - right_bits)) - 1,
            right_mask: (1 << right_bits) - 1,
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// Where `place`, below `n`, goes. Cost: under two walks of four rounds on average.
    #[inline(always)]
    pub fn at(&self, place: u64) -> u64 {
        let mut x = place;
        loop {
            x = self.network(x);
            if x < self.n {
                return x;
            }
        }
    }

    /// The Feistel network over all numbers of the domain's bits. The halves keep their places and
    /// change in turn, so that they may differ in length.
    #[inline(always)]
    fn network(&self, x: u64) -> u64 {
        let (mut left, mut right) = (x >> self.right_bits, x & self.right_mask);
        for pair in self.keys.chunks_exact(2) {
            left ^= mix(right ^ pair[0]) & self.left_mask;
            right ^= mix(left ^ pair[1]) & self.right_mask;
        }
        left << self.right_bits | right
    }
}

#[cfg(test)]
mod tests {
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

    /// The longest run of consecutive numbers, the mean step and the neighbours' order are those of
    /// a random order: steps from one to the next are n/3 on average, half of them upwards.
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
}
