//! Traces at the border: statistics and conversion by path, and batches of columns. Conversion only.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use drivebay_trace::{
    Format, Order, Profile, Request, RequestSource, Skipped, Summary, Synth, TextFormat, Trace,
    TraceError, TraceSource,
};
use numpy::IntoPyArray;
use pyo3::create_exception;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::CoreError;

create_exception!(_core, TraceFileError, CoreError, "The machine: no such file, disk full.");
create_exception!(_core, TraceOrderError, CoreError, "Too far out of order to stream: sort it.");

pub(crate) fn trace_error(error: TraceError) -> PyErr {
    let text = error.to_string();
    match error {
        TraceError::Cancelled => PyKeyboardInterrupt::new_err(()),
        TraceError::Io { .. } => TraceFileError::new_err(text),
        TraceError::TooFarBack { .. } => TraceOrderError::new_err(text),
        _ => CoreError::new_err(text),
    }
}

/// Whether to go on: Ctrl-C says no.
pub(crate) fn keep_running() -> bool {
    Python::attach(|py| py.check_signals().is_ok())
}

fn format(name: Option<&str>) -> PyResult<Option<Format>> {
    name.map(Format::from_name).transpose().map_err(trace_error)
}

fn summary_dict<'py>(
    py: Python<'py>,
    format: &str,
    requests: u64,
    skipped: &Skipped,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("format", format)?;
    dict.set_item("requests", requests)?;
    dict.set_item("notes", skipped.notes())?;
    Ok(dict)
}

fn kind(to: &str) -> PyResult<TextFormat> {
    match to {
        "iolog" => Ok(TextFormat::Iolog),
        "csv" => Ok(TextFormat::Csv),
        other => {
            let text = format!("--to: {other} is not written here\nhint: --to csv");
            Err(CoreError::new_err(text))
        }
    }
}

/// A source given as JSON; see `drivebay_trace::TraceSource`.
pub(crate) fn what(json: &str) -> PyResult<TraceSource> {
    serde_json::from_str(json)
        .map_err(|error| CoreError::new_err(format!("trace: {error}\nhint: see drivebay._core")))
}

fn synth(json: &str) -> PyResult<Synth> {
    let synth = what(json)?.synth().map_err(trace_error)?;
    synth.ok_or_else(|| CoreError::new_err("trace: is a file\nhint: drivebay trace info FILE"))
}

/// Names of the traces that are synthesized.
#[pyfunction]
fn synth_names() -> Vec<&'static str> {
    Profile::names().to_vec()
}

/// The text of a profile.
#[pyfunction]
fn synth_profile(name: &str) -> PyResult<&'static str> {
    Profile::text(name).map_err(|error| trace_error(error.into()))
}

/// (number of requests, where the highest address may end) of a synthesized trace.
#[pyfunction]
fn synth_size(what: &str) -> PyResult<(u64, u64)> {
    let synth = synth(what)?;
    Ok((synth.requests(), synth.extent_bytes()))
}

/// Statistics of a synthesized trace, as JSON.
#[pyfunction]
fn synth_info(py: Python<'_>, what: &str) -> PyResult<String> {
    let mut synth = synth(what)?;
    let info = py
        .detach(|| drivebay_trace::info_of(&mut synth, &mut keep_running))
        .map_err(trace_error)?;
    Ok(serde_json::to_string(&info).expect("numbers and names"))
}

/// Writes a synthesized trace into `out`, made or emptied; returns the number of requests.
#[pyfunction]
fn synth_write(py: Python<'_>, what: &str, out: PathBuf, to: &str) -> PyResult<u64> {
    let (mut synth, kind) = (synth(what)?, kind(to)?);
    py.detach(|| drivebay_trace::convert_from(&mut synth, &out, kind, &mut keep_running))
        .map_err(trace_error)
}

/// Names of the formats that are read.
#[pyfunction]
fn trace_formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|(_, name)| *name).collect()
}

/// (statistics as JSON, what was read).
#[pyfunction]
fn trace_info<'py>(
    py: Python<'py>,
    path: PathBuf,
    from: Option<&str>,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let from = format(from)?;
    let (info, summary) =
        py.detach(|| drivebay_trace::info(&path, from, &mut keep_running)).map_err(trace_error)?;
    let json = serde_json::to_string(&info).expect("numbers and names");
    let Summary { format, requests, skipped } = summary;
    Ok((json, summary_dict(py, format.name(), requests, &skipped)?))
}

/// Writes `path` into `out`, made or emptied, as "iolog" or "csv"; returns what was read.
#[pyfunction]
fn trace_convert<'py>(
    py: Python<'py>,
    path: PathBuf,
    from: Option<&str>,
    out: PathBuf,
    to: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let (kind, from) = (kind(to)?, format(from)?);
    let summary = py
        .detach(|| drivebay_trace::convert(&path, from, &out, kind, &mut keep_running))
        .map_err(trace_error)?;
    summary_dict(py, summary.format.name(), summary.requests, &summary.skipped)
}

/// A trace as batches of columns, in order of time.
#[pyclass(frozen)]
struct TraceBatches(Mutex<Batches>);

struct Batches {
    from: From,
    requests: u64,
}

enum From {
    File(Box<Trace>),
    Synth(Box<Synth>),
}

impl From {
    fn source(&mut self) -> &mut dyn RequestSource {
        match self {
            From::File(trace) => &mut **trace,
            From::Synth(synth) => &mut **synth,
        }
    }
}

#[pymethods]
impl TraceBatches {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        from: Option<&str>,
        sort: bool,
    ) -> PyResult<TraceBatches> {
        let from = format(from)?;
        let order = if sort { Order::Sort } else { Order::Window };
        let trace = py.detach(|| Trace::open(&path, from, order)).map_err(trace_error)?;
        Ok(TraceBatches(Mutex::new(Batches { from: From::File(Box::new(trace)), requests: 0 })))
    }

    /// A synthesized trace, given as JSON.
    #[staticmethod]
    fn synth(what: &str) -> PyResult<TraceBatches> {
        let from = From::Synth(Box::new(synth(what)?));
        Ok(TraceBatches(Mutex::new(Batches { from, requests: 0 })))
    }

    /// The next columns, see `_core.pyi`; None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let columns = py.detach(|| {
            let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let block =
                batches.from.source().next_requests(&mut keep_running).map_err(trace_error)?;
            let columns = block.map(Columns::new);
            batches.requests += columns.as_ref().map_or(0, |columns| columns.op.len() as u64);
            Ok::<_, PyErr>(columns)
        })?;
        columns.map(|columns| columns.dict(py)).transpose()
    }

    /// What was read so far.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &batches.from {
            From::File(trace) => {
                summary_dict(py, trace.format().name(), batches.requests, &trace.skipped())
            }
            From::Synth(_) => {
                summary_dict(py, "synthesized", batches.requests, &Skipped::default())
            }
        }
    }
}

struct Columns {
    at_ns: Vec<u64>,
    offset_bytes: Vec<u64>,
    bytes: Vec<u64>,
    response_ns: Vec<i64>,
    device: Vec<u32>,
    op: Vec<u8>,
}

impl Columns {
    fn new(block: &[Request]) -> Columns {
        Columns {
            at_ns: block.iter().map(|r| r.at.0).collect(),
            offset_bytes: block.iter().map(|r| r.offset_bytes).collect(),
            bytes: block.iter().map(|r| r.bytes).collect(),
            response_ns: block.iter().map(|r| r.response.map_or(-1, |t| t.0 as i64)).collect(),
            device: block.iter().map(|r| r.device).collect(),
            op: block.iter().map(|r| r.op as u8).collect(),
        }
    }

    fn dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("at_ns", self.at_ns.into_pyarray(py))?;
        dict.set_item("op", self.op.into_pyarray(py))?;
        dict.set_item("offset_bytes", self.offset_bytes.into_pyarray(py))?;
        dict.set_item("bytes", self.bytes.into_pyarray(py))?;
        dict.set_item("device", self.device.into_pyarray(py))?;
        dict.set_item("response_ns", self.response_ns.into_pyarray(py))?;
        Ok(dict)
    }
}

/// Enters this file's part into the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<TraceBatches>()?;
    m.add_function(wrap_pyfunction!(synth_names, m)?)?;
    m.add_function(wrap_pyfunction!(synth_profile, m)?)?;
    m.add_function(wrap_pyfunction!(synth_size, m)?)?;
    m.add_function(wrap_pyfunction!(synth_info, m)?)?;
    m.add_function(wrap_pyfunction!(synth_write, m)?)?;
    m.add_function(wrap_pyfunction!(trace_formats, m)?)?;
    m.add_function(wrap_pyfunction!(trace_info, m)?)?;
    m.add_function(wrap_pyfunction!(trace_convert, m)?)?;
    m.add("TraceFileError", m.py().get_type::<TraceFileError>())?;
    m.add("TraceOrderError", m.py().get_type::<TraceOrderError>())?;
    Ok(())
}
