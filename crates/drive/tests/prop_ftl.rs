//! The fast translation layer compared with a naive one: dictionaries and lists, no shared code.
//!
//! The naive layer places, reclaims (greedy, whole victims) and trims by the same rules and must
//! agree on the PPA of every page after every operation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::support::{Profile, repeated};
use drivebay_drive::{Io, Op};
use drivebay_units::{Lpn, Nanos};
use proptest::prelude::*;

const BLOCKS: u32 = 23;
const PAGES: u32 = 16;
const USER: u32 = 256;

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u32, u32),
    Trim(u32, u32),
    Read(u32, u32),
    Erase,
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..USER, 1..12u32).prop_map(|(at, len)| (at, len.min(USER - at)));
    prop_oneof![
        60 => range().prop_map(|(at, len)| Step::Write(at, len)),
        6 => range().prop_map(|(at, len)| Step::Trim(at, len)),
        6 => range().prop_map(|(at, len)| Step::Read(at, len)),
        1 => Just(Step::Erase),
    ]
}

/// An SLC cache, with sizes in blocks and pages; empty by default.
#[derive(Clone, Copy, Debug, Default)]
struct Cache {
    fixed: u32,
    dynamic_max: usize,
    keep: u32,
    waits: bool,
    ratio_256: i64,
}

/// The list from which a block is opened.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Native,
    Static,
    Dynamic,
}

/// A naive layer: one frontier per stream, greedy victims, garbage collection in the foreground at
/// the reserve, folding page by page.
#[derive(Default)]
struct Naive {
    cache: Cache,
    ppa_of: BTreeMap<u32, u32>,
    page_at: BTreeMap<u32, u32>,
    free: VecDeque<u32>,
    fixed_free: VecDeque<u32>,
    /// Blocks with one bit per cell.
    slc: BTreeSet<u32>,
    sealed: Vec<u32>,
    open: [Option<(u32, u32)>; 2],
    /// Block being folded, and number of its pages already read.
    folding: Option<(u32, u32)>,
    owed_256: i64,
}

impl Naive {
    fn new(cache: Cache) -> Naive {
        let native = BLOCKS - cache.fixed;
        let (free, fixed_free) = ((0..native).collect(), (native..BLOCKS).collect());
        Naive { cache, free, fixed_free, ..Naive::default() }
    }

    fn forget(&mut self, lpn: u32) {
        if let Some(ppa) = self.ppa_of.remove(&lpn) {
            self.page_at.remove(&ppa);
        }
    }

    fn size(&self, block: u32) -> u32 {
        if self.slc.contains(&block) { PAGES / 2 } else { PAGES }
    }

    fn is_static(&self, block: u32) -> bool {
        block >= BLOCKS - self.cache.fixed
    }

    fn live(&self, block: u32) -> usize {
        self.page_at.range(block * PAGES..(block + 1) * PAGES).count()
    }

    fn put(&mut self, stream: usize, lpn: u32) {
        let (block, used) = self.open[stream].expect("an open block");
        let ppa = block * PAGES + used;
        self.forget(lpn);
        self.ppa_of.insert(lpn, ppa);
        self.page_at.insert(ppa, lpn);
        self.open[stream] = Some((block, used + 1));
    }

    fn open(&mut self, stream: usize, mode: Mode) {
        if let Some((block, _)) = self.open[stream] {
            self.sealed.push(block);
        }
        let list = if mode == Mode::Static { &mut self.fixed_free } else { &mut self.free };
        let block = list.pop_front().expect("an erased block");
        self.slc.remove(&block);
        if mode != Mode::Native {
            self.slc.insert(block);
        }
        self.open[stream] = Some((block, 0));
    }

    fn is_full(&self, stream: usize) -> bool {
        self.open[stream].is_none_or(|(block, used)| used == self.size(block))
    }

    fn write(&mut self, lpn: u32) {
        if self.is_full(0) {
            self.open_for_host();
        }
        self.put(0, lpn);
    }

    fn open_for_host(&mut self) {
        let mut mode = self.next_of_cache();
        while mode.is_none() {
            let next = self.folding.map(|(block, _)| block).or_else(|| self.next_to_fold());
            let Some(next) = next else { break };
            if !(self.cache.waits || self.live(next) == 0) {
                break;
            }
            let folded = self.fold_once();
            // Garbage collection may have emptied the cache to make space for folding: then there
            // is nothing to fold.
            mode = self.next_of_cache();
            if folded.is_none() {
                break;
            }
        }
        if mode.is_none() {
            while self.free.len() <= 1 {
                self.gc();
            }
        }
        self.open(0, mode.unwrap_or(Mode::Native));
    }

    fn next_of_cache(&self) -> Option<Mode> {
        if !self.fixed_free.is_empty() {
            return Some(Mode::Static);
        }
        let open = self.open.iter().flatten();
        let room: u32 = open.map(|&(block, used)| self.size(block) - used).sum();
        let read = self.folding.map_or(0, |(_, next)| next);
        let free_slots = self.free.len() as u32 * PAGES + room + read;
        let used = |block: &&u32| !self.is_static(**block) && !self.free.contains(block);
        let dynamic = self.slc.iter().filter(used).count();
        let fits = dynamic < self.cache.dynamic_max
            && self.free.len() > 1
            && free_slots.saturating_sub(PAGES) >= self.cache.keep;
        fits.then_some(Mode::Dynamic)
    }

    fn next_to_fold(&self) -> Option<u32> {
        let slc = self.sealed.iter().filter(|block| self.slc.contains(block));
        slc.copied().enumerate().min_by_key(|&(age, b)| (self.live(b) > 0, age)).map(|(_, b)| b)
    }

    fn fold_behind(&mut self, pages: u32) {
        let mut ratio_256 = self.cache.ratio_256;
        if self.cache.waits && self.next_of_cache().is_none() {
            ratio_256 = ratio_256.max(256);
        }
        self.owed_256 += i64::from(pages) * ratio_256;
        while self.owed_256 > 0 && (self.folding.is_some() || self.next_to_fold().is_some()) {
            let Some(folded) = self.fold_once() else { break };
            self.owed_256 -= i64::from(folded) * 256;
        }
        self.owed_256 = self.owed_256.min(0);
    }

    fn fold_once(&mut self) -> Option<u32> {
        while self.is_full(1) && self.free.len() <= 1 {
            self.gc();
        }
        if self.folding.is_none() {
            let block = self.next_to_fold()?;
            self.sealed.retain(|&sealed| sealed != block);
            self.folding = Some((block, 0));
        }
        let (block, mut next) = self.folding.expect("a block is being folded");
        while next < PAGES / 2 {
            let page = self.page_at.get(&(block * PAGES + next)).copied();
            next += 1;
            self.folding = Some((block, next));
            if let Some(lpn) = page {
                self.copy(lpn);
                return Some(1);
            }
        }
        self.folding = None;
        let list = if self.is_static(block) { &mut self.fixed_free } else { &mut self.free };
        list.push_back(block);
        Some(0)
    }

    fn copy(&mut self, lpn: u32) {
        if self.is_full(1) {
            self.open(1, Mode::Native);
        }
        self.put(1, lpn);
    }

    fn gc(&mut self) {
        let (at, _) = self
            .sealed
            .iter()
            .enumerate()
            .filter(|&(_, &b)| !self.is_static(b))
            .min_by_key(|&(age, &b)| (self.live(b), age))
            .expect("a victim");
        let victim = self.sealed.remove(at);
        let pages: Vec<u32> =
            self.page_at.range(victim * PAGES..(victim + 1) * PAGES).map(|(_, &l)| l).collect();
        pages.into_iter().for_each(|lpn| self.copy(lpn));
        self.free.push_back(victim);
    }
}

/// Any cache for which the drive has space.
fn cache() -> impl Strategy<Value = Cache> {
    let ratios = prop::sample::select(vec![0, 64, 256, 600]);
    (0..=2u32, 0..=8usize, 0..160u32, any::<bool>(), ratios).prop_map(
        |(fixed, dynamic_max, keep, waits, ratio_256)| Cache {
            fixed,
            dynamic_max,
            keep,
            waits,
            ratio_256,
        },
    )
}

fn agree(profile: &Profile, cache: Cache, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut device = profile.device();
    let mut naive = Naive::new(cache);
    let mut now = Nanos::ZERO;
    for step in steps {
        let (op, at, len) = match step {
            Step::Write(at, len) => {
                (at..at + len).for_each(|lpn| naive.write(lpn));
                naive.fold_behind(len);
                (Op::Write, at, len)
            }
            Step::Trim(at, len) => {
                (at..at + len).for_each(|lpn| naive.forget(lpn));
                (Op::Trim, at, len)
            }
            Step::Read(at, len) => (Op::Read, at, len),
            Step::Erase => {
                naive = Naive::new(cache);
                device.secure_erase();
                continue;
            }
        };
        let io = Io::new(op, u64::from(at) * 8, len * 8);
        let completion = device.submit(now, io).expect("the drive has room");
        prop_assert_eq!(completion.stages.total(), completion.done.since(now));
        now = completion.done;
        device.ftl().check_invariants();
        for lpn in 0..USER {
            let fast = device.ftl().look_up(Lpn(lpn)).map(|ppa| ppa.0);
            prop_assert_eq!(fast, naive.ppa_of.get(&lpn).copied(), "page {}", lpn);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: repeated(300), ..ProptestConfig::default() })]

    #[test]
    fn fast_and_naive_layers_agree(steps in prop::collection::vec(step(), 1..400)) {
        let profile = Profile::sm951().one_die(BLOCKS, PAGES, USER).timeless();
        agree(&profile, Cache::default(), steps)?;
    }

    /// Two bits per cell, and superblocks used with one.
    #[test]
    fn fast_and_naive_layers_agree_on_an_slc_cache(
        cache in cache(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mb = |pages: u32| f64::from(pages) * 4096.0 / 1e6;
        let sizes = [
            mb(cache.fixed * PAGES / 2),
            mb(cache.dynamic_max as u32 * PAGES / 2),
            mb(cache.keep),
        ];
        let when_full = if cache.waits { "fold" } else { "direct" };
        let profile = Profile::sm951()
            .one_die(BLOCKS, PAGES, USER)
            .timeless()
            .set("nand.program_us", vec![1.0, 1.0])
            .slc_cache(sizes, when_full, cache.ratio_256 as f64 / 256.0)
            .set("slc_cache.program_us", 1.0);
        agree(&profile, cache, steps)?;
    }
}
