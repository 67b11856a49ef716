//! Host writes split by lifespan: less write amplification if pages differ in temperature, and no
//! more if they do not; compared with a naive simulation that knows each page's time of writing
//! exactly.

use crate::support::{Profile, one_by_one, page};
use drivebay_drive::{Op, Spec};
use drivebay_units::Rng;

const BLOCKS: u32 = 1024;
const PAGES: u32 = 64;
const ALPHA: f64 = 1.2;
/// Random writes before and during the measurement, in user capacities.
const WARM_UP: u64 = 5;
const MEASURED: u64 = 2;

fn user() -> u64 {
    (f64::from(BLOCKS * PAGES) / ALPHA).round() as u64
}

/// A distribution of addresses: `hot_percent` of the pages get `share_percent` of the writes.
struct Addresses {
    rng: Rng,
    hot_percent: u64,
    share_percent: u64,
}

impl Addresses {
    fn next(&mut self) -> u64 {
        let hot = user() * self.hot_percent / 100;
        if self.rng.below(100) < self.share_percent {
            self.rng.below(hot)
        } else {
            hot + self.rng.below(user() - hot)
        }
    }
}

fn addresses(hot_percent: u64, share_percent: u64) -> Addresses {
    Addresses { rng: Rng::new(9).fork("addresses"), hot_percent, share_percent }
}

fn profile(policy: &str, host_frontiers: &str) -> Profile {
    Profile::sm951()
        .one_die(BLOCKS, PAGES, user() as u32)
        .timeless()
        .set("gc.duty_limit_us", 0.0)
        .set("gc.victim_policy", policy)
        .with("gc.host_frontiers", host_frontiers)
}

fn amplification(policy: &str, host_frontiers: &str, mut addresses: Addresses) -> f64 {
    let mut device = profile(policy, host_frontiers).device();
    one_by_one(&mut device, (0..user()).map(|lpn| page(Op::Write, lpn)));
    one_by_one(&mut device, (0..WARM_UP * user()).map(|_| page(Op::Write, addresses.next())));
    let before = device.counters();
    one_by_one(&mut device, (0..MEASURED * user()).map(|_| page(Op::Write, addresses.next())));
    let after = device.counters();
    device.ftl().check_invariants();
    1.0 + (after.copied_pages - before.copied_pages) as f64
        / (after.host_pages - before.host_pages) as f64
}

/// A block of the naive simulation.
#[derive(Clone, Default)]
struct Block {
    pages: Vec<u32>,
    live: usize,
    class: usize,
    born: u64,
    sealed: bool,
    order: u64,
}

/// SepBIT's classes 1 and 2, and one for copies; cost-benefit victims; a block held in reserve.
struct Naive {
    blocks: Vec<Block>,
    free: Vec<usize>,
    open: [usize; 3],
    /// Block and time of the last host write, by page.
    place: Vec<Option<(usize, u64)>>,
    clock: u64,
    short: f64,
    deaths: Vec<u64>,
    copied: u64,
    sealed: u64,
}

impl Naive {
    fn new() -> Naive {
        let mut naive = Naive {
            blocks: vec![Block::default(); BLOCKS as usize],
            free: (3..BLOCKS as usize).rev().collect(),
            open: [0, 1, 2],
            place: vec![None; user() as usize],
            clock: 0,
            short: f64::INFINITY,
            deaths: Vec::new(),
            copied: 0,
            sealed: 0,
        };
        (0..3).for_each(|class| naive.blocks[class].class = class);
        naive
    }

    fn put(&mut self, class: usize, lpn: u32, written: u64) {
        if self.blocks[self.open[class]].pages.len() == PAGES as usize {
            if class != 1 {
                while self.free.len() <= 1 {
                    self.gc();
                }
            }
            let full = self.open[class];
            (self.blocks[full].sealed, self.blocks[full].order) = (true, self.sealed);
            self.sealed += 1;
            let next = self.free.pop().expect("the reserve");
            self.blocks[next] = Block { class, born: self.clock, ..Block::default() };
            self.open[class] = next;
        }
        if let Some((old, _)) = self.place[lpn as usize] {
            self.blocks[old].live -= 1;
        }
        let at = self.open[class];
        self.blocks[at].pages.push(lpn);
        self.blocks[at].live += 1;
        self.place[lpn as usize] = Some((at, written));
    }

    fn write(&mut self, lpn: u32) {
        self.clock += 1;
        let short = self.place[lpn as usize]
            .is_some_and(|(_, written)| ((self.clock - written) as f64) < self.short);
        self.put(if short { 0 } else { 2 }, lpn, self.clock);
    }

    fn gc(&mut self) {
        let sealed = (0..self.blocks.len()).filter(|&i| self.blocks[i].sealed);
        let cost = |i: &usize| {
            let (live, order) = (self.blocks[*i].live as f64, self.blocks[*i].order);
            let used = live / f64::from(PAGES);
            let age = (self.sealed - order) as f64;
            -(1.0 - used) * age / (1.0 + used)
        };
        let victim = sealed.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("something is full");
        let block = std::mem::take(&mut self.blocks[victim]);
        // Pages of the victim that have not been rewritten elsewhere.
        let mut seen = std::collections::BTreeSet::new();
        self.blocks[victim].live = block.live;
        for &lpn in block.pages.iter().rev() {
            let (at, written) = self.place[lpn as usize].expect("written");
            if at == victim && seen.insert(lpn) {
                self.put(1, lpn, written);
                self.copied += 1;
            }
        }
        self.free.insert(0, victim);
        if block.class == 0 {
            self.deaths.push(self.clock - block.born);
            if self.deaths.len() == 16 {
                self.short = self.deaths.drain(..).sum::<u64>() as f64 / 16.0;
            }
        }
    }

    fn amplification(mut addresses: Addresses) -> f64 {
        let mut naive = Naive::new();
        (0..user() as u32).for_each(|lpn| naive.write(lpn));
        (0..WARM_UP * user()).for_each(|_| naive.write(addresses.next() as u32));
        let before = naive.copied;
        (0..MEASURED * user()).for_each(|_| naive.write(addresses.next() as u32));
        1.0 + (naive.copied - before) as f64 / (MEASURED * user()) as f64
    }
}

/// The gain of the split depends on the difference of the temperatures: the threshold is near the
/// lifespan of a superblock, and garbage collection's own stream already separates much of the cold
/// data.
#[test]
fn two_temperatures_apart_cost_fewer_copies() {
    for (policy, hot, share, most) in
        [("cost-benefit", 1, 50, 0.85), ("cost-benefit", 10, 50, 0.99)]
    {
        let [one, split] = ["one", "by-lifespan"]
            .map(|frontiers| amplification(policy, frontiers, addresses(hot, share)));
        let exact = Naive::amplification(addresses(hot, share));
        println!("{policy} {hot}/{share}: {one:.3} as one, {split:.3} split, {exact:.3} naive");
        assert!(split < most * one, "{policy} {hot}/{share}: {split} against {one}");
        assert!((split / exact - 1.0).abs() < 0.01, "{policy} {hot}/{share}: {split}, {exact}");
    }
}

/// Pages with equal lifespans cannot be separated: the split neither helps nor hurts.
#[test]
fn one_temperature_costs_as_many_copies_as_before() {
    let [one, split] = ["one", "by-lifespan"]
        .map(|frontiers| amplification("greedy", frontiers, addresses(50, 50)));
    println!("uniform: {one:.3} as one, {split:.3} split");
    assert!((split / one - 1.0).abs() < 0.03, "{split} against {one}");
}

#[test]
fn what_does_not_keep_data_apart_is_refused() {
    let shared = profile("greedy", "by-lifespan").set("gc.frontiers", "shared");
    let cached = profile("greedy", "by-lifespan").set("nand.program_us", vec![1.0, 2.0]).slc_cache(
        [0.0, 2.0, 1.0],
        "direct",
        0.0,
    );
    for profile in [shared, cached, profile("greedy", "hot-cold")] {
        let text = profile.0.to_string();
        let error = Spec::from_toml(&text).map(|_| ()).expect_err("refused").to_string();
        let good = error.starts_with("gc.host_frontiers: \"");
        assert!(good && error.contains("\nhint: "), "{error}");
    }
}
