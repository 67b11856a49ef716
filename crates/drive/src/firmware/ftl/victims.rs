//! Which superblock is garbage collection's next victim: by the policy, by wear, or because it must
//! be.
//!
//! Sources: greedy and FIFO as in Desnoyers (SYSTOR 2012), d-choices as in Van Houdt (SIGMETRICS
//! 2013), cost-benefit as in Rosenblum and Ousterhout (1992) with age counted in superblocks
//! sealed. A linear scan: superblocks over all dies are few (about a thousand), and one is chosen
//! per hundred thousand pages copied. So a policy from outside (`victim_policy.rs`) costs one
//! indirect call per victim, none per I/O, and its scan is compiled as ours is.
//!
//! Dynamic wear levelling uses the least worn of the free superblocks (Gal and Toledo, ACM
//! Computing Surveys 37, 2005). Left out: static levelling, which moves data that nobody changes; a
//! policy plug-in may do it.

use std::collections::VecDeque;

use drivebay_units::Rng;

use super::superblocks::Superblocks;
use crate::persist::persist;
use crate::plugin::Plugin;
use crate::profile::{Policy, Spec};
use crate::superblock::{Purpose, State, Superblock};

/// How the next victim is chosen.
pub struct VictimSelection {
    policy: Policy,
    /// That of idle time, where it has one of its own.
    idle_policy: Option<Policy>,
    levels_wear: bool,
    superblock_pages: u32,
    /// The last victim was chosen to spread wear.
    leveled: bool,
    /// Victims that come before any other.
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

    /// Puts a superblock forward, whatever it holds.
    pub fn suggest(&mut self, index: u32) {
        if !self.suggested.contains(&index) {
            self.suggested.push_back(index);
        }
    }

    /// Superblocks that were put forward and are not reclaimed yet.
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

    /// Puts the least worn free superblock at the head of the list, with dynamic levelling; of
    /// equals the one freed first; or the one that a plug-in says. Cost: the length of the list,
    /// once per superblock opened.
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

    /// Whether idle time has a policy of its own.
    pub fn has_idle_policy(&self) -> bool {
        self.idle_policy.is_some()
    }

    /// A victim among the sealed ones of these superblocks; `sealed`: how many were sealed so far.
    /// For FIFO the oldest, full or not, as a circular log has it; else among those that have
    /// something to gain. Those of the static SLC cache are emptied by folding; that gains nothing
    /// here.
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

    /// The same, of those that nobody has put forward.
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
        let pages = self.superblock_pages;
        let sealed_ones = (0..blocks.len()).filter(|&i| blocks[i].state == State::Sealed);
        let all = sealed_ones.clone().filter(|&i| valid[i] < pages);
        let of_idle = self.idle_policy.as_ref().filter(|_| purpose == Purpose::Idle);
        let chosen = match of_idle.unwrap_or(&self.policy) {
            Policy::Greedy => all.min_by_key(|&i| (valid[i], blocks[i].sealed)),
            Policy::Fifo => sealed_ones.min_by_key(|&i| blocks[i].sealed),
            Policy::Choices(d) => drawn(&mut self.rng, *d, blocks, valid, pages),
            Policy::CostBenefit => {
                let age = |i: usize| u128::from(sealed - blocks[i].sealed);
                // (1 - u) * age / (1 + u), compared as fractions over the superblock's size.
                all.max_by(|&a, &b| {
                    let worth = |i: usize| u128::from(pages - valid[i]) * age(i);
                    let cost = |i: usize| u128::from(pages + valid[i]);
                    (worth(a) * cost(b)).cmp(&(worth(b) * cost(a))).then(b.cmp(&a))
                })
            }
            Policy::Plugin => plugin
                .expect("a profile with this policy has a plug-in")
                .choose_victim(blocks, valid, sealed)
                .map(|index| index as usize),
        };
        chosen.map(|index| index as u32)
    }
}

/// The emptiest of `d` sealed superblocks drawn with replacement; draws that hit others are
/// repeated. One that holds nothing needs no draw: its count of valid pages tells when it reaches
/// zero.
///
/// The closed forms let a draw of full superblocks win, and so does this, as long as some
/// superblock has something to gain; after many misses a scan decides, so that the choice always
/// ends.
fn drawn(rng: &mut Rng, d: u32, blocks: &[Superblock], valid: &[u32], pages: u32) -> Option<usize> {
    const DRAWS_MAX: u32 = 1000;
    let sealed = |i: usize| blocks[i].state == State::Sealed;
    let empty = (0..blocks.len()).filter(|&i| sealed(i) && valid[i] == 0);
    if let Some(oldest) = empty.min_by_key(|&i| blocks[i].sealed) {
        return Some(oldest);
    }
    let draw =
        |_| (0..DRAWS_MAX).map(|_| rng.below(blocks.len() as u64) as usize).find(|&i| sealed(i));
    let best = (0..d).filter_map(draw).min_by_key(|&i| valid[i]);
    if best.is_some_and(|i| valid[i] < pages) {
        return best;
    }
    let emptiest = (0..blocks.len()).filter(|&i| sealed(i)).min_by_key(|&i| valid[i]);
    let gain = emptiest.filter(|&i| valid[i] < pages);
    gain.map(|i| best.unwrap_or(i))
}
