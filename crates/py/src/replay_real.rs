//! Replay on real drives at the border: a plan as JSON in, columns out. Conversion only.
//!
//! The replay runs in a thread of its own, so that whoever holds the interpreter's lock cannot make it
//! late; the calling thread waits, and hears Ctrl-C.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drivebay_replay::{Control, EndReason, Outcome, Plan, PlanError, ReplayError, Row};
use drivebay_trace::Op;
use drivebay_units::Histogram;
use numpy::{IntoPyArray, PyArray1};
use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::trace::{keep_running, trace_error};
use crate::{CoreError, core_error};

create_exception!(_core, ReplayMachineError, CoreError, "The machine: no io_uring, no O_DIRECT.");

/// How often Ctrl-C is looked for.
const LISTEN: Duration = Duration::from_millis(50);

fn plan_error(error: PlanError) -> PyErr {
    let text = error.to_string();
    match error {
        PlanError::Trace(error) => trace_error(error),
        PlanError::Replay(ReplayError::OutOfRange { .. } | ReplayError::Pace(_)) => {
            CoreError::new_err(text)
        }
        PlanError::Replay(_) => ReplayMachineError::new_err(text),
        _ => CoreError::new_err(text),
    }
}

fn plan(json: &str) -> PyResult<Plan> {
    serde_json::from_str(json)
        .map_err(|error| core_error(format!("replay: {error}\nhint: see drivebay._core")))
}

/// Watches and stops a replay from another thread.
#[pyclass(frozen, name = "ReplayWatch")]
#[derive(Default)]
pub(crate) struct PyWatch(Arc<Control>);

#[pymethods]
impl PyWatch {
    #[new]
    fn new() -> PyWatch {
        PyWatch::default()
    }

    /// Issue nothing more, wait for what is out, and return.
    fn stop(&self) {
        self.0.stop();
    }

    /// (nanoseconds since the start, requests done, bytes moved, issued late, failed).
    fn look(&self) -> (u64, u64, u64, u64, u64) {
        let progress = self.0.progress();
        (progress.elapsed_ns, progress.done, progress.bytes, progress.late, progress.failed)
    }
}

/// A look through the whole trace, as JSON; nothing is played.
#[pyfunction]
fn replay_survey(py: Python<'_>, plan_json: &str) -> PyResult<String> {
    let plan = plan(plan_json)?;
    let survey = py.detach(|| plan.survey(&mut keep_running)).map_err(plan_error)?;
    Ok(serde_json::to_string(&survey).expect("numbers"))
}

/// Plays a trace on a file or block device; see `_core.pyi`.
#[pyfunction]
fn replay_real<'py>(
    py: Python<'py>,
    plan_json: &str,
    path: PathBuf,
    sizes: (u64, u64, u64),
    watch: &PyWatch,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = plan(plan_json)?;
    let (capacity, block, recorded) = sizes;
    let watch = Arc::clone(&watch.0);
    let outcome = py.detach(|| {
        thread::scope(|scope| {
            let player = scope.spawn(|| plan.play(&path, capacity, block, recorded, &watch));
            while !player.is_finished() {
                if !keep_running() {
                    watch.stop();
                }
                thread::sleep(LISTEN);
            }
            player.join().expect("the player does not panic")
        })
    });
    columns(py, &outcome.map_err(plan_error)?)
}

fn columns<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let record = &outcome.record;
    let dict = PyDict::new(py);
    let (ended, reason) = match &outcome.ended {
        EndReason::Complete => ("complete", ""),
        EndReason::TimeUp => ("time", ""),
        EndReason::Stopped => ("stopped", ""),
        EndReason::Failures => ("failures", ""),
        EndReason::Broken(text) => ("broken", text.as_str()),
    };
    dict.set_item("ended", ended)?;
    dict.set_item("reason", reason)?;
    dict.set_item("length_ns", outcome.length.0)?;
    dict.set_item("end_ns", record.end.0)?;
    dict.set_item("busy_ns", record.busy.0)?;
    dict.set_item("outstanding_ns", record.outstanding_ns)?;
    dict.set_item("outstanding_max", record.outstanding_max)?;
    dict.set_item("outstanding_counts", record.by_depth.to_vec())?;
    dict.set_item("issued", record.issued)?;
    dict.set_item("completed", record.completed)?;
    dict.set_item("unanswered", outcome.unanswered)?;
    dict.set_item("over_10_ms", record.long[0])?;
    dict.set_item("over_100_ms", record.long[1])?;
    dict.set_item("late", record.late)?;
    dict.set_item("late_queue_full", record.late_queue_full)?;
    dict.set_item("late_not_read", record.late_not_read)?;
    dict.set_item("lateness_ns_max", record.lateness_max.0)?;
    dict.set_item("passed_writes", outcome.skipped.writes)?;
    dict.set_item("passed_trims", outcome.skipped.trims)?;
    dict.set_item("passed_flushes", outcome.skipped.flushes)?;
    dict.set_item("fixed_buffers", outcome.fixed_buffers)?;
    dict.set_item("direct", outcome.direct)?;
    for op in Op::ALL {
        let name = op.name();
        dict.set_item(format!("{name}_latency_ns_sum"), record.latency_ns_sum[op as usize])?;
        histogram(py, &dict, name, &record.latency[op as usize])?;
        histogram(py, &dict, &format!("{name}_service"), &record.service[op as usize])?;
    }
    histogram(py, &dict, "lateness", &record.lateness)?;
    let column = |of: fn(&Row) -> u64| -> Bound<'py, PyArray1<u64>> {
        record.rows.iter().map(of).collect::<Vec<u64>>().into_pyarray(py)
    };
    dict.set_item("reads", column(|r| r.reads))?;
    dict.set_item("writes", column(|r| r.writes))?;
    dict.set_item("read_bytes", column(|r| r.read_bytes))?;
    dict.set_item("write_bytes", column(|r| r.write_bytes))?;
    dict.set_item("latency_ns_sum", column(|r| r.latency_ns_sum))?;
    dict.set_item("latency_ns_max", column(|r| r.latency_ns_max))?;
    let counts = PyList::empty(py);
    for ((op, errno), count) in &record.failures {
        counts.append((op.name(), errno, count))?;
    }
    dict.set_item("failures", counts)?;
    let listed = PyList::empty(py);
    for f in &record.listed {
        let c = f.command;
        listed.append((f.number, c.op.name(), c.offset_bytes, c.bytes, f.errno, f.at.0))?;
    }
    dict.set_item("failed", listed)?;
    Ok(dict)
}

fn histogram<'py>(
    py: Python<'py>,
    dict: &Bound<'py, PyDict>,
    name: &str,
    histogram: &Histogram,
) -> PyResult<()> {
    let bins: Vec<_> = histogram.bins().collect();
    let part = |of: fn(&drivebay_units::Bin) -> u64| -> Bound<'py, PyArray1<u64>> {
        bins.iter().map(of).collect::<Vec<u64>>().into_pyarray(py)
    };
    dict.set_item(format!("{name}_low_ns"), part(|bin| bin.low))?;
    dict.set_item(format!("{name}_high_ns"), part(|bin| bin.high))?;
    dict.set_item(format!("{name}_count"), part(|bin| bin.count))
}

/// Enters this file's part into the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyWatch>()?;
    m.add_function(wrap_pyfunction!(replay_survey, m)?)?;
    m.add_function(wrap_pyfunction!(replay_real, m)?)?;
    m.add("ReplayMachineError", m.py().get_type::<ReplayMachineError>())?;
    Ok(())
}
