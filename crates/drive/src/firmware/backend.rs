//! The flash back end: map, superblocks, write buffers and dies, and the orders that hold among
//! them.
//!
//! Writes take an address at a frontier and a place in the write buffer; when all planes of a die
//! are full, the die's program joins the deferred program queue. Erases run one superblock ahead:
//! what took the place of a victim's pages may still be in the write buffer, and a power cut would
//! lose both, so a superblock is erased only once all that was placed before it was given back is
//! safe. If none was free then, it is erased when it is opened. Real firmware orders erases behind
//! its journal for the same reason. Errors and wear are decided in `physics/reliability.rs` and
//! carried out in `firmware/backend/errors.rs`; what parity and failed dies (`firmware/datapath/stripes.rs`)
//! come to is in `firmware/backend/dies.rs`.

mod copies;
mod dies;
mod errors;
mod power_cut;

use std::collections::BTreeSet;
use std::ops::Range;

use drivebay_units::{Lpn, Nanos, Ppa, Rng};

use crate::events::{Event, EventKind, EventLog, Events, SuperblockState, Trigger};
use crate::firmware::datapath::deferred::{DeferredQueue, Program};
use crate::firmware::datapath::map_access::MapAccess;
use crate::firmware::datapath::map_cache::MapTraffic;
use crate::firmware::datapath::stripes::Stripes;
use crate::firmware::datapath::write_buffer::WriteBuffer;
use crate::firmware::ftl::Ftl;
use crate::firmware::gc::port::GcPort;
use crate::io::DeviceError;
use crate::nand::dies::{Nand, ReadTimes};
use crate::per_stream::PerStream;
use crate::persist::persist;
use crate::physics::reliability::Errors;
use crate::plugin::Plugin;
use crate::policy_plugin::{Decides, Decisions};
use crate::profile::{BufferRelease, Geometry, Spec};
use crate::superblock::{Mode, Purpose, Source, State};
use crate::timeline::NEVER;

/// Waits of a read of flash: for the die, in the array, for and on the channel.
pub type ReadParts = [Nanos; 3];

/// The waits of a read that waits for nothing.
pub const NO_WAIT: ReadParts = [Nanos::ZERO; 3];

/// A read of consecutive pages out of one flash page.
pub struct PageRead {
    /// When the pages are in the controller.
    pub done: Nanos,
    pub parts: ReadParts,
    /// The array was read and its data decoded, which may have found a superblock that must be
    /// refreshed.
    pub decoded: bool,
}

/// A flash page of a write stream's buffer, by its number: where a version of a page was put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPage {
    stream: u8,
    page: u64,
}

/// The flash back end.
pub struct BackEnd {
    geometry: Geometry,
    buffer_pages: u32,
    buffer_release: Option<BufferRelease>,
    reserve_superblocks: u32,
    /// Spare blocks of a fresh drive; none where failing is not modelled.
    spare_blocks: Option<u32>,
    ftl: Ftl,
    nand: Nand,
    /// One per write stream.
    buffers: PerStream<WriteBuffer>,
    deferred: DeferredQueue,
    errors: Option<Box<Errors>>,
    stripes: Box<Stripes>,
    /// Errors are modelled, or a die has failed: reads may not be plain.
    may_err: bool,
    /// Pages whose data was lost in a copy.
    lost: BTreeSet<u32>,
    /// Reads of such and of failed dies, where errors are not modelled.
    lost_reads: u64,
    map: MapAccess,
    /// The drive's time: nothing earlier is asked of a channel.
    now: Nanos,
    /// Nothing earlier is asked of a die.
    dies_floor: Nanos,
    /// The flash is worn out: every write is refused.
    read_only: bool,
    /// The present command met data that could not be read.
    media_error: bool,
    padded_pages: u64,
    /// Of these, those that garbage collection has not made up for.
    padding: u64,
    /// Partly written pages in the buffers are whole by then; programs wait for it.
    merged: Nanos,
    /// Capacitors bring to flash what is in the buffers when the power fails.
    protected: bool,
    /// The drive has zones, which go offline where it would become read-only.
    zoned: bool,
    /// What happens to superblocks, while that is kept.
    events: Option<Box<EventLog>>,
}

persist!(BackEnd: ftl, nand, buffers, deferred, errors, stripes, lost, lost_reads, map, now, dies_floor, read_only, media_error,
    padded_pages, padding, merged; given: geometry, buffer_pages, buffer_release, reserve_superblocks, spare_blocks,
    protected, zoned, events, may_err);

impl BackEnd {
    /// Fresh flash; `memory`: a drive's flash whose tables are used where they fit.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn new(spec: &Spec, rng: &Rng, memory: Option<BackEnd>) -> Result<BackEnd, DeviceError> {
        let g = &spec.geometry;
        let ftl = match memory.and_then(|flash| flash.ftl.reset(spec, rng)) {
            Some(ftl) => ftl,
            None => Ftl::new(spec, rng).map_err(|e| DeviceError::Memory(e.to_string()))?,
        };
        // As many programs of a die as the buffers can hold, and some erases.
        let rows = spec.buffer_pages >> (g.die_shift + g.plane_shift);
        // Where places come free as programs end, a die that erases may hold more of them than its
        // share.
        let rows = if spec.buffer_release.is_some() { 2 * rows } else { rows };
        let pending = spec.streams.count as u32 * rows + 8;
        let mut nand = Nand::new(&spec.nand, g, pending, rng);
        nand.set_scheduler(Plugin::new(spec, rng).filter(|plugin| plugin.decides.die_read));
        Ok(BackEnd {
            geometry: *g,
            buffer_pages: spec.buffer_pages,
            buffer_release: spec.buffer_release,
            reserve_superblocks: spec.reserve_superblocks,
            spare_blocks: spec.reliability.map(|r| r.spare_blocks),
            nand,
            buffers: PerStream::new(spec.streams.count, || {
                WriteBuffer::new(spec.buffer_pages, spec.buffer_release)
            }),
            deferred: DeferredQueue::new(spec.streams.count),
            errors: spec.reliability.map(|r| {
                let good = g.superblocks - g.bad_superblocks;
                Box::new(Errors::new(r, g.superblocks, good, spec.history.cycles, rng))
            }),
            stripes: Box::new(Stripes::new(spec)),
            may_err: spec.reliability.is_some(),
            lost: BTreeSet::new(),
            lost_reads: 0,
            map: MapAccess::new(spec),
            now: Nanos::ZERO,
            dies_floor: Nanos::ZERO,
            read_only: false,
            media_error: false,
            padded_pages: 0,
            padding: 0,
            merged: Nanos::ZERO,
            protected: spec.power_loss_protection || spec.in_place.is_some(),
            zoned: spec.zones.is_some(),
            events: None,
            ftl,
        })
    }

    /// The map and the superblocks.
    #[inline(always)]
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    #[inline(always)]
    pub fn ftl_mut(&mut self) -> &mut Ftl {
        &mut self.ftl
    }

    #[inline(always)]
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// What a plug-in was asked so far; none without one.
    pub fn decisions(&self) -> Option<(Decides, Decisions)> {
        let plugin = self.ftl.plugin()?;
        let of_dies =
            self.nand.scheduler().map_or_else(Decisions::default, |plugin| plugin.decisions);
        let Decisions { die_reads, die_reads_delayed, .. } = of_dies;
        let decisions = Decisions { die_reads, die_reads_delayed, ..plugin.decisions };
        Some((plugin.decides, decisions))
    }

    /// Time of the newest submission, or the end of the last idle time.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Time goes on: no channel will be asked for an earlier one.
    #[inline(always)]
    pub fn advance(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Padding, parity and the map's own data programmed so far, in 4 KiB.
    pub fn overhead_4k(&self) -> u64 {
        (self.padded_pages << self.geometry.unit_shift) + self.map.written_4k()
    }

    #[inline(always)]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Refuses to be written from now on.
    pub fn wear_out(&mut self) {
        self.read_only = true;
    }

    /// Whether data since the last call could not be read.
    #[inline(always)]
    pub fn take_media_error(&mut self) -> bool {
        std::mem::take(&mut self.media_error)
    }

    /// Brings the dies up to `until`: nothing will ask them for an earlier time.
    #[inline(always)]
    pub fn dies_until(&mut self, until: Nanos) {
        self.start_until(until);
        self.dies_floor = self.dies_floor.max(until);
    }

    /// Hands what is due until then to the dies.
    #[inline(always)]
    pub fn start_until(&mut self, until: Nanos) {
        while self.deferred.next_at() <= until {
            self.start_next();
        }
    }

    /// Hands everything that waits to the dies, erases as well.
    fn settle(&mut self) {
        while self.deferred.next_at() < NEVER {
            self.start_next();
        }
    }

    /// Asks the dies for what is due first. Cost: 1 die and 1 calendar per program.
    fn start_next(&mut self) {
        if self.deferred.erase_is_next() {
            self.erase_next();
        } else {
            self.program_next();
        }
    }

    /// Asks a die for the program that is due first, even if an erase is due before.
    #[inline]
    fn program_next(&mut self) {
        let (stream, program) = self.deferred.pop();
        let end = self.nand.program(self.dies_floor, program.at, program.page);
        let buffer = &mut self.buffers[stream];
        let (mut pages, plane_shift) = (0, self.geometry.order.plane_shift);
        for earlier in 0..=u64::from(self.geometry.plane_of(program.page)) {
            pages += u32::from(buffer.give_back(program.number - (earlier << plane_shift), end));
        }
        buffer.note_program(&self.geometry, program.page, end, pages);
    }

    fn program_all(&mut self) {
        while self.deferred.has_programs() {
            self.program_next();
        }
    }

    /// Erases the superblock that has waited longest, whenever it is due.
    ///
    /// What took the place of its pages counts as safe from now on: commands that are served
    /// already may have their turn after a power cut that comes next, but their erases cannot be
    /// undone.
    fn erase_next(&mut self) {
        let (at, index) = self.deferred.pop_erase();
        self.ftl.erased(index);
        self.nand.erase_superblock(at, index);
        if self.events.is_some() {
            self.note(EventKind::Erase, index, at, self.nand.idle_at());
        }
        self.promise(index, self.now);
    }

    // ---- Writing.

    /// Places pages at a stream's frontier, which must have room; returns when the last is in the
    /// buffer.
    #[inline(always)]
    pub fn write(&mut self, stream: usize, lpn: Lpn, len: u32, from: Nanos) -> Nanos {
        let first = self.ftl.place(stream, lpn, len);
        self.map.note_change(1);
        self.fill(stream, first, len, from)
    }

    /// Lets `len` pages from `first` on pass through a stream's buffer and programs what is
    /// complete.
    ///
    /// Returns when the last of them has found room. Cost: 1 ring entry per flash page begun, 1
    /// queue entry per die-wide program.
    #[inline(always)]
    fn fill(&mut self, stream: usize, first: Ppa, len: u32, from: Nanos) -> Nanos {
        let g = self.geometry;
        let last = (1u32 << g.page_shift) - 1;
        let (mut at, end, mut clock) = (first.0, first.0 + len, from);
        while at < end {
            if at & last == 0 {
                let free_at = self.buffer_free_at(stream);
                self.buffers[stream].take(free_at);
            }
            clock = clock.max(self.buffers[stream].ready());
            let page_end = (at | last) + 1;
            if end < page_end {
                break;
            }
            let page = at >> g.page_shift;
            if g.plane_of(page) == (1u32 << g.plane_shift) - 1 {
                let number = self.buffers[stream].taken() - 1;
                self.program(stream, Program { at: clock, page, number });
            }
            at = page_end;
        }
        clock
    }

    #[inline(never)]
    fn program(&mut self, stream: usize, program: Program) {
        let at = program.at.max(self.merged);
        self.deferred.push(stream, Program { at, ..program });
    }

    /// The rest of a partly written page comes from flash at `at`.
    pub fn merge(&mut self, at: Nanos) {
        self.merged = self.merged.max(at);
    }

    /// When a stream's next place in the buffer will be free.
    #[inline(always)]
    pub fn buffer_free_at(&mut self, stream: usize) -> Nanos {
        loop {
            let at = self.buffers[stream].next_free_at(&self.nand);
            if at < NEVER {
                return at;
            }
            self.program_next();
        }
    }

    /// What part of the write buffer is taken at `at`, in 1/64: the host's or garbage collection's,
    /// whichever is more. Cost: 1 ring entry for each place.
    pub fn buffer_taken_64(&self, at: Nanos) -> u32 {
        let taken = |buffer: &WriteBuffer| buffer.taken_64(at, &self.nand);
        self.buffers.iter().map(taken).max().unwrap_or(0)
    }

    /// Free superblocks that only garbage collection may use.
    pub fn reserve(&self) -> usize {
        self.reserve_superblocks as usize
    }

    /// Programs all that a stream's buffer holds; returns when its newest `pages` flash pages (or
    /// all it can hold) are safe, as far as is known now: reads asked later may still suspend the
    /// programs.
    ///
    /// Cost: 1 ring entry per page of the buffer.
    pub fn make_durable(&mut self, stream: usize, at: Nanos, pages: u64) -> Nanos {
        let g = self.geometry;
        self.pad(stream, 0, at);
        self.program_all();
        let taken = self.buffers[stream].taken();
        // Dies filled in part lie in the newest row, which lies in the open superblock.
        for number in (taken.saturating_sub(g.row_pages())..taken).rev() {
            if self.buffers[stream].waits(number) {
                let page = self.ftl.frontier_page(stream, taken - 1 - number);
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

    /// Fills at least so many pages of a stream's superblock with nothing, and its open flash page;
    /// returns when they have found room in the buffer.
    pub fn pad(&mut self, stream: usize, pages: u32, at: Nanos) -> Nanos {
        let Some((first, count)) = self.ftl.pad(stream, pages) else { return at };
        self.padded_pages += u64::from(count);
        self.padding += u64::from(count);
        self.fill(stream, first, count, at)
    }

    /// A stream's superblock takes no more, though it may not be full: what it was given so far is
    /// programmed.
    pub fn abandon(&mut self, stream: usize, at: Nanos) {
        if !self.ftl.frontier(stream).is_empty() {
            self.make_durable(stream, at, 0);
            self.ftl.abandon(stream);
        }
    }

    /// Gives back the superblocks in which nothing is valid any more.
    pub fn collect_empty(&mut self, at: Nanos) {
        while self.ftl.take_empty() {
            self.retire_victim(Purpose::Folding, at, Trigger::Behind);
        }
    }

    /// [`BackEnd::make_durable`] for all that the host has written. Copies need none: what they were
    /// copied from is not erased before they are safe.
    pub fn flush(&mut self, at: Nanos) -> Nanos {
        let pages = u64::from(self.buffer_pages);
        let hosts = self.ftl.streams().hosts();
        hosts.map(|stream| self.make_durable(stream, at, pages)).fold(at, Nanos::max)
    }

    /// Opens the next superblock for a stream at `at`, for as many bits per cell as `mode` says;
    /// false if none is free.
    pub fn open(&mut self, stream: usize, at: Nanos, mode: Mode) -> bool {
        if self.pass(stream, at) {
            return true;
        }
        let Some(next) = self.ftl.next_free(mode) else {
            return false;
        };
        if let Some(safe) = self.erase_free(next, at) {
            self.buffers[stream].wait_until(safe);
        }
        while self.deferred.will_erase(next) {
            self.erase_next();
        }
        let opened = self.ftl.open(stream, self.buffers[stream].taken(), mode);
        self.nand.set_slc(next, mode != Mode::Native);
        if self.events.is_some() {
            self.note(EventKind::Open, next, at, at);
        }
        self.map.note_sealed();
        if let Some(errors) = &mut self.errors {
            errors.open(next, self.ftl.cycles(next), self.now);
        }
        self.begin_superblock(stream, next, at);
        if let Some(coming) = self.ftl.next_free(mode) {
            self.erase_free(coming, at);
        }
        opened
    }

    /// Orders a free superblock's erase, unless that was done before; returns for when.
    fn erase_free(&mut self, index: u32, at: Nanos) -> Option<Nanos> {
        if self.ftl.superblock(index).erased || self.deferred.will_erase(index) {
            return None;
        }
        let safe = self.make_safe(index, at);
        self.promise(index, safe);
        self.deferred.push_erase(index, safe);
        Some(safe)
    }

    /// Of a stream's pages that the buffer knows: those placed before a superblock was given back.
    fn placed_before(&self, stream: usize, index: u32) -> Range<u64> {
        self.buffers[stream].known().start..self.ftl.given_back(index)[stream]
    }

    /// What was placed before a superblock was given back survives a power cut from `at` on.
    fn promise(&mut self, index: u32, at: Nanos) {
        for stream in 0..self.buffers.len() {
            let pages = self.placed_before(stream, index);
            if !pages.is_empty() {
                self.buffers[stream].promise(pages, at);
            }
        }
    }

    /// Brings all that was placed before a superblock was given back to flash; returns when it is
    /// there.
    fn make_safe(&mut self, index: u32, at: Nanos) -> Nanos {
        self.program_all();
        let mut safe = at;
        for stream in 0..self.buffers.len() {
            let pages = self.placed_before(stream, index);
            let buffer = &self.buffers[stream];
            let end = if pages.clone().any(|page| buffer.waits(page)) {
                self.make_durable(stream, at, buffer.taken() - pages.start)
            } else {
                pages.map(|page| buffer.end_of(page, &self.nand)).fold(at, Nanos::max)
            };
            safe = safe.max(end);
        }
        safe
    }

    // ---- Reading.

    /// Brings `len` consecutive pages out of one flash page, the buffer, or nowhere (unmapped).
    ///
    /// `bytes`: what they take on the channel. `from` must not go back from call to call.
    #[inline(always)]
    pub fn read(&mut self, from: Nanos, ppa: Option<Ppa>, len: u32, bytes: u64) -> PageRead {
        let nowhere = PageRead { done: from, parts: NO_WAIT, decoded: false };
        let Some(ppa) = ppa else {
            return nowhere;
        };
        if self.may_err {
            // The parts one by one: who adds them up is not to wait for memory where no errors are
            // modelled.
            let (done, [die, array, channel], decoded) = self.read_erring(from, ppa, len, bytes);
            return PageRead { done, parts: [die, array, channel], decoded };
        }
        if self.in_buffer(ppa, from) {
            return nowhere;
        }
        let page = ppa.0 >> self.geometry.page_shift;
        let ReadTimes { begin, sensed, done } = self.nand.read(self.now, from, page, bytes);
        let parts = [begin.since(from), sensed.since(begin), done.since(sensed)];
        PageRead { done, parts, decoded: false }
    }

    /// Whether a page's data is still on its way to flash.
    #[inline]
    fn in_buffer(&self, ppa: Ppa, at: Nanos) -> bool {
        let StreamPage { stream, page } = self.stream_page_at(ppa);
        self.buffers[usize::from(stream)].holds(page, at, &self.nand)
    }

    #[inline(always)]
    fn stream_page_at(&self, ppa: Ppa) -> StreamPage {
        let (index, offset) = self.ftl.locate(ppa);
        let superblock = self.ftl.superblock(index);
        let page = superblock.first_page + u64::from(offset >> self.geometry.page_shift);
        StreamPage { stream: superblock.stream, page }
    }

    // ---- Events, while they are kept.

    /// From now on the first `limit` events are kept, and how busy dies and channels are.
    pub fn keep_events(&mut self, limit: usize) {
        self.events = Some(Box::new(EventLog::new(limit)));
        self.nand.keep_activity(self.now);
    }

    /// What was kept, which ends with this.
    pub fn take_events(&mut self) -> Option<Events> {
        let (events, dropped) = self.events.take()?.finish();
        let flash = *self.nand.take_activity()?;
        let superblocks = self.ftl.superblock_states().collect();
        Some(Events { events, dropped, flash, superblocks })
    }

    #[cold]
    #[inline(never)]
    fn note(&mut self, kind: EventKind, superblock: u32, begin: Nanos, end: Nanos) {
        let event = Event { kind, begin, end: Some(end), ..self.event_of(superblock) };
        self.events.iter_mut().for_each(|log| log.add(event));
    }

    /// Pages of the victim are about to be copied.
    #[cold]
    #[inline(never)]
    fn note_copy(&mut self, source: &Source, at: Nanos, trigger: Trigger) {
        // What is moved of a failed die empties no superblock.
        if self.ftl.superblock(source.superblock).state != State::Victim {
            return;
        }
        let event = self.victim_event(source.superblock, at, trigger);
        let copied_4k = source.pages << self.geometry.unit_shift;
        self.events.iter_mut().for_each(|log| log.note_copy(copied_4k, event));
    }

    #[cold]
    #[inline(never)]
    fn note_retired(&mut self, purpose: Purpose, at: Nanos, trigger: Trigger) {
        let event = self.victim_event(self.ftl.victim_cycles(purpose).0, at, trigger);
        let event = Event { end: Some(at), ..event };
        self.events.iter_mut().for_each(|log| log.note_retired(event));
    }

    fn victim_event(&self, superblock: u32, begin: Nanos, trigger: Trigger) -> Event {
        let slc = self.ftl.superblock(superblock).slc;
        let kind = if slc { EventKind::Fold } else { EventKind::Collection };
        Event { kind, begin, trigger: Some(trigger), ..self.event_of(superblock) }
    }

    fn event_of(&self, superblock: u32) -> Event {
        let SuperblockState { valid_pages, erases, slc, .. } =
            self.ftl.superblock_state(superblock);
        Event {
            kind: EventKind::Open,
            begin: Nanos::ZERO,
            end: None,
            superblock,
            valid_pages,
            copied_pages: 0,
            erases,
            slc,
            trigger: None,
        }
    }

    // ---- The map's own traffic.

    #[inline(always)]
    pub fn has_map_cache(&self) -> bool {
        self.map.is_cached()
    }

    /// Traffic of the map cache so far.
    pub fn map_traffic(&self) -> MapTraffic {
        self.map.traffic()
    }

    /// When the map entries of all these pages are in the controller.
    #[inline(never)]
    pub fn translate(&mut self, from: Nanos, first: Lpn, last: Lpn, change: bool) -> Nanos {
        let pages = MapAccess::pages(first, last);
        pages.map(|page| self.load_map_page(from, page, change)).max().unwrap_or(from)
    }

    /// `translate` for a range that is unmapped: only its ends are in pages that keep other
    /// entries.
    pub fn translate_edges(&mut self, from: Nanos, first: Lpn, last: Lpn) -> Nanos {
        let pages = MapAccess::pages(first, last);
        let ready = self.load_map_page(from, *pages.start(), true);
        ready.max(self.load_map_page(from, *pages.end(), true))
    }

    fn load_map_page(&mut self, from: Nanos, page: u32, change: bool) -> Nanos {
        self.map.load(&mut self.nand, self.now.min(from), from, page, change)
    }

    /// Writes at `at` what the map journal has gathered, if that is enough; returns how many
    /// programs that takes.
    #[inline(always)]
    pub fn write_journal(&mut self, at: Nanos) -> u64 {
        self.map.write_journal(&mut self.nand, self.now.min(at), at)
    }

    // ---- Erasing everything.

    /// All data is gone in no time. `erase`: flash is erased as well, else when it is used again.
    pub fn forget_all(&mut self, erase: bool) {
        self.settle();
        self.ftl.forget_all(erase);
        self.nand.forget_all();
        self.map.forget();
        self.replace(0, self.geometry.user_pages);
        self.buffers
            .iter_mut()
            .for_each(|buffer| *buffer = WriteBuffer::new(self.buffer_pages, self.buffer_release));
    }

    /// Erases all that is not erased, from `from` on; returns when that is done.
    pub fn erase_blocks(&mut self, from: Nanos) -> Nanos {
        self.settle();
        for index in self.ftl.superblocks_to_erase() {
            self.nand.erase_superblock(from, index);
        }
        self.nand.idle_at().max(from)
    }

    /// What programming a whole superblock takes.
    pub fn program_time(&self) -> Nanos {
        let pages = self.geometry.superblock_pages >> self.geometry.page_shift;
        self.nand.program_times(0, pages).into_iter().fold(Nanos::ZERO, Nanos::max)
    }

    /// Writes a superblock so often with a pattern, erased before each time, from `from` on, as
    /// pages with as many bits per cell as it has now; returns when all that was asked so far is
    /// done. Its data is still mapped, whatever it holds then.
    pub fn overwrite(&mut self, from: Nanos, index: u32, passes: u32) -> Nanos {
        self.settle();
        let Some((pages, erases)) = self.ftl.overwrite(index, passes) else { return from };
        let first = index * self.geometry.superblock_pages;
        let times = self
            .nand
            .program_times(first >> self.geometry.page_shift, pages >> self.geometry.page_shift);
        for pass in 0..passes {
            if pass >= passes - erases {
                self.nand.erase_superblock(from, index);
            }
            self.nand.program_all(from, &times);
            self.padded_pages += u64::from(pages);
        }
        self.nand.idle_at().max(from)
    }
}
