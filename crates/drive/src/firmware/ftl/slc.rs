//! Superblocks of the SLC cache: one bit per cell, so 1/2, 1/3 or 1/4 of the pages.
//!
//! Static ones are always used this way and have a free list of their own; dynamic ones are
//! ordinary free superblocks, used this way until they have been folded. Folding is garbage
//! collection with a victim of its own, so that neither waits for the other to finish a superblock.
//! A superblock counts among the free pages with all its bits while it is free, with its own pages
//! while it is written or read out; static ones count only then. Sources: hybrid caches as makers
//! describe them (Samsung, "Intelligent TurboWrite", 2016: a fixed region and one out of free user
//! space). Oldest first is `guess:` the order in which drives fold.

use std::collections::VecDeque;

use super::placement::Placement;
use super::superblocks::Superblocks;
use crate::persist::{StateError, ensure, persist};
use crate::profile::{SlcCacheSpec, Spec};
use crate::superblock::{Mode, State};

/// State of the SLC cache in the translation layer; empty if there is none.
pub struct SlcBlocks {
    spec: Option<SlcCacheSpec>,
    superblock_pages: u64,
    /// Free static superblocks.
    pub free: VecDeque<u32>,
    /// Ordinary superblocks that are used with one bit per cell now.
    dynamic: u32,
    /// Full ones, static and dynamic.
    sealed: u32,
    /// Pages of the cache's superblocks that have been opened, less those that frontiers left
    /// unwritten.
    opened: u64,
    /// Erases that followed use with one bit per cell.
    pub erases: u64,
}

persist!(SlcBlocks: free, dynamic, sealed, opened, erases; given: spec, superblock_pages);

impl SlcBlocks {
    pub fn new(spec: &Spec) -> SlcBlocks {
        SlcBlocks {
            spec: spec.slc_cache,
            superblock_pages: u64::from(spec.geometry.superblock_pages),
            free: VecDeque::new(),
            dynamic: 0,
            sealed: 0,
            opened: 0,
            erases: 0,
        }
    }

    /// Begins anew: no superblock is used any more, and pages that frontiers have not written never
    /// will be.
    pub fn clear(&mut self, frontiers: &Placement, blocks: &Superblocks) {
        self.opened = self.pages_placed(frontiers, blocks);
        (self.dynamic, self.sealed) = (0, 0);
    }

    /// Notes that a superblock of the cache is opened.
    pub fn note_opened(&mut self, mode: Mode, pages: u32) {
        self.dynamic += u32::from(mode == Mode::Dynamic);
        self.opened += u64::from(pages);
    }

    /// Notes that an ordinary superblock of the cache is free again.
    pub fn note_left(&mut self) {
        self.dynamic -= 1;
    }

    pub fn note_sealed(&mut self) {
        self.sealed += 1;
    }

    pub fn note_victim(&mut self) {
        self.sealed -= 1;
    }

    /// List of the cache's next superblock; none if it is full. `reserve`: free superblocks that
    /// only garbage collection may use.
    pub fn next(&self, placement: &Placement, reserve: usize) -> Option<Mode> {
        let spec = self.spec.as_ref()?;
        if !self.free.is_empty() {
            return Some(Mode::Static);
        }
        let left = placement.free_pages.saturating_sub(self.superblock_pages);
        let dynamic = self.dynamic < spec.dynamic_max
            && placement.free.len() > reserve
            && left >= spec.keep_free;
        dynamic.then_some(Mode::Dynamic)
    }

    /// True if there is a full superblock.
    #[inline(always)]
    pub fn has_sealed(&self) -> bool {
        self.sealed > 0
    }

    /// Counts the cache's superblocks anew, after a power cut.
    pub fn count(&mut self, blocks: &Superblocks) {
        (self.dynamic, self.sealed) = in_use(blocks);
    }

    /// Most pages of data that the cache can hold just now, and its valid pages.
    pub fn capacity(
        &self,
        placement: &Placement,
        blocks: &Superblocks,
        valid: &[u32],
        reserve: usize,
    ) -> (u64, u64) {
        let Some(spec) = &self.spec else {
            return (0, 0);
        };
        let spare = placement.free_pages.saturating_sub(spec.keep_free) / self.superblock_pages;
        let free = (placement.free.len().saturating_sub(reserve) as u64).min(spare);
        let dynamic = u64::from(spec.dynamic_max).min(u64::from(self.dynamic) + free);
        let fixed = blocks.of_static_cache().iter().filter(|s| s.state != State::Bad);
        let in_use = blocks.all().iter().zip(valid);
        let in_use = in_use.filter(|(s, _)| s.slc && s.state != State::Free);
        let held = in_use.map(|(_, &valid)| u64::from(valid)).sum();
        ((fixed.count() as u64 + dynamic) * u64::from(spec.superblock_pages), held)
    }

    /// Pages placed in the cache so far, padding included.
    pub fn pages_placed(&self, placement: &Placement, blocks: &Superblocks) -> u64 {
        self.opened - unwritten(placement, blocks)
    }

    /// Checks a state that was read back.
    pub fn check(
        &self,
        placement: &Placement,
        blocks: &Superblocks,
        valid: &[u32],
    ) -> Result<(), StateError> {
        ensure((self.dynamic, self.sealed) == in_use(blocks), "superblocks in the SLC cache")?;
        let cached = self.spec.is_some();
        for (index, s) in (0u32..).zip(blocks.all()) {
            ensure(s.slc_erases <= s.erases && (cached || !s.slc), "a superblock's use as cache")?;
            let used = !s.erased && s.state != State::Bad;
            ensure(!(blocks.is_static(index) && used) || s.slc, "a static superblock's use")?;
            let fits = valid[index as usize] <= blocks.pages_of(index);
            ensure(fits, "more valid pages than a superblock has")?;
        }
        let few = self.opened < 1 << 50 && self.erases < 1 << 50;
        ensure(few, "the SLC cache's counts")?;
        ensure(unwritten(placement, blocks) <= self.opened, "pages written to the SLC cache")
    }
}

/// Space left at frontiers in the cache.
fn unwritten(placement: &Placement, blocks: &Superblocks) -> u64 {
    let standing = placement.frontiers().iter().filter(|f| f.end != 0);
    let cached = standing.filter(|f| blocks.get(f.superblock).slc);
    cached.map(|f| u64::from(f.end - f.next)).sum()
}

/// Ordinary superblocks in use with one bit per cell, and all full ones.
fn in_use(blocks: &Superblocks) -> (u32, u32) {
    let (mut dynamic, mut sealed) = (0, 0);
    for (index, s) in (0u32..).zip(blocks.all()) {
        if s.slc && !matches!(s.state, State::Free | State::Bad) {
            dynamic += u32::from(!blocks.is_static(index));
            sealed += u32::from(s.state == State::Sealed);
        }
    }
    (dynamic, sealed)
}
