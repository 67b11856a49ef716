//! Whole jobs on a trace's file: its statistics, and its conversion to text.
//!
//! Each tries to stream first; a file too far out of order is read again and sorted as a whole. A pipe
//! cannot be read again, so it is sorted at once.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use crate::error::TraceError;
use crate::formats::{Format, Skipped};
use crate::order::{KeepRunning, Order, Trace};
use crate::source::RequestSource;
use crate::stats::{Info, Stats};
use crate::write::{TextFormat, Writer};

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The format, given or detected.
    pub format: Format,
    /// Number of requests.
    pub requests: u64,
    /// What was left out.
    pub skipped: Skipped,
}

/// Runs `job` streaming, and again sorting if that is needed.
fn in_order<T>(
    path: &Path,
    mut job: impl FnMut(Order) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let again = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if !again {
        return job(Order::Sort);
    }
    match job(Order::Window) {
        Err(TraceError::TooFarBack { .. }) => job(Order::Sort),
        done => done,
    }
}

fn too_many_devices(path: &Path) -> TraceError {
    TraceError::File {
        file: path.display().to_string(),
        problem: "has more than 65,536 devices".to_string(),
        hint: "split it by device; is --format (or --from) the right one?".to_string(),
    }
}

/// The statistics of a trace.
///
/// # Errors
/// If the trace is refused, or `keep_running` says no.
pub fn info(
    path: &Path,
    format: Option<Format>,
    keep_running: KeepRunning<'_>,
) -> Result<(Info, Summary), TraceError> {
    in_order(path, |order| {
        let mut trace = Trace::open(path, format, order)?;
        let (mut stats, mut requests) = (Stats::default(), 0);
        while let Some(block) = trace.next_block(keep_running)? {
            stats.add(block).map_err(|_| too_many_devices(path))?;
            requests += block.len() as u64;
        }
        let summary = Summary { format: trace.format(), requests, skipped: trace.skipped() };
        Ok((stats.info(), summary))
    })
}

/// The statistics of a synthesized trace.
///
/// # Errors
/// If `keep_running` says no.
pub fn info_of(
    source: &mut dyn RequestSource,
    keep_running: KeepRunning<'_>,
) -> Result<Info, TraceError> {
    let mut stats = Stats::default();
    while let Some(block) = source.next_requests(keep_running)? {
        stats.add(block).map_err(|_| too_many_devices(Path::new("trace")))?;
    }
    Ok(stats.info())
}

/// Writes a trace as text into `out`, which is made or emptied; it is complete and synced on return.
///
/// # Errors
/// If the trace is refused, `out` cannot be written, or `keep_running` says no.
pub fn convert(
    path: &Path,
    format: Option<Format>,
    out: &Path,
    kind: TextFormat,
    keep_running: KeepRunning<'_>,
) -> Result<Summary, TraceError> {
    in_order(path, |order| {
        let mut trace = Trace::open(path, format, order)?;
        let requests = convert_from(&mut trace, out, kind, keep_running)?;
        Ok(Summary { format: trace.format(), requests, skipped: trace.skipped() })
    })
}

/// Writes requests as text into `out`, which is made or emptied; returns how many.
///
/// # Errors
/// As [`convert`].
pub fn convert_from(
    source: &mut dyn RequestSource,
    out: &Path,
    kind: TextFormat,
    keep_running: KeepRunning<'_>,
) -> Result<u64, TraceError> {
    let cannot = |error| TraceError::Io {
        file: out.display().to_string(),
        what: "cannot be written",
        error,
        hint: "write it elsewhere, where there is room and permission",
    };
    let file = BufWriter::with_capacity(1 << 20, File::create(out).map_err(cannot)?);
    let mut writer = Writer::new(file, kind).map_err(cannot)?;
    let mut requests = 0;
    while let Some(block) = source.next_requests(keep_running)? {
        writer.write(block).map_err(cannot)?;
        requests += block.len() as u64;
    }
    let mut file = writer.finish().map_err(cannot)?;
    file.flush().map_err(cannot)?;
    file.get_ref().sync_all().map_err(cannot)?;
    Ok(requests)
}
