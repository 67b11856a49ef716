//! What is recorded of a served drive, for the states that a power cut could leave:
//! `drivebay_crash`.

use std::io;
use std::ops::Range;
use std::path::Path;

use drivebay_crash::{Header, Op as Recorded, Recorder, Rules};
use drivebay_units::SECTOR_BYTES;

use super::{Engine, PAGE_SECTORS};
use crate::drive::ControlError;
use crate::error::ServeError;
use crate::request::{Op, Request};

/// Sectors that are read at once of what the drive holds at the start: 1 MiB.
const PIECE: u64 = 2048;
/// What is lost for good, as a command that no host gave.
const ERASE: u64 = u64::MAX;

impl Engine {
    /// From now on all commands are recorded in a new file, with what the drive holds.
    pub(crate) fn record(&mut self, path: &Path) -> Result<(), ServeError> {
        let spec = self.device.spec();
        let (drive, sectors) = (spec.raw.drive.name.clone(), self.store.sectors());
        let header = Header { drive, sectors, rules: Some(Rules::from_spec(spec)) };
        let mut recorder = Recorder::create(path, &header)?;
        let mut lba = 0;
        while lba < sectors {
            for extent in self.store.extents(lba, sectors - lba, 1024)? {
                let end = lba + extent.sectors;
                let mut at = lba / PAGE_SECTORS * PAGE_SECTORS;
                while extent.data && at < end {
                    let mut piece = vec![0; (PIECE.min(sectors - at) * SECTOR_BYTES) as usize];
                    self.store.read(at, &mut piece)?;
                    recorder.begins_with(at, &piece);
                    at += PIECE;
                }
                lba = end;
            }
        }
        self.recorder = Some(recorder);
        Ok(())
    }

    pub(super) fn record_submitted(&mut self, number: u64, request: &Request, data: &[u8]) {
        let at = self.clock.since_start(self.clock.now()).0;
        let Some(recorder) = &mut self.recorder else { return };
        let what = match request.op {
            // No drive with zones is recorded.
            Op::Read | Op::HandleUpdate | Op::Append { .. } | Op::Zone(_) => return,
            Op::Write { fua } => (Recorded::Write, fua),
            Op::Flush => (Recorded::Flush, false),
            Op::Trim { fua } => (Recorded::Discard, fua),
            Op::WriteZeroes { fua, .. } => (Recorded::WriteZeroes, fua),
        };
        recorder.submitted(at, number, what, (request.lba, request.sectors.into()), data);
    }

    /// These sectors hold nothing from now on, whatever the power does.
    pub(super) fn record_erased(&mut self, sectors: &Range<u64>) {
        let at = self.clock.since_start(self.clock.now()).0;
        if let Some(recorder) = &mut self.recorder {
            let place = (sectors.start, sectors.end - sectors.start);
            recorder.submitted(at, ERASE, (Recorded::Discard, true), place, &[]);
            recorder.completed(at, ERASE, true);
        }
    }

    /// Notes in the recording what a workload was promised.
    pub(super) fn record_mark(&mut self, text: &str) -> Result<(), ControlError> {
        let at = self.clock.since_start(self.clock.now()).0;
        let recorder = self.recorder.as_mut().ok_or(ControlError::NotRecorded)?;
        recorder.mark(at, text);
        Ok(())
    }

    /// Ends the recording, if there is one.
    pub(crate) fn end_recording(&mut self) -> io::Result<()> {
        self.recorder.take().map_or(Ok(()), Recorder::end)
    }
}
