//! The write buffer: room for data between acknowledgement and flash.
//!
//! One ring per write stream. A flash page takes the next place in the ring when its first 4 KiB
//! arrive and gives it back when its program ends; places are taken in order, so a page waits for the
//! one that is a full ring before it.
//! Not modelled: overwriting data while it is still buffered (each write takes a place of its own).

use drivebay_units::Nanos;

use crate::nand::{Nand, Ticket};

/// A ring of flash pages on their way.
pub struct Buffer {
    /// The program that gives each place back.
    programs: Vec<Ticket>,
    mask: u64,
    capacity: u64,
    next: u64,
    /// Since when the newest page has its place.
    ready: Nanos,
}

impl Buffer {
    /// Room for `capacity` flash pages.
    pub fn new(capacity: u32) -> Buffer {
        let places = (u64::from(capacity) + 1).next_power_of_two();
        Buffer {
            programs: vec![Ticket::NONE; places as usize],
            mask: places - 1,
            capacity: u64::from(capacity),
            next: 0,
            ready: Nanos::ZERO,
        }
    }

    /// Takes the next place.
    #[inline]
    pub fn take(&mut self, nand: &Nand) {
        let free_at = self.next_free_at(nand);
        assert!(
            free_at < Nanos(u64::MAX),
            "a buffer of two rows holds no page that nobody programs"
        );
        self.ready = self.ready.max(free_at);
        self.programs[(self.next & self.mask) as usize] = Ticket::NONE;
        self.next += 1;
    }

    /// Since when the newest page has its place; none before those taken earlier.
    #[inline(always)]
    pub fn ready(&self) -> Nanos {
        self.ready
    }

    /// The page with this number is given to flash by this program, unless it was before.
    #[inline]
    pub fn give_back(&mut self, page: u64, program: Ticket) {
        let entry = &mut self.programs[(page & self.mask) as usize];
        if entry.is_none() {
            *entry = program;
        }
    }

    /// Whether one of the newest pages is not yet given to flash.
    pub fn waits(&self, page: u64) -> bool {
        self.programs[(page & self.mask) as usize].is_none()
    }

    /// When the next place will be free.
    #[inline]
    pub fn next_free_at(&self, nand: &Nand) -> Nanos {
        if self.next < self.capacity {
            return Nanos::ZERO;
        }
        self.end_of(self.next - self.capacity, nand)
    }

    /// When the program of one of the newest pages ends; the end of time if it is not yet given to flash.
    #[inline(always)]
    pub fn end_of(&self, page: u64, nand: &Nand) -> Nanos {
        nand.end_of(self.programs[(page & self.mask) as usize])
    }

    /// How many pages have taken a place so far: the number of the next page.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// Whether this page can be read from the buffer at `at`.
    #[inline]
    pub fn holds(&self, page: u64, at: Nanos, nand: &Nand) -> bool {
        self.next.wrapping_sub(page) <= self.capacity && self.end_of(page, nand) > at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    #[test]
    fn a_page_waits_for_the_one_a_full_ring_before_it() {
        let text = include_str!("../../../drives/sm951-ahci-512.toml");
        let spec = Spec::from_toml(text).expect("the catalog's profile is good");
        let mut nand = Nand::new(spec.nand, &spec.geometry, 8);
        let mut buffer = Buffer::new(4);
        let mut ends = Vec::new();
        for page in 0..4 {
            buffer.take(&nand);
            let program = nand.program(Nanos::ZERO, Nanos(100 * page), page as u32, 0);
            buffer.give_back(page, program);
            ends.push(nand.end_of(program));
        }
        assert_eq!(buffer.ready(), Nanos::ZERO);
        assert!(buffer.holds(0, Nanos(ends[0].0 - 1), &nand));
        assert!(!buffer.holds(0, ends[0], &nand));
        assert_eq!(buffer.next_free_at(&nand), ends[0]);
        // A read that suspends the program keeps its place longer.
        nand.sense(Nanos(ends[0].0 - 200_000), 0);
        let later = ends[0].after(spec.nand.read);
        assert_eq!(buffer.next_free_at(&nand), later);
        buffer.take(&nand);
        assert_eq!(buffer.ready(), later);
        assert!(!buffer.holds(0, Nanos(50), &nand), "its place has been given away");
        assert!(buffer.holds(4, Nanos(1_000_000_000), &nand), "not yet programmed");
    }
}
