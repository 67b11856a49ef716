//! Wear levelling: which superblock is used next, and when cold data has to move.
//!
//! Dynamic levelling uses the least worn of the free superblocks. That leaves those that hold data nobody
//! changes: static levelling collects the least worn of all when it is too far behind the most worn, full
//! or not; every other victim at most, so that collection goes on gaining space. Its cost is the copies.
//! Sources: the terms as in Gal and Toledo (ACM Computing Surveys 37, 2005); the rule by a threshold on
//! the difference as in Chang (SAC 2007). Not modelled: a frontier of its own for what is moved; it mixes
//! with the copies of hot data, which costs more than keeping it apart.

use super::Ftl;
use crate::superblock::State;

impl Ftl {
    /// Puts the least worn free superblock at the head of the list; of equals the one freed first.
    ///
    /// Cost: the length of the list, once per superblock opened.
    pub(super) fn bring_least_worn_forward(&mut self) {
        let blocks = &self.superblocks;
        let least = (0..self.free.len()).min_by_key(|&i| blocks[self.free[i] as usize].erases);
        if let Some(index) = least.and_then(|position| self.free.remove(position)) {
            self.free.push_front(index);
        }
    }

    /// The sealed superblock whose data has to move so that its flash wears too, if there is one.
    ///
    /// Cost: one pass over all superblocks, once per victim.
    pub(super) fn least_worn_to_move(&mut self) -> Option<u32> {
        let spread_max = self.leveling.spread_max;
        if spread_max == 0 || std::mem::take(&mut self.leveled) {
            return None;
        }
        let native = &self.superblocks[..self.slc.native()];
        let used = || native.iter().enumerate().filter(|(_, s)| s.state != State::Bad && !s.slc);
        let most = used().map(|(_, s)| s.erases).max()?;
        let sealed = used().filter(|(_, s)| s.state == State::Sealed);
        let (index, least) = sealed.min_by_key(|(_, s)| (s.erases, s.sealed))?;
        self.leveled = most - least.erases > spread_max;
        self.leveled.then_some(index as u32)
    }
}
