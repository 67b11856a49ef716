//! Erasing and overwriting everything.

use drivebay_units::Nanos;

use super::BackEnd;
use crate::timeline::NEVER;

impl BackEnd {
    /// Asks the dies for all that waits, erases as well.
    fn settle(&mut self) {
        while self.path.next_at() < NEVER {
            self.start_next();
        }
    }

    /// Forgets all data, in no time. `erase`: erases the flash as well, else it is erased when it
    /// is used again.
    pub fn forget_all(&mut self, erase: bool) {
        self.settle();
        self.ftl.forget_all(erase);
        self.path.forget_all();
        self.map.forget();
        self.replace(0, self.geometry.user_pages);
    }

    /// Erases all that is not erased, from `from` on; returns when that is done.
    pub fn erase_blocks(&mut self, from: Nanos) -> Nanos {
        self.settle();
        for index in self.ftl.superblocks_to_erase() {
            self.path.nand.erase_superblock(from, index);
        }
        self.path.nand.idle_at().max(from)
    }

    /// Time to program a whole superblock.
    pub fn program_time(&self) -> Nanos {
        let pages = self.geometry.superblock_pages >> self.geometry.page_shift;
        self.path.nand.program_times(0, pages).into_iter().fold(Nanos::ZERO, Nanos::max)
    }

    /// Writes a superblock so often with a pattern, erased before each time, from `from` on, as
    /// pages with as many bits per cell as it has now; returns when all that was asked so far is
    /// done. Its data is still mapped, whatever it holds then.
    pub fn overwrite(&mut self, from: Nanos, index: u32, passes: u32) -> Nanos {
        self.settle();
        let Some((pages, erases)) = self.ftl.overwrite(index, passes) else { return from };
        let first = index * self.geometry.superblock_pages;
        let times = self
            .path
            .nand
            .program_times(first >> self.geometry.page_shift, pages >> self.geometry.page_shift);
        for pass in 0..passes {
            if pass >= passes - erases {
                self.path.nand.erase_superblock(from, index);
            }
            self.path.nand.program_all(from, &times);
            self.space.padded_pages += u64::from(pages);
        }
        self.path.nand.idle_at().max(from)
    }
}
