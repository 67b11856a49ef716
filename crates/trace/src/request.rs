//! One I/O of a trace.

use drivebay_units::{Nanos, named};

/// Most devices of a trace.
pub(crate) const DEVICES_MAX: usize = 1 << 16;

named! {
    /// Operation of a request.
    #[derive(PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Op {
        /// Data from the drive.
        Read = "read",
        /// Data to the drive.
        Write = "write",
        /// Data no longer needed (TRIM, discard, unmap).
        Trim = "trim",
        /// Makes written data durable; has no address and no bytes.
        Flush = "flush",
        /// Data to the drive that is durable once it completes (Force Unit Access).
        WriteFua = "write-fua",
    }
}

impl Op {
    /// True for writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Op::Write | Op::WriteFua)
    }

    /// True for reads and writes, which move data.
    #[must_use]
    pub const fn moves_data(self) -> bool {
        matches!(self, Op::Read) || self.writes()
    }
}

named! {
    /// Unit of a recording's times, given by the user.
    #[derive(Hash)]
    pub enum TimeUnit {
        /// Seconds.
        S = "s",
        /// Milliseconds.
        Ms = "ms",
        /// Microseconds.
        Us = "us",
        /// Nanoseconds.
        Ns = "ns",
    }
}

impl TimeUnit {
    /// Length of the unit in nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        match self {
            TimeUnit::S => 1_000_000_000,
            TimeUnit::Ms => 1_000_000,
            TimeUnit::Us => 1_000,
            TimeUnit::Ns => 1,
        }
    }
}

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Issue time: since the trace's first request if a [`crate::Trace`] has ordered it, otherwise
    /// on the recording's own clock.
    pub at: Nanos,
    /// Byte address on its device; `offset_bytes + bytes` is at most 2^63 - 1.
    pub offset_bytes: u64,
    /// Length; 0 for a flush, 1 to 4 GiB - 1 for a read or write, at least 1 for a trim.
    pub bytes: u64,
    /// Response time; `None` if the recording does not have it.
    pub response: Option<Nanos>,
    /// Number of the device in the recording, or in order of appearance if devices have names.
    pub device: u32,
    /// Read, write, trim or flush.
    pub op: Op,
}
