//! What an engine does otherwise where the drive has zones.
//!
//! The model decides when a command arrives whether its zone takes it, and where an append goes: so the data changes behind
//! that, and no command waits in a backlog, where its place among the others would be open. What a reset empties and what
//! lies behind a write pointer after a power cut reads as zeros.

use std::io;
use std::ops::Range;

use drivebay_drive::{Io as ModelIo, Op as ModelOp, Zone, ZoneState};
use drivebay_units::Nanos;

use super::Engine;
use crate::drive::ControlError;
use crate::request::{Op, Request, Status};

impl Engine {
    /// Hands a command to the model, and changes the data if its zone takes it.
    pub(super) fn hand_over_to_zone(&mut self, at: Nanos, tag: u32, data: &[u8]) {
        let Request { op, lba, sectors, .. } = self.inflight[tag].request;
        let index = self.zone_of(lba);
        let written = self.device.zones().get(index).map_or(0, |zone| zone.written);
        let op = match op {
            // Zeros are written as data is: the write pointer moves over them.
            Op::WriteZeroes { .. } => ModelOp::Write,
            op => op.on_drive(),
        };
        if !self.submit_to_model(at, ModelIo::new(op, lba, sectors), tag) {
            return;
        }
        let command = &mut self.inflight[tag];
        let number = command.number;
        if op == ModelOp::Append {
            command.request.lba += written;
        }
        let request = command.request;
        let applied = match op {
            ModelOp::ZoneReset => {
                let emptied = self.empty(number, lba..lba + written);
                emptied.map(|()| None).map_err(|_| Status::Internal)
            }
            op if op.is_zone_management() => return,
            _ => self.apply(number, &request, data),
        };
        match applied {
            Ok(sync) => self.inflight[tag].sync = sync,
            Err(status) => self.inflight[tag].status = status,
        }
    }

    /// Resets the zones of these sectors, which are whole ones; returns when the drive is done.
    pub(super) fn reset_zones(&mut self, sectors: Range<u64>) -> Result<Nanos, ControlError> {
        let mut done = self.clock.now();
        for index in self.zone_of(sectors.start)..self.zone_of(sectors.end) {
            let (start, Zone { written, state, .. }) =
                (self.start_of(index), self.device.zones()[index]);
            if state == ZoneState::Empty {
                continue;
            }
            let at = self.device.now().max(self.clock.now());
            done = self.device.submit(at, ModelIo::new(ModelOp::ZoneReset, start, 1))?.done;
            self.empty(self.traffic.requests, start..start + written)?;
        }
        Ok(done)
    }

    /// The power was cut: what lies behind write pointers that have gone back is gone.
    pub(super) fn forget_behind_write_pointers(&mut self, before: &[Zone]) -> io::Result<()> {
        for (index, before) in before.iter().enumerate() {
            let start = self.start_of(index);
            let kept = self.device.zones()[index].written.min(before.written);
            self.empty(self.traffic.requests, start + kept..start + before.written)?;
        }
        Ok(())
    }

    /// These sectors of a zone hold nothing from now on, whatever the power does.
    fn empty(&mut self, number: u64, sectors: Range<u64>) -> io::Result<()> {
        let (lba, count) = (sectors.start, sectors.end - sectors.start);
        if count == 0 {
            return Ok(());
        }
        let now = self.clock.since_start(self.clock.now());
        self.faults.heal(now, lba, count);
        self.store.discard(number, lba, count)
    }

    /// A write that is durable, with what lies before it in its zone: the write pointer lies behind both.
    pub(super) fn with_what_lies_before(&self, request: Request) -> Request {
        match &self.device.spec().zones {
            Some(zones) if request.op == (Op::Write { fua: true }) => {
                let before = request.lba % zones.sectors;
                let (lba, sectors) = (request.lba - before, request.sectors + before as u32);
                Request { lba, sectors, ..request }
            }
            _ => request,
        }
    }

    fn zone_of(&self, lba: u64) -> usize {
        let zones = self.device.spec().zones.as_ref();
        zones.map_or(0, |zones| (lba / zones.sectors) as usize)
    }

    fn start_of(&self, zone: usize) -> u64 {
        self.device.spec().zones.map_or(0, |zones| zone as u64 * zones.sectors)
    }
}
