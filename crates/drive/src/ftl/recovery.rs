//! What a power cut takes from the map, and how it is found again.
//!
//! Acknowledged data that has not yet been programmed is lost. For the newest slots of each stream, as
//! many as its buffer can hold, `replaced` remembers what they took the place of; a page whose newest
//! slot is lost falls back to that. A superblock is erased only when everything that took the place of
//! its pages is safe, so what is fallen back to is still there: no flushed data is lost.
//!
//! A real FTL finds the same by reading the spare bytes of the blocks written last. Not modelled: torn
//! pages (a program that is cut short is lost as a whole), a TRIM that comes undone (it is allowed to
//! stay).

use std::ops::Range;

use drivebay_units::Ppa;

use super::Ftl;
use crate::superblock::{STREAMS, State};

impl Ftl {
    /// Keeps the map entries of pages that are about to be placed from slot `first` on.
    #[inline(always)]
    pub(super) fn remember(&mut self, stream: usize, first: u32, pages: Range<usize>) {
        let replaced = &mut self.replaced[stream];
        let (mask, offset) = (replaced.len() - 1, self.frontiers[stream].offset);
        let mut at = first.wrapping_add(offset) as usize & mask;
        let mut entries = &self.map.get()[pages];
        if let &[entry] = entries {
            replaced[at] = entry;
            return;
        }
        while !entries.is_empty() {
            let (now, later) = entries.split_at(entries.len().min(replaced.len() - at));
            replaced[at..at + now.len()].copy_from_slice(now);
            (entries, at) = (later, 0);
        }
    }

    /// Takes back what was placed in lost flash pages, given per stream by their numbers in it; those
    /// must be among the newest that the buffer's ring can hold.
    ///
    /// Afterwards no victim is chosen, frontiers go on at the next row over all dies and planes, and
    /// superblocks that were given back but not erased are in use again where old data lies in them.
    /// Returns how many pages lost their newest data. Cost: every pass reads what was lost.
    pub fn lose(&mut self, lost: &[Vec<u64>; STREAMS]) -> u64 {
        let gone: Vec<(usize, u64, Ppa)> =
            (0..STREAMS).flat_map(|stream| self.lost_slots(stream, &lost[stream])).collect();
        let mut fallen = 0;
        // A page may have been written several times since: it falls back step by step.
        loop {
            let before = fallen;
            for &(stream, number, slot) in &gone {
                let lpn = self.back.get()[slot.0 as usize] as usize;
                if self.map.get()[lpn] == slot.0 + 1 {
                    let mask = self.replaced[stream].len() - 1;
                    self.fall_back(lpn, slot, self.replaced[stream][number as usize & mask]);
                    fallen += 1;
                }
            }
            if fallen == before {
                break;
            }
        }
        self.take_stock();
        fallen
    }

    /// The slots of a stream's flash pages, with their numbers in the stream.
    fn lost_slots(&self, stream: usize, pages: &[u64]) -> Vec<(usize, u64, Ppa)> {
        let (shift, slots) = (self.geometry.page_shift, self.geometry.superblock_slots);
        let mut found = Vec::new();
        for (index, s) in (0u32..).zip(&self.superblocks) {
            if s.erased || usize::from(s.stream) != stream {
                continue;
            }
            let own = s.first_page..s.first_page + u64::from(self.slots_of(index) >> shift);
            for &page in pages.iter().filter(|page| own.contains(page)) {
                let first = index * slots + (((page - s.first_page) as u32) << shift);
                let numbered = (page << shift..).zip(first..first + (1 << shift));
                found.extend(numbered.map(|(number, slot)| (stream, number, Ppa(slot))));
            }
        }
        found
    }

    /// Lets a page's entry point to what it was before.
    fn fall_back(&mut self, lpn: usize, lost: Ppa, old: u32) {
        self.valid[self.by_superblock.divide(lost.0) as usize] -= 1;
        self.map.get_mut()[lpn] = old;
        if old & self.packed_flag != 0 {
            return; // it is packed, wherever that is
        }
        let there = |&slot: &u32| self.back.get()[slot as usize] as usize == lpn;
        let old_slot = old.checked_sub(1);
        debug_assert!(old_slot.is_none_or(|slot| there(&slot)), "it is still there");
        match old_slot.filter(there) {
            Some(slot) => {
                self.valid[self.by_superblock.divide(slot) as usize] += 1;
            }
            None => {
                self.map.get_mut()[lpn] = 0;
                self.mapped -= 1;
            }
        }
    }

    /// Puts victim, frontiers and free space in order after a power cut.
    fn take_stock(&mut self) {
        if let Some(victim) = self.victim.take() {
            self.superblocks[victim.superblock as usize].state = State::Sealed;
        }
        self.park_fold();
        let valid = &self.valid;
        self.free.retain(|&index| valid[index as usize] == 0);
        self.slc.retain_empty(valid);
        for (s, &valid) in self.superblocks.iter_mut().zip(valid) {
            if s.state == State::Free && valid > 0 {
                s.state = State::Sealed;
            }
        }
        let row =
            1 << (self.geometry.die_shift + self.geometry.plane_shift + self.geometry.page_shift);
        for frontier in &mut self.frontiers {
            let begin = frontier.superblock * self.geometry.superblock_slots;
            let used = frontier.next - begin.min(frontier.next);
            frontier.next = frontier.end.min(begin + used.next_multiple_of(row));
        }
        let room: u64 = (0..STREAMS).map(|stream| u64::from(self.room(stream))).sum();
        self.free_slots = self.free.len() as u64 * u64::from(self.geometry.superblock_slots) + room;
        self.count_slc();
    }

    /// The number in its stream of the flash page at which a frontier stands.
    pub fn next_page(&self, stream: usize) -> u64 {
        let frontier = self.frontiers[stream];
        if frontier.end == 0 {
            return 0;
        }
        let s = &self.superblocks[frontier.superblock as usize];
        let used = frontier.next - frontier.superblock * self.geometry.superblock_slots;
        s.first_page + u64::from(used >> self.geometry.page_shift)
    }
}
