//! Which superblock to collect next.
//!
//! Sources: greedy and FIFO as in Desnoyers (SYSTOR 2012), d-choices as in Van Houdt (SIGMETRICS
//! 2013), cost-benefit as in Rosenblum and Ousterhout (1992) with age counted in superblocks sealed.
//! A linear scan: superblocks over all dies are few (about a thousand), and one is chosen per hundred
//! thousand pages copied. So a policy from outside ([`VictimPolicy`]) costs one indirect call per victim,
//! none per I/O, and its scan is compiled as ours is.

use std::fmt::Debug;
use std::sync::Arc;

use drivebay_units::Rng;

use super::{Ftl, State, Superblock};
use crate::spec::{Policy, Spec};

/// A rule that chooses the superblock to collect next, written outside this crate.
///
/// It is asked once per superblock collected. It keeps nothing between two questions: all it may go by is
/// in the [`Choice`], and that is part of the drive's state. So copies and saved states go on bit for bit
/// the same, and a drive with a rule of yours is as repeatable as any other. `examples/policy` has two.
pub trait VictimPolicy: Debug + Send + Sync {
    /// The index of one of [`Choice::candidates`]; none if there is none.
    fn choose(&self, choice: Choice<'_>) -> Option<u32>;
}

/// What a [`VictimPolicy`] may go by.
pub struct Choice<'a> {
    /// Random numbers of the drive: the same from the same seed.
    pub rng: &'a mut Rng,
    /// 4 KiB pages that a superblock holds.
    pub pages: u32,
    blocks: &'a [Superblock],
    valid: &'a [u32],
    sealed: u64,
}

/// A superblock that can be collected with some gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub index: u32,
    /// 4 KiB pages that must be copied before it can be erased; fewer than [`Choice::pages`].
    pub valid: u32,
    /// Superblocks sealed since it was, by host and collection, at least 0.
    pub age: u64,
    /// Times erased.
    pub erases: u32,
}

impl<'a> Choice<'a> {
    /// All superblocks that can be collected with some gain, in the order of their numbers.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + Clone + use<'a> {
        let (pages, sealed) = (self.pages, self.sealed);
        let all = (0u32..).zip(self.blocks.iter().zip(self.valid));
        all.filter(move |&(_, (s, &valid))| s.state == State::Sealed && valid < pages).map(
            move |(index, (s, &valid))| Candidate {
                index,
                valid,
                age: sealed - s.sealed,
                erases: s.erases,
            },
        )
    }
}

impl Spec {
    /// This drive with a rule of yours in place of the profile's `gc.victim_policy`.
    ///
    /// The rule is no part of a saved state: restore it into a drive with the same rule.
    #[must_use]
    pub fn with_policy(mut self, policy: impl VictimPolicy + 'static) -> Spec {
        self.policy = Policy::Custom(Arc::new(policy));
        self
    }
}

impl Ftl {
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
