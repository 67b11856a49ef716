//! The fast translation layer against a naive one: dictionaries and lists, no shared code.
//!
//! The naive layer places, collects (greedy, whole victims) and trims by the same rules and must agree
//! on the slot of every page after every operation.

mod support;

use std::collections::{BTreeMap, VecDeque};

use drivebay_drive::{Io, Op};
use drivebay_units::{Lpn, Nanos};
use proptest::prelude::*;
use support::Profile;

const BLOCKS: u32 = 22;
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

/// One frontier per stream, greedy victims, foreground collection at the reserve.
#[derive(Default)]
struct Naive {
    slot_of: BTreeMap<u32, u32>,
    page_at: BTreeMap<u32, u32>,
    free: VecDeque<u32>,
    sealed: Vec<u32>,
    open: [Option<(u32, u32)>; 2],
}

impl Naive {
    fn new() -> Naive {
        Naive { free: (0..BLOCKS).collect(), ..Naive::default() }
    }

    fn forget(&mut self, lpn: u32) {
        if let Some(slot) = self.slot_of.remove(&lpn) {
            self.page_at.remove(&slot);
        }
    }

    fn put(&mut self, stream: usize, lpn: u32) {
        let (block, used) = self.open[stream].expect("an open block");
        let slot = block * PAGES + used;
        self.forget(lpn);
        self.slot_of.insert(lpn, slot);
        self.page_at.insert(slot, lpn);
        self.open[stream] = Some((block, used + 1));
    }

    fn open(&mut self, stream: usize) {
        if let Some((block, _)) = self.open[stream] {
            self.sealed.push(block);
        }
        self.open[stream] = Some((self.free.pop_front().expect("an erased block"), 0));
    }

    fn is_full(&self, stream: usize) -> bool {
        self.open[stream].is_none_or(|(_, used)| used == PAGES)
    }

    fn write(&mut self, lpn: u32) {
        if self.is_full(0) {
            while self.free.len() <= 1 {
                self.collect();
            }
            self.open(0);
        }
        self.put(0, lpn);
    }

    fn collect(&mut self) {
        let live = |b: u32| self.page_at.range(b * PAGES..(b + 1) * PAGES).count();
        let (at, _) = self
            .sealed
            .iter()
            .enumerate()
            .min_by_key(|&(age, &b)| (live(b), age))
            .expect("something to collect");
        let victim = self.sealed.remove(at);
        let pages: Vec<u32> =
            self.page_at.range(victim * PAGES..(victim + 1) * PAGES).map(|(_, &l)| l).collect();
        for lpn in pages {
            if self.is_full(1) {
                self.open(1);
            }
            self.put(1, lpn);
        }
        self.free.push_back(victim);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn fast_and_naive_layers_agree(steps in prop::collection::vec(step(), 1..400)) {
        let mut device = Profile::sm951().one_die(BLOCKS, PAGES, USER).timeless().device();
        let mut naive = Naive::new();
        let mut now = Nanos::ZERO;
        for step in steps {
            let (op, at, len) = match step {
                Step::Write(at, len) => {
                    (at..at + len).for_each(|lpn| naive.write(lpn));
                    (Op::Write, at, len)
                }
                Step::Trim(at, len) => {
                    (at..at + len).for_each(|lpn| naive.forget(lpn));
                    (Op::Trim, at, len)
                }
                Step::Read(at, len) => (Op::Read, at, len),
                Step::Erase => {
                    naive = Naive::new();
                    device.secure_erase();
                    continue;
                }
            };
            let io = Io { op, lba: u64::from(at) * 8, sectors: len * 8 };
            let completion = device.submit(now, io).expect("the drive has room");
            prop_assert_eq!(completion.stages.total(), completion.done.since(now));
            now = completion.done;
            device.ftl().check_invariants();
            for lpn in 0..USER {
                let fast = device.ftl().look_up(Lpn(lpn)).map(|slot| slot.0);
                prop_assert_eq!(fast, naive.slot_of.get(&lpn).copied(), "page {}", lpn);
            }
        }
    }
}
