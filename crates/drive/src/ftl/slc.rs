//! Superblocks of the SLC cache: one bit per cell, so 1/2, 1/3 or 1/4 of the pages.
//!
//! Static ones are always used this way and have a free list of their own; dynamic ones are ordinary free
//! superblocks, used this way until they have been folded. Folding is garbage collection with a victim of its own,
//! so that neither waits for the other to finish a superblock.
//! A superblock counts among the free slots with all its bits while it is free, with its own pages while it
//! is written or read out; static ones count only then.
//! Sources: hybrid caches as makers describe them (Samsung, "Intelligent TurboWrite", 2016: a fixed region
//! and one out of free user space). Oldest first is `guess:` the order in which drives fold.

use std::collections::VecDeque;

use super::{Frontier, Ftl};
use crate::persist::{StateError, ensure};
use crate::superblock::{Mode, Source, State, Superblock};

impl Ftl {
    /// Pages of a superblock as it is used now.
    #[inline(always)]
    pub(super) fn slots_of(&self, index: u32) -> u32 {
        if self.superblocks[index as usize].slc {
            self.slc.superblock_slots
        } else {
            self.geometry.superblock_slots
        }
    }

    pub(super) fn free_list(&mut self, mode: Mode) -> &mut VecDeque<u32> {
        if mode == Mode::Static { &mut self.slc.free } else { &mut self.free }
    }

    /// What a free superblock counts among the free slots.
    fn counts_free(&self, index: u32) -> u64 {
        if self.slc.is_static(index) { 0 } else { u64::from(self.geometry.superblock_slots) }
    }

    /// A superblock is opened: its pages count as free slots in place of what it counted before.
    pub(super) fn note_mode(&mut self, index: u32, mode: Mode) {
        if mode == Mode::Native {
            return;
        }
        self.slc.dynamic += u32::from(mode == Mode::Dynamic);
        self.slc.written += u64::from(self.slc.superblock_slots);
        self.free_slots =
            self.free_slots + u64::from(self.slc.superblock_slots) - self.counts_free(index);
    }

    /// A superblock that was read out is free.
    pub(super) fn give_back(&mut self, index: u32) {
        self.free_slots =
            self.free_slots + self.counts_free(index) - u64::from(self.slots_of(index));
        let fixed = self.slc.is_static(index);
        if self.superblocks[index as usize].slc && !fixed {
            self.slc.dynamic -= 1;
        }
        let list = if fixed { &mut self.slc.free } else { &mut self.free };
        list.push_back(index);
    }

    /// The superblock freed last is not free after all.
    pub(super) fn take_off_list(&mut self, index: u32) {
        self.free_slots -= self.counts_free(index);
        let mode = if self.slc.is_static(index) { Mode::Static } else { Mode::Native };
        let last = self.free_list(mode).pop_back();
        debug_assert_eq!(last, Some(index));
    }

    /// From where the cache's next superblock would come; none if it is full.
    ///
    /// `reserve`: free superblocks that only collection may use.
    pub fn next_of_cache(&self, reserve: usize) -> Option<Mode> {
        let spec = self.slc.spec.as_ref()?;
        if !self.slc.free.is_empty() {
            return Some(Mode::Static);
        }
        let left = self.free_slots.saturating_sub(u64::from(self.geometry.superblock_slots));
        let dynamic = self.slc.dynamic < spec.dynamic_max
            && self.free.len() > reserve
            && left >= spec.keep_free;
        dynamic.then_some(Mode::Dynamic)
    }

    /// Whether there is something to fold.
    #[inline(always)]
    pub fn can_fold(&self) -> bool {
        self.slc.sealed > 0 || self.slc.victim.is_some()
    }

    /// Exchanges collection's victim for folding's, and back.
    pub fn swap_victims(&mut self) {
        std::mem::swap(&mut self.victim, &mut self.slc.victim);
    }

    /// [`Ftl::next_source`] for folding, between two calls of [`Ftl::swap_victims`].
    pub fn next_fold(&mut self) -> Option<Source> {
        if self.victim.is_none() {
            let index = self.next_to_fold()?;
            self.make_victim(index);
        }
        self.next_source()
    }

    /// Whether the next superblock to fold holds nothing any more.
    pub fn fold_is_empty(&self) -> bool {
        let index = self.slc.victim.map(|v| v.superblock).or_else(|| self.next_to_fold());
        index.is_some_and(|index| self.valid[index as usize] == 0)
    }

    /// Empty ones first, then the oldest. Cost: one pass over all superblocks, once per victim.
    fn next_to_fold(&self) -> Option<u32> {
        let all = (0u32..).zip(&self.superblocks);
        let full = all.filter(|(_, s)| s.slc && s.state == State::Sealed);
        full.min_by_key(|(i, s)| (self.valid[*i as usize] > 0, s.sealed)).map(|(i, _)| i)
    }

    /// Power is gone: what was being folded is a full superblock again.
    pub(super) fn park_fold(&mut self) {
        if let Some(victim) = self.slc.victim.take() {
            self.superblocks[victim.superblock as usize].state = State::Sealed;
        }
    }

    /// Counts the cache's superblocks anew.
    pub(super) fn count_slc(&mut self) {
        let in_use = |s: &Superblock| !matches!(s.state, State::Free | State::Bad);
        let used = self.superblocks.iter().enumerate().filter(|(_, s)| s.slc && in_use(s));
        let (mut dynamic, mut sealed) = (0, 0);
        for (index, s) in used {
            dynamic += u32::from(index < self.slc.native);
            sealed += u32::from(s.state == State::Sealed);
        }
        (self.slc.dynamic, self.slc.sealed) = (dynamic, sealed);
    }

    /// Checks what must hold of the cache.
    pub(super) fn check_slc(&self) -> Result<(), StateError> {
        let full = self.superblocks.iter().filter(|s| s.slc && s.state == State::Sealed);
        ensure(full.count() == self.slc.sealed as usize, "full superblocks of the SLC cache")?;
        let native = self.superblocks[..self.slc.native].iter().filter(|s| s.slc);
        let used = native.filter(|s| !matches!(s.state, State::Free | State::Bad)).count();
        ensure(used == self.slc.dynamic as usize, "superblocks in the dynamic SLC cache")?;
        let cached = self.slc.spec.is_some();
        for (index, s) in (0u32..).zip(&self.superblocks) {
            ensure(s.slc_erases <= s.erases && (cached || !s.slc), "a superblock's use as cache")?;
            let used = !s.erased && s.state != State::Bad;
            ensure(!(self.slc.is_static(index) && used) || s.slc, "a static superblock's use")?;
            let fits = self.valid[index as usize] <= self.slots_of(index);
            ensure(fits, "more valid pages than a superblock has")?;
        }
        let few = self.slc.written < 1 << 50 && self.slc.erases < 1 << 50;
        ensure(few, "the SLC cache's counts")?;
        let standing = self.frontiers.iter().filter(|f| f.end != 0);
        let left: u64 = standing
            .filter(|f| self.superblocks[f.superblock as usize].slc)
            .map(|f| u64::from(f.end - f.next))
            .sum();
        ensure(left <= self.slc.written, "pages written to the SLC cache")
    }

    /// 4 KiB pages of data that the cache can hold at most just now, and the valid ones in it.
    pub fn cache_pages(&self, reserve: usize) -> (u64, u64) {
        let Some(spec) = &self.slc.spec else {
            return (0, 0);
        };
        let slots = u64::from(self.geometry.superblock_slots);
        let spare = self.free_slots.saturating_sub(spec.keep_free) / slots;
        let free = (self.free.len().saturating_sub(reserve) as u64).min(spare);
        let dynamic = u64::from(spec.dynamic_max).min(u64::from(self.slc.dynamic) + free);
        let fixed = self.superblocks[self.slc.native..].iter().filter(|s| s.state != State::Bad);
        let fixed = if self.slc.native < self.superblocks.len() { fixed.count() as u64 } else { 0 };
        let in_use = |s: &Superblock| s.slc && s.state != State::Free;
        let valid = self.superblocks.iter().zip(&self.valid).filter(|(s, _)| in_use(s));
        let held = valid.map(|(_, &valid)| u64::from(valid)).sum();
        ((fixed + dynamic) * u64::from(self.slc.superblock_slots), held)
    }

    /// Pages placed in the cache so far, padding included.
    pub fn slc_pages(&self) -> u64 {
        let unwritten = |frontier: &Frontier| {
            let slc = frontier.end != 0 && self.superblocks[frontier.superblock as usize].slc;
            if slc { u64::from(frontier.end - frontier.next) } else { 0 }
        };
        self.slc.written - self.frontiers.iter().map(unwritten).sum::<u64>()
    }

    /// Frontiers will be forgotten: what has not been written by now never will be.
    pub(super) fn leave_cache(&mut self) {
        self.slc.written = self.slc_pages();
    }

    /// Erases that followed use with one bit per cell.
    pub fn slc_erases(&self) -> u64 {
        self.slc.erases
    }

    /// Wear of a superblock, in erases after use with all bits per cell.
    pub fn cycles(&self, index: u32) -> u32 {
        let s = &self.superblocks[index as usize];
        self.weighted(s.erases, s.slc_erases)
    }

    /// Its wear after the next erase.
    pub(super) fn cycles_after_erase(&self, index: u32) -> u32 {
        let s = &self.superblocks[index as usize];
        self.weighted(s.erases + 1, s.slc_erases + u32::from(s.slc))
    }

    fn weighted(&self, erases: u32, slc_erases: u32) -> u32 {
        let weight = self.slc.spec.map_or(0, |slc| slc.cycle_weight_256);
        let slc = (u64::from(slc_erases) * u64::from(weight)) >> 8;
        erases - slc_erases + slc as u32
    }
}
