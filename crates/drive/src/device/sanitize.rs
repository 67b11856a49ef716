//! Erasure of all data: Sanitize and Format NVM, and their duration.
//!
//! Sources: NVM Express base specification 2.0, Sanitize (block erase, crypto erase, overwrite) and
//! Format NVM (secure erase settings 1, user data, and 2, cryptographic: for a drive of one
//! namespace they do the same). A block erase erases all blocks that are not erased, on all dies at
//! once, one superblock after the other: tBERS each, and each counts as wear. A crypto erase
//! changes the key: nothing can be read any more, but flash is erased only when it is used again,
//! one superblock ahead as always. An overwrite erases and programs all flash pages, including
//! those of spare superblocks, in each of its passes: tBERS and the sum of tPROG on each die, no
//! faster than its channel brings the data; the pattern comes from the controller, not over the
//! link. ATA's SECURITY ERASE UNIT is a block erase. No other command is served meanwhile. All data
//! is lost, including that in the write buffer; unmapped pages read as zeros. Media that is written
//! in place needs no erase before a write: a block erase only changes the key, but it can be
//! overwritten. Not modelled: blocks that fail in these erases, the effect of heat on the rate of
//! an overwrite (it does heat the drive), progress while commands that may go on are served.

use drivebay_units::Nanos;

use super::Device;
use crate::firmware::media::Media;
use crate::timeline::NEVER;

/// Method of erasing all data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitize {
    /// Sanitize, block erase; Format NVM, user data erase; ATA secure erase.
    Block,
    /// Sanitize, crypto erase; Format NVM, cryptographic erase.
    Crypto,
    /// Sanitize, overwrite: all media is written with a pattern in this number of passes.
    Overwrite(u32),
}

/// Time to make a new key and an empty map. guess: drives specify seconds at most; no measurement
/// is published.
const NEW_KEY: Nanos = Nanos::millis(100);

impl Device {
    /// Runs Format NVM from `at` on, with or without a secure erase; returns its end.
    ///
    /// Without a secure erase (setting 0) all pages are only unmapped, as by a TRIM of the whole
    /// drive. In this model that is the same as a crypto erase, which also leaves flash unchanged.
    /// The conditions of [`Device::sanitize`] apply.
    pub fn format(&mut self, at: Nanos, secure: Option<Sanitize>) -> Nanos {
        self.sanitize(at, secure.unwrap_or(Sanitize::Crypto))
    }

    /// Erases all data from `at` on; returns the end, which is then the drive's time.
    ///
    /// No request may be under way: a host waits for its queues, and a drive refuses others
    /// meanwhile.
    pub fn sanitize(&mut self, at: Nanos, how: Sanitize) -> Nanos {
        let done = self.erase_media(at, how);
        self.forget_data(how == Sanitize::Block);
        self.pass_until(done)
    }

    /// Erases as [`Device::sanitize`], but keeps mapped pages mapped, with undefined contents.
    pub fn sanitize_kept(&mut self, at: Nanos, how: Sanitize) -> Nanos {
        let done = self.erase_media(at, how);
        self.pass_until(done)
    }

    /// Approximate time of [`Device::sanitize`] for a drive that is completely in use.
    #[must_use]
    pub fn sanitize_time(&self, how: Sanitize) -> Nanos {
        match (&self.media, how) {
            (_, Sanitize::Crypto) | (Media::InPlace(_), Sanitize::Block) => NEW_KEY,
            (Media::InPlace(media), Sanitize::Overwrite(passes)) => {
                media.overwrite_time().times(passes.into())
            }
            (Media::PageMapped(flash), _) => {
                let (g, nand) = (&self.spec.geometry, &self.spec.nand);
                let good = f64::from(g.superblocks - g.bad_superblocks);
                let erases = nand.erase.times((good / nand.erase_one_in) as u64);
                let Sanitize::Overwrite(passes) = how else { return erases };
                let programs = flash.backend.program_time().times(good as u64);
                erases.after(programs).times(passes.into())
            }
        }
    }

    fn erase_media(&mut self, at: Nanos, how: Sanitize) -> Nanos {
        self.idle_until(at);
        if at > self.log.busy_until() {
            self.end_idle(at);
        }
        let from = self.controller.work().1.max(at);
        match (&mut self.media, how) {
            (Media::InPlace(media), Sanitize::Overwrite(passes)) => media.overwrite(from, passes),
            (Media::InPlace(media), _) => from.max(media.cells.idle_at()).after(NEW_KEY),
            (Media::PageMapped(_), Sanitize::Overwrite(passes)) => self.overwrite(from, passes),
            (Media::PageMapped(flash), Sanitize::Block) => flash.backend.erase_blocks(from),
            (Media::PageMapped(_), Sanitize::Crypto) => from.after(NEW_KEY),
        }
    }

    /// Overwrites all flash, one superblock after the other, each with all passes; this causes heat
    /// and wear.
    fn overwrite(&mut self, from: Nanos, passes: u32) -> Nanos {
        let mut done = from;
        for index in 0..self.spec.geometry.superblocks {
            let Some(flash) = self.media.page_mapped_mut() else { break };
            done = done.max(flash.backend.overwrite(from, index, passes));
            self.pass_until(done);
        }
        done
    }

    /// Advances the drive's time to `done`; the drive has worked until then.
    fn pass_until(&mut self, done: Nanos) -> Nanos {
        self.controller.ftl_core().wait_until(done);
        self.log.complete(done);
        self.media.advance(done);
        self.advance_thermal(done);
        done
    }

    /// Purges the drive between tests: removes all data and erases all superblocks in no time;
    /// clock, temperature and wear stay. [`Device::sanitize`] is the command with its duration.
    pub fn secure_erase(&mut self) {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        self.forget_data(true);
    }

    fn forget_data(&mut self, erase: bool) {
        if let Some(flash) = self.media.page_mapped_mut() {
            flash.backend.forget_all(erase);
        }
        self.zones.iter_mut().for_each(|zones| zones.forget_all());
        self.forget_work_under_way();
    }
}
