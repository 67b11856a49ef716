//! A synthetic workload, called a job by fio and Iometer. It is described by [`Workload`]'s fields,
//! or by a document with the same keys from Python; [`RULES`] lists the allowed values.
//!
//! Random offsets are uniform over the span's blocks with replacement, as in Iometer and in fio
//! with `norandommap`, or a new permutation in each pass, as in fio without it. Sequential offsets
//! run through the span and wrap around. Skewed offsets are in `distribution.rs`. Request sizes may
//! vary: uniform between two bounds, like fio's `bsrange`, or with a share for each size, like
//! `bssplit`. Requests can be paced by a rate (`rate_iops`, `rate_mb_per_s`) or by think time
//! (`pacing.rs`). A share of the requests may be trims, and a flush may follow a number of writes,
//! like fio's `fsync`. A flush takes a queue slot like any other request, and does not wait for
//! earlier requests to complete. Trims and flushes are left out of the results of reads and writes.
//! Left out: skew that changes over time.

use std::fmt::Display;

use drivebay_drive::{Device, Spec, Zone, ZoneState};
use drivebay_units::{Nanos, SECTOR_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bssplit;
use crate::distribution::{Offsets, zones_have_blocks};
use crate::queue_slots::DEPTH_MAX;

/// 115 days: far longer than any test, and below the limit of `queue_slots.rs` (208 days).
const RUN_S_MAX: f64 = 1e7;
/// A quarter of an hour.
const THINKTIME_US_MAX: u64 = 1_000_000_000;

/// Order of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Scattered over the span as [`Offsets`] defines.
    Random,
    /// One after another, wrapping around at the end.
    Sequential,
}

/// Streams of a sequential workload that reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Streams {
    /// Reads follow reads and writes follow writes, both from the start of the span (fio).
    #[default]
    Each,
    /// One stream; each request is randomly a read or a write (Iometer).
    Shared,
}

/// Stability rule: the data rate of the last `window_s` seconds stays within `within_percent`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stable {
    /// Length of the window.
    pub window_s: u64,
    /// Largest minus smallest second, over the mean, in percent.
    pub within_percent: f64,
    /// Earliest second at which the rule applies.
    pub min_s: u64,
}

/// End of a run: the first condition that is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// Ends after this much drive time.
    pub duration_s: Option<f64>,
    /// Ends after requests for this many bytes; trims of whole zones do not count.
    pub bytes: Option<u64>,
    /// Ends when the rate is stable.
    pub stable: Option<Stable>,
}

impl Stop {
    /// Ends after `seconds` of drive time.
    #[must_use]
    pub fn after_s(seconds: f64) -> Stop {
        Stop { duration_s: Some(seconds), ..Stop::default() }
    }

    /// Ends after requests for `bytes` bytes.
    #[must_use]
    pub fn after_bytes(bytes: u64) -> Stop {
        Stop { bytes: Some(bytes), ..Stop::default() }
    }
}

/// Due times of requests under a rate limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateProcess {
    /// Equal intervals.
    #[default]
    Linear,
    /// Random intervals of a Poisson process.
    Poisson,
}

/// Operation of a zone workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZoneOp {
    /// Writes at the write pointer; each zone is reset before its first write.
    #[default]
    Write,
    /// Zone appends; each zone is reset first.
    Append,
    /// Writes to zones opened with a random write area, which is flushed at the end of the zone.
    Zrwa,
    /// Resets of one zone after another, each after it was written.
    Reset,
    /// Finishes of one zone after another, each after it was written.
    Finish,
    /// Explicit opens of an empty zone, which is reset before each.
    Open,
    /// Closes of an explicitly opened zone.
    Close,
}

/// A closed loop of requests at a queue depth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Order of offsets.
    pub pattern: Pattern,
    /// Distribution of random offsets.
    pub offsets: Offsets,
    /// Separate or shared streams of sequential reads and writes.
    pub streams: Streams,
    /// Share of reads, 0 to 100.
    pub read_percent: f64,
    /// Share of trims, for random offsets; the rest of the requests are writes.
    pub trim_percent: f64,
    /// Number of writes between two flushes, if any.
    pub fsync: Option<u32>,
    /// Size of a request; a multiple of 512.
    pub block_bytes: u64,
    /// If given, sizes are uniform multiples of `block_bytes` up to this; only for random offsets.
    pub block_bytes_max: Option<u64>,
    /// If not empty: sizes, multiples of `block_bytes`, with their shares of the requests in per
    /// cent; only for random offsets.
    #[serde(with = "bssplit")]
    pub bssplit: Vec<(u64, u32)>,
    /// Requests per second over all queues, as far as the queue depth allows; late ones are caught
    /// up.
    pub rate_iops: Option<f64>,
    /// Due times of requests under `rate_iops`.
    pub rate_process: RateProcess,
    /// Megabytes per second, reads and writes over all queues, as far as the queue depth allows;
    /// late requests are caught up. Trims do not count.
    pub rate_mb_per_s: Option<f64>,
    /// The host's pause after `thinktime_blocks` requests were made and all are completed, in
    /// microseconds.
    pub thinktime_us: Option<u64>,
    /// Requests between two pauses.
    pub thinktime_blocks: u32,
    /// Commands in a row that the controller takes from each of the job's queues if there are
    /// several jobs (weighted round robin).
    pub weight: u32,
    /// Placement handle of the writes (Flexible Data Placement); 0 for a drive without.
    pub handle: u8,
    /// Reclaim group of the writes; 0 for a drive with one group.
    pub reclaim_group: u8,
    /// Zones of the span that are used at a time, round robin, each in sequence, before the next
    /// ones; 0 for a workload that does not go by zone.
    pub zones: u32,
    /// Operation of a zone workload. An end by bytes counts a reset or a finish as one block.
    pub zone_op: ZoneOp,
    /// Share of each zone that is written, in per cent; writes before a reset or finish are not in
    /// the results.
    pub zone_fill_percent: f64,
    /// Outstanding requests per queue.
    pub queue_depth: u32,
    /// Submission queues (NVMe), each with its own processor of the host.
    pub queues: u32,
    /// First byte of the span; a multiple of 512.
    pub span_start_bytes: u64,
    /// Length of the span; rounded down to whole blocks.
    pub span_bytes: u64,
    /// End of the run.
    pub stop: Stop,
}

/// Random writes of 4 KiB at queue depth 32; `span_bytes` and `stop` must be set.
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
            rate_mb_per_s: None,
            thinktime_us: None,
            thinktime_blocks: 1,
            weight: 1,
            handle: 0,
            reclaim_group: 0,
            zones: 0,
            zone_op: ZoneOp::Write,
            zone_fill_percent: 100.0,
            queue_depth: 32,
            queues: 1,
            span_start_bytes: 0,
            span_bytes: 0,
            stop: Stop::default(),
        }
    }
}

/// Error of a workload that is not allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field}: {reason}\nhint: change {field} in the suite or the call")]
pub struct WorkloadError {
    /// Field of [`Workload`].
    pub field: String,
    /// Its value, and the allowed values.
    pub reason: String,
}

impl WorkloadError {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> WorkloadError {
        WorkloadError { field: field.into(), reason: reason.into() }
    }

    pub(crate) fn refused(
        field: &str,
        given: &(impl Display + ?Sized),
        allowed: &str,
    ) -> WorkloadError {
        WorkloadError::new(field, format!("{given} is not allowed; must be {allowed}"))
    }
}

/// Allowed values of a field, for any drive.
struct Rule {
    field: &'static str,
    allowed: &'static str,
    holds: fn(&Workload) -> bool,
}

const fn rule(field: &'static str, allowed: &'static str, holds: fn(&Workload) -> bool) -> Rule {
    Rule { field, allowed, holds }
}

/// Checked in this order; a rule may rely on those before it.
const RULES: &[Rule] = &[
    rule("read_percent", "0 to 100", |w| (0.0..=100.0).contains(&w.read_percent)),
    rule("block_bytes", "a multiple of 512 up to 64 MiB", |w| is_size(w.block_bytes, SECTOR_BYTES)),
    rule("weight", "1 to 256", |w| (1..=256).contains(&w.weight)),
    rule("offsets", "uniform for a sequential workload", |w| {
        w.pattern == Pattern::Random || w.offsets == Offsets::Uniform
    }),
    rule("streams", "each, except for mixed sequential workloads", |w| {
        w.streams == Streams::Each || w.pattern == Pattern::Sequential && w.is_mixed()
    }),
    // On a real drive each queue would have its own sequence; here the queues share one.
    rule("queues", "at least 1; above 1 only for random, uniform offsets", |w| {
        w.queues == 1 || w.queues > 1 && w.is_random() && w.offsets == Offsets::Uniform
    }),
    rule(
        "trim_percent",
        "0 to below 100, at most 100 with read_percent, for random offsets and one queue",
        |w| {
            (0.0..100.0).contains(&w.trim_percent)
                && w.trim_percent + w.read_percent <= 100.0
                && (w.trim_percent == 0.0 || w.is_random() && w.queues == 1)
        },
    ),
    rule("fsync", "at least 1, with writes, one queue and no rate", |w| {
        w.fsync.is_none_or(|writes| {
            let some_write = w.trim_percent + w.read_percent < 100.0;
            writes > 0 && some_write && w.queues == 1 && w.rate_iops.or(w.rate_mb_per_s).is_none()
        })
    }),
    rule(
        "block_bytes_max",
        "a multiple of block_bytes up to 64 MiB, for random offsets other than permutations, without bssplit",
        |w| {
            w.block_bytes_max.is_none_or(|most| {
                w.sizes_may_differ() && is_size(most, w.block_bytes) && w.bssplit.is_empty()
            })
        },
    ),
    rule(
        "bssplit",
        "multiples of block_bytes up to 64 MiB, with whole percentages that add up to 100, for random offsets other than permutations",
        |w| {
            let shares = w.bssplit.iter().map(|&(_, percent)| u64::from(percent)).sum::<u64>();
            let sizes = w.bssplit.iter().all(|&(bytes, _)| is_size(bytes, w.block_bytes));
            w.bssplit.is_empty() || w.sizes_may_differ() && shares == 100 && sizes
        },
    ),
    rule("offsets", "open zones only for random writes of one size in one queue", |w| {
        let plain = w.read_percent + w.trim_percent == 0.0 && w.largest_bytes() == w.block_bytes;
        !matches!(w.offsets, Offsets::OpenZones { .. }) || plain
    }),
    rule("rate_iops", "above 0, up to 1e9", |w| {
        w.rate_iops.is_none_or(|rate| rate > 0.0 && rate <= 1e9)
    }),
    rule("rate_process", "linear without a rate_iops", |w| {
        w.rate_iops.is_some() || w.rate_process == RateProcess::Linear
    }),
    rule("rate_mb_per_s", "above 0, up to 1e6", |w| {
        w.rate_mb_per_s.is_none_or(|rate| rate > 0.0 && rate <= 1e6)
    }),
    rule("thinktime_us", "1 to 1e9, with one queue", |w| {
        w.thinktime_us.is_none_or(|pause| w.queues == 1 && (1..=THINKTIME_US_MAX).contains(&pause))
    }),
    rule("thinktime_blocks", "at least 1, and 1 without a thinktime_us", |w| {
        w.thinktime_blocks == 1 || w.thinktime_blocks > 1 && w.thinktime_us.is_some()
    }),
    rule("queue_depth", "1 to 1024, 10 bits for a command's slot", |w| {
        (1..=DEPTH_MAX as u32).contains(&w.queue_depth)
    }),
    rule("zones", "0; above 0 only for a sequential workload without reads in one queue", |w| {
        w.zones == 0 || !w.is_random() && w.read_percent == 0.0 && w.queues == 1
    }),
    rule("zone_op", "write without zones", |w| w.zones > 0 || w.zone_op == ZoneOp::Write),
    rule(
        "zone_fill_percent",
        "above 0, up to 100, or 0 for resets and finishes; 0 for opens and closes; 100 without zones",
        |w| {
            let (share, manages) = (w.zone_fill_percent, w.manages_zones());
            if matches!(w.zone_op, ZoneOp::Open | ZoneOp::Close) {
                return share == 0.0;
            }
            share == 100.0
                || w.zones > 0 && share < 100.0 && (share > 0.0 || manages && share == 0.0)
        },
    ),
    rule(
        "queue_depth",
        "at most zones, unless zone_op is append or zrwa; 1 if it writes nothing",
        |w| {
            let most = if w.manages_zones() { 1 } else { w.zones };
            w.zones == 0
                || matches!(w.zone_op, ZoneOp::Append | ZoneOp::Zrwa)
                || w.queue_depth <= most
        },
    ),
    rule("span_start_bytes", "a multiple of 512", |w| {
        w.span_start_bytes.is_multiple_of(SECTOR_BYTES)
    }),
    rule("stop.duration_s", "above 0, up to 115 days", |w| {
        w.stop.duration_s.is_none_or(|s| s > 0.0 && s <= RUN_S_MAX)
    }),
    rule("stop.bytes", "at least 1", |w| w.stop.bytes != Some(0)),
    rule("stop.stable", "window_s >= 2, within_percent > 0, min_s >= window_s", |w| {
        w.stop
            .stable
            .is_none_or(|s| s.window_s >= 2 && s.within_percent > 0.0 && s.min_s >= s.window_s)
    }),
    rule(
        "rate_iops",
        "so that the bytes take at most 115 days, unless there is a duration_s",
        |w| w.ends_in_time(w.rate_iops.map(|rate| 1.0 / rate)),
    ),
    rule(
        "rate_mb_per_s",
        "so that the bytes take at most 115 days, unless there is a duration_s",
        |w| w.ends_in_time(w.rate_mb_per_s.map(|rate| w.block_bytes as f64 / 1e6 / rate)),
    ),
    rule(
        "thinktime_us",
        "so that the bytes take at most 115 days, unless there is a duration_s",
        |w| {
            let blocks = f64::from(w.thinktime_blocks);
            w.ends_in_time(w.thinktime_us.map(|pause| pause as f64 / 1e6 / blocks))
        },
    ),
];

/// Allowed values of `zones` for a workload that writes to a zoned drive.
const ZONES: &str = "1 or more for writes to a drive with zones (suite zones), except one sequential pass over empty \
                     zones";

/// Allowed values of a field as text; empty if its type is the only restriction.
fn allowed(field: &str) -> String {
    let of_it = RULES.iter().filter(|rule| rule.field == field);
    of_it.map(|rule| rule.allowed).collect::<Vec<_>>().join("; ")
}

/// True for an allowed request size: a multiple of `unit`, up to 64 MiB.
fn is_size(bytes: u64, unit: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(unit) && bytes <= 1 << 26
}

impl Workload {
    /// Reads a workload from a document whose keys are the field names; missing fields keep their
    /// values of [`Workload::default`]. Does not check whether it fits a drive.
    ///
    /// # Errors
    /// [`WorkloadError`] with the name of the first field that is not allowed.
    pub fn from_document(document: Value) -> Result<Workload, WorkloadError> {
        let mut load: Workload = serde_path_to_error::deserialize(document).map_err(|error| {
            let (field, what) = (error.path().to_string(), error.inner().to_string());
            // A value of another type, or out of the range of its type.
            let says_what = !what.starts_with("invalid");
            let allowed = if says_what { String::new() } else { allowed(&field) };
            let must = if allowed.is_empty() { "" } else { "; must be " };
            WorkloadError::new(field, format!("{what}{must}{allowed}"))
        })?;
        load.check_fields()?;
        if load.stop.duration_s.is_none() && load.stop.bytes.is_none() {
            load.stop.bytes = load.pass_bytes();
        }
        Ok(load)
    }

    /// Returns name, default as JSON, and allowed values of each field; only rules that hold for
    /// every drive.
    #[must_use]
    pub fn fields() -> Vec<(String, String, String)> {
        let Ok(Value::Object(defaults)) = serde_json::to_value(Workload::default()) else {
            unreachable!("a struct with named fields")
        };
        let described = |(name, default): (String, Value)| {
            let allowed = allowed(&name);
            (name, default.to_string(), allowed)
        };
        defaults.into_iter().map(described).collect()
    }

    /// Checks all fields against a drive and its host.
    ///
    /// # Errors
    /// [`WorkloadError`] with the name of the first field that is not allowed.
    pub fn check(&self, spec: &Spec) -> Result<(), WorkloadError> {
        self.check_fields()?;
        self.check_span(spec.capacity_bytes())?;
        // The write streams of zones are not placement handles of the host.
        let handles = if spec.zones.is_some() { 1 } else { spec.streams.handles.max(1) };
        if usize::from(self.handle) >= handles {
            let allowed = format!("below {handles}, the drive's fdp.handles (1 without)");
            return Err(WorkloadError::refused("handle", &self.handle, &allowed));
        }
        let groups = spec.streams.groups;
        if usize::from(self.reclaim_group) >= groups {
            let allowed = format!("below {groups}, the drive's fdp.reclaim_groups (1 without)");
            return Err(WorkloadError::refused("reclaim_group", &self.reclaim_group, &allowed));
        }
        self.check_zones(spec)?;
        if self.stop.duration_s.is_none() && self.stop.bytes.is_none() {
            return Err(WorkloadError::refused("stop", "no end", "a duration_s or bytes"));
        }
        self.check_queues(spec)
    }

    /// Returns the first zone in the span, and the number of zones that lie wholly in it.
    pub(crate) fn zones_of_span(&self, zone_bytes: u64) -> (u64, u64) {
        let first = self.span_start_bytes.div_ceil(zone_bytes);
        let end = (self.span_start_bytes + self.span_bytes) / zone_bytes;
        (first, end.saturating_sub(first))
    }

    fn check_zones(&self, spec: &Spec) -> Result<(), WorkloadError> {
        let refused = |field, given: &dyn Display, allowed: &str| {
            Err(WorkloadError::refused(field, given, allowed))
        };
        if self.zones == 0 {
            let once = self.stop.bytes.is_some_and(|bytes| bytes <= self.span_bytes);
            let fits = self.read_percent == 100.0
                || !self.is_random() && once && self.read_percent + self.trim_percent == 0.0;
            return match spec.zones {
                Some(_) if !fits => refused("zones", &0, ZONES),
                _ => Ok(()),
            };
        }
        let Some(zones) = &spec.zones else {
            return refused("zones", &self.zones, "0 for a drive without zones ([zns], zns=14)");
        };
        let bytes = zones.sectors * SECTOR_BYTES;
        let (active, inside) = (u64::from(zones.active), self.zones_of_span(bytes).1);
        if u64::from(self.zones) > inside.min(active) {
            let allowed = format!("at most zns.active, {active}, and the span's {inside} zones");
            return refused("zones", &self.zones, &allowed);
        }
        if !self.block_bytes.is_multiple_of(4096) || !bytes.is_multiple_of(self.block_bytes) {
            let allowed = format!("a multiple of 4096 that divides a zone's {bytes} bytes");
            return refused("block_bytes", &self.block_bytes, &allowed);
        }
        if self.zone_op == ZoneOp::Zrwa {
            let most = zones.zrwa.map_or(0, |zrwa| zrwa.zones);
            let kib = zones.zrwa.map_or(0, |zrwa| zrwa.sectors / 2);
            let is_whole = self.zone_fill_percent == 100.0;
            if self.zones > most || self.block_bytes > kib * 1024 || !is_whole {
                let allowed = format!(
                    "zrwa only for whole zones, {most} at a time, in blocks of up to {kib} KiB (zns.zrwa)"
                );
                return refused("zone_op", &"'zrwa'", &allowed);
            }
        }
        let blocks = ((bytes / self.block_bytes) as f64 * self.zone_fill_percent / 100.0).ceil();
        let most = active * blocks as u64 * self.block_bytes;
        if !self.manages_zones()
            && self.zone_fill_percent < 100.0
            && self.stop.bytes.is_none_or(|bytes| bytes > most)
        {
            let allowed = format!(
                "100 for more than {most} bytes, because only {active} zones may be active"
            );
            return refused("zone_fill_percent", &self.zone_fill_percent, &allowed);
        }
        Ok(())
    }

    /// Checks a workload that does not go by zone against the state of a drive's zones.
    ///
    /// # Errors
    /// [`WorkloadError`] if a zone that it writes to is not empty.
    pub(crate) fn check_state(&self, device: &Device) -> Result<(), WorkloadError> {
        let Some(spec) = device.spec().zones else { return Ok(()) };
        if self.zones > 0 || self.read_percent == 100.0 {
            return Ok(());
        }
        let (start, sectors) = (self.span_start_bytes / SECTOR_BYTES, spec.sectors);
        let end = start + self.stop.bytes.unwrap_or(self.span_bytes).div_ceil(SECTOR_BYTES);
        let (zones, first) = (device.zones(), start / sectors);
        let used = first..end.div_ceil(sectors).min(zones.len() as u64);
        let is_ready = |zone: u64| {
            let Zone { state, written, .. } = zones[zone as usize];
            let begins = if zone == first { start % sectors } else { 0 };
            written == begins && (state == ZoneState::Empty || state.is_open())
        };
        match used.clone().all(is_ready) {
            true => Ok(()),
            false => Err(WorkloadError::refused("zones", &0, ZONES)),
        }
    }

    fn check_fields(&self) -> Result<(), WorkloadError> {
        let Some(broken) = RULES.iter().find(|rule| !(rule.holds)(self)) else { return Ok(()) };
        let document = serde_json::to_value(self).expect("names and numbers");
        let given = match broken.field.split('.').fold(&document, |value, name| &value[name]) {
            Value::String(text) => format!("'{text}'"),
            Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
            other => other.to_string(),
        };
        Err(WorkloadError::refused(broken.field, &given, broken.allowed))
    }

    fn check_span(&self, capacity_bytes: u64) -> Result<(), WorkloadError> {
        let (block, largest) = (self.block_bytes, self.largest_bytes());
        let end = self.span_start_bytes.checked_add(self.span_bytes);
        if self.span_bytes < largest || end.is_none_or(|end| end > capacity_bytes) {
            let allowed =
                format!("at least one block, and inside the drive's {capacity_bytes} bytes");
            return Err(WorkloadError::refused("span_bytes", &self.span_bytes, &allowed));
        }
        let (fit, allowed) = match &self.offsets {
            Offsets::Zoned(zones) | Offsets::ZonedScattered(zones) => (
                zones_have_blocks(zones, (self.span_bytes - largest) / block + 1),
                "with at least one block in every zone with accesses",
            ),
            Offsets::OpenZones { zones, .. } => {
                let zone = self.span_bytes / block / u64::from(*zones) * block;
                (
                    zone > 0 && zone / SECTOR_BYTES <= u64::from(u32::MAX),
                    "with zones of one block to 2 TiB",
                )
            }
            _ => (true, ""),
        };
        if fit { Ok(()) } else { Err(WorkloadError::refused("offsets", &self.offsets, allowed)) }
    }

    /// Largest request, bytes.
    #[must_use]
    pub fn largest_bytes(&self) -> u64 {
        let split = self.bssplit.iter().map(|&(bytes, _)| bytes).max();
        self.block_bytes_max.or(split).unwrap_or(self.block_bytes)
    }

    fn is_random(&self) -> bool {
        self.pattern == Pattern::Random
    }

    fn manages_zones(&self) -> bool {
        !matches!(self.zone_op, ZoneOp::Write | ZoneOp::Append | ZoneOp::Zrwa)
    }

    fn is_mixed(&self) -> bool {
        self.read_percent > 0.0 && self.read_percent < 100.0
    }

    /// True if a request may take more than one block.
    fn sizes_may_differ(&self) -> bool {
        self.is_random() && self.offsets.pass_blocks(1).is_none()
    }

    /// True if requests at the given rate or with the given pauses end within the longest run.
    fn ends_in_time(&self, seconds_a_request: Option<f64>) -> bool {
        let (None, Some(bytes)) = (self.stop.duration_s, self.stop.bytes) else { return true };
        let requests = bytes as f64 / self.block_bytes as f64;
        seconds_a_request.is_none_or(|seconds| requests * seconds <= RUN_S_MAX)
    }

    /// Bytes of one pass over the span, for offsets with passes.
    fn pass_bytes(&self) -> Option<u64> {
        let blocks = self.span_bytes.checked_div(self.block_bytes)?.max(1);
        self.offsets.pass_blocks(blocks)?.checked_mul(self.block_bytes)
    }

    /// Checks the queues against those of drive and host.
    fn check_queues(&self, spec: &Spec) -> Result<(), WorkloadError> {
        let refuse = |field: &str, given: u32, allowed: String| {
            Err(WorkloadError::refused(field, &given, &allowed))
        };
        let (queues, own) = (self.queues, spec.host_interface.queues_max);
        let (most, whose) = if spec.host.queues_max < own {
            (spec.host.queues_max, "host.processors")
        } else {
            (own, "the drive's host_interface.queues_max")
        };
        if !(1..=most).contains(&queues) {
            let allowed = format!("1 to {most}, {whose}");
            return refuse("queues", queues, allowed);
        }
        let together = u64::from(queues) * u64::from(self.queue_depth);
        let room = DEPTH_MAX as u64;
        if queues > 1 && (together > room || self.queue_depth > spec.queue_depth_max) {
            let allowed = format!(
                "at most {} per queue, and {room} in all {queues} queues together",
                spec.queue_depth_max
            );
            return refuse("queue_depth", self.queue_depth, allowed);
        }
        let commands = u64::from(spec.queue_depth_max);
        let is_rated = self.rate_iops.is_some() || self.rate_mb_per_s.is_some();
        if (is_rated || self.thinktime_us.is_some()) && u64::from(self.queue_depth) > commands {
            let allowed = format!(
                "at most {commands}, the limit of the interface, with a rate or thinktime_us"
            );
            return refuse("queue_depth", self.queue_depth, allowed);
        }
        Ok(())
    }

    /// Length of the run if it is limited by time.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        self.stop.duration_s.map(|s| Nanos((s * 1e9).round() as u64))
    }
}
