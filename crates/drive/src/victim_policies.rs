//! Built-in victim policies: each has an entry in [`policies!`], and its function below.
//!
//! To add a policy: an entry and a function here; a key in `profile/schema.rs` if the policy has a
//! parameter; its rule in the naive simulation of `tests/frontiers.rs`. Profiles, documents and
//! tests take the list from [`VICTIM_POLICIES`].
//!
//! Contract of a policy's function:
//! - It returns a victim as long as any sealed superblock holds an invalid page. A drive that gets
//!   `None` then fails with [`DeviceError::NoSpace`](crate::DeviceError::NoSpace). It may return a
//!   superblock whose pages are all valid, as FIFO does, if repeated calls reach one that gains.
//! - `None` means that no sealed superblock gains.
//! - Superblocks are numbered by their place in the lists. Pages are mapping units. Age is counted
//!   in superblocks sealed, not in time.
//! - Equal calls return equal victims. Random choices use the given generator only.
//! - The firmware calls it once per victim, never per I/O; a pass over all superblocks (about a
//!   thousand) is cheap compared with the copies of a victim.
//!
//! Sources: greedy and FIFO as in Desnoyers (SYSTOR 2012); d-choices as in Van Houdt (SIGMETRICS
//! 2013); cost-benefit as in Rosenblum and Ousterhout (1992); windowed greedy as in Hu,
//! Eleftheriou, Haas, Iliadis and Pletka (SYSTOR 2009).

use drivebay_units::Rng;

use crate::superblock::{State, Superblock};

/// Superblocks from which a policy chooses.
#[derive(Clone, Copy)]
pub struct Sealed<'a> {
    /// Records of all superblocks; only sealed ones may be chosen.
    pub blocks: &'a [Superblock],
    /// Number of valid pages per superblock.
    pub valid: &'a [u32],
    /// Number of superblocks sealed so far.
    pub seals: u64,
    /// Pages of a superblock.
    pub pages: u32,
}

impl Sealed<'_> {
    fn all(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.blocks.len()).filter(|&i| self.blocks[i].state == State::Sealed)
    }

    fn gains(&self, i: usize) -> bool {
        self.valid[i] < self.pages
    }

    fn candidates(&self) -> impl Iterator<Item = usize> {
        self.all().filter(|&i| self.gains(i))
    }
}

/// A built-in victim policy.
#[derive(Clone, Copy, Debug)]
pub struct VictimPolicy {
    /// Name in profiles.
    pub word: &'static str,
    /// Description, for documents.
    pub about: &'static str,
    /// Key of `[gc]` with its parameter, if it has one.
    pub parameter: Option<&'static str>,
    /// Function that chooses a victim, given the parameter.
    pub choose: fn(&Sealed<'_>, u32, &mut Rng) -> Option<usize>,
}

macro_rules! policies {
    ($(#[doc = $about:literal] $word:literal $(($key:literal))? => $choose:ident,)+) => {
        /// All built-in victim policies.
        pub const VICTIM_POLICIES: &[VictimPolicy] = &[$(VictimPolicy {
            word: $word,
            about: $about.trim_ascii(),
            parameter: [$(Some($key),)? None][0],
            choose: $choose,
        }),+];
    };
}

policies! {
    /// Fewest valid pages; of equals the superblock that was sealed first.
    "greedy" => greedy,
    /// The superblock that was sealed first, full or not (a circular log).
    "fifo" => fifo,
    /// Fewest valid pages among `choices` superblocks drawn at random.
    "d-choices" ("choices") => d_choices,
    /// Largest (1 - u) x age / (1 + u), u being the share of valid pages.
    "cost-benefit" => cost_benefit,
    /// Fewest valid pages among the `window` superblocks that were sealed first.
    "windowed" ("window") => windowed,
}

fn greedy(sealed: &Sealed<'_>, _: u32, _: &mut Rng) -> Option<usize> {
    sealed.candidates().min_by_key(|&i| (sealed.valid[i], sealed.blocks[i].sealed))
}

fn fifo(sealed: &Sealed<'_>, _: u32, _: &mut Rng) -> Option<usize> {
    sealed.all().min_by_key(|&i| sealed.blocks[i].sealed)
}

/// Draws with replacement, and repeats draws of superblocks that are not sealed. Takes an empty
/// superblock without a draw: its count of valid pages shows when it reaches zero.
///
/// In the closed forms a draw of only full superblocks returns a full one; so does this function as
/// long as some superblock gains. After many misses a scan decides, so that the choice always ends.
fn d_choices(sealed: &Sealed<'_>, choices: u32, rng: &mut Rng) -> Option<usize> {
    const DRAWS_MAX: u32 = 1000;
    let empty = sealed.all().filter(|&i| sealed.valid[i] == 0);
    if let Some(oldest) = empty.min_by_key(|&i| sealed.blocks[i].sealed) {
        return Some(oldest);
    }
    let draw = |_| {
        let mut draws = (0..DRAWS_MAX).map(|_| rng.below(sealed.blocks.len() as u64) as usize);
        draws.find(|&i| sealed.blocks[i].state == State::Sealed)
    };
    let best = (0..choices).filter_map(draw).min_by_key(|&i| sealed.valid[i]);
    if best.is_some_and(|i| sealed.gains(i)) {
        return best;
    }
    let emptiest = sealed.all().min_by_key(|&i| sealed.valid[i]).filter(|&i| sealed.gains(i));
    emptiest.map(|i| best.unwrap_or(i))
}

/// Compares the worth as fractions over the superblock's size; among equals the first wins.
fn cost_benefit(sealed: &Sealed<'_>, _: u32, _: &mut Rng) -> Option<usize> {
    let age = |i: usize| u128::from(sealed.seals - sealed.blocks[i].sealed);
    let worth = |i: usize| u128::from(sealed.pages - sealed.valid[i]) * age(i);
    let cost = |i: usize| u128::from(sealed.pages + sealed.valid[i]);
    sealed
        .candidates()
        .max_by(|&a, &b| (worth(a) * cost(b)).cmp(&(worth(b) * cost(a))).then(b.cmp(&a)))
}

/// If all superblocks in the window are full, the window widens to the oldest that gains.
fn windowed(sealed: &Sealed<'_>, window: u32, _: &mut Rng) -> Option<usize> {
    let mut by_age: Vec<usize> = sealed.all().collect();
    by_age.sort_unstable_by_key(|&i| sealed.blocks[i].sealed);
    let (inside, beyond) = by_age.split_at(by_age.len().min(window as usize));
    let emptiest =
        inside.iter().copied().filter(|&i| sealed.gains(i)).min_by_key(|&i| sealed.valid[i]);
    emptiest.or_else(|| beyond.iter().copied().find(|&i| sealed.gains(i)))
}

#[cfg(test)]
#[path = "../tests/unit/victim_policies.rs"]
mod tests;
