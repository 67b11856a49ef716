//! Places of the write buffer that come free in the order in which programs end, whatever order
//! they were taken in.
//!
//! A die's programs end one after another, so the next to end is the first of one of the dies. A
//! die programs the pages of a word line at once (one-pass programming): their data stays until the
//! last of them is done. Source: one-pass programming of TLC in 3D (Micheloni, "3D Flash Memories",
//! 2016). guess: the order and time in which a drive's firmware frees places; no maker has
//! published its own. Left out: a word line that a superblock's end or a power cut leaves short;
//! the die's next programs count with it.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

use drivebay_units::Nanos;

use crate::nand::dies::{Nand, Ticket};
use crate::persist::{StateError, ensure, persist};
use crate::profile::BufferRelease;
use crate::timeline::NEVER;

/// Programs whose places have not come free, by die.
pub struct Release {
    /// Each program, and the number of places that it frees.
    dies: Vec<VecDeque<(Ticket, u32)>>,
    /// Dies with enough programs to free some places, by the time when the last of these ended when
    /// it was looked at: not before that, as reads only move an end to later.
    next: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Programs of a die that free their places together.
    together: usize,
    /// Places that have come free so far, or will at a time that is known.
    freed: u64,
    /// Time when the newest of them comes free.
    freed_at: Nanos,
}

persist!(Release: dies, freed, freed_at; given: next, together);

impl Release {
    pub fn new(release: BufferRelease) -> Release {
        Release {
            dies: (0..release.dies).map(|_| VecDeque::new()).collect(),
            next: BinaryHeap::new(),
            together: release.programs as usize,
            freed: 0,
            freed_at: Nanos::ZERO,
        }
    }

    /// Notes a program of a flash page's die that takes the data of so many places.
    pub fn note_program(&mut self, nand: &Nand, page: u32, program: Ticket, places: u32) {
        let die = nand.geometry().die_of(page);
        let programs = &mut self.dies[die as usize];
        programs.push_back((program, places));
        if programs.len() == self.together {
            self.next.push(Reverse((nand.end_of(program), die)));
        }
    }

    /// Time when so many places have come free; the end of time if that takes programs that are not
    /// yet asked of the flash. Cost: some steps of a heap of dies where more must come free.
    pub fn freed_at(&mut self, places: u64, nand: &Nand) -> Nanos {
        while self.freed < places {
            let Some(mut first) = self.next.peek_mut() else { return NEVER };
            let Reverse((looked_at, die)) = *first;
            let programs = &mut self.dies[die as usize];
            let end = nand.end_of(programs[self.together - 1].0);
            if end > looked_at {
                *first = Reverse((end, die));
                continue;
            }
            let given_back = programs.drain(..self.together);
            self.freed += given_back.map(|(_, places)| u64::from(places)).sum::<u64>();
            self.freed_at = self.freed_at.max(end);
            match programs.get(self.together - 1) {
                Some(&(program, _)) => *first = Reverse((nand.end_of(program), die)),
                None => _ = PeekMut::pop(first),
            }
        }
        self.freed_at
    }

    /// Derives what follows from programs that were read back.
    pub fn derive(&mut self) {
        let full = |&(_, programs): &(u32, &VecDeque<_>)| programs.len() >= self.together;
        let dies = (0..).zip(&self.dies).filter(full);
        self.next = dies.map(|(die, _)| Reverse((Nanos::ZERO, die))).collect();
    }

    /// Begins anew: so many places have come free.
    pub fn restart(&mut self, places: u64) {
        self.dies.iter_mut().for_each(VecDeque::clear);
        (self.freed, self.freed_at) = (places, Nanos::ZERO);
        self.derive();
    }

    /// Checks that the flash can know its programs and that they make up all places `given` to it
    /// so far.
    pub fn check(&self, given: u64, nand: &Nand) -> Result<(), StateError> {
        let programs = || self.dies.iter().flatten();
        let known = programs().all(|&(program, _)| nand.end_of(program) < NEVER);
        let places = programs().map(|&(_, places)| u64::from(places)).sum::<u64>();
        let all = self.freed.checked_add(places) == Some(given);
        ensure(known && all, "places of the write buffer")
    }
}
