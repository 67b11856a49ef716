//! How long a read waits for the program or erase that it suspends, where one longest wait does not describe it.
//!
//! Sources: an array operation is a row of pulses and verifications, and stops between two of them (Wu and He, FAST
//! 2012); erases take longer to stop than programs, and their pulses are long (Kim et al., ATC 2019). Model: the wait
//! for a program is drawn from the exponential distribution, up to the profile's longest: of all distributions
//! with a given mean the one that assumes least, and no maker publishes its own. The wait for an erase is what is left of
//! a pulse: anything up to the longest is as likely. A draw is a hash of the time and the die.
//! Not modelled: that an operation which was suspended too often is finished first, and what going on costs.

use drivebay_units::Nanos;

use crate::persist::persist;
use crate::spec::SuspensionSpec;

/// Draws in the table: the longest wait for a program is 7.6 means.
const DRAWS: usize = 1024;

/// Waits by what is suspended.
pub struct Suspension {
    /// Quantiles of the wait for a program; all the same without a mean.
    program: Box<[Nanos; DRAWS]>,
    /// Longest wait for an erase; as for a program if there is none.
    erase: Option<Nanos>,
    /// By die: number of its newest erase.
    erases: Vec<u32>,
}

persist!(Suspension: erases; given: program, erase);

impl Suspension {
    /// `longest`: wait for a program.
    pub fn new(spec: SuspensionSpec, longest: Nanos, dies: u32) -> Suspension {
        let quantile = |i: usize| {
            let part = (i as f64 + 0.5) / DRAWS as f64;
            spec.mean.map_or(longest, |mean| {
                Nanos((mean.0 as f64 * -part.ln()).round() as u64).min(longest)
            })
        };
        Suspension {
            program: Box::new(std::array::from_fn(quantile)),
            erase: spec.erase,
            erases: vec![0; dies as usize],
        }
    }

    /// A die's newest erase has this number among its programs and erases.
    pub fn note_erase(&mut self, die: u32, number: u32) {
        self.erases[die as usize] = number;
    }

    /// The wait of a read that comes to a die at `at`, while the write with this number runs.
    #[inline]
    pub fn wait(&self, die: u32, at: Nanos, number: u32) -> Nanos {
        let key = at.0 ^ (u64::from(die) << 48);
        // Multiply, fold, multiply, as for places (`variation.rs`).
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        match self.erase {
            Some(longest) if self.erases[die as usize] == number => {
                Nanos(((u128::from(mixed) * u128::from(longest.0)) >> 64) as u64)
            }
            _ => self.program[(mixed >> 54) as usize],
        }
    }
}
