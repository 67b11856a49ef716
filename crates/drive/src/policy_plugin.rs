//! Policy plug-ins: external code that makes decisions of the controller, and its view of the
//! drive.
//!
//! A plug-in makes one or more of seven decisions: the victim of garbage collection, the host's
//! frontier of a write, the pace of garbage collection, the data that wear levelling moves, the
//! free superblock that is opened, whether a read passes the programs and erases of its die, and
//! whether data that needed read retries is moved. For other decisions the profile applies. The
//! structures have C layout, so that `crates/plugin` can pass them to compiled code directly. A
//! plug-in's state is a table of words that the drive owns: it is copied, saved and read back with
//! the drive, so a drive with a plug-in is as repeatable as any other. The plug-in keeps nothing
//! else between decisions. Left out: folding of the SLC cache. The voltages with which a retry
//! begins: in the model a later step decodes everything that an earlier step decodes, so that the
//! last one would always be the best. The order of reads among themselves, and of programs: a die
//! serves them in the order of their requests.

use std::fmt::Debug;
use std::sync::Arc;

use crate::persist::persist;

/// Value for no superblock or no stream.
pub const NONE: u32 = u32::MAX;
/// Maximum gain and growth of the duty limit that a plug-in may request, in 1/256. Up to this limit
/// no product of the pacing overflows.
pub const PACE_MAX: u64 = 1 << 20;
/// Maximum words of state: as much as the map of a 512 GB drive takes.
pub const STATE_WORDS_MAX: u64 = 1 << 26;

/// View of the drive for every decision. Pages are mapping units: 4 KiB, unless the profile has
/// larger ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveView {
    /// Pages of the host's address space.
    pub user_pages: u64,
    /// Pages that are erased, or will be when the part of the victim already read is erased.
    pub free_pages: u64,
    /// Number of free pages below which garbage collection runs after writes.
    pub start_free_pages: u64,
    /// Number of free pages at which the drive's own pacing settles.
    pub target_free_pages: u64,
    /// Pages of a superblock.
    pub superblock_pages: u32,
    /// Superblocks in the list, without those of a static SLC cache.
    pub superblocks: u32,
    /// Number of free superblocks.
    pub free_superblocks: u32,
    /// Number of free superblocks that only garbage collection may open.
    pub reserve_superblocks: u32,
}

/// View of a superblock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SuperblockView {
    /// Number of superblocks sealed since this one; 0 unless it is sealed.
    pub age: u64,
    /// Pages with valid data.
    pub valid: u32,
    /// Number of erases.
    pub erases: u32,
    /// State: 0 free, 1 open, 2 sealed, 3 a victim already, 4 bad.
    pub state: u32,
    /// Stream that filled it: 0 the host's first, 2 its second, 1 or 0 garbage collection's.
    pub stream: u32,
    /// 1 if the present decision may choose it.
    pub candidate: u32,
    /// Always 0.
    pub reserved: u32,
}

/// A write of the host that needs a frontier.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostWrite {
    /// Number of its first page.
    pub lpn: u64,
    /// Lifetime of the superblock of the overwritten data, in pages written by the host.
    pub lifespan_pages: u64,
    /// Mean lifetime of the recently reclaimed superblocks of the host's first stream; 2^64 - 1 at
    /// first.
    pub mean_lifespan_pages: u64,
    /// Number of pages.
    pub pages: u32,
    /// Stream that wrote the overwritten data of its first page; [`NONE`] if it overwrites none.
    pub replaced_stream: u32,
}

/// A read that meets a program or an erase on its die. Times are in nanoseconds from the moment at
/// which it could otherwise begin: it has been requested, and earlier reads are over.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DieRead {
    /// Array time of the read.
    pub read_ns: u64,
    /// Remaining time of the running program or erase; 0 if none has begun.
    pub running_ns: u64,
    /// Time until all programs and erases requested from the die so far have ended.
    pub all_ns: u64,
    /// Time to suspend the running operation.
    pub suspend_ns: u64,
    /// Time that the read has waited for other reads.
    pub waited_ns: u64,
    /// Number of programs and erases that have not ended.
    pub writes: u32,
    /// Number of the die.
    pub die: u32,
}

/// A flash read that needed retries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RetriedRead {
    /// Maximum age of the superblock's data.
    pub age_ns: u64,
    /// Number of the superblock.
    pub superblock: u32,
    /// Sensings beyond the first.
    pub retries: u32,
    /// Maximum number of retries of the drive.
    pub retries_max: u32,
    /// Number of pages of the read that were lost after all retries.
    pub lost: u32,
    /// Flash page reads of the superblock since it was opened.
    pub reads: u32,
    /// Number of erases of the superblock when it was opened.
    pub cycles: u32,
}

/// Pace of garbage collection after a command, in 1/256; at most [`PACE_MAX`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Pages to be reclaimed per page that the host writes.
    pub gain_256: u64,
    /// Duty limit, as a multiple of the profile's.
    pub duty_256: u64,
}

/// Decisions that a plug-in makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decides {
    /// Victim of garbage collection.
    pub victim: bool,
    /// Host's frontier of a write.
    pub frontier: bool,
    /// Pace of garbage collection.
    pub pace: bool,
    /// Data that static wear levelling moves.
    pub wear: bool,
    /// Free superblock that is opened next.
    pub open: bool,
    /// Order of a read relative to programs and erases of its die.
    pub die_read: bool,
    /// Move of data that needed retries.
    pub retried: bool,
}

/// Decisions of the controller that external code makes. Equal arguments must give equal answers.
pub trait PolicyPlugin: Debug + Send + Sync {
    /// Name and digest as in the profile: `windowed@0123456789abcdef`.
    fn name(&self) -> &str;
    /// Decisions for which the drive calls the plug-in.
    fn decides(&self) -> Decides;
    /// Bytes of state that the plug-in needs on this drive.
    fn state_bytes(&self, drive: &DriveView) -> u64;
    /// Initializes the state, which is all zeros, for a new drive with this `seed`.
    fn start(&self, state: &mut [u64], drive: &DriveView, seed: u64);
    /// Returns the number of a candidate in `all`, which has at least one. It may also return a
    /// sealed superblock that is full, but not as many in a row as there are superblocks.
    fn choose_victim(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32;
    /// Returns 0 for the host's first frontier, 1 for its second.
    fn place_write(&self, state: &mut [u64], drive: &DriveView, write: &HostWrite) -> u32;
    /// Sets the pace after a command of `pages` pages; `pace` holds the drive's own choice.
    fn set_pace(&self, state: &mut [u64], drive: &DriveView, pages: u64, pace: &mut Pace);
    /// Returns the number of a candidate in `all` whose data is to be moved for wear levelling, or
    /// [`NONE`].
    fn level_wear(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32;
    /// Returns the number of a candidate in `all`, which are the free superblocks. There is at
    /// least one.
    fn open_superblock(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32;
    /// Returns 0 to suspend the running operation, as the drive itself does; 1 to read after the
    /// running operation and before waiting ones; 2 to read after all.
    fn schedule_read(&self, state: &mut [u64], drive: &DriveView, read: &DieRead) -> u32;
    /// Returns 1 to move the superblock's data, 0 to leave it.
    fn read_retried(&self, state: &mut [u64], drive: &DriveView, read: &RetriedRead) -> u32;
}

/// The plug-in of a checked profile.
#[derive(Clone, Debug)]
pub struct PluginSpec {
    pub code: Arc<dyn PolicyPlugin>,
    pub drive: DriveView,
    pub state_words: usize,
}

/// Counts of a plug-in's decisions since the drive was made; they show if it can have mattered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Choices of a victim.
    pub victims: u64,
    /// Choices in which every candidate had the same number of valid pages.
    pub victims_alike: u64,
    /// Choices of a write's frontier.
    pub writes: u64,
    /// Writes to the host's second frontier.
    pub writes_second: u64,
    /// Choices of a pace.
    pub paces: u64,
    /// Choices of a pace that differed from the drive's own.
    pub paces_changed: u64,
    /// Choices of wear levelling.
    pub levelings: u64,
    /// Choices of wear levelling that named a superblock.
    pub levelings_moved: u64,
    /// Choices of a superblock to open.
    pub opens: u64,
    /// Choices of a superblock that differed from the drive's own.
    pub opens_changed: u64,
    /// Reads that met a program or an erase.
    pub die_reads: u64,
    /// Such reads that the plug-in delayed.
    pub die_reads_delayed: u64,
    /// Reads with retries.
    pub retried: u64,
    /// Such reads whose superblock's data the plug-in moved.
    pub retried_moved: u64,
}

persist!(Decisions: victims, victims_alike, writes, writes_second, paces, paces_changed, levelings,
    levelings_moved, opens, opens_changed, die_reads, die_reads_delayed, retried, retried_moved);
