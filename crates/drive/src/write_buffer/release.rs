//! Places of the write buffer that come free in the order in which programs end, whatever order they were taken in.
//!
//! A die's programs end one after another, so the next to end is the first of one of the dies. Where a die programs the
//! pages of a word line at once (one-pass programming), their data stays until the last of them is done.
//! Source: one-pass programming of TLC in 3D (Micheloni, "3D Flash Memories", 2016). guess: when a drive's firmware frees
//! what; no maker has published its own. Left out: a word line that a superblock's end or a power cut leaves short; the
//! die's next programs count with it.

use std::collections::VecDeque;

use drivebay_units::Nanos;

use crate::nand::{Nand, Ticket};
use crate::persist::{StateError, ensure, persist};
use crate::spec::BufferRelease;
use crate::timeline::NEVER;

/// Programs whose places have not come free, by die.
pub struct Release {
    /// Each program, and how many places it gives back.
    dies: Vec<VecDeque<(Ticket, u32)>>,
    /// Programs of a die that give their places back together.
    together: usize,
    /// Places that have come free so far, or will at a time that is known.
    freed: u64,
    /// When the newest of them does.
    freed_at: Nanos,
}

persist!(Release: dies, freed, freed_at; given: together);

impl Release {
    pub fn new(release: BufferRelease) -> Release {
        Release {
            dies: (0..release.dies).map(|_| VecDeque::new()).collect(),
            together: release.programs as usize,
            freed: 0,
            freed_at: Nanos::ZERO,
        }
    }

    /// A die was given a program that takes the data of so many places.
    pub fn note_program(&mut self, die: u32, program: Ticket, places: u32) {
        self.dies[die as usize].push_back((program, places));
    }

    /// When so many places have come free; the end of time if that takes programs not yet given to flash. Cost: 1 step
    /// per die where another must come free.
    pub fn freed_at(&mut self, places: u64, nand: &Nand) -> Nanos {
        while self.freed < places {
            let last = self.together - 1;
            let ends = |programs: &VecDeque<(Ticket, u32)>| {
                programs.get(last).map_or(NEVER, |&(program, _)| nand.end_of(program))
            };
            let (end, die) = (self.dies.iter().enumerate())
                .map(|(die, programs)| (ends(programs), die))
                .min()
                .expect("a drive has dies");
            if end == NEVER {
                return NEVER;
            }
            let given_back = self.dies[die].drain(..self.together);
            self.freed += given_back.map(|(_, places)| u64::from(places)).sum::<u64>();
            self.freed_at = self.freed_at.max(end);
        }
        self.freed_at
    }

    /// All is lost or programmed: so many places have come free.
    pub fn restart(&mut self, places: u64) {
        self.dies.iter_mut().for_each(VecDeque::clear);
        (self.freed, self.freed_at) = (places, Nanos::ZERO);
    }

    /// Whether its programs can be known to the flash, for `taken` places.
    pub fn check(&self, taken: u64, nand: &Nand) -> Result<(), StateError> {
        let programs = || self.dies.iter().flatten();
        let known =
            programs().all(|&(program, _)| !program.is_none() && nand.end_of(program) < NEVER);
        let places = programs().map(|&(_, places)| u64::from(places)).sum::<u64>();
        ensure(known && self.freed.saturating_add(places) <= taken, "places of the write buffer")
    }
}
