//! Superblocks of the SLC cache: its free list and its counts.

use std::collections::VecDeque;

use crate::persist::persist;
use crate::spec::{SlcCacheSpec, Spec};
use crate::superblock::Victim;

/// The cache's share of the translation layer; empty if there is none.
pub struct Slc {
    pub spec: Option<SlcCacheSpec>,
    /// Index of the first static superblock; how many superblocks there are if there is no cache.
    pub native: usize,
    pub superblock_slots: u32,
    pub free: VecDeque<u32>,
    /// Ordinary superblocks that are used with one bit per cell now.
    pub dynamic: u32,
    /// Full ones, static and dynamic.
    pub sealed: u32,
    /// The superblock being folded.
    pub victim: Option<Victim>,
    /// Pages placed in the cache's superblocks that have been left for another.
    pub written: u64,
    /// Erases that followed use with one bit per cell.
    pub erases: u64,
}

persist!(Slc: free, dynamic, sealed, victim, written, erases; given: spec, native, superblock_slots);

impl Slc {
    pub fn new(spec: &Spec) -> Slc {
        let g = &spec.geometry;
        let unused = if g.slc_superblocks > 0 { g.bad_superblocks + g.slc_superblocks } else { 0 };
        Slc {
            spec: spec.slc_cache,
            native: (g.superblocks - unused) as usize,
            superblock_slots: spec.slc_cache.map_or(0, |slc| slc.superblock_slots),
            free: VecDeque::new(),
            dynamic: 0,
            sealed: 0,
            victim: None,
            written: 0,
            erases: 0,
        }
    }

    /// Ordinary superblocks have the indices below this.
    #[inline(always)]
    pub fn native(&self) -> usize {
        self.native
    }

    /// Whether a drive of this profile has the same static superblocks.
    pub fn fits(&self, spec: &Spec) -> bool {
        self.native == Slc::new(spec).native
    }

    /// All of these are free.
    pub fn forget(&mut self, fixed: impl Iterator<Item = u32>) {
        self.free = fixed.collect();
        (self.dynamic, self.sealed, self.victim) = (0, 0, None);
    }

    pub fn note_sealed(&mut self, slc: bool) {
        self.sealed += u32::from(slc);
    }

    pub fn note_victim(&mut self, slc: bool) {
        self.sealed -= u32::from(slc);
    }

    pub fn victim(&self) -> Option<&Victim> {
        self.victim.as_ref()
    }

    pub fn free(&self) -> &VecDeque<u32> {
        &self.free
    }

    /// After a power cut: those in which old data lies are in use again.
    pub fn retain_empty(&mut self, valid: &[u32]) {
        self.free.retain(|&index| valid[index as usize] == 0);
    }

    pub fn is_static(&self, index: u32) -> bool {
        self.spec.is_some() && index as usize >= self.native
    }
}
