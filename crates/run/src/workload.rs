//! A synthetic workload: what fio and Iometer call a job.
//!
//! Random offsets are uniform over the span's blocks with replacement, as Iometer draws them and fio
//! does with `norandommap`; sequential offsets run through the span and begin again.
//! Requests may differ in size: uniform between two bounds, as fio's `bsrange`.
//! Left out for now: permutations per pass, hot spots, think time.

use drivebay_drive::{Io, Op, Spec};
use drivebay_units::{Nanos, Rng, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

use crate::queues::Arbitration;
use crate::slots::DEPTH_MAX;

/// Order of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Uniform over the span.
    Random,
    /// One after another, round and round.
    Sequential,
}

/// "Stable": the data rate of the last `window_s` seconds stays within `within_percent`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stable {
    /// Length of the window.
    pub window_s: u64,
    /// Largest minus smallest second, over the mean, in percent.
    pub within_percent: f64,
    /// Not judged earlier than this.
    pub min_s: u64,
}

/// When a run ends; the first that happens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// After this much drive time.
    #[serde(default)]
    pub duration_s: Option<f64>,
    /// After this many bytes have been asked for.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// When the rate is stable.
    #[serde(default)]
    pub stable: Option<Stable>,
}

fn one_queue() -> u32 {
    1
}

/// A closed loop of requests at a queue depth.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Order of offsets.
    pub pattern: Pattern,
    /// Share of reads, 0 to 100.
    pub read_percent: u32,
    /// Size of a request; a multiple of 512.
    pub block_bytes: u64,
    /// If given, sizes are uniform multiples of `block_bytes` up to this; for random offsets only.
    #[serde(default)]
    pub block_bytes_max: Option<u64>,
    /// How much of the data can be compressed away: 0 is random data, 100 is zeros.
    #[serde(default)]
    pub compressible_percent: u32,
    /// Requests outstanding, in each queue.
    pub queue_depth: u32,
    /// Submission queues (NVMe), each with a processor of the host.
    #[serde(default = "one_queue")]
    pub queues: u32,
    /// How the controller picks among several queues.
    #[serde(default)]
    pub arbitration: Arbitration,
    /// First byte of the span; a multiple of 512.
    pub span_start_bytes: u64,
    /// Length of the span; rounded down to whole blocks.
    pub span_bytes: u64,
    /// When to end.
    pub stop: Stop,
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
    /// Checks all fields against a drive of `capacity_bytes`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is not allowed.
    pub fn check(&self, capacity_bytes: u64) -> Result<(), WorkloadError> {
        let refuse = |field, given: String, allowed: &str| {
            Err(WorkloadError { field, given, allowed: allowed.to_owned() })
        };
        if self.read_percent > 100 {
            return refuse("read_percent", self.read_percent.to_string(), "0 to 100");
        }
        let block = self.block_bytes;
        if block == 0 || !block.is_multiple_of(SECTOR_BYTES) || block > 1 << 26 {
            return refuse("block_bytes", block.to_string(), "a multiple of 512 up to 64 MiB");
        }
        if let Some(most) = self.block_bytes_max {
            let random = self.pattern == Pattern::Random;
            if !random || most < block || !most.is_multiple_of(block) || most > 1 << 26 {
                let allowed = "a multiple of block_bytes up to 64 MiB, and the pattern random";
                return refuse("block_bytes_max", most.to_string(), allowed);
            }
        }
        if self.compressible_percent > 100 {
            let given = self.compressible_percent.to_string();
            return refuse("compressible_percent", given, "0 to 100");
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
        let largest = self.block_bytes_max.unwrap_or(block);
        if self.span_bytes < largest || end.is_none_or(|end| end > capacity_bytes) {
            let allowed =
                format!("at least one block, and inside the drive's {capacity_bytes} bytes");
            return refuse("span_bytes", self.span_bytes.to_string(), &allowed);
        }
        let stop = &self.stop;
        if stop.duration_s.is_none() && stop.bytes.is_none() {
            return refuse("stop", "no end".to_owned(), "a duration_s or bytes");
        }
        // 115 days: far above any test, below what the slots of a run can tell apart (208 days).
        if stop.duration_s.is_some_and(|s| !(s > 0.0 && s <= 1e7)) {
            return refuse(
                "stop.duration_s",
                format!("{:?}", stop.duration_s),
                "above 0, up to 115 days",
            );
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

    /// Checks the queues against what drive and host offer.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is not allowed.
    pub fn check_queues(&self, spec: &Spec) -> Result<(), WorkloadError> {
        let refuse =
            |field, given: String, allowed: String| Err(WorkloadError { field, given, allowed });
        let (queues, most) = (self.queues, spec.interface.queues_max);
        if !(1..=most).contains(&queues) {
            let allowed = format!("1 to {most}, the drive's interface.queues_max");
            return refuse("queues", queues.to_string(), allowed);
        }
        let together = u64::from(queues) * u64::from(self.queue_depth);
        let room = u64::from(spec.host.outstanding_max).min(DEPTH_MAX as u64);
        if queues > 1 && (together > room || self.queue_depth > spec.queue_depth_max) {
            let allowed = format!(
                "at most {} a queue, and {room} in all {queues} together",
                spec.queue_depth_max
            );
            return refuse("queue_depth", self.queue_depth.to_string(), allowed);
        }
        if !(1..=64).contains(&self.arbitration.burst) {
            let allowed = "1 to 64".to_owned();
            return refuse("arbitration.burst", self.arbitration.burst.to_string(), allowed);
        }
        let Some(weighted) = &self.arbitration.weighted else { return Ok(()) };
        if !spec.interface.weighted {
            let allowed = "left out: the drive offers round robin only".to_owned();
            return refuse("arbitration.weighted", "given".to_owned(), allowed);
        }
        if weighted.priorities.len() != queues as usize {
            let allowed = format!("one for each of {queues} queues");
            let given = weighted.priorities.len().to_string();
            return refuse("arbitration.weighted.priorities", given, allowed);
        }
        if !weighted.weights.iter().all(|weight| (1..=256).contains(weight)) {
            let given = format!("{:?}", weighted.weights);
            return refuse("arbitration.weighted.weights", given, "1 to 256 each".to_owned());
        }
        Ok(())
    }

    /// Length of the run, as far as it is bounded by time.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        self.stop.duration_s.map(|s| Nanos((s * 1e9).round() as u64))
    }
}

/// Draws the requests of a workload.
pub struct Generator {
    pattern: Pattern,
    rng: Rng,
    blocks: u64,
    next_block: u64,
    start_lba: u64,
    block_sectors: u32,
    /// Most blocks of a request.
    blocks_max: u64,
    /// Of 2^32: the share of reads.
    read_share: u64,
    pure: Option<Op>,
}

impl Generator {
    /// The requests of `workload`, from this seed.
    pub fn new(workload: &Workload, seed: u64) -> Generator {
        Generator {
            pattern: workload.pattern,
            rng: Rng::new(seed).fork("workload"),
            blocks: workload.span_bytes / workload.block_bytes,
            next_block: 0,
            start_lba: workload.span_start_bytes / SECTOR_BYTES,
            block_sectors: (workload.block_bytes / SECTOR_BYTES) as u32,
            blocks_max: workload.block_bytes_max.map_or(1, |most| most / workload.block_bytes),
            read_share: (u64::from(workload.read_percent) << 32) / 100,
            pure: match workload.read_percent {
                0 => Some(Op::Write),
                100 => Some(Op::Read),
                _ => None,
            },
        }
    }

    /// The next request. Cost: 1 draw (random), 1 more (mixed), 1 more (sizes differ).
    #[inline(always)]
    pub fn next_io(&mut self) -> Io {
        let count = if self.blocks_max == 1 { 1 } else { 1 + self.rng.below(self.blocks_max) };
        let block = match self.pattern {
            Pattern::Random => self.rng.below(self.blocks - count + 1),
            Pattern::Sequential => {
                let block = self.next_block;
                self.next_block = if block + 1 == self.blocks { 0 } else { block + 1 };
                block
            }
        };
        let op = self.pure.unwrap_or_else(|| {
            if self.rng.next_u64() >> 32 < self.read_share { Op::Read } else { Op::Write }
        });
        let lba = self.start_lba + block * u64::from(self.block_sectors);
        Io { op, lba, sectors: self.block_sectors * count as u32 }
    }
}
