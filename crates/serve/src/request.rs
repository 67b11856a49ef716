//! Requests of sessions and their results: the types that all other modules share.

use drivebay_drive::ZoneProblem;
use slotmap::{KeyData, new_key_type};

new_key_type! {
    /// Identifier of a session; never reused.
    pub struct SessionId;
}

impl SessionId {
    /// Returns an identifier for an engine without an event loop.
    pub fn numbered(index: u32) -> SessionId {
        KeyData::from_ffi(1 << 32 | u64::from(index)).into()
    }
}

/// Kind of command, with the parameters that change its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read; the data is read from the store when the command completes.
    Read,
    /// Write; the data comes with the submission.
    Write {
        /// Force Unit Access: completes when the data is on flash.
        fua: bool,
    },
    /// Flush; completes when all data that was acknowledged before is on flash.
    Flush,
    /// Trim; the sectors read as zeros afterwards.
    Trim {
        /// Force Unit Access: a flush follows before it completes.
        fua: bool,
    },
    /// Write of zeros without a transfer.
    WriteZeroes {
        /// Force Unit Access.
        fua: bool,
        /// True if the space stays allocated in the store.
        allocated: bool,
    },
    /// Makes the handle's next write begin a new reclaim unit; address and count are unused.
    HandleUpdate,
    /// Write at the write pointer of the zone that begins at the address; the completion has the
    /// actual address.
    Append {
        /// Force Unit Access: a flush follows before it completes.
        fua: bool,
    },
    /// Opens, closes, finishes or resets the zone that begins at the address; the count is its
    /// capacity.
    Zone(drivebay_drive::Op),
}

impl Op {
    /// True if the command changes data.
    pub(crate) fn changes_data(self) -> bool {
        !matches!(self, Op::Read | Op::Flush | Op::HandleUpdate)
    }

    /// The command with Force Unit Access, if it can have it.
    pub(crate) fn durable(self) -> Op {
        match self {
            Op::Write { .. } => Op::Write { fua: true },
            Op::Trim { .. } => Op::Trim { fua: true },
            Op::WriteZeroes { allocated, .. } => Op::WriteZeroes { fua: true, allocated },
            Op::Append { .. } => Op::Append { fua: true },
            other => other,
        }
    }

    pub(crate) fn on_drive(self) -> drivebay_drive::Op {
        use drivebay_drive::Op as Drive;
        match self {
            Op::Read => Drive::Read,
            Op::Write { fua: false } => Drive::Write,
            Op::Write { fua: true } => Drive::WriteFua,
            Op::Flush => Drive::Flush,
            Op::Trim { .. } => Drive::Trim,
            Op::WriteZeroes { .. } => Drive::WriteZeroes,
            Op::HandleUpdate => Drive::HandleUpdate,
            Op::Append { .. } => Drive::Append,
            Op::Zone(op) => op,
        }
    }
}

/// Request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Kind of command.
    pub op: Op,
    /// First sector of 512 B; 0 for a flush.
    pub lba: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u32,
    /// Number that the session chooses and the completion repeats.
    pub token: u64,
    /// Placement handle of a write or a handle update; 0 if not specified.
    pub handle: u8,
}

impl Request {
    /// Creates a request without a placement handle.
    pub fn new(op: Op, lba: u64, sectors: u32, token: u64) -> Request {
        Request { op, lba, sectors, token, handle: 0 }
    }

    /// Creates a flush of the whole drive.
    pub fn flush(token: u64) -> Request {
        Request::new(Op::Flush, 0, 0, token)
    }
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok,
    /// Beyond the end of the drive, or longer than a command may be.
    OutOfRange,
    /// Data could not be read (NVMe: Unrecovered Read Error).
    MediaError,
    /// The drive has worn out and is read-only, or it is write-protected.
    ReadOnly,
    /// The drive has no flash left, or the store no space.
    NoSpace,
    /// The zone does not accept the command.
    Zone(ZoneProblem),
    /// The store's file could not be read, written or synced.
    Internal,
}

/// The drive's answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Session that sent the request.
    pub session: SessionId,
    /// The request.
    pub request: Request,
    /// Success or an error.
    pub status: Status,
}
