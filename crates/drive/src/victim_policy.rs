//! Victim policies from outside this crate.

use std::fmt::Debug;

use drivebay_units::Rng;

use crate::superblock::{State, Superblock};

/// A rule that chooses the next victim of garbage collection, written outside this crate.
///
/// It is asked once per victim. It keeps nothing between two questions: all it may go by is
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
    /// Pages (mapping units) that a superblock holds.
    pub pages: u32,
    pub(crate) blocks: &'a [Superblock],
    pub(crate) valid: &'a [u32],
    pub(crate) sealed: u64,
}

/// A superblock whose garbage collection gains space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Number of the superblock.
    pub index: u32,
    /// Pages that must be copied before it can be erased; fewer than [`Choice::pages`].
    pub valid: u32,
    /// Superblocks sealed since it was, by host and garbage collection, at least 0.
    pub age: u64,
    /// Times erased.
    pub erases: u32,
}

impl<'a> Choice<'a> {
    /// All superblocks whose garbage collection gains space, in the order of their numbers.
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
