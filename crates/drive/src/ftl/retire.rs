//! Superblocks out of turn: those that must be collected next, and those that are given up.

use super::Ftl;
use crate::superblock::{EMPTY, STREAMS, State, Victim};

impl Ftl {
    /// Puts a full superblock forward for collection, whatever it holds; others are passed over, and so is
    /// the SLC cache, which folding empties.
    #[cold]
    pub fn suggest_victim(&mut self, index: u32) {
        let s = &self.superblocks[index as usize];
        let sealed = s.state == State::Sealed && !s.slc;
        if sealed && !self.suggested.contains(&index) {
            self.suggested.push_back(index);
        }
    }

    /// Whether a superblock that was put forward waits to be collected, or is being collected.
    #[inline(always)]
    pub fn must_collect(&self) -> bool {
        !self.suggested.is_empty()
    }

    /// Begins to collect a superblock.
    pub(super) fn make_victim(&mut self, index: u32) {
        let s = &mut self.superblocks[index as usize];
        s.state = State::Victim;
        self.slc.note_victim(s.slc);
        let begin = index * self.geometry.superblock_slots;
        let end = begin + self.slots_of(index);
        let (valid, pages) = (self.valid[index as usize], self.slots_of(index));
        // A full one, moved for its wear or its errors, gives nothing: the duty limit bounds it.
        let given = (u64::from(pages - valid) << 16).checked_div(u64::from(valid));
        let given_per_copy = given.unwrap_or(EMPTY);
        self.victim = Some(Victim { superblock: index, next: begin, end, given_per_copy });
    }

    /// The superblock being collected, its wear now, and after its next erase.
    pub fn victim_cycles(&self) -> (u32, u32, u32) {
        let index = self.victim.expect("a victim is being collected").superblock;
        (index, self.cycles(index), self.cycles_after_erase(index))
    }

    /// Gives up the victim, which must hold no valid page any more: it is never used again.
    pub fn discard_victim(&mut self) {
        let index = self.victim.expect("a victim is being collected").superblock;
        self.finish_victim([0; STREAMS]);
        self.superblocks[index as usize].state = State::Bad;
        self.take_off_list(index);
    }

    /// Slots of all superblocks that are not bad, without those of the static SLC cache.
    pub fn usable_slots(&self) -> u64 {
        let native = &self.superblocks[..self.slc.native()];
        let good = native.iter().filter(|s| s.state != State::Bad).count();
        good as u64 * u64::from(self.geometry.superblock_slots)
    }

    /// The superblock that a stream writes to.
    pub fn frontier(&self, stream: usize) -> u32 {
        self.frontiers[stream].superblock
    }

    /// The page that a slot held when it was written. Cost: 1 entry.
    #[inline(always)]
    pub fn page_of(&self, slot: u32) -> u32 {
        self.back.get()[slot as usize]
    }
}
