//! The flash translation layer: where each 4 KiB page lies, and where the next one goes.
//!
//! Two flat tables make the map: `map` (page to slot, plus one; 0 is unmapped) and `back` (slot to
//! page). A slot holds valid data exactly when `map[back[slot]]` points to it, so there is no bitmap:
//! 8.3 bytes per 4 KiB for a drive with 7 % spare. Slots are numbered superblock by superblock, and
//! inside one striped over dies first, then planes, then pages, so that neighbours lie on different
//! channels.
//!
//! Sources: superblocks and separate frontiers as in FEMU and NVMeVirt (published simulators);
//! validity by reverse map measured against a bitmap, see docs/adr/0003-validity-by-reverse-map.md.
//! Not modelled here: the map's own reads and writes of flash (`map_cache.rs`).

mod check;
mod lifespan;
mod lifespans;
mod recovery;
mod retire;
mod slc;
mod slc_list;
mod victim;
mod wear;

use std::collections::VecDeque;

use drivebay_units::{Divider, Lpn, Ppa, Rng};

use crate::memory::Table;
use crate::persist::persist;
use crate::spec::{Geometry, Policy, Spec, WearLeveling};
use crate::superblock::{Mode, STREAMS, Source, State, Superblock, Victim};
use crate::write_buffer::WriteBuffer;
use lifespans::Lifespans;
use slc_list::Slc;

/// Marks the map entry of a packed page: it has no address of its own, the entry's is only where to look
/// for it. Only on drives that compress.
const PACKED: u32 = 1 << 31;

/// How far ahead of the scan of a victim the map is prefetched, in slots.
const SCAN_AHEAD: usize = 64;

/// How many entries are fetched at once (a power of two).
const SCAN_GROUP: usize = 32;

/// Where a stream writes.
#[derive(Clone, Copy, Debug, Default)]
struct Frontier {
    superblock: u32,
    next: u32,
    end: u32,
    /// Ppa plus this is the slot's number in its stream (modulo 2^32).
    offset: u32,
}

persist!(Frontier: superblock, next, end, offset);

/// How many of the lowest `BITS` bits are set, the others being zero: by fours from a table in one word,
/// since not every processor that we build for has an instruction for it.
#[inline(always)]
fn ones<const BITS: usize>(bits: u32) -> u32 {
    const OF_FOUR: u64 = 0x4332_3221_3221_2110;
    (0..BITS as u32).step_by(4).map(|at| (OF_FOUR >> (((bits >> at) & 15) * 4)) as u32 & 15).sum()
}

/// Room for what the newest slots of a stream replaced: as many pages as a buffer's ring has places.
fn replaced(spec: &Spec) -> Vec<u32> {
    vec![0; WriteBuffer::places(spec.buffer_pages) << spec.geometry.page_shift]
}

/// The map and the state of all superblocks.
pub struct Ftl {
    geometry: Geometry,
    policy: Policy,
    leveling: WearLeveling,
    /// The last victim was chosen to spread wear.
    leveled: bool,
    map: Table,
    back: Table,
    /// [`PACKED`] on a drive that compresses, 0 on others.
    packed_flag: u32,
    by_superblock: Divider,
    valid: Vec<u32>,
    superblocks: Vec<Superblock>,
    free: VecDeque<u32>,
    /// To be collected before any other.
    suggested: VecDeque<u32>,
    frontiers: [Frontier; STREAMS],
    /// Per stream: what the newest slots took the place of, as map entries. See `recovery.rs`.
    replaced: [Vec<u32>; STREAMS],
    /// Per superblock: how many flash pages each stream had taken when it was last given back.
    given_back: Vec<[u64; STREAMS]>,
    collect_stream: usize,
    victim: Option<Victim>,
    slc: Slc,
    lifespans: Option<Box<Lifespans>>,
    sealed: u64,
    mapped: u64,
    free_slots: u64,
    rng: Rng,
}

persist!(Ftl: leveled, map, back, valid, superblocks, free, suggested, frontiers, replaced, given_back,
    victim, slc, lifespans, sealed, mapped, free_slots, rng;
    given: geometry, policy, leveling, packed_flag, by_superblock, collect_stream);

impl Ftl {
    /// An erased drive.
    ///
    /// # Errors
    /// When the system has no memory for the tables.
    pub fn new(spec: &Spec, rng: &Rng) -> std::io::Result<Ftl> {
        let geometry = spec.geometry;
        let slots = geometry.superblocks as usize * geometry.superblock_slots as usize;
        let mut ftl = Ftl {
            geometry,
            policy: spec.policy.clone(),
            leveling: spec.wear_leveling,
            leveled: false,
            map: Table::new(geometry.user_pages as usize)?,
            back: Table::new(slots)?,
            packed_flag: if spec.compression.is_some() { PACKED } else { 0 },
            by_superblock: Divider::new(geometry.superblock_slots),
            valid: Vec::new(),
            superblocks: Vec::new(),
            free: VecDeque::new(),
            suggested: VecDeque::new(),
            frontiers: [Frontier::default(); STREAMS],
            replaced: std::array::from_fn(|_| replaced(spec)),
            given_back: Vec::new(),
            collect_stream: usize::from(!spec.shared_frontier),
            victim: None,
            slc: Slc::new(spec),
            lifespans: lifespans::new(spec),
            sealed: 0,
            mapped: 0,
            free_slots: 0,
            rng: rng.fork("ftl"),
        };
        ftl.forget_blocks();
        Ok(ftl)
    }

    /// Secure erase: nothing is mapped, every superblock is free; wear stays.
    pub fn erase_all(&mut self) {
        self.map.get_mut().fill(0);
        self.forget_blocks();
    }

    /// Nothing is mapped and every superblock is free; `erase`: erased as well, else when it is used.
    pub fn forget_all(&mut self, erase: bool) {
        let used = self.superblocks.clone();
        self.erase_all();
        if !erase {
            for (s, used) in self.superblocks.iter_mut().zip(used) {
                (s.erased, s.erases) = (used.erased, used.erases);
                (s.slc, s.slc_erases) = (used.slc, used.slc_erases);
            }
        }
    }

    /// Superblocks that hold or held something since their last erase.
    pub fn superblocks_to_erase(&self) -> impl Iterator<Item = u32> {
        let all = (0u32..).zip(&self.superblocks);
        all.filter(|(_, s)| !s.erased && s.state != State::Bad).map(|(index, _)| index)
    }

    /// Whether the host's writes go to two streams.
    pub fn splits_host_writes(&self) -> bool {
        self.lifespans.is_some()
    }

    /// These tables for a fresh drive, if they fit its profile.
    pub fn reset(mut self, spec: &Spec, rng: &Rng) -> Option<Ftl> {
        let (old, new) = (&self.geometry, &spec.geometry);
        let fits = old.user_pages == new.user_pages
            && old.superblock_slots == new.superblock_slots
            && old.superblocks == new.superblocks
            && self.slc.fits(spec);
        if !fits {
            return None;
        }
        self.geometry = spec.geometry;
        self.packed_flag = if spec.compression.is_some() { PACKED } else { 0 };
        self.policy = spec.policy.clone();
        self.slc = Slc::new(spec);
        self.lifespans = lifespans::new(spec);
        self.frontiers = [Frontier::default(); STREAMS];
        (self.leveling, self.leveled) = (spec.wear_leveling, false);
        self.collect_stream = usize::from(!spec.shared_frontier);
        self.rng = rng.fork("ftl");
        self.superblocks.clear();
        self.erase_all();
        Some(self)
    }

    fn forget_blocks(&mut self) {
        self.leave_cache();
        let good = self.geometry.superblocks - self.geometry.bad_superblocks;
        let old = std::mem::take(&mut self.superblocks);
        let was = |index: u32| old.get(index as usize);
        let given_up = |index| was(index).is_some_and(|s| s.state == State::Bad);
        self.superblocks = (0..self.geometry.superblocks)
            .map(|index| Superblock {
                state: if index < good && !given_up(index) { State::Free } else { State::Bad },
                stream: 0,
                erased: true,
                sealed: 0,
                first_page: 0,
                erases: was(index).map_or(0, |s| s.erases + u32::from(!s.erased)),
                opened: 0,
                slc: false,
                slc_erases: was(index).map_or(0, |s| s.slc_erases + u32::from(!s.erased && s.slc)),
            })
            .collect();
        self.valid = vec![0; self.geometry.superblocks as usize];
        let native = good - self.geometry.slc_superblocks;
        self.free = (0..native).filter(|&index| !given_up(index)).collect();
        self.slc.forget((native..good).filter(|&index| !given_up(index)));
        self.suggested.clear();
        self.frontiers = [Frontier::default(); STREAMS];
        self.given_back = vec![[0; STREAMS]; self.geometry.superblocks as usize];
        self.victim = None;
        self.sealed = 0;
        self.mapped = 0;
        self.free_slots = self.usable_slots();
    }

    /// The slot of a page, if it is mapped. Cost: 1 map miss.
    #[inline(always)]
    pub fn look_up(&self, lpn: Lpn) -> Option<Ppa> {
        (self.map.get()[lpn.0 as usize] & !self.packed_flag).checked_sub(1).map(Ppa)
    }

    /// Starts fetching a page's map entry.
    #[inline(always)]
    pub fn prefetch(&self, lpn: Lpn) {
        self.map.prefetch(lpn.0 as usize);
    }

    /// Slots that are erased, or will be when the part of the victim already read is erased.
    #[inline(always)]
    pub fn free_slots(&self) -> u64 {
        self.free_slots
    }

    /// Erased superblocks.
    #[inline(always)]
    pub fn free_superblocks(&self) -> usize {
        self.free.len()
    }

    /// Pages mapped.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// The stream of collected pages.
    #[inline(always)]
    pub fn collect_stream(&self) -> usize {
        self.collect_stream
    }

    /// The superblock of a slot, and the slot's number in it.
    #[inline(always)]
    pub fn locate(&self, slot: Ppa) -> (u32, u32) {
        let superblock = self.by_superblock.divide(slot.0);
        (superblock, slot.0 - superblock * self.geometry.superblock_slots)
    }

    /// A superblock's record.
    #[inline(always)]
    pub fn superblock(&self, index: u32) -> &Superblock {
        &self.superblocks[index as usize]
    }

    /// Room left at a stream's frontier before the next superblock must be opened.
    #[inline(always)]
    pub fn room(&self, stream: usize) -> u32 {
        let f = self.frontiers[stream];
        f.end - f.next
    }

    /// Seals a stream's full frontier and opens the free superblock that is next in turn.
    ///
    /// `mode` says from which of the free ones, and for how many bits per cell.
    /// `first_page` is the number that the superblock's first flash page will have in the stream's
    /// buffer. False if none is free.
    pub fn open(&mut self, stream: usize, first_page: u64, mode: Mode) -> bool {
        debug_assert_eq!(self.room(stream), 0);
        let Some(index) = self.free_list(mode).pop_front() else {
            return false;
        };
        if self.leveling.dynamic {
            self.bring_least_worn_forward();
        }
        self.seal(stream);
        let s = &mut self.superblocks[index as usize];
        debug_assert!(s.state == State::Free && s.erased);
        (s.state, s.erased, s.stream) = (State::Open, false, stream as u8);
        (s.first_page, s.slc) = (first_page, mode != Mode::Native);
        self.note_mode(index, mode);
        self.note_birth(index);
        let next = index * self.geometry.superblock_slots;
        let end = next + self.slots_of(index);
        let offset = ((first_page << self.geometry.page_shift) as u32).wrapping_sub(next);
        self.frontiers[stream] = Frontier { superblock: index, next, end, offset };
        true
    }

    /// Seals the superblock at a stream's frontier, if there is one.
    fn seal(&mut self, stream: usize) {
        if self.frontiers[stream].end != 0 {
            let full = self.frontiers[stream].superblock as usize;
            self.superblocks[full].state = State::Sealed;
            self.superblocks[full].sealed = self.sealed;
            self.sealed += 1;
            self.slc.note_sealed(self.superblocks[full].slc);
        }
    }

    /// The free superblock that is next in turn.
    pub fn next_free(&mut self, mode: Mode) -> Option<u32> {
        self.free_list(mode).front().copied()
    }

    /// How many flash pages each stream had taken when a free superblock was given back: all of those
    /// must be safe before it may be erased.
    pub fn given_back(&self, index: u32) -> &[u64; STREAMS] {
        &self.given_back[index as usize]
    }

    /// Notes that a free superblock is erased.
    pub fn erased(&mut self, index: u32) {
        let s = &mut self.superblocks[index as usize];
        s.erased = true;
        s.erases += 1;
        s.slc_erases += u32::from(s.slc);
        self.slc.erases += u64::from(s.slc);
    }

    /// Places pages `lpn..lpn + len` at a stream's frontier, which must have room.
    ///
    /// Returns the first slot. Cost: 1 map miss per run of pages that lie together in the map.
    #[inline]
    pub fn place(&mut self, stream: usize, lpn: Lpn, len: u32) -> Ppa {
        let first = self.advance(stream, len);
        let range = lpn.0 as usize..(lpn.0 + len) as usize;
        self.remember(stream, first, range.clone());
        self.invalidate(range.clone());
        self.mapped += u64::from(len);
        for (entry, slot) in self.map.get_mut()[range].iter_mut().zip(first + 1..) {
            *entry = slot;
        }
        let slots = first as usize..(first + len) as usize;
        for (entry, page) in self.back.get_mut()[slots].iter_mut().zip(lpn.0..) {
            *entry = page;
        }
        Ppa(first)
    }

    /// Packs a page with the newest address of a stream; false, and nothing done, if there is none.
    pub fn pack(&mut self, stream: usize, lpn: Lpn) -> bool {
        let Frontier { superblock, next, .. } = self.frontiers[stream];
        if next <= superblock * self.geometry.superblock_slots {
            return false;
        }
        let page = lpn.0 as usize;
        self.invalidate(page..page + 1);
        self.mapped += 1;
        self.map.get_mut()[page] = self.packed_flag | next;
        true
    }

    /// Moves valid pages of a victim's flash page to the collection frontier, as far as that has room.
    ///
    /// Returns the first new slot and how many were moved; those are gone from `source` then.
    /// Cost: no miss, the scan has just read the entries.
    #[inline(always)]
    pub fn relocate(&mut self, source: &mut Source) -> (Ppa, u32) {
        let count = source.pages.min(self.room(self.collect_stream));
        source.pages -= count;
        let victim = self.victim.as_ref().expect("pages are moved out of a victim");
        self.valid[victim.superblock as usize] -= count;
        let first = self.advance(self.collect_stream, count);
        let (map, back) = (self.map.get_mut(), self.back.get_mut());
        let replaced = &mut self.replaced[self.collect_stream];
        let mask = replaced.len() - 1;
        let offset = self.frontiers[self.collect_stream].offset;
        for slot in first..first + count {
            let old = source.first.0 + source.valid.trailing_zeros();
            let lpn = back[old as usize];
            source.valid &= source.valid - 1;
            replaced[slot.wrapping_add(offset) as usize & mask] = old + 1;
            map[lpn as usize] = slot + 1;
            back[slot as usize] = lpn;
        }
        (Ppa(first), count)
    }

    /// Takes the next slots of a frontier for valid pages.
    #[inline(always)]
    fn advance(&mut self, stream: usize, len: u32) -> u32 {
        let frontier = &mut self.frontiers[stream];
        debug_assert!(len <= frontier.end - frontier.next);
        let first = frontier.next;
        frontier.next += len;
        self.valid[frontier.superblock as usize] += len;
        self.free_slots -= u64::from(len);
        first
    }

    /// Fills a stream's open flash page with nothing; returns the first slot of that and how many.
    ///
    /// `mask`: slots of a flash page, minus one. None if the stream stands at a page's beginning.
    pub fn pad(&mut self, stream: usize, mask: u32) -> Option<(Ppa, u32)> {
        let frontier = &mut self.frontiers[stream];
        let first = frontier.next;
        let count = first.next_multiple_of(mask + 1) - first;
        if count == 0 {
            return None;
        }
        frontier.next += count;
        self.free_slots -= u64::from(count);
        // No page's entry points here, so these slots are dead, whatever page they name.
        self.back.get_mut()[first as usize..(first + count) as usize].fill(0);
        Some((Ppa(first), count))
    }

    /// The flash page that lies `back` before the newest of a stream, in the same superblock.
    pub fn frontier_page(&self, stream: usize, back: u64) -> u32 {
        ((self.frontiers[stream].next - 1) >> self.geometry.page_shift) - back as u32
    }

    /// Unmaps pages; returns how many were mapped.
    pub fn trim(&mut self, lpn: Lpn, len: u32) -> u64 {
        let before = self.mapped;
        let range = lpn.0 as usize..(lpn.0 + len) as usize;
        self.invalidate(range.clone());
        self.map.get_mut()[range].fill(0);
        before - self.mapped
    }

    /// Takes the old slots of these pages off their superblocks' counts.
    #[inline]
    fn invalidate(&mut self, range: std::ops::Range<usize>) {
        if range.len() == 1 {
            let entry = self.map.get()[range.start];
            if let Some(slot) = entry.checked_sub(1) {
                self.mapped -= 1;
                if entry & self.packed_flag == 0 {
                    self.valid[self.by_superblock.divide(slot) as usize] -= 1;
                }
            }
            return;
        }
        let slots = self.geometry.superblock_slots;
        let (mut begin, mut gone, mut current) = (u32::MAX, 0, 0);
        for &entry in &self.map.get()[range] {
            let Some(slot) = entry.checked_sub(1) else {
                continue;
            };
            if entry & self.packed_flag != 0 {
                self.mapped -= 1;
                continue;
            }
            if slot.wrapping_sub(begin) >= slots {
                self.valid[current] -= gone;
                self.mapped -= u64::from(gone);
                gone = 0;
                current = self.by_superblock.divide(slot) as usize;
                begin = current as u32 * slots;
            }
            gone += 1;
        }
        self.valid[current] -= gone;
        self.mapped -= u64::from(gone);
    }

    /// The victim's next flash page with valid data; None when the victim is done (call
    /// [`Ftl::finish_victim`]) or when there is nothing to collect.
    #[inline(always)]
    pub fn next_source(&mut self) -> Option<Source> {
        if self.victim.is_none() {
            self.choose_victim()?;
        }
        match self.geometry.page_shift {
            0 => self.scan::<1>(),
            1 => self.scan::<2>(),
            2 => self.scan::<4>(),
            3 => self.scan::<8>(),
            4 => self.scan::<16>(),
            _ => unreachable!("the profile allows pages of 4 to 64 KiB"),
        }
    }

    /// `next_source` for flash pages of `SLOTS` slots. Cost: per slot 1 map entry, prefetched.
    #[inline(always)]
    fn scan<const SLOTS: usize>(&mut self) -> Option<Source> {
        let victim = self.victim.as_mut()?;
        let (map, back) = (self.map.get(), self.back.get());
        while victim.next < victim.end {
            let first = victim.next;
            let begin = first as usize;
            victim.next += SLOTS as u32;
            self.free_slots += SLOTS as u64;
            // Many at once: page walks overlap within a group, one alone is waited for.
            if begin.is_multiple_of(SCAN_GROUP) {
                let ahead = begin + SCAN_AHEAD;
                if let Some(coming) = back.get(ahead..ahead + SCAN_GROUP) {
                    coming.iter().for_each(|&lpn| self.map.prefetch(lpn as usize));
                }
            }
            let lpns: &[u32; SLOTS] = back[begin..begin + SLOTS].try_into().expect("SLOTS long");
            // Bit i is slot `first + i`: valid, and naming the page behind that of the slot before.
            let (mut valid, mut follows) = (0u32, 0u32);
            for (i, &lpn) in lpns.iter().enumerate() {
                valid |= u32::from(map[lpn as usize] == first + i as u32 + 1) << i;
            }
            for (i, pair) in lpns.windows(2).enumerate() {
                follows |= u32::from(pair[1] == pair[0] + 1) << (i + 1);
            }
            if valid != 0 {
                let heads = valid & !(follows & (valid << 1));
                let (pages, extents) = (ones::<SLOTS>(valid), ones::<SLOTS>(heads));
                return Some(Source { first: Ppa(first), valid, pages, extents });
            }
        }
        None
    }

    /// Whether a victim has been read to its end and waits to be erased.
    #[inline]
    pub fn victim_is_done(&self) -> bool {
        self.victim.is_some_and(|v| v.next == v.end)
    }

    /// Gives the victim back, which must hold no valid page any more; it waits to be erased.
    ///
    /// `taken`: how many flash pages each stream has taken so far.
    pub fn finish_victim(&mut self, taken: [u64; STREAMS]) {
        let victim = self.victim.take().expect("a victim was being collected");
        let index = victim.superblock as usize;
        assert_eq!(victim.next, victim.end, "the victim has been read to its end");
        assert_eq!(self.valid[index], 0, "all valid pages were copied before the erase");
        let s = &mut self.superblocks[index];
        (s.state, s.erased) = (State::Free, false);
        self.given_back[index] = taken;
        self.note_death(victim.superblock);
        self.give_back(victim.superblock);
        self.suggested.retain(|&index| index != victim.superblock);
    }

    /// Whether a superblock is free, and waits to be erased.
    pub fn is_free_and_used(&self, index: u32) -> bool {
        let s = self.superblocks.get(index as usize);
        s.is_some_and(|s| s.state == State::Free && !s.erased)
    }
}
