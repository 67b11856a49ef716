//! Skewed offsets, in the notation of fio's `random_distribution`: Zipf's law, and zones of the
//! span; also zones that are written sequentially.
//!
//! Zipf is drawn by rejection-inversion, whose cost does not depend on the number of blocks.
//! Source: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", ACM TOMACS 6 (3), 1996. A permutation scatters the ranks over the span,
//! like the popular blocks of a program. The popularity of blocks does not depend on the seed of a
//! run: consecutive runs on the same span have the same skew, like the popular records of a data
//! set. The blocks of a zone can be scattered by the same permutation, as in SSD-iq's
//! `zones-shuffle` (Haas et al., VLDB 2025), which fio does not have.
//!
//! Open zones imitate a log-structured store on a drive without zones, and SSD-iq's `zns` pattern:
//! each write goes to a randomly chosen open zone, after the last write in that zone. A full zone
//! is replaced by a random zone that is not open; that zone is trimmed as a whole before its first
//! write. Left out: popularity that changes over time; fio's `pareto` and `normal`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use drivebay_units::Rng;
use serde::{Deserialize, Serialize};

use crate::permutation::Permutation;
use crate::sprandom::Sprandom;

/// Largest exponent; with a larger one, a handful of blocks gets all accesses.
const THETA_MAX: f64 = 5.0;
/// Most ranks per block; no drive is scaled further.
const RANKS_MAX: u64 = 4096;
/// Most zones of a span, as in fio.
pub(crate) const ZONES_MAX: usize = 64;
/// Most zones that are written in order: zones of 1 GB on a drive of 64 TB.
const ORDERED_ZONES_MAX: u32 = 1 << 16;

/// Distribution of random offsets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Offsets {
    /// Independent draws: an address may repeat before all others were drawn.
    #[default]
    Uniform,
    /// Each address once per pass over the span; every pass in a new order.
    Permutation,
    /// Each address once per pass, with the same order in all passes.
    PermutationRepeated,
    /// The k-th most popular block has a probability proportional to k to the power of minus
    /// `theta`.
    Zipf {
        /// The exponent.
        theta: f64,
        /// Consecutive ranks per block. On a scaled drive a block stands for several blocks of the
        /// whole drive, so the same share of the blocks gets the same share of the accesses.
        ranks: u64,
    },
    /// Zones of the span in address order, each with its share of the accesses; uniform within a
    /// zone.
    Zoned(Vec<Zone>),
    /// Zones as in `Zoned`, with the blocks of each scattered over the whole span.
    ZonedScattered(Vec<Zone>),
    /// The span is split into zones, some of which are open; each is trimmed, then written in
    /// order.
    OpenZones {
        /// Zones that are written at the same time, fewer than `zones`.
        open: u32,
        /// Zones of the span.
        zones: u32,
    },
    /// The order of fio's `sprandom`, for the given over-provisioning in per cent of the capacity.
    Sprandom(f64),
}

impl Offsets {
    /// Blocks per pass over a span of `blocks` blocks; `None` for distributions without passes.
    #[must_use]
    pub fn pass_blocks(&self, blocks: u64) -> Option<u64> {
        match self {
            Offsets::Permutation | Offsets::PermutationRepeated => Some(blocks),
            Offsets::Sprandom(percent) => Some(Sprandom::pass_blocks(blocks, percent / 100.0)),
            _ => None,
        }
    }
}

/// A part of the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Share of the accesses.
    pub access_percent: u32,
    /// Share of the span.
    pub size_percent: u32,
}

/// A notation for offsets: the word before the colon, the allowed text after it, and its parser.
type Form = (&'static str, &'static str, fn(&str) -> Option<Offsets>);

const PLAIN: [(&str, Offsets); 3] = [
    ("uniform", Offsets::Uniform),
    ("permutation", Offsets::Permutation),
    ("permutation-repeated", Offsets::PermutationRepeated),
];
const ZONES: &str = "ACCESS/SIZE:..., whole percentages of the accesses and of the span, which add up to 100 each, at most 64 \
                     zones";
const FORMS: [Form; 5] = [
    ("zipf", "THETA or THETA/RANKS, above 0, up to 5, and 1 to 4096", parse_zipf),
    ("zoned", ZONES, |text| parse_zones(text).map(Offsets::Zoned)),
    ("zoned-scattered", ZONES, |text| parse_zones(text).map(Offsets::ZonedScattered)),
    ("open-zones", "OPEN/ZONES, fewer open than zones, at most 65536", parse_open_zones),
    ("sprandom", "PERCENT, above 0, up to 100", |text| {
        let percent = text.parse().ok().filter(|&percent| percent > 0.0 && percent <= 100.0);
        percent.map(Offsets::Sprandom)
    }),
];

impl FromStr for Offsets {
    type Err = String;

    fn from_str(text: &str) -> Result<Offsets, String> {
        if let Some((_, plain)) = PLAIN.into_iter().find(|(name, _)| *name == text) {
            return Ok(plain);
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let allowed = match FORMS.iter().find(|(name, ..)| *name == kind) {
            Some((_, form, parse)) => match parse(rest) {
                Some(offsets) => return Ok(offsets),
                None => format!("{kind}:{form}"),
            },
            None => {
                let forms = FORMS.map(|(name, form, _)| format!("{name}:{form}")).join("; ");
                format!("{}; {forms}", PLAIN.map(|(name, _)| name).join(", "))
            }
        };
        Err(format!("'{text}' is not allowed; must be {allowed}"))
    }
}

impl TryFrom<String> for Offsets {
    type Error = String;

    fn try_from(text: String) -> Result<Offsets, String> {
        text.parse()
    }
}

impl From<Offsets> for String {
    fn from(offsets: Offsets) -> String {
        offsets.to_string()
    }
}

impl Display for Offsets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Offsets::Zipf { theta, ranks: 1 } => write!(f, "zipf:{theta}"),
            Offsets::Zipf { theta, ranks } => write!(f, "zipf:{theta}/{ranks}"),
            Offsets::Zoned(zones) => write!(f, "zoned:{}", zone_text(zones)),
            Offsets::ZonedScattered(zones) => write!(f, "zoned-scattered:{}", zone_text(zones)),
            Offsets::OpenZones { open, zones } => write!(f, "open-zones:{open}/{zones}"),
            Offsets::Sprandom(percent) => write!(f, "sprandom:{percent}"),
            plain => {
                let named = PLAIN.iter().find(|(_, offsets)| offsets == plain);
                f.write_str(named.expect("those without a colon").0)
            }
        }
    }
}

fn zone_text(zones: &[Zone]) -> String {
    let pair = |zone: &Zone| format!("{}/{}", zone.access_percent, zone.size_percent);
    zones.iter().map(pair).collect::<Vec<_>>().join(":")
}

fn parse_zipf(text: &str) -> Option<Offsets> {
    let (theta, ranks) = text.split_once('/').unwrap_or((text, "1"));
    let (theta, ranks) = (theta.parse().ok()?, ranks.parse().ok()?);
    let sane = theta > 0.0 && theta <= THETA_MAX && (1..=RANKS_MAX).contains(&ranks);
    sane.then_some(Offsets::Zipf { theta, ranks })
}

fn parse_open_zones(text: &str) -> Option<Offsets> {
    let (open, zones) = text.split_once('/')?;
    let (open, zones) = (open.parse().ok()?, zones.parse().ok()?);
    let sane = open >= 1 && open < zones && zones <= ORDERED_ZONES_MAX;
    sane.then_some(Offsets::OpenZones { open, zones })
}

fn parse_zones(text: &str) -> Option<Vec<Zone>> {
    let mut zones = Vec::new();
    for zone in text.split(':') {
        let (access, size) = zone.split_once('/')?;
        let (access_percent, size_percent) = (access.parse().ok()?, size.parse().ok()?);
        if access_percent > 100 || !(1..=100).contains(&size_percent) {
            return None;
        }
        zones.push(Zone { access_percent, size_percent });
    }
    let whole = |share: fn(&Zone) -> u32| zones.iter().map(share).sum::<u32>() == 100;
    let all = whole(|zone| zone.access_percent) && whole(|zone| zone.size_percent);
    (all && zones.len() <= ZONES_MAX).then_some(zones)
}

/// Uniform in [0, 1), in steps of 2^-53.
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Time to the next arrival of a Poisson process, with mean 1.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -libm::log1p(-unit(rng))
}

/// Draws ranks from 0 on, distributed by Zipf's law.
pub(crate) struct Zipf {
    theta: f64,
    count: f64,
    /// Integral of the density from 1 to each end of the distribution.
    begin: f64,
    end: f64,
    /// Ranks within this distance of the inverted value are accepted at once.
    near: f64,
}

impl Zipf {
    pub(crate) fn new(theta: f64, count: u64) -> Zipf {
        let count = count as f64;
        let mut zipf = Zipf { theta, count, begin: 0.0, end: 0.0, near: 0.0 };
        zipf.begin = zipf.integral(1.5) - 1.0;
        zipf.end = zipf.integral(count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// (x^(1 - theta) - 1) / (1 - theta), or the logarithm of x if theta is 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, power) = (libm::log(x), (1.0 - self.theta) * libm::log(x));
        if power.abs() < 1e-8 {
            log * (1.0 + power / 2.0)
        } else {
            libm::expm1(power) / power * log
        }
    }

    fn inverse(&self, x: f64) -> f64 {
        // Below -1 only by rounding.
        let power = (x * (1.0 - self.theta)).max(-1.0);
        let per_x = if power.abs() < 1e-8 { 1.0 - power / 2.0 } else { libm::log1p(power) / power };
        libm::exp(per_x * x)
    }

    /// Cost: one draw, rarely more.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.end + unit(rng) * (self.begin - self.end);
            let x = self.inverse(area);
            let rank = libm::round(x).clamp(1.0, self.count);
            if rank - x <= self.near || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// A skewed choice of blocks of a span.
pub(crate) enum Skew {
    Zipf {
        ranks: Zipf,
        /// Ranks per block.
        per_block: u64,
        places: Permutation,
    },
    /// Per zone: cumulative accesses in per cent up to and including it; its first block; the block
    /// after its last.
    Zoned {
        zones: Vec<(u64, u64, u64)>,
        /// Locations of the blocks of scattered zones.
        places: Option<Permutation>,
    },
}

impl Skew {
    /// Returns `None` for offsets that are not skewed.
    pub(crate) fn new(offsets: &Offsets, blocks: u64) -> Option<Skew> {
        let places = || Permutation::new(blocks, &mut Rng::new(0).fork("popularity"));
        match offsets {
            &Offsets::Zipf { theta, ranks } => Some(Skew::Zipf {
                ranks: Zipf::new(theta, blocks * ranks),
                per_block: ranks,
                places: places(),
            }),
            Offsets::Zoned(zones) => {
                Some(Skew::Zoned { zones: zone_bounds(zones, blocks), places: None })
            }
            Offsets::ZonedScattered(zones) => {
                Some(Skew::Zoned { zones: zone_bounds(zones, blocks), places: Some(places()) })
            }
            _ => None,
        }
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Skew::Zipf { ranks, per_block, places } => places.at(ranks.draw(rng) / per_block),
            Skew::Zoned { zones, places } => {
                let chance = rng.below(100);
                let contains = |&&(until, ..): &&(u64, u64, u64)| chance < until;
                let &(_, first, end) =
                    zones.iter().find(contains).expect("the shares add up to 100");
                let block = first + rng.below(end - first);
                places.as_ref().map_or(block, |places| places.at(block))
            }
        }
    }
}

/// Zones that are written in order.
pub(crate) struct OpenZones {
    /// Blocks per zone.
    blocks: u64,
    /// The open zones, each with the number of its blocks that are written.
    open: Vec<(u64, u64)>,
    /// Per zone: true if it is open.
    is_open: Vec<bool>,
    /// Index in `open` of a zone that was trimmed and waits for its first write.
    trimmed: Option<usize>,
}

/// Next request of a workload with open zones, in blocks of the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneRequest {
    Write { block: u64 },
    Trim { first: u64, blocks: u64 },
}

impl OpenZones {
    /// Splits `blocks` blocks into zones; blocks after the last whole zone stay unused. At first no
    /// zone is open, as if all were full.
    pub(crate) fn new(open: u32, zones: u32, blocks: u64) -> OpenZones {
        let of_a_zone = blocks / u64::from(zones);
        OpenZones {
            blocks: of_a_zone,
            open: vec![(u64::from(zones), of_a_zone); open as usize],
            is_open: vec![false; zones as usize + 1],
            trimmed: None,
        }
    }

    /// Cost: one draw, and a few more once per zone.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> ZoneRequest {
        let trimmed = self.trimmed.take();
        let place = trimmed.unwrap_or_else(|| rng.below(self.open.len() as u64) as usize);
        let (zone, written) = self.open[place];
        if written < self.blocks {
            self.open[place].1 += 1;
            return ZoneRequest::Write { block: zone * self.blocks + written };
        }
        let fresh = loop {
            let drawn = rng.below(self.is_open.len() as u64 - 1);
            if !self.is_open[drawn as usize] {
                break drawn;
            }
        };
        self.is_open[zone as usize] = false;
        self.is_open[fresh as usize] = true;
        (self.open[place], self.trimmed) = ((fresh, 0), Some(place));
        ZoneRequest::Trim { first: fresh * self.blocks, blocks: self.blocks }
    }
}

fn zone_bounds(zones: &[Zone], blocks: u64) -> Vec<(u64, u64, u64)> {
    let (mut accesses, mut size) = (0, 0);
    let mut bounds = Vec::new();
    for zone in zones {
        let first = blocks * size / 100;
        accesses += u64::from(zone.access_percent);
        size += u64::from(zone.size_percent);
        bounds.push((accesses, first, blocks * size / 100));
    }
    bounds
}

/// True if every zone with accesses has at least one block.
pub(crate) fn zones_have_blocks(zones: &[Zone], blocks: u64) -> bool {
    let used = zones.iter().map(|zone| zone.access_percent > 0);
    used.zip(zone_bounds(zones, blocks)).all(|(used, (_, first, end))| !used || first < end)
}

#[cfg(test)]
#[path = "../tests/unit/distribution.rs"]
mod tests;
