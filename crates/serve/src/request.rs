//! What a session asks of the drive and what it gets back: the words that all other modules share.

use drivebay_drive::ZoneProblem;
use slotmap::{KeyData, new_key_type};

new_key_type! {
    /// The identifier of a session; never used again for another one.
    pub struct SessionId;
}

impl SessionId {
    /// For an engine that is used without an event loop.
    pub fn numbered(index: u32) -> SessionId {
        KeyData::from_ffi(1 << 32 | u64::from(index)).into()
    }
}

/// A kind of command, with what changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The data is read from the store when the command completes.
    Read,
    /// The data comes with the submission.
    Write {
        /// Force Unit Access: completes when the data is on flash.
        fua: bool,
    },
    /// Completes when all data that was acknowledged before is on flash.
    Flush,
    /// The sectors read as zeros afterwards.
    Trim {
        /// A flush follows before it completes.
        fua: bool,
    },
    /// Zeros without a transfer.
    WriteZeroes {
        /// Force Unit Access.
        fua: bool,
        /// Keeps the space allocated in the store.
        allocated: bool,
    },
    /// The handle's next write begins a new reclaim unit; address and count mean nothing.
    HandleUpdate,
    /// A write at the write pointer of the zone that begins at the address; the completion says
    /// where that was.
    Append {
        /// A flush follows before it completes.
        fua: bool,
    },
    /// Opens, closes, finishes or resets the zone that begins at the address, of which the count is
    /// the capacity.
    Zone(drivebay_drive::Op),
}

impl Op {
    /// Whether it changes the data.
    pub(crate) fn changes_data(self) -> bool {
        !matches!(self, Op::Read | Op::Flush | Op::HandleUpdate)
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

/// One request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub op: Op,
    /// First sector of 512 B; 0 for a flush.
    pub lba: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u32,
    /// The session's own number for it, which the completion carries.
    pub token: u64,
    /// Placement handle of a write or a handle update; 0 where nothing is said.
    pub handle: u8,
}

impl Request {
    /// One without a placement handle.
    pub fn new(op: Op, lba: u64, sectors: u32, token: u64) -> Request {
        Request { op, lba, sectors, token, handle: 0 }
    }

    /// A flush of the whole drive.
    pub fn flush(token: u64) -> Request {
        Request::new(Op::Flush, 0, 0, token)
    }
}

/// How a request ended.
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
    /// The zone does not take it.
    Zone(ZoneProblem),
    /// The store's file could not be read, written or synced.
    Internal,
}

/// The drive's answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The session that sent the request.
    pub session: SessionId,
    /// The request that is answered.
    pub request: Request,
    /// Success, or which error.
    pub status: Status,
}
