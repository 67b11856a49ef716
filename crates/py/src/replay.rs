//! Python bindings of replays: their options, and replays on real drives.

use std::path::PathBuf;
use std::sync::Arc;

use drivebay_replay::{
    Control, EndReason, Outcome, Plan, PlanError, Record, ReplayError, ReplayOptions,
};
use drivebay_trace::Op;
use drivebay_units::IoCounts;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::{Column, PyHistogram, counted};
use crate::document::described;
use crate::errors::{machine_error, trace_error, user_error};
use crate::threads::{interruptible, keep_running};
use crate::trace::PySource;

/// Options of a replay; times in seconds, `spin_us` in microseconds.
///
/// `mode` "recorded" issues requests at their recorded times, with idle time cut to `idle_max_s`,
/// and scaled to `time_percent` of the recording's length; "dependencies" issues each request as
/// soon as all requests have completed that it waited for in the recording. `rule` maps addresses
/// beyond the target: modulo its size ("fold"), or in proportion ("scale"). `trim` includes trims
/// and flushes. `handle_by_device` uses the number of a request's device as its placement handle,
/// on a virtual drive. The other options are for real drives: `only_reads` replays reads only;
/// `zeros` writes zeros instead of random bytes from `seed`; `depth` is the most outstanding
/// requests; `spin_us` is the time to spin before a request is due; `length_max_s` and
/// `failures_max` end the replay; `buffered` uses the page cache.
#[pyclass(module = "drivebay._core", frozen, name = "ReplayOptions")]
pub(crate) struct PyReplayOptions(ReplayOptions);

#[pymethods]
impl PyReplayOptions {
    #[new]
    #[pyo3(signature = (**fields: "typing.Any"))]
    fn new(fields: Option<&Bound<'_, PyDict>>) -> PyResult<PyReplayOptions> {
        described(fields).map(PyReplayOptions)
    }

    #[getter]
    fn only_reads(&self) -> bool {
        self.0.only_reads
    }

    #[getter]
    fn trim(&self) -> bool {
        self.0.trim
    }

    #[getter]
    fn buffered(&self) -> bool {
        self.0.buffered
    }
}

impl PyReplayOptions {
    /// Returns the options for a virtual drive, with up to `events` events kept; the recording's
    /// size is not known yet.
    pub(crate) fn for_virtual(&self, events: usize) -> drivebay_run::ReplayOptions {
        let ReplayOptions { rule, trim, handle_by_device, .. } = self.0;
        let (pace, recorded_bytes) = (self.0.pace(), 0);
        drivebay_run::ReplayOptions { pace, rule, recorded_bytes, trim, handle_by_device, events }
    }

    fn plan(&self, source: &PySource, only_reads: bool) -> Plan {
        let options = ReplayOptions { only_reads, ..self.0 };
        Plan { source: source.0.clone(), options }
    }
}

fn plan_error(error: PlanError) -> PyErr {
    match error {
        PlanError::Trace(error) => trace_error(error),
        PlanError::Replay(ReplayError::OutOfRange(_) | ReplayError::Pace(_)) => user_error(error),
        PlanError::Replay(_) => machine_error(error),
        _ => user_error(error),
    }
}

class! {
    /// Progress of a replay on a real drive.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    ReplayProgress(now: drivebay_replay::Progress) {}
    /// Time since the start.
    elapsed_ns: u64 = now.elapsed_ns,
    /// Completed requests, including failed ones.
    done: u64 = now.done,
    /// Bytes read and written.
    bytes: u64 = now.bytes,
    /// Requests issued late.
    late: u64 = now.late,
    /// Requests that failed.
    failed: u64 = now.failed,
}

/// Monitors and stops a replay on a real drive from another thread.
#[pyclass(module = "drivebay._core", frozen, name = "ReplayControl")]
#[derive(Default)]
pub(crate) struct PyReplayControl(Arc<Control>);

#[pymethods]
impl PyReplayControl {
    #[new]
    fn new() -> PyReplayControl {
        PyReplayControl::default()
    }

    /// Stops the replay: it issues nothing more, waits for outstanding requests, and returns its
    /// results.
    fn stop(&self) {
        self.0.cancel();
    }

    /// Returns the progress of the replay.
    fn progress(&self) -> PyResult<ReplayProgress> {
        ReplayProgress::new(self.0.progress())
    }
}

class! {
    /// Results of a survey of a trace.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    Survey(survey: drivebay_replay::Survey) {}
    /// Requests, including trims and flushes.
    requests: u64 = survey.requests,
    /// Reads.
    reads: u64 = survey.reads,
    /// Writes.
    writes: u64 = survey.writes,
    /// End of the highest address.
    recorded_bytes: u64 = survey.recorded_bytes,
    /// Due time of the last request; None if it depends on the drive.
    length_s: Option<f64> = survey.length_ns.map(|ns| ns as f64 / 1e9),
}

/// Surveys the whole trace; nothing is issued. Raises `TraceOrderError` if the trace must be sorted
/// first.
#[pyfunction]
pub(crate) fn replay_survey(
    py: Python<'_>,
    source: &PySource,
    options: &PyReplayOptions,
) -> PyResult<Survey> {
    let plan = options.plan(source, false);
    let survey = py.detach(|| plan.survey(&mut keep_running)).map_err(plan_error)?;
    Survey::new(survey)
}

/// Replays a trace on a file or block device. Ctrl-C ends it; the result covers the time until
/// then.
///
/// `capacity_bytes` is the size of the target that may be used, `block_bytes` its logical block,
/// `recorded_bytes` the end of the recording's highest address. The replay runs in a thread of its
/// own, so that the interpreter lock cannot delay it.
#[pyfunction]
#[pyo3(signature = (
    source, options, path, *, capacity_bytes, block_bytes, recorded_bytes, only_reads, control
))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn replay_real(
    py: Python<'_>,
    source: &PySource,
    options: &PyReplayOptions,
    path: PathBuf,
    capacity_bytes: u64,
    block_bytes: u64,
    recorded_bytes: u64,
    only_reads: bool,
    control: &PyReplayControl,
) -> PyResult<RealReplayResult> {
    let plan = options.plan(source, only_reads);
    let control = Arc::clone(&control.0);
    let (outcome, _) = interruptible(
        py,
        || control.cancel(),
        || plan.play(&path, capacity_bytes, block_bytes, recorded_bytes, &control),
    );
    RealReplayResult::new(py, &outcome.map_err(plan_error)?)
}

class! {
    /// Requests of one operation in a replay on a real drive.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    OpLatency(py: Python<'_>, record: &Record, at: usize) {}
    /// Sum of the latencies.
    latency_ns_sum: u64 = record.latency_ns_sum[at],
    /// Latencies, measured from the time when a request was due.
    latency: Py<PyHistogram> = counted(py, &record.latency[at])?,
    /// Service times, the drive's part of the latencies, measured from the issue of a request.
    service: Py<PyHistogram> = counted(py, &record.service[at])?,
}

class! {
    /// Results of a replay on a real drive, up to its end; columns of shape (seconds,).
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    RealReplayResult(py: Python<'_>, outcome: &Outcome) {
        let record = &outcome.record;
        let (ended, reason) = match &outcome.ended {
            EndReason::Complete => ("complete", ""),
            EndReason::TimeUp => ("time", ""),
            EndReason::Stopped => ("stopped", ""),
            EndReason::Failures => ("failures", ""),
            EndReason::Broken(text) => ("broken", text.as_str()),
        };
        let column = |field: fn(&IoCounts) -> u64| Column::new(py, record.rows.iter().map(field));
        let ops = Op::ALL.iter().take(record.latency.len()).map(|&op| {
            let of_op = OpLatency::new(py, record, op as usize)?;
            Ok((op.name(), Py::new(py, of_op)?))
        });
        let failures = record.failures.iter();
        let failed = record.listed.iter().map(|f| {
            let c = f.command;
            (f.number, c.op.name(), c.offset_bytes, c.bytes, f.errno, f.at.0)
        });
    }
    /// "complete", "time", "stopped", "failures" or "broken".
    ended: &'static str = ended,
    /// Reason why the trace could not be read further, if so.
    reason: String = reason.to_string(),
    /// Time from start to end, including idle time at both ends.
    length_ns: u64 = outcome.length.0,
    /// Time from the start to the last completion.
    end_ns: u64 = record.end.0,
    /// Time with any request outstanding.
    busy_ns: u64 = record.busy.0,
    /// Integral of the outstanding reads and writes over time.
    outstanding_ns: u128 = record.outstanding_ns,
    /// Largest number of outstanding reads and writes.
    outstanding_max: u32 = record.outstanding_max,
    /// Reads and writes by the number outstanding at their issue, including themselves: 1, 2, 3,
    /// 4-5, 6-10, 11-20, 21-32, above.
    outstanding_counts: Vec<u64> = record.by_depth.to_vec(),
    /// Requests issued.
    issued: u64 = record.issued,
    /// Requests completed, including failed ones.
    completed: u64 = record.completed,
    /// Requests that never completed.
    unanswered: u64 = outcome.unanswered,
    /// Reads and writes with a latency over 10 ms.
    over_10_ms: u64 = record.long[0],
    /// Reads and writes with a latency over 100 ms.
    over_100_ms: u64 = record.long[1],
    /// Requests issued late.
    late: u64 = record.late,
    /// Late requests that found the queue full.
    late_queue_full: u64 = record.late_queue_full,
    /// Late requests that were not read from the trace in time.
    late_not_read: u64 = record.late_not_read,
    /// Longest lateness.
    lateness_ns_max: u64 = record.lateness_max.0,
    /// Lateness of issued requests.
    lateness: Py<PyHistogram> = counted(py, &record.lateness)?,
    /// Skipped writes, in a replay of reads only.
    skipped_writes: u64 = outcome.skipped.writes,
    /// Skipped trims.
    skipped_trims: u64 = outcome.skipped.trims,
    /// Skipped flushes.
    skipped_flushes: u64 = outcome.skipped.flushes,
    /// True if the memory was registered with the kernel.
    fixed_buffers: bool = outcome.fixed_buffers,
    /// True if direct I/O bypassed the page cache.
    direct: bool = outcome.direct,
    /// Reads completed.
    reads: Column<u64> = column(|row| row.reads),
    /// Writes completed.
    writes: Column<u64> = column(|row| row.writes),
    /// Bytes read.
    read_bytes: Column<u64> = column(|row| row.read_bytes),
    /// Bytes written.
    write_bytes: Column<u64> = column(|row| row.write_bytes),
    /// Sum of the latencies of reads and writes.
    latency_ns_sum: Column<u64> = column(|row| row.latency_ns_sum),
    /// Longest of these latencies.
    latency_ns_max: Column<u64> = column(|row| row.latency_ns_max),
    /// Latencies by operation: read, write, trim, flush.
    ops: Vec<(&'static str, Py<OpLatency>)> = ops.collect::<PyResult<_>>()?,
    /// Failed requests: operation, errno (0 if fewer bytes were moved than requested), and their
    /// number.
    failures: Vec<(&'static str, i32, u64)> =
        failures.map(|((op, errno), &n)| (op.name(), *errno, n)).collect(),
    /// First 100 failed requests: number, operation, offset_bytes, bytes, errno, at_ns.
    failed: Vec<(u64, &'static str, u64, u64, i32, u64)> = failed.collect(),
}
