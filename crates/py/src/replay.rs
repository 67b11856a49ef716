//! Replay on virtual drives at the border: source and plan as JSON in, columns out. Conversion only.

use std::sync::Arc;

use drivebay_run::{ReplayError, ReplayOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::trace::{trace_error, what};
use crate::{CancelledError, PyControl, VirtualDrive, columns, core_error};
use drivebay_trace::TraceError;

fn replay_error(error: ReplayError) -> PyErr {
    match error {
        ReplayError::Cancelled | ReplayError::Trace(TraceError::Cancelled) => {
            CancelledError::new_err("cancelled")
        }
        ReplayError::Trace(error) => trace_error(error),
        other => core_error(other),
    }
}

/// Replay a trace on a virtual drive; returns columns, see `_core.pyi`.
#[pyfunction]
fn replay<'py>(
    py: Python<'py>,
    drive: &VirtualDrive,
    what_json: &str,
    plan_json: &str,
    control: Option<&PyControl>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan: ReplayOptions = serde_json::from_str(plan_json)
        .map_err(|error| core_error(format!("replay: {error}\nhint: see drivebay._core")))?;
    let what = what(what_json)?;
    let control = control.map_or_else(Arc::default, |c| Arc::clone(&c.0));
    let replayed = py.detach(|| {
        let mut source = what.open().map_err(trace_error)?;
        drive.with(|device| {
            drivebay_run::replay(device, &mut *source, &plan, &control).map_err(replay_error)
        })
    })?;
    let dict = columns(py, &replayed.outcome)?;
    dict.set_item("busy_ns", replayed.depths.busy.0)?;
    dict.set_item("outstanding_mean", replayed.depths.mean)?;
    dict.set_item("outstanding_max", replayed.depths.max)?;
    dict.set_item("outstanding_counts", replayed.depths.by_depth.to_vec())?;
    dict.set_item("over_10_ms", replayed.long[0])?;
    dict.set_item("over_100_ms", replayed.long[1])?;
    dict.set_item("skipped", replayed.skipped)?;
    Ok(dict)
}

/// Enters this file's part into the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(replay, m)?)
}
