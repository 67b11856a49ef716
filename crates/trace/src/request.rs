//! One I/O of a trace.

use drivebay_units::{Nanos, named};

/// Most devices of a trace.
pub(crate) const DEVICES_MAX: usize = 1 << 16;

named! {
    /// What a request asks for.
    #[derive(PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Op {
        /// Data from the drive.
        Read = "read",
        /// Data to the drive.
        Write = "write",
        /// Data no longer needed (TRIM, discard, unmap).
        Trim = "trim",
        /// Written data made durable; has no bytes of its own.
        Flush = "flush",
    }
}

impl Op {
    /// Reads and writes: what moves data.
    #[must_use]
    pub const fn moves_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }
}

named! {
    /// The unit of a recording's times, where the user names it.
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
    /// Its length in nanoseconds.
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
    /// When the host issued it. Since the trace's first request, once a [`crate::Trace`] has
    /// ordered it; on the recording's own clock before.
    pub at: Nanos,
    /// Byte address on its device; `offset_bytes + bytes` is at most 2^63 - 1.
    pub offset_bytes: u64,
    /// Length; 0 for a flush, 1 to 4 GiB - 1 for a read or write, at least 1 for a trim.
    pub bytes: u64,
    /// How long it took; None where the recording does not say.
    pub response: Option<Nanos>,
    /// The device, as the recording numbers it; in order of appearance where it has names.
    pub device: u32,
    /// Read, write, trim or flush.
    pub op: Op,
}
