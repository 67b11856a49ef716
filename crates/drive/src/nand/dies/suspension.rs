//! Wait of a read for the program or erase that it suspends, where one longest wait does not
//! describe it.
//!
//! Sources: an array operation is a row of pulses and verifications, and stops between two of them
//! (Wu and He, FAST 2012); erases take longer to stop than programs, and their pulses are long (Kim
//! et al., ATC 2019). Model: the wait for a program is drawn from the exponential distribution, up
//! to the profile's longest: of all distributions with a given mean the one that assumes least, and
//! no maker publishes its own. The wait for an erase is the rest of a pulse: anything up to the
//! longest is as likely. A draw is a hash of the time and the die. Where the profile says so, a
//! program that a host's read suspends restarts: pulses rise step by step (ISPP), and firmware that
//! does not keep the step begins at the lowest. Its word line is programmed at once then, so that
//! the work on the pages before is done anew as well. guess: which firmware does that; no maker has
//! published its own. One that restarted too often is finished first. Not modelled: restarts of
//! erases, and other costs of going on. Reads of copies suspend without that cost: firmware can
//! have them wait.

use drivebay_units::{Nanos, mix_upper};

use crate::persist::persist;
use crate::profile::SuspensionSpec;

/// Draws in the table: the longest wait for a program is 7.6 means.
const DRAWS: usize = 1024;
/// Number of restarts after which a program is finished before a read. guess: seldom reached with
/// some hundred reads of a die a second.
const RESTARTS_MAX: u32 = 10;

/// Waits by the suspended operation.
pub struct Suspension {
    /// Quantiles of the wait for a program; all the same without a mean.
    program: Box<[Nanos; DRAWS]>,
    /// Longest wait for an erase; as for a program if there is none.
    erase: Option<Nanos>,
    /// By die: number of its newest erase.
    erases: Vec<u32>,
    /// Restarts by a ring's entry; empty where programs go on.
    restarts: Vec<Restart>,
}

persist!(Suspension: erases, restarts; given: program, erase);

/// A write that may restart.
#[derive(Clone, Copy, Debug, Default)]
struct Restart {
    /// Nanoseconds of a whole program up to this page of its word line; zero for an erase, which
    /// goes on.
    whole: u32,
    /// Number of restarts left.
    left: u32,
}

persist!(Restart: whole, left);

impl Suspension {
    /// `longest`: wait for a program; `entries`: of all dies' rings.
    pub fn new(spec: SuspensionSpec, longest: Nanos, dies: u32, entries: usize) -> Suspension {
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
            restarts: vec![Restart::default(); if spec.restarts { entries } else { 0 }],
        }
    }

    /// A die's newest erase has this number among its programs and erases, and this entry of a
    /// ring.
    pub fn note_erase(&mut self, die: u32, number: u32, entry: usize) {
        self.erases[die as usize] = number;
        self.note_program(entry, Nanos::ZERO);
    }

    /// True if programs restart.
    #[inline]
    pub fn restarts(&self) -> bool {
        !self.restarts.is_empty()
    }

    /// Notes that a ring's entry is a program now, which takes so long from the start of its word
    /// line.
    #[inline]
    pub fn note_program(&mut self, entry: usize, whole: Nanos) {
        if let Some(restart) = self.restarts.get_mut(entry) {
            let whole = u32::try_from(whole.0).unwrap_or(u32::MAX);
            *restart = Restart { whole, left: RESTARTS_MAX };
        }
    }

    /// Wait of a read that comes to a die at `at` for the write with this number and entry of a
    /// ring, and the least time that the write takes afterwards. `restarts`: programs restart.
    #[inline]
    pub fn suspend(
        &mut self,
        die: u32,
        at: Nanos,
        (number, entry): (u32, usize),
        restarts: bool,
    ) -> (Nanos, Nanos) {
        let wait = self.wait(die, at, number);
        match self.restarts.get_mut(entry) {
            Some(restart) if restarts && restart.whole > 0 => {
                if restart.left == 0 {
                    return (Nanos(u64::from(restart.whole)), Nanos::ZERO);
                }
                restart.left -= 1;
                (wait, Nanos(u64::from(restart.whole)))
            }
            _ => (wait, Nanos::ZERO),
        }
    }

    /// The wait of a read that comes to a die at `at`, while the write with this number runs.
    #[inline]
    fn wait(&self, die: u32, at: Nanos, number: u32) -> Nanos {
        let key = at.0 ^ (u64::from(die) << 48);
        let mixed = mix_upper(key);
        match self.erase {
            Some(longest) if self.erases[die as usize] == number => {
                Nanos(((u128::from(mixed) * u128::from(longest.0)) >> 64) as u64)
            }
            _ => self.program[(mixed >> 54) as usize],
        }
    }
}
