//! Draws the requests of a workload: offset, size and operation of each.
//!
//! The order of the random draws affects every result.

use drivebay_drive::{Io, Op, Spec};
use drivebay_units::{Rng, SECTOR_BYTES};

use crate::distribution::{Offsets, OpenZones, Skew, ZoneRequest};
use crate::permutation::Permutation;
use crate::sprandom::Sprandom;
use crate::workload::{Pattern, Streams, Workload, ZoneOp};

/// Selection of the next block.
enum Order {
    Uniform,
    /// Uniform for a share of the requests, in units of 2^-32; the others are sequential.
    PartlyRandom {
        share: u64,
    },
    Permuted {
        pass: Permutation,
        orders: Option<Rng>,
    },
    Sequential {
        shared: bool,
    },
    Skewed(Skew),
    OpenZones(OpenZones),
    Sprandom(Box<Sprandom>),
    Zones(ZoneOrder),
}

/// Sectors per block of a zoned drive.
const BLOCK_SECTORS: u64 = 8;
/// Stands for the number of written blocks of a zone that is to be opened first.
const TO_OPEN: u64 = u64::MAX;

/// Requests to the zones of a zoned drive, `used` zones at a time.
struct ZoneOrder {
    op: Op,
    sectors: u64,
    first: u64,
    count: u64,
    /// Zones started so far.
    begun: u64,
    /// Zones in use: the first sector, and the number of blocks written so far.
    used: Vec<(u64, u64)>,
    /// Index in `used` of the next request's zone.
    turn: usize,
    /// Blocks to write per zone.
    blocks: u64,
}

impl ZoneOrder {
    fn new(workload: &Workload, sectors: u64) -> ZoneOrder {
        let bytes = sectors * SECTOR_BYTES;
        let (first, mut count) = workload.zones_of_span(bytes);
        let share = workload.zone_fill_percent / 100.0;
        let blocks = ((bytes / workload.block_bytes) as f64 * share).ceil() as u64;
        let op = match workload.zone_op {
            ZoneOp::Write => Op::Write,
            ZoneOp::Append => Op::Append,
            ZoneOp::Zrwa => Op::ZrwaWrite,
            ZoneOp::Reset => Op::ZoneReset,
            ZoneOp::Finish => Op::ZoneFinish,
            ZoneOp::Open => Op::ZoneOpen,
            ZoneOp::Close => Op::ZoneClose,
        };
        if matches!(op, Op::ZoneOpen | Op::ZoneClose) {
            // Always the same zone, because the number of active zones is limited.
            count = 1;
        }
        // More than `blocks`, so that no flush or finish precedes the first zones.
        let used = vec![(0, blocks + 1); workload.zones as usize];
        ZoneOrder { op, sectors, first, count, begun: 0, used, turn: 0, blocks }
    }

    /// Starts the next zone; returns its first sector.
    fn begin(&mut self) -> u64 {
        let zone = self.first + self.begun % self.count;
        self.begun += 1;
        zone * self.sectors
    }

    fn next(&mut self, block_sectors: u32) -> Io {
        let manages = self.op.is_zone_management();
        let (begin, written) = self.used[self.turn];
        if written == TO_OPEN {
            self.used[self.turn].1 = 0;
            let opens = if manages { Op::ZoneOpen } else { Op::ZoneOpenZrwa };
            return Io::new(opens, begin, 0);
        }
        if written < self.blocks {
            self.used[self.turn].1 += 1;
            if !manages {
                self.turn = (self.turn + 1) % self.used.len();
            }
            let op = if manages { Op::Write } else { self.op };
            let at = if op == Op::Append { 0 } else { written * u64::from(block_sectors) };
            return Io::new(op, begin + at, block_sectors);
        }
        let in_areas = self.op == Op::ZrwaWrite;
        if (manages || in_areas) && written == self.blocks {
            self.used[self.turn].1 += 1;
            return match in_areas {
                true => Io::new(Op::ZrwaFlush, begin + self.sectors - BLOCK_SECTORS, 0),
                false => Io::new(self.op, begin, 0),
            };
        }
        let begin = self.begin();
        let opens_first = in_areas || self.op == Op::ZoneClose;
        self.used[self.turn] = (begin, if opens_first { TO_OPEN } else { 0 });
        match self.op {
            Op::ZoneReset => self.next(block_sectors),
            _ => Io::new(Op::ZoneReset, begin, 0),
        }
    }
}

impl Order {
    fn new(workload: &Workload, blocks: u64, seed: &Rng) -> Order {
        let mut orders = seed.fork("orders");
        let largest = workload.largest_blocks();
        if let Some(skew) = Skew::new(&workload.offsets, blocks - largest + 1) {
            return Order::Skewed(skew);
        }
        match (workload.pattern, &workload.offsets) {
            (Pattern::Sequential, _) => {
                Order::Sequential { shared: workload.streams == Streams::Shared }
            }
            (Pattern::Random, Offsets::Uniform) if workload.percentage_random < 100 => {
                Order::PartlyRandom { share: fixed_point(f64::from(workload.percentage_random)) }
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

/// Sizes of requests.
enum Sizes {
    One,
    /// Largest size, in blocks.
    UpTo(u64),
    /// Cumulative share in per cent, and size in sectors.
    Split(Vec<(u64, u32)>),
}

impl Sizes {
    fn new(workload: &Workload) -> Sizes {
        if let Some(most) = workload.block_bytes_max.filter(|&most| most > workload.block_bytes) {
            return Sizes::UpTo(most / workload.block_bytes);
        }
        let mut shares = 0;
        let split = workload.bssplit.iter().map(|&(bytes, percent)| {
            shares += u64::from(percent);
            (shares, (bytes / SECTOR_BYTES) as u32)
        });
        let split: Vec<_> = split.collect();
        if split.is_empty() { Sizes::One } else { Sizes::Split(split) }
    }

    /// Draws a size: in blocks, rounded up, and in sectors.
    #[inline(always)]
    fn draw(&self, rng: &mut Rng, block_sectors: u32) -> (u64, u32) {
        let sectors = match self {
            Sizes::One => return (1, block_sectors),
            Sizes::UpTo(most) => block_sectors * (1 + rng.below(*most)) as u32,
            Sizes::Split(split) => {
                let chance = rng.below(100);
                let contains = |&&(until, _): &&(u64, u32)| chance < until;
                split.iter().find(contains).expect("the shares add up to 100").1
            }
        };
        (sectors.div_ceil(block_sectors).into(), sectors)
    }
}

/// Converts a share in per cent to units of 2^-32.
fn fixed_point(percent: f64) -> u64 {
    (percent * (1u64 << 32) as f64 / 100.0) as u64
}

/// Draws the requests of a workload.
pub struct Generator {
    order: Order,
    rng: Rng,
    blocks: u64,
    /// Next block of the stream of reads, and of the stream of writes. The first one also serves a
    /// shared stream, and is the position in a permutation.
    next_block: [u64; 2],
    start_lba: u64,
    handle: u8,
    block_sectors: u32,
    sizes: Sizes,
    /// Share of reads, and that of reads and trims together, in units of 2^-32.
    read_share: u64,
    unwritten_share: u64,
    pure: Option<Op>,
    /// Writes between two flushes, and writes left until the next flush.
    fsync: u64,
    until_flush: u64,
}

impl Generator {
    /// Creates the requests of `workload` from a seed.
    pub fn new(workload: &Workload, seed: u64) -> Generator {
        let seed = Rng::new(seed);
        let blocks = workload.span_bytes / workload.block_bytes;
        Generator {
            order: Order::new(workload, blocks, &seed),
            rng: seed.fork("workload"),
            blocks,
            next_block: [0; 2],
            start_lba: workload.span_start_bytes / SECTOR_BYTES,
            handle: workload.handle,
            block_sectors: (workload.block_bytes / SECTOR_BYTES) as u32,
            sizes: Sizes::new(workload),
            read_share: fixed_point(workload.read_percent),
            unwritten_share: fixed_point(workload.read_percent + workload.trim_percent),
            fsync: workload.fsync.map_or(u64::MAX, u64::from),
            until_flush: workload.fsync.map_or(u64::MAX, u64::from),
            pure: if workload.read_percent == 100.0 {
                Some(Op::Read)
            } else {
                (workload.read_percent + workload.trim_percent == 0.0).then_some(Op::Write)
            },
        }
    }

    /// Creates the requests on a given drive, with its reclaim groups and zones if the workload
    /// uses them.
    pub fn on(workload: &Workload, seed: u64, spec: &Spec) -> Generator {
        let mut generator = Generator::new(workload, seed);
        generator.handle += workload.reclaim_group * spec.streams.handles as u8;
        if let Some(zones) = spec.zones.filter(|_| workload.zones > 0) {
            generator.order = Order::Zones(ZoneOrder::new(workload, zones.sectors));
        }
        generator
    }

    /// Returns the next request. Cost: one draw (uniform), one walk (permutation) or both (Zipf);
    /// one more draw if mixed; one more if sizes differ. The order of the draws affects every
    /// result.
    #[inline(always)]
    pub fn next_io(&mut self) -> Io {
        if self.until_flush == 0 {
            self.until_flush = self.fsync;
            return Io::new(Op::Flush, self.start_lba, 0);
        }
        if let Order::Zones(zones) = &mut self.order {
            let io = zones.next(self.block_sectors);
            self.until_flush -= u64::from(io.op.is_write());
            return io;
        }
        let (count, sectors) = self.sizes.draw(&mut self.rng, self.block_sectors);
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
            Order::PartlyRandom { share } => {
                let next = &mut self.next_block[usize::from(op == Op::Write)];
                let block = if self.rng.next_u64() >> 32 < *share {
                    self.rng.below(self.blocks - count + 1)
                } else if *next + count > self.blocks {
                    0
                } else {
                    *next
                };
                *next = block + count;
                block
            }
            Order::Skewed(skew) => skew.draw(&mut self.rng),
            Order::Sprandom(passes) => passes.next(),
            Order::OpenZones(zones) => match zones.next(&mut self.rng) {
                ZoneRequest::Write { block } => block,
                ZoneRequest::Trim { first, blocks } => {
                    let lba = self.start_lba + first * u64::from(self.block_sectors);
                    let sectors = self.block_sectors * blocks as u32;
                    return Io::new(Op::Trim, lba, sectors);
                }
            },
            Order::Zones(_) => unreachable!("drawn above"),
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
        Io { op, lba, sectors, handle: self.handle }
    }

    /// Returns the bytes of a request that count towards an end by amount.
    #[inline(always)]
    pub(crate) fn amount(&self, io: &Io) -> u64 {
        if let Order::Zones(_) = self.order {
            let counts = !self.counts_apart(io.op);
            return if counts { u64::from(self.block_sectors) * SECTOR_BYTES } else { 0 };
        }
        let whole_zone = io.op == Op::Trim && matches!(self.order, Order::OpenZones(_));
        if whole_zone { 0 } else { u64::from(io.sectors) * SECTOR_BYTES }
    }

    /// True for requests that are left out of the results of reads and writes: trims and flushes,
    /// and for zone workloads all but the measured operation.
    #[inline(always)]
    pub(crate) fn counts_apart(&self, op: Op) -> bool {
        match &self.order {
            Order::Zones(zones) => zones.op != op,
            _ => matches!(op, Op::Trim | Op::Flush),
        }
    }

    /// Returns the next block of a stream, and advances the stream; it wraps around at the end.
    #[inline(always)]
    fn step(&mut self, stream: usize) -> u64 {
        let next = &mut self.next_block[stream];
        let block = *next;
        *next = if block + 1 == self.blocks { 0 } else { block + 1 };
        block
    }
}

#[cfg(test)]
#[path = "../tests/unit/generator.rs"]
mod tests;
