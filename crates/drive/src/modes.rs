//! Times of flash that differ from place to place: tR by page type, and superblocks with one bit per cell.
//!
//! Absent where neither is so: then one time holds for all reads, and one for each row's programs.

use drivebay_units::{Divider, Nanos};

use crate::nand::ROWS_REPEAT;
use crate::persist::persist;
use crate::spec::{Geometry, NandTiming, SlcTiming};

/// What times depend on besides the row of a program.
pub struct Modes {
    /// tR by row, if page types differ in it, repeated to a length that all counts of page types divide.
    read_by_row: Option<[Nanos; ROWS_REPEAT as usize]>,
    /// A flash page's row is its number shifted by this.
    row_shift: u32,
    /// Times with one bit per cell.
    slc: Option<SlcTiming>,
    /// By superblock: one bit per cell.
    is_slc: Vec<bool>,
    by_superblock: Divider,
}

persist!(Modes: is_slc; given: read_by_row, row_shift, slc, by_superblock);

impl Modes {
    /// None if times do not differ.
    pub fn new(timing: &NandTiming, geometry: &Geometry) -> Option<Modes> {
        if timing.read_by_type.is_none() && timing.slc.is_none() {
            return None;
        }
        let superblocks = if timing.slc.is_some() { geometry.superblocks } else { 0 };
        Some(Modes {
            read_by_row: timing
                .read_by_type
                .map(|read| std::array::from_fn(|row| read[row % timing.page_types as usize])),
            row_shift: geometry.die_shift + geometry.plane_shift,
            slc: timing.slc,
            is_slc: vec![false; superblocks as usize],
            by_superblock: Divider::new(geometry.superblock_slots >> geometry.page_shift),
        })
    }

    /// A superblock is written from now on with one bit per cell, or with all.
    pub fn set(&mut self, superblock: u32, slc: bool) {
        if let Some(mode) = self.is_slc.get_mut(superblock as usize) {
            *mode = slc;
        }
    }

    /// The times of a flash page that holds one bit per cell.
    #[inline]
    fn slc(&self, page: u32) -> Option<SlcTiming> {
        // A cached map's own pages may lie anywhere.
        let index = self.by_superblock.divide(page) as usize;
        self.slc.filter(|_| self.is_slc.get(index) == Some(&true))
    }

    /// tR of a flash page, where `usual` is the drive's.
    #[inline]
    pub fn read(&self, page: u32, usual: Nanos) -> Nanos {
        if let Some(slc) = self.slc(page) {
            return slc.read;
        }
        self.read_by_row
            .as_ref()
            .map_or(usual, |by_row| by_row[((page >> self.row_shift) % ROWS_REPEAT) as usize])
    }

    /// tPROG of a flash page, where `by_row` is its row's.
    #[inline]
    pub fn program(&self, page: u32, by_row: Nanos) -> Nanos {
        self.slc(page).map_or(by_row, |slc| slc.program)
    }
}
