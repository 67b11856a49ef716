//! Requests of the host, and their completions.
//!
//! Names follow the NVMe base specification; ATA's equivalents (FLUSH CACHE, DATA SET MANAGEMENT
//! TRIM, the FUA bit) mean the same here. The contents of data are not part of a request.

use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::persist::{persist, persist_words};
use crate::stage::Stages;

/// The kind of a request. Related kinds are adjacent, so that each test for a group is one
/// comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Flush: all acknowledged data goes to flash. Address and count are ignored.
    Flush,
    /// Dataset Management, Deallocate (TRIM): unmaps whole pages; they read as zeros afterwards.
    Trim,
    /// Write Zeroes: unmaps whole pages, writes the partial ones at the edges.
    WriteZeroes,
    /// Reclaim Unit Handle Update (I/O Management Send): the handle's next write begins a new
    /// reclaim unit. Address and count are ignored.
    HandleUpdate,
    /// Read; done when the host has the data.
    Read,
    /// Write; done when the data is in the write buffer.
    Write,
    /// Write with Force Unit Access; done when the data is on flash.
    WriteFua,
    /// Zone Append: a write to the zone that begins at `lba`; the completion's `lba` is the address
    /// of the data.
    Append,
    /// A write to a zone's random write area. The drive converts a write to a zone with such an
    /// area to this kind.
    ZrwaWrite,
    /// Zone Management Send, Open Zone. This and the following kinds apply to the zone that begins
    /// at `lba`; the count is ignored.
    ZoneOpen,
    /// Close Zone.
    ZoneClose,
    /// Finish Zone.
    ZoneFinish,
    /// Reset Zone.
    ZoneReset,
    /// Open Zone, with a random write area.
    ZoneOpenZrwa,
    /// Flush Explicit ZRWA: moves the write pointer behind the block of 4 KiB at `lba`.
    ZrwaFlush,
    /// Offline Zone.
    ZoneOffline,
}

persist_words!(Op: Read, Write, WriteFua, Flush, Trim, WriteZeroes, HandleUpdate, Append, ZrwaWrite, ZoneOpen,
    ZoneClose, ZoneFinish, ZoneReset, ZoneOpenZrwa, ZrwaFlush, ZoneOffline);

impl Op {
    /// True if data is written.
    #[inline(always)]
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteFua | Op::Append | Op::ZrwaWrite)
    }

    /// True if it belongs to the Zone Management Send command.
    #[inline(always)]
    #[must_use]
    pub fn is_zone_management(self) -> bool {
        self as u8 >= Op::ZoneOpen as u8
    }
}

/// A request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The kind of the request.
    pub op: Op,
    /// First sector of 512 B.
    pub lba: u64,
    /// Number of sectors; at least one, except for a flush.
    pub sectors: u32,
    /// Placement handle (Flexible Data Placement) of a write or an update; 0 if not specified.
    pub handle: u8,
}

persist!(Io: op, lba, sectors, handle);

impl Io {
    /// Creates a request without a placement handle.
    #[inline(always)]
    #[must_use]
    pub const fn new(op: Op, lba: u64, sectors: u32) -> Io {
        Io { op, lba, sectors, handle: 0 }
    }

    /// Bytes transferred between host and drive.
    #[inline(always)]
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let moves = self.op == Op::Read || self.op.is_write();
        if moves { u64::from(self.sectors) * SECTOR_BYTES } else { 0 }
    }
}

/// A command in a submission queue.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// Time at which the host began the command.
    pub at: Nanos,
    /// Time from which the controller can fetch it.
    pub ready: Nanos,
}

/// The request that reaches the flash core next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextCommand {
    /// Identifier of the request, set by the host.
    pub tag: u32,
    /// Time at which it reaches the flash core.
    pub at: Nanos,
    /// True if no later submission can come before it.
    pub settled: bool,
}

/// The completion of a request, with its time per stage.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Identifier of the request, set by the host.
    pub tag: u32,
    /// The request that was completed.
    pub io: Io,
    /// Time of submission.
    pub submitted: Nanos,
    /// Time at which the host saw the completion.
    pub done: Nanos,
    /// Time per stage; the sum is `done` minus `submitted`.
    pub stages: Stages,
    /// True if data could not be read after all retries (NVMe: Unrecovered Read Error).
    pub media_error: bool,
}

/// Reason why a zone refuses a command, named as the status codes of the zoned command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneProblem {
    /// Zone Boundary Error.
    #[error("the data ends beyond the zone's capacity\nhint: split it at the end of the zone")]
    Boundary,
    /// Zone Is Full.
    #[error("the zone is full\nhint: reset it, or write to another")]
    Full,
    /// Zone Invalid Write.
    #[error(
        "the write does not begin at the zone's write pointer\nhint: write a zone in sequence, one write at a time, or append"
    )]
    InvalidWrite,
    /// Too Many Active Zones.
    #[error("as many zones are active as may be\nhint: finish or reset one, or raise zns.active")]
    TooManyActive,
    /// Too Many Open Zones.
    #[error("as many zones are open as may be, by command\nhint: close one, or raise zns.open")]
    TooManyOpen,
    /// Invalid Zone State Transition.
    #[error(
        "no such change from the zone's state\nhint: open a zone that is not full, close one that is open"
    )]
    Transition,
    /// Zone Is Read Only.
    #[error("the zone is read-only\nhint: read what is in it, and write to another")]
    ReadOnly,
    /// Zone Is Offline.
    #[error("the zone is offline\nhint: what was in it is lost; use others")]
    Offline,
    /// Invalid Zone Operation Request.
    #[error(
        "not with the zone's random write area\nhint: append to zones without one, flush and fill one that was opened with one"
    )]
    Operation,
    /// ZRWA Resources Unavailable.
    #[error(
        "no random write area is to be had\nhint: finish or reset a zone that has one, or raise zns.zrwa.zones"
    )]
    NoZrwa,
    /// Invalid Field: end of the flush.
    #[error(
        "the flush does not end in the zone's random write area, a multiple of zns.zrwa.granularity_kib behind the write pointer\nhint: flush up to such a block"
    )]
    FlushRange,
    /// The address is not that of a zone's first block.
    #[error("the address is not a zone's first block\nhint: give the zone by its beginning")]
    NotItsStart,
    /// Data is not in whole blocks.
    #[error("the data is not in blocks of 4 KiB\nhint: write whole blocks")]
    Unaligned,
    /// The command is not valid for zones.
    #[error("a zone takes no such command\nhint: a zone is emptied by a reset")]
    NotZoned,
    /// The drive has no zones.
    #[error(
        "the drive has no zones\nhint: give it some with zns=14, or leave zones out of the workload"
    )]
    NoZones,
}

/// Reason why a drive refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The request exceeds the drive's address space.
    #[error(
        "{op:?} of {sectors} sectors at sector {lba} does not fit a drive of {capacity} sectors\nhint: stay below the drive's capacity, with at least one sector"
    )]
    OutOfRange {
        /// The kind of the request.
        op: Op,
        /// First sector.
        lba: u64,
        /// Number of sectors.
        sectors: u32,
        /// Number of sectors of the drive.
        capacity: u64,
    },
    /// The zone refuses the command.
    #[error("{op:?} to zone {zone}: {problem}")]
    Zone {
        /// The kind of the request.
        op: Op,
        /// Number of the zone.
        zone: u32,
        /// Reason.
        problem: ZoneProblem,
    },
    /// More data than a command can carry.
    #[error(
        "{op:?} of {sectors} sectors is too long for one command\nhint: split it; a command carries at most 2097152 sectors"
    )]
    TooLong {
        /// The kind of the request.
        op: Op,
        /// Number of sectors.
        sectors: u32,
    },
    /// Too many blocks have failed.
    #[error(
        "the drive has reached its end of life and is read-only: {failed_blocks} blocks have failed\nhint: it can still be read; start from a fresh drive, write less, or raise reliability.block_life_cycles or reliability.spare_blocks"
    )]
    ReadOnly {
        /// Blocks that failed in use.
        failed_blocks: u64,
    },
    /// No erased superblock, and no victim for garbage collection.
    #[error(
        "the drive has no free flash left and no victim for garbage collection\nhint: the profile's spare space is too small for its reserve; raise nand.blocks_per_plane"
    )]
    NoSpace,
    /// A policy plug-in gave an answer that is not allowed.
    #[error(
        "the policy {policy} answered {decision} with {answer}, which is not {allowed}\nhint: mend the policy; drivebay/policy.h says what each function may answer"
    )]
    Policy {
        /// Name and digest of the plug-in.
        policy: String,
        /// Name of the called function.
        decision: &'static str,
        /// Answer of the plug-in.
        answer: u64,
        /// Allowed answers.
        allowed: &'static str,
    },
    /// The machine has not enough memory for the map.
    #[error(
        "no memory for the map: {0}\nhint: run fewer tests at a time (--jobs 1), or a smaller drive"
    )]
    Memory(String),
}
