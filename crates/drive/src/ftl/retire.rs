//! Superblocks out of turn: those that must be collected next, and those that are given up.

use super::{Ftl, State, Victim};

impl Ftl {
    /// Puts a full superblock forward for collection, whatever it holds; others are passed over.
    #[cold]
    pub fn suggest_victim(&mut self, index: u32) {
        let sealed = self.superblocks[index as usize].state == State::Sealed;
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
        let slots = self.geometry.superblock_slots;
        self.superblocks[index as usize].state = State::Victim;
        let begin = index * slots;
        self.victim = Some(Victim { superblock: index, next: begin, end: begin + slots });
    }

    /// The superblock being collected, and how often it will have been erased after that.
    pub fn victim_cycles(&self) -> (u32, u32) {
        let index = self.victim.expect("a victim is being collected").superblock;
        (index, self.superblocks[index as usize].erases + 1)
    }

    /// Gives up the victim, which must hold no valid page any more: it is never used again.
    pub fn discard_victim(&mut self) {
        self.finish_victim([0; super::STREAMS]);
        let index = self.free.pop_back().expect("the victim has just been freed");
        self.superblocks[index as usize].state = State::Bad;
        self.free_slots -= u64::from(self.geometry.superblock_slots);
    }

    /// Slots of all superblocks that are not bad.
    pub fn usable_slots(&self) -> u64 {
        let good = self.superblocks.iter().filter(|s| s.state != State::Bad).count();
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
