//! Times of the array: tR and tPROG of a flash page, tBERS of a block.
//!
//! No other file knows these times, so variation between dies, blocks, word lines and page types
//! changes this file alone. Sources: the profile's `[nand]` and `[slc_cache]`. Model: tPROG by page
//! type, and with `nand.read_by_type_us` tR too; both are those of one bit per cell in superblocks
//! of the SLC cache. Places differ as `physics/variation.rs` has it. Not modelled: change with
//! wear.

use crate::physics::variation::Variation;
use drivebay_units::{Divider, Nanos, Rng};

use crate::persist::persist;
use crate::profile::{Geometry, NandTiming, PAGE_TYPES_MAX, SlcTiming};

/// Least common multiple of one to four page types: a constant divides without a division.
const ROWS_REPEAT: u32 = 12;

/// Times by page type, repeated over rows.
type ByRow = [Nanos; ROWS_REPEAT as usize];

/// Array times of all flash pages and blocks.
pub struct Timing {
    read: Nanos,
    program_by_row: ByRow,
    erase: Nanos,
    erase_one_in: f64,
    page_types: usize,
    /// True if a word line is programmed at once, with its last page.
    one_pass: bool,
    /// A flash page's row is its number shifted by this.
    row_shift: u32,
    /// Times that one tR does not describe; absent where it does, so that such drives pay nothing
    /// for it.
    by_page: Option<Box<ByPage>>,
    variation: Option<Box<Variation>>,
}

/// Times that depend on more than the row of a program.
struct ByPage {
    read_by_row: Option<ByRow>,
    slc: Option<SlcTiming>,
    /// By superblock: used with one bit per cell now.
    is_slc: Vec<bool>,
    by_superblock: Divider,
}

persist!(Timing: by_page, variation; given: read, program_by_row, erase, erase_one_in, page_types,
    one_pass, row_shift);
persist!(ByPage: is_slc; given: read_by_row, slc, by_superblock);

impl Timing {
    pub fn new(timing: &NandTiming, geometry: &Geometry, rng: &Rng) -> Timing {
        let by_row = |types: [Nanos; PAGE_TYPES_MAX]| -> ByRow {
            std::array::from_fn(|row| types[row % timing.page_types as usize])
        };
        let superblocks = if timing.slc.is_some() { geometry.superblocks } else { 0 };
        let by_page = ByPage {
            read_by_row: timing.read_by_type.map(by_row),
            slc: timing.slc,
            is_slc: vec![false; superblocks as usize],
            by_superblock: Divider::new(geometry.superblock_pages >> geometry.page_shift),
        };
        let differs = timing.read_by_type.is_some() || timing.slc.is_some();
        Timing {
            read: timing.read,
            program_by_row: by_row(timing.program),
            erase: timing.erase,
            erase_one_in: timing.erase_one_in,
            page_types: timing.page_types as usize,
            one_pass: timing.one_pass,
            row_shift: geometry.order.type_shift,
            variation: timing.spread.map(|s| Box::new(Variation::new(s, geometry, rng))),
            by_page: differs.then(|| Box::new(by_page)),
        }
    }

    /// tR of a flash page. Cost: with page types or an SLC cache, 1 entry.
    #[inline(always)]
    pub fn read(&self, page: u32) -> Nanos {
        self.varied(page, self.usual_read(page))
    }

    /// As the page type has it.
    #[inline(always)]
    fn usual_read(&self, page: u32) -> Nanos {
        let Some(by_page) = &self.by_page else { return self.read };
        if let Some(slc) = by_page.slc(page) {
            return slc.read;
        }
        by_page.read_by_row.as_ref().map_or(self.read, |by_row| by_row[self.row(page)])
    }

    /// tPROG of a flash page.
    #[inline(always)]
    pub fn program(&self, page: u32) -> Nanos {
        if self.one_pass {
            self.program_at_once(page)
        } else {
            self.program_as(page, self.row(page))
        }
    }

    /// tPROG of a word line for its last page, zero for the pages before. One bit per cell is
    /// programmed page by page.
    #[inline(never)]
    fn program_at_once(&self, page: u32) -> Nanos {
        let row = self.row(page);
        let is_slc = self.by_page.as_ref().is_some_and(|by_page| by_page.slc(page).is_some());
        let pages = match row % self.page_types {
            _ if is_slc => 1,
            place if place + 1 < self.page_types => 0,
            _ => self.page_types,
        };
        let before = |back| (page.saturating_sub((back as u32) << self.row_shift), row - back);
        let times = (0..pages).map(before).map(|(page, row)| self.program_as(page, row).0);
        Nanos(times.sum())
    }

    /// Time to program the pages of a word line before this one, where they are programmed at once.
    pub fn word_line_before(&self, page: u32) -> Nanos {
        if self.by_page.as_ref().is_some_and(|by_page| by_page.slc(page).is_some()) {
            return Nanos::ZERO;
        }
        let row = self.row(page);
        let before = &self.program_by_row[row - row % self.page_types..row];
        Nanos(before.iter().map(|time| time.0).sum())
    }

    /// tPROG of a flash page with the firmware's own data, which it keeps in the fastest page type.
    pub fn program_metadata(&self, page: u32) -> Nanos {
        self.program_as(page, 0)
    }

    /// tBERS of a superblock's blocks on one die.
    #[inline]
    pub fn erase(&self, die: u32, superblock: u32) -> Nanos {
        let variation = self.variation.as_ref();
        variation.map_or(self.erase, |v| v.of_erase(superblock, die, self.erase))
    }

    /// Number of erases, of so many, that take their full time.
    pub fn erases_that_take_time(&self, erases: u64) -> u64 {
        (erases as f64 / self.erase_one_in) as u64
    }

    /// Mean tR, for reads of many pages of all types.
    pub fn read_nominal(&self) -> Nanos {
        self.read
    }

    /// Notes that a superblock is written from now on with one bit per cell, or with all.
    pub fn set_slc(&mut self, superblock: u32, slc: bool) {
        let modes = self.by_page.as_mut().map(|by_page| &mut by_page.is_slc);
        if let Some(mode) = modes.and_then(|modes| modes.get_mut(superblock as usize)) {
            *mode = slc;
        }
    }

    #[inline(always)]
    fn program_as(&self, page: u32, row: usize) -> Nanos {
        let slc = self.by_page.as_ref().and_then(|by_page| by_page.slc(page));
        self.varied(page, slc.map_or(self.program_by_row[row], |slc| slc.program))
    }

    /// A flash page's own time, where places differ.
    #[inline(always)]
    fn varied(&self, page: u32, usual: Nanos) -> Nanos {
        match &self.variation {
            Some(variation) => variation.of_page(page, usual),
            None => usual,
        }
    }

    #[inline(always)]
    fn row(&self, page: u32) -> usize {
        ((page >> self.row_shift) % ROWS_REPEAT) as usize
    }
}

impl ByPage {
    /// The times of a flash page that holds one bit per cell.
    #[inline]
    fn slc(&self, page: u32) -> Option<SlcTiming> {
        let slc = self.slc?;
        // A cached map's own pages may lie anywhere.
        let index = self.by_superblock.divide(page) as usize;
        (self.is_slc.get(index) == Some(&true)).then_some(slc)
    }
}
