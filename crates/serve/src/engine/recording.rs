//! Recording of a served drive, from which the possible states after a power cut are computed:
//! `drivebay_crash`.

use std::io;
use std::ops::Range;
use std::path::Path;

use drivebay_crash::{Header, Op as Recorded, Recorder, Rules};
use drivebay_units::SECTOR_BYTES;

use super::{Engine, PAGE_SECTORS};
use crate::error::ServeError;
use crate::interface::drive::ControlError;
use crate::request::{Op, Request};

/// Sectors of one read of the drive's initial content: 1 MiB.
const PIECE: u64 = 2048;
/// Number of a command that erases permanently, and that no host submitted.
const ERASE: u64 = u64::MAX;

impl Engine {
    /// Records all commands from now on in a new file: after the drive's current content, or
    /// without data.
    pub(crate) fn record(&mut self, path: &Path, requests_only: bool) -> Result<(), ServeError> {
        let spec = self.device.spec();
        let (drive, sectors) = (spec.raw.drive.name.clone(), self.store.sectors());
        let rules = Some(Rules::from_spec(spec));
        let header = Header { drive, sectors, rules, requests_only };
        let mut recorder = Recorder::create(path, &header)?;
        let content = (!requests_only).then(|| self.store.data_pieces(PIECE)).transpose()?;
        for (lba, count) in content.into_iter().flatten() {
            let at = lba / PAGE_SECTORS * PAGE_SECTORS;
            let end = (lba + count).next_multiple_of(PAGE_SECTORS).min(sectors);
            let mut piece = vec![0; ((end - at) * SECTOR_BYTES) as usize];
            self.store.read(at, &mut piece)?;
            recorder.begins_with(at, &piece);
        }
        self.recorder = Some(recorder);
        Ok(())
    }

    pub(super) fn record_submitted(&mut self, number: u64, request: &Request, data: &[u8]) {
        let at = self.clock.since_start(self.clock.now()).0;
        let Some(recorder) = &mut self.recorder else { return };
        let what = match request.op {
            Op::Read if recorder.requests_only => (Recorded::Read, false),
            // Drives with zones are not recorded.
            Op::Read | Op::HandleUpdate | Op::Append { .. } | Op::Zone(_) => return,
            Op::Write { fua } => (Recorded::Write, fua),
            Op::Flush => (Recorded::Flush, false),
            Op::Trim { fua } => (Recorded::Discard, fua),
            Op::WriteZeroes { fua, .. } => (Recorded::WriteZeroes, fua),
        };
        recorder.submitted(at, number, what, (request.lba, request.sectors.into()), data);
    }

    /// Records that these sectors are erased permanently.
    pub(super) fn record_erased(&mut self, sectors: &Range<u64>) {
        let at = self.clock.since_start(self.clock.now()).0;
        if let Some(recorder) = &mut self.recorder {
            let place = (sectors.start, sectors.end - sectors.start);
            recorder.submitted(at, ERASE, (Recorded::Discard, true), place, &[]);
            recorder.completed(at, ERASE, true);
        }
    }

    /// Adds a workload's note to the recording.
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
