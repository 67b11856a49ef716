//! A synthetic workload: what fio and Iometer call a job.
//!
//! Random offsets are uniform over the span's blocks with replacement, as Iometer draws them and fio
//! does with `norandommap`, or a permutation of them in each pass, as fio does without it; sequential
//! offsets run through the span and begin again; skewed ones are in `distribution.rs`. Requests may differ
//! in size: uniform between two bounds, as fio's `bsrange`, or each with its share, as `bssplit`. A rate
//! holds requests back, as `rate_iops`, and so does think time (`pacing.rs`). Some requests may be trims, and
//! after every so many writes one may be a flush, as fio's `fsync`: it takes a queue slot like any other, and
//! what was submitted before it need not be completed. Neither counts in a figure of reads and writes.
//! Left out: skew that moves in time.

use drivebay_drive::{Io, Op, Spec};
use drivebay_units::{Nanos, Rng, SECTOR_BYTES};
use serde::Deserialize;

use crate::distribution::{Offsets, OpenZones, Skew, ZoneRequest, zones_have_blocks};
use crate::permutation::Permutation;
use crate::queue_slots::DEPTH_MAX;
use crate::sprandom::Sprandom;

/// 115 days: far above any test, below what the slots of a run can tell apart (208 days).
const RUN_S_MAX: f64 = 1e7;
/// A quarter of an hour.
const THINKTIME_US_MAX: u64 = 1_000_000_000;

/// Order of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Scattered over the span, as [`Offsets`] says.
    Random,
    /// One after another, round and round.
    Sequential,
}

/// How the offsets of a sequential load that reads and writes follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Streams {
    /// Reads follow reads and writes follow writes, both from the start of the span (fio).
    #[default]
    Each,
    /// One stream, whose requests are reads or writes by chance (Iometer).
    Shared,
}

/// "Stable": the data rate of the last `window_s` seconds stays within `within_percent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stable {
    /// Length of the window.
    pub window_s: u64,
    /// Largest minus smallest second, over the mean, in percent.
    pub within_percent: f64,
    /// Not judged earlier than this.
    pub min_s: u64,
}

/// When a run ends; the first that happens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stop {
    /// After this much drive time.
    pub duration_s: Option<f64>,
    /// After requests for this many bytes; trims of whole zones do not count.
    pub bytes: Option<u64>,
    /// When the rate is stable.
    pub stable: Option<Stable>,
}

impl Stop {
    /// After `seconds` of drive time.
    #[must_use]
    pub fn after_s(seconds: f64) -> Stop {
        Stop { duration_s: Some(seconds), ..Stop::default() }
    }

    /// After requests for `bytes`.
    #[must_use]
    pub fn after_bytes(bytes: u64) -> Stop {
        Stop { bytes: Some(bytes), ..Stop::default() }
    }
}

/// When requests are due that a rate holds back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateProcess {
    /// At equal distances.
    #[default]
    Linear,
    /// One by one at random.
    Poisson,
}

/// A closed loop of requests at a queue depth.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Order of offsets.
    pub pattern: Pattern,
    /// How random offsets are drawn.
    pub offsets: Offsets,
    /// Whether sequential reads and writes go their own ways.
    pub streams: Streams,
    /// Share of reads, 0 to 100.
    pub read_percent: f64,
    /// Share of trims, for random offsets; what is neither is a write.
    pub trim_percent: f64,
    /// If any: a flush follows so many writes.
    pub fsync: Option<u32>,
    /// Size of a request; a multiple of 512.
    pub block_bytes: u64,
    /// If given, sizes are uniform multiples of `block_bytes` up to this; for random offsets only.
    pub block_bytes_max: Option<u64>,
    /// If any: sizes, multiples of `block_bytes`, with their shares of the requests in per cent; for random
    /// offsets only.
    pub bssplit: Vec<(u64, u32)>,
    /// Requests a second, in all queues together, if the queue depth allows; late ones are caught up.
    pub rate_iops: Option<f64>,
    /// When they are due.
    pub rate_process: RateProcess,
    /// The host's pause once `thinktime_blocks` requests were made and all are completed, in microseconds.
    pub thinktime_us: Option<u64>,
    /// Requests between two pauses.
    pub thinktime_blocks: u32,
    /// Requests outstanding, in each queue.
    pub queue_depth: u32,
    /// Submission queues (NVMe), each with a processor of the host.
    pub queues: u32,
    /// First byte of the span; a multiple of 512.
    pub span_start_bytes: u64,
    /// Length of the span; rounded down to whole blocks.
    pub span_bytes: u64,
    /// When to end.
    pub stop: Stop,
}

/// Random writes of 4 KiB at queue depth 32; `span_bytes` and `stop` are still to be given.
impl Default for Workload {
    fn default() -> Workload {
        Workload {
            pattern: Pattern::Random,
            offsets: Offsets::Uniform,
            streams: Streams::Each,
            read_percent: 0.0,
            trim_percent: 0.0,
            fsync: None,
            block_bytes: 4096,
            block_bytes_max: None,
            bssplit: Vec::new(),
            rate_iops: None,
            rate_process: RateProcess::Linear,
            thinktime_us: None,
            thinktime_blocks: 1,
            queue_depth: 32,
            queues: 1,
            span_start_bytes: 0,
            span_bytes: 0,
            stop: Stop::default(),
        }
    }
}

/// Why a workload is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{field}: {given} is not allowed; must be {allowed}\nhint: change {field} in the suite or the call"
)]
pub struct WorkloadError {
    /// Field of [`Workload`].
    pub field: &'static str,
    /// The value.
    pub given: String,
    /// What would be accepted.
    pub allowed: String,
}

impl Workload {
    /// Checks all fields against a drive and its host.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is not allowed.
    pub fn check(&self, spec: &Spec) -> Result<(), WorkloadError> {
        self.check_requests(spec.capacity_bytes())?;
        self.check_queues(spec)
    }

    fn check_requests(&self, capacity_bytes: u64) -> Result<(), WorkloadError> {
        let refuse = |field, given: String, allowed: &str| {
            Err(WorkloadError { field, given, allowed: allowed.to_owned() })
        };
        if !(0.0..=100.0).contains(&self.read_percent) {
            return refuse("read_percent", self.read_percent.to_string(), "0 to 100");
        }
        let trims = self.trim_percent;
        let scattered = self.pattern == Pattern::Random && self.queues == 1;
        if !(0.0..100.0).contains(&trims)
            || trims + self.read_percent > 100.0
            || trims > 0.0 && !scattered
        {
            let allowed =
                "0 to below 100, at most 100 with read_percent, for random offsets and one queue";
            return refuse("trim_percent", trims.to_string(), allowed);
        }
        if let Some(writes) = self.fsync
            && (writes == 0
                || trims + self.read_percent >= 100.0
                || self.queues > 1
                || self.rate_iops.is_some())
        {
            let allowed = "at least 1, with writes, one queue and no rate_iops";
            return refuse("fsync", writes.to_string(), allowed);
        }
        let block = self.block_bytes;
        if block == 0 || !block.is_multiple_of(SECTOR_BYTES) || block > 1 << 26 {
            return refuse("block_bytes", block.to_string(), "a multiple of 512 up to 64 MiB");
        }
        if let Some(most) = self.block_bytes_max {
            let sane = most >= block && most.is_multiple_of(block) && most <= 1 << 26;
            if !self.sizes_may_differ() || !sane || !self.bssplit.is_empty() {
                let allowed = "a multiple of block_bytes up to 64 MiB, for random offsets that are no \
                               permutation, without bssplit";
                return refuse("block_bytes_max", most.to_string(), allowed);
            }
        }
        if !self.bssplit.is_empty() {
            let sane = |&(bytes, percent): &(u64, u32)| {
                bytes > 0 && bytes.is_multiple_of(block) && bytes <= 1 << 26 && percent <= 100
            };
            let whole =
                self.bssplit.iter().map(|&(_, percent)| u64::from(percent)).sum::<u64>() == 100;
            if !self.sizes_may_differ() || !whole || !self.bssplit.iter().all(sane) {
                let allowed = "multiples of block_bytes up to 64 MiB with whole per cent that are 100 \
                               together, for random offsets that are no permutation";
                return refuse("bssplit", format!("{:?}", self.bssplit), allowed);
            }
        }
        if let Some(rate) = self.rate_iops
            && !(rate > 0.0 && rate <= 1e9)
        {
            return refuse("rate_iops", rate.to_string(), "above 0, up to 1e9");
        }
        if let Some(pause) = self.thinktime_us
            && !(self.queues == 1 && (1..=THINKTIME_US_MAX).contains(&pause))
        {
            return refuse("thinktime_us", pause.to_string(), "1 to 1e9, with one queue");
        }
        if self.thinktime_blocks == 0 {
            return refuse("thinktime_blocks", "0".to_owned(), "at least 1");
        }
        if !(1..=DEPTH_MAX as u32).contains(&self.queue_depth) {
            return refuse("queue_depth", self.queue_depth.to_string(), "1 to 1024");
        }
        if !self.span_start_bytes.is_multiple_of(SECTOR_BYTES) {
            return refuse(
                "span_start_bytes",
                self.span_start_bytes.to_string(),
                "a multiple of 512",
            );
        }
        let end = self.span_start_bytes.checked_add(self.span_bytes);
        let largest = self.largest_bytes();
        if self.span_bytes < largest || end.is_none_or(|end| end > capacity_bytes) {
            let allowed =
                format!("at least one block, and inside the drive's {capacity_bytes} bytes");
            return refuse("span_bytes", self.span_bytes.to_string(), &allowed);
        }
        if let Offsets::Zoned(zones) | Offsets::ZonedScattered(zones) = &self.offsets
            && !zones_have_blocks(zones, (self.span_bytes - largest) / block + 1)
        {
            let allowed = "a block at least in every zone that is used";
            return refuse("offsets", format!("{zones:?}"), allowed);
        }
        if let Offsets::OpenZones { open, zones } = self.offsets {
            let zone = self.span_bytes / block / u64::from(zones) * block;
            let plain = self.read_percent == 0.0
                && self.trim_percent == 0.0
                && largest == block
                && self.pattern == Pattern::Random
                && self.queues == 1;
            if !plain || zone == 0 || zone / SECTOR_BYTES > u64::from(u32::MAX) {
                let allowed =
                    "a block to 2 TiB a zone, with random writes alone, of one size in one queue";
                return refuse("offsets", format!("open-zones:{open}/{zones}"), allowed);
            }
        }
        let stop = &self.stop;
        if stop.duration_s.is_none() && stop.bytes.is_none() {
            return refuse("stop", "no end".to_owned(), "a duration_s or bytes");
        }
        if stop.duration_s.is_some_and(|s| !(s > 0.0 && s <= RUN_S_MAX)) {
            return refuse(
                "stop.duration_s",
                format!("{:?}", stop.duration_s),
                "above 0, up to 115 days",
            );
        }
        if let (None, Some(bytes)) = (stop.duration_s, stop.bytes) {
            let requests = bytes as f64 / block as f64;
            let allowed = "such that the bytes take at most 115 days, or with a duration_s";
            if let Some(rate) = self.rate_iops
                && requests / rate > RUN_S_MAX
            {
                return refuse("rate_iops", rate.to_string(), allowed);
            }
            let pauses = requests / f64::from(self.thinktime_blocks);
            if let Some(pause) = self.thinktime_us
                && pauses * pause as f64 / 1e6 > RUN_S_MAX
            {
                return refuse("thinktime_us", pause.to_string(), allowed);
            }
        }
        if stop.bytes == Some(0) {
            return refuse("stop.bytes", "0".to_owned(), "at least 1");
        }
        if let Some(s) = &stop.stable {
            let sane = s.window_s >= 2 && s.within_percent > 0.0 && s.min_s >= s.window_s;
            if !sane {
                let given = format!("{s:?}");
                return refuse(
                    "stop.stable",
                    given,
                    "window_s >= 2, within_percent > 0, min_s >= window_s",
                );
            }
        }
        Ok(())
    }

    /// Largest request, bytes.
    #[must_use]
    pub fn largest_bytes(&self) -> u64 {
        let split = self.bssplit.iter().map(|&(bytes, _)| bytes).max();
        self.block_bytes_max.or(split).unwrap_or(self.block_bytes)
    }

    /// Whether a request may take more than one block.
    fn sizes_may_differ(&self) -> bool {
        let passes = self.offsets.pass_blocks(1).is_some();
        self.pattern == Pattern::Random && !passes
    }

    /// Checks the queues against what drive and host offer.
    fn check_queues(&self, spec: &Spec) -> Result<(), WorkloadError> {
        let refuse =
            |field, given: String, allowed: String| Err(WorkloadError { field, given, allowed });
        let (queues, own) = (self.queues, spec.host_interface.queues_max);
        let (most, whose) = if spec.host.queues_max < own {
            (spec.host.queues_max, "host.processors")
        } else {
            (own, "the drive's host_interface.queues_max")
        };
        if !(1..=most).contains(&queues) {
            let allowed = format!("1 to {most}, {whose}");
            return refuse("queues", queues.to_string(), allowed);
        }
        let together = u64::from(queues) * u64::from(self.queue_depth);
        let room = DEPTH_MAX as u64;
        if queues > 1 && (together > room || self.queue_depth > spec.queue_depth_max) {
            let allowed = format!(
                "at most {} a queue, and {room} in all {queues} together",
                spec.queue_depth_max
            );
            return refuse("queue_depth", self.queue_depth.to_string(), allowed);
        }
        let commands = u64::from(spec.queue_depth_max);
        let held_back = self.rate_iops.is_some() || self.thinktime_us.is_some();
        if held_back && u64::from(self.queue_depth) > commands {
            let allowed = format!(
                "at most {commands}, what the interface carries, with rate_iops or thinktime_us"
            );
            return refuse("queue_depth", self.queue_depth.to_string(), allowed);
        }
        Ok(())
    }

    /// Length of the run, as far as it is bounded by time.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        self.stop.duration_s.map(|s| Nanos((s * 1e9).round() as u64))
    }
}

/// How the next block is found.
enum Order {
    Uniform,
    Permuted { pass: Permutation, orders: Option<Rng> },
    Sequential { shared: bool },
    Skewed(Skew),
    OpenZones(OpenZones),
    Sprandom(Box<Sprandom>),
}

impl Order {
    fn new(workload: &Workload, blocks: u64, seed: &Rng) -> Order {
        let mut orders = seed.fork("orders");
        let largest = workload.largest_bytes() / workload.block_bytes;
        if let Some(skew) = Skew::new(&workload.offsets, blocks - largest + 1) {
            return Order::Skewed(skew);
        }
        match (workload.pattern, &workload.offsets) {
            (Pattern::Sequential, _) => {
                Order::Sequential { shared: workload.streams == Streams::Shared }
            }
            (Pattern::Random, Offsets::Uniform) => Order::Uniform,
            (Pattern::Random, Offsets::OpenZones { open, zones }) => {
                Order::OpenZones(OpenZones::new(*open, *zones, blocks))
            }
            (Pattern::Random, Offsets::Sprandom(percent)) => {
                Order::Sprandom(Box::new(Sprandom::new(blocks, percent / 100.0, orders)))
            }
            (Pattern::Random, offsets) => Order::Permuted {
                pass: Permutation::new(blocks, &mut orders),
                orders: (*offsets == Offsets::Permutation).then_some(orders),
            },
        }
    }
}

/// Sizes of requests, in blocks.
enum Sizes {
    One,
    UpTo(u64),
    /// Shares up to and with each, of 100.
    Split(Vec<(u64, u64)>),
}

impl Sizes {
    fn new(workload: &Workload) -> Sizes {
        if let Some(most) = workload.block_bytes_max.filter(|&most| most > workload.block_bytes) {
            return Sizes::UpTo(most / workload.block_bytes);
        }
        let mut shares = 0;
        let split = workload.bssplit.iter().map(|&(bytes, percent)| {
            shares += u64::from(percent);
            (shares, bytes / workload.block_bytes)
        });
        let split: Vec<(u64, u64)> = split.collect();
        if split.is_empty() { Sizes::One } else { Sizes::Split(split) }
    }

    #[inline(always)]
    fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Sizes::One => 1,
            Sizes::UpTo(most) => 1 + rng.below(*most),
            Sizes::Split(split) => {
                let chance = rng.below(100);
                let of = |&&(until, _): &&(u64, u64)| chance < until;
                split.iter().find(of).expect("the shares are 100 together").1
            }
        }
    }
}

/// A share in per cent as one of 2^32.
fn of_2_32(percent: f64) -> u64 {
    (percent * (1u64 << 32) as f64 / 100.0) as u64
}

/// Draws the requests of a workload.
pub struct Generator {
    order: Order,
    rng: Rng,
    blocks: u64,
    /// Next block of a stream of reads and one of writes, or of both; or a place in the permutation.
    next_block: [u64; 2],
    start_lba: u64,
    block_sectors: u32,
    sizes: Sizes,
    /// Of 2^32: the share of reads, and that of reads and trims together.
    read_share: u64,
    unwritten_share: u64,
    pure: Option<Op>,
    /// Writes from one flush to the next, and until it.
    fsync: u64,
    until_flush: u64,
}

impl Generator {
    /// The requests of `workload`, from this seed.
    pub fn new(workload: &Workload, seed: u64) -> Generator {
        let seed = Rng::new(seed);
        let blocks = workload.span_bytes / workload.block_bytes;
        Generator {
            order: Order::new(workload, blocks, &seed),
            rng: seed.fork("workload"),
            blocks,
            next_block: [0; 2],
            start_lba: workload.span_start_bytes / SECTOR_BYTES,
            block_sectors: (workload.block_bytes / SECTOR_BYTES) as u32,
            sizes: Sizes::new(workload),
            read_share: of_2_32(workload.read_percent),
            unwritten_share: of_2_32(workload.read_percent + workload.trim_percent),
            fsync: workload.fsync.map_or(u64::MAX, u64::from),
            until_flush: workload.fsync.map_or(u64::MAX, u64::from),
            pure: if workload.read_percent == 100.0 {
                Some(Op::Read)
            } else {
                (workload.read_percent + workload.trim_percent == 0.0).then_some(Op::Write)
            },
        }
    }

    /// The next request. Cost: 1 draw (uniform), walk (permutation) or both (Zipf), 1 more (mixed), 1 more
    /// (sizes differ). The order of the draws is part of every result.
    #[inline(always)]
    pub fn next_io(&mut self) -> Io {
        if self.until_flush == 0 {
            self.until_flush = self.fsync;
            return Io { op: Op::Flush, lba: self.start_lba, sectors: 0 };
        }
        let count = self.sizes.draw(&mut self.rng);
        let drawn = match self.order {
            Order::Uniform => self.rng.below(self.blocks - count + 1),
            _ => 0,
        };
        let op = self.pure.unwrap_or_else(|| {
            let chance = self.rng.next_u64() >> 32;
            if chance < self.read_share {
                Op::Read
            } else if chance < self.unwritten_share {
                Op::Trim
            } else {
                Op::Write
            }
        });
        let block = match &mut self.order {
            Order::Uniform => drawn,
            Order::Skewed(skew) => skew.draw(&mut self.rng),
            Order::Sprandom(passes) => passes.next(),
            Order::OpenZones(zones) => match zones.next(&mut self.rng) {
                ZoneRequest::Write { block } => block,
                ZoneRequest::Trim { first, blocks } => {
                    let lba = self.start_lba + first * u64::from(self.block_sectors);
                    let sectors = self.block_sectors * blocks as u32;
                    return Io { op: Op::Trim, lba, sectors };
                }
            },
            Order::Sequential { shared } => {
                let stream = usize::from(!*shared && op == Op::Write);
                self.step(stream)
            }
            Order::Permuted { pass, orders } => {
                let block = pass.at(self.next_block[0]);
                if self.next_block[0] + 1 == self.blocks
                    && let Some(orders) = orders
                {
                    *pass = Permutation::new(self.blocks, orders);
                }
                self.step(0);
                block
            }
        };
        self.until_flush -= u64::from(op == Op::Write);
        let lba = self.start_lba + block * u64::from(self.block_sectors);
        Io { op, lba, sectors: self.block_sectors * count as u32 }
    }

    /// By how many bytes a request counts towards an end by amount.
    #[inline(always)]
    pub(crate) fn amount(&self, io: &Io) -> u64 {
        let whole_zone = io.op == Op::Trim && matches!(self.order, Order::OpenZones(_));
        if whole_zone { 0 } else { u64::from(io.sectors) * SECTOR_BYTES }
    }

    /// The next block of a stream, which then moves on, round and round.
    #[inline(always)]
    fn step(&mut self, stream: usize) -> u64 {
        let next = &mut self.next_block[stream];
        let block = *next;
        *next = if block + 1 == self.blocks { 0 } else { block + 1 };
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 1_000;

    fn blocks(load: &Workload, count: u64) -> Vec<(Op, u64)> {
        let mut generator = Generator::new(load, 1);
        let drawn = (0..count).map(|_| generator.next_io());
        drawn.map(|io| (io.op, (io.lba - 8) / u64::from(io.sectors))).collect()
    }

    fn load(pattern: Pattern) -> Workload {
        Workload {
            pattern,
            read_percent: 60.0,
            queue_depth: 1,
            span_start_bytes: 4096,
            span_bytes: BLOCKS * 4096,
            stop: Stop::after_s(1.0),
            ..Workload::default()
        }
    }

    #[test]
    fn mixed_sequential_loads_have_a_stream_each_or_share_one() {
        let round = |count: u64| (0..count).map(|n| n % BLOCKS).collect::<Vec<_>>();
        let of = |drawn: &[(Op, u64)], op| {
            drawn.iter().filter(|io| io.0 == op).map(|io| io.1).collect::<Vec<_>>()
        };
        let each = blocks(&load(Pattern::Sequential), 5_000);
        for op in [Op::Read, Op::Write] {
            let stream = of(&each, op);
            assert!(stream.len() > 1_900, "both wrap");
            assert_eq!(stream, round(stream.len() as u64));
        }
        let shared = Workload { streams: Streams::Shared, ..load(Pattern::Sequential) };
        let drawn = blocks(&shared, 5_000);
        assert_eq!(drawn.iter().map(|io| io.1).collect::<Vec<_>>(), round(5_000));
        let reads = of(&drawn, Op::Read).len() as f64;
        assert!((reads / 5_000.0 - 0.6).abs() < 0.03, "{reads}");
    }

    #[test]
    fn a_flush_follows_so_many_writes_and_changes_no_other_request() {
        let plain = Workload { trim_percent: 10.0, ..load(Pattern::Random) };
        let mut with_flushes = Generator::new(&Workload { fsync: Some(3), ..plain.clone() }, 1);
        let drawn: Vec<Io> = (0..5_000).map(|_| with_flushes.next_io()).collect();
        let of = |part: &[Io], op| part.iter().filter(|io| io.op == op).count();
        let mut parts: Vec<_> = drawn.split_inclusive(|io| io.op == Op::Flush).collect();
        let last = parts.pop().expect("not empty");
        assert!(parts.len() > 400 && of(last, Op::Write) <= 3);
        for part in parts {
            assert_eq!(of(part, Op::Write), 3);
            assert_eq!(part[part.len() - 2].op, Op::Write, "right behind the third");
        }
        let mut without = Generator::new(&plain, 1);
        let others = drawn.into_iter().filter(|io| io.op != Op::Flush);
        others.for_each(|io| assert_eq!(io, without.next_io()));
    }

    #[test]
    fn open_zones_are_trimmed_and_then_written_in_order() {
        const OPEN: usize = 3;
        const ZONE: u64 = 100;
        let offsets: Offsets = "open-zones:3/10".parse().expect("allowed");
        let load = Workload { offsets, read_percent: 0.0, ..load(Pattern::Random) };
        let mut generator = Generator::new(&load, 1);
        let mut written = [ZONE; 10];
        let (mut trims, mut turns) = ([0; 10], [0; 10]);
        for _ in 0..40_000 {
            let io = generator.next_io();
            let block = (io.lba - 8) / 8;
            let zone = (block / ZONE) as usize;
            match io.op {
                Op::Trim => {
                    assert_eq!((block % ZONE, u64::from(io.sectors)), (0, ZONE * 8));
                    assert_eq!(written[zone], ZONE, "a zone that is open is not drawn again");
                    (written[zone], trims[zone]) = (0, trims[zone] + 1);
                }
                _ => {
                    assert_eq!((io.op, block % ZONE), (Op::Write, written[zone]));
                    (written[zone], turns[zone]) = (written[zone] + 1, turns[zone] + 1);
                }
            }
            let open = written.iter().filter(|&&blocks| blocks < ZONE).count();
            assert!(open <= OPEN, "{open}");
        }
        // 396 zones, each drawn as often as the others.
        assert!(trims.iter().all(|&count| (25..=55).contains(&count)), "{trims:?}");
        assert_eq!(turns.iter().sum::<u64>() + trims.iter().sum::<u64>(), 40_000);
    }

    #[test]
    fn passes_of_a_permutation_are_whole_and_repeat_only_if_asked() {
        let passes = |offsets| {
            let load = Workload { offsets, ..load(Pattern::Random) };
            let drawn = blocks(&load, 3 * BLOCKS);
            let order: Vec<u64> = drawn.iter().map(|io| io.1).collect();
            for pass in order.chunks(BLOCKS as usize) {
                let mut sorted = pass.to_vec();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..BLOCKS));
            }
            order
        };
        let n = BLOCKS as usize;
        let fresh = passes(Offsets::Permutation);
        assert!(fresh[..n] != fresh[n..2 * n] && fresh[n..2 * n] != fresh[2 * n..]);
        let repeated = passes(Offsets::PermutationRepeated);
        assert!(repeated[..n] == repeated[n..2 * n] && repeated[n..2 * n] == repeated[2 * n..]);
    }
}
