//! The write buffer: space for data between acknowledgement and flash.
//!
//! One ring per write stream. A flash page takes the next place in the ring when its first page
//! arrives and frees it when its program ends; places are taken in order, so a page waits for the
//! one a full ring before it. With `write_buffer.release` places come free as programs end
//! (`release.rs`), and a page waits for as many programs as free a place. Data that is overwritten
//! while it waits in the buffer is programmed all the same: each write takes a place of its own.

mod release;

use std::collections::VecDeque;
use std::ops::Range;

use drivebay_units::Nanos;

use crate::nand::dies::{Nand, Ticket};
use crate::persist::{StateError, ensure, persist};
use crate::profile::BufferRelease;
use release::Release;

/// A ring of flash pages on their way.
#[derive(Default)]
pub struct WriteBuffer {
    /// Program that frees each place.
    programs: Vec<Ticket>,
    mask: u64,
    capacity: u64,
    next: u64,
    /// Time since which the newest page has its place.
    ready: Nanos,
    /// Pages acknowledged as safe, and the time from which; oldest first.
    promises: VecDeque<(Range<u64>, Nanos)>,
    /// Order of release, if places come free as programs end.
    release: Option<Box<Release>>,
}

persist!(WriteBuffer: programs, next, ready, promises, release; given: mask, capacity);

impl WriteBuffer {
    /// Checks that the flash can know its programs and that its promises can hold.
    pub fn check(&self, nand: &Nand) -> Result<(), StateError> {
        let known = |&program: &Ticket| program.is_none() || nand.end_of(program) < Nanos(u64::MAX);
        ensure(self.programs.iter().all(known), "a program of the write buffer")?;
        let promised = |pages: &Range<u64>| pages.start <= pages.end && pages.end <= self.next;
        let all = self.promises.iter().all(|(pages, _)| promised(pages));
        ensure(all && self.next < 1 << 48, "the write buffer's pages")?;
        let waiting = self.known().filter(|&page| self.waits(page)).count() as u64;
        self.release.iter().try_for_each(|release| release.check(self.next - waiting, nand))
    }

    /// A buffer for `capacity` flash pages.
    pub fn new(capacity: u32, release: Option<BufferRelease>) -> WriteBuffer {
        let places = WriteBuffer::places(capacity);
        WriteBuffer {
            programs: vec![Ticket::NONE; places],
            mask: places as u64 - 1,
            capacity: u64::from(capacity),
            next: 0,
            ready: Nanos::ZERO,
            promises: VecDeque::new(),
            release: release.map(|release| Box::new(Release::new(release))),
        }
    }

    /// Derives what follows from a state that was read back.
    pub fn derive(&mut self) {
        self.release.iter_mut().for_each(|release| release.derive());
    }

    /// Promises that these pages are safe on flash from `at` on: a read that is asked later may
    /// still move the end of a program, but not the promise.
    pub fn promise(&mut self, pages: Range<u64>, at: Nanos) {
        let known = self.known().start;
        while self.promises.front().is_some_and(|(old, _)| old.end <= known) {
            self.promises.pop_front();
        }
        self.promises.push_back((pages, at));
    }

    /// True if a page's data outlives a power cut at `at`.
    pub fn survives(&self, page: u64, at: Nanos, nand: &Nand) -> bool {
        let promised =
            self.promises.iter().any(|(pages, from)| pages.contains(&page) && *from <= at);
        promised || self.end_of(page, nand) <= at
    }

    /// Places of the ring of a buffer for `capacity` flash pages.
    pub fn places(capacity: u32) -> usize {
        (capacity as usize + 1).next_power_of_two()
    }

    /// Numbers of the pages that the ring still knows; those before have long been programmed.
    pub fn known(&self) -> Range<u64> {
        self.next.saturating_sub(self.mask + 1)..self.next
    }

    /// Begins anew: every place is free, and the next page has number `next`.
    pub fn restart(&mut self, next: u64) {
        self.programs.fill(Ticket::ENDED);
        self.promises.clear();
        (self.next, self.ready) = (next, Nanos::ZERO);
        self.release.iter_mut().for_each(|release| release.restart(next));
    }

    /// Takes the next place, which is free from `free_at` on.
    #[inline]
    pub fn take(&mut self, free_at: Nanos) {
        self.ready = self.ready.max(free_at);
        self.programs[(self.next & self.mask) as usize] = Ticket::NONE;
        self.next += 1;
    }

    /// Keeps pages taken from now on from a place before `until`.
    pub fn wait_until(&mut self, until: Nanos) {
        self.ready = self.ready.max(until);
    }

    /// Time since which the newest page has its place, never before those taken earlier.
    #[inline(always)]
    pub fn ready(&self) -> Nanos {
        self.ready
    }

    /// Notes that this program brings the page with this number to flash; false if another did
    /// before.
    #[inline]
    pub fn give_back(&mut self, page: u64, program: Ticket) -> bool {
        let entry = &mut self.programs[(page & self.mask) as usize];
        let waited = entry.is_none();
        if waited {
            *entry = program;
        }
        waited
    }

    /// Notes a program of a flash page's die that takes the data of so many of the pages.
    #[inline]
    pub fn note_program(&mut self, nand: &Nand, page: u32, program: Ticket, pages: u32) {
        if let Some(release) = &mut self.release {
            release.note_program(nand, page, program, pages);
        }
    }

    /// True if one of the newest pages has no program yet.
    pub fn waits(&self, page: u64) -> bool {
        self.programs[(page & self.mask) as usize].is_none()
    }

    /// Time when the next place is free; the end of time if its page has no program yet.
    #[inline]
    pub fn next_free_at(&mut self, nand: &Nand) -> Nanos {
        if self.next < self.capacity {
            return Nanos::ZERO;
        }
        if let Some(release) = &mut self.release {
            return release.freed_at(self.next - self.capacity + 1, nand);
        }
        self.end_of(self.next - self.capacity, nand)
    }

    /// Time when the program of one of the newest pages ends; the end of time if it has none yet.
    #[inline(always)]
    pub fn end_of(&self, page: u64, nand: &Nand) -> Nanos {
        nand.end_of(self.programs[(page & self.mask) as usize])
    }

    /// Part of the places that is taken at `at`, in 1/64. Cost: 1 ring entry for each place.
    pub fn taken_64(&self, at: Nanos, nand: &Nand) -> u32 {
        let first = self.next.saturating_sub(self.capacity);
        let mut pages = (first..self.next).filter(|&page| self.end_of(page, nand) > at);
        let taken = if self.release.is_some() {
            pages.count() as u64
        } else {
            // Places are freed in order: none after a page that is not yet programmed.
            pages.next().map_or(0, |page| self.next - page)
        };
        (taken * 64 / self.capacity) as u32
    }

    /// Pages that have taken a place so far: the number of the next page.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// True if this page can be read from the buffer at `at`.
    #[inline]
    pub fn holds(&self, page: u64, at: Nanos, nand: &Nand) -> bool {
        self.next.wrapping_sub(page) <= self.holds_pages() && self.end_of(page, nand) > at
    }

    /// Number of the newest pages that may still be in the buffer.
    #[inline(always)]
    fn holds_pages(&self) -> u64 {
        if self.release.is_some() { self.mask + 1 } else { self.capacity }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/firmware_datapath_write_buffer.rs"]
mod tests;
