//! Space that the drive keeps or wastes: reserve, spare superblocks, padding, and the end of life.

use crate::persist::{StateError, ensure, persist};
use crate::profile::{Geometry, Spec};

/// Reserve, padding, and whether the flash is worn out.
pub struct Space {
    geometry: Geometry,
    /// Free superblocks that only garbage collection may use.
    pub reserve: u32,
    /// Spare blocks of a fresh drive; none if failing is not modelled.
    pub spare_blocks: Option<u32>,
    /// True on a drive with zones, which go offline where it would become read-only.
    pub zoned: bool,
    /// True once the flash is worn out: every write is refused.
    pub read_only: bool,
    /// Pages filled with padding or parity so far.
    pub padded_pages: u64,
    /// Padding that garbage collection has not made up for.
    pub padding: u64,
}

persist!(Space: read_only, padded_pages, padding; given: geometry, reserve, spare_blocks, zoned);

impl Space {
    pub fn new(spec: &Spec) -> Space {
        Space {
            geometry: spec.geometry,
            reserve: spec.reserve_superblocks,
            spare_blocks: spec.reliability.map(|r| r.spare_blocks),
            zoned: spec.zones.is_some(),
            read_only: false,
            padded_pages: 0,
            padding: 0,
        }
    }

    /// Superblocks that a drive with so many pages for data can lose.
    pub fn spendable(&self, usable: u64) -> u64 {
        self.geometry.spendable(u64::from(self.reserve), usable)
    }

    /// Checks a state that was read back.
    pub fn check(&self) -> Result<(), StateError> {
        let counts = [self.padded_pages, self.padding];
        ensure(counts.iter().all(|&count| count < 1 << 50), "the flash's counters")
    }
}
