//! Policy plug-ins: code from outside that takes decisions of the controller, and what it sees of the drive.
//!
//! A plug-in takes one or more of three decisions: the victim of garbage collection, the host's frontier of a
//! write, the pace of garbage collection. What it does not take is the profile's. The structures are laid out as
//! C has them, so that `crates/policy` hands them to compiled code as they are.
//! A plug-in's state is a table of words that the drive owns: it is copied, saved and read back with the drive,
//! so a drive with a plug-in is as repeatable as any other. It knows nothing else from one decision to the next.
//! Left out: where a superblock is opened (the least worn or the one freed first), wear levelling and
//! folding of the SLC cache stay the drive's own, and so do superblocks that are moved because of errors.

use std::fmt::Debug;
use std::sync::Arc;

use crate::persist::persist;

/// No superblock, no stream.
pub const NONE: u32 = u32::MAX;
/// Most gain and growth of the duty limit that a plug-in may ask for, in 1/256: no product of the pacing
/// overflows.
pub const PACE_MAX: u64 = 1 << 20;
/// Most words of state: as much as the map of a 512 GB drive takes.
pub const STATE_WORDS_MAX: u64 = 1 << 26;

/// What every decision sees of the drive. Pages are of 4 KiB.
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
    /// 1 if it may be chosen: sealed, and not all of its pages are valid.
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
    /// For how many pages written by the host the superblock of the data that it replaces has been in use.
    pub lifespan_pages: u64,
    /// The mean of that over the last superblocks of the host's first stream that were reclaimed; 2^64 - 1 at first.
    pub mean_lifespan_pages: u64,
    /// How many pages it writes.
    pub pages: u32,
    /// Which stream wrote the data that its first page replaces; [`NONE`] if it replaces none.
    pub replaced_stream: u32,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decides {
    /// The victim of garbage collection.
    pub victim: bool,
    /// The host's frontier of a write.
    pub frontier: bool,
    /// The pace of garbage collection.
    pub pace: bool,
}

/// Decisions of the controller, taken outside this crate. The same arguments must give the same answer.
pub trait PolicyPlugin: Debug + Send + Sync {
    /// Name and digest, as the profile has them: `windowed@0123456789abcdef`.
    fn name(&self) -> &str;
    /// Which of the decisions below are asked for.
    fn decides(&self) -> Decides;
    /// Bytes of state that it needs on this drive.
    fn state_bytes(&self, drive: &DriveView) -> u64;
    /// A drive as new: sets the state, which is all zeros. `seed` is the drive's.
    fn start(&self, state: &mut [u64], drive: &DriveView, seed: u64);
    /// The number of a candidate in `all`, of which there is at least one.
    fn choose_victim(&self, state: &mut [u64], drive: &DriveView, all: &[SuperblockView]) -> u32;
    /// 0 for the host's first frontier, 1 for its second.
    fn place_write(&self, state: &mut [u64], drive: &DriveView, write: &HostWrite) -> u32;
    /// `pace` holds what the drive itself would do behind a command that took `pages`.
    fn set_pace(&self, state: &mut [u64], drive: &DriveView, pages: u64, pace: &mut Pace);
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
}

persist!(Decisions: victims, victims_alike, writes, writes_second, paces, paces_changed);
