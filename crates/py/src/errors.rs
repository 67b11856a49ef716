//! Conversion of the core's errors to the exceptions of `drivebay.common.errors`.

use drivebay_run::{ReplayError, RunError};
use drivebay_trace::TraceError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(drivebay.common.errors, Cancelled);
import_exception!(drivebay.common.errors, EnvironmentProblem);
import_exception!(drivebay.common.errors, TraceOrderError);
import_exception!(drivebay.common.errors, UserError);

/// Splits an error into its message, and the hint after the line break.
fn parts(error: impl ToString) -> (String, String) {
    let text = error.to_string();
    let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, "see: drivebay --help"));
    (message.to_string(), hint.to_string())
}

pub(crate) fn user_error(error: impl ToString) -> PyErr {
    UserError::new_err(parts(error))
}

/// Creates the `UserError` with this message and hint.
pub(crate) fn refused(why: impl ToString, hint: &str) -> PyErr {
    UserError::new_err((why.to_string(), hint.to_string()))
}

pub(crate) fn machine_error(error: impl ToString) -> PyErr {
    EnvironmentProblem::new_err(parts(error))
}

pub(crate) fn trace_error(error: TraceError) -> PyErr {
    match error {
        TraceError::Cancelled => PyKeyboardInterrupt::new_err(()),
        TraceError::Io { .. } => machine_error(error),
        TraceError::TooFarBack { .. } => TraceOrderError::new_err(parts(error)),
        _ => user_error(error),
    }
}

pub(crate) fn run_error(error: RunError) -> PyErr {
    match error {
        RunError::Cancelled => Cancelled::new_err(()),
        other => user_error(other),
    }
}

pub(crate) fn replay_error(error: ReplayError) -> PyErr {
    match error {
        ReplayError::Cancelled | ReplayError::Trace(TraceError::Cancelled) => {
            Cancelled::new_err(())
        }
        ReplayError::Trace(error) => trace_error(error),
        other => user_error(other),
    }
}
