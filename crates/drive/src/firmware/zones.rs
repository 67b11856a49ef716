//! Zones as the host sees them: the state and write pointer of each, and how many may be open or
//! active.
//!
//! Source: NVMe Zoned Namespace command set specification 1.1, zone state machine, zone resources,
//! zone append. A command is checked, and changes states and write pointers, when the controller
//! takes it; data follows in the same order. An active zone has a write stream (`superblock.rs`) of
//! its own. Addresses are without the gaps between a zone's capacity and its size. A zone random
//! write area (ZRWA) is the blocks behind the write pointer, and as many again behind these, a
//! write to which moves the pointer: what it passes goes to flash. The zone that is opened with one
//! keeps it until it is full, reset or finished. The flash says when zones go offline or become
//! read-only (`page_mapped/zones.rs`). Left out: active-zone limits of several namespaces, zone
//! descriptor extensions.

use std::ops::Range;

use crate::io::{DeviceError, Io, Op, ZoneProblem};
use crate::persist::{StateError, ensure, persist, persist_words};
use crate::profile::{ZoneSpec, ZrwaSpec};

/// Sectors in a block of 4 KiB, of which writes are made.
const BLOCK_SECTORS: u64 = 8;

/// No write stream: the zone is not active.
pub const NO_STREAM: u8 = u8::MAX;

/// A zone's state, with its code in a zone descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Nothing is written.
    Empty = 0x1,
    /// Opened by a write.
    ImplicitlyOpen = 0x2,
    /// Opened by an Open Zone command.
    ExplicitlyOpen = 0x3,
    /// Active, and not open.
    Closed = 0x4,
    /// It can only be read.
    ReadOnly = 0xD,
    /// It takes no more.
    Full = 0xE,
    /// It cannot be used any more.
    Offline = 0xF,
}

persist_words!(ZoneState: Empty, ImplicitlyOpen, ExplicitlyOpen, Closed, ReadOnly, Full, Offline);

impl ZoneState {
    /// As results name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ZoneState::Empty => "empty",
            ZoneState::ImplicitlyOpen => "implicitly open",
            ZoneState::ExplicitlyOpen => "explicitly open",
            ZoneState::Closed => "closed",
            ZoneState::ReadOnly => "read-only",
            ZoneState::Full => "full",
            ZoneState::Offline => "offline",
        }
    }

    /// True for the open states.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen)
    }
}

/// A zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its state.
    pub state: ZoneState,
    /// Sectors that the host has written: the write pointer, from the zone's beginning, unless the
    /// zone is full.
    pub written: u64,
    /// It has a random write area.
    pub zrwa: bool,
    /// Sectors up to the end of the data in its random write area.
    reached: u64,
    /// Write stream of an active zone, and of one that is being finished.
    stream: u8,
}

persist!(Zone: state, written, zrwa, reached, stream);

const EMPTY: Zone =
    Zone { state: ZoneState::Empty, written: 0, zrwa: false, reached: 0, stream: NO_STREAM };

/// All zones.
pub struct Zones {
    spec: ZoneSpec,
    zones: Vec<Zone>,
    /// By write stream: the zone that has it, plus one; 0 for none.
    of_stream: Vec<u32>,
}

persist!(Zones: zones, of_stream; given: spec);

impl Zones {
    /// All empty.
    pub fn new(spec: ZoneSpec) -> Zones {
        let zones = vec![EMPTY; spec.count as usize];
        Zones { spec, zones, of_stream: vec![0; spec.active as usize] }
    }

    /// Properties of the zones.
    pub fn spec(&self) -> &ZoneSpec {
        &self.spec
    }

    /// All of them.
    pub fn all(&self) -> &[Zone] {
        &self.zones
    }

    /// Forgets everything after an erase; zones that are offline stay so.
    pub fn forget_all(&mut self) {
        self.of_stream.fill(0);
        let usable = self.zones.iter_mut().filter(|zone| zone.state != ZoneState::Offline);
        usable.for_each(|zone| *zone = EMPTY);
    }

    /// Takes a command, which lies on the drive: its write stream in place of a placement handle;
    /// of an append the address; of a reset or finish how many sectors of the zone are written,
    /// those in its random write area among them.
    ///
    /// # Errors
    /// [`DeviceError::Zone`]; nothing has changed then.
    pub fn admit(&mut self, io: Io) -> Result<Io, DeviceError> {
        use ZoneState::{Closed, Full, Offline, ReadOnly};
        let (index, offset) = ((io.lba / self.spec.sectors) as usize, io.lba % self.spec.sectors);
        let zone = self.zones[index.min(self.zones.len() - 1)];
        let Zone { state, written, stream, .. } = zone;
        let refused = |problem| DeviceError::Zone { op: io.op, zone: index as u32, problem };
        let begins = io.op == Op::Append || io.op.is_zone_management();
        if begins && offset != 0 && io.op != Op::ZrwaFlush {
            return Err(refused(ZoneProblem::NotItsStart));
        }
        let mut taken = Io { handle: stream, ..io };
        match io.op {
            Op::Flush => return Ok(io),
            Op::Read => return self.check_read(io, index).map(|()| io).map_err(refused),
            Op::Trim | Op::WriteZeroes | Op::HandleUpdate => {
                return Err(refused(ZoneProblem::NotZoned));
            }
            Op::ZoneOffline if matches!(state, ReadOnly | Offline) => self.fail(index, Offline),
            Op::ZoneOffline => return Err(refused(ZoneProblem::Transition)),
            _ if matches!(state, ReadOnly | Offline) && io.op.is_zone_management() => {
                return Err(refused(ZoneProblem::Transition));
            }
            _ if state == ReadOnly => return Err(refused(ZoneProblem::ReadOnly)),
            _ if state == Offline => return Err(refused(ZoneProblem::Offline)),
            Op::Write | Op::WriteFua | Op::Append | Op::ZrwaWrite if zone.zrwa => {
                let end = self.check_zrwa_write(io, index).map_err(refused)?;
                taken.handle = self.open(index, false).map_err(refused)?;
                self.move_pointer(index, self.zrwa().pointer(end), end);
                return Ok(Io { op: Op::ZrwaWrite, ..taken });
            }
            Op::Write | Op::WriteFua | Op::Append | Op::ZrwaWrite => {
                taken.lba = if begins { io.lba + written } else { io.lba };
                self.check_write(taken, index).map_err(refused)?;
                taken.handle = self.open(index, false).map_err(refused)?;
                self.move_pointer(index, written + u64::from(io.sectors), 0);
                return Ok(taken);
            }
            Op::ZrwaFlush => {
                let to = self.check_zrwa_flush(offset, index).map_err(refused)?;
                taken.handle = self.open(index, false).map_err(refused)?;
                self.move_pointer(index, to, to);
                return Ok(taken);
            }
            Op::ZoneOpenZrwa => {
                self.check_zrwa_open(index).map_err(refused)?;
                self.open(index, true).map_err(refused)?;
                self.zones[index].zrwa = true;
            }
            Op::ZoneOpen if state == Full => return Err(refused(ZoneProblem::Transition)),
            Op::ZoneOpen => _ = self.open(index, true).map_err(refused)?,
            Op::ZoneClose if state.is_open() => self.zones[index].state = Closed,
            Op::ZoneClose if state == Closed => {}
            Op::ZoneClose => return Err(refused(ZoneProblem::Transition)),
            Op::ZoneFinish => {
                // Nothing is left to do for a full one, or another finish does it.
                taken.handle = if state == Full { NO_STREAM } else { stream };
                let written = written.max(zone.reached);
                self.zones[index] = Zone { state: Full, zrwa: false, written, ..zone };
            }
            Op::ZoneReset => {
                self.release(index);
                self.zones[index] = EMPTY;
            }
        }
        taken.sectors = written.max(zone.reached) as u32;
        Ok(taken)
    }

    /// The random write areas, where a zone has one.
    fn zrwa(&self) -> &ZrwaSpec {
        self.spec.zrwa.as_ref().expect("a zone has one")
    }

    /// The write pointer moves up to `pointer`; up to `reached` there is data.
    fn move_pointer(&mut self, index: usize, pointer: u64, reached: u64) {
        let zone = &mut self.zones[index];
        zone.written = zone.written.max(pointer);
        zone.reached = zone.reached.max(reached);
        if zone.written == self.spec.sectors {
            (zone.state, zone.zrwa) = (ZoneState::Full, false);
            self.release(index);
        }
    }

    /// None of the zones that are read is offline.
    fn check_read(&self, io: Io, first: usize) -> Result<(), ZoneProblem> {
        let last = ((io.lba + u64::from(io.sectors) - 1) / self.spec.sectors) as usize;
        let offline = |zone: &Zone| zone.state == ZoneState::Offline;
        if self.zones[first..=last].iter().any(offline) {
            return Err(ZoneProblem::Offline);
        }
        Ok(())
    }

    /// End of a write that is within reach of the zone's random write area.
    fn check_zrwa_write(&self, io: Io, index: usize) -> Result<u64, ZoneProblem> {
        let (begin, sectors) = (io.lba % self.spec.sectors, u64::from(io.sectors));
        let (end, written) = (begin + sectors, self.zones[index].written);
        match () {
            () if io.op == Op::Append => Err(ZoneProblem::Operation),
            () if !(begin | sectors).is_multiple_of(BLOCK_SECTORS) => Err(ZoneProblem::Unaligned),
            () if end > self.spec.sectors => Err(ZoneProblem::Boundary),
            () if begin < written || end > written + 2 * self.zrwa().sectors => {
                Err(ZoneProblem::InvalidWrite)
            }
            () => Ok(end),
        }
    }

    /// Write pointer after a flush up to the block at `offset`.
    fn check_zrwa_flush(&self, offset: u64, index: usize) -> Result<u64, ZoneProblem> {
        let Zone { written, zrwa, .. } = self.zones[index];
        if !zrwa {
            return Err(ZoneProblem::Operation);
        }
        let (area, to) = (self.zrwa(), offset + BLOCK_SECTORS);
        let within = to > written && to <= written + area.sectors;
        let fits = within && (to - written).is_multiple_of(area.granularity);
        fits.then_some(to).ok_or(ZoneProblem::FlushRange)
    }

    /// Checks that a zone can be opened with a random write area.
    fn check_zrwa_open(&self, index: usize) -> Result<(), ZoneProblem> {
        let Some(area) = &self.spec.zrwa else { return Err(ZoneProblem::Operation) };
        let Zone { state, written, zrwa, .. } = self.zones[index];
        let taken = self.zones.iter().filter(|zone| zone.zrwa).count();
        match () {
            () if state == ZoneState::Full => Err(ZoneProblem::Transition),
            () if zrwa => Ok(()),
            () if !written.is_multiple_of(area.granularity) => Err(ZoneProblem::NoZrwa),
            () if taken >= area.zones as usize => Err(ZoneProblem::NoZrwa),
            () => Ok(()),
        }
    }

    /// A zone becomes read-only or goes offline; it is active no more.
    pub fn fail(&mut self, index: usize, state: ZoneState) {
        debug_assert!(matches!(state, ZoneState::ReadOnly | ZoneState::Offline));
        self.release(index);
        (self.zones[index].state, self.zones[index].zrwa) = (state, false);
    }

    /// The drive can only be read from now on, and so can its zones.
    pub fn fail_all(&mut self) {
        for index in 0..self.zones.len() {
            if self.zones[index].state != ZoneState::Offline {
                self.fail(index, ZoneState::ReadOnly);
            }
        }
    }

    /// There is flash for `zones` zones: what is more goes offline, of those that are empty the
    /// last ones first.
    pub fn shrink(&mut self, zones: usize) {
        let usable = self.zones.iter().filter(|zone| zone.state != ZoneState::Offline).count();
        let is_empty = |index: &usize| self.zones[*index].state == ZoneState::Empty;
        let empty = (0..self.zones.len()).rev().filter(is_empty);
        for index in empty.take(usable.saturating_sub(zones)).collect::<Vec<_>>() {
            self.fail(index, ZoneState::Offline);
        }
    }

    fn check_write(&self, io: Io, index: usize) -> Result<(), ZoneProblem> {
        let Zone { state, written, .. } = self.zones[index];
        let (at, sectors) = (io.lba % self.spec.sectors, u64::from(io.sectors));
        // An append's address after a full zone is the next one's.
        match () {
            () if state == ZoneState::Full => Err(ZoneProblem::Full),
            () if !(io.lba | sectors).is_multiple_of(BLOCK_SECTORS) => Err(ZoneProblem::Unaligned),
            () if at + sectors > self.spec.sectors => Err(ZoneProblem::Boundary),
            () if at != written => Err(ZoneProblem::InvalidWrite),
            () => Ok(()),
        }
    }

    /// Opens a zone that is not full; returns its write stream.
    fn open(&mut self, index: usize, explicitly: bool) -> Result<u8, ZoneProblem> {
        let Zone { state, stream, .. } = self.zones[index];
        if !state.is_open() {
            let free = self.of_stream.iter().position(|&zone| zone == 0);
            let stream = if stream == NO_STREAM { free } else { Some(stream.into()) };
            let stream = stream.ok_or(ZoneProblem::TooManyActive)?;
            let zones = &mut self.zones;
            let active = || self.of_stream.iter().filter_map(|&zone| zone.checked_sub(1));
            let open = active().filter(|&zone| zones[zone as usize].state.is_open()).count();
            if open >= self.spec.open as usize {
                let implicit =
                    |&zone: &u32| zones[zone as usize].state == ZoneState::ImplicitlyOpen;
                let closes = active().filter(implicit).min().ok_or(ZoneProblem::TooManyOpen)?;
                zones[closes as usize].state = ZoneState::Closed;
            }
            self.of_stream[stream] = index as u32 + 1;
            zones[index].stream = stream as u8;
        }
        let zone = &mut self.zones[index];
        zone.state = match zone.state {
            _ if explicitly => ZoneState::ExplicitlyOpen,
            ZoneState::ExplicitlyOpen => ZoneState::ExplicitlyOpen,
            _ => ZoneState::ImplicitlyOpen,
        };
        Ok(zone.stream)
    }

    /// A zone's write stream is free for another.
    fn release(&mut self, index: usize) {
        let stream = std::mem::replace(&mut self.zones[index].stream, NO_STREAM);
        if let Some(zone) = self.of_stream.get_mut(usize::from(stream)) {
            *zone = 0;
        }
    }

    /// A finish has been carried out.
    pub fn finished(&mut self, io: Io) {
        let index = (io.lba / self.spec.sectors) as usize;
        if io.handle == self.zones[index].stream {
            self.release(index);
        }
    }

    /// After a power cut: write pointers go back to the first of the last `recent` pages that is
    /// lost, open zones are closed, or empty where nothing is written. A zone whose end is lost is
    /// no longer full, if another may be active. Returns the pages behind write pointers that hold
    /// nothing from now on.
    pub fn recover(&mut self, recent: u64, is_mapped: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
        let mut lost = Vec::new();
        for index in 0..self.zones.len() {
            let zone = &mut self.zones[index];
            let begin = index as u64 * u64::from(self.spec.pages);
            let end = begin + zone.written / BLOCK_SECTORS;
            let was_written_whole = zone.written == self.spec.sectors;
            // Any of a random write area's blocks may be the first that was under way.
            let recent = if zone.reached > 0 { u64::MAX } else { recent };
            let hole = (begin.max(end.saturating_sub(recent))..end).find(|&page| !is_mapped(page));
            if let Some(hole) = hole {
                lost.push(hole..end);
                zone.written = (hole - begin) * BLOCK_SECTORS;
            }
            match zone.state {
                ZoneState::Full => {
                    self.release(index);
                    if hole.is_some() && was_written_whole {
                        self.reopen(index);
                    }
                }
                ZoneState::ReadOnly | ZoneState::Offline => {}
                _ if zone.written.max(zone.reached) == 0 => {
                    self.release(index);
                    self.zones[index] = EMPTY;
                }
                _ => zone.state = ZoneState::Closed,
            }
        }
        lost
    }

    /// A full zone is closed in place of that, or empty.
    fn reopen(&mut self, index: usize) {
        let free = self.of_stream.iter().position(|&zone| zone == 0);
        self.zones[index].reached = 0;
        if self.zones[index].written == 0 {
            self.zones[index] = EMPTY;
        } else if let Some(stream) = free {
            self.of_stream[stream] = index as u32 + 1;
            (self.zones[index].state, self.zones[index].stream) = (ZoneState::Closed, stream as u8);
        }
    }

    /// Checks that states, write pointers and streams go together.
    pub fn check(&self) -> Result<(), StateError> {
        for (index, zone) in (1u32..).zip(&self.zones) {
            let holds = zone.written.max(zone.reached);
            let written = holds <= self.spec.sectors
                && (zone.written | zone.reached).is_multiple_of(BLOCK_SECTORS)
                && (zone.state != ZoneState::Empty || holds == 0)
                && (!zone.zrwa || self.spec.zrwa.is_some());
            ensure(written, "a zone's write pointer")?;
            let has = self.of_stream.get(usize::from(zone.stream)) == Some(&index);
            let needs = zone.state.is_open() || zone.state == ZoneState::Closed;
            let is_idle = zone.stream == NO_STREAM;
            let fits = if needs { has } else { is_idle || has && zone.state == ZoneState::Full };
            ensure(fits, "a zone's write stream")?;
        }
        let has = |(stream, &zone): (usize, &u32)| {
            let of = zone.checked_sub(1).and_then(|zone| self.zones.get(zone as usize));
            zone == 0 || of.is_some_and(|zone| usize::from(zone.stream) == stream)
        };
        ensure(self.of_stream.iter().enumerate().all(has), "a write stream's zone")
    }
}
