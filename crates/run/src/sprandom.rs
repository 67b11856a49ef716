//! The order of fio's `sprandom`: one pass that writes every block of a span, and some blocks
//! again, so that the drive is left as in the steady state of uniform random writes.
//!
//! The pass consists of regions with the same number of writes. A share of each region's blocks is
//! written again at the start of the next region, so that superblocks of each age have as many
//! invalid pages as in steady state. Sources: fio's HOWTO (`sprandom`, from 3.41 on: 100 regions,
//! write amplification 0.5 / spare + 0.7); P. Desnoyers, "Analytic modeling of SSD write
//! performance", ACM TOS 8 (2), 2012, for the distribution: a drive has an amount of superblocks
//! with valid share v in proportion to 1 / v, from the victim's v = 1 - 1 / WA up to 1. Left out:
//! fio draws by a bitmap or an LFSR; here a permutation without memory is used.

use drivebay_units::Rng;

use crate::permutation::Permutation;

/// fio's default of `spr_num_regions`.
const REGIONS: usize = 100;

/// Consecutive passes.
pub(crate) struct Sprandom {
    blocks: u64,
    regions: Vec<Region>,
    order: Permutation,
    orders: Rng,
    /// Current region, and its writes so far.
    region: usize,
    place: u64,
    /// Blocks of the permutation written so far.
    placed: u64,
    /// Blocks that this region writes again, and those chosen for the next region.
    again: Vec<u64>,
    chosen: Vec<u64>,
    /// Accumulated share of blocks to write again; at 2^32 a block is chosen.
    share: u64,
}

/// A part of a pass.
#[derive(Clone, Copy)]
struct Region {
    /// Repeated writes of blocks of the previous region, and the writes of new blocks after them.
    again: u64,
    fresh: u64,
    /// Share of both that is written again, in units of 2^-32.
    invalid: u64,
}

/// Returns the regions of a pass, in the order in which they will be collected, and a last one for
/// the rest of the span.
fn regions(blocks: u64, spare: f64) -> Vec<Region> {
    let writes = ((blocks as f64 * (1.0 + spare)) as u64 / REGIONS as u64).max(1);
    let (mut placed, mut again, mut share) = (0, 0, 0u128);
    let mut regions: Vec<Region> = invalid_shares(spare)
        .map(|invalid| {
            let fresh = (writes - again).min(blocks - placed);
            let region = Region { again, fresh, invalid };
            placed += fresh;
            share += u128::from(invalid) * u128::from(again + fresh);
            (again, share) = ((share >> 32) as u64, share & u128::from(u32::MAX));
            region
        })
        .collect();
    regions.push(Region { again: 0, fresh: blocks - placed, invalid: 0 });
    regions
}

/// Returns the share of invalid pages of each of equally large regions, in units of 2^-32.
fn invalid_shares(spare: f64) -> impl Iterator<Item = u64> {
    let victim = (1.0 - 1.0 / (0.5 / spare + 0.7)).max(0.0);
    let last = (REGIONS - 1) as f64;
    let valid = move |i: usize| 1.0 + (victim - 1.0) * i as f64 / last;
    let mut amount = 0.0;
    let amounts: [f64; REGIONS] = std::array::from_fn(|i| {
        amount += 1.0 / valid(i).max(1e-9);
        amount
    });
    (0..REGIONS).rev().map(move |i| {
        let at = amounts[0] + (amounts[REGIONS - 1] - amounts[0]) * i as f64 / last;
        let above = amounts.partition_point(|&amount| amount < at).clamp(1, REGIONS - 1);
        let (low, high) = (amounts[above - 1], amounts[above]);
        let part = ((at - low) / (high - low)).clamp(0.0, 1.0);
        let valid = valid(above - 1) + (valid(above) - valid(above - 1)) * part;
        ((1.0 - valid) * (1u64 << 32) as f64) as u64
    })
}

impl Sprandom {
    /// Creates passes; `spare` is the drive's spare flash over its capacity, above 0 and up to 1.
    pub(crate) fn new(blocks: u64, spare: f64, mut orders: Rng) -> Sprandom {
        Sprandom {
            blocks,
            regions: regions(blocks, spare),
            order: Permutation::new(blocks, &mut orders),
            orders,
            region: 0,
            place: 0,
            placed: 0,
            again: Vec::new(),
            chosen: Vec::new(),
            share: 0,
        }
    }

    /// Number of writes of a pass.
    pub(crate) fn pass_blocks(blocks: u64, spare: f64) -> u64 {
        let writes = |sum: u64, region: &Region| sum.saturating_add(region.again + region.fresh);
        regions(blocks, spare).iter().fold(0, writes)
    }

    /// Returns the next block. Cost: one walk of the permutation, or one list access.
    pub(crate) fn next(&mut self) -> u64 {
        let mut region = self.regions[self.region];
        while self.place == region.again + region.fresh {
            region = self.next_region();
        }
        let block = if self.place < region.again {
            self.again[self.place as usize]
        } else {
            self.placed += 1;
            self.order.at(self.placed - 1)
        };
        self.place += 1;
        self.share += region.invalid;
        if self.share >> 32 > 0 {
            self.share &= u64::from(u32::MAX);
            self.chosen.push(block);
        }
        block
    }

    fn next_region(&mut self) -> Region {
        self.again = std::mem::take(&mut self.chosen);
        (self.region, self.place) = (self.region + 1, 0);
        if self.region == self.regions.len() {
            self.order = Permutation::new(self.blocks, &mut self.orders);
            (self.region, self.placed, self.share) = (0, 0, 0);
        }
        self.regions[self.region]
    }
}

#[cfg(test)]
#[path = "../tests/unit/sprandom.rs"]
mod tests;
