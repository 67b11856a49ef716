//! Which superblock to collect next.
//!
//! Sources: greedy and FIFO as in Desnoyers (SYSTOR 2012), d-choices as in Van Houdt (SIGMETRICS
//! 2013), cost-benefit as in Rosenblum and Ousterhout (1992) with age counted in superblocks sealed.
//! A linear scan: superblocks over all dies are few (about a thousand), and one is chosen per hundred
//! thousand pages copied. So a policy from outside (`victim_policy.rs`) costs one indirect call per victim,
//! none per I/O, and its scan is compiled as ours is.

use drivebay_units::Rng;

use super::Ftl;
use crate::spec::Policy;
use crate::superblock::{EMPTY, State, Superblock};
use crate::victim_policy::Choice;

impl Ftl {
    /// Pages that the victim in hand gives per page copied, in 1/65536, by what it held when it was chosen.
    #[inline(always)]
    pub fn given_per_copy(&self) -> u64 {
        // An empty one that a power cut has given pages back to has nothing to give for them.
        self.victim.filter(|v| v.given_per_copy != EMPTY).map_or(0, |v| v.given_per_copy)
    }

    /// Pages that it gives without a copy, likewise: all, if it was empty.
    pub fn given_by_empty(&self) -> u64 {
        let empty = self.victim.filter(|victim| victim.given_per_copy == EMPTY);
        empty.map_or(0, |victim| u64::from(self.slots_of(victim.superblock)) << 16)
    }

    /// Chooses a victim among the sealed superblocks that have something to gain.
    pub(super) fn choose_victim(&mut self) -> Option<()> {
        if self.free.is_empty() {
            return self.choose_what_fits();
        }
        if let Some(&index) = self.suggested.front() {
            self.make_victim(index);
            return Some(());
        }
        if let Some(least_worn) = self.least_worn_to_move() {
            self.make_victim(least_worn);
            return Some(());
        }
        let slots = self.geometry.superblock_slots;
        let (blocks, valid) = (&self.superblocks, &self.valid);
        let gains = |i: usize| blocks[i].state == State::Sealed && valid[i] < slots;
        // The static SLC cache's are emptied by folding; that gains nothing here.
        let blocks = &blocks[..self.slc.native()];
        let all = (0..blocks.len()).filter(|&i| gains(i));
        let chosen = match &self.policy {
            Policy::Greedy => all.min_by_key(|&i| (valid[i], blocks[i].sealed)),
            Policy::Fifo => all.min_by_key(|&i| blocks[i].sealed),
            Policy::Choices(d) => drawn(&mut self.rng, *d, blocks, valid, slots),
            Policy::CostBenefit => {
                let age = |i: usize| u128::from(self.sealed - blocks[i].sealed);
                // (1 - u) * age / (1 + u), compared as fractions over the superblock's size.
                all.max_by(|&a, &b| {
                    let worth = |i: usize| u128::from(slots - valid[i]) * age(i);
                    let cost = |i: usize| u128::from(slots + valid[i]);
                    (worth(a) * cost(b)).cmp(&(worth(b) * cost(a))).then(b.cmp(&a))
                })
            }
            Policy::Custom(policy) => {
                let (rng, sealed) = (&mut self.rng, self.sealed);
                let choice = Choice { rng, pages: slots, blocks, valid, sealed };
                let chosen = policy.choose(choice).map(|index| index as usize);
                let allowed = chosen.is_none_or(|i| i < blocks.len() && gains(i));
                assert!(allowed, "{policy:?} chose {chosen:?}, which is not among the candidates");
                chosen
            }
        }?;
        self.make_victim(chosen as u32);
        Some(())
    }

    /// With no superblock free, whatever the policy says, the emptiest, if its pages fit into what is left of
    /// the collection frontier. Power cuts in the middle of a victim leave it so: what was copied is
    /// lost, and the frontier goes on at its next row.
    #[cold]
    fn choose_what_fits(&mut self) -> Option<()> {
        let sealed = |i: &usize| self.superblocks[*i].state == State::Sealed;
        let emptiest = (0..self.slc.native()).filter(sealed).min_by_key(|&i| self.valid[i])?;
        if self.valid[emptiest] > self.room(self.collect_stream) {
            return None;
        }
        self.make_victim(emptiest as u32);
        Some(())
    }
}

/// The emptiest of `d` sealed superblocks drawn with replacement; draws that hit others are repeated.
///
/// The closed forms let a draw of full superblocks win, and so does this, as long as some superblock
/// has something to gain; after many misses a scan decides, so that the choice always ends.
fn drawn(rng: &mut Rng, d: u32, blocks: &[Superblock], valid: &[u32], slots: u32) -> Option<usize> {
    const DRAWS_MAX: u32 = 1000;
    let sealed = |i: usize| blocks[i].state == State::Sealed;
    let draw =
        |_| (0..DRAWS_MAX).map(|_| rng.below(blocks.len() as u64) as usize).find(|&i| sealed(i));
    let best = (0..d).filter_map(draw).min_by_key(|&i| valid[i]);
    if best.is_some_and(|i| valid[i] < slots) {
        return best;
    }
    let emptiest = (0..blocks.len()).filter(|&i| sealed(i)).min_by_key(|&i| valid[i]);
    let gain = emptiest.filter(|&i| valid[i] < slots);
    gain.map(|i| best.unwrap_or(i))
}
