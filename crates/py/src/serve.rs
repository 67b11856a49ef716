//! Python bindings of the server: one document of options in, figures out. Conversion only.

use std::sync::{Mutex, PoisonError};

use drivebay_run::Control as RunControl;
use drivebay_serve::{Control as _, Document, Handle, Report, ServeError, Server};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::drive::PyProfile;
use crate::errors::{machine_error, user_error};
use crate::threads::interruptible;

fn serve_error(error: ServeError) -> PyErr {
    if error.is_machine() { machine_error(error) } else { user_error(error) }
}

/// Reads the options of a server; an error that is not the core's own names the position in the
/// document.
fn read(document: &Bound<'_, PyDict>) -> PyResult<Document> {
    let mut given = pythonize::Depythonizer::from_object(document);
    serde_path_to_error::deserialize(&mut given).map_err(|error| {
        let (place, message) = (error.path().to_string(), error.into_inner().to_string());
        let has_hint = message.contains("\nhint: ");
        user_error(if has_hint {
            message
        } else {
            format!("{place}: {message}\nhint: see docs/concepts/serving.md")
        })
    })
}

/// A server of virtual drives; it listens as soon as it is created, and responds while `run` runs.
///
/// `profiles`: profiles of the drives. `document`: `server`, a table of common options, and
/// `drives`, a list of tables in the order of the profiles, with the keys of `Options` and
/// `DriveOptions` in `crates/serve/src/server/options.rs`.
#[pyclass(module = "drivebay._core", frozen, name = "Server")]
pub(crate) struct PyServer {
    server: Mutex<Option<Server>>,
    handles: Vec<Handle>,
    /// Addresses that it listens on, with the assigned ports.
    #[pyo3(get)]
    addresses: Vec<String>,
}

#[pymethods]
impl PyServer {
    #[new]
    #[pyo3(signature = (profiles, document: "dict[str, object]"))]
    fn new(
        py: Python<'_>,
        profiles: Vec<PyRef<'_, PyProfile>>,
        document: &Bound<'_, PyDict>,
    ) -> PyResult<PyServer> {
        let Document { server: options, drives } = read(document)?;
        if drives.is_empty() || drives.len() != profiles.len() {
            return Err(user_error("a server has a profile for each drive\nhint: name a drive"));
        }
        let specs = profiles.iter().map(|profile| profile.spec.clone());
        let drives = specs.zip(drives).collect();
        let control = RunControl::default();
        let make = || Server::new(drives, &options, &control);
        let (server, signal) = interruptible(py, || control.cancel(), make);
        if let Some(signal) = signal {
            return Err(signal);
        }
        let server = server.map_err(serve_error)?;
        let (handles, addresses) = (server.handles(), server.addresses().to_vec());
        Ok(PyServer { server: Mutex::new(Some(server)), handles, addresses })
    }

    /// Serves until stopped; returns the figures of each drive, as in the control socket's
    /// `status`.
    fn run(&self, py: Python<'_>) -> PyResult<Figures> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let server = server
            .ok_or_else(|| user_error("the server has run already\nhint: make a new server"))?;
        let (reports, _) = interruptible(py, || self.stop(), || server.run());
        Ok(Figures(reports.map_err(serve_error)?))
    }

    /// Completes outstanding requests, then ends.
    fn stop(&self) {
        self.handles.iter().for_each(Handle::stop);
    }

    /// Returns the figures so far of each running drive.
    fn status(&self, py: Python<'_>) -> Figures {
        let ask = |handle: &Handle| handle.ask(|engine| engine.report());
        py.detach(|| Figures(self.handles.iter().filter_map(ask).collect()))
    }
}

/// Figures of drives, converted to a list of dictionaries.
struct Figures(Vec<Report>);

impl<'py> IntoPyObject<'py> for Figures {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize::pythonize(py, &self.0)?)
    }
}
