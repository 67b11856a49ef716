//! The flash back end: map, superblocks, write buffers and dies, and the order that holds among
//! them.
//!
//! A write takes an address at a frontier ([`Ftl`]) and a place in the write buffer ([`DataPath`]);
//! when all planes of a die are full, the die's program joins the deferred program queue. Erases
//! run one superblock ahead: the copies of a victim's pages may still be in the write buffer, and a
//! power cut would lose both versions, so a superblock is erased only once all that was placed
//! before it was reclaimed is safe. If none was free then, it is erased when it is opened. Real
//! firmware orders erases after its journal for the same reason.
//!
//! Parts: copies (`backend/copies.rs`), errors and wear (`backend/errors.rs`, decided in
//! `physics/reliability.rs`), parity and failed dies (`backend/dies.rs`, `datapath/stripes.rs`),
//! power cuts, erasing everything, and events.

mod copies;
mod damage;
mod dies;
mod erase;
mod errors;
mod events;
mod power_cut;
mod space;

use drivebay_units::{Lpn, Nanos, Ppa, Rng};

use crate::events::{EventKind, EventLog, Trigger};
use crate::firmware::datapath::map_access::MapAccess;
use crate::firmware::datapath::stripes::Stripes;
use crate::firmware::datapath::{DataPath, NO_WAIT, ReadParts, StreamPage};
use crate::firmware::ftl::Ftl;
use crate::firmware::gc::port::GcPort;
use crate::io::DeviceError;
use crate::persist::persist;
use crate::plugin::Plugin;
use crate::policy_plugin::{Decides, Decisions};
use crate::profile::{Geometry, Spec};
use crate::superblock::{Mode, Purpose};
use damage::Damage;
use space::Space;

/// A read of consecutive pages out of one flash page.
pub struct PageRead {
    /// Time when the pages are in the controller.
    pub done: Nanos,
    pub parts: ReadParts,
    /// True if the array was read and its data decoded, which may have found a superblock that must
    /// be refreshed.
    pub decoded: bool,
}

/// The flash back end.
pub struct BackEnd {
    geometry: Geometry,
    /// The map and the superblocks.
    pub ftl: Ftl,
    /// Write buffers and dies.
    pub path: DataPath,
    /// Parity, and dies that failed.
    pub stripes: Box<Stripes>,
    damage: Damage,
    space: Space,
    /// The map's own traffic.
    pub map: MapAccess,
    /// Changes of superblocks, while they are kept.
    events: Option<Box<EventLog>>,
}

persist!(BackEnd: ftl, path, stripes, damage, space, map; given: geometry, events);

impl BackEnd {
    /// Fresh flash; `memory`: a drive's flash whose tables are used where they fit.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn new(spec: &Spec, rng: &Rng, memory: Option<BackEnd>) -> Result<BackEnd, DeviceError> {
        let ftl = match memory.and_then(|flash| flash.ftl.reset(spec, rng)) {
            Some(ftl) => ftl,
            None => Ftl::new(spec, rng).map_err(|e| DeviceError::Memory(e.to_string()))?,
        };
        Ok(BackEnd {
            geometry: spec.geometry,
            ftl,
            path: DataPath::new(spec, rng),
            stripes: Box::new(Stripes::new(spec)),
            damage: Damage::new(spec, rng),
            space: Space::new(spec),
            map: MapAccess::new(spec),
            events: None,
        })
    }

    /// Decisions that a plug-in was asked for so far; none without one.
    pub fn decisions(&self) -> Option<(Decides, Decisions)> {
        let plugin = self.ftl.plugin()?;
        let of_dies =
            self.path.nand.scheduler().map_or_else(Decisions::default, |plugin| plugin.decisions);
        let Decisions { die_reads, die_reads_delayed, .. } = of_dies;
        let decisions = Decisions { die_reads, die_reads_delayed, ..plugin.decisions };
        Some((plugin.decides, decisions))
    }

    /// Returns [`DeviceError::Policy`] once a plug-in has given an answer that is not allowed.
    #[inline]
    pub fn check_plugin(&self) -> Result<(), DeviceError> {
        let plugins = [self.ftl.plugin(), self.path.nand.scheduler()];
        plugins.into_iter().flatten().try_for_each(Plugin::check)
    }

    /// Padding, parity and the map's own data programmed so far, in 4 KiB.
    pub fn overhead_4k(&self) -> u64 {
        (self.space.padded_pages << self.geometry.unit_shift) + self.map.written_4k()
    }

    #[inline(always)]
    pub fn is_read_only(&self) -> bool {
        self.space.read_only
    }

    /// Refuses to be written from now on.
    pub fn wear_out(&mut self) {
        self.space.read_only = true;
    }

    /// True if data since the last call could not be read.
    #[inline(always)]
    pub fn take_media_error(&mut self) -> bool {
        std::mem::take(&mut self.damage.media_error)
    }

    /// Free superblocks that only garbage collection may use.
    pub fn reserve(&self) -> usize {
        self.space.reserve as usize
    }

    // ---- Time.

    /// Brings the dies up to `until`: nothing will ask them for an earlier time.
    #[inline(always)]
    pub fn dies_until(&mut self, until: Nanos) {
        self.start_until(until);
        self.path.raise_floor(until);
    }

    /// Asks the dies for what is due until then.
    #[inline(always)]
    pub fn start_until(&mut self, until: Nanos) {
        while self.path.next_at() <= until {
            self.start_next();
        }
    }

    /// Asks the dies for what is due first.
    fn start_next(&mut self) {
        if self.path.erase_is_next() {
            self.erase_next();
        } else {
            self.path.program_next();
        }
    }

    /// Erases the superblock that has waited longest, whenever it is due.
    ///
    /// The copies of its pages count as safe from now on: commands that are served already may have
    /// their turn after a power cut that comes next, but their erases cannot be undone.
    fn erase_next(&mut self) {
        let (at, index) = self.path.erase_next();
        self.ftl.erased(index);
        if self.events.is_some() {
            self.note(EventKind::Erase, index, at, self.path.nand.idle_at());
        }
        self.path.promise(self.ftl.given_back(index), self.path.now());
    }

    // ---- Writing.

    /// Places pages at a stream's frontier, which must have space; returns when the last is in the
    /// buffer.
    #[inline(always)]
    pub fn write(&mut self, stream: usize, lpn: Lpn, len: u32, from: Nanos) -> Nanos {
        let first = self.ftl.place(stream, lpn, len);
        self.map.note_change(1);
        self.path.fill(stream, first, len, from)
    }

    /// Unmaps pages, and forgets which of them were lost.
    pub fn unmap(&mut self, first: Lpn, count: u32) {
        self.ftl.trim(first, count);
        self.replace(first.0, count);
    }

    /// Notes that pages get new data or none: it no longer matters which of them were lost.
    #[inline(always)]
    pub fn replace(&mut self, first: u32, count: u32) {
        self.damage.replace(first..first + count);
    }

    /// Programs all that a stream's buffer holds; returns when its newest `pages` flash pages are
    /// safe: see [`DataPath::make_durable`].
    pub fn make_durable(&mut self, stream: usize, at: Nanos, pages: u64) -> Nanos {
        self.pad(stream, 0, at);
        let ftl = &self.ftl;
        self.path.make_durable(stream, at, pages, |before| ftl.frontier_page(stream, before))
    }

    /// Fills at least so many pages of a stream's superblock with padding, and its open flash page;
    /// returns when they have a place in the buffer.
    pub fn pad(&mut self, stream: usize, pages: u32, at: Nanos) -> Nanos {
        let Some((first, count)) = self.ftl.pad(stream, pages) else { return at };
        self.space.padded_pages += u64::from(count);
        self.space.padding += u64::from(count);
        self.path.fill(stream, first, count, at)
    }

    /// Closes a stream's superblock, which may not be full: programs what it was given so far.
    pub fn abandon(&mut self, stream: usize, at: Nanos) {
        if !self.ftl.frontier(stream).is_empty() {
            self.make_durable(stream, at, 0);
            self.ftl.abandon(stream);
        }
    }

    /// Reclaims the superblocks that hold no valid page any more.
    pub fn collect_empty(&mut self, at: Nanos) {
        while self.ftl.take_empty() {
            self.retire_victim(Purpose::Folding, at, Trigger::Behind);
        }
    }

    /// [`BackEnd::make_durable`] for all that the host has written. Copies need none: their sources
    /// are not erased before they are safe.
    pub fn flush(&mut self, at: Nanos) -> Nanos {
        let pages = u64::from(self.path.capacity());
        let hosts = self.ftl.streams().hosts();
        hosts.map(|stream| self.make_durable(stream, at, pages)).fold(at, Nanos::max)
    }

    /// Opens the next superblock for a stream at `at`, with the bits per cell of `mode`; false if
    /// none is free.
    pub fn open(&mut self, stream: usize, at: Nanos, mode: Mode) -> bool {
        if self.pass(stream, at) {
            return true;
        }
        let Some(next) = self.ftl.next_free(mode) else {
            return false;
        };
        if let Some(safe) = self.erase_free(next, at) {
            self.path.wait_until(stream, safe);
        }
        while self.path.will_erase(next) {
            self.erase_next();
        }
        let opened = self.ftl.open(stream, self.path.taken(stream), mode);
        self.path.nand.set_slc(next, mode != Mode::Native);
        if self.events.is_some() {
            self.note(EventKind::Open, next, at, at);
        }
        self.map.note_sealed();
        if let Some(errors) = &mut self.damage.errors {
            errors.open(next, self.ftl.cycles(next), self.path.now());
        }
        self.begin_superblock(stream, next, at);
        if let Some(coming) = self.ftl.next_free(mode) {
            self.erase_free(coming, at);
        }
        opened
    }

    /// Orders a free superblock's erase, unless that was done before; returns the time ordered.
    fn erase_free(&mut self, index: u32, at: Nanos) -> Option<Nanos> {
        if self.ftl.superblock(index).erased || self.path.will_erase(index) {
            return None;
        }
        let safe = self.make_safe(index, at);
        self.path.promise(self.ftl.given_back(index), safe);
        self.path.defer_erase(index, safe);
        Some(safe)
    }

    /// Programs all that was placed before a superblock was reclaimed; returns when it is on flash.
    fn make_safe(&mut self, index: u32, at: Nanos) -> Nanos {
        self.path.program_all();
        let mut safe = at;
        for stream in 0..self.path.streams() {
            let pages = self.path.placed_before(stream, self.ftl.given_back(index));
            let end = match self.path.safe_at(stream, pages.clone(), at) {
                Some(end) => end,
                None => self.make_durable(stream, at, self.path.taken(stream) - pages.start),
            };
            safe = safe.max(end);
        }
        safe
    }

    // ---- Reading.

    /// Reads `len` consecutive pages out of one flash page, the buffer, or nowhere (unmapped).
    ///
    /// `bytes`: size on the channel. `from` must not go back from call to call.
    #[inline(always)]
    pub fn read(&mut self, from: Nanos, ppa: Option<Ppa>, len: u32, bytes: u64) -> PageRead {
        let nowhere = PageRead { done: from, parts: NO_WAIT, decoded: false };
        let Some(ppa) = ppa else {
            return nowhere;
        };
        if self.damage.may_err {
            // The parts one by one: who adds them up is not to wait for memory where no errors are
            // modelled.
            let (done, [die, array, channel], decoded) = self.read_erring(from, ppa, len, bytes);
            return PageRead { done, parts: [die, array, channel], decoded };
        }
        if self.in_buffer(ppa, from) {
            return nowhere;
        }
        let (done, parts) = self.path.read(from, ppa.0 >> self.geometry.page_shift, bytes);
        PageRead { done, parts, decoded: false }
    }

    /// True if a page's data is still on its way to flash.
    #[inline]
    fn in_buffer(&self, ppa: Ppa, at: Nanos) -> bool {
        self.path.holds(self.stream_page_at(ppa), at)
    }

    #[inline(always)]
    fn stream_page_at(&self, ppa: Ppa) -> StreamPage {
        let (index, offset) = self.ftl.locate(ppa);
        let superblock = self.ftl.superblock(index);
        let page = superblock.first_page + u64::from(offset >> self.geometry.page_shift);
        StreamPage { stream: superblock.stream, page }
    }

    // ---- The map's own traffic.

    /// Time when the map entries of all these pages are in the controller.
    #[inline(never)]
    pub fn translate(&mut self, from: Nanos, first: Lpn, last: Lpn, change: bool) -> Nanos {
        let pages = MapAccess::pages(first, last);
        pages.map(|page| self.load_map_page(from, page, change)).max().unwrap_or(from)
    }

    /// As `translate`, for a range that is unmapped: only its ends are in pages that keep other
    /// entries.
    pub fn translate_edges(&mut self, from: Nanos, first: Lpn, last: Lpn) -> Nanos {
        let pages = MapAccess::pages(first, last);
        let ready = self.load_map_page(from, *pages.start(), true);
        ready.max(self.load_map_page(from, *pages.end(), true))
    }

    fn load_map_page(&mut self, from: Nanos, page: u32, change: bool) -> Nanos {
        let now = self.path.now().min(from);
        self.map.load(&mut self.path.nand, now, from, page, change)
    }

    /// Writes at `at` what the map journal has gathered, if that is enough; returns the number of
    /// programs.
    #[inline(always)]
    pub fn write_journal(&mut self, at: Nanos) -> u64 {
        let now = self.path.now().min(at);
        self.map.write_journal(&mut self.path.nand, now, at)
    }
}
