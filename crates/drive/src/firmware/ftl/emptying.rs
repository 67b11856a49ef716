//! Victims from their choice to their erase: chosen, read to the end, then freed or given up.

use drivebay_units::Ppa;

use super::Ftl;
use crate::superblock::{EMPTY, Mode, Purpose, Source, State, Victim};

impl Ftl {
    /// Slot of the victim of a purpose.
    #[inline(always)]
    pub(super) fn slot(&self, purpose: Purpose) -> usize {
        let shared = purpose == Purpose::Idle && !self.selection.has_idle_policy();
        if shared { Purpose::Collection as usize } else { purpose as usize }
    }

    #[inline(always)]
    pub(super) fn victim(&self, purpose: Purpose) -> Option<Victim> {
        self.victims[self.slot(purpose)]
    }

    /// Next flash page of the victim with valid data; `None` if the victim is done (call
    /// [`Ftl::finish_victim`]) or there is no victim.
    #[inline(always)]
    pub fn next_source(&mut self, purpose: Purpose) -> Option<Source> {
        let slot = self.slot(purpose);
        if self.victims[slot].is_none() {
            self.choose_victim(purpose)?;
        }
        let victim = self.victims[slot].as_mut()?;
        let before = victim.next;
        let source = self.mapping.next_source(victim, self.geometry.page_shift);
        self.placement.free_pages += u64::from(victim.next - before);
        source
    }

    fn choose_victim(&mut self, purpose: Purpose) -> Option<()> {
        let index = if purpose == Purpose::Folding {
            self.next_to_fold()
        } else if self.placement.free.is_empty() {
            self.choose_what_fits()
        } else {
            if let Some(plugin) = &mut self.plugin {
                plugin.see_free(self.placement.free_pages, self.placement.free.len());
            }
            match self.has_groups() {
                true => self.choose_in_group(purpose),
                false => self.selection.choose(
                    purpose,
                    (self.superblocks.ordinary(), self.superblocks.sealed),
                    self.mapping.valid(),
                    self.plugin.as_deref_mut(),
                ),
            }
        }?;
        let victim = self.empty(index);
        let slot = self.slot(purpose);
        self.victims[slot] = Some(victim);
        Some(())
    }

    /// Chooses the emptiest superblock, whatever the policy is, while none is free, if its pages
    /// fit into what is left of garbage collection's frontier. A power cut in the middle of a
    /// victim leads to this: its copies are lost, and the frontier goes on at its next row.
    #[cold]
    fn choose_what_fits(&self) -> Option<u32> {
        let all = (0u32..).zip(self.superblocks.ordinary().iter().zip(self.mapping.valid()));
        let of_group = all.filter(|(index, _)| self.is_in_current(*index));
        let sealed = of_group.filter(|(_, (s, _))| s.state == State::Sealed);
        let (emptiest, (_, &valid)) = sealed.min_by_key(|(_, (_, valid))| **valid)?;
        let from = usize::from(self.superblock(emptiest).stream);
        (valid <= self.data_room(self.streams.copies_of(from))).then_some(emptiest)
    }

    /// Begins to empty a superblock.
    fn empty(&mut self, index: u32) -> Victim {
        let s = self.superblocks.get_mut(index);
        s.state = State::Victim;
        if s.slc {
            self.slc.note_victim();
        }
        let (begin, pages) = (self.superblocks.begin_of(index), self.superblocks.pages_of(index));
        let valid = self.mapping.valid()[index as usize];
        // A full one, moved for its wear or its errors, gains nothing: the duty limit bounds it.
        let given = (u64::from(pages - valid) << 16).checked_div(u64::from(valid));
        let given_per_copy = given.unwrap_or(EMPTY);
        Victim { superblock: index, next: begin, end: begin + pages, given_per_copy }
    }

    /// Pages that the victim in hand gives per page copied, in 1/65536, by its valid pages when it
    /// was chosen.
    #[inline(always)]
    pub fn given_per_copy(&self, purpose: Purpose) -> u64 {
        // A victim that was empty, and to which a power cut gave pages back, gains nothing for
        // these.
        let victim = self.victim(purpose).filter(|v| v.given_per_copy != EMPTY);
        victim.map_or(0, |v| v.given_per_copy)
    }

    /// Pages that the victim in hand gives without a copy, in 1/65536: all, if it was empty.
    pub fn given_by_empty(&self, purpose: Purpose) -> u64 {
        let empty = self.victim(purpose).filter(|victim| victim.given_per_copy == EMPTY);
        empty.map_or(0, |victim| u64::from(self.superblocks.pages_of(victim.superblock)) << 16)
    }

    /// True if a victim has been read to its end and waits to be retired.
    #[inline]
    pub fn victim_is_done(&self, purpose: Purpose) -> bool {
        self.victim(purpose).is_some_and(|v| v.next == v.end)
    }

    /// Victim, its wear now, and its wear after its next erase.
    pub fn victim_cycles(&self, purpose: Purpose) -> (u32, u32, u32) {
        let index = self.victim(purpose).expect("there is a victim").superblock;
        (index, self.cycles(index), self.superblocks.cycles_after_erase(index))
    }

    /// Frees the victim, which must hold no valid page any more; it waits to be erased.
    ///
    /// `taken`: flash pages that each stream has taken so far.
    pub fn finish_victim(&mut self, purpose: Purpose, taken: impl Fn(usize) -> u64) {
        let index = self.take_victim(purpose, taken);
        self.superblocks.get_mut(index).state = State::Free;
        let counts = self.superblocks.counts_free(index);
        self.placement.free_pages += counts;
        let fixed = self.superblocks.is_static(index);
        self.free_list(if fixed { Mode::Static } else { Mode::Native }).push_back(index);
    }

    /// Gives up the victim, which must hold no valid page any more: it is never used again.
    pub fn discard_victim(&mut self, purpose: Purpose) {
        let index = self.take_victim(purpose, |_| 0);
        self.superblocks.get_mut(index).state = State::Bad;
    }

    /// Ends a superblock's time as victim: its pages no longer count as free.
    fn take_victim(&mut self, purpose: Purpose, taken: impl Fn(usize) -> u64) -> u32 {
        let slot = self.slot(purpose);
        let victim = self.victims[slot].take().expect("there was a victim");
        let index = victim.superblock;
        assert_eq!(victim.next, victim.end, "the victim has been read to its end");
        let valid = self.mapping.valid()[index as usize];
        assert_eq!(valid, 0, "all valid pages were copied before the erase");
        self.placement.note_given_back(index, taken);
        self.placement.free_pages -= u64::from(self.superblocks.pages_of(index));
        self.selection.note_emptied(index);
        let fixed = self.superblocks.is_static(index);
        let s = self.superblocks.get_mut(index);
        s.erased = false;
        if s.slc && !fixed {
            self.slc.note_left();
        }
        if let Some(lifespans) = &mut self.lifespans {
            lifespans.note_emptied(s);
        }
        index
    }

    /// Valid pages of a flash page, if there are any.
    pub fn source_at(&self, page: u32) -> Option<Source> {
        let first = page << self.geometry.page_shift;
        let (superblock, end) =
            (self.locate(Ppa(first)).0, first + (1 << self.geometry.page_shift));
        let mut victim = Victim { superblock, next: first, end, given_per_copy: 0 };
        self.mapping.next_source(&mut victim, self.geometry.page_shift)
    }

    /// Moves valid pages of a victim's flash page to the frontier of a stream of copies, as far as
    /// that has space.
    ///
    /// Returns the first new address and how many were moved; `source` no longer has these. Cost:
    /// no miss, the scan has just read the entries.
    #[inline(always)]
    pub fn relocate(&mut self, source: &mut Source, stream: usize) -> (Ppa, u32) {
        let count = source.pages.min(self.room(stream));
        source.pages -= count;
        let (first, to, replaced) = self.placement.take(stream, count);
        self.mapping.relocate(source, to, first, count, replaced);
        (Ppa(first), count)
    }

    /// Makes a full superblock without valid pages the victim of folding, read to its end; false if
    /// there is none. For drives without a cache to fold. Cost: one pass over all superblocks.
    pub fn take_empty(&mut self) -> bool {
        let all = (0u32..).zip(self.superblocks.all().iter().zip(self.mapping.valid()));
        let mut empty = all.filter(|(_, (s, valid))| s.state == State::Sealed && **valid == 0);
        let Some((index, _)) = empty.next() else { return false };
        let victim = self.empty(index);
        self.placement.free_pages += u64::from(victim.end - victim.next);
        let slot = self.slot(Purpose::Folding);
        self.victims[slot] = Some(Victim { next: victim.end, ..victim });
        true
    }

    /// True if another victim's flash page can be copied so that the rest of the one after writes,
    /// or a full one if none is in hand, still finds space. Always true if idle time has no victim
    /// of its own.
    pub fn has_room_beside_victim(&self) -> bool {
        if !self.selection.has_idle_policy() {
            return true;
        }
        let superblock = self.geometry.data_pages(u64::from(self.geometry.superblock_pages));
        let valid = |v: Victim| u64::from(self.mapping.valid()[v.superblock as usize]);
        let streams = std::iter::once(self.streams.copies).chain(self.streams.more_copies());
        let room = streams.map(|stream| self.data_room(stream)).min().unwrap_or(0);
        let room = u64::from(room) + self.placement.free.len() as u64 * superblock;
        room >= self.victim(Purpose::Collection).map_or(superblock, valid)
            + (1 << self.geometry.page_shift)
    }

    /// Next superblock to fold: empty ones first, then the oldest. Cost: one pass over all
    /// superblocks, once per victim.
    pub(super) fn next_to_fold(&self) -> Option<u32> {
        let all = (0u32..).zip(self.superblocks.all().iter().zip(self.mapping.valid()));
        let full = all.filter(|(_, (s, _))| s.slc && s.state == State::Sealed);
        full.min_by_key(|(_, (s, valid))| (**valid > 0, s.sealed)).map(|(index, _)| index)
    }
}
