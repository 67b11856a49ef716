//! Workloads at the border: documents of the core's own form.

use drivebay_run::Workload;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::document::document;
use crate::errors::user_error;

/// A closed loop on a span of a drive: what suites and the library resolve their workloads to.
///
/// The fields are those of `workload_fields`; what is left out has the core's default. It ends with
/// the first of `stop`: `duration_s` of the drive's time, `bytes` requested, and `stable`, a table
/// of `window_s`, `within_percent` of the mean within which its data rates lie, and `min_s`, the
/// earliest end. With none of them it ends when each block has come, if the offsets go over the
/// span in passes. Raises `UserError` naming a field that is not allowed.
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

/// The fields of a workload: name, default as JSON, and what is allowed on any drive.
#[pyfunction]
pub(crate) fn workload_fields() -> Vec<(String, String, String)> {
    Workload::fields()
}
