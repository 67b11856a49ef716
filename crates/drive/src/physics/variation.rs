//! Variation of flash times between blocks and between pages.
//!
//! Sources: pages and blocks of a chip differ in their times, and keep them (Grupp et al., MICRO
//! 2009); the profile specifies by how much. Model: the number of a place and the drive's seed
//! determine its deviation, which is the same at every visit; deviations of blocks and pages add
//! up. Each is the sum of four uniform bytes: close to normal, and never beyond 3.5 standard
//! deviations. Slow dies are always slower by a factor; the drive's seed determines them. Not
//! modelled: change with wear. Effect: worn drives program a little too slowly.

use drivebay_units::{Divider, Nanos, Rng, mix_upper};

use crate::persist::persist;
use crate::profile::{Geometry, Spread};

/// Times by place.
pub struct Variation {
    spread: Spread,
    seed: u64,
    by_superblock: Divider,
    geometry: Geometry,
    /// The first of the slow dies, their number and their times in 1/256.
    slow: (u32, u32, u64),
}

persist!(Variation: seed; given: spread, by_superblock, geometry, slow);

impl Variation {
    /// Creates the deviations of the drive with this generator.
    pub fn new(spread: Spread, geometry: &Geometry, rng: &Rng) -> Variation {
        let slow = spread.slow_dies.map_or((0, 0, 256), |slow| {
            let first = rng.fork("slow dies").below(u64::from(geometry.dies())) as u32;
            (first, slow.dies, slow.time_256)
        });
        Variation {
            spread,
            slow,
            seed: rng.fork("nand").next_u64(),
            by_superblock: Divider::new(geometry.superblock_pages >> geometry.page_shift),
            geometry: *geometry,
        }
    }

    /// Time to read or program a flash page whose nominal time is `len`.
    #[inline(always)]
    pub fn of_page(&self, page: u32, len: Nanos) -> Nanos {
        let die = self.geometry.die_of(page);
        let block = self.draw(self.by_superblock.divide(page), die);
        let own = self.draw(page, u32::MAX);
        self.on_die(die, scaled(len, block * self.spread.block + own * self.spread.page))
    }

    /// Time to erase a die's block whose nominal time is `len`.
    #[inline]
    pub fn of_erase(&self, superblock: u32, die: u32, len: Nanos) -> Nanos {
        self.on_die(die, scaled(len, self.draw(superblock, die) * self.spread.erase))
    }

    /// Time on a die of an operation with nominal time `len`; longer if the die is slow.
    #[inline(always)]
    fn on_die(&self, die: u32, len: Nanos) -> Nanos {
        let (first, count, time_256) = self.slow;
        if count == 0 {
            return len;
        }
        let from_first = die.wrapping_sub(first) & (self.geometry.dies() - 1);
        if from_first < count { Nanos((len.0 * time_256) >> 8) } else { len }
    }

    /// Deviation of a place, around zero.
    #[inline(always)]
    fn draw(&self, place: u32, scope: u32) -> i64 {
        let key = self.seed ^ (u64::from(scope) << 32 | u64::from(place));
        // Sum of the four upper bytes, added in pairs in halves of a word.
        let bytes = mix_upper(key) >> 32;
        let halves = (bytes & 0x00FF_00FF) + ((bytes >> 8) & 0x00FF_00FF);
        ((halves + (halves >> 16)) & 0xFFFF) as i64 - 510
    }
}

#[inline(always)]
fn scaled(len: Nanos, by: i64) -> Nanos {
    Nanos((len.0 as i64 + ((len.0 as i64 * by) >> 24)) as u64)
}
