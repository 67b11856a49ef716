//! The write buffer: room for data between acknowledgement and flash.
//!
//! One ring per write stream. A flash page takes the next place in the ring when its first 4 KiB
//! arrive and gives it back when its program ends; places are taken in order, so a page waits for the
//! one that is a full ring before it.
//! Not modelled: overwriting data while it is still buffered (each write takes a place of its own).

use drivebay_units::Nanos;

/// "Not yet programmed".
const PENDING: Nanos = Nanos(u64::MAX);

/// A ring of flash pages on their way.
pub struct Buffer {
    /// When each place is given back.
    release: Vec<Nanos>,
    mask: u64,
    capacity: u64,
    next: u64,
}

impl Buffer {
    /// Room for `capacity` flash pages.
    pub fn new(capacity: u32) -> Buffer {
        let places = (u64::from(capacity) + 1).next_power_of_two();
        Buffer {
            release: vec![Nanos::ZERO; places as usize],
            mask: places - 1,
            capacity: u64::from(capacity),
            next: 0,
        }
    }

    /// Takes the next place; returns the time from which it is free.
    #[inline]
    pub fn take(&mut self) -> Nanos {
        let page = self.next;
        self.next += 1;
        let free_at = if page < self.capacity {
            Nanos::ZERO
        } else {
            self.release[((page - self.capacity) & self.mask) as usize]
        };
        assert!(free_at != PENDING, "a buffer of two rows holds no page that nobody programs");
        self.release[(page & self.mask) as usize] = PENDING;
        free_at
    }

    /// The page with this number is in flash at `at`.
    #[inline]
    pub fn give_back(&mut self, page: u64, at: Nanos) {
        self.release[(page & self.mask) as usize] = at;
    }

    /// When the next place will be free.
    #[inline]
    pub fn next_free_at(&self) -> Nanos {
        if self.next < self.capacity {
            return Nanos::ZERO;
        }
        self.release[((self.next - self.capacity) & self.mask) as usize]
    }

    /// How many pages have taken a place so far: the number of the next page.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// Whether this page can be read from the buffer at `at`.
    #[inline]
    pub fn holds(&self, page: u64, at: Nanos) -> bool {
        self.next.wrapping_sub(page) <= self.capacity
            && self.release[(page & self.mask) as usize] > at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_waits_for_the_one_a_full_ring_before_it() {
        let mut buffer = Buffer::new(4);
        for page in 0..4 {
            assert_eq!(buffer.take(), Nanos::ZERO);
            buffer.give_back(page, Nanos(100 + page));
        }
        assert!(buffer.holds(0, Nanos(99)));
        assert!(!buffer.holds(0, Nanos(100)));
        assert_eq!(buffer.next_free_at(), Nanos(100));
        assert_eq!(buffer.take(), Nanos(100));
        assert!(!buffer.holds(0, Nanos(50)), "its place has been given away");
        assert!(buffer.holds(4, Nanos(1_000_000)), "not yet programmed");
    }
}
