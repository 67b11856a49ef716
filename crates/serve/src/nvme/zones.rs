//! Namespaces with zones as hosts see them: addresses, Identify, Zone Management Send and Receive.
//!
//! Source: NVM Express Zoned Namespace command set specification 1.1. The model (`drivebay_drive`'s
//! `firmware/zones.rs`) has the zones and their state transitions. A host's addresses have a gap
//! between a zone's capacity and its size, the next power of two; the drive's addresses have no
//! gaps. Unwritten blocks, including gaps, read as zeros. Reads do not cross zones. Write Zeroes is
//! a write of zeros, Deallocate has no effect, Write Uncorrectable is not part of this command set.
//! Limits apply to the drive, even with several namespaces. The list of changed zones (BFh), and
//! its event, report zones that become read-only or go offline without a host. Left out: zone
//! descriptor extensions.

use std::collections::BTreeSet;

use drivebay_drive::{Op as ModelOp, Zone, ZoneProblem, ZoneSpec, ZoneState};
use drivebay_units::SECTOR_BYTES;
use drivebay_wire::nvme::{
    COMMAND_SET_ZONED, ChangedZones, IdentifyZonedNamespace, NvmOpcode, Sqe, Status,
    ZONE_SEQUENTIAL, ZoneAction, ZoneDescriptor, ZoneFormat, ZoneReport, bytes_of,
};
use zerocopy::IntoBytes;

use super::refuse::refuse_if;
use crate::namespace::{Namespace, ZONED_BLOCK_SHIFT};
use crate::request::{Op, Request};

/// Sectors of a block, as a power of two.
const BLOCK_SECTORS_LOG2: u8 = ZONED_BLOCK_SHIFT - SECTOR_BYTES.ilog2() as u8;
/// Zone Management Receive: a report without descriptor extensions.
const REPORT: u8 = 0;
/// Zone Management Receive, filter by state: all, or one of the other states.
const STATE_CODES: [u8; 8] = [0, 0x1, 0x2, 0x3, 0x4, 0xe, 0xd, 0xf];
/// Optional support: zone random write areas.
const OZCS_RANDOM_AREAS: u16 = 1 << 1;
/// Zone attribute: the zone has a random write area.
const ATTRIBUTE_RANDOM_AREA: u8 = 1 << 3;
/// States of zones that the drive changes on its own: read-only, offline.
const FAILED: [u8; 2] = [0xd, 0xf];
/// Offsets of the command fields that an error can refer to.
const DWORD_10: u16 = 40;
const DWORD_12: u16 = 48;
const DWORD_13: u16 = 52;

/// Blocks from the start of a zone to the start of the next.
fn zone_blocks(zones: &ZoneSpec) -> u64 {
    zones.size_sectors >> BLOCK_SECTORS_LOG2
}

/// Blocks of a namespace, with or without zones, as its host counts them: including gaps.
pub(super) fn blocks_of(namespace: &Namespace) -> u64 {
    match &namespace.zones {
        Some(zones) => namespace.sectors() / zones.sectors * zone_blocks(zones),
        None => namespace.sectors() >> namespace.block_sectors_log2(),
    }
}

/// Sectors of a new namespace with `blocks`, of which `capacity` can be written.
pub(super) fn sectors_of(zones: &ZoneSpec, blocks: u64, capacity: u64) -> Result<u64, Status> {
    // A number beyond the maximum is larger than the drive in any case.
    let sectors = (blocks / zone_blocks(zones)).min(u64::MAX / zones.sectors) * zones.sectors;
    let can_be_written = sectors >> BLOCK_SECTORS_LOG2;
    match capacity {
        _ if !blocks.is_multiple_of(zone_blocks(zones)) => Err(Status::INVALID_FIELD.dnr()),
        capacity if capacity < can_be_written => Err(Status::THIN_PROVISIONING_NOT_SUPPORTED.dnr()),
        _ => Ok(sectors),
    }
}

/// Position of a host's blocks on the drive.
pub(super) struct Place {
    /// First sector; beyond the capacity, the zone's last block.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Number of further sectors in the gap.
    pub gap: u32,
}

/// Translates existing blocks of a namespace to their position on the drive.
pub(super) fn place(
    namespace: &Namespace,
    zones: &ZoneSpec,
    lba: u64,
    blocks: u32,
) -> Result<Place, Status> {
    let (zone, at) = (lba / zone_blocks(zones), lba % zone_blocks(zones));
    refuse_if(at + u64::from(blocks) > zone_blocks(zones), Status::ZONE_BOUNDARY_ERROR)?;
    let (at, wanted) = (at << BLOCK_SECTORS_LOG2, blocks << BLOCK_SECTORS_LOG2);
    let sectors = u64::from(wanted).min(zones.sectors.saturating_sub(at)) as u32;
    let at = at.min(zones.sectors - (1 << BLOCK_SECTORS_LOG2));
    let lba = namespace.first + zone * zones.sectors + at;
    Ok(Place { lba, sectors, gap: wanted - sectors })
}

/// Identify Namespace of the zoned command set.
pub(super) fn identify(zones: &ZoneSpec) -> Vec<u8> {
    let mut id = IdentifyZonedNamespace {
        mar: (zones.active - 1).into(),
        mor: (zones.open - 1).into(),
        ..IdentifyZonedNamespace::default()
    };
    if let Some(area) = &zones.zrwa {
        let blocks = |sectors: u64| (sectors >> BLOCK_SECTORS_LOG2) as u16;
        // Random write areas support explicit flush.
        (id.ozcs, id.zrwacap) = (OZCS_RANDOM_AREAS.into(), 1);
        id.numzrwa = (area.zones - 1).into();
        id.zrwafg = blocks(area.granularity).into();
        id.zrwasz = blocks(area.sectors).into();
    }
    id.lbafe[0] = ZoneFormat { zone_blocks: zone_blocks(zones).into(), ..ZoneFormat::default() };
    bytes_of(&id)
}

/// True if this command set includes the command.
pub(super) fn has_command(opcode: NvmOpcode, is_zoned: bool) -> bool {
    use NvmOpcode as N;
    match opcode {
        N::ZoneManagementSend | N::ZoneManagementReceive | N::ZoneAppend => is_zoned,
        N::WriteUncorrectable => !is_zoned,
        _ => true,
    }
}

/// Zone Management Receive: report of a namespace's zones from an address on.
pub(super) fn report(
    sqe: &Sqe,
    all: &[Zone],
    namespace: &Namespace,
    zones: &ZoneSpec,
) -> Result<Vec<u8>, Status> {
    let action = sqe.cdw13.get() as u8;
    let state = STATE_CODES.get(usize::from(sqe.zone_filter()));
    let (bytes, head) = (sqe.report_bytes() as usize, size_of::<ZoneReport>());
    refuse_if(sqe.lba() >= blocks_of(namespace), Status::LBA_OUT_OF_RANGE)?;
    let state = *state.filter(|_| action == REPORT).ok_or(Status::INVALID_FIELD.dnr())?;
    refuse_if(bytes < head, Status::INVALID_FIELD)?;
    let room = (bytes - head) / size_of::<ZoneDescriptor>();
    let own =
        own(all, namespace, zones).enumerate().skip((sqe.lba() / zone_blocks(zones)) as usize);
    let mut matching = own.filter(|(_, zone)| state == 0 || zone.state as u8 == state);
    let mut page = vec![0; head];
    let mut count = 0;
    for (index, zone) in matching.by_ref().take(room) {
        page.extend_from_slice(descriptor(index as u64, zone, zones).as_bytes());
        count += 1;
    }
    if !sqe.is_partial_report() {
        count += matching.count() as u64;
    }
    page[..head]
        .copy_from_slice(ZoneReport { zones: count.into(), ..Default::default() }.as_bytes());
    page.resize(bytes, 0);
    Ok(page)
}

fn descriptor(index: u64, zone: &Zone, zones: &ZoneSpec) -> ZoneDescriptor {
    let start = index * zone_blocks(zones);
    let is_writable =
        zone.state.is_open() || matches!(zone.state, ZoneState::Empty | ZoneState::Closed);
    let pointer = start + (zone.written >> BLOCK_SECTORS_LOG2);
    ZoneDescriptor {
        kind: ZONE_SEQUENTIAL,
        state: (zone.state as u8) << 4,
        attributes: [ATTRIBUTE_RANDOM_AREA * u8::from(zone.zrwa), 0],
        capacity: (zones.sectors >> BLOCK_SECTORS_LOG2).into(),
        start: start.into(),
        write_pointer: if is_writable { pointer } else { u64::MAX }.into(),
        ..ZoneDescriptor::default()
    }
}

/// Zones of a namespace.
fn own<'a>(
    all: &'a [Zone],
    namespace: &Namespace,
    zones: &ZoneSpec,
) -> impl Iterator<Item = &'a Zone> {
    let first = (namespace.first / zones.sectors) as usize;
    all.iter().skip(first).take((namespace.sectors() / zones.sectors) as usize)
}

/// True if a zone of the drive belongs to the namespace.
pub(super) fn is_of(zone: usize, namespace: &Namespace) -> bool {
    let spec = namespace.zones.as_ref();
    spec.is_some_and(|spec| namespace.range().contains(&(zone as u64 * spec.sectors)))
}

/// Changed Zone List of a namespace: empty, with the count FFFFh, if not all zones fit.
pub(super) fn changed(changed: &BTreeSet<usize>, namespace: &Namespace) -> Vec<u8> {
    let mut log = ChangedZones::default();
    let Some(spec) = &namespace.zones else { return bytes_of(&log) };
    let first = (namespace.first / spec.sectors) as usize;
    let own: Vec<_> = changed.iter().filter(|&&zone| is_of(zone, namespace)).collect();
    if own.len() > log.starts.len() {
        return bytes_of(&ChangedZones { count: u16::MAX.into(), ..log });
    }
    for (place, zone) in log.starts.iter_mut().zip(&own) {
        *place = ((*zone - first) as u64 * zone_blocks(spec)).into();
    }
    log.count = (own.len() as u16).into();
    bytes_of(&log)
}

/// Zones that the drive has made read-only or taken offline.
pub(super) fn failed(all: &[Zone]) -> impl Iterator<Item = usize> {
    let is_failed = |zone: &Zone| FAILED.contains(&(zone.state as u8));
    (0..).zip(all).filter(move |(_, zone)| is_failed(zone)).map(|(index, _)| index)
}

/// True if the action is unknown, or needs a random write area where there is none, or where not a
/// single zone is addressed.
fn cannot_be(sqe: &Sqe, zones: &ZoneSpec) -> bool {
    let is_about_area = match sqe.zone_action() {
        None => return true,
        Some(ZoneAction::Open) => sqe.wants_random_area(),
        Some(action) => action == ZoneAction::FlushArea,
    };
    is_about_area && (zones.zrwa.is_none() || sqe.is_for_all_zones())
}

/// Zone Management Send: requests to the drive, for each zone that the command applies to.
pub(super) fn manage(
    sqe: &Sqe,
    all: &[Zone],
    namespace: &Namespace,
    zones: &ZoneSpec,
) -> Result<Vec<Request>, Status> {
    use ZoneState::{Closed, ExplicitlyOpen, Full, ImplicitlyOpen, ReadOnly};
    let action = sqe.zone_action().ok_or(Status::INVALID_FIELD.dnr())?;
    let with_area = action == ZoneAction::Open && sqe.wants_random_area();
    refuse_if(cannot_be(sqe, zones), Status::INVALID_FIELD)?;
    // With "select all", only zones in these states.
    let (op, states) = match action {
        ZoneAction::Close => (ModelOp::ZoneClose, &[ImplicitlyOpen, ExplicitlyOpen][..]),
        ZoneAction::Finish => (ModelOp::ZoneFinish, &[ImplicitlyOpen, ExplicitlyOpen, Closed][..]),
        ZoneAction::Open if with_area => (ModelOp::ZoneOpenZrwa, &[][..]),
        ZoneAction::Open => (ModelOp::ZoneOpen, &[Closed][..]),
        ZoneAction::Reset => {
            (ModelOp::ZoneReset, &[ImplicitlyOpen, ExplicitlyOpen, Closed, Full][..])
        }
        ZoneAction::Offline => (ModelOp::ZoneOffline, &[ReadOnly][..]),
        ZoneAction::FlushArea => (ModelOp::ZrwaFlush, &[][..]),
    };
    let capacity = zones.sectors as u32;
    let request = |lba| Request::new(Op::Zone(op), lba, capacity, 0);
    if !sqe.is_for_all_zones() {
        refuse_if(sqe.lba() >= blocks_of(namespace), Status::LBA_OUT_OF_RANGE)?;
        let Place { lba, gap, .. } = place(namespace, zones, sqe.lba(), 1)?;
        let is_right = match action {
            // Flushes up to a writable block.
            ZoneAction::FlushArea => gap == 0,
            _ => sqe.lba().is_multiple_of(zone_blocks(zones)),
        };
        let request = is_right.then(|| vec![request(lba)]);
        return request.ok_or(Status::INVALID_FIELD.dnr());
    }
    let about =
        own(all, namespace, zones).zip(0..).filter(|(zone, _)| states.contains(&zone.state));
    let requests: Vec<Request> =
        about.map(|(_, index)| request(namespace.first + index * zones.sectors)).collect();
    // All zones are opened, or none.
    let opened = all.iter().filter(|zone| zone.state == ExplicitlyOpen).count();
    let is_too_many = requests.len() + opened > zones.open as usize;
    refuse_if(action == ZoneAction::Open && is_too_many, Status::TOO_MANY_OPEN_ZONES)?;
    Ok(requests)
}

/// Status that reports a zone's refusal to a host.
pub(super) fn status_of(problem: ZoneProblem) -> Status {
    use ZoneProblem as P;
    match problem {
        P::Boundary => Status::ZONE_BOUNDARY_ERROR,
        P::Full => Status::ZONE_IS_FULL,
        P::ReadOnly => Status::ZONE_IS_READ_ONLY,
        P::Offline => Status::ZONE_IS_OFFLINE,
        P::Operation => Status::INVALID_ZONE_OPERATION,
        P::NoZrwa => Status::ZRWA_RESOURCES_UNAVAILABLE,
        P::InvalidWrite => Status::ZONE_INVALID_WRITE,
        P::TooManyActive => Status::TOO_MANY_ACTIVE_ZONES,
        P::TooManyOpen => Status::TOO_MANY_OPEN_ZONES,
        P::Transition => Status::INVALID_ZONE_STATE_TRANSITION,
        P::NotItsStart | P::Unaligned | P::NotZoned | P::NoZones | P::FlushRange => {
            Status::INVALID_FIELD
        }
    }
    .dnr()
}

/// Byte of a zone command of an I/O queue that caused the error, if there is one.
pub(super) fn error_location(sqe: &Sqe, status: Status, zones: &ZoneSpec) -> Option<u16> {
    use NvmOpcode as N;
    match (NvmOpcode::from_code(sqe.opcode)?, status) {
        (_, Status::ZONE_INVALID_WRITE | Status::ZONE_BOUNDARY_ERROR) => Some(DWORD_10),
        (N::ZoneAppend, Status::INVALID_FIELD) if !sqe.lba().is_multiple_of(zone_blocks(zones)) => {
            Some(DWORD_10)
        }
        (N::ZoneManagementSend, Status::INVALID_ZONE_STATE_TRANSITION) => Some(DWORD_13),
        (N::ZoneManagementSend, Status::INVALID_FIELD) => {
            Some(if cannot_be(sqe, zones) { DWORD_13 } else { DWORD_10 })
        }
        (N::ZoneManagementReceive, Status::INVALID_FIELD) => Some(match sqe.cdw13.get() as u8 {
            REPORT if usize::from(sqe.zone_filter()) >= STATE_CODES.len() => DWORD_13 + 1,
            REPORT => DWORD_12,
            _ => DWORD_13,
        }),
        _ => None,
    }
}

/// Command set of a drive's namespaces.
pub(super) fn command_set(zones: Option<&ZoneSpec>) -> u8 {
    zones.map_or(drivebay_wire::nvme::COMMAND_SET_NVM, |_| COMMAND_SET_ZONED)
}

#[cfg(test)]
#[path = "../../tests/unit/nvme_zones.rs"]
mod tests;
