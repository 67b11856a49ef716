//! Errors of the flash: how often a page is read again, when it is lost, when blocks fail.
//!
//! Sources. Raw bit error rate as a sum of powers of cycles, reads and age: Kim, Choi and Min (FAST
//! 2019). Read disturb counts reads of the block since its erase: Cai et al. (DSN 2015). Retry:
//! another sensing with shifted voltages, each followed by a transfer and a decoding (Park et al.,
//! ASPLOS 2021). Blocks fail one by one and are replaced from spares; a superblock that cannot be
//! completed is given up, and its good blocks become spares (Schroeder et al., FAST 2016, on bad
//! blocks in the field). `guess:` that the rates of pages spread lognormally, that a retry leaves a
//! fixed part of the rate, and that block lives follow Weibull's distribution.
//!
//! Model: a page fails to decode if one of its codewords has more wrong bits than the code corrects
//! (Poisson). What a place will need follows from a hash of the place and its superblock's cycles:
//! the same page fails again until it is written anew. Rates are brought up to date when a
//! superblock's reads or age have grown by a sixteenth. Not modelled: the time of decoding (part of
//! the cores' costs), failed programs, temperature, layers of a 3D block, the help of parity across
//! dies. A page that is lost while it is copied stays lost until it is written anew (firmware marks
//! it so); after a power cut that takes the new data too, it counts as good again. A replacement
//! block counts as worn as the one it replaces: blocks fail a little too early.

mod curve;

use std::ops::Range;

use drivebay_units::{Nanos, Ppa, Rng, mix};
use libm::{exp, pow};

use crate::persist::{StateError, ensure, persist};
use crate::policy_plugin::RetriedRead;
use crate::profile::{ErrorRate, ReliabilitySpec};
use curve::Curve;

const DAY_NS: f64 = 86_400e9;
/// The rate is looked at again at least so often while data ages.
const HOUR: Nanos = Nanos::secs(3600);

/// What has been counted of errors and wear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reliability {
    /// Reads of flash that needed a retry, garbage collection's included.
    pub retried_reads: u64,
    /// Retries of all these reads together.
    pub retries: u64,
    /// Reads that failed after the last retry, garbage collection's included.
    pub media_errors: u64,
    /// Superblocks moved because they had been read too often.
    pub refreshes: u64,
    /// Blocks that failed in use.
    pub failed_blocks: u64,
    /// Spare blocks left.
    pub spare_blocks: u64,
    /// Superblocks given up.
    pub retired_superblocks: u64,
    /// The flash is worn out: every write is refused.
    pub read_only: bool,
}

persist!(Reliability: retried_reads, retries, media_errors, refreshes, failed_blocks, spare_blocks,
    retired_superblocks, read_only);

/// A superblock's state.
#[derive(Clone, Copy, Debug, Default)]
struct Wear {
    /// Flash page reads since it was opened.
    reads: u32,
    /// Rates are to be computed anew at so many reads,
    due_reads: u32,
    /// or at this time.
    due_time: Nanos,
    /// Data is to be moved at so many reads.
    refresh_reads: u32,
    opened: Nanos,
    /// Age of its data that the clock does not tell (`Errors::live`).
    held: Nanos,
    /// Erases when it was opened.
    cycles: u32,
    /// Of 2^32: how many places fail at first sensing.
    fails: u32,
    /// Failed blocks that wait for a spare.
    missing: u32,
}

persist!(Wear: reads, due_reads, due_time, refresh_reads, opened, held, cycles, fails, missing);

impl Wear {
    fn age(&self, now: Nanos) -> Nanos {
        now.since_or_zero(self.opened).after(self.held)
    }
}

/// What a read of a place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Sensings beyond the first.
    pub retries: u32,
    /// For which pages even the last failed, as bits.
    pub lost: u32,
    /// The superblock has been read so often that its data should be moved.
    pub refresh: bool,
}

/// What an erase left of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// All its blocks, or spares for them.
    Whole,
    /// Too few, and it could not be spared.
    Short,
    /// Too few: it is given up.
    Retired,
}

/// Errors and wear of all superblocks.
pub struct Errors {
    spec: ReliabilitySpec,
    curve: Curve,
    wear: Vec<Wear>,
    /// Of 2^32, by superblock and sensing: how many places fail.
    fails: Vec<u32>,
    seed: u64,
    rng: Rng,
    /// Counted so far.
    pub counts: Reliability,
}

persist!(Errors: wear, fails, seed, rng, counts; given: spec, curve);

impl Errors {
    /// Whether no superblock misses more blocks than it has.
    pub fn check(&self) -> Result<(), StateError> {
        let blocks = self.spec.superblock_blocks;
        ensure(self.wear.iter().all(|wear| wear.missing <= blocks), "a superblock's blocks")
    }

    /// Flash whose first `good` superblocks have been erased so often; of their blocks some have
    /// failed since.
    pub fn new(spec: ReliabilitySpec, superblocks: u32, good: u32, worn: u32, rng: &Rng) -> Errors {
        let mut rng = rng.fork("reliability");
        let spare_blocks = u64::from(spec.spare_blocks);
        let mut errors = Errors {
            curve: Curve::new(&spec),
            wear: vec![Wear::default(); superblocks as usize],
            fails: vec![0; superblocks as usize * (spec.retries_max as usize + 1)],
            seed: rng.next_u64(),
            rng,
            counts: Reliability { spare_blocks, ..Reliability::default() },
            spec,
        };
        if worn > 0 {
            (0..good).for_each(|superblock| errors.age(superblock, 0..worn));
        }
        errors
    }

    /// Blocks of a superblock have failed in erases that were not simulated; those without a spare
    /// are missing until its next one.
    fn age(&mut self, superblock: u32, erases: Range<u32>) {
        let missing = self.wear[superblock as usize].missing;
        let left = self.spec.superblock_blocks - missing;
        let failed = self.failures(left, self.spec.hazard(erases));
        self.counts.failed_blocks += u64::from(failed);
        let needed = missing + failed;
        let spared = u64::from(needed).min(self.counts.spare_blocks);
        self.counts.spare_blocks -= spared;
        self.wear[superblock as usize].missing = needed - spared as u32;
    }

    /// Time that is not simulated has passed, in which a superblock was erased so often, as it had
    /// been before; none: its data was left alone, and is older now.
    pub fn live(&mut self, superblock: u32, erases: Range<u32>, elapsed: Nanos) {
        let wear = &mut self.wear[superblock as usize];
        wear.due_time = Nanos::ZERO;
        if erases.is_empty() {
            wear.held = wear.held.after(elapsed);
        } else {
            wear.cycles += erases.end - erases.start;
            self.age(superblock, erases);
        }
    }

    /// What was counted of reads since `before` is counted `times` times more.
    pub fn count_more(&mut self, before: &Reliability, times: f64) {
        let now = self.counts;
        let more = |now: u64, before: u64| ((now - before) as f64 * times).round() as u64;
        self.counts.retried_reads += more(now.retried_reads, before.retried_reads);
        self.counts.retries += more(now.retries, before.retries);
        self.counts.media_errors += more(now.media_errors, before.media_errors);
        self.counts.refreshes += more(now.refreshes, before.refreshes);
    }

    /// Die time of one retry.
    pub fn retry_read(&self) -> Nanos {
        self.spec.retry_read
    }

    /// A read of a superblock that needed retries, as a policy sees it.
    pub fn retried(&self, superblock: u32, verdict: Verdict, now: Nanos) -> RetriedRead {
        let wear = &self.wear[superblock as usize];
        RetriedRead {
            age_ns: wear.age(now).0,
            superblock,
            retries: verdict.retries,
            retries_max: self.spec.retries_max,
            lost: verdict.lost.count_ones(),
            reads: wear.reads,
            cycles: wear.cycles,
        }
    }

    /// A superblock with so many erases behind it receives data from `now` on.
    pub fn open(&mut self, superblock: u32, cycles: u32, now: Nanos) {
        let wear = &mut self.wear[superblock as usize];
        let refresh_reads = self.spec.refresh_reads;
        *wear =
            Wear { cycles, opened: now, refresh_reads, missing: wear.missing, ..Wear::default() };
    }

    /// Reads pages of one flash page: bit i of `which` is `first + i`. Cost: 1 superblock record, 1
    /// hash per page.
    #[inline]
    pub fn read(&mut self, superblock: u32, first: Ppa, which: u32, now: Nanos) -> Verdict {
        let wear = &mut self.wear[superblock as usize];
        wear.reads = wear.reads.saturating_add(1);
        let due = wear.reads >= wear.due_reads || now >= wear.due_time;
        let refresh = due && self.update(superblock, now);
        let wear = &self.wear[superblock as usize];
        let salt = self.seed ^ u64::from(wear.cycles) << 32;
        let (mut luck, mut left) = (u32::MAX, which);
        while left != 0 {
            luck = luck.min(hash(salt ^ u64::from(first.0 + left.trailing_zeros())));
            left &= left - 1;
        }
        if luck >= wear.fails {
            return Verdict { retries: 0, lost: 0, refresh };
        }
        let (retries, lost) = self.retries(superblock, luck);
        let always = self.fails[self.row(superblock).end - 1];
        let fails = |bit: &u32| hash(salt ^ u64::from(first.0 + bit)) < always;
        let failed = (0..u32::BITS).filter(|bit| which >> bit & 1 == 1 && lost && fails(bit));
        Verdict { retries, lost: failed.fold(0, |lost, bit| lost | 1 << bit), refresh }
    }

    #[cold]
    fn retries(&mut self, superblock: u32, luck: u32) -> (u32, bool) {
        let fails = &self.fails[self.row(superblock)];
        let retries = fails.iter().position(|&share| luck >= share);
        let lost = retries.is_none();
        let retries = retries.map_or(self.spec.retries_max, |r| r as u32);
        self.counts.retried_reads += u64::from(retries > 0);
        self.counts.retries += u64::from(retries);
        self.counts.media_errors += u64::from(lost);
        (retries, lost)
    }

    fn row(&self, superblock: u32) -> std::ops::Range<usize> {
        let len = self.spec.retries_max as usize + 1;
        let begin = superblock as usize * len;
        begin..begin + len
    }

    /// Computes a superblock's rates anew; returns whether its data should be moved.
    #[cold]
    fn update(&mut self, superblock: u32, now: Nanos) -> bool {
        let row = self.row(superblock);
        let wear = &mut self.wear[superblock as usize];
        let age = wear.age(now);
        let per_page = f64::from(wear.reads) / f64::from(self.spec.superblock_flash_pages);
        let mut rate = self.spec.rate.of(wear.cycles, per_page, age.0 as f64 / DAY_NS);
        for share in &mut self.fails[row.clone()] {
            *share = share_of(self.curve.fails(rate));
            rate *= self.spec.retry_gain;
        }
        wear.fails = self.fails[row.start];
        let step = (wear.reads >> 4).max(self.spec.superblock_flash_pages >> 4).max(1);
        let refresh = wear.reads >= wear.refresh_reads && wear.refresh_reads < u32::MAX;
        if refresh {
            wear.refresh_reads = wear.reads.saturating_add(self.spec.refresh_reads);
            self.counts.refreshes += 1;
        }
        wear.due_reads = wear.reads.saturating_add(step).min(wear.refresh_reads);
        wear.due_time = now.after(Nanos(age.0 >> 4).max(HOUR));
        refresh
    }

    /// A superblock has been erased for the `cycles`th time: some of its blocks may have failed.
    ///
    /// If it may not retire it stays in use although blocks are missing, and waits for spares until
    /// its next erase.
    pub fn erase(&mut self, superblock: u32, cycles: u32, may_retire: bool) -> Erased {
        let blocks = self.spec.superblock_blocks;
        let missing = self.wear[superblock as usize].missing;
        let failed =
            self.failures(blocks - missing, self.spec.hazard(cycles.saturating_sub(1)..cycles));
        self.counts.failed_blocks += u64::from(failed);
        let needed = missing + failed;
        let spares = &mut self.counts.spare_blocks;
        let (left, outcome) = if u64::from(needed) <= *spares {
            *spares -= u64::from(needed);
            (0, Erased::Whole)
        } else if may_retire {
            *spares += u64::from(blocks - needed);
            self.counts.retired_superblocks += 1;
            (0, Erased::Retired)
        } else {
            (needed, Erased::Short)
        };
        self.wear[superblock as usize].missing = left;
        outcome
    }

    /// How many of `blocks` fail, each with probability `p`: a binomial draw by inversion.
    fn failures(&mut self, blocks: u32, p: f64) -> u32 {
        // 53 random bits: 0 <= luck < 1.
        let luck = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if p >= 1.0 {
            return blocks;
        }
        let mut chance = pow(1.0 - p, f64::from(blocks));
        let mut sum = chance;
        let mut failed = 0;
        while luck >= sum && failed < blocks {
            chance *= f64::from(blocks - failed) / f64::from(failed + 1) * p / (1.0 - p);
            sum += chance;
            failed += 1;
        }
        failed
    }
}

impl ErrorRate {
    /// Raw bit error rate of the middle page; at most one half.
    pub fn of(&self, cycles: u32, reads_per_page: f64, days: f64) -> f64 {
        let cycles = f64::from(cycles);
        let [wear, k] = self.wear;
        let [disturb, p, q] = self.disturb;
        let [age, m, n] = self.age;
        let sum = self.fresh
            + wear * pow(cycles, k)
            + disturb * pow(cycles, p) * pow(reads_per_page, q)
            + age * pow(cycles, m) * pow(days, n);
        sum.min(0.5)
    }
}

impl ReliabilitySpec {
    /// Probability that a block which has survived the first erases fails in those that follow them
    /// (Weibull).
    pub fn hazard(&self, erases: Range<u32>) -> f64 {
        let sum = |n: u32| pow(f64::from(n) / self.life_cycles, self.life_shape);
        let now = sum(erases.end);
        if now.is_infinite() {
            return 1.0;
        }
        1.0 - exp(sum(erases.start) - now)
    }
}

/// A probability in units of 2^-32.
fn share_of(probability: f64) -> u32 {
    (probability * 4_294_967_296.0).min(4_294_967_295.0) as u32
}

/// 32 bits that a place or a moment stands for.
#[inline(always)]
fn hash(x: u64) -> u32 {
    (mix(x) >> 32) as u32
}
