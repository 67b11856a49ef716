//! Jobs on a whole trace: its statistics, and its conversion to text.
//!
//! A job streams the trace first. If a file is too far out of order, it is read again and sorted as
//! a whole. A pipe cannot be read again, so it is sorted from the start.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use drivebay_units::Nanos;

use crate::error::TraceError;
use crate::formats::Skipped;
use crate::order::KeepRunning;
use crate::request::Request;
use crate::source::{RequestSource, TraceSource};
use crate::stats::{Info, Stats};
use crate::write::{TextFormat, Writer};

/// Format and size of a trace that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Name of the format, given or detected; "synthesized" for synthesized traces.
    pub format: &'static str,
    /// Reason for the format; empty for synthesized traces.
    pub why: String,
    /// Number of requests.
    pub requests: u64,
    /// Issue time of the last request, since the first.
    pub length: Nanos,
    /// Lines and events that are not requests.
    pub skipped: Skipped,
}

/// Fewest requests for which the unit of times is checked; shorter traces may be a single burst.
const JUDGED_MIN: u64 = 1_000;
/// Mean time between requests below which the unit is doubtful: a million requests per second.
const INTERVAL_NS_MIN: u64 = 1_000;
/// Length above which the unit is doubtful: thirty years.
const LENGTH_S_MAX: f64 = 30.0 * 365.0 * 86_400.0;

impl Summary {
    /// Summary of a source that was read to its end.
    #[must_use]
    pub fn of(trace: &dyn RequestSource, requests: u64, length: Nanos) -> Summary {
        let (format, why) = trace.format();
        Summary { format, why: why.to_string(), requests, length, skipped: trace.skipped() }
    }

    /// Returns remarks about the trace, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.skipped.notes();
        let (requests, length_s) = (self.requests, self.length.as_secs_f64());
        let fast =
            requests >= JUDGED_MIN && self.length.0 < requests.saturating_mul(INTERVAL_NS_MIN);
        if (fast || length_s > LENGTH_S_MAX) && self.skipped.no_time == 0 {
            notes.push(format!(
                "warning: {requests} requests in {length_s:.6} s by the trace's times: if these have \
                 another unit, give it: --time-unit s, ms, us or ns"
            ));
        }
        notes
    }
}

/// Runs `job` on the stream, and again on the sorted trace if necessary.
fn in_order<T>(
    source: &TraceSource,
    mut job: impl FnMut(&mut dyn RequestSource) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let TraceSource::File { file, .. } = source else { return job(&mut *source.open()?) };
    let sorted = TraceSource::File { file: file.clone(), sort: true };
    if !file.is_regular() {
        return job(&mut *sorted.open()?);
    }
    match source.open().and_then(|mut requests| job(&mut *requests)) {
        Err(TraceError::TooFarBack { .. }) => job(&mut *sorted.open()?),
        done => done,
    }
}

/// Computes the statistics of a trace.
///
/// # Errors
/// If the trace is refused, or `keep_running` returns false.
pub fn info(
    source: &TraceSource,
    keep_running: KeepRunning<'_>,
) -> Result<(Info, Summary), TraceError> {
    in_order(source, |trace| {
        let (mut stats, file) = (Stats::default(), trace.name().to_string());
        let summary = each_block(trace, keep_running, |block| {
            let hint = "split it by device; is --format (or --from) the right one?";
            let refused = |_| TraceError::file(&file, "has more than 65,536 devices", hint);
            stats.add(block).map_err(refused)
        })?;
        Ok((stats.info(), summary))
    })
}

/// Hands the blocks of a source to `take` until the end.
fn each_block(
    trace: &mut dyn RequestSource,
    keep_running: KeepRunning<'_>,
    mut take: impl FnMut(&[Request]) -> Result<(), TraceError>,
) -> Result<Summary, TraceError> {
    let (mut requests, mut length) = (0, Nanos::ZERO);
    while let Some(block) = trace.next_requests(keep_running)? {
        take(block)?;
        requests += block.len() as u64;
        length = block.last().map_or(length, |last| last.at);
    }
    Ok(Summary::of(trace, requests, length))
}

/// Writes a trace as text into `out`, which is created or truncated; it is complete and synced on
/// return.
///
/// # Errors
/// If the trace is refused, `out` cannot be written, or `keep_running` returns false.
pub fn convert(
    source: &TraceSource,
    out: &Path,
    to: TextFormat,
    keep_running: KeepRunning<'_>,
) -> Result<Summary, TraceError> {
    let cannot = |error| TraceError::Io {
        file: out.display().to_string(),
        what: "cannot be written",
        error,
        hint: "write it to a place with free space and permission",
    };
    in_order(source, |trace| {
        let file = BufWriter::with_capacity(1 << 20, File::create(out).map_err(cannot)?);
        let mut writer = Writer::new(file, to).map_err(cannot)?;
        let summary = each_block(trace, keep_running, |block| writer.write(block).map_err(cannot))?;
        let mut file = writer.finish().map_err(cannot)?;
        file.flush().map_err(cannot)?;
        file.get_ref().sync_all().map_err(cannot)?;
        Ok(summary)
    })
}
