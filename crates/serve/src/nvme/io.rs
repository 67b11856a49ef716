//! NVM command set: translates a command to requests to the drive, and their completions to one
//! completion of the command.
//!
//! Source: NVM Express NVM command set specification 2.0. Compare is a read whose data is compared
//! at its end, Verify a read whose data is dropped, Copy consists of reads and then a write; a
//! Dataset Management command becomes one request per range. The protection information fields of
//! commands are ignored, as on any namespace that is formatted without it: fio sets PRACT in all of
//! its own.

use std::sync::Arc;

use drivebay_units::{Nanos, SECTOR_BYTES};
use drivebay_wire::nvme::{
    CopyRange, DsmRange, MANAGE_HANDLES, NvmOpcode, PlacementEventKind, Sqe, Status,
};
use slotmap::{DefaultKey, Key, KeyData, SlotMap};
use zerocopy::FromBytes;

use super::controller::Flags;
use super::identity::{COPY_MAX, COPY_RANGE_MAX, COPY_RANGES, Kind, NSID_ALL};
use super::refuse::refuse_if;
use super::reservations::{Access, Reservations, is_reservation};
use super::{access, placement, zones};
use crate::interface::drive::{Drive, Namespaces};
use crate::namespace::{NAMESPACES_MAX, Namespace, SECTOR_SHIFT};
use crate::request::{self, Completion, Op, Request};

/// Most blocks that one request deallocates: for any block size the number of their sectors fits
/// into 32 bits.
const PART_BLOCKS: u32 = 1 << 29;

/// Data transfer of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// None.
    None,
    /// This number of bytes from the host.
    FromHost(u32),
    /// This number of bytes to the host.
    ToHost(u32),
}

/// Returns a command's opcode if the controller and the command's namespace support it.
fn supported(sqe: &Sqe, namespaces: &dyn Namespaces, flags: &Flags) -> Option<NvmOpcode> {
    use NvmOpcode as N;
    let opcode = NvmOpcode::from_code(sqe.opcode)?;
    let namespace = namespaces.namespace(sqe.nsid.get());
    let is_zoned = namespace.is_some_and(|namespace| namespace.zones.is_some());
    let is_supported = match opcode {
        N::Flush | N::DatasetManagement => true,
        N::IoManagementReceive | N::IoManagementSend => namespaces.placement().is_some(),
        _ if is_reservation(opcode) => flags.kind == Kind::Tcp,
        _ if is_zoned && !flags.has_all_command_sets() => false,
        // Without its namespace, a command for zones may be one of any namespace.
        _ if namespace.is_none() && zones::has_command(opcode, true) => zones::has_command(
            opcode,
            namespaces.table().iter().any(|(_, one)| one.zones.is_some()),
        ),
        _ => zones::has_command(opcode, is_zoned),
    };
    is_supported.then_some(opcode)
}

/// Data transfer of a command, according to its own fields and the block size of its namespace;
/// `None` if its opcode is not supported.
pub(super) fn transfer(sqe: &Sqe, namespaces: &dyn Namespaces, flags: &Flags) -> Option<Transfer> {
    let shift = namespaces
        .namespace(sqe.nsid.get())
        .map_or(SECTOR_SHIFT, |namespace| namespace.block_shift());
    // At most 65,536 blocks of 4 KiB.
    let data = sqe.blocks() << shift;
    Some(match supported(sqe, namespaces, flags)? {
        NvmOpcode::Read => Transfer::ToHost(data),
        NvmOpcode::Write | NvmOpcode::Compare | NvmOpcode::ZoneAppend => Transfer::FromHost(data),
        NvmOpcode::ZoneManagementReceive => Transfer::ToHost(sqe.report_bytes()),
        NvmOpcode::DatasetManagement => {
            Transfer::FromHost(((sqe.cdw10.get() & 0xff) + 1) * size_of::<DsmRange>() as u32)
        }
        NvmOpcode::Copy => {
            Transfer::FromHost(((sqe.cdw12.get() & 0xff) + 1) * size_of::<CopyRange>() as u32)
        }
        // Two keys, or one.
        NvmOpcode::ReservationRegister | NvmOpcode::ReservationAcquire => Transfer::FromHost(16),
        NvmOpcode::ReservationRelease => Transfer::FromHost(8),
        // Number of dwords minus one.
        NvmOpcode::ReservationReport => {
            Transfer::ToHost(sqe.cdw10.get().saturating_add(1).saturating_mul(4))
        }
        // Number of dwords minus one.
        NvmOpcode::IoManagementReceive => {
            Transfer::ToHost(sqe.cdw11.get().saturating_add(1).saturating_mul(4))
        }
        // Number of placement identifiers minus one.
        NvmOpcode::IoManagementSend if sqe.cdw10.get() as u8 == MANAGE_HANDLES => {
            Transfer::FromHost(((sqe.cdw10.get() >> 16) + 1) * 2)
        }
        _ => Transfer::None,
    })
}

/// Command that the drive has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// Number chosen by the transport.
    pub tag: u32,
    pub sqe: Sqe,
    /// First sector on the drive, and number of sectors.
    pub lba: u64,
    pub sectors: u32,
    /// Further sectors of a read that read as zeros: those of the gap beyond a zone's capacity.
    pub gap: u32,
    /// Result of the command, in addition to the status.
    pub result: u64,
    pub status: Status,
}

impl Finished {
    /// True if its blocks must be read from the store for the host.
    pub fn reads(&self) -> bool {
        self.sqe.opcode == NvmOpcode::Read as u8 && self.status == Status::SUCCESS
    }
}

/// Effect of a drive's completion on a transport.
pub(super) enum Progress {
    /// A command is finished.
    Finished(Finished),
    /// The drive has flushed: the controller may report that shutdown is complete.
    ShutDown,
    /// No effect yet, or the command is gone.
    None,
}

enum Inflight {
    Command(InflightCommand),
    ShutdownFlush,
}

struct InflightCommand {
    tag: u32,
    sqe: Sqe,
    /// First sector on the drive, and number of sectors.
    lba: u64,
    sectors: u32,
    gap: u32,
    /// Requests that have not completed.
    left: u32,
    status: Status,
    then: Then,
}

/// Next step after all requests of a command have completed.
enum Then {
    Nothing,
    /// Compare: the data must equal this.
    Compare(Box<[u8]>),
    /// Copy: the reads of these ranges have completed, and their data must be written one after the
    /// other.
    Write {
        from: Vec<(u64, u32)>,
        fua: bool,
        handle: u8,
    },
}

/// Commands in flight. A request's token is the key of its command.
#[derive(Default)]
pub(super) struct InflightCommands {
    commands: SlotMap<DefaultKey, Inflight>,
}

impl InflightCommands {
    /// Drops all commands; their completions are ignored.
    pub fn clear(&mut self) {
        self.commands.clear();
    }

    /// Submits the flush that precedes a shutdown.
    pub fn flush_for_shutdown(&mut self, drive: &mut dyn Drive) {
        let key = self.commands.insert(Inflight::ShutdownFlush);
        drive.submit(Request::flush(key.data().as_ffi()), &[]);
    }

    /// Submits a command, with `data` from the host; returns data for the host, or its status, if
    /// it is finished at once.
    pub fn start(
        &mut self,
        drive: &mut dyn Drive,
        tag: u32,
        sqe: Sqe,
        data: &[u8],
        flags: &Flags,
    ) -> Option<Result<Vec<u8>, Status>> {
        let plan = match plan(&sqe, data, drive, flags) {
            Ok(plan) if plan.requests.is_empty() => return Some(Ok(plan.answer)),
            Ok(plan) => plan,
            Err(status) => return Some(Err(status)),
        };
        for (kind, handle, pid) in plan.events {
            flags.placement().note(kind, handle, (sqe.nsid.get(), pid), drive.now());
        }
        let Plan { requests, lba, sectors, gap, then, .. } = plan;
        let left = requests.len() as u32;
        let command =
            InflightCommand { tag, sqe, lba, sectors, gap, left, status: Status::SUCCESS, then };
        let token = self.commands.insert(Inflight::Command(command)).data().as_ffi();
        // A host may send more than the command needs.
        let bytes = sectors as usize * SECTOR_BYTES as usize;
        for request in requests {
            let is_write = matches!(request.op, Op::Write { .. } | Op::Append { .. });
            let data = if is_write { &data[..bytes] } else { &[] };
            drive.submit(Request { token, ..request }, data);
        }
        if sqe.opcode == NvmOpcode::WriteUncorrectable as u8
            && !drive.spoil(lba, sectors.into())
            && let Some(Inflight::Command(command)) =
                self.commands.get_mut(KeyData::from_ffi(token).into())
        {
            command.status = Status::INTERNAL_ERROR;
        }
        None
    }

    /// Removes a command, which its transport then completes as aborted; its changes of data
    /// remain. `None` if it is not in flight.
    pub fn abort(&mut self, tag: u32, cid: u16) -> Option<Sqe> {
        let key = self.commands.iter().find_map(|(key, command)| match command {
            Inflight::Command(command) if command.tag == tag && command.sqe.cid.get() == cid => {
                Some(key)
            }
            _ => None,
        })?;
        match self.commands.remove(key) {
            Some(Inflight::Command(command)) => Some(command.sqe),
            _ => None,
        }
    }

    /// Handles the completion of a request.
    pub fn complete(&mut self, drive: &mut dyn Drive, completion: Completion) -> Progress {
        let token = completion.request.token;
        let key = DefaultKey::from(KeyData::from_ffi(token));
        let command = match self.commands.get_mut(key) {
            None => return Progress::None,
            Some(Inflight::ShutdownFlush) => {
                self.commands.remove(key);
                return Progress::ShutDown;
            }
            Some(Inflight::Command(command)) => command,
        };
        if command.status == Status::SUCCESS {
            command.status = status_of(completion.status);
        }
        command.left -= 1;
        if command.left > 0 {
            return Progress::None;
        }
        if command.status == Status::SUCCESS {
            let InflightCommand { lba, sectors, .. } = *command;
            match std::mem::replace(&mut command.then, Then::Nothing) {
                Then::Nothing => {}
                Then::Compare(expected) => {
                    command.status = compare(drive, (lba, sectors), &expected);
                }
                Then::Write { from, fua, handle } => match gather(drive, &from) {
                    Ok(data) => {
                        command.left = 1;
                        let op = Op::Write { fua };
                        drive.submit(Request { op, lba, sectors, token, handle }, &data);
                        return Progress::None;
                    }
                    Err(status) => command.status = status,
                },
            }
        }
        let InflightCommand { tag, sqe, lba, sectors, gap, status, .. } = *command;
        self.commands.remove(key);
        // Position of the appended data, in blocks from the start of its zone.
        let result = match completion.request.op {
            Op::Append { .. } if status == Status::SUCCESS => {
                sqe.lba() + (completion.request.lba - lba) / u64::from(sectors / sqe.blocks())
            }
            _ => 0,
        };
        Progress::Finished(Finished { tag, sqe, lba, sectors, gap, result, status })
    }
}

/// Compares sectors with the beginning of the data, and its rest with zeros.
fn compare(drive: &dyn Drive, (lba, sectors): (u64, u32), expected: &[u8]) -> Status {
    let mut actual = vec![0; expected.len()];
    match drive.read(lba, &mut actual[..sectors as usize * SECTOR_BYTES as usize]) {
        Ok(()) if actual[..] == *expected => Status::SUCCESS,
        Ok(()) => Status::COMPARE_FAILURE.dnr(),
        Err(_) => Status::INTERNAL_ERROR,
    }
}

/// Data of these ranges, one after the other.
fn gather(drive: &dyn Drive, ranges: &[(u64, u32)]) -> Result<Vec<u8>, Status> {
    let mut data = Vec::new();
    for &(lba, sectors) in ranges {
        drive.append(lba, sectors, &mut data).map_err(|_| Status::INTERNAL_ERROR)?;
    }
    Ok(data)
}

/// Command as requests to the drive.
struct Plan {
    /// Requests without their token; if there are none, the command is finished.
    requests: Vec<Request>,
    /// Data for the host, if the command is finished.
    answer: Vec<u8>,
    /// First sector of the command on the drive, and number of sectors.
    lba: u64,
    sectors: u32,
    /// Number of further sectors of a read in the gap beyond a zone's capacity.
    gap: u32,
    then: Then,
    /// Placement events that the command causes, with handle and placement identifier.
    events: Vec<(PlacementEventKind, u8, u16)>,
}

impl Plan {
    fn from_requests(requests: Vec<Request>) -> Plan {
        let (lba, sectors) =
            requests.first().map_or((0, 0), |request| (request.lba, request.sectors));
        let (answer, events) = (Vec::new(), Vec::new());
        Plan { requests, answer, lba, sectors, gap: 0, then: Then::Nothing, events }
    }

    fn single(op: Op, lba: u64, sectors: u32) -> Plan {
        Plan::from_requests(vec![Request::new(op, lba, sectors, 0)])
    }
}

/// Checks a command and translates it to requests.
fn plan(sqe: &Sqe, data: &[u8], drive: &dyn Drive, flags: &Flags) -> Result<Plan, Status> {
    refuse_if(!flags.serves(), Status::COMMAND_SEQUENCE)?;
    let sanitizing_until = flags.sanitizing_until();
    if sanitizing_until > Nanos::ZERO && drive.now() < sanitizing_until {
        return Err(Status::SANITIZE_IN_PROGRESS);
    }
    let opcode = supported(sqe, drive, flags).ok_or(Status::INVALID_OPCODE.dnr())?;
    let nsid = sqe.nsid.get();
    let path = access::check(access::state(drive, flags.portal));
    if nsid == NSID_ALL && opcode == NvmOpcode::Flush {
        path?;
        return Ok(Plan::single(Op::Flush, 0, 0));
    }
    use NvmOpcode as N;
    let namespace = active(nsid, drive, flags)?;
    path?;
    if let Some(access) = Access::from_opcode(opcode)
        && flags.shared.reservations.exclude(flags.controller, nsid, access, drive.power_cuts())
    {
        return Err(Status::RESERVATION_CONFLICT.dnr());
    }
    match opcode {
        N::Flush => return Ok(Plan::single(Op::Flush, 0, 0)),
        N::DatasetManagement => return deallocation(sqe, data, namespace),
        _ if is_reservation(opcode) => {
            let execute = |all: &mut Reservations| all.execute(flags.controller, opcode, sqe, data);
            let answer = flags.shared.reservations.with(drive.power_cuts(), execute)?;
            return Ok(Plan { answer, ..Plan::from_requests(Vec::new()) });
        }
        N::ZoneManagementReceive | N::ZoneManagementSend => {
            return manage_zones(sqe, drive, namespace);
        }
        N::IoManagementReceive => return handle_status(sqe, drive, namespace),
        N::IoManagementSend => return handle_update(sqe, data, drive, namespace, flags),
        _ => {}
    }
    let changes = !matches!(opcode, N::Read | N::Compare | N::Verify);
    refuse_if(changes && namespace.is_read_only, Status::NAMESPACE_WRITE_PROTECTED)?;
    let fua = sqe.is_fua() || !flags.write_cache();
    let placement::Place { handle, is_invalid } = match changes {
        true => placement::place_of(sqe, drive, namespace)?,
        false => placement::Place { handle: 0, is_invalid: false },
    };
    let mut plan = match opcode {
        N::Copy => copy(sqe, data, namespace, (fua, handle))?,
        _ => transferred(sqe, data, namespace, (fua, handle))?,
    };
    if is_invalid {
        let pid = sqe.directive_value();
        plan.events.push((PlacementEventKind::InvalidIdentifier, handle, pid));
    }
    Ok(plan)
}

/// Translates a command for one contiguous range of blocks to a request.
fn transferred(
    sqe: &Sqe,
    data: &[u8],
    namespace: &Namespace,
    (fua, handle): (bool, u8),
) -> Result<Plan, Status> {
    use NvmOpcode as N;
    let opcode = NvmOpcode::from_code(sqe.opcode).ok_or(Status::INVALID_OPCODE.dnr())?;
    let (place, gap) = match opcode {
        N::Read | N::Compare | N::Verify => readable(namespace, sqe.lba(), sqe.blocks())?,
        _ => (range(namespace, sqe.lba(), sqe.blocks())?, 0),
    };
    let (lba, sectors) = place;
    let bytes = (sectors + gap) as usize * SECTOR_BYTES as usize;
    let carried = matches!(opcode, N::Write | N::Compare | N::ZoneAppend);
    refuse_if(carried && data.len() < bytes, Status::SGL_LENGTH_INVALID)?;
    let op = match opcode {
        N::Write => Op::Write { fua },
        N::ZoneAppend => Op::Append { fua },
        N::WriteZeroes => {
            let deallocates = sqe.cdw12.get() & 1 << 25 != 0;
            Op::WriteZeroes { fua, allocated: !deallocates }
        }
        // To the model this takes as long as zeros: the map changes, and nothing is transferred.
        N::WriteUncorrectable => Op::WriteZeroes { fua, allocated: true },
        _ => Op::Read,
    };
    if matches!(opcode, N::Read | N::Write | N::ZoneAppend) {
        namespace.count(opcode == N::Read, sectors + gap);
    }
    // A read of only a gap also takes time.
    let request = Request { op, lba, sectors: sectors.max(1), token: 0, handle };
    let mut plan = Plan::from_requests(vec![request]);
    (plan.sectors, plan.gap) = (sectors, gap);
    if opcode == N::Compare {
        plan.then = Then::Compare(data[..bytes].into());
    }
    Ok(plan)
}

/// I/O Management Receive.
fn handle_status(sqe: &Sqe, drive: &dyn Drive, namespace: &Namespace) -> Result<Plan, Status> {
    let mut plan = Plan::from_requests(Vec::new());
    let bytes = sqe.cdw11.get() as usize * 4 + 4;
    plan.answer = match placement::about_handles(sqe, drive)? {
        Some(placed) => placement::status(placed, namespace, &drive.handle_use(), bytes),
        None => vec![0; bytes],
    };
    Ok(plan)
}

/// I/O Management Send: handles begin new reclaim units.
fn handle_update(
    sqe: &Sqe,
    data: &[u8],
    drive: &dyn Drive,
    namespace: &Namespace,
    flags: &Flags,
) -> Result<Plan, Status> {
    let Some(placed) = placement::about_handles(sqe, drive)? else {
        return Ok(Plan::from_requests(Vec::new()));
    };
    refuse_if(namespace.is_read_only, Status::NAMESPACE_WRITE_PROTECTED)?;
    let handles = placement::updated(sqe, data, placed, namespace)?;
    let request =
        |&(_, handle): &(u16, u8)| Request { handle, ..Request::new(Op::HandleUpdate, 0, 0, 0) };
    let mut plan = Plan::from_requests(handles.iter().map(request).collect());
    let (used, whole_4k) = (drive.handle_use(), flags.placement().unit_4k);
    let is_begun = |&(_, handle): &(u16, u8)| {
        used.get(usize::from(handle)).is_some_and(|handle_use| handle_use.unit_left_4k < whole_4k)
    };
    let begun = handles.into_iter().filter(is_begun);
    plan.events =
        begun.map(|(pid, handle)| (PlacementEventKind::UnitNotFull, handle, pid)).collect();
    Ok(plan)
}

/// Translates blocks of a namespace to sectors of the drive.
fn range(namespace: &Namespace, lba: u64, blocks: u32) -> Result<(u64, u32), Status> {
    match readable(namespace, lba, blocks)? {
        (range, 0) => Ok(range),
        _ => Err(Status::ZONE_BOUNDARY_ERROR.dnr()),
    }
}

/// Like [`range`] for a read; also returns the number of sectors in the gap beyond a zone's
/// capacity.
fn readable(namespace: &Namespace, lba: u64, blocks: u32) -> Result<((u64, u32), u32), Status> {
    check_range(namespace, lba, blocks)?;
    let shift = namespace.block_sectors_log2();
    let Some(spec) = &namespace.zones else {
        return Ok(((namespace.first + (lba << shift), blocks << shift), 0));
    };
    let zones::Place { lba, sectors, gap } = zones::place(namespace, spec, lba, blocks)?;
    Ok(((lba, sectors), gap))
}

fn check_range(namespace: &Namespace, lba: u64, blocks: u32) -> Result<(), Status> {
    match lba.checked_add(blocks.into()) {
        Some(end) if end <= zones::blocks_of(namespace) => Ok(()),
        _ => Err(Status::LBA_OUT_OF_RANGE.dnr()),
    }
}

/// Zone Management Send or Receive.
fn manage_zones(sqe: &Sqe, drive: &dyn Drive, namespace: &Namespace) -> Result<Plan, Status> {
    let (all, spec) =
        (drive.zones(), namespace.zones.as_ref().ok_or(Status::INVALID_OPCODE.dnr())?);
    if NvmOpcode::from_code(sqe.opcode) == Some(NvmOpcode::ZoneManagementReceive) {
        let answer = zones::report(sqe, all, namespace, spec)?;
        return Ok(Plan { answer, ..Plan::from_requests(Vec::new()) });
    }
    refuse_if(namespace.is_read_only, Status::NAMESPACE_WRITE_PROTECTED)?;
    Ok(Plan::from_requests(zones::manage(sqe, all, namespace, spec)?))
}

/// Copy: reads of its sources, and a final write of all of them.
fn copy(
    sqe: &Sqe,
    data: &[u8],
    namespace: &Namespace,
    (fua, handle): (bool, u8),
) -> Result<Plan, Status> {
    let cdw12 = sqe.cdw12.get();
    let (count, format) = ((cdw12 & 0xff) as usize + 1, cdw12 >> 8 & 0xf);
    refuse_if(format != 0, Status::INVALID_FIELD)?;
    let size = size_of::<CopyRange>();
    let sources = data.get(..count * size).ok_or(Status::SGL_LENGTH_INVALID.dnr())?;
    let sources =
        sources.chunks_exact(size).filter_map(|entry| CopyRange::read_from_bytes(entry).ok());
    let shift = namespace.block_sectors_log2();
    let most = |bytes: u32| (bytes / SECTOR_BYTES as u32) >> shift;
    let (mut ranges, mut all) = (Vec::with_capacity(count), 0);
    for source in sources {
        let blocks = u32::from(source.blocks_less_one.get()) + 1;
        all += blocks;
        refuse_if(blocks > most(COPY_RANGE_MAX), Status::COMMAND_SIZE_LIMIT)?;
        ranges.push(range(namespace, source.lba.get(), blocks)?);
    }
    let is_too_many = count > usize::from(COPY_RANGES) + 1;
    refuse_if(is_too_many || all > most(COPY_MAX), Status::COMMAND_SIZE_LIMIT)?;
    let (lba, sectors) = range(namespace, sqe.lba(), all)?;
    let reads = ranges.iter().map(|&(lba, sectors)| Request::new(Op::Read, lba, sectors, 0));
    let plan = Plan::from_requests(reads.collect());
    Ok(Plan { lba, sectors, then: Then::Write { from: ranges, fua, handle }, ..plan })
}

/// Namespace with this number, if it is active: attached to the controller (section 6.1.5).
pub(super) fn active<'a>(
    nsid: u32,
    namespaces: &'a dyn Namespaces,
    flags: &Flags,
) -> Result<&'a Namespace, Status> {
    refuse_if(!is_valid(nsid), Status::INVALID_NAMESPACE)?;
    let attached = namespaces.namespace(nsid).filter(|_| flags.is_attached(nsid));
    attached.map(Arc::as_ref).ok_or(Status::INVALID_FIELD.dnr())
}

/// True if a namespace may have this number.
pub(super) fn is_valid(nsid: u32) -> bool {
    (1..=NAMESPACES_MAX as u32).contains(&nsid)
}

/// Dataset Management; only Deallocate has an effect.
fn deallocation(sqe: &Sqe, data: &[u8], namespace: &Namespace) -> Result<Plan, Status> {
    let count = (sqe.cdw10.get() & 0xff) as usize + 1;
    let mut rest = data;
    let mut requests = Vec::new();
    let shift = namespace.block_sectors_log2();
    for _ in 0..count {
        let entry = DsmRange::read_from_prefix(rest);
        let (dsm_range, after) = entry.map_err(|_| Status::SGL_LENGTH_INVALID.dnr())?;
        rest = after;
        let mut blocks = dsm_range.blocks.get();
        check_range(namespace, dsm_range.lba.get(), blocks)?;
        if namespace.zones.is_some() {
            // Deallocate is only a hint: only a reset empties a zone.
            continue;
        }
        let (mut lba, _) = range(namespace, dsm_range.lba.get(), blocks)?;
        while blocks > 0 {
            let part = blocks.min(PART_BLOCKS);
            let op = Op::Trim { fua: false };
            requests.push(Request::new(op, lba, part << shift, 0));
            lba += u64::from(part) << shift;
            blocks -= part;
        }
    }
    let deallocates = sqe.cdw11.get() & 1 << 2 != 0;
    refuse_if(deallocates && namespace.is_read_only, Status::NAMESPACE_WRITE_PROTECTED)?;
    if !deallocates {
        requests.clear();
    }
    Ok(Plan::from_requests(requests))
}

fn status_of(status: request::Status) -> Status {
    match status {
        request::Status::Ok => Status::SUCCESS,
        request::Status::OutOfRange => Status::LBA_OUT_OF_RANGE.dnr(),
        request::Status::MediaError => Status::UNRECOVERED_READ_ERROR,
        request::Status::ReadOnly => Status::NAMESPACE_WRITE_PROTECTED.dnr(),
        request::Status::NoSpace => Status::CAPACITY_EXCEEDED,
        request::Status::Zone(problem) => zones::status_of(problem),
        request::Status::Internal => Status::INTERNAL_ERROR,
    }
}
