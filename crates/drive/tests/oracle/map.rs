//! The oracle's map: dictionaries from LPN to PPA and back, and lists of superblocks.

use std::collections::{BTreeMap, HashMap, VecDeque};

use drivebay_drive::Spec;

/// Write stream of the host.
pub const HOST: usize = 0;

/// What a superblock is doing.
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
    /// Number of its first flash page in its stream.
    first_page: u64,
    /// Flash pages that each stream had begun when it was given back; None once it is erased.
    given_back: Option<[u64; 2]>,
}

/// A flash page of a write stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamPage {
    pub stream: usize,
    /// Number of the flash page in the stream.
    pub page: u64,
}

/// Where each page lies.
pub struct Map {
    user: HashMap<u32, u32>,
    back: HashMap<u32, u32>,
    superblocks: Vec<Superblock>,
    free: VecDeque<u32>,
    /// Superblock and pages used of it, by stream.
    open: [Option<(u32, u32)>; 2],
    victim: Option<(u32, u32)>,
    /// Valid pages of the victim when it was chosen.
    held: u64,
    seals: u64,
    superblock_pages: u32,
    flash_page_pages: u32,
    oldest_first: bool,
    pub copy_stream: usize,
}

impl Map {
    pub fn new(spec: &Spec) -> Map {
        let g = &spec.geometry;
        let fresh =
            Superblock { state: State::Free, valid: 0, stream: 0, first_page: 0, given_back: None };
        let good = g.superblocks - g.bad_superblocks;
        let policy = spec.raw.gc.victim_policy.value.as_str();
        assert!(policy == "greedy" || policy == "fifo", "the oracle knows no {policy}");
        Map {
            user: HashMap::new(),
            back: HashMap::new(),
            superblocks: vec![fresh; good as usize],
            free: (0..good).collect(),
            open: [None; 2],
            victim: None,
            held: 0,
            seals: 0,
            superblock_pages: g.superblock_pages,
            flash_page_pages: 1 << g.page_shift,
            oldest_first: policy == "fifo",
            copy_stream: usize::from(!spec.shared_frontier),
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
        self.open[stream].map_or(0, |(_, used)| self.superblock_pages - used)
    }

    /// Pages that are erased, or will be when what has been read of the victim is erased.
    pub fn free_pages(&self) -> u64 {
        let whole = self.free.len() as u64 * u64::from(self.superblock_pages);
        let read = self.victim.map_or(0, |(_, read)| read);
        whole + u64::from(self.room(0)) + u64::from(self.room(1)) + u64::from(read)
    }

    /// Seals a stream's superblock and opens the one that has been free longest.
    pub fn open(&mut self, stream: usize, first_page: u64) {
        assert_eq!(self.room(stream), 0);
        if let Some((full, _)) = self.open[stream] {
            self.superblocks[full as usize].state = State::Sealed(self.seals);
            self.seals += 1;
        }
        let index = self.free.pop_front().expect("an erased superblock");
        self.superblocks[index as usize] =
            Superblock { state: State::Open, valid: 0, stream, first_page, given_back: None };
        self.open[stream] = Some((index, 0));
    }

    /// Puts a page at a stream's frontier; returns its PPA.
    pub fn put(&mut self, stream: usize, page: u32) -> u32 {
        if let Some(old) = self.user.remove(&page) {
            self.back.remove(&old);
            self.superblocks[(old / self.superblock_pages) as usize].valid -= 1;
        }
        let (index, used) = self.open[stream].expect("an open superblock");
        assert!(used < self.superblock_pages);
        self.open[stream] = Some((index, used + 1));
        let ppa = index * self.superblock_pages + used;
        self.superblocks[index as usize].valid += 1;
        self.user.insert(page, ppa);
        self.back.insert(ppa, page);
        ppa
    }

    /// Chooses a victim if there is none and one is worth it.
    fn choose(&mut self) {
        let worth = |s: &Superblock| match s.state {
            State::Sealed(age) if self.oldest_first || s.valid < self.superblock_pages => Some(age),
            _ => None,
        };
        let rank = |index: u32| {
            let s = &self.superblocks[index as usize];
            worth(s).map(|age| (if self.oldest_first { 0 } else { s.valid }, age, index))
        };
        let best = (0..self.superblocks.len() as u32).filter_map(rank).min();
        if let Some((_, _, index)) = best {
            let valid = self.superblocks[index as usize].valid;
            self.held = u64::from(valid);
            self.superblocks[index as usize].state = State::Victim;
            self.victim = Some((index, 0));
        }
    }

    /// What copying so many pages of the victim gives, in 1/65536 pages.
    pub fn given(&self, copied: u64) -> u64 {
        let all = u64::from(self.superblock_pages) << 16;
        if copied == 0 && self.held == 0 {
            all
        } else {
            copied * ((all - (self.held << 16)) / self.held.max(1))
        }
    }

    /// The victim's next flash page with valid data: LPN by PPA.
    pub fn next_source(&mut self) -> Option<BTreeMap<u32, u32>> {
        if self.victim.is_none() {
            self.choose();
        }
        let (index, read) = self.victim.as_mut()?;
        while *read < self.superblock_pages {
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

    pub fn victim_is_done(&self) -> bool {
        self.victim.is_some_and(|(_, read)| read == self.superblock_pages)
    }

    /// The superblock that is opened next, if it is not erased: what each stream had begun when it was
    /// given back.
    pub fn next_to_erase(&self) -> Option<(u32, [u64; 2])> {
        let &index = self.free.front()?;
        Some((index, self.superblocks[index as usize].given_back?))
    }

    /// The superblock that is opened next is erased.
    pub fn erased(&mut self) {
        let index = self.free[0] as usize;
        self.superblocks[index].given_back = None;
    }

    /// Returns the victim to the free ones.
    pub fn retire(&mut self, begun: [u64; 2]) {
        let (index, _) = self.victim.take().expect("a victim");
        assert_eq!(self.superblocks[index as usize].valid, 0);
        self.superblocks[index as usize].state = State::Free;
        self.superblocks[index as usize].given_back = Some(begun);
        self.free.push_back(index);
    }
}
