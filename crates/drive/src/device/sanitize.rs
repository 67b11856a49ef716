//! Everything is erased: Sanitize and Format NVM, with the time they take.
//!
//! Sources: NVM Express base specification 2.0, Sanitize (block erase, crypto erase) and Format NVM
//! (secure erase settings 1, user data, and 2, cryptographic: for a drive of one namespace they do the
//! same). A block erase erases what is not erased, on all dies at once, one superblock after the other:
//! tBERS each, and each counts as wear. A crypto erase changes the key: nothing can be read any more, but
//! flash is erased only when it is used again, one superblock ahead as always.
//! ATA's SECURITY ERASE UNIT is a block erase. No other command is served meanwhile; all data, the write
//! buffer's too, is gone; unmapped pages read as zeros.
//! Media that is written in place has nothing to erase before it is written: it only changes the key.
//! Not modelled: blocks that fail in these erases, progress while commands that may go on are served.

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
}

/// Making a new key and an empty map. guess: drives say seconds at most; no measurement is published.
const NEW_KEY: Nanos = Nanos::millis(100);

impl Device {
    /// Format NVM, beginning at `at`, with a secure erase or without; returns when that is done.
    ///
    /// Without one (setting 0) all pages are unmapped, as by a TRIM of the whole drive, and nothing more: in
    /// this model the same as a crypto erase, which leaves flash as it is too. Under the conditions of
    /// [`Device::sanitize`].
    pub fn format(&mut self, at: Nanos, secure: Option<Sanitize>) -> Nanos {
        self.sanitize(at, secure.unwrap_or(Sanitize::Crypto))
    }

    /// Erases everything, beginning at `at`; returns when that is done, which is the drive's time then.
    ///
    /// No request may be under way: a host waits for its queues, and a drive refuses others meanwhile.
    pub fn sanitize(&mut self, at: Nanos, how: Sanitize) -> Nanos {
        self.idle_until(at);
        if at > self.log.busy_until() {
            self.end_idle(at);
        }
        let from = self.controller.work().1.max(at);
        let done = match (&mut self.media, how) {
            (Media::InPlace(media), _) => from.max(media.cells.idle_at()).after(NEW_KEY),
            (Media::Flash(flash), Sanitize::Block) => flash.backend.erase_blocks(from),
            (Media::Flash(_), Sanitize::Crypto) => from.after(NEW_KEY),
        };
        self.forget_data(how == Sanitize::Block);
        self.controller.flash_core().wait_until(done);
        self.log.complete(done);
        self.media.advance(done);
        self.advance_thermal(done);
        done
    }

    /// Purge between tests: all data gone, all superblocks erased, in no time; clock, temperature and wear
    /// stay. [`Device::sanitize`] is the command, with its time.
    pub fn secure_erase(&mut self) {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        self.forget_data(true);
    }

    fn forget_data(&mut self, erase: bool) {
        if let Some(flash) = self.media.flash_mut() {
            flash.backend.forget_all(erase);
        }
        self.zones.iter_mut().for_each(|zones| zones.forget_all());
        self.forget_work_under_way();
    }
}
