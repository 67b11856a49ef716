//! Invariants of the map and the superblocks, checked for a state that is read back and by tests.

use super::placement::Frontier;
use super::{Ftl, StreamUse};
use crate::persist::{StateError, ensure};
use crate::superblock::{State, Superblock};

impl Ftl {
    /// Checks everything that must hold, at the cost of reading both tables.
    ///
    /// `taken`: how many flash pages each stream has taken so far, if known.
    ///
    /// # Errors
    /// [`StateError::Wrong`] for the first that does not.
    pub fn check(&self, taken: Option<&[u64]>) -> Result<(), StateError> {
        self.mapping.check()?;
        let known = self.placement.remembered().all(|entry| self.mapping.knows(entry));
        ensure(known, "addresses that were replaced")?;
        self.check_lists()?;
        self.check_places()?;
        let fits = |used: &StreamUse| used.written.max(used.copied) < 1 << 50;
        ensure(self.stream_use.iter().all(fits), "what went through the streams")?;
        let (blocks, valid) = (&self.superblocks, self.mapping.valid());
        self.slc.check(&self.placement, blocks, valid)?;
        if let Some(lifespans) = &self.lifespans {
            lifespans.check(blocks.all())?;
        }
        self.check_groups()?;
        let Some(taken) = taken else { return Ok(()) };
        for (stream, &taken) in taken.iter().enumerate() {
            let standing = match self.placement.frontiers()[stream] {
                Frontier { end: 0, .. } => taken == 0,
                // A superblock was abandoned.
                f if f.next == f.end => taken <= self.next_page(stream),
                // A flash page that has begun is taken.
                f => taken == self.next_page(stream) + u64::from(!self.at_page(f.next)),
            };
            ensure(standing, "flash pages taken by a frontier")?;
        }
        let sealed = self.most_sealed();
        let numbered =
            |s: &Superblock| s.first_page <= taken[usize::from(s.stream)] && s.sealed <= sealed;
        ensure(blocks.all().iter().all(numbered), "the order of superblocks")?;
        let given =
            |index: u32| self.given_back(index).iter().zip(taken).all(|(p, taken)| p <= taken);
        ensure((0..self.geometry.superblocks).all(given), "superblocks given back")
    }

    /// [`Ftl::check`] for tests.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn check_invariants(&self) {
        self.check(None).expect("the map and its superblocks are sound");
    }

    /// Checks that each superblock is in the list that its state requires.
    fn check_lists(&self) -> Result<(), StateError> {
        let all = self.superblocks.all();
        let good = self.geometry.superblocks - self.geometry.bad_superblocks;
        let mut listed = vec![false; all.len()];
        for &index in self.all_free().chain(&self.slc.free) {
            let twice = listed.get_mut(index as usize).map(|seen| std::mem::replace(seen, true));
            ensure(twice == Some(false), "the list of free superblocks")?;
        }
        for (index, (s, listed)) in (0u32..).zip(all.iter().zip(listed)) {
            let ordinary = self.all_free().any(|&free| free == index);
            let home = !listed || ordinary != self.superblocks.is_static(index);
            ensure(home, "a free superblock in the other list")?;
            ensure((s.state == State::Free) == listed, "free list and states disagree")?;
            ensure(index < good || s.state == State::Bad, "a bad superblock in use")?;
            ensure(usize::from(s.stream) < self.streams.count, "a superblock's stream")?;
            let holds = self.mapping.valid()[index as usize];
            let empty = matches!(s.state, State::Free | State::Bad);
            ensure(!empty || holds == 0, "a free superblock that is not empty")?;
            let used = !matches!(s.state, State::Free | State::Bad);
            ensure(!(used && s.erased), "an erased superblock in use")?;
        }
        let full = |&index: &u32| {
            let state = all.get(index as usize).map(|s| s.state);
            matches!(state, Some(State::Sealed | State::Victim))
        };
        ensure(self.selection.suggested().iter().all(full), "superblocks suggested as victims")
    }

    /// Checks frontiers, victims, and the space that they make.
    fn check_places(&self) -> Result<(), StateError> {
        let (blocks, frontiers) = (&self.superblocks, self.placement.frontiers());
        let in_state = |state| blocks.all().iter().filter(|s| s.state == state).count();
        let mut open = Vec::new();
        for (stream, f) in frontiers.iter().enumerate().filter(|(_, f)| f.end != 0) {
            let s = blocks.all().get(f.superblock as usize);
            let s = s.filter(|s| s.state == State::Open && usize::from(s.stream) == stream);
            let Some(s) = s else { return ensure(false, "a frontier's superblock") };
            let begin = blocks.begin_of(f.superblock);
            let offset = ((s.first_page << self.geometry.page_shift) as u32).wrapping_sub(begin);
            let placed = begin <= f.next
                && f.next <= f.end
                && f.end == begin + blocks.pages_of(f.superblock);
            ensure(placed && f.offset == offset, "a frontier's place")?;
            ensure(self.mapping.holds_none(f.next, f.end), "data beyond a frontier")?;
            open.push(f.superblock);
        }
        open.dedup();
        let idle = frontiers.iter().all(|f| f.end != 0 || f.next == 0);
        ensure(idle && open.len() == in_state(State::Open), "open superblocks")?;
        let mut scanned = 0;
        let victims = self.all_victims();
        for v in victims.clone() {
            let s = blocks.all().get(v.superblock as usize);
            let s = s.filter(|s| s.state == State::Victim);
            ensure(s.is_some(), "the victim's superblock")?;
            let begin = blocks.begin_of(v.superblock);
            let placed = begin <= v.next
                && v.next <= v.end
                && v.end == begin + blocks.pages_of(v.superblock);
            let whole = self.at_page(v.next);
            ensure(placed && whole, "the victim's place")?;
            ensure(self.mapping.holds_none(begin, v.next), "data in what was copied")?;
            scanned += u64::from(v.next - begin);
        }
        ensure(in_state(State::Victim) == victims.count(), "victims")?;
        let free = self.all_free().count() as u64 * u64::from(self.geometry.superblock_pages);
        let free = free + self.placement.all_room() + scanned;
        ensure(free == self.free_pages(), "free pages")
    }

    /// Superblocks that are being emptied.
    pub fn victims_in_hand(&self) -> usize {
        self.superblocks.all().iter().filter(|s| s.state == State::Victim).count()
    }

    /// True if a flash page begins at an address.
    fn at_page(&self, ppa: u32) -> bool {
        ppa.is_multiple_of(1 << self.geometry.page_shift)
    }

    /// Pages of a superblock passed by its frontier since its last erase.
    pub fn written(&self, index: u32) -> u32 {
        let s = self.superblock(index);
        match s.state {
            _ if s.erased => 0,
            State::Open => {
                let frontier = &self.placement.frontiers()[usize::from(s.stream)];
                frontier.next - self.superblocks.begin_of(index)
            }
            _ => self.superblocks.pages_of(index),
        }
    }

    /// Number of full flash pages of a stream, of `taken`.
    pub fn filled(&self, stream: usize, taken: u64) -> u64 {
        taken - u64::from(!self.at_page(self.placement.frontiers()[stream].next))
    }
}
