//! The record of a superblock: the unit that is filled, emptied and erased as one.

use drivebay_units::{Ppa, named};

use crate::persist::{persist, persist_sometimes, persist_words};

/// Write stream of the host, or of its first placement handle if it has several.
pub const HOST: usize = 0;
/// Write stream of host data that is expected to live long, if the profile separates it.
pub const COLD: usize = 2;

/// The write streams of a drive. Each fills its own superblocks.
///
/// Without placement: the host's stream, that of copies (the host's, if the profile lets them
/// share), [`COLD`]. With placement: one for each handle, then one for all copies, or one for the
/// copies of each handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// Number of streams.
    pub count: usize,
    /// Number of placement handles; zero without placement.
    pub handles: usize,
    /// Number of reclaim groups. Each has the same number of streams, numbered group by group.
    pub groups: usize,
    /// Stream of copies of the current group; with `apart`, of copies of its first handle.
    pub copies: usize,
    /// True if copies of each handle's data have their own stream.
    apart: bool,
}

impl Streams {
    /// Creates streams without placement.
    #[must_use]
    pub fn plain(shared: bool, by_lifespan: bool) -> Streams {
        let count = 2 + usize::from(by_lifespan);
        Streams { count, handles: 0, groups: 1, copies: usize::from(!shared), apart: false }
    }

    /// Creates streams with `handles` placement handles in each of `groups` reclaim groups; `apart`
    /// is true if they are persistently isolated.
    #[must_use]
    pub fn placed(handles: usize, apart: bool, groups: usize) -> Streams {
        let count = groups * (handles + if apart { handles } else { 1 });
        Streams { count, handles, groups, copies: handles, apart }
    }

    /// Returns the streams with this reclaim group as the current one.
    #[must_use]
    pub fn of_group(self, group: usize) -> Streams {
        Streams { copies: group * self.group_count() + self.handles, ..self }
    }

    /// Number of streams per reclaim group.
    #[must_use]
    pub fn group_count(self) -> usize {
        self.count / self.groups
    }

    /// Reclaim group of a stream.
    #[must_use]
    pub fn group_of(self, stream: usize) -> usize {
        stream / self.group_count()
    }

    /// True if the host's writes are split by lifespan or by a plug-in.
    #[must_use]
    pub fn splits(self) -> bool {
        self.handles == 0 && self.count > COLD
    }

    /// True if copies go to the host's stream.
    #[inline(always)]
    #[must_use]
    pub fn share(self) -> bool {
        self.copies == HOST
    }

    /// Number of streams with placement; zero without.
    #[must_use]
    pub fn placed_streams(self) -> usize {
        if self.handles == 0 { 0 } else { self.count }
    }

    /// Streams of the host.
    pub fn hosts(self) -> impl Iterator<Item = usize> {
        let step = if self.handles == 0 { COLD } else { 1 };
        let is_host =
            move |stream: &usize| self.handles == 0 || stream % self.group_count() < self.handles;
        (HOST..self.count).step_by(step).filter(is_host)
    }

    /// Streams of copies of the other handles' data, if they are kept apart.
    #[inline(always)]
    pub fn more_copies(self) -> std::ops::Range<usize> {
        self.copies + 1..if self.apart { self.copies + self.handles } else { 0 }
    }

    /// Stream of copies of data that another stream of the current group placed.
    #[inline(always)]
    #[must_use]
    pub fn copies_of(self, stream: usize) -> usize {
        match self.apart {
            false => self.copies,
            true if stream < self.copies => self.handles + stream,
            true => stream,
        }
    }

    /// True if copies of different streams are kept apart.
    #[inline(always)]
    #[must_use]
    pub fn are_apart(self) -> bool {
        self.apart
    }

    /// Stream of a write with a placement handle of the first reclaim group; the first stream if
    /// the drive does not have this handle.
    #[inline(always)]
    #[must_use]
    pub fn of_handle(self, handle: u8) -> usize {
        if usize::from(handle) < self.handles { usize::from(handle) } else { HOST }
    }

    /// Stream of a write with a placement handle of any group, numbered group by group.
    #[must_use]
    pub fn of_place(self, place: u8) -> usize {
        let (group, handle) = match usize::from(place) {
            place if place < self.handles * self.groups => {
                (place / self.handles, place % self.handles)
            }
            _ => (0, HOST),
        };
        group * self.group_count() + handle
    }
}

named! {
    /// The state of a superblock.
    pub enum State {
        /// Empty; perhaps not yet erased.
        Free = "free",
        /// A frontier writes to it.
        Open = "open",
        /// Full.
        Sealed = "sealed",
        /// Being emptied by garbage collection or folding.
        Victim = "victim",
        /// Never used, or retired.
        Bad = "bad",
    }
}

persist_words!(State: Free, Open, Sealed, Victim, Bad);

/// A superblock's record, apart from its count of valid pages.
#[derive(Clone, Copy, Debug)]
pub struct Superblock {
    pub state: State,
    /// Stream that filled it.
    pub stream: u8,
    /// True if nothing has been written since its last erase.
    pub erased: bool,
    /// Order of sealing; smaller is older.
    pub sealed: u64,
    /// Number of its first flash page in its stream's buffer.
    pub first_page: u64,
    /// Number of erases.
    pub erases: u32,
    /// Pages that the host had written when it was opened, if lifespans are tracked.
    pub opened: u64,
    /// True if used with one bit per cell since it was last opened.
    pub slc: bool,
    /// Number of erases after such use.
    pub slc_erases: u32,
}

impl Superblock {
    /// Record of a superblock that was never used.
    pub const FRESH: Superblock = Superblock {
        state: State::Free,
        stream: 0,
        erased: true,
        sealed: 0,
        first_page: 0,
        erases: 0,
        opened: 0,
        slc: false,
        slc_erases: 0,
    };
}

persist!(Superblock: state, stream, erased, sealed, first_page, erases, opened, slc, slc_erases);

/// The bits per cell for which a superblock is opened, and the list from which it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All bits that its cells can hold.
    Native,
    /// One bit: a free superblock of the static SLC cache.
    Static,
    /// One bit: an ordinary free superblock.
    Dynamic,
}

/// The purpose of emptying superblocks. Each purpose has its own victim, so that none waits for
/// another to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Garbage collection.
    Collection,
    /// Garbage collection in idle time; the same as `Collection` unless it has its own policy.
    Idle,
    /// Folding of the SLC cache.
    Folding,
}

/// Number of purposes.
pub const PURPOSES: usize = 3;

/// A superblock that is being emptied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Victim {
    pub superblock: u32,
    /// First page address not yet read.
    pub next: u32,
    pub end: u32,
    /// Pages that it reclaims per copied page, in 1/65536, by its contents when it was chosen.
    pub given_per_copy: u64,
}

/// [`Victim::given_per_copy`] of a victim without valid pages: no copy reclaims this much.
pub const EMPTY: u64 = u64::MAX;

persist!(Victim: superblock, next, end, given_per_copy);
persist_sometimes!(Victim);

/// A flash page of the victim with valid data in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The superblock that is emptied.
    pub superblock: u32,
    /// First address in the flash page.
    pub first: Ppa,
    /// Valid pages (mapping units): bit i is `first + i`.
    pub valid: u32,
    /// Number of valid pages.
    pub pages: u32,
    /// Number of extents of consecutive logical pages that they form.
    pub extents: u32,
}
