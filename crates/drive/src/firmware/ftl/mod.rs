//! The flash translation layer: the place of each page (mapping unit), and the place of the next
//! one. It knows no time.
//!
//! It is composed of parts that own their state: the map (`mapping.rs`), frontiers and free
//! superblocks (`placement.rs`), the superblocks' records (`superblocks.rs`), the choice of victims
//! (`victims.rs`), and where a profile has them the SLC cache's superblocks (`slc.rs`), lifespans
//! (`lifespans.rs`) and a policy plug-in (`../plugin.rs`). This file has what concerns several
//! parts; `emptying.rs` takes victims from choice to erase.

mod check;
mod emptying;
mod groups;
mod lifespans;
mod mapping;
mod placement;
mod recovery;
mod slc;
mod superblocks;
mod victims;

use std::collections::VecDeque;
use std::ops::Range;

use drivebay_units::{Lpn, Ppa, Rng};

use crate::events::SuperblockState;
use crate::io::DeviceError;
use crate::operations::{Operation, OperationKind};
use crate::persist::persist;
use crate::plugin::Plugin;
use crate::policy_plugin::{Pace, RetriedRead};
use crate::profile::{Geometry, Spec};
use crate::superblock::{
    HOST, Mode, PURPOSES, Purpose, Source, State, Streams, Superblock, Victim,
};
use lifespans::Lifespans;
use mapping::Mapping;
use placement::{Groups, Placement};
use slc::SlcBlocks;
use superblocks::Superblocks;
use victims::VictimSelection;

/// The map and the state of all superblocks.
pub struct Ftl {
    geometry: Geometry,
    streams: Streams,
    mapping: Mapping,
    placement: Placement,
    superblocks: Superblocks,
    selection: VictimSelection,
    /// Victim of each purpose.
    victims: [Option<Victim>; PURPOSES],
    slc: SlcBlocks,
    lifespans: Option<Box<Lifespans>>,
    /// True if lifespans are followed or there are several reclaim groups.
    places_otherwise: bool,
    /// Pages of each stream, on drives with placement handles.
    stream_use: Vec<StreamUse>,
    /// Pages copied of each of these ranges of logical pages, while that is counted.
    owners: Vec<(Range<u32>, u64)>,
    /// True if copies are counted by stream or by owner.
    counts_copies: bool,
    plugin: Option<Box<Plugin>>,
    /// Reclaim groups, if there are several.
    groups: Option<Box<Groups>>,
}

/// Pages of a write stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamUse {
    /// Pages that the host wrote to it, or that were copied into it from another.
    pub written: u64,
    /// Pages copied out of its superblocks.
    pub copied: u64,
}

persist!(StreamUse: written, copied);

persist!(Ftl: mapping, placement, superblocks, selection, victims, slc, lifespans, stream_use, plugin, groups;
    given: geometry, streams, owners, counts_copies, places_otherwise);

impl Ftl {
    /// An erased drive.
    ///
    /// # Errors
    /// When the system has no memory for the tables.
    pub fn new(spec: &Spec, rng: &Rng) -> std::io::Result<Ftl> {
        Ok(Self::with_map(Mapping::new(spec)?, spec, rng))
    }

    /// Reuses these tables for a fresh drive, if they fit its profile.
    pub fn reset(mut self, spec: &Spec, rng: &Rng) -> Option<Ftl> {
        let (old, new) = (&self.geometry, &spec.geometry);
        let fits = old.user_pages == new.user_pages
            && old.superblock_pages == new.superblock_pages
            && old.superblocks == new.superblocks
            && self.superblocks.fits(spec);
        if !fits {
            return None;
        }
        self.mapping.log = None;
        self.mapping.clear();
        Some(Self::with_map(self.mapping, spec, rng))
    }

    fn with_map(mapping: Mapping, spec: &Spec, rng: &Rng) -> Ftl {
        let mut ftl = Ftl {
            geometry: spec.geometry,
            streams: spec.streams,
            mapping,
            placement: Placement::new(spec),
            superblocks: Superblocks::new(spec),
            selection: VictimSelection::new(spec, rng),
            victims: [None; PURPOSES],
            slc: SlcBlocks::new(spec),
            lifespans: Lifespans::new(spec),
            stream_use: vec![StreamUse::default(); spec.streams.placed_streams()],
            owners: Vec::new(),
            counts_copies: spec.streams.handles > 0,
            plugin: Plugin::new(spec, rng),
            groups: Groups::new(spec.streams),
            places_otherwise: false,
        };
        ftl.places_otherwise = ftl.lifespans.is_some() || ftl.has_groups();
        ftl.forget_blocks();
        ftl
    }

    /// Unmaps everything and frees every superblock. `erase`: erases them as well, else they are
    /// erased when they are used. Wear stays.
    pub fn forget_all(&mut self, erase: bool) {
        let used = self.superblocks.all().to_vec();
        self.plugin.iter_mut().for_each(|plugin| plugin.start());
        self.mapping.clear();
        self.forget_blocks();
        if !erase {
            for (s, used) in self.superblocks.all_mut().iter_mut().zip(used) {
                (s.erased, s.erases) = (used.erased, used.erases);
                (s.slc, s.slc_erases) = (used.slc, used.slc_erases);
            }
        }
    }

    fn forget_blocks(&mut self) {
        let g = &self.geometry;
        let good = g.superblocks - g.bad_superblocks;
        let ordinary = good - g.slc_superblocks;
        let fixed = ordinary..good;
        self.slc.clear(&self.placement, &self.superblocks);
        self.superblocks.clear(g.superblocks, good);
        let free = |&index: &u32| self.superblocks.get(index).state == State::Free;
        self.slc.free = fixed.filter(free).collect();
        self.placement.clear();
        for group in (0..self.streams.groups).rev() {
            self.enter(group);
            let free = |&index: &u32| self.superblocks.get(index).state == State::Free;
            let all = (group as u32..ordinary).step_by(self.streams.groups);
            self.placement.free = all.filter(free).collect();
            self.victims = [None; PURPOSES];
            self.superblocks.sealed = 0;
        }
        self.placement.free_pages = self.superblocks.usable_pages();
        self.selection.clear_suggested();
    }

    /// Superblocks that hold or held data since their last erase.
    pub fn superblocks_to_erase(&self) -> impl Iterator<Item = u32> {
        let all = (0u32..).zip(self.superblocks.all());
        all.filter(|(_, s)| !s.erased && s.state != State::Bad).map(|(index, _)| index)
    }

    /// Notes that a superblock is overwritten `passes` times over all its pages; returns how many
    /// pages these are, and how often it is erased for that. `None` if it is bad.
    pub fn overwrite(&mut self, index: u32, passes: u32) -> Option<(u32, u32)> {
        self.superblocks.overwrite(index, passes)
    }

    /// The write streams.
    #[inline(always)]
    pub fn streams(&self) -> Streams {
        self.streams
    }

    /// Stream of the host's `pages` pages from `lpn` on, with this placement handle. Cost: 1 map
    /// entry, where lifespans are followed.
    ///
    /// # Errors
    /// [`DeviceError::Policy`].
    #[inline(always)]
    pub fn stream_of(&mut self, lpn: Lpn, pages: u32, handle: u8) -> Result<usize, DeviceError> {
        match self.places_otherwise {
            true => self.stream_otherwise(lpn, pages, handle),
            false => Ok(self.streams.of_handle(handle)),
        }
    }

    /// Stream by reclaim group, or by lifespan.
    #[inline(never)]
    fn stream_otherwise(&mut self, lpn: Lpn, pages: u32, handle: u8) -> Result<usize, DeviceError> {
        if self.has_groups() {
            return Ok(self.streams.of_place(handle));
        }
        let old = self.look_up(lpn).map(|ppa| *self.superblock(self.locate(ppa).0));
        let Some(lifespans) = &mut self.lifespans else { return Ok(HOST) };
        let stream = lifespans.stream_of(pages, old);
        let Some(plugin) = self.plugin.as_mut().filter(|plugin| plugin.decides.frontier) else {
            return Ok(stream);
        };
        plugin.see_free(self.placement.free_pages, self.placement.free.len());
        plugin.place_write(&lifespans.write(u64::from(lpn.0), pages, old))
    }

    /// Pace of garbage collection after a command that took `pages`: `own`, unless a plug-in sets
    /// it.
    #[inline]
    pub fn pace(&mut self, pages: u64, own: Pace) -> Pace {
        match &mut self.plugin {
            Some(plugin) if plugin.decides.pace => {
                plugin.see_free(self.placement.free_pages, self.placement.free.len());
                plugin.pace(pages, own)
            }
            _ => own,
        }
    }

    /// The plug-in, if there is one.
    #[inline]
    pub fn plugin(&self) -> Option<&Plugin> {
        self.plugin.as_deref()
    }

    /// True if a plug-in wants the data of a superblock moved in which a read needed retries.
    #[cold]
    pub fn moves_retried(&mut self, read: &RetriedRead) -> bool {
        match &mut self.plugin {
            Some(plugin) if plugin.decides.retried => {
                plugin.see_free(self.placement.free_pages, self.placement.free.len());
                plugin.read_retried(read)
            }
            _ => false,
        }
    }

    /// The address of a page, if it is mapped. Cost: 1 map miss.
    #[inline(always)]
    pub fn look_up(&self, lpn: Lpn) -> Option<Ppa> {
        self.mapping.look_up(lpn)
    }

    /// The address of each page; [`crate::NOWHERE`] for one that is not mapped.
    pub fn addresses(&self) -> impl Iterator<Item = u32> {
        let pages = self.geometry.user_pages as usize;
        self.mapping.entries(0..pages).iter().map(|entry| entry.wrapping_sub(1))
    }

    /// Starts fetching a page's map entry.
    #[inline(always)]
    pub fn prefetch(&self, lpn: Lpn) {
        self.mapping.prefetch(lpn);
    }

    /// The page that was put at an address last. Cost: 1 entry.
    #[inline(always)]
    pub fn page_at(&self, ppa: Ppa) -> Lpn {
        self.mapping.page_at(ppa)
    }

    /// The superblock of an address, and the address's number in it.
    #[inline(always)]
    pub fn locate(&self, ppa: Ppa) -> (u32, u32) {
        self.mapping.locate(ppa)
    }

    /// Pages mapped.
    pub fn mapped(&self) -> u64 {
        self.mapping.mapped
    }

    /// Pages that are erased, or will be when the part of the victim already read is erased.
    #[inline(always)]
    pub fn free_pages(&self) -> u64 {
        self.placement.free_pages
    }

    /// Pages of all superblocks that are not bad, without those of the static SLC cache. With
    /// several reclaim groups: what the poorest group has, times the number of groups.
    pub fn usable_pages(&self) -> u64 {
        match self.has_groups() {
            true => self.usable_in_groups(),
            false => self.superblocks.usable_pages(),
        }
    }

    /// Free superblocks, of the current reclaim group.
    #[inline(always)]
    pub fn free_superblocks(&self) -> usize {
        self.placement.free.len()
    }

    /// Pages of each stream; empty without placement handles.
    pub fn stream_use(&self) -> &[StreamUse] {
        &self.stream_use
    }

    /// Counts pages that the host wrote to a stream.
    #[inline(always)]
    pub fn note_written(&mut self, stream: usize, pages: u32) {
        if self.streams.handles > 0 {
            self.stream_use[stream].written += u64::from(pages);
        }
    }

    /// Begins to copy pages out of a superblock; returns the stream that they go to.
    #[inline(always)]
    pub fn begin_copy(&mut self, source: Source) -> usize {
        // The record is read only where it matters.
        if self.counts_copies { self.count_copy(source) } else { self.streams.copies }
    }

    /// Counts from now on how many pages are copied of each of these ranges, which do not overlap;
    /// with none it stops. Returns the counts so far.
    pub fn count_copies_of(&mut self, owners: Vec<Range<u32>>) -> Vec<u64> {
        self.counts_copies = self.streams.handles > 0 || !owners.is_empty();
        let owners = owners.into_iter().map(|pages| (pages, 0)).collect();
        std::mem::replace(&mut self.owners, owners).into_iter().map(|(_, copied)| copied).collect()
    }

    #[inline(never)]
    fn count_copy(&mut self, source: Source) -> usize {
        let of_page = (0..u32::BITS).filter(|bit| source.valid >> bit & 1 == 1);
        for bit in of_page.take(if self.owners.is_empty() { 0 } else { u32::BITS as usize }) {
            let page = self.page_at(Ppa(source.first.0 + bit)).0;
            let mut owners = self.owners.iter_mut();
            owners.find(|(pages, _)| pages.contains(&page)).into_iter().for_each(|(_, n)| *n += 1);
        }
        if self.streams.handles == 0 {
            return self.streams.copies;
        }
        let from = usize::from(self.superblock(source.superblock).stream);
        let (to, pages) = (self.streams.copies_of(from), u64::from(source.pages));
        self.stream_use[from].copied += pages;
        self.stream_use[to].written += if to == from { 0 } else { pages };
        to
    }

    /// Space left at the frontier of copies of the current reclaim group that has least.
    #[inline(always)]
    pub fn room_for_copies(&self) -> u32 {
        let room = self.placement.room_to_last(self.streams.copies);
        if !self.streams.are_apart() {
            return room;
        }
        let others = self.streams.more_copies();
        others.map(|stream| self.placement.room_to_last(stream)).fold(room, u32::min)
    }

    /// A superblock's record.
    #[inline(always)]
    pub fn superblock(&self, index: u32) -> &Superblock {
        self.superblocks.get(index)
    }

    /// A superblock as results show it.
    pub fn superblock_state(&self, index: u32) -> SuperblockState {
        let valid_pages = self.mapping.valid()[index as usize] << self.geometry.unit_shift;
        let Superblock { state, erases, slc_erases, slc, .. } = *self.superblock(index);
        SuperblockState { state, valid_pages, erases, slc_erases, slc }
    }

    /// All superblocks as results show them.
    pub fn superblock_states(&self) -> impl Iterator<Item = SuperblockState> {
        (0..self.superblocks.all().len() as u32).map(|index| self.superblock_state(index))
    }

    /// Wear of a superblock, in erases after use with all bits per cell.
    pub fn cycles(&self, index: u32) -> u32 {
        self.superblocks.cycles(index)
    }

    /// Wear of all superblocks.
    pub fn cycles_of_all(&self) -> Vec<u32> {
        self.superblocks.cycles_of_all()
    }

    /// As [`Superblocks::wear_on`].
    pub fn wear_on(&mut self, began: &[u32], since: &[u32], times: f64) -> Vec<Range<u32>> {
        self.superblocks.wear_on(began, since, times)
    }

    /// Erases of a superblock that is in use: the fewest, the most, and the mean, rounded down.
    pub fn erases_of_a_superblock(&self) -> [u32; 3] {
        let used = (0..).zip(self.superblocks.all()).filter(|(_, s)| s.state != State::Bad);
        let cycles: Vec<u32> = used.map(|(index, _)| self.cycles(index)).collect();
        let sum: u64 = cycles.iter().copied().map(u64::from).sum();
        let mean = sum / cycles.len().max(1) as u64;
        let of = |end: Option<&u32>| end.copied().unwrap_or(0);
        [of(cycles.iter().min()), of(cycles.iter().max()), mean as u32]
    }

    /// Space left at a stream's frontier before parity, a failed die, or the next superblock
    /// begins.
    #[inline(always)]
    pub fn room(&self, stream: usize) -> u32 {
        self.placement.room(stream)
    }

    /// Space left before the next superblock must be opened; some of it may not be for data.
    #[inline(always)]
    pub fn room_to_last(&self, stream: usize) -> u32 {
        self.placement.room_to_last(stream)
    }

    /// Part of [`Self::room_to_last`] that is for data at least. guess: half, if some is not.
    fn data_room(&self, stream: usize) -> u32 {
        let (room, all) = (self.room(stream), self.room_to_last(stream));
        room.max(all / 2)
    }

    /// A stream's next address, and the end of its superblock.
    pub fn frontier(&self, stream: usize) -> Range<u32> {
        let frontier = &self.placement.frontiers()[stream];
        frontier.next..frontier.end
    }

    /// Sets where the data of a stream's superblock stops next, and where it ends.
    pub fn set_stop(&mut self, stream: usize, stop: [u32; 2]) {
        self.placement.set_stop(stream, stop);
    }

    /// Passes over a stream's next flash page, which holds no data; returns its first address.
    pub fn pass(&mut self, stream: usize) -> Ppa {
        let Range { start, end } = self.frontier(stream);
        let pages = 1 << self.geometry.page_shift;
        self.placement.set_stop(stream, [start + pages, end]);
        self.placement.take(stream, pages);
        self.mapping.pad(start, pages);
        Ppa(start)
    }

    fn free_list(&mut self, mode: Mode) -> &mut VecDeque<u32> {
        if mode == Mode::Static { &mut self.slc.free } else { &mut self.placement.free }
    }

    /// Seals a stream's full frontier and opens the next free superblock in turn; false if none is
    /// free.
    ///
    /// `mode`: list that it comes from, and bits per cell. `first_page`: number of the superblock's
    /// first flash page in the stream's buffer.
    pub fn open(&mut self, stream: usize, first_page: u64, mode: Mode) -> bool {
        debug_assert_eq!(self.room(stream), 0);
        let Some(index) = self.free_list(mode).pop_front() else {
            return false;
        };
        if let Some(plugin) = &mut self.plugin {
            plugin.see_free(self.placement.free_pages, self.placement.free.len());
        }
        let (valid, plugin) = (self.mapping.valid(), self.plugin.as_deref_mut());
        self.selection.order_free(&mut self.placement.free, &self.superblocks, valid, plugin);
        if let Some(full) = self.placement.standing(stream) {
            self.superblocks.seal(full);
            if self.superblocks.get(full).slc {
                self.slc.note_sealed();
            }
        }
        let s = self.superblocks.get_mut(index);
        debug_assert!(s.state == State::Free && s.erased);
        (s.state, s.erased, s.stream) = (State::Open, false, stream as u8);
        (s.first_page, s.slc) = (first_page, mode != Mode::Native);
        if let Some(lifespans) = &self.lifespans {
            s.opened = lifespans.clock;
        }
        let pages = self.superblocks.pages_of(index);
        if mode != Mode::Native {
            self.slc.note_opened(mode, pages);
            // Its pages count as free in place of those counted before.
            let before = self.superblocks.counts_free(index);
            self.placement.free_pages = self.placement.free_pages + u64::from(pages) - before;
        }
        let begin = self.superblocks.begin_of(index);
        let number = (first_page << self.geometry.page_shift) as u32;
        self.placement.start(stream, index, [begin, begin + pages], number);
        true
    }

    /// Next free superblock in turn.
    pub fn next_free(&mut self, mode: Mode) -> Option<u32> {
        self.free_list(mode).front().copied()
    }

    /// Flash pages that each stream had taken when a free superblock was reclaimed: all of them
    /// must be safe before it may be erased.
    pub fn given_back(&self, index: u32) -> &[u64] {
        self.placement.given_back(index)
    }

    /// Notes that a free superblock is erased.
    pub fn erased(&mut self, index: u32) {
        let s = self.superblocks.get_mut(index);
        s.erased = true;
        s.erases += 1;
        s.slc_erases += u32::from(s.slc);
        self.slc.erases += u64::from(s.slc);
        let (begin, pages) = (self.superblocks.begin_of(index), self.superblocks.pages_of(index));
        self.mapping.note(OperationKind::Erase, 0, begin, pages);
    }

    /// Returns the operations since the last call; `keep`: logs them from now on, else no longer.
    pub fn take_operations(&mut self, keep: bool) -> Vec<Operation> {
        std::mem::replace(&mut self.mapping.log, keep.then(Vec::new)).unwrap_or_default()
    }

    /// Places pages `lpn..lpn + len` at a stream's frontier, which must have space; returns the
    /// first address. Cost: 1 map miss per run of pages that lie together in the map.
    #[inline]
    pub fn place(&mut self, stream: usize, lpn: Lpn, len: u32) -> Ppa {
        let (first, superblock, mut replaced) = self.placement.take(stream, len);
        replaced.remember(first, self.mapping.entries(lpn.0 as usize..(lpn.0 + len) as usize));
        self.mapping.place(superblock, first, lpn, len);
        Ppa(first)
    }

    /// Pads a stream's superblock, which has space for it, with at least so many pages, and up to
    /// the end of its open flash page; returns the first address and the number of pages. `None` if
    /// there is nothing to pad.
    pub fn pad(&mut self, stream: usize, pages: u32) -> Option<(Ppa, u32)> {
        let next = self.placement.frontiers()[stream].next;
        let count = (next + pages).next_multiple_of(1 << self.geometry.page_shift) - next;
        if count == 0 {
            return None;
        }
        self.placement.take(stream, count);
        self.mapping.pad(next, count);
        Some((Ppa(next), count))
    }

    /// Closes a stream's superblock, full or not.
    pub fn abandon(&mut self, stream: usize) {
        let Range { start, end } = self.frontier(stream);
        self.placement.set_stop(stream, [end; 2]);
        self.placement.take(stream, end - start);
    }

    /// Flash page `back` pages before the newest of a stream, in the same superblock.
    pub fn frontier_page(&self, stream: usize, back: u64) -> u32 {
        let next = self.placement.frontiers()[stream].next;
        ((next - 1) >> self.geometry.page_shift) - back as u32
    }

    /// Unmaps pages; returns how many were mapped.
    pub fn trim(&mut self, lpn: Lpn, len: u32) -> u64 {
        self.mapping.trim(lpn, len)
    }

    /// Suggests a full superblock as a victim, whatever it holds; ignores others, and the SLC
    /// cache, which folding empties.
    #[cold]
    pub fn suggest_victim(&mut self, index: u32) {
        let s = self.superblocks.get(index);
        if s.state == State::Sealed && !s.slc {
            self.selection.suggest(index);
        }
    }

    /// True if a suggested superblock waits to be a victim, or is one.
    #[inline(always)]
    pub fn must_collect(&self) -> bool {
        !self.selection.suggested().is_empty()
    }

    /// True if a superblock is free and waits to be erased.
    pub fn is_free_and_used(&self, index: u32) -> bool {
        let s = self.superblocks.all().get(index as usize);
        s.is_some_and(|s| s.state == State::Free && !s.erased)
    }

    /// List of the SLC cache's next superblock; none if the cache is full. `reserve`: free
    /// superblocks that only garbage collection may use.
    pub fn next_of_cache(&self, reserve: usize) -> Option<Mode> {
        self.slc.next(&self.placement, reserve)
    }

    /// True if there is something to fold.
    #[inline(always)]
    pub fn can_fold(&self) -> bool {
        self.slc.has_sealed() || self.victim(Purpose::Folding).is_some()
    }

    /// True if the next superblock to fold holds no valid page any more.
    pub fn fold_is_empty(&self) -> bool {
        let victim = self.victim(Purpose::Folding);
        let index = victim.map(|v| v.superblock).or_else(|| self.next_to_fold());
        index.is_some_and(|index| self.mapping.valid()[index as usize] == 0)
    }

    /// Most pages of data that the cache can hold just now, and its valid pages.
    pub fn cache_pages(&self, reserve: usize) -> (u64, u64) {
        self.slc.capacity(&self.placement, &self.superblocks, self.mapping.valid(), reserve)
    }

    /// Pages placed in the cache so far, padding included.
    pub fn slc_pages(&self) -> u64 {
        self.slc.pages_placed(&self.placement, &self.superblocks)
    }

    /// Erases that followed use with one bit per cell.
    pub fn slc_erases(&self) -> u64 {
        self.slc.erases
    }
}
