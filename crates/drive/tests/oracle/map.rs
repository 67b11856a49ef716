//! The oracle's map: dictionaries from LPN to PPA and back, and lists of superblocks, including
//! those of the SLC cache.

use std::collections::{BTreeMap, HashMap, VecDeque};

use drivebay_drive::Spec;

/// Write stream of the host.
pub const HOST: usize = 0;
/// Victim of garbage collection; the next constant is that of folding.
pub const GC: usize = 0;
pub const FOLD: usize = 1;

/// The list from which a free superblock comes, and its bits per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Native,
    /// A superblock of the static SLC cache.
    Static,
    /// An ordinary superblock in the SLC cache.
    Dynamic,
}

/// The state of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Sealed(u64),
    Victim,
}

#[derive(Clone, Copy, Debug)]
struct Superblock {
    state: State,
    valid: u32,
    stream: usize,
    /// Number of its pages in its present use, and true if it belongs to the cache.
    pages: u32,
    mode: Mode,
    /// Number of its first flash page in its stream.
    first_page: u64,
    /// Flash pages that each stream had begun when it was reclaimed; `None` once it is erased.
    given_back: Option<[u64; 2]>,
}

/// A flash page of a write stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamPage {
    pub stream: usize,
    /// Number of the flash page in the stream.
    pub page: u64,
}

/// Locations of all pages.
pub struct Map {
    user: HashMap<u32, u32>,
    back: HashMap<u32, u32>,
    superblocks: Vec<Superblock>,
    free: VecDeque<u32>,
    free_static: VecDeque<u32>,
    /// Superblock and number of its used pages, by stream.
    open: [Option<(u32, u32)>; 2],
    /// Superblock and number of its read pages, by victim.
    victims: [Option<(u32, u32)>; 2],
    /// Valid pages of garbage collection's victim when it was chosen.
    held: u64,
    seals: u64,
    superblock_pages: u32,
    flash_page_pages: u32,
    oldest_first: bool,
    /// SLC cache: pages of a superblock, maximum dynamic superblocks, free pages that it must
    /// leave.
    cache: Option<(u32, usize, u64)>,
    reserve: usize,
    pub copy_stream: usize,
}

impl Map {
    pub fn new(spec: &Spec) -> Map {
        let g = &spec.geometry;
        let pages = g.superblock_pages;
        let good = g.superblocks - g.bad_superblocks;
        let ordinary = good - g.slc_superblocks;
        let fresh = |index| Superblock {
            state: State::Free,
            valid: 0,
            stream: 0,
            pages,
            mode: if index < ordinary { Mode::Native } else { Mode::Static },
            first_page: 0,
            given_back: None,
        };
        let policy = spec.raw.gc().victim_policy.value.as_str();
        assert!(policy == "greedy" || policy == "fifo", "the oracle knows no {policy}");
        Map {
            user: HashMap::new(),
            back: HashMap::new(),
            superblocks: (0..good).map(fresh).collect(),
            free: (0..ordinary).collect(),
            free_static: (ordinary..good).collect(),
            open: [None; 2],
            victims: [None; 2],
            held: 0,
            seals: 0,
            superblock_pages: pages,
            flash_page_pages: 1 << g.page_shift,
            oldest_first: policy == "fifo",
            cache: spec
                .slc_cache
                .map(|c| (c.superblock_pages, c.dynamic_max as usize, c.keep_free)),
            reserve: spec.reserve_superblocks as usize,
            copy_stream: usize::from(!spec.streams.share()),
        }
    }

    pub fn ppa_of(&self, page: u32) -> Option<u32> {
        self.user.get(&page).copied()
    }

    pub fn stream_page_of(&self, ppa: u32) -> StreamPage {
        let s = &self.superblocks[(ppa / self.superblock_pages) as usize];
        let page = s.first_page + u64::from(ppa % self.superblock_pages / self.flash_page_pages);
        StreamPage { stream: s.stream, page }
    }

    pub fn free_superblocks(&self) -> usize {
        self.free.len()
    }

    pub fn room(&self, stream: usize) -> u32 {
        self.open[stream].map_or(0, |(index, used)| self.superblocks[index as usize].pages - used)
    }

    /// True if an address holds one bit per cell.
    pub fn is_slc(&self, ppa: u32) -> bool {
        self.superblocks[(ppa / self.superblock_pages) as usize].mode != Mode::Native
    }

    /// True if a flash page can be copied without touching the reserve.
    pub fn may_copy_beside_reserve(&self) -> bool {
        self.room(self.copy_stream) >= self.flash_page_pages || self.free.len() > self.reserve
    }

    /// List from which the SLC cache's next superblock would come; `None` if it is full.
    pub fn next_of_cache(&self) -> Option<Mode> {
        let (_, most, keep) = self.cache?;
        if !self.free_static.is_empty() {
            return Some(Mode::Static);
        }
        let used =
            self.superblocks.iter().filter(|s| s.mode == Mode::Dynamic && s.state != State::Free);
        let left = self.free_pages().saturating_sub(u64::from(self.superblock_pages));
        (used.count() < most && self.free.len() > self.reserve && left >= keep)
            .then_some(Mode::Dynamic)
    }

    /// Superblock that folding empties now or next: an empty one, or the oldest.
    fn to_fold(&self) -> Option<u32> {
        let rank = |index: u32| match self.superblocks[index as usize] {
            Superblock { state: State::Sealed(age), valid, mode, .. } if mode != Mode::Native => {
                Some((valid > 0, age, index))
            }
            _ => None,
        };
        let next = || (0..self.superblocks.len() as u32).filter_map(rank).min();
        self.victims[FOLD].map(|(index, _)| index).or_else(|| Some(next()?.2))
    }

    pub fn can_fold(&self) -> bool {
        self.to_fold().is_some()
    }

    pub fn fold_is_empty(&self) -> bool {
        self.to_fold().is_some_and(|index| self.superblocks[index as usize].valid == 0)
    }

    /// Pages that are erased, or will be when the part of the victim already read is erased.
    pub fn free_pages(&self) -> u64 {
        let whole = self.free.len() as u64 * u64::from(self.superblock_pages);
        let read: u32 = self.victims.iter().flatten().map(|&(_, read)| read).sum();
        whole + u64::from(self.room(0)) + u64::from(self.room(1)) + u64::from(read)
    }

    fn free_of(&mut self, mode: Mode) -> &mut VecDeque<u32> {
        if mode == Mode::Static { &mut self.free_static } else { &mut self.free }
    }

    /// Seals a stream's superblock and opens the one that has been free longest.
    pub fn open(&mut self, stream: usize, first_page: u64, mode: Mode) {
        assert_eq!(self.room(stream), 0);
        if let Some((full, _)) = self.open[stream] {
            self.superblocks[full as usize].state = State::Sealed(self.seals);
            self.seals += 1;
        }
        let index = self.free_of(mode).pop_front().expect("an erased superblock");
        let slc_pages = self.cache.map_or(0, |(pages, ..)| pages);
        let pages = if mode == Mode::Native { self.superblock_pages } else { slc_pages };
        let (state, valid) = (State::Open, 0);
        self.superblocks[index as usize] =
            Superblock { state, valid, stream, pages, mode, first_page, given_back: None };
        self.open[stream] = Some((index, 0));
    }

    /// Puts a page at a stream's frontier; returns its PPA.
    pub fn put(&mut self, stream: usize, page: u32) -> u32 {
        if let Some(old) = self.user.remove(&page) {
            self.back.remove(&old);
            self.superblocks[(old / self.superblock_pages) as usize].valid -= 1;
        }
        let (index, used) = self.open[stream].expect("an open superblock");
        assert!(used < self.superblocks[index as usize].pages);
        self.open[stream] = Some((index, used + 1));
        let ppa = index * self.superblock_pages + used;
        self.superblocks[index as usize].valid += 1;
        self.user.insert(page, ppa);
        self.back.insert(ppa, page);
        ppa
    }

    /// Garbage collection's victim, if one gains.
    fn to_collect(&self) -> Option<u32> {
        let worth = |s: &Superblock| match s.state {
            State::Sealed(_) if s.mode == Mode::Static => None,
            State::Sealed(age) if self.oldest_first || s.valid < self.superblock_pages => Some(age),
            _ => None,
        };
        let rank = |index: u32| {
            let s = &self.superblocks[index as usize];
            worth(s).map(|age| (if self.oldest_first { 0 } else { s.valid }, age, index))
        };
        Some((0..self.superblocks.len() as u32).filter_map(rank).min()?.2)
    }

    /// Chooses a victim if there is one.
    fn choose(&mut self, which: usize) {
        let chosen = if which == GC { self.to_collect() } else { self.to_fold() };
        if let Some(index) = chosen {
            let s = &mut self.superblocks[index as usize];
            if which == GC {
                self.held = u64::from(s.valid);
            }
            s.state = State::Victim;
            self.victims[which] = Some((index, 0));
        }
    }

    /// Space that copying `copied` pages of garbage collection's victim reclaims, in 1/65536 pages.
    pub fn given(&self, copied: u64) -> u64 {
        let Some((victim, _)) = self.victims[GC] else { return 0 };
        let all = u64::from(self.superblocks[victim as usize].pages) << 16;
        if copied == 0 && self.held == 0 {
            all
        } else {
            copied * ((all - (self.held << 16)) / self.held.max(1))
        }
    }

    /// A victim's next flash page with valid data: LPN by PPA.
    pub fn next_source(&mut self, which: usize) -> Option<BTreeMap<u32, u32>> {
        if self.victims[which].is_none() {
            self.choose(which);
        }
        let (index, read) = self.victims[which].as_mut()?;
        while *read < self.superblocks[*index as usize].pages {
            let first = *index * self.superblock_pages + *read;
            *read += self.flash_page_pages;
            let valid: BTreeMap<u32, u32> = (first..first + self.flash_page_pages)
                .filter_map(|ppa| Some((ppa, *self.back.get(&ppa)?)))
                .collect();
            if !valid.is_empty() {
                return Some(valid);
            }
        }
        None
    }

    pub fn victim_is_done(&self, which: usize) -> bool {
        self.victims[which].is_some_and(|(i, read)| read == self.superblocks[i as usize].pages)
    }

    /// Superblock that is opened next, if it is not erased, with the number of flash pages that
    /// each stream had begun when it was reclaimed.
    pub fn next_to_erase(&mut self, mode: Mode) -> Option<(u32, [u64; 2])> {
        let &index = self.free_of(mode).front()?;
        Some((index, self.superblocks[index as usize].given_back?))
    }

    /// Marks a free superblock as erased.
    pub fn erased(&mut self, index: u32) {
        self.superblocks[index as usize].given_back = None;
    }

    /// Returns a victim to the free ones.
    pub fn retire(&mut self, which: usize, begun: [u64; 2]) {
        let (index, _) = self.victims[which].take().expect("a victim");
        let s = &mut self.superblocks[index as usize];
        assert_eq!(s.valid, 0);
        (s.state, s.given_back) = (State::Free, Some(begun));
        let mode = s.mode;
        self.free_of(mode).push_back(index);
    }
}
