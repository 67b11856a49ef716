//! A permutation of the blocks of a span that needs no memory: each block once, in random order.
//!
//! Sources: M. Luby and C. Rackoff, "How to construct pseudorandom permutations from pseudorandom
//! functions", SIAM J. Computing 17 (1988), for the Feistel network, of which four rounds are
//! enough; J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, for
//! walking the cycle until the number lies in the domain. The round function is the finaliser of
//! splitmix64. fio keeps a bitmap instead and takes the next free block if the drawn one is used:
//! near the end of its passes, consecutive blocks follow each other more often than here.

use drivebay_units::{Rng, mix};

const ROUNDS: usize = 4;

/// A bijection of `0..n`.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    /// Bits of the right half; the left half has as many, or one more.
    right_bits: u32,
    left_mask: u64,
    right_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Draws a bijection of `0..n` from `rng`; `n` is at least 1 and below 2^63.
    pub fn new(n: u64, rng: &mut Rng) -> Permutation {
        assert!((1..1 << 63).contains(&n), "spans are shorter");
        // At least one bit per half. The domain is under 2 n, so a walk takes fewer than 2 steps on
        // average.
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

    /// Image of `place`, which is below `n`. Cost: under two walks of four rounds on average.
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

    /// Feistel network over all numbers with the domain's bits. The halves stay in place and change
    /// alternately, so that they may differ in length.
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
#[path = "../tests/unit/permutation.rs"]
mod tests;
