//! Replays at the border: their options, and replays on real drives.

use std::path::PathBuf;
use std::sync::Arc;

use drivebay_replay::{Control, EndReason, Outcome, Plan, PlanError, ReplayError, Row};
use drivebay_trace::{Op, Pace, Rule};
use pyo3::prelude::*;

use crate::columns::{Column, PyHistogram};
use crate::errors::{machine_error, trace_error, user_error};
use crate::threads::{interruptible, keep_running};
use crate::trace::PySource;
use crate::workload::named;

/// How a trace is replayed; times in seconds, `spin_us` in microseconds.
///
/// `mode` "recorded" issues requests at their recorded times, with idle time cut to `idle_max_s` and
/// `time_percent` of the recording's length; "dependencies" issues each as soon as what it waited for in
/// the recording has completed. `rule` brings addresses beyond the target onto it: modulo its size, or in
/// proportion. `trim`: trims and flushes as well. The others are for real drives: `only_reads`; `zeros`
/// or random bytes of `seed` are written; `depth`, the most requests outstanding; `spin_us` is spun
/// before a request is due; `length_max_s` and `failures_max` end it; `buffered` by the page cache.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct ReplayOptions {
    mode: String,
    idle_max_s: Option<f64>,
    time_percent: u32,
    rule: String,
    trim: bool,
    only_reads: bool,
    zeros: bool,
    seed: u64,
    depth: u32,
    spin_us: u32,
    length_max_s: Option<f64>,
    failures_max: Option<u64>,
    buffered: bool,
}

#[pymethods]
impl ReplayOptions {
    #[new]
    #[pyo3(signature = (
        *,
        mode: "typing.Literal['recorded', 'dependencies']" = "recorded",
        idle_max_s: "float | None" = None,
        time_percent: "int" = 100,
        rule: "typing.Literal['fold', 'scale']" = "fold",
        trim: "bool" = false,
        only_reads: "bool" = false,
        zeros: "bool" = false,
        seed: "int" = 1,
        depth: "int" = 1024,
        spin_us: "int" = 80,
        length_max_s: "float | None" = None,
        failures_max: "int | None" = None,
        buffered: "bool" = false,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        mode: &str,
        idle_max_s: Option<f64>,
        time_percent: u32,
        rule: &str,
        trim: bool,
        only_reads: bool,
        zeros: bool,
        seed: u64,
        depth: u32,
        spin_us: u32,
        length_max_s: Option<f64>,
        failures_max: Option<u64>,
        buffered: bool,
    ) -> ReplayOptions {
        let (mode, rule) = (mode.to_string(), rule.to_string());
        ReplayOptions {
            mode,
            idle_max_s,
            time_percent,
            rule,
            trim,
            only_reads,
            zeros,
            seed,
            depth,
            spin_us,
            length_max_s,
            failures_max,
            buffered,
        }
    }
}

impl ReplayOptions {
    fn pace(&self) -> PyResult<Pace> {
        match self.mode.as_str() {
            "recorded" => Ok(Pace::Recorded {
                idle_max_ns: self.idle_max_s.map(nanoseconds),
                time_percent: self.time_percent,
            }),
            "dependencies" => Ok(Pace::Dependencies),
            other => {
                let allowed = "must be recorded or dependencies";
                Err(user_error(format!("mode: {other} is not allowed; {allowed}")))
            }
        }
    }

    fn rule(&self) -> PyResult<Rule> {
        named("rule", &self.rule)
    }

    /// For a virtual drive, with so many events kept; the recording's size is not known yet.
    pub(crate) fn for_virtual(&self, events: usize) -> PyResult<drivebay_run::ReplayOptions> {
        let (pace, rule) = (self.pace()?, self.rule()?);
        Ok(drivebay_run::ReplayOptions { pace, rule, recorded_bytes: 0, trim: self.trim, events })
    }

    fn plan(&self, source: &PySource, only_reads: bool) -> PyResult<Plan> {
        Ok(Plan {
            source: source.0.clone(),
            pace: self.pace()?,
            rule: self.rule()?,
            only_reads,
            trim: self.trim,
            zeros: self.zeros,
            seed: self.seed,
            depth: self.depth,
            spin_us: self.spin_us,
            length_max_ns: self.length_max_s.map(nanoseconds),
            failures_max: self.failures_max,
            buffered: self.buffered,
        })
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round_ties_even() as u64
}

fn plan_error(error: PlanError) -> PyErr {
    match error {
        PlanError::Trace(error) => trace_error(error),
        PlanError::Replay(ReplayError::OutOfRange { .. } | ReplayError::Pace(_)) => {
            user_error(error)
        }
        PlanError::Replay(_) => machine_error(error),
        _ => user_error(error),
    }
}

/// How far a replay on a real drive has come.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct ReplayProgress {
    /// Since the start.
    elapsed_ns: u64,
    /// Requests that came back, failed ones included.
    done: u64,
    /// Bytes read and written.
    bytes: u64,
    /// Requests issued late.
    late: u64,
    /// Requests that failed.
    failed: u64,
}

/// Watches and stops a replay on a real drive from another thread.
#[pyclass(module = "drivebay._core", frozen, name = "ReplayControl")]
#[derive(Default)]
pub(crate) struct PyReplayControl(Arc<Control>);

#[pymethods]
impl PyReplayControl {
    #[new]
    fn new() -> PyReplayControl {
        PyReplayControl::default()
    }

    /// Issue nothing more, wait for what is outstanding, and return what there is.
    fn stop(&self) {
        self.0.stop();
    }

    /// How far the replay has come.
    fn progress(&self) -> ReplayProgress {
        let now = self.0.progress();
        ReplayProgress {
            elapsed_ns: now.elapsed_ns,
            done: now.done,
            bytes: now.bytes,
            late: now.late,
            failed: now.failed,
        }
    }
}

/// What a look through a whole trace finds.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct Survey {
    /// Requests, trims and flushes included.
    requests: u64,
    /// Reads.
    reads: u64,
    /// Writes.
    writes: u64,
    /// Where the highest address ends.
    recorded_bytes: u64,
    /// When the last request is due; None where only the drive can say.
    length_s: Option<f64>,
}

/// A look through the whole trace; nothing is issued. Raises `TraceOrderError` if it must be sorted first.
#[pyfunction]
pub(crate) fn replay_survey(
    py: Python<'_>,
    source: &PySource,
    options: &ReplayOptions,
) -> PyResult<Survey> {
    let plan = options.plan(source, false)?;
    let found = py.detach(|| plan.survey(&mut keep_running)).map_err(plan_error)?;
    Ok(Survey {
        requests: found.requests,
        reads: found.reads,
        writes: found.writes,
        recorded_bytes: found.recorded_bytes,
        length_s: found.length_ns.map(|ns| ns as f64 / 1e9),
    })
}

/// Replays a trace on a file or block device; Ctrl-C ends it, and the result says what happened until then.
///
/// `capacity_bytes` of the target may be used, `block_bytes` is its logical block, `recorded_bytes` is
/// where the recording's highest address ends. The replay runs in a thread of its own, so that whoever
/// holds the interpreter's lock cannot make it late.
#[pyfunction]
#[pyo3(signature = (
    source, options, path, *, capacity_bytes, block_bytes, recorded_bytes, only_reads, control
))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn replay_real(
    py: Python<'_>,
    source: &PySource,
    options: &ReplayOptions,
    path: PathBuf,
    capacity_bytes: u64,
    block_bytes: u64,
    recorded_bytes: u64,
    only_reads: bool,
    control: &PyReplayControl,
) -> PyResult<RealReplayResult> {
    let plan = options.plan(source, only_reads)?;
    let control = Arc::clone(&control.0);
    let (outcome, _) = interruptible(
        py,
        || control.stop(),
        || plan.play(&path, capacity_bytes, block_bytes, recorded_bytes, &control),
    );
    RealReplayResult::new(py, &outcome.map_err(plan_error)?)
}

/// The requests of one kind in a replay on a real drive.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct OpLatency {
    /// Sum of the latencies.
    latency_ns_sum: u64,
    /// Latencies, from when a request was due.
    latency: Py<PyHistogram>,
    /// The drive's own share of them, from when a request was issued.
    service: Py<PyHistogram>,
}

/// A replay on a real drive up to its end; columns of shape (seconds,).
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct RealReplayResult {
    /// "complete", "time", "stopped", "failures" or "broken".
    ended: &'static str,
    /// Why the trace could not be read further, if it could not.
    reason: String,
    /// From the start to the end, idle time at both ends included.
    length_ns: u64,
    /// From the start to the last completion.
    end_ns: u64,
    /// Time with any request outstanding.
    busy_ns: u64,
    /// Reads and writes outstanding, summed over time.
    outstanding_ns: u128,
    /// Most of them at once.
    outstanding_max: u32,
    /// Reads and writes by the number outstanding when they were issued, themselves included: 1, 2, 3, 4-5,
    /// 6-10, 11-20, 21-32, above.
    outstanding_counts: Vec<u64>,
    /// Requests issued.
    issued: u64,
    /// Requests that came back, failed ones included.
    completed: u64,
    /// Requests that never came back.
    unanswered: u64,
    /// Reads and writes with a latency over 10 ms.
    over_10_ms: u64,
    /// Reads and writes with a latency over 100 ms.
    over_100_ms: u64,
    /// Requests issued late.
    late: u64,
    /// Of these, the ones that found the queue full.
    late_queue_full: u64,
    /// Of these, the ones that were not read from the trace in time.
    late_not_read: u64,
    /// How late the latest was.
    lateness_ns_max: u64,
    /// How late requests were issued.
    lateness: Py<PyHistogram>,
    /// Writes that were left out, in a replay of the reads only.
    skipped_writes: u64,
    /// Trims that were left out.
    skipped_trims: u64,
    /// Flushes that were left out.
    skipped_flushes: u64,
    /// Whether the kernel had the memory registered.
    fixed_buffers: bool,
    /// Whether the page cache was passed by.
    direct: bool,
    /// Reads completed.
    reads: Column<u64>,
    /// Writes completed.
    writes: Column<u64>,
    /// Bytes read.
    read_bytes: Column<u64>,
    /// Bytes written.
    write_bytes: Column<u64>,
    /// Sum of the latencies of reads and writes.
    latency_ns_sum: Column<u64>,
    /// Longest of them.
    latency_ns_max: Column<u64>,
    /// By kind of request: read, write, trim, flush.
    ops: Vec<(&'static str, Py<OpLatency>)>,
    /// Failed requests: kind, errno (0 for less moved than asked), and how many.
    failures: Vec<(&'static str, i32, u64)>,
    /// The first 100 of them: number, kind, offset_bytes, bytes, errno, at_ns.
    failed: Vec<(u64, &'static str, u64, u64, i32, u64)>,
}

impl RealReplayResult {
    fn new(py: Python<'_>, outcome: &Outcome) -> PyResult<RealReplayResult> {
        let record = &outcome.record;
        let (ended, reason) = match &outcome.ended {
            EndReason::Complete => ("complete", ""),
            EndReason::TimeUp => ("time", ""),
            EndReason::Stopped => ("stopped", ""),
            EndReason::Failures => ("failures", ""),
            EndReason::Broken(text) => ("broken", text.as_str()),
        };
        let column = |of: fn(&Row) -> u64| Column::new(py, record.rows.iter().map(of));
        let ops = Op::ALL.iter().map(|&op| {
            let of_op = OpLatency {
                latency_ns_sum: record.latency_ns_sum[op as usize],
                latency: PyHistogram::new(py, &record.latency[op as usize])?,
                service: PyHistogram::new(py, &record.service[op as usize])?,
            };
            Ok((op.name(), Py::new(py, of_op)?))
        });
        let failures = record.failures.iter();
        let failed = record.listed.iter().map(|f| {
            let c = f.command;
            (f.number, c.op.name(), c.offset_bytes, c.bytes, f.errno, f.at.0)
        });
        Ok(RealReplayResult {
            ended,
            reason: reason.to_string(),
            length_ns: outcome.length.0,
            end_ns: record.end.0,
            busy_ns: record.busy.0,
            outstanding_ns: record.outstanding_ns,
            outstanding_max: record.outstanding_max,
            outstanding_counts: record.by_depth.to_vec(),
            issued: record.issued,
            completed: record.completed,
            unanswered: outcome.unanswered,
            over_10_ms: record.long[0],
            over_100_ms: record.long[1],
            late: record.late,
            late_queue_full: record.late_queue_full,
            late_not_read: record.late_not_read,
            lateness_ns_max: record.lateness_max.0,
            lateness: PyHistogram::new(py, &record.lateness)?,
            skipped_writes: outcome.skipped.writes,
            skipped_trims: outcome.skipped.trims,
            skipped_flushes: outcome.skipped.flushes,
            fixed_buffers: outcome.fixed_buffers,
            direct: outcome.direct,
            reads: column(|row| row.reads),
            writes: column(|row| row.writes),
            read_bytes: column(|row| row.read_bytes),
            write_bytes: column(|row| row.write_bytes),
            latency_ns_sum: column(|row| row.latency_ns_sum),
            latency_ns_max: column(|row| row.latency_ns_max),
            ops: ops.collect::<PyResult<_>>()?,
            failures: failures.map(|((op, errno), &n)| (op.name(), *errno, n)).collect(),
            failed: failed.collect(),
        })
    }
}
