//! Python bindings of traces: sources, their statistics and conversion, and batches of columns.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use drivebay_crash::{Op as Recorded, Recording};
use drivebay_trace::{
    ColumnMap, Format, Given, Info, Op, Profile, Request, RequestSource, Shares, Summary,
    TextFormat, TimeUnit, TraceFile, TraceSource,
};
use drivebay_units::{Nanos, SECTOR_BYTES};
use pyo3::prelude::*;

use crate::columns::Column;
use crate::errors::{refused, trace_error, user_error};
use crate::threads::keep_running;

/// Source of a trace's requests: a recorded file, or the synthesizer.
#[pyclass(module = "drivebay._core", frozen, name = "TraceSource")]
pub(crate) struct PySource(pub(crate) TraceSource);

#[pymethods]
impl PySource {
    /// Creates a source for a recorded file in one of `trace_formats()`, or None to detect the
    /// format. `time_unit`: unit of its times, "s", "ms", "us" or "ns". `unpacked`: for a Parquet
    /// file, its columns as a CSV file. `columns`: map of columns for either, like
    /// "time=ts:us,offset=lba:512".
    #[staticmethod]
    #[pyo3(signature = (path, format = None, *, time_unit = None, unpacked = None, columns = None))]
    fn file(
        path: PathBuf,
        format: Option<OsString>,
        time_unit: Option<&str>,
        unpacked: Option<PathBuf>,
        columns: Option<OsString>,
    ) -> PyResult<PySource> {
        let format = format
            .map(|name| Format::parse(&name.to_string_lossy()))
            .transpose()
            .map_err(trace_error)?;
        let unit = |name: &str| {
            let what = || format!("--time-unit: '{name}' is unknown; must be s, ms, us or ns");
            TimeUnit::from_name(name).ok_or_else(|| refused(what(), "--time-unit us"))
        };
        let time_unit = time_unit.map(unit).transpose()?;
        let columns = columns
            .map(|text| ColumnMap::parse(&text.to_string_lossy()))
            .transpose()
            .map_err(user_error)?;
        if format.is_none()
            && let Some(source) = recorded(&path)?
        {
            return Ok(PySource(source));
        }
        let given = Given { format, time_unit, columns };
        let file = TraceFile { path, given, unpacked };
        Ok(PySource(TraceSource::File { file, sort: false }))
    }

    /// Creates a source for a synthesized trace: one of `synth_names()`, with `scale` times the
    /// published number of I/Os. `profile` is the text of a profile to use instead.
    #[staticmethod]
    #[pyo3(signature = (name, scale = 1.0, seed = 1, profile = None))]
    fn synth(name: String, scale: f64, seed: u64, profile: Option<String>) -> PySource {
        PySource(TraceSource::Synth { name, scale, seed, profile })
    }

    /// Path of the recorded file; None for a synthesized trace.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            TraceSource::File { file, .. } => Some(file.path.clone()),
            TraceSource::Recording { path, .. } => Some(path.clone()),
            TraceSource::Synth { .. } => None,
        }
    }

    /// Name of the file or of the synthesized trace.
    #[getter]
    fn name(&self) -> String {
        match &self.0 {
            TraceSource::Synth { name, .. } => name.clone(),
            TraceSource::File { file: TraceFile { path, .. }, .. }
            | TraceSource::Recording { path, .. } => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
        }
    }

    /// Returns the same trace, sorted through a temporary file first. Only needed if a request is
    /// more than 262,144 requests late.
    fn sorted(&self) -> PySource {
        let mut source = self.0.clone();
        if let TraceSource::File { sort, .. } = &mut source {
            *sort = true;
        }
        PySource(source)
    }

    /// Returns the number of requests of a synthesized trace; None for a file.
    fn requests(&self) -> PyResult<Option<u64>> {
        let synth = self.0.synth().map_err(trace_error)?;
        Ok(synth.map(|synth| synth.requests()))
    }

    /// Returns the trace's statistics, and a summary of the reading.
    fn info(&self, py: Python<'_>) -> PyResult<(TraceInfo, TraceSummary)> {
        let (info, summary) =
            py.detach(|| drivebay_trace::info(&self.0, &mut keep_running)).map_err(trace_error)?;
        Ok((TraceInfo::new(info)?, TraceSummary::new(&summary)?))
    }

    /// Writes the trace into `out` as "iolog" or "csv"; returns a summary of the reading.
    fn convert(&self, py: Python<'_>, out: PathBuf, to: &str) -> PyResult<TraceSummary> {
        let unknown = || refused(format!("--to: {to} is not an output format"), "--to csv");
        let to = TextFormat::from_name(to).ok_or_else(unknown)?;
        let converted = py.detach(|| drivebay_trace::convert(&self.0, &out, to, &mut keep_running));
        TraceSummary::new(&converted.map_err(trace_error)?)
    }

    /// Returns the requests in time order, as batches of columns.
    fn batches(&self, py: Python<'_>) -> PyResult<TraceBatches> {
        let source = py.detach(|| self.0.open()).map_err(trace_error)?;
        Ok(TraceBatches(Mutex::new((source, 0, Nanos::ZERO))))
    }
}

/// Requests of a served drive's recording; None if the file is not one. Write zeroes count as
/// trims: both only change the map.
fn recorded(path: &Path) -> PyResult<Option<TraceSource>> {
    // A pipe can be read only once.
    if !path.is_file() {
        return Ok(None);
    }
    let recording = match Recording::open(path) {
        Ok(recording) if recording.header.rules.is_some() => recording,
        _ => return Ok(None),
    };
    if recording.is_truncated {
        let what = format!("{}: the recording is cut short", path.display());
        return Err(refused(what, "record again"));
    }
    let first = recording.requests().next().map_or(0, |(_, at, _)| at);
    let requests = recording.requests().map(|(command, at, completed)| Request {
        at: Nanos(at - first),
        offset_bytes: command.lba * SECTOR_BYTES,
        bytes: command.sectors * SECTOR_BYTES,
        response: completed.map(|completed| Nanos(completed - at)),
        device: 0,
        op: match (command.op, command.fua) {
            (Recorded::Read, _) => Op::Read,
            (Recorded::Write, false) => Op::Write,
            (Recorded::Write, true) => Op::WriteFua,
            (Recorded::Discard | Recorded::WriteZeroes, _) => Op::Trim,
            (Recorded::Flush, _) => Op::Flush,
        },
    });
    Ok(Some(TraceSource::Recording { path: path.to_owned(), requests: requests.collect() }))
}

class! {
    /// Summary of reading a trace.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    TraceSummary(summary: &Summary) {}
    /// Name of the format, or "synthesized".
    format: &'static str = summary.format,
    /// Reason for the format; empty for synthesized traces.
    why: String = summary.why.clone(),
    /// Number of requests.
    requests: u64 = summary.requests,
    /// Skipped entries and possible problems, one sentence each.
    notes: Vec<String> = summary.notes(),
}

class! {
    /// Statistics of a trace, see docs/concepts/traces.md. Fields are None if the trace lacks the
    /// information or has no such I/O.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    TraceInfo(info: Info) {
        let shares = |shares: Option<Shares>| shares.map(|shares| shares.named().collect());
    }
    /// Number of reads.
    reads: u64 = info.reads,
    /// Number of writes.
    writes: u64 = info.writes,
    /// Bytes read.
    read_bytes: u64 = info.read_bytes,
    /// Bytes written.
    written_bytes: u64 = info.written_bytes,
    /// Number of trims.
    trims: u64 = info.trims,
    /// Number of flushes.
    flushes: u64 = info.flushes,
    /// Shares of reads and writes by size.
    size_share: Option<Vec<(&'static str, f64)>> = shares(info.size_share),
    /// Shares by outstanding requests at arrival, including the request itself.
    queue_depth_share: Option<Vec<(&'static str, f64)>> = shares(info.queue_depth_share),
    /// Mean of the outstanding requests at arrival.
    queue_depth_mean: Option<f64> = info.queue_depth_mean,
    /// Share of I/Os that begin where one of the last 32 of the same kind and device ended.
    sequential_share: Option<f64> = info.sequential_share,
    /// Seconds with nothing outstanding.
    idle_s: Option<f64> = info.idle_s,
    /// Seconds from the first arrival to the last arrival or completion.
    duration_s: f64 = info.duration_s,
    /// Bytes of the distinct 4 KiB pages read or written.
    footprint_bytes: Option<u64> = info.footprint_bytes,
    /// Share of page writes to pages that the trace had written before.
    overwrite_share: Option<f64> = info.overwrite_share,
    /// Share of page reads from pages that the trace had not written before.
    unwritten_read_share: Option<f64> = info.unwritten_read_share,
    /// Number of devices.
    devices: u64 = info.devices,
    /// Lowest address that is read or written, of any device.
    address_start_bytes: Option<u64> = info.address_start_bytes,
    /// End of the highest address, of any device.
    address_end_bytes: Option<u64> = info.address_end_bytes,
}

class! {
    /// Requests of a trace; arrays of shape (n,), n up to 262,144.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    TraceColumns(py: Python<'_>, block: &[Request]) {}
    /// Issue time of each request, from 0 at the first one.
    at_ns: Column<u64> = Column::new(py, block.iter().map(|r| r.at.0)),
    /// Operation: 0 read, 1 write, 2 trim, 3 flush, 4 write with FUA.
    op: Column<u8> = Column::new(py, block.iter().map(|r| r.op as u8)),
    /// First byte of the request.
    offset_bytes: Column<u64> = Column::new(py, block.iter().map(|r| r.offset_bytes)),
    /// Length of the request in bytes; 0 for a flush.
    bytes: Column<u64> = Column::new(py, block.iter().map(|r| r.bytes)),
    /// Number of the device in the recording.
    device: Column<u32> = Column::new(py, block.iter().map(|r| r.device)),
    /// Response time; -1 if unknown.
    response_ns: Column<i64> =
        Column::new( py, block.iter().map(|r| r.response.map_or(-1, |t| t.0 as i64)), ),
}

/// A trace in time order; reading releases the interpreter lock.
#[pyclass(module = "drivebay._core", frozen)]
pub(crate) struct TraceBatches(Mutex<(Box<dyn RequestSource>, u64, Nanos)>);

#[pymethods]
impl TraceBatches {
    /// Returns the next requests; None at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<TraceColumns>> {
        let block = py.detach(|| {
            let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (source, requests, length) = &mut *guard;
            let block = source.next_requests(&mut keep_running).map_err(trace_error)?;
            if let Some([rest @ .., last]) = block {
                *requests += rest.len() as u64 + 1;
                *length = last.at;
            }
            Ok::<_, PyErr>(block.map(<[_]>::to_vec))
        })?;
        block.map(|block| TraceColumns::new(py, &block)).transpose()
    }

    /// Returns a summary of the reading so far.
    fn summary(&self) -> PyResult<TraceSummary> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (source, requests, length) = &*guard;
        TraceSummary::new(&Summary::of(&**source, *requests, *length))
    }
}

/// Returns the names of the formats that can be read.
#[pyfunction]
pub(crate) fn trace_formats() -> Vec<&'static str> {
    Format::ALL.map(Format::name).to_vec()
}

/// Returns the names of the traces that can be synthesized.
#[pyfunction]
pub(crate) fn synth_names() -> Vec<&'static str> {
    Profile::names().to_vec()
}

/// Returns the profile of a synthesized trace, as TOML.
#[pyfunction]
pub(crate) fn synth_profile(name: &str) -> PyResult<&'static str> {
    Profile::text(name).map_err(user_error)
}
