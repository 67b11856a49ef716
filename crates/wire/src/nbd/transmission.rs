//! Transmission phase: requests, and simple or structured replies.

use super::bytes::{u16_at, u32_at, u64_at};

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;

const CMD_FLAG_FUA: u16 = 1;
const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
const CMD_FLAG_DF: u16 = 1 << 2;
const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

const REPLY_FLAG_DONE: u16 = 1;
const REPLY_NONE: u16 = 0;
const REPLY_OFFSET_DATA: u16 = 1;
const REPLY_BLOCK_STATUS: u16 = 5;
const REPLY_ERROR: u16 = (1 << 15) + 1;

/// Bytes of a request's header.
pub const REQUEST_BYTES: usize = 28;

/// Longest payload of a read or write that every client and server should support, in bytes.
pub const MAX_PAYLOAD: u32 = 32 << 20;

/// Returns the transmission flags, which describe what the export can do.
pub const fn export_flags(is_read_only: bool) -> u16 {
    const HAS_FLAGS: u16 = 1;
    const READ_ONLY: u16 = 1 << 1;
    const SEND_FLUSH: u16 = 1 << 2;
    const SEND_FUA: u16 = 1 << 3;
    const SEND_TRIM: u16 = 1 << 5;
    const SEND_WRITE_ZEROES: u16 = 1 << 6;
    const SEND_DF: u16 = 1 << 7;
    const CAN_MULTI_CONN: u16 = 1 << 8;
    const SEND_CACHE: u16 = 1 << 10;
    const SEND_FAST_ZERO: u16 = 1 << 11;
    HAS_FLAGS
        | SEND_FLUSH
        | SEND_FUA
        | SEND_TRIM
        | SEND_WRITE_ZEROES
        | SEND_DF
        | CAN_MULTI_CONN
        | SEND_CACHE
        | SEND_FAST_ZERO
        | if is_read_only { READ_ONLY } else { 0 }
}

/// Command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write; the data follows the request.
    Write {
        /// True if the reply comes after the data is durable.
        fua: bool,
    },
    /// The client disconnects.
    Disconnect,
    /// Makes everything durable that was answered so far.
    Flush,
    /// Discards data that is no longer needed.
    Trim {
        /// True if the reply comes after the change is durable.
        fua: bool,
    },
    /// Prefetches data that will be needed soon.
    Cache,
    /// Writes zeros.
    WriteZeroes {
        /// True if the reply comes after the zeros are durable.
        fua: bool,
        /// True if the space must stay allocated.
        no_hole: bool,
        /// True if the command must fail where it would not be faster than a write.
        fast: bool,
    },
    /// Asks which parts are data and which are holes.
    BlockStatus {
        /// True if only the first extent is wanted.
        first_only: bool,
    },
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command; `None` if its type is unknown or one of its flags is not defined for it.
    pub command: Option<Command>,
    /// Cookie that the reply repeats.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// Bytes that follow: the data of a write, even if the command is invalid.
    pub payload: u32,
}

/// Errors that end a connection at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Wrong magic number: not a request.
    Magic,
    /// A payload longer than [`MAX_PAYLOAD`].
    TooLong,
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    /// [`RequestError`]: the rest of the byte stream cannot be parsed.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Request, RequestError> {
        const WRITE: u16 = 1;
        if u32_at(bytes, 0) != REQUEST_MAGIC {
            return Err(RequestError::Magic);
        }
        let (flags, kind) = (u16_at(bytes, 4), u16_at(bytes, 6));
        let fua = flags & CMD_FLAG_FUA != 0;
        // FUA has no meaning for the other commands and is ignored there.
        let (command, allowed) = match kind {
            0 => (Command::Read, CMD_FLAG_DF | CMD_FLAG_FUA),
            WRITE => (Command::Write { fua }, CMD_FLAG_FUA),
            2 => (Command::Disconnect, u16::MAX),
            3 => (Command::Flush, CMD_FLAG_FUA),
            4 => (Command::Trim { fua }, CMD_FLAG_FUA),
            5 => (Command::Cache, CMD_FLAG_FUA),
            6 => {
                let no_hole = flags & CMD_FLAG_NO_HOLE != 0;
                let fast = flags & CMD_FLAG_FAST_ZERO != 0;
                let allowed = CMD_FLAG_FUA | CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO;
                (Command::WriteZeroes { fua, no_hole, fast }, allowed)
            }
            7 => {
                let first_only = flags & CMD_FLAG_REQ_ONE != 0;
                (Command::BlockStatus { first_only }, CMD_FLAG_REQ_ONE | CMD_FLAG_FUA)
            }
            _ => (Command::Flush, 0),
        };
        let known = kind <= 7 && flags & !allowed == 0;
        let length = u32_at(bytes, 24);
        let payload = if kind == WRITE { length } else { 0 };
        if payload > MAX_PAYLOAD {
            return Err(RequestError::TooLong);
        }
        let (cookie, offset) = (u64_at(bytes, 8), u64_at(bytes, 16));
        Ok(Request { command: known.then_some(command), cookie, offset, length, payload })
    }
}

/// Error numbers of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not permitted.
    Perm = 1,
    /// Input or output error.
    Io = 5,
    /// Invalid argument.
    Inval = 22,
    /// No space left.
    NoSpc = 28,
    /// The reply would be too long.
    Overflow = 75,
    /// Not supported, or not faster than a write.
    NotSup = 95,
}

/// Extent in the reply to a block status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusExtent {
    /// Bytes.
    pub length: u32,
    /// True for a hole, which reads as zeros; false for data.
    pub hole: bool,
}

/// Appends a simple reply; the data of a successful read follows.
pub fn simple_reply(out: &mut Vec<u8>, cookie: u64, error: Option<Error>) {
    out.extend(SIMPLE_MAGIC.to_be_bytes());
    out.extend(error.map_or(0, |e| e as u32).to_be_bytes());
    out.extend(cookie.to_be_bytes());
}

/// Appends the header of the only chunk of a structured reply.
fn chunk(out: &mut Vec<u8>, kind: u16, cookie: u64, length: u32) {
    out.extend(STRUCTURED_MAGIC.to_be_bytes());
    out.extend(REPLY_FLAG_DONE.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(length.to_be_bytes());
}

/// Appends a successful reply without data.
pub fn structured_none(out: &mut Vec<u8>, cookie: u64) {
    chunk(out, REPLY_NONE, cookie, 0);
}

/// Appends the header for all the data of a read; `length` bytes follow.
pub fn structured_data(out: &mut Vec<u8>, cookie: u64, offset: u64, length: u32) {
    chunk(out, REPLY_OFFSET_DATA, cookie, length + 8);
    out.extend(offset.to_be_bytes());
}

/// Appends a reply that reports an error.
pub fn structured_error(out: &mut Vec<u8>, cookie: u64, error: Error) {
    chunk(out, REPLY_ERROR, cookie, 6);
    out.extend((error as u32).to_be_bytes());
    out.extend(0u16.to_be_bytes());
}

/// Appends the extents of the metadata context `id`.
pub fn structured_block_status(out: &mut Vec<u8>, cookie: u64, id: u32, extents: &[StatusExtent]) {
    const HOLE_AND_ZERO: u32 = 3;
    chunk(out, REPLY_BLOCK_STATUS, cookie, 4 + 8 * extents.len() as u32);
    out.extend(id.to_be_bytes());
    for extent in extents {
        out.extend(extent.length.to_be_bytes());
        out.extend(if extent.hole { HOLE_AND_ZERO } else { 0 }.to_be_bytes());
    }
}
