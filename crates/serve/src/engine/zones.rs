//! Behaviour of the engine that is specific to drives with zones.
//!
//! The model decides when a command arrives if its zone accepts it, and to which address an append
//! goes. So the data changes after this decision, and no command waits in a backlog, where its
//! order among the others would be undefined. The sectors of a reset zone, and those beyond a write
//! pointer after a power cut, read as zeros.

use std::io;
use std::ops::Range;

use drivebay_drive::{Io as ModelIo, Op as ModelOp, Zone, ZoneState};
use drivebay_units::Nanos;

use super::Engine;
use crate::interface::drive::ControlError;
use crate::request::{Op, Request, Status};

impl Engine {
    /// Submits a command to the model, and changes the data if its zone accepts the command.
    pub(super) fn hand_over_to_zone(&mut self, at: Nanos, tag: u32, data: &[u8]) {
        let Request { op, lba, sectors, .. } = self.inflight[tag].request;
        let index = self.zone_index(lba);
        let zone = self.device.zones().get(index);
        let (written, held) = zone.map_or((0, 0), |zone| (zone.written, self.held(zone)));
        let op = match op {
            // Zeros are written like data: the write pointer moves over them.
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
                let emptied = self.empty(number, lba..lba + held);
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

    /// Resets the zones of these sectors, which are whole zones; returns the time at which the
    /// drive is done.
    pub(super) fn reset_zones(&mut self, sectors: Range<u64>) -> Result<Nanos, ControlError> {
        let mut done = self.clock.now();
        for index in self.zone_index(sectors.start)..self.zone_index(sectors.end) {
            let (start, zone) = (self.start_of(index), self.device.zones()[index]);
            if matches!(zone.state, ZoneState::Empty | ZoneState::ReadOnly | ZoneState::Offline) {
                continue;
            }
            let at = self.device.now().max(self.clock.now());
            done = self.device.submit(at, ModelIo::new(ModelOp::ZoneReset, start, 1))?.done;
            self.empty(self.traffic.requests, start..start + self.held(&zone))?;
        }
        Ok(done)
    }

    /// Erases the data beyond write pointers that went back in a power cut.
    pub(super) fn forget_behind_write_pointers(&mut self, before: &[Zone]) -> io::Result<()> {
        for (index, before) in before.iter().enumerate() {
            let start = self.start_of(index);
            let held = self.held(before);
            let kept = self.held(&self.device.zones()[index]).min(held);
            self.empty(self.traffic.requests, start + kept..start + held)?;
        }
        Ok(())
    }

    /// Discards the content of these sectors of a zone, even across a power cut.
    fn empty(&mut self, number: u64, sectors: Range<u64>) -> io::Result<()> {
        let (lba, count) = (sectors.start, sectors.end - sectors.start);
        if count == 0 {
            return Ok(());
        }
        let now = self.clock.since_start(self.clock.now());
        self.faults.heal(now, lba, count);
        self.store.discard(number, lba, count)
    }

    /// Extends a durable write to the start of its zone: the write pointer is behind all of this
    /// data.
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

    /// Injects a fault: the zone becomes read-only, or goes offline and loses its data.
    pub fn fail_zone(&mut self, index: usize, state: ZoneState) {
        self.device.fail_zone(index, state);
    }

    /// End of the part of a zone that may hold data: its write pointer, or the end of its random
    /// write area.
    fn held(&self, zone: &Zone) -> u64 {
        let spec = self.device.spec().zones.filter(|_| zone.zrwa);
        let area = spec.and_then(|spec| Some((spec.zrwa?.sectors, spec.sectors)));
        area.map_or(zone.written, |(area, capacity)| (zone.written + area).min(capacity))
    }

    fn zone_index(&self, lba: u64) -> usize {
        let zones = self.device.spec().zones.as_ref();
        zones.map_or(0, |zones| (lba / zones.sectors) as usize)
    }

    fn start_of(&self, zone: usize) -> u64 {
        self.device.spec().zones.map_or(0, |zones| zone as u64 * zones.sectors)
    }
}
