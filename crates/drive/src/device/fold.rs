//! The SLC cache at work: where the host's next superblock comes from, and folding.
//!
//! The host writes to superblocks with one bit per cell while there are some to be had: static ones first,
//! then dynamic ones. Folding copies what is still valid, oldest superblock first, to superblocks with all
//! bits per cell, with collection's machinery: reads, core time, buffer and programs are collection's, and
//! so is a command's wait behind it. It works while nothing is asked of the drive, beside the host's writes
//! at a set ratio, and at one to one when the cache is full and writes have to wait for room.
//! Sources: the mechanisms as reviews measure them (AnandTech's and Tom's Hardware's fills of TLC and QLC
//! drives: fast, then either direct TLC speed or less than that while the cache is folded).
//! Not modelled: copies inside a die (on-chip folding), which would spare the channels; data that is left
//! in the cache for the sake of reads.

use drivebay_units::Nanos;

use super::Device;
use crate::ftl::HOST;
use crate::io::DeviceError;
use crate::persist::persist;
use crate::spec::WhenFull;

/// What folding still owes.
#[derive(Debug, Default)]
pub(super) struct Fold {
    /// Pages to be folded for what the host has written, in 1/256; overdrawn when negative.
    owed_256: i64,
}

persist!(Fold: owed_256);

impl Device {
    /// Data that the SLC cache can hold at most just now, and valid data in it, in 4 KiB pages.
    #[must_use]
    pub fn cache_pages(&self) -> (u64, u64) {
        self.ftl.cache_pages(self.spec.reserve_superblocks as usize)
    }

    /// Nothing is left to fold for what was written before.
    pub(super) fn owe_no_folding(&mut self) {
        self.fold = self.fold.is_some().then(Box::default);
    }

    /// Opens a superblock of the cache for the host at `at`, if there is one to be had.
    ///
    /// Returns whether it did, and when the host may go on.
    pub(super) fn open_cache(&mut self, at: Nanos) -> Result<(bool, Nanos), DeviceError> {
        let reserve = self.spec.reserve_superblocks as usize;
        let waits = self.spec.slc_cache.is_some_and(|slc| slc.when_full == WhenFull::Fold);
        let begin = self.flash_core.free_at();
        let mut mode = self.ftl.next_of_cache(reserve);
        while mode.is_none() && self.ftl.can_fold() {
            if !(waits || self.ftl.fold_is_empty()) || self.fold_once()?.is_none() {
                break;
            }
            mode = self.ftl.next_of_cache(reserve);
        }
        let end = self.flash_core.free_at();
        let may_go_on = if end > begin { end } else { Nanos::ZERO };
        if let Some(mode) = mode {
            let opened = self.open_in(HOST, at.max(may_go_on), mode);
            assert!(opened, "a superblock of the cache is free");
        }
        Ok((mode.is_some(), may_go_on))
    }

    /// Folding's share behind a command that has written `pages` pages.
    #[inline(never)]
    pub(super) fn fold_under_load(&mut self, pages: u64) -> Result<(), DeviceError> {
        let (Some(slc), Some(fold)) = (&self.spec.slc_cache, &mut self.fold) else {
            return Ok(());
        };
        let reserve = self.spec.reserve_superblocks as usize;
        let mut ratio_256 = slc.fold_ratio_256;
        if slc.when_full == WhenFull::Fold && self.ftl.next_of_cache(reserve).is_none() {
            ratio_256 = ratio_256.max(256);
        }
        fold.owed_256 += pages as i64 * ratio_256;
        let mut owed_256 = fold.owed_256;
        while owed_256 > 0 && self.ftl.can_fold() {
            match self.fold_once()? {
                Some(folded) => owed_256 -= i64::from(folded) * 256,
                None => break,
            }
        }
        // What there was not to fold is not owed.
        if let Some(fold) = &mut self.fold {
            fold.owed_256 = owed_256.min(0);
        }
        Ok(())
    }

    /// Folds the next flash page without a pause, or gives a folded superblock back; returns how many
    /// pages were copied, or none if there is nothing left to do.
    fn fold_once(&mut self) -> Result<Option<u32>, DeviceError> {
        while !self.has_room_to_fold() {
            self.collect_superblock()?;
        }
        let begin = self.flash_core.free_at();
        let wait = self.place_free_at(self.ftl.collect_stream()).since_or_zero(begin);
        Ok(self.fold_page(begin.after(wait)).map(|(pages, cost)| {
            if pages > 0 {
                self.flash_core.collect(wait.after(cost));
            }
            pages
        }))
    }

    /// Whether a flash page can be copied without touching the reserve.
    fn has_room_to_fold(&self) -> bool {
        let page = 1 << self.spec.geometry.page_shift;
        self.ftl.room(self.ftl.collect_stream()) >= page
            || self.ftl.free_superblocks() > self.spec.reserve_superblocks as usize
    }

    /// Copies what is valid in the next flash page to fold; returns how many pages, and what that costs
    /// the core. No pages: a superblock was given back instead. None: there is nothing to fold.
    fn fold_page(&mut self, at: Nanos) -> Option<(u32, Nanos)> {
        self.ftl.swap_victims();
        let done = match self.ftl.next_fold() {
            Some(source) => Some((source.pages, self.copy(source, at))),
            None if self.ftl.victim_is_done() => {
                self.retire();
                Some((0, Nanos::ZERO))
            }
            None => None,
        };
        self.ftl.swap_victims();
        done
    }

    /// Work while the flash core has no command until `until`: collection, and from its time on folding.
    #[inline(never)]
    pub(super) fn work_at_rest(&mut self, until: Nanos) {
        let Some(slc) = self.spec.slc_cache else {
            return self.collect_until(until);
        };
        let begin = self.rests_since().after(slc.fold_after);
        self.collect_until(until.min(begin));
        if until > begin {
            self.fold_until(begin, until);
            self.collect_until(until);
        }
    }

    /// Folds from `begin`, or when the core is free, to `until`.
    fn fold_until(&mut self, begin: Nanos, until: Nanos) {
        let mut at = begin.max(self.flash_core.free_at());
        while at < until && self.has_room_to_fold() {
            at = at.max(self.place_free_at(self.ftl.collect_stream()));
            if at >= until {
                return;
            }
            let Some((pages, cost)) = self.fold_page(at) else {
                return;
            };
            if pages > 0 {
                self.flash_core.collect_from(at, cost);
            }
            at = at.after(cost);
        }
    }
}
