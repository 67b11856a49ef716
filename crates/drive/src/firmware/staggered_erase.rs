//! Staggered erases: the blocks of a superblock are erased one die after another, not all dies at once.
//!
//! Reasons in the literature: an erase takes milliseconds, and one on every die stops all writes for as long (Kim et
//! al., ATC 2019); power limits how many dies may erase together. Model: while a superblock's worth of programs
//! follows, the dies in turn erase their block, at even distances.
//! guess: the even distances; no maker has published its own.
//! Left out: that a superblock which is opened before all dies have erased waits for them; drives with an SLC
//! cache, where a superblock with one bit per cell has fewer programs.

use drivebay_units::Nanos;

use crate::flash::nand::Nand;
use crate::persist::{StateError, ensure, persist};
use crate::profile::Geometry;

/// Erases that are due, one die at a time.
pub struct StaggeredErase {
    /// Programs of dies from one erase to the next.
    distance: u32,
    /// Programs of a superblock.
    superblock_programs: u32,
    /// Programs over which the erases that are ordered are still spread.
    left: u64,
    /// Programs since the newest erase, while any are ordered.
    since: u32,
    /// Dies that have erased so far.
    erases: u32,
    /// The superblock whose erase was ordered last.
    superblock: u32,
}

persist!(StaggeredErase: left, since, erases, superblock; given: distance, superblock_programs);

impl StaggeredErase {
    /// `one_in`: one erase stands for so many blocks.
    pub fn new(g: &Geometry, one_in: f64) -> StaggeredErase {
        let block_pages = g.superblock_pages >> (g.page_shift + g.plane_shift + g.die_shift);
        StaggeredErase {
            distance: (f64::from(block_pages) * one_in).round() as u32,
            superblock_programs: block_pages << g.die_shift,
            left: 0,
            since: 0,
            erases: 0,
            superblock: 0,
        }
    }

    /// A superblock is to be erased.
    pub fn order(&mut self, superblock: u32) {
        self.superblock = superblock;
        self.left += u64::from(self.superblock_programs);
    }

    /// A die was programmed at `at`: the next one may erase.
    #[inline]
    pub fn follow_program(&mut self, nand: &mut Nand, at: Nanos) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.since += 1;
        if self.since == self.distance {
            self.since = 0;
            nand.erase_block(at, self.erases, self.superblock);
            self.erases = self.erases.wrapping_add(1);
        }
    }

    /// Whether it counts what this drive can have.
    pub fn check(&self, superblocks: u32) -> Result<(), StateError> {
        let sound = self.since < self.distance && self.superblock < superblocks;
        ensure(sound && self.left < 1 << 40, "the erases that are due")
    }
}
