//! Parity across dies: of every stripe of flash pages one holds the parity of the others.
//!
//! Source: RAIN in makers' documents (Micron: a stripe of 15 pages and one of parity), RAISE (SandForce). Model:
//! parity takes its share of the superblocks, and of the dies' time: after the programs that fill the rest of a
//! stripe, the next die in turn programs a page of parity on all its planes, with its transfer.
//! Left out: reading a lost page from the rest of its stripe; erases of the parity's share (one in a stripe's pages).

use crate::persist::persist;

/// Where the next stripe stands.
pub struct Parity {
    /// Pages of a stripe without its parity.
    data_pages: u32,
    /// Programs of data since the last one of parity.
    data: u32,
    /// Programs of parity so far.
    programs: u32,
}

persist!(Parity: data, programs; given: data_pages);

impl Parity {
    /// Stripes of so many pages, the parity included.
    pub fn new(stripe_pages: u32) -> Parity {
        Parity { data_pages: stripe_pages - 1, data: 0, programs: 0 }
    }

    /// A die has programmed data; if that fills a stripe, the number of its parity's program.
    pub fn follow_program(&mut self) -> Option<u32> {
        self.data += 1;
        if self.data < self.data_pages {
            return None;
        }
        self.data = 0;
        // Only the place in the round of dies matters, of which there is a power of two.
        self.programs = (self.programs + 1) & 0xffff;
        Some(self.programs)
    }
}
