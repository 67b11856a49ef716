//! The SLC cache at work: the source of the host's next superblock, and folding.
//!
//! The host writes to superblocks with one bit per cell as long as there are some: static ones
//! first, then dynamic ones. Folding copies valid pages, oldest superblock first, to superblocks
//! with all bits per cell, with garbage collection's machinery: reads, core time, buffer and
//! programs are the same, and commands wait for it in the same way. It works while no command is
//! there, along with the host's writes at a set ratio, and at one to one when the cache is full and
//! writes have to wait for space. With `fold_from_full`, folding along with writes begins when the
//! cache is full, and writes bypass the cache from then on until a rest: so a fill is slower after
//! the cache while it is being emptied, and faster towards the end (TechPowerUp, 980 PRO).
//!
//! Sources: the mechanisms as reviews measure them (AnandTech's and Tom's Hardware's fills of TLC
//! and QLC drives: fast, then either direct TLC speed or less than that while the cache is folded).
//! Not modelled: copies inside a die (on-chip folding), which would spare the channels; data that
//! is left in the cache for the sake of reads.

use drivebay_units::Nanos;

use crate::events::Trigger;
use crate::firmware::backend::BackEnd;
use crate::firmware::controller::Controller;
use crate::firmware::gc::Gc;
use crate::io::DeviceError;
use crate::pacer::Pacer;
use crate::persist::persist;
use crate::profile::{SlcCacheSpec, WhenFull};
use crate::superblock::{HOST, Mode};

/// The SLC cache, and the debt of folding.
#[derive(Debug)]
pub struct SlcCache {
    spec: SlcCacheSpec,
    /// Pages to be folded for the host's writes, in 1/256.
    debt: Pacer,
    /// True if it was full and the drive has not rested since.
    closed: bool,
}

persist!(SlcCache: debt, closed; given: spec);

impl SlcCache {
    pub fn new(spec: SlcCacheSpec) -> SlcCache {
        SlcCache { spec, debt: Pacer::default(), closed: false }
    }

    /// Forgets the debt, as after a power cut.
    pub fn restart(&mut self) {
        (self.debt, self.closed) = (Pacer::default(), false);
    }

    /// List of the host's next superblock of the cache; none if the cache is full or closed.
    fn next(&self, flash: &BackEnd) -> Option<Mode> {
        if self.closed { None } else { flash.ftl.next_of_cache(flash.reserve()) }
    }

    /// Opens a superblock of the cache for the host at `at`, if there is one; returns whether it
    /// did, and when the host may go on.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`].
    pub fn open(
        &mut self,
        at: Nanos,
        gc: &mut Gc,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) -> Result<(bool, Nanos), DeviceError> {
        let waits = self.spec.when_full == WhenFull::Fold;
        let begin = controller.ftl_core().free_at();
        gc.fold_while(Trigger::Foreground, flash, controller, |flash: &BackEnd, _| {
            let ftl = &flash.ftl;
            self.next(flash).is_none() && ftl.can_fold() && (waits || ftl.fold_is_empty())
        })?;
        let mode = self.next(flash);
        self.closed |= mode.is_none() && self.spec.fold_from_full;
        let end = controller.ftl_core().free_at();
        let may_go_on = if end > begin { end } else { Nanos::ZERO };
        if let Some(mode) = mode {
            let opened = flash.open(HOST, at.max(may_go_on), mode);
            assert!(opened, "a superblock of the cache is free");
        }
        Ok((mode.is_some(), may_go_on))
    }

    /// Folds after a command that has written `pages` pages.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`].
    #[inline(never)]
    pub fn follow_write(
        &mut self,
        pages: u64,
        gc: &mut Gc,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) -> Result<(), DeviceError> {
        let mut ratio_256 = self.spec.fold_ratio_256;
        let is_full = || flash.ftl.next_of_cache(flash.reserve()).is_none();
        if self.spec.when_full == WhenFull::Fold && is_full() {
            ratio_256 = ratio_256.max(256);
        }
        if self.spec.fold_from_full && !self.closed {
            ratio_256 = 0;
        }
        self.debt.feed(pages * ratio_256);
        gc.fold_while(Trigger::Behind, flash, controller, |flash: &BackEnd, step| {
            self.debt.draw(u64::from(step.pages) * 256);
            self.debt.allows() && flash.ftl.can_fold()
        })?;
        // A debt without anything to fold is dropped.
        self.debt.keep(0);
        Ok(())
    }

    /// Works while the flash core has no command until `until`: collects garbage, and folds from
    /// its time on.
    #[inline(never)]
    pub fn work_until(
        &mut self,
        until: Nanos,
        gc: &mut Gc,
        flash: &mut BackEnd,
        controller: &mut Controller,
    ) {
        let begin = gc.idle_since(controller).after(self.spec.fold_after);
        gc.run_until(until.min(begin), flash, controller);
        if until > begin {
            self.closed = false;
            gc.fold_until(begin, until, flash, controller);
            gc.run_until(until, flash, controller);
        }
    }
}
