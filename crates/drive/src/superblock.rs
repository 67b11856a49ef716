//! A superblock's record: the unit that is filled, emptied and erased as one.

use drivebay_units::{Ppa, named};

use crate::persist::{persist, persist_sometimes, persist_words};

/// Write stream of the host; of its first placement handle, where it has several.
pub const HOST: usize = 0;
/// Write stream of host data that is expected to live long, where the profile splits it off.
pub const COLD: usize = 2;

/// The write streams of a drive: each fills superblocks of its own.
///
/// Without placement: the host's, that of copies (the host's, where the profile has them share),
/// [`COLD`]. With placement: one for each handle, and behind them one for all copies, or one for
/// those of each handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// How many.
    pub count: usize,
    /// Placement handles; none without placement.
    pub handles: usize,
    /// Reclaim groups, each with as many streams, one behind the other.
    pub groups: usize,
    /// The stream of copies of the current group; with `apart`, of those of its first handle.
    pub copies: usize,
    /// Copies of each handle's data have a stream of their own.
    apart: bool,
}

impl Streams {
    /// Without placement.
    #[must_use]
    pub fn plain(shared: bool, by_lifespan: bool) -> Streams {
        let count = 2 + usize::from(by_lifespan);
        Streams { count, handles: 0, groups: 1, copies: usize::from(!shared), apart: false }
    }

    /// With so many placement handles in each of so many reclaim groups; `apart`: they are
    /// persistently isolated.
    #[must_use]
    pub fn placed(handles: usize, apart: bool, groups: usize) -> Streams {
        let count = groups * (handles + if apart { handles } else { 1 });
        Streams { count, handles, groups, copies: handles, apart }
    }

    /// The same with this reclaim group as the current one.
    #[must_use]
    pub fn of_group(self, group: usize) -> Streams {
        Streams { copies: group * self.group_count() + self.handles, ..self }
    }

    /// How many a reclaim group has.
    #[must_use]
    pub fn group_count(self) -> usize {
        self.count / self.groups
    }

    /// The reclaim group of a stream.
    #[must_use]
    pub fn group_of(self, stream: usize) -> usize {
        stream / self.group_count()
    }

    /// Whether the host's writes are split by lifespan, or as a plug-in says.
    #[must_use]
    pub fn splits(self) -> bool {
        self.handles == 0 && self.count > COLD
    }

    /// Whether copies go where the host writes.
    #[inline(always)]
    #[must_use]
    pub fn share(self) -> bool {
        self.copies == HOST
    }

    /// How many there are with placement; none without.
    #[must_use]
    pub fn placed_streams(self) -> usize {
        if self.handles == 0 { 0 } else { self.count }
    }

    /// Those of the host.
    pub fn hosts(self) -> impl Iterator<Item = usize> {
        let step = if self.handles == 0 { COLD } else { 1 };
        let is_host =
            move |stream: &usize| self.handles == 0 || stream % self.group_count() < self.handles;
        (HOST..self.count).step_by(step).filter(is_host)
    }

    /// Those of copies of the other handles' data, where they are kept apart.
    #[inline(always)]
    pub fn more_copies(self) -> std::ops::Range<usize> {
        self.copies + 1..if self.apart { self.copies + self.handles } else { 0 }
    }

    /// That of copies of what another stream of the current group placed.
    #[inline(always)]
    #[must_use]
    pub fn copies_of(self, stream: usize) -> usize {
        match self.apart {
            false => self.copies,
            true if stream < self.copies => self.handles + stream,
            true => stream,
        }
    }

    /// Whether copies of different streams go different ways.
    #[inline(always)]
    #[must_use]
    pub fn are_apart(self) -> bool {
        self.apart
    }

    /// That of a write with a placement handle of the first reclaim group; of one that the drive
    /// does not have, the first.
    #[inline(always)]
    #[must_use]
    pub fn of_handle(self, handle: u8) -> usize {
        if usize::from(handle) < self.handles { usize::from(handle) } else { HOST }
    }

    /// The same with handles of all groups, those of the second numbered behind those of the first.
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
    /// What a superblock is doing.
    pub enum State {
        /// Empty; perhaps not yet erased.
        Free = "free",
        /// A frontier writes to it.
        Open = "open",
        /// Full.
        Sealed = "sealed",
        /// Being emptied by garbage collection or folding.
        Victim = "victim",
        /// Never used, or given up.
        Bad = "bad",
    }
}

persist_words!(State: Free, Open, Sealed, Victim, Bad);

/// A superblock's record, apart from its count of valid pages.
#[derive(Clone, Copy, Debug)]
pub struct Superblock {
    pub state: State,
    /// Which stream filled it.
    pub stream: u8,
    /// Nothing has been written since its last erase.
    pub erased: bool,
    /// Order of sealing; smaller is older.
    pub sealed: u64,
    /// Number of its first flash page in its stream's buffer.
    pub first_page: u64,
    /// Times erased.
    pub erases: u32,
    /// Pages that the host had written when it was opened, where lifespans are followed.
    pub opened: u64,
    /// Used with one bit per cell since it was last opened.
    pub slc: bool,
    /// How many of the erases followed such use.
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

/// For how many bits per cell a superblock is opened, and from which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As many as its cells can hold.
    Native,
    /// One: a free superblock of the static SLC cache.
    Static,
    /// One: an ordinary free superblock.
    Dynamic,
}

/// What superblocks are emptied for; each has a victim of its own, so that none waits for another
/// to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Garbage collection.
    Collection,
    /// Garbage collection in idle time; the same as the other unless it has a policy of its own.
    Idle,
    /// Folding of the SLC cache.
    Folding,
}

/// How many purposes there are.
pub const PURPOSES: usize = 3;

/// A superblock being emptied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Victim {
    pub superblock: u32,
    /// First page address not yet read.
    pub next: u32,
    pub end: u32,
    /// Pages that it gives per page copied, in 1/65536, by what it held when it was chosen.
    pub given_per_copy: u64,
}

/// [`Victim::given_per_copy`] of a victim without valid pages: no copy gives so much.
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
    /// Which of its pages (mapping units) are valid: bit i is `first + i`.
    pub valid: u32,
    /// How many of its pages are valid.
    pub pages: u32,
    /// How many extents of consecutive logical pages they make.
    pub extents: u32,
}
