//! What must hold of the map and the superblocks at any time: asked of a state that is read back, and
//! by tests.

use drivebay_units::{Lpn, Ppa};

use super::{Frontier, Ftl};
use crate::persist::{StateError, ensure};
use crate::superblock::{STREAMS, State, Superblock};

impl Ftl {
    /// Checks everything that must hold, at the cost of reading both tables.
    ///
    /// `taken`: how many flash pages each stream has taken so far, if known.
    ///
    /// # Errors
    /// [`StateError::Wrong`] for the first that does not.
    pub fn check(&self, taken: Option<[u64; STREAMS]>) -> Result<(), StateError> {
        self.check_tables()?;
        self.check_lists()?;
        self.check_places()?;
        self.check_slc()?;
        self.check_lifespans()?;
        let Some(taken) = taken else { return Ok(()) };
        for (stream, &taken) in taken.iter().enumerate() {
            let standing = match self.frontiers[stream] {
                Frontier { end: 0, .. } => taken == 0,
                // A flash page that has begun is taken.
                f => taken == self.next_page(stream) + u64::from(!self.at_page(f.next)),
            };
            ensure(standing, "flash pages taken by a frontier")?;
        }
        let numbered = |s: &Superblock| {
            s.first_page <= taken[usize::from(s.stream)] && s.sealed <= self.sealed
        };
        ensure(self.superblocks.iter().all(numbered), "the order of superblocks")?;
        let given = |pages: &[u64; STREAMS]| pages.iter().zip(taken).all(|(&p, taken)| p <= taken);
        ensure(self.given_back.iter().all(given), "superblocks given back")
    }

    /// [`Ftl::check`] for tests.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn check_invariants(&self) {
        self.check(None).expect("the map and its superblocks are sound");
    }

    /// The map, its reverse, and the counts of both.
    fn check_tables(&self) -> Result<(), StateError> {
        let slots = self.geometry.superblock_slots;
        let back = self.back.get();
        let pages = self.geometry.user_pages;
        ensure(back.iter().all(|&lpn| lpn < pages), "a slot with a page that the drive has not")?;
        let mut valid = vec![0u32; self.superblocks.len()];
        let mut mapped = 0;
        for (lpn, &entry) in (0u32..).zip(self.map.get()) {
            if let Some(slot) = entry.checked_sub(1) {
                mapped += 1;
                if entry & self.packed_flag != 0 {
                    continue;
                }
                ensure(back.get(slot as usize) == Some(&lpn), "map and reverse map disagree")?;
                valid[(slot / slots) as usize] += 1;
            }
        }
        ensure(valid == self.valid && mapped == self.mapped, "counts of valid pages")?;
        let known = |entry: &u32| (*entry & !self.packed_flag) as usize <= back.len();
        ensure(self.replaced.iter().flatten().all(known), "slots that were replaced")
    }

    /// Free, suggested and all other superblocks: each is what its list says.
    fn check_lists(&self) -> Result<(), StateError> {
        let all = &self.superblocks;
        let good = self.geometry.superblocks - self.geometry.bad_superblocks;
        let mut listed = vec![false; all.len()];
        for &index in self.free.iter().chain(self.slc.free()) {
            let twice = listed.get_mut(index as usize).map(|seen| std::mem::replace(seen, true));
            ensure(twice == Some(false), "the list of free superblocks")?;
        }
        for (index, (s, listed)) in (0u32..).zip(all.iter().zip(listed)) {
            let home = !listed || self.free.contains(&index) != self.slc.is_static(index);
            ensure(home, "a free superblock in the other list")?;
            ensure((s.state == State::Free) == listed, "free list and states disagree")?;
            ensure(index < good || s.state == State::Bad, "a bad superblock in use")?;
            ensure(usize::from(s.stream) < STREAMS, "a superblock's stream")?;
            let holds = self.valid[index as usize];
            let empty = matches!(s.state, State::Free | State::Bad);
            ensure(!empty || holds == 0, "a free superblock that is not empty")?;
            let used = !matches!(s.state, State::Free | State::Bad);
            ensure(!(used && s.erased), "an erased superblock in use")?;
        }
        let full = |&index: &u32| {
            let state = all.get(index as usize).map(|s| s.state);
            matches!(state, Some(State::Sealed | State::Victim))
        };
        ensure(self.suggested.iter().all(full), "superblocks to be collected")
    }

    /// Frontiers, victim, and the room that they make.
    fn check_places(&self) -> Result<(), StateError> {
        let slots = self.geometry.superblock_slots;
        let in_state = |state| self.superblocks.iter().filter(|s| s.state == state).count();
        let mut open = Vec::new();
        for (stream, f) in self.frontiers.iter().enumerate().filter(|(_, f)| f.end != 0) {
            let s = self.superblocks.get(f.superblock as usize);
            let s = s.filter(|s| s.state == State::Open && usize::from(s.stream) == stream);
            let Some(s) = s else { return ensure(false, "a frontier's superblock") };
            let begin = f.superblock * slots;
            let offset = ((s.first_page << self.geometry.page_shift) as u32).wrapping_sub(begin);
            let placed =
                begin <= f.next && f.next <= f.end && f.end == begin + self.slots_of(f.superblock);
            ensure(placed && f.offset == offset, "a frontier's place")?;
            ensure(self.holds_none(f.next, f.end), "data beyond a frontier")?;
            open.push(f.superblock);
        }
        open.dedup();
        let idle = self.frontiers.iter().all(|f| f.end != 0 || f.next == 0);
        ensure(idle && open.len() == in_state(State::Open), "open superblocks")?;
        let mut scanned = 0;
        let victims = self.victim.iter().chain(self.slc.victim());
        for v in victims.clone() {
            let s = self.superblocks.get(v.superblock as usize);
            let s = s.filter(|s| s.state == State::Victim);
            ensure(s.is_some(), "the victim's superblock")?;
            let begin = v.superblock * slots;
            let placed =
                begin <= v.next && v.next <= v.end && v.end == begin + self.slots_of(v.superblock);
            let whole = self.at_page(v.next);
            ensure(placed && whole, "the victim's place")?;
            ensure(self.holds_none(begin, v.next), "data in what was copied")?;
            scanned += u64::from(v.next - begin);
        }
        ensure(in_state(State::Victim) == victims.count(), "victims")?;
        let room: u64 = (0..STREAMS).map(|stream| u64::from(self.room(stream))).sum();
        let free = self.free.len() as u64 * u64::from(slots) + room + scanned;
        ensure(free == self.free_slots, "free slots")
    }

    /// Whether a flash page begins at a slot.
    fn at_page(&self, slot: u32) -> bool {
        slot.is_multiple_of(1 << self.geometry.page_shift)
    }

    /// The page that was put into a slot last.
    pub fn page_at(&self, slot: Ppa) -> Lpn {
        Lpn(self.back.get()[slot.0 as usize])
    }

    /// Slots of a superblock passed by its frontier since its last erase.
    pub fn written(&self, index: u32) -> u32 {
        let s = &self.superblocks[index as usize];
        match s.state {
            _ if s.erased => 0,
            State::Open => {
                let frontier = &self.frontiers[usize::from(s.stream)];
                frontier.next - index * self.geometry.superblock_slots
            }
            _ => self.slots_of(index),
        }
    }

    /// How many flash pages of a stream are full, of `taken`.
    pub fn filled(&self, stream: usize, taken: u64) -> u64 {
        taken - u64::from(!self.at_page(self.frontiers[stream].next))
    }

    /// Whether no page lies in these slots.
    fn holds_none(&self, begin: u32, end: u32) -> bool {
        let (map, back) = (self.map.get(), self.back.get());
        (begin..end).all(|slot| map[back[slot as usize] as usize] != slot + 1)
    }
}
