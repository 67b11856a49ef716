//! The NVM command set: a command becomes requests to the drive, their completions one of the command.
//!
//! Source: NVM Express base specification 1.4, section 6. Compare is a read whose data is compared
//! when it is done; a Dataset Management command is as many requests as it has ranges.

use std::sync::Arc;

use drivebay_wire::nvme::{DsmRange, NvmOpcode, Sqe, Status};
use slotmap::{DefaultKey, Key, KeyData, SlotMap};
use zerocopy::FromBytes;

use super::controller::Flags;
use super::identity::{BLOCK_BYTES, NSID_ALL};
use crate::drive::{Data, Drive, Namespaces};
use crate::namespace::{NAMESPACES_MAX, Namespace};
use crate::request::{self, Completion, Op, Request};

/// The data that a command transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// None.
    None,
    /// This number of bytes from the host.
    FromHost(u32),
    /// This number of bytes to the host.
    ToHost(u32),
}

/// The data that a command transfers, by its own fields.
pub(super) fn transfer(sqe: &Sqe) -> Transfer {
    let data = sqe.blocks() * BLOCK_BYTES;
    match NvmOpcode::of(sqe.opcode) {
        Some(NvmOpcode::Read) => Transfer::ToHost(data),
        Some(NvmOpcode::Write | NvmOpcode::Compare) => Transfer::FromHost(data),
        Some(NvmOpcode::DatasetManagement) => {
            Transfer::FromHost(((sqe.cdw10.get() & 0xff) + 1) * size_of::<DsmRange>() as u32)
        }
        Some(NvmOpcode::Flush | NvmOpcode::WriteZeroes) | None => Transfer::None,
    }
}

/// A command that the drive has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// The transport's own number.
    pub tag: u32,
    pub sqe: Sqe,
    /// Its first sector on the drive.
    pub lba: u64,
    pub status: Status,
}

impl Finished {
    /// Whether its blocks are to be read from the store for the host.
    pub fn reads(&self) -> bool {
        self.sqe.opcode == NvmOpcode::Read as u8 && self.status == Status::SUCCESS
    }
}

/// What a completion of the drive means to a transport.
pub(super) enum Progress {
    /// A command is finished.
    Finished(Finished),
    /// The drive has flushed: the controller may report that shutdown is complete.
    ShutDown,
    /// Nothing yet, or nothing any more.
    None,
}

enum Inflight {
    Command(InflightCommand),
    ShutdownFlush,
}

struct InflightCommand {
    tag: u32,
    sqe: Sqe,
    /// Its first sector on the drive.
    lba: u64,
    /// Requests that have not completed.
    left: u32,
    status: Status,
    /// What Compare expects to read.
    expected: Option<Box<[u8]>>,
}

/// Commands in flight. A request's token is the key of its command.
#[derive(Default)]
pub(super) struct InflightCommands {
    commands: SlotMap<DefaultKey, Inflight>,
}

impl InflightCommands {
    /// Forgets all commands; their completions are not recognized any more.
    pub fn clear(&mut self) {
        self.commands.clear();
    }

    /// Submits the flush that precedes a shutdown.
    pub fn flush_for_shutdown(&mut self, drive: &mut dyn Drive) {
        let key = self.commands.insert(Inflight::ShutdownFlush);
        drive.submit(Request::flush(key.data().as_ffi()), &[]);
    }

    /// Submits a command, with `data` from the host; returns its status if it is finished at once.
    pub fn start(
        &mut self,
        drive: &mut dyn Drive,
        tag: u32,
        sqe: Sqe,
        data: &[u8],
        flags: &Flags,
    ) -> Option<Status> {
        let plan = match plan(&sqe, data, drive, flags) {
            Ok(Plan::Many(ranges)) if ranges.is_empty() => return Some(Status::SUCCESS),
            Ok(plan) => plan,
            Err(status) => return Some(status),
        };
        let data = data.get(..(sqe.blocks() * BLOCK_BYTES) as usize).unwrap_or_default();
        let expected = (sqe.opcode == NvmOpcode::Compare as u8).then(|| data.into());
        let left = if let Plan::Many(ranges) = &plan { ranges.len() as u32 } else { 1 };
        let lba = if let Plan::One(_, lba, _) = plan { lba } else { 0 };
        let command = InflightCommand { tag, sqe, lba, left, status: Status::SUCCESS, expected };
        let token = self.commands.insert(Inflight::Command(command)).data().as_ffi();
        match plan {
            Plan::One(op, lba, sectors) => {
                let data = if matches!(op, Op::Write { .. }) { data } else { &[] };
                drive.submit(Request { op, lba, sectors, token }, data);
            }
            Plan::Many(ranges) => {
                for (lba, sectors) in ranges {
                    let op = Op::Trim { fua: false };
                    drive.submit(Request { op, lba, sectors, token }, &[]);
                }
            }
        }
        None
    }

    /// Takes a command away, which its transport then completes as aborted; what it does to the data stays
    /// done. None if it is not in flight.
    pub fn abort(&mut self, tag: u32, cid: u16) -> Option<Sqe> {
        let key = self.commands.iter().find_map(|(key, one)| match one {
            Inflight::Command(one) if one.tag == tag && one.sqe.cid.get() == cid => Some(key),
            _ => None,
        })?;
        match self.commands.remove(key) {
            Some(Inflight::Command(command)) => Some(command.sqe),
            _ => None,
        }
    }

    /// A request has completed.
    pub fn complete(&mut self, drive: &dyn Data, completion: Completion) -> Progress {
        let key = DefaultKey::from(KeyData::from_ffi(completion.request.token));
        match self.commands.get_mut(key) {
            None => return Progress::None,
            Some(Inflight::ShutdownFlush) => {}
            Some(Inflight::Command(command)) => {
                if command.status == Status::SUCCESS {
                    command.status = status_of(completion.status);
                }
                command.left -= 1;
                if command.left > 0 {
                    return Progress::None;
                }
            }
        }
        let Some(Inflight::Command(command)) = self.commands.remove(key) else {
            return Progress::ShutDown;
        };
        let InflightCommand { tag, sqe, lba, mut status, expected, .. } = command;
        if let (Some(expected), Status::SUCCESS) = (&expected, status) {
            let mut found = vec![0; expected.len()];
            status = match drive.read(lba, &mut found) {
                Ok(()) if found[..] == expected[..] => Status::SUCCESS,
                Ok(()) => Status::COMPARE_FAILURE,
                Err(_) => Status::INTERNAL_ERROR,
            };
        }
        Progress::Finished(Finished { tag, sqe, lba, status })
    }
}

enum Plan {
    One(Op, u64, u32),
    /// To be deallocated.
    Many(Vec<(u64, u32)>),
}

/// Checks a command and turns it into requests.
fn plan(
    sqe: &Sqe,
    data: &[u8],
    namespaces: &dyn Namespaces,
    flags: &Flags,
) -> Result<Plan, Status> {
    if !flags.serves() {
        return Err(Status::COMMAND_SEQUENCE.dnr());
    }
    let opcode = NvmOpcode::of(sqe.opcode).ok_or(Status::INVALID_OPCODE.dnr())?;
    let nsid = sqe.nsid.get();
    if nsid == NSID_ALL && opcode == NvmOpcode::Flush {
        return Ok(Plan::One(Op::Flush, 0, 0));
    }
    let namespace = active(nsid, namespaces, flags)?;
    match opcode {
        NvmOpcode::Flush => return Ok(Plan::One(Op::Flush, 0, 0)),
        NvmOpcode::DatasetManagement => return ranges(sqe, data, namespace).map(Plan::Many),
        _ => {}
    }
    if sqe.asks_protection() {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let (lba, count) = (sqe.lba(), sqe.blocks());
    if lba.checked_add(u64::from(count)).is_none_or(|end| end > namespace.sectors()) {
        return Err(Status::LBA_OUT_OF_RANGE.dnr());
    }
    let carried = matches!(opcode, NvmOpcode::Write | NvmOpcode::Compare);
    if carried && data.len() < (count * BLOCK_BYTES) as usize {
        return Err(Status::SGL_LENGTH_INVALID.dnr());
    }
    if namespace.is_read_only() && matches!(opcode, NvmOpcode::Write | NvmOpcode::WriteZeroes) {
        return Err(Status::NAMESPACE_WRITE_PROTECTED.dnr());
    }
    let fua = sqe.is_fua() || !flags.write_cache();
    let op = match opcode {
        NvmOpcode::Write => Op::Write { fua },
        NvmOpcode::WriteZeroes => {
            let deallocates = sqe.cdw12.get() & 1 << 25 != 0;
            Op::WriteZeroes { fua, allocated: !deallocates }
        }
        _ => Op::Read,
    };
    Ok(Plan::One(op, namespace.first() + lba, count))
}

/// The namespace of this number, which the controller has: active, as the specification says (section 6.1.5).
fn active<'a>(
    nsid: u32,
    namespaces: &'a dyn Namespaces,
    flags: &Flags,
) -> Result<&'a Namespace, Status> {
    if !is_valid(nsid) {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    let attached = namespaces.namespace(nsid).filter(|_| flags.is_attached(nsid));
    attached.map(Arc::as_ref).ok_or(Status::INVALID_FIELD.dnr())
}

/// Whether a namespace may have this number.
pub(super) fn is_valid(nsid: u32) -> bool {
    (1..=NAMESPACES_MAX as u32).contains(&nsid)
}

/// Ranges of a Dataset Management command; only Deallocate does anything.
fn ranges(sqe: &Sqe, data: &[u8], namespace: &Namespace) -> Result<Vec<(u64, u32)>, Status> {
    let count = (sqe.cdw10.get() & 0xff) as usize + 1;
    let mut rest = data;
    let mut found = Vec::new();
    for _ in 0..count {
        let Ok((range, after)) = DsmRange::read_from_prefix(rest) else {
            return Err(Status::SGL_LENGTH_INVALID.dnr());
        };
        rest = after;
        let (lba, length) = (range.lba.get(), range.blocks.get());
        if lba.checked_add(u64::from(length)).is_none_or(|end| end > namespace.sectors()) {
            return Err(Status::LBA_OUT_OF_RANGE.dnr());
        }
        if length > 0 {
            found.push((namespace.first() + lba, length));
        }
    }
    let deallocates = sqe.cdw11.get() & 1 << 2 != 0;
    if deallocates && namespace.is_read_only() {
        return Err(Status::NAMESPACE_WRITE_PROTECTED.dnr());
    }
    Ok(if deallocates { found } else { Vec::new() })
}

fn status_of(status: request::Status) -> Status {
    match status {
        request::Status::Ok => Status::SUCCESS,
        request::Status::OutOfRange => Status::LBA_OUT_OF_RANGE.dnr(),
        request::Status::MediaError => Status::UNRECOVERED_READ_ERROR,
        request::Status::ReadOnly => Status::NAMESPACE_WRITE_PROTECTED.dnr(),
        request::Status::NoSpace => Status::CAPACITY_EXCEEDED,
        request::Status::Internal => Status::INTERNAL_ERROR,
    }
}
