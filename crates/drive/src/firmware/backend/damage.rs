//! Errors of the flash, and the pages whose data they cost.

use std::collections::BTreeSet;
use std::ops::Range;

use drivebay_units::Rng;

use crate::persist::{StateError, ensure, persist};
use crate::physics::reliability::{Errors, Reliability};
use crate::profile::Spec;

/// Errors of reads and erases, and lost data.
pub struct Damage {
    /// Errors and wear, if they are modelled.
    pub errors: Option<Box<Errors>>,
    /// True if errors are modelled or a die has failed: reads may not be plain.
    pub may_err: bool,
    /// Pages whose data was lost in a copy.
    pub lost: BTreeSet<u32>,
    /// Reads of such pages and of failed dies, if errors are not modelled.
    lost_reads: u64,
    /// True if the present command met data that could not be read.
    pub media_error: bool,
}

persist!(Damage: errors, lost, lost_reads, media_error; given: may_err);

impl Damage {
    pub fn new(spec: &Spec, rng: &Rng) -> Damage {
        let g = &spec.geometry;
        Damage {
            errors: spec.reliability.map(|r| {
                let good = g.superblocks - g.bad_superblocks;
                Box::new(Errors::new(r, g.superblocks, good, spec.history.cycles, rng))
            }),
            may_err: spec.reliability.is_some(),
            lost: BTreeSet::new(),
            lost_reads: 0,
            media_error: false,
        }
    }

    /// Counts reads that no error correction could save.
    pub fn count_lost(&mut self, reads: u64) {
        match &mut self.errors {
            Some(errors) => errors.counts.media_errors += reads,
            None => self.lost_reads += reads,
        }
    }

    /// Errors and wear so far.
    pub fn counts(&self) -> Reliability {
        let mut counts = self.errors.as_ref().map_or_else(Reliability::default, |e| e.counts);
        counts.media_errors += self.lost_reads;
        counts
    }

    /// Forgets the loss of pages that get new data or none. Cost: a look whether any was lost; then
    /// a search, and one for each page.
    #[inline(always)]
    pub fn replace(&mut self, pages: Range<u32>) {
        if !self.lost.is_empty() {
            self.forget_lost(pages);
        }
    }

    #[cold]
    fn forget_lost(&mut self, pages: Range<u32>) {
        while let Some(&page) = self.lost.range(pages.clone()).next() {
            self.lost.remove(&page);
        }
    }

    /// Checks a state that was read back.
    pub fn check(&self, user_pages: u32) -> Result<(), StateError> {
        self.errors.iter().try_for_each(|errors| errors.check())?;
        let is_page = |&page: &u32| page < user_pages;
        ensure(self.lost.last().is_none_or(is_page), "a page that was lost")?;
        ensure(self.lost_reads < 1 << 50, "reads of what was lost")
    }
}
