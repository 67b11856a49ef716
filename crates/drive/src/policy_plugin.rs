//! Policy plug-ins: code from outside that takes decisions of the controller, and what it sees of
//! the drive.
//!
//! A plug-in takes one or more of seven decisions: the victim of garbage collection, the host's
//! frontier of a write, the pace of garbage collection, what wear levelling moves, which free
//! superblock is opened, whether a read passes the programs and erases of its die, and whether data
//! that needed read retries is moved. What it does not take is the profile's. The structures are
//! laid out as C has them, so that `crates/plugin` hands them to compiled code as they are. A
//! plug-in's state is a table of words that the drive owns: it is copied, saved and read back with
//! the drive, so a drive with a plug-in is as repeatable as any other. It knows nothing else from
//! one decision to the next. Left out: folding of the SLC cache. With which voltages a retry
//! begins: in the model a later step decodes all that an earlier one does, so that the last one
//! would always be the best. The order of reads among themselves, and of programs: a die has them
//! in the order in which they were asked.

use std::fmt::Debug;
use std::sync::Arc;

use crate::persist::persist;

/// No superblock, no stream.
pub const NONE: u32 = u32::MAX;
/// Most gain and growth of the duty limit that a plug-in may ask for, in 1/256: no product of the
/// pacing overflows.
pub const PACE_MAX: u64 = 1 << 20;
/// Most words of state: as much as the map of a 512 GB drive takes.
pub const STATE_WORDS_MAX: u64 = 1 << 26;

/// What every decision sees of the drive. Pages are mapping units: of 4 KiB, unless the profile
/// has larger ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveView {
    /// Pages that the host sees.
    pub user_pages: u64,
    /// Pages that are erased, or will be when the part of the victim already read is erased.
    pub free_pages: u64,
    /// Garbage collection behind writes runs while fewer are free.
    pub start_free_pages: u64,
    /// As many as the drive's own pacing settles at.
    pub target_free_pages: u64,
    /// Pages of a superblock.
    pub superblock_pages: u32,
    /// Superblocks in the list, without those of a static SLC cache.
    pub superblocks: u32,
    /// How many of them are free.
    pub free_superblocks: u32,
    /// How many of those only garbage collection may open.
    pub reserve_superblocks: u32,
}

/// A superblock as a plug-in sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SuperblockView {
    /// Superblocks sealed since it was; 0 unless it is sealed.
    pub age: u64,
    /// Pages with data that counts.
    pub valid: u32,
    /// Times erased.
    pub erases: u32,
    /// 0 free, 1 open, 2 sealed, 3 a victim already, 4 bad.
    pub state: u32,
    /// Which stream filled it: 0 the host's first, 2 its second, 1 or 0 garbage collection's.
    pub stream: u32,
    /// 1 if the decision at hand may choose it.
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
    /// For how many pages written by the host the superblock of the data that it replaces has been
    /// in use.
    pub lifespan_pages: u64,
    /// The mean of that over the last superblocks of the host's first stream that were reclaimed;
    /// 2^64 - 1 at first.
    pub mean_lifespan_pages: u64,
    /// How many pages it writes.
    pub pages: u32,
    /// Which stream wrote the data that its first page replaces; [`NONE`] if it replaces none.
    pub replaced_stream: u32,
}

/// A read that meets a program or an erase on its die. Times are nanoseconds from the moment at
/// which it could begin if there was none: it has been asked for, and the reads before it are over.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DieRead {
    /// The array part of the read.
    pub read_ns: u64,
    /// The program or erase that runs has so long to go; 0 if none has begun.
    pub running_ns: u64,
    /// All programs and erases asked of the die so far have ended by then.
    pub all_ns: u64,
    /// How long it takes to suspend what runs.
    pub suspend_ns: u64,
    /// How long the read has waited for reads already.
    pub waited_ns: u64,
    /// How many programs and erases have not ended.
    pub writes: u32,
    /// Number of the die.
    pub die: u32,
}

/// A flash read that needed retries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RetriedRead {
    /// How long the superblock's data has been there, at most.
    pub age_ns: u64,
    /// Number of the superblock.
    pub superblock: u32,
    /// Sensings beyond the first.
    pub retries: u32,
    /// Most of them that the drive makes.
    pub retries_max: u32,
    /// How many of the read's pages were lost all the same.
    pub lost: u32,
    /// Flash page reads of the superblock since it was opened.
    pub reads: u32,
    /// Its erases, when it was opened.
    pub cycles: u32,
}

/// How much garbage collection runs behind a command, in 1/256; at most [`PACE_MAX`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Pages to be given back per page that the host writes.
    pub gain_256: u64,
    /// The duty limit, as a multiple of the profile's.
    pub duty_256: u64,
}

/// Which decisions a plug-in takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decides {
    /// The victim of garbage collection.
    pub victim: bool,
    /// The host's frontier of a write.
    pub frontier: bool,
    /// The pace of garbage collection.
    pub pace: bool,
    /// What static wear levelling moves.
    pub wear: bool,
    /// Which free superblock is opened next.
    pub open: bool,
    /// Whether a read passes the programs and erases of its die.
    pub die_read: bool,
    /// Whether data is moved that needed retries.
    pub retried: bool,
}

/// Decisions of the controller, taken outside this crate. The same arguments must give the same
/// answer.
pub trait PolicyPlugin: Debug + Send + Sync {
    /// Name and digest, as the profile has them: `windowed@0123456789abcdef`.
    fn name(&self) -> &str;
    /// Which of the decisions below are asked for.
    fn decides(&self) -> Decides;
    /// Bytes of state that it needs on this drive.
    fn state_bytes(&self, drive: &DriveView) -> u64;
    /// A drive as new: sets the state, which is all zeros. `seed` is the drive's.
    fn start(&self, state: &mut [u64], drive: &DriveView, seed: u64);
    /// The number of a candidate in `all`, of which there is at least one; or of a sealed
    /// superblock that is full, but not of as many in a row as there are superblocks.
    fn choose_victim(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32;
    /// 0 for the host's first frontier, 1 for its second.
    fn place_write(&self, state: &mut [u64], drive: &DriveView, write: &HostWrite) -> u32;
    /// `pace` holds what the drive itself would do behind a command that took `pages`.
    fn set_pace(&self, state: &mut [u64], drive: &DriveView, pages: u64, pace: &mut Pace);
    /// The number of a candidate in `all` whose data is to be moved for wear, or [`NONE`].
    fn level_wear(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32;
    /// The number of a candidate in `all`, the free ones, of which there is at least one.
    fn open_superblock(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32;
    /// 0: as the drive itself, it suspends what runs; 1: after what runs, before what waits; 2:
    /// after all.
    fn schedule_read(&self, state: &mut [u64], drive: &DriveView, read: &DieRead) -> u32;
    /// 1 to have the superblock's data moved; 0 to leave it.
    fn read_retried(&self, state: &mut [u64], drive: &DriveView, read: &RetriedRead) -> u32;
}

/// A plug-in as a checked profile has it.
#[derive(Clone, Debug)]
pub struct PluginSpec {
    pub code: Arc<dyn PolicyPlugin>,
    pub drive: DriveView,
    pub state_words: usize,
}

/// What a plug-in was asked since the drive was made: whether it can have mattered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Victims that it was asked for.
    pub victims: u64,
    /// Of these, those where every candidate held as many valid pages.
    pub victims_alike: u64,
    /// Writes whose frontier it was asked for.
    pub writes: u64,
    /// Of these, those to the host's second frontier.
    pub writes_second: u64,
    /// Commands whose pace it was asked for.
    pub paces: u64,
    /// Of these, those where it answered otherwise than the drive would have done.
    pub paces_changed: u64,
    /// Times that it was asked what wear levelling is to move.
    pub levelings: u64,
    /// Of these, those where it named a superblock.
    pub levelings_moved: u64,
    /// Superblocks to be opened that it was asked for.
    pub opens: u64,
    /// Of these, those where the drive itself would have opened another.
    pub opens_changed: u64,
    /// Reads that met a program or an erase.
    pub die_reads: u64,
    /// Of these, those that it had wait.
    pub die_reads_delayed: u64,
    /// Reads with retries.
    pub retried: u64,
    /// Of these, those whose superblock it had moved.
    pub retried_moved: u64,
}

persist!(Decisions: victims, victims_alike, writes, writes_second, paces, paces_changed, levelings,
    levelings_moved, opens, opens_changed, die_reads, die_reads_delayed, retried, retried_moved);
