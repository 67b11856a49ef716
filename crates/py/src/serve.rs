//! Serving a drive at the border: options as JSON in, figures as JSON out. Conversion only.

use std::sync::{Mutex, PoisonError};

use drivebay_serve::{Engine, Handle, Options, Report, ServeError, Server};
use pyo3::prelude::*;

use crate::drive::PyProfile;
use crate::errors::{machine_error, user_error};
use crate::threads::interruptible;

fn serve_error(error: ServeError) -> PyErr {
    if error.is_machine() { machine_error(error) } else { user_error(error) }
}

fn json(report: &Report) -> String {
    serde_json::to_string(report).expect("numbers")
}

/// A drive that is served; see `_core.pyi`.
#[pyclass(module = "drivebay._core", frozen, name = "Server")]
pub(crate) struct PyServer {
    server: Mutex<Option<Server>>,
    handle: Handle,
    #[pyo3(get)]
    addresses: Vec<String>,
}

#[pymethods]
impl PyServer {
    #[new]
    fn new(
        py: Python<'_>,
        profile: &PyProfile,
        seed: u64,
        options_json: &str,
    ) -> PyResult<PyServer> {
        let spec = profile.spec.clone();
        let options: Options = serde_json::from_str(options_json)
            .map_err(|e| user_error(format!("serve: {e}\nhint: see drivebay._core")))?;
        let server = py.detach(|| Server::new(spec, seed, &options)).map_err(serve_error)?;
        let (handle, addresses) = (server.handle(), server.addresses().to_vec());
        Ok(PyServer { server: Mutex::new(Some(server)), handle, addresses })
    }

    /// Serve until stopped.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let server = server.ok_or_else(|| user_error("it has run\nhint: make a new server"))?;
        let (report, _) = interruptible(py, || self.handle.stop(), || server.run());
        Ok(json(&report.map_err(serve_error)?))
    }

    /// Answer what is under way, then end.
    fn stop(&self) {
        self.handle.stop();
    }

    /// Figures so far; None if it does not run.
    fn status(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.handle.ask(Engine::report)).map(|report| json(&report))
    }
}
