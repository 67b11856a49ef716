//! The NVM command set: a command to requests of the engine, their completions to one of the command.
//!
//! Source: NVM Express base specification 1.4, section 6. Compare is a read whose data is compared
//! when it is done; a Dataset Management command is as many requests as it has ranges.

use drivebay_wire::nvme::{DsmRange, NvmOpcode, Sqe, Status};
use zerocopy::FromBytes;

use super::{BLOCK_BYTES, NSID, NSID_ALL};
use crate::engine::{self, Done, Engine, Op, Request};
use crate::session::SessionId;
use crate::slab::Slab;

/// What data a command moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// None.
    Nothing,
    /// So many bytes from the host.
    FromHost(u32),
    /// So many bytes to the host.
    ToHost(u32),
}

/// Data that a command moves, by its own fields.
pub(super) fn need(sqe: &Sqe) -> Need {
    let data = sqe.blocks() * BLOCK_BYTES;
    match NvmOpcode::of(sqe.opcode) {
        Some(NvmOpcode::Read) => Need::ToHost(data),
        Some(NvmOpcode::Write | NvmOpcode::Compare) => Need::FromHost(data),
        Some(NvmOpcode::DatasetManagement) => {
            Need::FromHost(((sqe.cdw10.get() & 0xff) + 1) * size_of::<DsmRange>() as u32)
        }
        Some(NvmOpcode::Flush | NvmOpcode::WriteZeroes) | None => Need::Nothing,
    }
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// The transport's own.
    pub tag: u32,
    /// The command.
    pub sqe: Sqe,
    /// How.
    pub status: Status,
    /// Whether its blocks are to be read from the store for the host.
    pub reads: bool,
}

struct Flight {
    tag: u32,
    sqe: Sqe,
    left: u32,
    status: Status,
    compare: Option<Box<[u8]>>,
}

/// Commands under way.
#[derive(Default)]
pub(super) struct Flights {
    flights: Slab<Flight>,
}

impl Flights {
    /// Forgets all commands; their completions are not recognized any more.
    pub fn clear(&mut self) {
        let places: Vec<u32> = self.flights.iter_mut().map(|(index, ..)| index).collect();
        for place in places {
            self.flights.remove(place);
        }
    }

    /// Starts a command with its data; gives it back if it ends at once.
    pub fn start(
        &mut self,
        engine: &mut Engine,
        me: SessionId,
        tag: u32,
        sqe: Sqe,
        data: &[u8],
        write_cache: bool,
    ) -> Option<Ended> {
        let ended = |status| Some(Ended { tag, sqe, status, reads: false });
        let plan = match plan(&sqe, data, engine.store().sectors(), write_cache) {
            Ok(Plan::Many(ranges)) if ranges.is_empty() => return ended(Status::SUCCESS),
            Ok(plan) => plan,
            Err(status) => return ended(status),
        };
        let is_compare = sqe.opcode == NvmOpcode::Compare as u8;
        let bytes = (sqe.blocks() * BLOCK_BYTES) as usize;
        let compare = is_compare.then(|| data[..bytes].into());
        let left = if let Plan::Many(ranges) = &plan { ranges.len() as u32 } else { 1 };
        let flight = Flight { tag, sqe, left, status: Status::SUCCESS, compare };
        let (index, generation) = self.flights.insert(flight);
        let token = u64::from(index) | u64::from(generation) << 32;
        let request = |op, lba, sectors| Request { op, lba, sectors, session: me, token };
        match plan {
            Plan::One(op, lba, sectors) => {
                let written = matches!(op, Op::Write { .. });
                engine
                    .submit(request(op, lba, sectors), if written { &data[..bytes] } else { &[] });
            }
            Plan::Many(ranges) => {
                for (lba, sectors) in ranges {
                    engine.submit(request(Op::Trim { fua: false }, lba, sectors), &[]);
                }
            }
        }
        None
    }

    /// A request of the engine is done; gives the command back if it was its last one.
    pub fn complete(&mut self, engine: &Engine, done: Done) -> Option<Ended> {
        let (index, generation) = (done.request.token as u32, (done.request.token >> 32) as u32);
        let flight = self.flights.same_mut(index, generation)?;
        if flight.status == Status::SUCCESS {
            flight.status = status_of(done.status);
        }
        flight.left -= 1;
        if flight.left > 0 {
            return None;
        }
        let Flight { tag, sqe, mut status, compare, .. } = self.flights.remove(index)?;
        if let (Some(wanted), Status::SUCCESS) = (&compare, status) {
            let mut found = vec![0; wanted.len()];
            status = match engine.store().read(sqe.lba(), &mut found) {
                Ok(()) if found[..] == wanted[..] => Status::SUCCESS,
                Ok(()) => Status::COMPARE_FAILURE,
                Err(_) => Status::INTERNAL_ERROR,
            };
        }
        let reads = sqe.opcode == NvmOpcode::Read as u8 && status == Status::SUCCESS;
        Some(Ended { tag, sqe, status, reads })
    }
}

enum Plan {
    One(Op, u64, u32),
    /// To be deallocated.
    Many(Vec<(u64, u32)>),
}

/// Checks a command and says what the engine is to do.
fn plan(sqe: &Sqe, data: &[u8], blocks: u64, write_cache: bool) -> Result<Plan, Status> {
    let opcode = NvmOpcode::of(sqe.opcode).ok_or(Status::INVALID_OPCODE.dnr())?;
    let nsid = sqe.nsid.get();
    if nsid != NSID && !(nsid == NSID_ALL && opcode == NvmOpcode::Flush) {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    // Fused operations.
    if sqe.flags & 3 != 0 {
        return Err(Status::INVALID_FIELD.dnr());
    }
    match opcode {
        NvmOpcode::Flush => return Ok(Plan::One(Op::Flush, 0, 0)),
        NvmOpcode::DatasetManagement => return ranges(sqe, data, blocks).map(Plan::Many),
        _ => {}
    }
    if sqe.asks_protection() {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let (lba, count) = (sqe.lba(), sqe.blocks());
    if lba.checked_add(u64::from(count)).is_none_or(|end| end > blocks) {
        return Err(Status::LBA_OUT_OF_RANGE.dnr());
    }
    let carried = matches!(opcode, NvmOpcode::Write | NvmOpcode::Compare);
    if carried && data.len() < (count * BLOCK_BYTES) as usize {
        return Err(Status::SGL_LENGTH_INVALID.dnr());
    }
    let fua = sqe.is_fua() || !write_cache;
    let op = match opcode {
        NvmOpcode::Write => Op::Write { fua },
        NvmOpcode::WriteZeroes => {
            let deallocates = sqe.cdw12.get() & 1 << 25 != 0;
            Op::WriteZeroes { fua, allocated: !deallocates }
        }
        _ => Op::Read,
    };
    Ok(Plan::One(op, lba, count))
}

/// Ranges of a Dataset Management command; only Deallocate does anything.
fn ranges(sqe: &Sqe, data: &[u8], blocks: u64) -> Result<Vec<(u64, u32)>, Status> {
    let count = (sqe.cdw10.get() & 0xff) as usize + 1;
    let mut rest = data;
    let mut found = Vec::new();
    for _ in 0..count {
        let Ok((range, after)) = DsmRange::read_from_prefix(rest) else {
            return Err(Status::SGL_LENGTH_INVALID.dnr());
        };
        rest = after;
        let (lba, length) = (range.lba.get(), range.blocks.get());
        if lba.checked_add(u64::from(length)).is_none_or(|end| end > blocks) {
            return Err(Status::LBA_OUT_OF_RANGE.dnr());
        }
        if length > 0 {
            found.push((lba, length));
        }
    }
    let deallocates = sqe.cdw11.get() & 1 << 2 != 0;
    Ok(if deallocates { found } else { Vec::new() })
}

fn status_of(status: engine::Status) -> Status {
    match status {
        engine::Status::Ok => Status::SUCCESS,
        engine::Status::OutOfRange => Status::LBA_OUT_OF_RANGE.dnr(),
        engine::Status::MediaError => Status::UNRECOVERED_READ_ERROR,
        engine::Status::ReadOnly => Status::NAMESPACE_WRITE_PROTECTED.dnr(),
        engine::Status::NoSpace => Status::CAPACITY_EXCEEDED,
        engine::Status::Internal => Status::INTERNAL_ERROR,
    }
}
