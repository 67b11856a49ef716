//! The next victim of garbage collection: a suggested superblock first, then one that a plug-in
//! moves for wear, then the choice of the victim policy (`victim_policies.rs`, with the contract).
//!
//! Dynamic wear levelling opens the least worn of the free superblocks (Gal and Toledo, ACM
//! Computing Surveys 37, 2005). Left out: static levelling, which moves data that nobody changes; a
//! policy plug-in may do it.

use std::collections::VecDeque;

use drivebay_units::Rng;

use super::superblocks::Superblocks;
use crate::persist::persist;
use crate::plugin::Plugin;
use crate::profile::{Policy, Spec};
use crate::superblock::{Purpose, Superblock};
use crate::victim_policies::Sealed;

/// Choice of the next victim.
pub struct VictimSelection {
    policy: Policy,
    /// Policy in idle time, if the profile has another one for it.
    idle_policy: Option<Policy>,
    levels_wear: bool,
    superblock_pages: u32,
    /// True if the last victim was chosen to spread wear.
    leveled: bool,
    /// Victims that go before any choice.
    suggested: VecDeque<u32>,
    rng: Rng,
}

persist!(VictimSelection: leveled, suggested, rng; given: policy, idle_policy, levels_wear, superblock_pages);

impl VictimSelection {
    pub fn new(spec: &Spec, rng: &Rng) -> VictimSelection {
        VictimSelection {
            policy: spec.policy,
            idle_policy: spec.idle_policy,
            levels_wear: spec.levels_wear,
            superblock_pages: spec.geometry.superblock_pages,
            leveled: false,
            suggested: VecDeque::new(),
            rng: rng.fork("ftl"),
        }
    }

    /// Suggests a superblock as a victim, whatever it holds.
    pub fn suggest(&mut self, index: u32) {
        if !self.suggested.contains(&index) {
            self.suggested.push_back(index);
        }
    }

    /// Suggested superblocks that are not reclaimed yet.
    #[inline(always)]
    pub fn suggested(&self) -> &VecDeque<u32> {
        &self.suggested
    }

    pub fn clear_suggested(&mut self) {
        self.suggested.clear();
    }

    pub fn note_emptied(&mut self, index: u32) {
        self.suggested.retain(|&suggested| suggested != index);
    }

    /// Moves the superblock to be opened next to the head of the free list: with dynamic levelling
    /// the least worn one, of equals the one freed first; with a plug-in the one that it names.
    ///
    /// Cost: the length of the list, once per superblock opened.
    pub fn order_free(
        &self,
        free: &mut VecDeque<u32>,
        blocks: &Superblocks,
        valid: &[u32],
        plugin: Option<&mut Plugin>,
    ) {
        let opens = plugin.filter(|plugin| plugin.decides.open);
        if !self.levels_wear && opens.is_none() {
            return;
        }
        let least = (0..free.len()).min_by_key(|&i| blocks.get(free[i]).erases);
        let own = if self.levels_wear { least } else { Some(0) };
        let mut position = own.filter(|_| !free.is_empty());
        if let (Some(plugin), Some(own)) = (opens, position) {
            let (all, sealed) = (blocks.ordinary(), blocks.sealed);
            let next = plugin.open_superblock(all, valid, sealed, free[own]);
            position = free.iter().position(|&index| index == next);
        }
        if let Some(index) = position.and_then(|position| free.remove(position)) {
            free.push_front(index);
        }
    }

    /// True if idle time has a policy of its own.
    pub fn has_idle_policy(&self) -> bool {
        self.idle_policy.is_some()
    }

    /// Chooses a victim among these superblocks, of which `sealed` were sealed so far: a suggested
    /// one, else as [`Self::choose_own`].
    ///
    /// The static SLC cache's superblocks are not among them: folding empties these.
    pub fn choose(
        &mut self,
        purpose: Purpose,
        (blocks, sealed): (&[Superblock], u64),
        valid: &[u32],
        plugin: Option<&mut Plugin>,
    ) -> Option<u32> {
        let suggested = self.suggested.front().copied();
        suggested.or_else(|| self.choose_own(purpose, (blocks, sealed), valid, plugin))
    }

    /// Chooses a victim by wear or by policy. `None`: no sealed superblock gains (contract in
    /// `victim_policies.rs`).
    pub fn choose_own(
        &mut self,
        purpose: Purpose,
        (blocks, sealed): (&[Superblock], u64),
        valid: &[u32],
        mut plugin: Option<&mut Plugin>,
    ) -> Option<u32> {
        let moved = match plugin.as_deref_mut().filter(|plugin| plugin.decides.wear) {
            // Every other victim at most, so that garbage collection goes on gaining space.
            Some(_) if std::mem::take(&mut self.leveled) => None,
            Some(plugin) => plugin.level_wear(blocks, valid, sealed),
            None => None,
        };
        if moved.is_some() {
            self.leveled = true;
            return moved;
        }
        let idle = self.idle_policy.as_ref().filter(|_| purpose == Purpose::Idle);
        match *idle.unwrap_or(&self.policy) {
            Policy::Own(policy, parameter) => {
                let pages = self.superblock_pages;
                let among = Sealed { blocks, valid, seals: sealed, pages };
                (policy.choose)(&among, parameter, &mut self.rng).map(|index| index as u32)
            }
            Policy::Plugin => plugin
                .expect("a profile with this policy has a plug-in")
                .choose_victim(blocks, valid, sealed),
        }
    }
}
