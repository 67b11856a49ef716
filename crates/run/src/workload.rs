//! A synthetic workload, called a job by fio and Iometer. It is described by [`Workload`]'s fields,
//! or by a document with the same keys from Python. The table in `fields!` is the only list of the
//! fields; [`RULES`] lists the allowed values. Python's fields and their documentation come from
//! both.
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

use std::collections::BTreeMap;
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

/// Defines [`Workload`] from its table of fields: documentation, name, type, default, and a suffix
/// for descriptions of loads that set the field, with `{}` for the value, unless they treat it by
/// themselves.
macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $(#[serde($with:meta)])?
       $name:ident: $kind:ty = $default:expr $(, $suffix:literal)?;)*) => {
        /// A closed loop of requests at a queue depth.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Workload {
            $($(#[doc = $doc])+ $(#[serde($with)])? pub $name: $kind,)*
        }

        /// Random writes of 4 KiB at queue depth 32; `span_bytes` and `stop` must be set.
        impl Default for Workload {
            fn default() -> Workload {
                Workload { $($name: $default,)* }
            }
        }

        impl Workload {
            /// Returns all fields in the order of the table, each as a table of texts: `name`,
            /// `kind` (its type in Rust), `default` as JSON, `doc`, `allowed` values on any drive
            /// (empty if the type is the only restriction), and `suffix` for descriptions.
            #[must_use]
            pub fn fields() -> Vec<BTreeMap<&'static str, String>> {
                let defaults = serde_json::to_value(Workload::default()).expect("named fields");
                vec![$(BTreeMap::from([
                    ("name", stringify!($name).to_owned()),
                    ("kind", stringify!($kind).to_owned()),
                    ("default", defaults[stringify!($name)].to_string()),
                    ("doc", concat!($($doc,)+).trim().to_owned()),
                    ("allowed", allowed(stringify!($name))),
                    ("suffix", concat!($($suffix)?).to_owned()),
                ]),)*]
            }
        }
    };
}

fields! {
    /// Order of addresses. Sequential ones begin at the start of the span, and wrap around at its
    /// end.
    pattern: Pattern = Pattern::Random;
    /// Distribution of random addresses: "uniform" (drawn with replacement, as in Iometer);
    /// "permutation" (each address once per pass over the span, each pass in a new order, as fio's
    /// random map); "permutation-repeated" (all passes in the same order, as fio's
    /// `random_generator=lfsr`); "zipf:0.9" (Zipf's law with this exponent, the popular blocks
    /// scattered over the span); "zipf:1.0/64" (on a drive scaled to a 64th, as skewed as
    /// "zipf:1.0" on the whole drive: each block stands for 64 ranks); "zoned:80/20:20/80" (80 % of
    /// the accesses to the first 20 % of the span, as fio's `random_distribution`);
    /// "zoned-scattered:80/20:20/80" (the same, with the blocks of each zone scattered over the
    /// span, as in SSD-iq); or "open-zones:4/93" (the span is 93 zones; each write goes to a random
    /// one of four open zones, in order inside of it; a random other zone replaces a full one, and
    /// is trimmed before its first write). The same blocks are popular in every load on a span.
    offsets: Offsets = Offsets::Uniform;
    /// Share of random addresses, in per cent, as fio's `percentage_random`. The other requests are
    /// sequential: a read follows the previous read and a write the previous write, or it begins
    /// again at the start of the span.
    percentage_random: u8 = 100, ", {} % at random offsets and the others in sequence";
    /// Streams of a mixed sequential load: one of reads and one of writes ("each", as in fio), or
    /// one whose requests are reads or writes at random ("shared", as in Iometer).
    streams: Streams = Streams::Each;
    /// Share of reads, in per cent. All requests that are neither reads nor trims are writes.
    read_percent: f64 = 0.0;
    /// Share of trims, in per cent. They take a queue slot and the drive's time, and count in no
    /// figure of reads and writes.
    trim_percent: f64 = 0.0, " with {} % trims";
    /// Number of writes between two flushes, as fio's `fsync`. A flush completes when all
    /// acknowledged data is safe. It takes a queue slot, waits for no other request, and counts in
    /// no figure of reads and writes.
    fsync: Option<u32> = None;
    /// Size of a request, in bytes.
    block_bytes: u64 = 4096;
    /// Outstanding requests in each of the `queues`.
    queue_depth: u32 = 32;
    /// Submission queues (NVMe), each with its own processor of the host.
    queues: u32 = 1;
    /// Size of the largest request, in bytes: sizes are uniform multiples of `block_bytes` up to
    /// it.
    block_bytes_max: Option<u64> = None;
    /// Sizes with their shares of the requests in per cent, as in fio: "4k/40:64k/60"; addresses
    /// are multiples of `block_bytes`.
    #[serde(with = "bssplit")]
    bssplit: Vec<(u64, u32)> = Vec::new();
    /// Most requests per second over all queues, as far as the queue depth allows; late requests
    /// are caught up.
    rate_iops: Option<f64> = None;
    /// Due times of requests under `rate_iops`: at equal intervals ("linear"), or at random ones
    /// ("poisson").
    rate_process: RateProcess = RateProcess::Linear;
    /// Most megabytes per second of reads and writes over all queues, as far as the queue depth
    /// allows; late requests are caught up, and trims do not count.
    rate_mb_per_s: Option<f64> = None;
    /// Pause of the host in microseconds, once `thinktime_blocks` requests were made and all of
    /// them are completed, as in fio with `thinktime_blocks_type=issue`.
    thinktime_us: Option<u64> = None;
    /// Requests between two pauses.
    thinktime_blocks: u32 = 1;
    /// Placement handle of the writes (Flexible Data Placement), on a drive that has several.
    handle: u8 = 0;
    /// Reclaim group of the writes, on a drive that has several.
    reclaim_group: u8 = 0;
    /// On a drive with zones: number of zones that are used at a time in turns, each reset first
    /// and then used in sequence, before the next ones of the span.
    zones: u32 = 0;
    /// Operation on zones: "write" at the write pointer, of which a zone has one at a time;
    /// "append"; "zrwa" (writes to random write areas); or "reset", "finish", "open" or "close" of
    /// one zone after another, of which only the operation itself counts in any figure. Resets and
    /// finishes follow writes of `zone_fill_percent`; an open or close follows a reset. An end by
    /// bytes counts a reset or a finish as one block.
    zone_op: ZoneOp = ZoneOp::Write;
    /// Share of each zone that is written, in per cent.
    zone_fill_percent: f64 = 100.0;
    /// Consecutive commands that the controller takes from the job's submission queue when jobs run
    /// together (NVMe's weighted round robin); it has an effect only if commands wait there.
    weight: u32 = 1;
    /// First byte of the address range.
    span_start_bytes: u64 = 0;
    /// Length of the address range in bytes; rounded down to whole blocks.
    span_bytes: u64 = 0;
    /// End of the run.
    stop: Stop = Stop::default();
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

    /// Returns the error that a value is not allowed.
    pub(crate) fn refuse<T>(
        field: &str,
        given: &(impl Display + ?Sized),
        allowed: &str,
    ) -> Result<T, WorkloadError> {
        let reason = format!("{given} is not allowed; must be {allowed}");
        Err(WorkloadError::new(field, reason))
    }
}

/// A field, its allowed values, and whether a workload has one of them.
type Rule = (&'static str, &'static str, fn(&Workload) -> bool);

/// Checked in this order; a rule may rely on those before it.
const RULES: &[Rule] = &[
    ("read_percent", "0 to 100", |w| (0.0..=100.0).contains(&w.read_percent)),
    ("block_bytes", "a multiple of 512 up to 64 MiB", |w| is_size(w.block_bytes, SECTOR_BYTES)),
    ("weight", "1 to 256", |w| (1..=256).contains(&w.weight)),
    ("offsets", "uniform for a sequential workload", |w| {
        w.pattern == Pattern::Random || w.offsets == Offsets::Uniform
    }),
    (
        "percentage_random",
        "0 to 100; below 100 only for random, uniform offsets without trims in one queue",
        |w| {
            let plain = w.is_random() && w.offsets == Offsets::Uniform && w.trim_percent == 0.0;
            w.percentage_random == 100 || w.percentage_random < 100 && plain && w.queues == 1
        },
    ),
    ("streams", "each, except for mixed sequential workloads", |w| {
        w.streams == Streams::Each || w.pattern == Pattern::Sequential && w.is_mixed()
    }),
    // On a real drive each queue would have its own sequence; here the queues share one.
    ("queues", "at least 1; above 1 only for random, uniform offsets", |w| {
        w.queues == 1 || w.queues > 1 && w.is_random() && w.offsets == Offsets::Uniform
    }),
    (
        "trim_percent",
        "0 to below 100, at most 100 with read_percent, for random offsets and one queue",
        |w| {
            (0.0..100.0).contains(&w.trim_percent)
                && w.trim_percent + w.read_percent <= 100.0
                && (w.trim_percent == 0.0 || w.is_random() && w.queues == 1)
        },
    ),
    ("fsync", "at least 1, with writes, one queue and no rate", |w| {
        w.fsync.is_none_or(|writes| {
            let some_write = w.trim_percent + w.read_percent < 100.0;
            writes > 0 && some_write && w.queues == 1 && w.rate_iops.or(w.rate_mb_per_s).is_none()
        })
    }),
    (
        "block_bytes_max",
        "a multiple of block_bytes up to 64 MiB, for random offsets other than permutations, without bssplit",
        |w| {
            w.block_bytes_max.is_none_or(|most| {
                w.sizes_may_differ() && is_size(most, w.block_bytes) && w.bssplit.is_empty()
            })
        },
    ),
    (
        "bssplit",
        "multiples of 512 up to 64 MiB, with whole percentages that add up to 100, for random offsets other than permutations",
        |w| {
            let shares = w.bssplit.iter().map(|&(_, percent)| u64::from(percent)).sum::<u64>();
            let sizes = w.bssplit.iter().all(|&(bytes, _)| is_size(bytes, SECTOR_BYTES));
            w.bssplit.is_empty() || w.sizes_may_differ() && shares == 100 && sizes
        },
    ),
    ("offsets", "open zones only for random writes of one size in one queue", |w| {
        let plain = w.read_percent + w.trim_percent == 0.0 && w.largest_bytes() == w.block_bytes;
        !matches!(w.offsets, Offsets::OpenZones { .. }) || plain
    }),
    ("rate_iops", "above 0, up to 1e9", |w| {
        w.rate_iops.is_none_or(|rate| rate > 0.0 && rate <= 1e9)
    }),
    ("rate_process", "linear without a rate_iops", |w| {
        w.rate_iops.is_some() || w.rate_process == RateProcess::Linear
    }),
    ("rate_mb_per_s", "above 0, up to 1e6", |w| {
        w.rate_mb_per_s.is_none_or(|rate| rate > 0.0 && rate <= 1e6)
    }),
    ("thinktime_us", "1 to 1e9, with one queue", |w| {
        w.thinktime_us.is_none_or(|pause| w.queues == 1 && (1..=THINKTIME_US_MAX).contains(&pause))
    }),
    ("thinktime_blocks", "at least 1, and 1 without a thinktime_us", |w| {
        w.thinktime_blocks == 1 || w.thinktime_blocks > 1 && w.thinktime_us.is_some()
    }),
    ("queue_depth", "1 to 1024, 10 bits for a command's slot", |w| {
        (1..=DEPTH_MAX as u32).contains(&w.queue_depth)
    }),
    ("zones", "0; above 0 only for a sequential workload without reads in one queue", |w| {
        w.zones == 0 || !w.is_random() && w.read_percent == 0.0 && w.queues == 1
    }),
    ("zone_op", "write without zones", |w| w.zones > 0 || w.zone_op == ZoneOp::Write),
    (
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
    (
        "queue_depth",
        "at most zones, unless zone_op is append or zrwa; 1 if it writes nothing",
        |w| {
            let most = if w.manages_zones() { 1 } else { w.zones };
            w.zones == 0
                || matches!(w.zone_op, ZoneOp::Append | ZoneOp::Zrwa)
                || w.queue_depth <= most
        },
    ),
    ("span_start_bytes", "a multiple of 512", |w| w.span_start_bytes.is_multiple_of(SECTOR_BYTES)),
    ("stop.duration_s", "above 0, up to 115 days", |w| {
        w.stop.duration_s.is_none_or(|s| s > 0.0 && s <= RUN_S_MAX)
    }),
    ("stop.bytes", "at least 1", |w| w.stop.bytes != Some(0)),
    ("stop.stable", "window_s >= 2, within_percent > 0, min_s >= window_s", |w| {
        w.stop
            .stable
            .is_none_or(|s| s.window_s >= 2 && s.within_percent > 0.0 && s.min_s >= s.window_s)
    }),
    ("rate_iops", IN_TIME, |w| w.ends_in_time(w.rate_iops.map(|rate| 1.0 / rate))),
    ("rate_mb_per_s", IN_TIME, |w| {
        w.ends_in_time(w.rate_mb_per_s.map(|rate| w.block_bytes as f64 / 1e6 / rate))
    }),
    ("thinktime_us", IN_TIME, |w| {
        let blocks = f64::from(w.thinktime_blocks);
        w.ends_in_time(w.thinktime_us.map(|pause| pause as f64 / 1e6 / blocks))
    }),
];

/// Allowed rates and pauses of a workload that ends by bytes.
const IN_TIME: &str = "so that the bytes take at most 115 days, unless there is a duration_s";
/// Allowed values of `zones` for a workload that writes to a zoned drive.
const ZONES: &str = "1 or more for writes to a drive with zones (suite zones), except one sequential pass over empty \
                     zones";

/// Allowed values of a field as text; empty if its type is the only restriction.
fn allowed(field: &str) -> String {
    let of_it = RULES.iter().filter(|(name, ..)| *name == field);
    of_it.map(|(_, allowed, _)| *allowed).collect::<Vec<_>>().join("; ")
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
            return WorkloadError::refuse("handle", &self.handle, &allowed);
        }
        let groups = spec.streams.groups;
        if usize::from(self.reclaim_group) >= groups {
            let allowed = format!("below {groups}, the drive's fdp.reclaim_groups (1 without)");
            return WorkloadError::refuse("reclaim_group", &self.reclaim_group, &allowed);
        }
        self.check_zones(spec)?;
        if self.stop.duration_s.is_none() && self.stop.bytes.is_none() {
            return WorkloadError::refuse("stop", "no end", "a duration_s or bytes");
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
        if self.zones == 0 {
            let once = self.stop.bytes.is_some_and(|bytes| bytes <= self.span_bytes);
            let fits = self.read_percent == 100.0
                || !self.is_random() && once && self.read_percent + self.trim_percent == 0.0;
            return match spec.zones {
                Some(_) if !fits => WorkloadError::refuse("zones", &0, ZONES),
                _ => Ok(()),
            };
        }
        let Some(zones) = &spec.zones else {
            let allowed = "0 for a drive without zones ([zns], zns=14)";
            return WorkloadError::refuse("zones", &self.zones, allowed);
        };
        let bytes = zones.sectors * SECTOR_BYTES;
        let (active, inside) = (u64::from(zones.active), self.zones_of_span(bytes).1);
        if u64::from(self.zones) > inside.min(active) {
            let allowed = format!("at most zns.active, {active}, and the span's {inside} zones");
            return WorkloadError::refuse("zones", &self.zones, &allowed);
        }
        if !self.block_bytes.is_multiple_of(4096) || !bytes.is_multiple_of(self.block_bytes) {
            let allowed = format!("a multiple of 4096 that divides a zone's {bytes} bytes");
            return WorkloadError::refuse("block_bytes", &self.block_bytes, &allowed);
        }
        if self.zone_op == ZoneOp::Zrwa {
            let most = zones.zrwa.map_or(0, |zrwa| zrwa.zones);
            let kib = zones.zrwa.map_or(0, |zrwa| zrwa.sectors / 2);
            let is_whole = self.zone_fill_percent == 100.0;
            if self.zones > most || self.block_bytes > kib * 1024 || !is_whole {
                let allowed = format!(
                    "zrwa only for whole zones, {most} at a time, in blocks of up to {kib} KiB (zns.zrwa)"
                );
                return WorkloadError::refuse("zone_op", "'zrwa'", &allowed);
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
            return WorkloadError::refuse("zone_fill_percent", &self.zone_fill_percent, &allowed);
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
            false => WorkloadError::refuse("zones", &0, ZONES),
        }
    }

    fn check_fields(&self) -> Result<(), WorkloadError> {
        let broken = RULES.iter().find(|(.., holds)| !holds(self));
        let Some((field, allowed, _)) = broken else { return Ok(()) };
        let document = serde_json::to_value(self).expect("names and numbers");
        let given = match field.split('.').fold(&document, |value, name| &value[name]) {
            Value::String(text) => format!("'{text}'"),
            Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
            other => other.to_string(),
        };
        WorkloadError::refuse(field, &given, allowed)
    }

    fn check_span(&self, capacity_bytes: u64) -> Result<(), WorkloadError> {
        let (block, blocks) = (self.block_bytes, self.span_bytes / self.block_bytes);
        let largest = self.largest_blocks();
        let end = self.span_start_bytes.checked_add(self.span_bytes);
        if blocks < largest || end.is_none_or(|end| end > capacity_bytes) {
            let allowed =
                format!("at least one block, and inside the drive's {capacity_bytes} bytes");
            return WorkloadError::refuse("span_bytes", &self.span_bytes, &allowed);
        }
        let (fit, allowed) = match &self.offsets {
            Offsets::Zoned(zones) | Offsets::ZonedScattered(zones) => (
                zones_have_blocks(zones, blocks - largest + 1),
                "with at least one block in every zone with accesses",
            ),
            Offsets::OpenZones { zones, .. } => {
                let zone = blocks / u64::from(*zones) * block;
                (
                    zone > 0 && zone / SECTOR_BYTES <= u64::from(u32::MAX),
                    "with zones of one block to 2 TiB",
                )
            }
            _ => (true, ""),
        };
        if fit { Ok(()) } else { WorkloadError::refuse("offsets", &self.offsets, allowed) }
    }

    /// Largest request, bytes.
    #[must_use]
    pub fn largest_bytes(&self) -> u64 {
        let split = self.bssplit.iter().map(|&(bytes, _)| bytes).max();
        self.block_bytes_max.or(split).unwrap_or(self.block_bytes)
    }

    /// Largest request, in blocks.
    pub(crate) fn largest_blocks(&self) -> u64 {
        self.largest_bytes().div_ceil(self.block_bytes)
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
        let (queues, own) = (self.queues, spec.host_interface.queues_max);
        let (most, whose) = if spec.host.queues_max < own {
            (spec.host.queues_max, "host.processors")
        } else {
            (own, "the drive's host_interface.queues_max")
        };
        if !(1..=most).contains(&queues) {
            let allowed = format!("1 to {most}, {whose}");
            return WorkloadError::refuse("queues", &queues, &allowed);
        }
        let together = u64::from(queues) * u64::from(self.queue_depth);
        let room = DEPTH_MAX as u64;
        if queues > 1 && (together > room || self.queue_depth > spec.queue_depth_max) {
            let allowed = format!(
                "at most {} per queue, and {room} in all {queues} queues together",
                spec.queue_depth_max
            );
            return WorkloadError::refuse("queue_depth", &self.queue_depth, &allowed);
        }
        let commands = u64::from(spec.queue_depth_max);
        let is_rated = self.rate_iops.is_some() || self.rate_mb_per_s.is_some();
        if (is_rated || self.thinktime_us.is_some()) && u64::from(self.queue_depth) > commands {
            let allowed = format!(
                "at most {commands}, the limit of the interface, with a rate or thinktime_us"
            );
            return WorkloadError::refuse("queue_depth", &self.queue_depth, &allowed);
        }
        Ok(())
    }

    /// Length of the run if it is limited by time.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        self.stop.duration_s.map(|s| Nanos((s * 1e9).round() as u64))
    }
}
