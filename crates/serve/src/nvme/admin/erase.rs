//! Format NVM and Sanitize.

use std::ops::Range;
use std::sync::atomic::Ordering;

use drivebay_drive::Sanitize;
use drivebay_units::Nanos;
use drivebay_wire::nvme::{PersistentKind, Sqe, Status};

use super::answer::{Answer, Outcome, done};
use crate::interface::drive::Drive;
use crate::lock::lock;
use crate::nvme::events::Event;
use crate::nvme::identity::NSID_ALL;
use crate::nvme::records::{ABORTED_BY_FORMAT, ABORTED_BY_SANITIZE, EXTENDED, SHORT, Sanitization};
use crate::nvme::refuse::refuse_if;
use crate::nvme::subsystem::{Subsystem, status_of};

impl Subsystem {
    pub(super) fn format(&mut self, id: u16, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        let nsid = sqe.nsid.get();
        let (doomed, sectors, is_protected) = match nsid {
            NSID_ALL => (drive.namespace_ids(), 0..drive.sectors(), drive.any_is_read_only()),
            nsid => {
                let namespace = drive.namespace(nsid).ok_or(Status::INVALID_NAMESPACE.dnr())?;
                (vec![nsid], namespace.range(), namespace.is_read_only)
            }
        };
        let cdw10 = sqe.cdw10.get();
        let (format, protection, erase) = (cdw10 & 0xf, cdw10 >> 5 & 7, cdw10 >> 9 & 7);
        let shift = self.identity.block_shifts().get(format as usize);
        let shift = shift.ok_or(Status::INVALID_FORMAT.dnr())?;
        // Without a secure erase the blocks are deallocated, which this model treats as a
        // cryptographic erase.
        let how = match erase {
            0 | 2 => Sanitize::Crypto,
            1 => Sanitize::Block,
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        // Protection information and metadata are not supported.
        refuse_if(protection != 0 || cdw10 & 1 << 4 != 0, Status::INVALID_FIELD)?;
        let now = drive.now();
        let until = erase_part(drive, sectors, is_protected, how)?;
        self.records.self_tests.end(&[SHORT, EXTENDED], ABORTED_BY_FORMAT, now);
        for nsid in doomed {
            drive.format_namespace(nsid, *shift).map_err(|why| status_of(&why))?;
        }
        let bytes_of = |numbers: [u32; 3]| numbers.map(u32::to_le_bytes).concat();
        self.note(id, PersistentKind::FormatStart, now, &bytes_of([nsid, 1 << 2, cdw10]));
        self.note(id, PersistentKind::FormatCompletion, until, &bytes_of([nsid, 0, 0]));
        self.answer_at(id, until, drive, sqe)
    }

    /// Answers a command at `until`, at the earliest now.
    fn answer_at(&mut self, id: u16, until: Nanos, drive: &dyn Drive, sqe: &Sqe) -> Answer {
        if until <= drive.now() {
            return done();
        }
        let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
        controller.slow.push((until, sqe.cid.get()));
        Ok(Outcome::Held)
    }

    /// Sanitize. The last pass of an overwrite writes the pattern itself, even if it is inverted
    /// between passes.
    pub(super) fn sanitize(&mut self, id: u16, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        const EXIT_FAILURE: u32 = 1;
        const BLOCK_ERASE: u32 = 2;
        const CRYPTO_ERASE: u32 = 4;
        /// The blocks stay allocated afterwards.
        const NO_DEALLOCATE: u32 = 1 << 9;
        let cdw10 = sqe.cdw10.get();
        let (how, pattern) = match (cdw10 & 7, Sanitization::passes(cdw10)) {
            (EXIT_FAILURE, _) => return done(),
            (BLOCK_ERASE, _) => (Sanitize::Block, 0),
            (CRYPTO_ERASE, _) => (Sanitize::Crypto, 0),
            (_, Some(passes)) if self.identity.overwrites => {
                (Sanitize::Overwrite(passes), sqe.cdw11.get())
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        let keeps = cdw10 & NO_DEALLOCATE != 0;
        refuse_if(keeps && !self.identity.may_keep_blocks(), Status::INVALID_FIELD)?;
        let from = drive.now();
        let before = drive.handle_use();
        let (all, is_protected) = (0..drive.sectors(), drive.any_is_read_only());
        let (until, is_kept) = if keeps {
            refuse_protected(drive, is_protected)?;
            drive.overwrite(how, pattern).map_err(|_| Status::INTERNAL_ERROR)?
        } else {
            (erase_part(drive, all, is_protected, how)?, false)
        };
        let until = until.max(from);
        lock(&self.shared.placement).note_modified(&before, &drive.handle_use(), until);
        self.records.self_tests.end(&[SHORT, EXTENDED], ABORTED_BY_SANITIZE, from);
        let cuts = drive.report().power_cuts;
        let is_deallocated = keeps && !is_kept;
        self.records.sanitize =
            Some(Sanitization { cdw10, from, until, is_told: false, is_deallocated, cuts });
        self.shared.sanitizing_until.store(until.0, Ordering::Relaxed);
        let capabilities = self.identity.sanicap().to_le_bytes();
        let event = [capabilities, cdw10.to_le_bytes(), sqe.cdw11.get().to_le_bytes()].concat();
        self.note(id, PersistentKind::SanitizeStart, from, &event);
        self.end_sanitize(id, drive);
        done()
    }

    pub(super) fn is_sanitizing(&self, now: Nanos) -> bool {
        self.records.sanitize.is_some_and(|operation| operation.goes_on(now))
    }

    /// Reports the end of a sanitize operation. An operation that a power cut has interrupted
    /// continues when the drive is ready again.
    pub(super) fn end_sanitize(&mut self, id: u16, drive: &mut dyn Drive) {
        let Some(operation) = self.records.sanitize.as_mut().filter(|operation| !operation.is_told)
        else {
            return;
        };
        let (now, report) = (drive.now(), drive.report());
        if report.power_cuts > operation.cuts && operation.goes_on(now) {
            let paused = report.last_power_cut.map_or(0, |cut| cut.ready_after_ns);
            (operation.cuts, operation.until) =
                (report.power_cuts, operation.until.after(Nanos(paused)));
            self.shared.sanitizing_until.store(operation.until.0, Ordering::Relaxed);
        }
        if operation.goes_on(now) {
            return;
        }
        operation.is_told = true;
        self.shared.sanitizing_until.store(0, Ordering::Relaxed);
        let [low, high] = operation.status(now).to_le_bytes();
        let event = if operation.is_deallocated { Event::Deallocated } else { Event::Sanitized };
        // Progress of all, status, and no further information.
        let outcome = [0xff, 0xff, low, high, 0, 0, 0, 0];
        self.note(id, PersistentKind::SanitizeCompletion, now, &outcome);
        self.controllers_mut().for_each(|controller| controller.events.raise(event));
    }
}

fn erase_part(
    drive: &mut dyn Drive,
    sectors: Range<u64>,
    is_protected: bool,
    how: Sanitize,
) -> Result<Nanos, Status> {
    refuse_protected(drive, is_protected)?;
    drive.erase(sectors, how).map_err(|_| Status::INTERNAL_ERROR)
}

/// Refuses a change of data if the drive or a part of it is write-protected.
fn refuse_protected(drive: &mut dyn Drive, is_protected: bool) -> Result<(), Status> {
    refuse_if(drive.is_read_only() || is_protected, Status::NAMESPACE_WRITE_PROTECTED)
}
