//! Everything is erased: Sanitize and Format NVM, with the time they take.
//!
//! Sources: NVM Express base specification 2.0, Sanitize (block erase, crypto erase, overwrite) and
//! Format NVM (secure erase settings 1, user data, and 2, cryptographic: for a drive of one
//! namespace they do the same). A block erase erases what is not erased, on all dies at once, one
//! superblock after the other: tBERS each, and each counts as wear. A crypto erase changes the key:
//! nothing can be read any more, but flash is erased only when it is used again, one superblock
//! ahead as always. An overwrite erases and programs all flash pages, those of spare superblocks
//! too, in each of its passes: tBERS and the sum of tPROG on each die, no faster than its channel
//! brings the data; the pattern comes from the controller, not over the link. ATA's SECURITY ERASE
//! UNIT is a block erase. No other command is served meanwhile; all data, the write buffer's too,
//! is gone; unmapped pages read as zeros. Media that is written in place has nothing to erase
//! before it is written: it only changes the key, but can be overwritten. Not modelled: blocks that
//! fail in these erases, what heat does to the rate of an overwrite (it does heat the drive),
//! progress while commands that may go on are served.

use drivebay_units::Nanos;

use super::Device;
use crate::firmware::media::Media;
use crate::timeline::NEVER;

/// How everything is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitize {
    /// Sanitize, block erase; Format NVM, user data erase; ATA secure erase.
    Block,
    /// Sanitize, crypto erase; Format NVM, cryptographic erase.
    Crypto,
    /// Sanitize, overwrite: all media is written so often with a pattern.
    Overwrite(u32),
}

/// Making a new key and an empty map. guess: drives say seconds at most; no measurement is
/// published.
const NEW_KEY: Nanos = Nanos::millis(100);

impl Device {
    /// Format NVM, beginning at `at`, with a secure erase or without; returns when that is done.
    ///
    /// Without one (setting 0) all pages are unmapped, as by a TRIM of the whole drive, and nothing
    /// more: in this model the same as a crypto erase, which leaves flash as it is too. Under the
    /// conditions of [`Device::sanitize`].
    pub fn format(&mut self, at: Nanos, secure: Option<Sanitize>) -> Nanos {
        self.sanitize(at, secure.unwrap_or(Sanitize::Crypto))
    }

    /// Erases everything, beginning at `at`; returns when that is done, which is the drive's time
    /// then.
    ///
    /// No request may be under way: a host waits for its queues, and a drive refuses others
    /// meanwhile.
    pub fn sanitize(&mut self, at: Nanos, how: Sanitize) -> Nanos {
        let done = self.erase_media(at, how);
        self.forget_data(how == Sanitize::Block);
        self.pass_until(done)
    }

    /// As [`Device::sanitize`], but what was mapped stays so, whatever it holds then.
    pub fn sanitize_kept(&mut self, at: Nanos, how: Sanitize) -> Nanos {
        let done = self.erase_media(at, how);
        self.pass_until(done)
    }

    /// About what [`Device::sanitize`] takes of a drive that is all in use.
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

    /// Writes all flash so often, one superblock after the other, each as often as is asked: heat
    /// and wear go with it.
    fn overwrite(&mut self, from: Nanos, passes: u32) -> Nanos {
        let mut done = from;
        for index in 0..self.spec.geometry.superblocks {
            let Some(flash) = self.media.page_mapped_mut() else { break };
            done = done.max(flash.backend.overwrite(from, index, passes));
            self.pass_until(done);
        }
        done
    }

    /// The drive has worked until then, and its time is that.
    fn pass_until(&mut self, done: Nanos) -> Nanos {
        self.controller.ftl_core().wait_until(done);
        self.log.complete(done);
        self.media.advance(done);
        self.advance_thermal(done);
        done
    }

    /// Purge between tests: all data gone, all superblocks erased, in no time; clock, temperature
    /// and wear stay. [`Device::sanitize`] is the command, with its time.
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
