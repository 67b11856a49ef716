//! The data path between the translation layer and the dies: write buffer, programs and erases that
//! wait for their time, stripes with parity, and the map's own reads and writes.
//!
//! [`DataPath`] knows time, but no map and no policy: its callers decide which page is programmed
//! and which superblock is erased.

pub mod deferred;
pub mod map_access;
pub mod map_cache;
pub mod map_journal;
pub mod stripes;
pub mod write_buffer;

use std::ops::Range;

use drivebay_units::{Nanos, Ppa, Rng};

use crate::nand::dies::{Nand, ReadTimes, Ticket};
use crate::per_stream::PerStream;
use crate::persist::{StateError, ensure, persist};
use crate::plugin::Plugin;
use crate::profile::{BufferRelease, Geometry, Spec};
use crate::timeline::NEVER;
use deferred::{DeferredQueue, Program};
use write_buffer::WriteBuffer;

/// Waits of a read of flash: for the die, in the array, for and on the channel.
pub type ReadParts = [Nanos; 3];

/// Waits of a read that waits for nothing.
pub const NO_WAIT: ReadParts = [Nanos::ZERO; 3];

/// A flash page of a write stream's buffer, by its number: the place of a version of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPage {
    pub(in crate::firmware) stream: u8,
    pub(in crate::firmware) page: u64,
}

/// Write buffers, programs and erases that are due later, and the dies.
pub struct DataPath {
    geometry: Geometry,
    /// Bits that all addresses on the last plane of a die have set.
    last_plane: u32,
    buffer_pages: u32,
    buffer_release: Option<BufferRelease>,
    /// Capacitors program the contents of the buffers when the power fails.
    protected: bool,
    pub nand: Nand,
    /// One per write stream.
    buffers: PerStream<WriteBuffer>,
    deferred: DeferredQueue,
    /// Time of the drive: no channel is asked for an earlier one.
    now: Nanos,
    /// No die is asked for an earlier time.
    dies_floor: Nanos,
    /// Time by which partly written pages in the buffers are whole; programs wait for it.
    merged: Nanos,
}

persist!(DataPath: nand, buffers, deferred, now, dies_floor, merged;
    given: geometry, last_plane, buffer_pages, buffer_release, protected);

impl DataPath {
    pub fn new(spec: &Spec, rng: &Rng) -> DataPath {
        let g = &spec.geometry;
        // As many programs of a die as the buffers can hold, and some erases.
        let rows = spec.buffer_pages >> (g.die_shift + g.plane_shift);
        // Where places come free as programs end, a die that erases may hold more of them than its
        // share.
        let rows = if spec.buffer_release.is_some() { 2 * rows } else { rows };
        let pending = spec.streams.count as u32 * rows + 8;
        let mut nand = Nand::new(&spec.nand, g, pending, rng);
        nand.set_scheduler(Plugin::new(spec, rng).filter(|plugin| plugin.decides.die_read));
        DataPath {
            geometry: *g,
            last_plane: ((1 << g.plane_shift) - 1) << (g.order.plane_shift + g.page_shift),
            buffer_pages: spec.buffer_pages,
            buffer_release: spec.buffer_release,
            protected: spec.power_loss_protection || spec.in_place.is_some(),
            nand,
            buffers: PerStream::new(spec.streams.count, || {
                WriteBuffer::new(spec.buffer_pages, spec.buffer_release)
            }),
            deferred: DeferredQueue::new(spec.streams.count),
            now: Nanos::ZERO,
            dies_floor: Nanos::ZERO,
            merged: Nanos::ZERO,
        }
    }

    /// Time of the newest submission, or the end of the last idle time.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Moves the time on: no channel will be asked for an earlier one.
    #[inline(always)]
    pub fn advance(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Keeps dies from being asked for a time before `until`.
    #[inline(always)]
    pub fn raise_floor(&mut self, until: Nanos) {
        self.dies_floor = self.dies_floor.max(until);
    }

    /// Number of write streams.
    pub fn streams(&self) -> usize {
        self.buffers.len()
    }

    // ---- Programs and erases that wait.

    /// Time of the program or erase that is due first; [`NEVER`] if none waits.
    #[inline(always)]
    pub fn next_at(&self) -> Nanos {
        self.deferred.next_at()
    }

    /// True if an erase is due first.
    #[inline(always)]
    pub fn erase_is_next(&self) -> bool {
        self.deferred.erase_is_next()
    }

    /// Asks a die for the program that is due first, even if an erase is due before. Cost: 1 die
    /// and 1 calendar.
    #[inline]
    pub fn program_next(&mut self) {
        let (stream, program) = self.deferred.pop();
        let end = self.nand.program(self.dies_floor, program.at, program.page);
        let buffer = &mut self.buffers[stream];
        let (mut pages, plane_shift) = (0, self.geometry.order.plane_shift);
        for earlier in 0..=u64::from(self.geometry.plane_of(program.page)) {
            pages += u32::from(buffer.give_back(program.number - (earlier << plane_shift), end));
        }
        buffer.note_program(&self.nand, program.page, end, pages);
    }

    /// Asks the dies for all programs.
    pub fn program_all(&mut self) {
        while self.deferred.has_programs() {
            self.program_next();
        }
    }

    /// Erases the superblock that has waited longest, whenever it is due; returns when the erase
    /// was due, and which one it is.
    pub fn erase_next(&mut self) -> (Nanos, u32) {
        let (at, index) = self.deferred.pop_erase();
        self.nand.erase_superblock(at, index);
        (at, index)
    }

    /// True if a superblock's erase waits.
    pub fn will_erase(&self, superblock: u32) -> bool {
        self.deferred.will_erase(superblock)
    }

    /// Defers a superblock's erase until `at`.
    pub fn defer_erase(&mut self, superblock: u32, at: Nanos) {
        self.deferred.push_erase(superblock, at);
    }

    #[inline(never)]
    fn program(&mut self, stream: usize, program: Program) {
        let at = program.at.max(self.merged);
        self.deferred.push(stream, Program { at, ..program });
    }

    /// Notes that the rest of a partly written page comes from flash at `at`.
    pub fn merge(&mut self, at: Nanos) {
        self.merged = self.merged.max(at);
    }

    // ---- The write buffer.

    /// Passes `len` pages from `first` on through a stream's buffer and programs complete dies;
    /// returns when the last page has found a place.
    ///
    /// Cost: 1 ring entry per flash page begun, 1 queue entry per die-wide program.
    #[inline(always)]
    pub fn fill(&mut self, stream: usize, first: Ppa, len: u32, from: Nanos) -> Nanos {
        let last = (1u32 << self.geometry.page_shift) - 1;
        let (mut at, end, mut clock) = (first.0, first.0 + len, from);
        while at < end {
            if at & last == 0 {
                let free_at = self.free_at(stream);
                self.buffers[stream].take(free_at);
            }
            let buffer = &self.buffers[stream];
            clock = clock.max(buffer.ready());
            let page_end = (at | last) + 1;
            if end < page_end {
                break;
            }
            if at & self.last_plane == self.last_plane {
                let (page, number) = (at >> self.geometry.page_shift, buffer.taken() - 1);
                self.program(stream, Program { at: clock, page, number });
            }
            at = page_end;
        }
        clock
    }

    /// Takes a place for a flash page that is never programmed.
    pub fn skip_page(&mut self, stream: usize, page: u32) {
        let free_at = self.free_at(stream);
        let buffer = &mut self.buffers[stream];
        buffer.take(free_at);
        buffer.give_back(buffer.taken() - 1, Ticket::ENDED);
        buffer.note_program(&self.nand, page, Ticket::ENDED, 1);
    }

    /// Time when a stream's next place in the buffer is free.
    #[inline(always)]
    pub fn free_at(&mut self, stream: usize) -> Nanos {
        loop {
            let at = self.buffers[stream].next_free_at(&self.nand);
            if at < NEVER {
                return at;
            }
            self.program_next();
        }
    }

    /// Flash pages of a stream that have taken a place so far.
    #[inline(always)]
    pub fn taken(&self, stream: usize) -> u64 {
        self.buffers[stream].taken()
    }

    /// Keeps a stream's next page from taking a place before `until`.
    pub fn wait_until(&mut self, stream: usize, until: Nanos) {
        self.buffers[stream].wait_until(until);
    }

    /// Part of the write buffer that is taken at `at`, in 1/64: of the fullest stream. Cost: 1 ring
    /// entry for each place.
    pub fn taken_64(&self, at: Nanos) -> u32 {
        let taken = |buffer: &WriteBuffer| buffer.taken_64(at, &self.nand);
        self.buffers.iter().map(taken).max().unwrap_or(0)
    }

    /// Most flash pages of a stream that may not be programmed yet.
    pub fn places(&self) -> u64 {
        WriteBuffer::places(self.buffer_pages) as u64
    }

    /// Flash pages of a stream's buffer.
    pub fn capacity(&self) -> u32 {
        self.buffer_pages
    }

    // ---- Durability.

    /// Programs all that a stream's buffer holds, its open flash page being full; returns when the
    /// newest `pages` flash pages (or all it can hold) are safe, as far as is known now: reads
    /// asked later may still suspend the programs. `page_before`: flash page so many before the
    /// newest.
    ///
    /// Cost: 1 ring entry per page of the buffer.
    pub fn make_durable(
        &mut self,
        stream: usize,
        at: Nanos,
        pages: u64,
        page_before: impl Fn(u64) -> u32,
    ) -> Nanos {
        self.program_all();
        let taken = self.buffers[stream].taken();
        // Dies filled in part lie in the newest row, which lies in the open superblock.
        for number in (taken.saturating_sub(self.geometry.row_pages())..taken).rev() {
            if self.buffers[stream].waits(number) {
                let page = page_before(taken - 1 - number);
                self.program(stream, Program { at, page, number });
                self.program_all();
            }
        }
        let oldest = taken.saturating_sub(pages).max(self.buffers[stream].known().start);
        let ends = (oldest..taken).map(|n| self.buffers[stream].end_of(n, &self.nand));
        let safe = ends.fold(at, Nanos::max);
        self.buffers[stream].promise(oldest..taken, safe);
        safe
    }

    /// Time when these flash pages of a stream are programmed; leaves out pages of a row that has
    /// only begun. Cost: 1 ring entry per page.
    pub fn programmed_at(&mut self, stream: usize, pages: Range<u64>) -> Nanos {
        let known = self.buffers[stream].known();
        let mut last = Nanos::ZERO;
        for page in pages.start.max(known.start)..pages.end.min(known.end) {
            while self.buffers[stream].waits(page) && self.deferred.has_programs() {
                self.program_next();
            }
            if !self.buffers[stream].waits(page) {
                last = last.max(self.buffers[stream].end_of(page, &self.nand));
            }
        }
        last
    }

    /// Pages of a stream that the buffer knows and that were placed before a superblock was
    /// reclaimed; `taken`: flash pages of each stream at that time.
    pub fn placed_before(&self, stream: usize, taken: &[u64]) -> Range<u64> {
        self.buffers[stream].known().start..taken[stream]
    }

    /// Time from `at` on when these pages of a stream are on flash; `None` if some wait for a
    /// program.
    pub fn safe_at(&self, stream: usize, pages: Range<u64>, at: Nanos) -> Option<Nanos> {
        let buffer = &self.buffers[stream];
        let safe = pages.map(|page| buffer.end_of(page, &self.nand)).fold(at, Nanos::max);
        (safe < NEVER).then_some(safe)
    }

    /// Promises that all that was placed before a superblock was reclaimed survives a power cut
    /// from `at` on; `taken` as in [`Self::placed_before`].
    pub fn promise(&mut self, taken: &[u64], at: Nanos) {
        for stream in 0..self.buffers.len() {
            let pages = self.placed_before(stream, taken);
            if !pages.is_empty() {
                self.buffers[stream].promise(pages, at);
            }
        }
    }

    /// True if a page would outlive a power cut at `at`.
    pub fn survives(&self, place: StreamPage, at: Nanos) -> bool {
        let buffer = &self.buffers[usize::from(place.stream)];
        self.protected
            || place.page < buffer.known().start
            || buffer.survives(place.page, at, &self.nand)
    }

    /// Pages of each stream that a power cut at `at` loses.
    pub fn lost_at(&self, at: Nanos) -> Vec<Vec<u64>> {
        let lost_of = |buffer: &WriteBuffer| -> Vec<u64> {
            let lost = |&page: &u64| !self.protected && !buffer.survives(page, at, &self.nand);
            buffer.known().filter(lost).collect()
        };
        self.buffers.iter().map(lost_of).collect()
    }

    /// Begins anew after a power cut; `next_page`: number of each stream's next flash page.
    pub fn power_cut(&mut self, next_page: impl Fn(usize) -> u64) {
        for (stream, buffer) in self.buffers.iter_mut().enumerate() {
            buffer.restart(next_page(stream));
        }
        self.nand.power_cut();
        self.deferred = DeferredQueue::new(self.buffers.len());
        (self.dies_floor, self.merged) = (Nanos::ZERO, Nanos::ZERO);
    }

    /// Forgets all data, of which no program waits.
    pub fn forget_all(&mut self) {
        self.nand.forget_all();
        self.buffers
            .iter_mut()
            .for_each(|buffer| *buffer = WriteBuffer::new(self.buffer_pages, self.buffer_release));
    }

    // ---- Reads.

    /// True if a page's data is still on its way to flash at `at`.
    #[inline(always)]
    pub fn holds(&self, place: StreamPage, at: Nanos) -> bool {
        self.buffers[usize::from(place.stream)].holds(place.page, at, &self.nand)
    }

    /// Reads `bytes` of a flash page for the host; returns when they are there, and the waits.
    #[inline(always)]
    pub fn read(&mut self, from: Nanos, page: u32, bytes: u64) -> (Nanos, ReadParts) {
        let ReadTimes { begin, sensed, done } = self.nand.read(self.now, from, page, bytes);
        (done, [begin.since(from), sensed.since(begin), done.since(sensed)])
    }

    // ---- State.

    /// Derives what follows from a state that was read back.
    pub fn derive(&mut self) {
        self.deferred.derive();
        self.buffers.iter_mut().for_each(WriteBuffer::derive);
    }

    /// Checks a state that was read back; returns the flash pages that each stream has taken.
    pub fn check(&self, core_until: Nanos) -> Result<Vec<u64>, StateError> {
        self.nand.check()?;
        ensure(self.dies_floor <= core_until, "the time up to which dies are planned")?;
        self.buffers.iter().try_for_each(|buffer| buffer.check(&self.nand))?;
        Ok(self.buffers.iter().map(WriteBuffer::taken).collect())
    }

    /// Checks programs and erases that wait: every page that waits has one, and none is of another
    /// drive. `page_before`: flash page of a stream so many before its newest; `filled`: pages of a
    /// stream that are full, of so many taken.
    pub fn check_deferred(
        &self,
        page_before: impl Fn(usize, u64) -> u32,
        filled: impl Fn(usize, u64) -> u64,
        may_erase: impl Fn(u32) -> bool,
    ) -> Result<(), StateError> {
        let g = &self.geometry;
        let pages = (g.superblocks * g.superblock_pages) >> g.page_shift;
        for (stream, buffer) in self.buffers.iter().enumerate() {
            let taken = buffer.taken();
            let covered =
                self.deferred.check_programs(stream, g, pages, &buffer.known(), self.dies_floor)?;
            for page in buffer.known().filter(|&page| buffer.waits(page)) {
                // Its die's planes are not yet full: their last page will program all of them.
                let coming = || {
                    let plane = g.plane_of(page_before(stream, taken - 1 - page));
                    let left = u64::from((1 << g.plane_shift) - 1 - plane) << g.order.plane_shift;
                    page + left >= filled(stream, taken)
                };
                let newest = page + g.row_pages() >= taken;
                ensure(covered.contains(&page) || newest && coming(), "a page nobody programs")?;
            }
        }
        self.deferred.check_erases(may_erase)
    }
}
