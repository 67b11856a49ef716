//! Python bindings of workloads: documents in the core's own form.

use std::collections::BTreeMap;

use drivebay_run::Workload;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::document::document;
use crate::errors::user_error;

/// A closed loop on a span of a drive; suites and the library convert their workloads to this form.
///
/// The fields are those of `workload_fields`; missing fields have the core's defaults. The workload
/// ends with the first of `stop`: `duration_s` of the drive's time, `bytes` requested, and
/// `stable`, a table of `window_s`, `within_percent` of the mean within which its data rates lie,
/// and `min_s`, the earliest end. With none of them it ends after one pass over the span, if the
/// offsets have passes. Raises `UserError` with the name of a field that is not allowed.
#[pyclass(module = "drivebay._core", frozen, name = "Workload")]
pub(crate) struct PyWorkload(pub(crate) Workload);

#[pymethods]
impl PyWorkload {
    #[new]
    #[pyo3(signature = (**fields: "typing.Any"))]
    fn new(fields: Option<&Bound<'_, PyDict>>) -> PyResult<PyWorkload> {
        Ok(PyWorkload(Workload::from_document(document(fields)?).map_err(user_error)?))
    }
}

/// Returns the fields of a workload in the core's order, each as a table of `name`, `kind` (its
/// type in Rust), `default` as JSON, `doc`, `allowed` values on any drive, and `suffix` for
/// descriptions, with `{}` for the value.
#[pyfunction]
pub(crate) fn workload_fields() -> Vec<BTreeMap<&'static str, String>> {
    Workload::fields()
}
