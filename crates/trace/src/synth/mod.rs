//! Traces synthesized from published statistics: the AnandTech Storage Bench's Destroyer, Heavy and
//! Light.
//!
//! The traces themselves were never published. A synthesized one has their numbers of reads and
//! writes, volumes, sizes, queue depths, sequential share and idle cap; all other properties are
//! chosen in the profile ([`Profile`]) from the behaviour of the named workloads.
//! `docs/concepts/synthesis.md` describes the method.
//!
//! [`Synth`] is a stream: it holds one block and the tables of its profile, for any length of the
//! trace. The same profile, scale and seed give the same requests on every platform.

mod addresses;
mod counts;
mod depths;
mod profile;
mod timing;

use drivebay_units::{Nanos, Rng};

use crate::error::TraceError;
use crate::request::{Op, Request};
use addresses::AddressGenerator;
use counts::{Class, RequestCounts, request_counts};
use depths::{GROUP_MAX, Groups, POOLS};
pub use profile::{Chosen, Phase, Profile, Published};
use profile::{is_drawn, part};
use timing::Timing;

/// Requests per block; the last group of a block is completed.
const BLOCK: usize = 8192;
/// Accepted scales: from a handful of I/Os to ten times the published number.
const SCALES: std::ops::RangeInclusive<f64> = 1e-4..=10.0;

/// A synthesized trace, as a stream.
pub struct Synth {
    profile: Profile,
    counts: RequestCounts,
    groups: [Groups; POOLS],
    addresses: AddressGenerator,
    timing: Timing,
    phase: usize,
    remaining: [Remaining; POOLS],
    ios: u64,
    rng: Rng,
    block: Vec<Request>,
}

impl Synth {
    /// Creates a trace of `scale` times the published number of I/Os, on a space scaled by the same
    /// factor.
    ///
    /// # Errors
    /// [`TraceError`] if the scale is out of bounds or the profile is inconsistent.
    pub fn new(profile: Profile, scale: f64, seed: u64) -> Result<Synth, TraceError> {
        if !SCALES.contains(&scale) {
            let problem = format!("{scale} is not allowed; must be 0.0001 to 10");
            return Err(TraceError::file("--scale", problem, "--scale 0.01"));
        }
        let root = Rng::new(seed).fork(&profile.name);
        let mut rng = root.fork("groups");
        let groups = depths::pools(&profile, &mut rng)?;
        let scaled = |count: u64| ((count as f64 * scale).round() as u64).max(1);
        let (reads, writes) = (scaled(profile.published.reads), scaled(profile.published.writes));
        let counts = request_counts(&profile, &groups, reads, writes)?;
        let mut synth = Synth {
            addresses: AddressGenerator::new(&profile, scale, root.fork("places")),
            timing: Timing::new(&profile, root.fork("times")),
            phase: 0,
            remaining: Default::default(),
            ios: reads + writes,
            profile,
            counts,
            groups,
            rng,
            block: Vec::with_capacity(BLOCK + GROUP_MAX),
        };
        synth.begin_phase(0);
        Ok(synth)
    }

    /// Name of the profile.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.profile.name
    }

    /// Number of requests in the whole trace.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.ios
    }

    /// Upper bound of the highest address.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.addresses.extent_bytes()
    }

    /// Returns the next requests in time order; `None` at the end.
    pub fn next_block(&mut self) -> Option<&[Request]> {
        self.block.clear();
        while self.block.len() < BLOCK {
            if self.remaining.iter().all(|bag| bag.left == 0) {
                if self.phase + 1 >= self.profile.phases.len() {
                    break;
                }
                self.begin_phase(self.phase + 1);
                continue;
            }
            self.group();
        }
        (!self.block.is_empty()).then_some(&self.block)
    }

    fn begin_phase(&mut self, index: usize) {
        self.phase = index;
        let counts = &mut self.counts.counts[index];
        for (bag, (counts, groups)) in
            self.remaining.iter_mut().zip(counts.iter_mut().zip(&self.groups))
        {
            *bag = Remaining::new(std::mem::take(counts), groups.mean);
        }
        self.addresses.begin_phase(index, &self.profile);
        self.timing.begin_phase(&self.profile.phases[index]);
    }

    /// Adds a group: it arrives at once, ends when the recorded drive has served it, and a gap
    /// follows.
    fn group(&mut self) {
        let pool = self.draw_pool();
        let bag = &mut self.remaining[pool];
        let count = u64::from(self.groups[pool].draw()).min(bag.left);
        self.addresses.turn();
        let start = self.timing.now.0;
        let mut end = start + (count - 1) * self.timing.spacing_ns;
        let alike = part(self.profile.chosen.alike_percent);
        let mut class = bag.draw(&mut self.rng);
        for i in 0..count {
            if i > 0 && (bag.counts[class] == 0 || !is_drawn(alike, &mut self.rng)) {
                class = bag.draw(&mut self.rng);
            }
            bag.take(class);
            let Class { bytes, write, sequential } = self.counts.classes[class];
            let at = start + i * self.timing.spacing_ns;
            end += self.timing.service_ns(u64::from(bytes));
            self.block.push(Request {
                at: Nanos(at),
                offset_bytes: self.addresses.next(write, sequential, u64::from(bytes)),
                bytes: u64::from(bytes),
                response: Some(Nanos(end - at)),
                device: 0,
                op: if write { Op::Write } else { Op::Read },
            });
        }
        self.timing.idle_after(end);
    }

    /// Draws the kind of the next group, in proportion to the remaining groups of each kind.
    #[inline]
    fn draw_pool(&mut self) -> usize {
        let left: [u64; POOLS] = std::array::from_fn(|pool| self.remaining[pool].groups_left());
        let mut at = self.rng.below(left.iter().sum());
        for (pool, &groups) in left.iter().enumerate() {
            if at < groups {
                return pool;
            }
            at -= groups;
        }
        unreachable!("a number below the sum lies in one of its parts")
    }
}

const CHUNK: usize = 8;

/// Remaining I/Os of a phase by class, drawn without replacement.
#[derive(Clone, Debug, Default)]
struct Remaining {
    counts: Vec<u64>,
    /// Sums of eight counts each.
    chunks: Vec<u64>,
    left: u64,
    /// Groups per I/O in units of 2^-32.
    groups_per_io: u64,
}

impl Remaining {
    fn new(mut counts: Vec<u64>, mean: f64) -> Remaining {
        counts.resize(counts.len().next_multiple_of(CHUNK), 0);
        let chunks: Vec<u64> = counts.chunks(CHUNK).map(|chunk| chunk.iter().sum()).collect();
        let left = chunks.iter().sum();
        Remaining { counts, chunks, left, groups_per_io: (2f64.powi(32) / mean) as u64 }
    }

    #[inline]
    fn groups_left(&self) -> u64 {
        let groups = (u128::from(self.left) * u128::from(self.groups_per_io)) >> 32;
        (groups as u64).max(u64::from(self.left > 0))
    }

    /// Draws a class in proportion to its remaining I/Os. Cost: a draw, a scan of some ten and one
    /// of eight numbers.
    #[inline]
    fn draw(&self, rng: &mut Rng) -> usize {
        let mut at = rng.below(self.left);
        let mut chunk = 0;
        while at >= self.chunks[chunk] {
            at -= self.chunks[chunk];
            chunk += 1;
        }
        let mut class = chunk * CHUNK;
        while at >= self.counts[class] {
            at -= self.counts[class];
            class += 1;
        }
        class
    }

    #[inline]
    fn take(&mut self, class: usize) {
        self.counts[class] -= 1;
        self.chunks[class / CHUNK] -= 1;
        self.left -= 1;
    }
}
