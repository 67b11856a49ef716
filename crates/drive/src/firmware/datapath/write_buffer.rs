//! The write buffer: room for data between acknowledgement and flash.
//!
//! One ring per write stream. A flash page takes the next place in the ring when its first page
//! arrives and gives it back when its program ends; places are taken in order, so a page waits for
//! the one that is a full ring before it. Where places come free as programs end (`release.rs`), it
//! waits for as many programs as make room. Data that is overwritten while it waits in the buffer
//! is programmed all the same: each write takes a place of its own.

mod release;

use std::collections::VecDeque;
use std::ops::Range;

use drivebay_units::Nanos;

use crate::nand::dies::{Nand, Ticket};
use crate::persist::{StateError, ensure, persist};
use crate::profile::{BufferRelease, Geometry};
use release::Release;

/// A ring of flash pages on their way.
#[derive(Default)]
pub struct WriteBuffer {
    /// The program that gives each place back.
    programs: Vec<Ticket>,
    mask: u64,
    capacity: u64,
    next: u64,
    /// Since when the newest page has its place.
    ready: Nanos,
    /// Pages acknowledged as safe, and from when on; oldest first.
    promises: VecDeque<(Range<u64>, Nanos)>,
    /// Places come free as programs end.
    release: Option<Box<Release>>,
}

persist!(WriteBuffer: programs, next, ready, promises, release; given: mask, capacity);

impl WriteBuffer {
    /// Whether its programs can be known to the flash, and what is promised can be.
    pub fn check(&self, nand: &Nand) -> Result<(), StateError> {
        let known = |&program: &Ticket| program.is_none() || nand.end_of(program) < Nanos(u64::MAX);
        ensure(self.programs.iter().all(known), "a program of the write buffer")?;
        let promised = |pages: &Range<u64>| pages.start <= pages.end && pages.end <= self.next;
        let all = self.promises.iter().all(|(pages, _)| promised(pages));
        ensure(all && self.next < 1 << 48, "the write buffer's pages")?;
        let waiting = self.known().filter(|&page| self.waits(page)).count() as u64;
        self.release.iter().try_for_each(|release| release.check(self.next - waiting, nand))
    }

    /// Room for `capacity` flash pages.
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

    /// Works out what follows from a state that was read back.
    pub fn derive(&mut self) {
        self.release.iter_mut().for_each(|release| release.derive());
    }

    /// These pages are acknowledged as safe on flash from `at` on: a read that is asked later may
    /// still move the end of a program, but not what was promised.
    pub fn promise(&mut self, pages: Range<u64>, at: Nanos) {
        let known = self.known().start;
        while self.promises.front().is_some_and(|(old, _)| old.end <= known) {
            self.promises.pop_front();
        }
        self.promises.push_back((pages, at));
    }

    /// Whether a page's data outlives a power cut at `at`.
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

    /// All is lost or programmed: every place is free, and the next page has number `next`.
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

    /// Pages taken from now on find no place before `until`.
    pub fn wait_until(&mut self, until: Nanos) {
        self.ready = self.ready.max(until);
    }

    /// Since when the newest page has its place; none before those taken earlier.
    #[inline(always)]
    pub fn ready(&self) -> Nanos {
        self.ready
    }

    /// The page with this number is given to flash by this program, unless it was before, and false
    /// is returned.
    #[inline]
    pub fn give_back(&mut self, page: u64, program: Ticket) -> bool {
        let entry = &mut self.programs[(page & self.mask) as usize];
        let waited = entry.is_none();
        if waited {
            *entry = program;
        }
        waited
    }

    /// The die of a flash page was given a program that takes the data of so many of the pages.
    #[inline]
    pub fn note_program(&mut self, g: &Geometry, page: u32, program: Ticket, pages: u32) {
        if let Some(release) = &mut self.release {
            release.note_program(g.die_of(page), program, pages);
        }
    }

    /// Whether one of the newest pages is not yet given to flash.
    pub fn waits(&self, page: u64) -> bool {
        self.programs[(page & self.mask) as usize].is_none()
    }

    /// When the next place will be free; the end of time if the page there is not yet given to
    /// flash.
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

    /// When the program of one of the newest pages ends; the end of time if it is not yet given to
    /// flash.
    #[inline(always)]
    pub fn end_of(&self, page: u64, nand: &Nand) -> Nanos {
        nand.end_of(self.programs[(page & self.mask) as usize])
    }

    /// What part of the places is taken at `at`, in 1/64. Cost: 1 ring entry for each place.
    pub fn taken_64(&self, at: Nanos, nand: &Nand) -> u32 {
        let first = self.next.saturating_sub(self.capacity);
        let mut pages = (first..self.next).filter(|&page| self.end_of(page, nand) > at);
        let taken = if self.release.is_some() {
            pages.count() as u64
        } else {
            // In order, those behind a page that is not yet programmed do not come free.
            pages.next().map_or(0, |page| self.next - page)
        };
        (taken * 64 / self.capacity) as u32
    }

    /// How many pages have taken a place so far: the number of the next page.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// Whether this page can be read from the buffer at `at`.
    #[inline]
    pub fn holds(&self, page: u64, at: Nanos, nand: &Nand) -> bool {
        self.next.wrapping_sub(page) <= self.holds_pages() && self.end_of(page, nand) > at
    }

    /// Of so many of the newest pages some may still be in the buffer.
    #[inline(always)]
    fn holds_pages(&self) -> u64 {
        if self.release.is_some() { self.mask + 1 } else { self.capacity }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/firmware_datapath_write_buffer.rs"]
mod tests;
