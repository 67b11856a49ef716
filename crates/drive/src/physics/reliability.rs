//! Errors of the flash: read retries, lost pages, and failing blocks.
//!
//! Sources. Raw bit error rate as a sum of powers of cycles, reads and age: Kim, Choi and Min (FAST
//! 2019). Read disturb counts reads of the block since its erase: Cai et al. (DSN 2015). Retry:
//! another sensing with shifted voltages, each followed by a transfer and a decoding (Park et al.,
//! ASPLOS 2021). Blocks fail one by one and are replaced from spares; a superblock that cannot be
//! completed is retired, and its good blocks become spares (Schroeder et al., FAST 2016, on bad
//! blocks in the field). `guess:` that the rates of pages spread lognormally, that a retry leaves a
//! fixed part of the rate, and that block lives follow Weibull's distribution.
//!
//! Model: a page fails to decode if one of its codewords has more wrong bits than the code corrects
//! (Poisson). A hash of the place and its superblock's cycles determines the retries of a place:
//! the same page fails again until it is rewritten. Rates are updated when a superblock's reads or
//! age have grown by a sixteenth. Not modelled: the time of decoding (part of the cores' costs),
//! failed programs, temperature, layers of a 3D block, the help of parity across dies. A page that
//! is lost while it is copied stays lost until it is rewritten (firmware marks it so); after a
//! power cut that also takes the new data, it counts as good again. A replacement block counts as
//! worn as the block that it replaces: blocks fail a little too early.

mod curve;

use std::ops::Range;

use drivebay_units::{Nanos, Ppa, Rng, mix};
use libm::{exp, pow};

use crate::persist::{StateError, ensure, persist};
use crate::policy_plugin::RetriedRead;
use crate::profile::{ErrorRate, ReliabilitySpec};
use curve::Curve;

const DAY_NS: f64 = 86_400e9;
/// Minimum time between updates of the rate due to age.
const HOUR: Nanos = Nanos::secs(3600);

/// Counters of errors and wear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reliability {
    /// Reads of flash that needed a retry, including reads of garbage collection.
    pub retried_reads: u64,
    /// Sum of retries of all these reads.
    pub retries: u64,
    /// Reads that failed after the last retry, including reads of garbage collection.
    pub media_errors: u64,
    /// Superblocks whose data was moved because of too many reads.
    pub refreshes: u64,
    /// Blocks that failed in use.
    pub failed_blocks: u64,
    /// Spare blocks left.
    pub spare_blocks: u64,
    /// Retired superblocks.
    pub retired_superblocks: u64,
    /// True if the flash is worn out: every write is refused.
    pub read_only: bool,
}

persist!(Reliability: retried_reads, retries, media_errors, refreshes, failed_blocks, spare_blocks,
    retired_superblocks, read_only);

/// Reliability state of a superblock.
#[derive(Clone, Copy, Debug, Default)]
struct Wear {
    /// Flash page reads since the superblock was opened.
    reads: u32,
    /// Number of reads at which the rates are recomputed.
    due_reads: u32,
    /// Time at which the rates are recomputed.
    due_time: Nanos,
    /// Number of reads at which the data is moved.
    refresh_reads: u32,
    opened: Nanos,
    /// Additional age of the data from leaps (`Errors::live`).
    held: Nanos,
    /// Erases when the superblock was opened.
    cycles: u32,
    /// Share of places that fail at first sensing, in 2^-32.
    fails: u32,
    /// Failed blocks that wait for a spare.
    missing: u32,
}

persist!(Wear: reads, due_reads, due_time, refresh_reads, opened, held, cycles, fails, missing);

impl Wear {
    fn age(&self, now: Nanos, pace: u64) -> Nanos {
        let served = now.since_or_zero(self.opened).0.saturating_mul(pace);
        Nanos(served.saturating_add(self.held.0))
    }
}

/// State of the flash at a moment, from which a life counts.
#[derive(Clone, Debug)]
pub struct FlashMark {
    pub at: Nanos,
    /// Erases of each superblock.
    pub cycles: Vec<u32>,
    pub reliability: Reliability,
}

/// Step of a life that is not simulated: a window is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Leap {
    pub times: f64,
    pub length: Nanos,
    /// Time of the load, with its pauses, per time of the clock.
    pub pace: u64,
}

/// Outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Sensings beyond the first.
    pub retries: u32,
    /// Pages for which even the last sensing failed, as bits.
    pub lost: u32,
    /// True if the superblock has been read so often that its data should be moved.
    pub refresh: bool,
}

/// State of a superblock after an erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// All blocks work, or spares replace them.
    Whole,
    /// Blocks are missing, and the superblock must stay in use.
    Short,
    /// Blocks are missing, and the superblock is retired.
    Retired,
}

/// Errors and wear of all superblocks.
pub struct Errors {
    spec: ReliabilitySpec,
    curve: Curve,
    wear: Vec<Wear>,
    /// Share of places that fail, by superblock and sensing, in 2^-32.
    fails: Vec<u32>,
    /// Age that data gains per time of the clock: more than 1 in a life, whose load has pauses that
    /// are not simulated.
    pace: u64,
    seed: u64,
    rng: Rng,
    /// Counters so far.
    pub counts: Reliability,
}

persist!(Errors: wear, fails, pace, seed, rng, counts; given: spec, curve);

impl Errors {
    /// Checks that no superblock misses more blocks than it has.
    pub fn check(&self) -> Result<(), StateError> {
        let blocks = self.spec.superblock_blocks;
        ensure(self.wear.iter().all(|wear| wear.missing <= blocks), "a superblock's blocks")?;
        ensure(self.pace > 0, "a life's pace")
    }

    /// Creates flash whose first `good` superblocks have been erased `worn` times; some of their
    /// blocks have failed since.
    pub fn new(spec: ReliabilitySpec, superblocks: u32, good: u32, worn: u32, rng: &Rng) -> Errors {
        let mut rng = rng.fork("reliability");
        let spare_blocks = u64::from(spec.spare_blocks);
        let mut errors = Errors {
            curve: Curve::new(&spec),
            wear: vec![Wear::default(); superblocks as usize],
            fails: vec![0; superblocks as usize * (spec.retries_max as usize + 1)],
            pace: 1,
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

    /// Draws failures of a superblock's blocks in erases that were not simulated. Blocks without a
    /// spare are missing until its next erase.
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

    /// Accounts for a leap in which a superblock had `erases`. Data from before the load `began`
    /// was left unchanged and is now older by the leap.
    pub fn live(&mut self, superblock: u32, erases: Range<u32>, began: Nanos, leap: &Leap) {
        let wear = &mut self.wear[superblock as usize];
        wear.due_time = Nanos::ZERO;
        if wear.opened < began {
            wear.held = wear.held.after(leap.length);
        }
        if !erases.is_empty() {
            wear.cycles += erases.end - erases.start;
            self.age(superblock, erases);
        }
    }

    /// Adds the reads counted since `before` once more for each window of the leap, and keeps its
    /// pace.
    pub fn count_more(&mut self, before: &Reliability, leap: &Leap) {
        self.pace = leap.pace;
        let now = self.counts;
        let more = |now: u64, before: u64| ((now - before) as f64 * leap.times).round() as u64;
        self.counts.retried_reads += more(now.retried_reads, before.retried_reads);
        self.counts.retries += more(now.retries, before.retries);
        self.counts.media_errors += more(now.media_errors, before.media_errors);
        self.counts.refreshes += more(now.refreshes, before.refreshes);
    }

    /// Die time of one retry.
    pub fn retry_read(&self) -> Nanos {
        self.spec.retry_read
    }

    /// Describes a read that needed retries, for a policy.
    pub fn retried(&self, superblock: u32, verdict: Verdict, now: Nanos) -> RetriedRead {
        let wear = &self.wear[superblock as usize];
        RetriedRead {
            age_ns: wear.age(now, self.pace).0,
            superblock,
            retries: verdict.retries,
            retries_max: self.spec.retries_max,
            lost: verdict.lost.count_ones(),
            reads: wear.reads,
            cycles: wear.cycles,
        }
    }

    /// Opens a superblock after `cycles` erases: it receives data from `now` on.
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

    /// Recomputes a superblock's rates; returns true if its data should be moved.
    #[cold]
    fn update(&mut self, superblock: u32, now: Nanos) -> bool {
        let row = self.row(superblock);
        let wear = &mut self.wear[superblock as usize];
        let age = wear.age(now, self.pace);
        let per_page = f64::from(wear.reads) / f64::from(self.spec.superblock_flash_pages);
        let mut rate = self.spec.rate.at(wear.cycles, per_page, age.0 as f64 / DAY_NS);
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
        wear.due_time = now.after(Nanos(Nanos(age.0 >> 4).max(HOUR).0 / self.pace));
        refresh
    }

    /// Records the `cycles`th erase of a superblock, in which some of its blocks may fail.
    ///
    /// A superblock that may not retire stays in use with missing blocks, and waits for spares
    /// until its next erase.
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

    /// Number of failures among `blocks` blocks, each with probability `p`: a binomial draw by
    /// inversion.
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
    pub fn at(&self, cycles: u32, reads_per_page: f64, days: f64) -> f64 {
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
    /// Probability that a block that has survived the erases before this range fails in the range
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

/// Converts a probability to units of 2^-32.
fn share_of(probability: f64) -> u32 {
    (probability * 4_294_967_296.0).min(4_294_967_295.0) as u32
}

/// Hash of a place or a moment, with 32 bits.
#[inline(always)]
fn hash(x: u64) -> u32 {
    (mix(x) >> 32) as u32
}
