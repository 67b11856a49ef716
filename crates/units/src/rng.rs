//! The seeded generator: xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64.
//!
//! It is frozen: the same seed gives the same numbers on every platform and in every version. Each
//! part of a run draws from its own stream (`fork`), so an additional draw in one part does not
//! affect the others. A random number that belongs to an address or a time, rather than to the next
//! draw, is a hash of it (`mix`, `mix_upper`). Left out: rejection in `below`; its bias is under n
//! / 2^64, far below the resolution of any run.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

fn splitmix64(x: &mut u64) -> u64 {
    *x = x.wrapping_add(GOLDEN_RATIO);
    mix(*x)
}

/// 2^64 over the golden ratio.
const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash with all bits well mixed: the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA
/// 2014).
#[must_use]
#[inline(always)]
pub fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A cheaper hash whose upper half is well mixed: multiply, xor with the upper half, multiply.
#[must_use]
#[inline(always)]
pub fn mix_upper(key: u64) -> u64 {
    let mixed = key.wrapping_mul(GOLDEN_RATIO);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

impl Rng {
    /// Creates the stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        Rng { state: std::array::from_fn(|_| splitmix64(&mut x)) }
    }

    /// Returns an independent stream for the part called `name`; this stream does not advance.
    #[must_use]
    pub fn fork(&self, name: &str) -> Rng {
        // FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        Rng::new(self.state[0] ^ self.state[3].rotate_left(17) ^ hash)
    }

    /// Returns the state of the stream.
    #[must_use]
    pub fn state(&self) -> [u64; 4] {
        self.state
    }

    /// Restores a stream from its state; `None` for all zeros, which is not a valid state.
    #[must_use]
    pub fn from_state(state: [u64; 4]) -> Option<Rng> {
        (state != [0; 4]).then_some(Rng { state })
    }

    /// Returns the next 64 bits.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a uniform number in `0..n`; zero if `n` is zero. Cost: one draw, one multiplication.
    #[inline(always)]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
#[path = "../tests/unit/rng.rs"]
mod tests;
