//! Serving a drive at the border: options as JSON in, figures as JSON out. Conversion only.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use drivebay_drive::Spec;
use drivebay_serve::{Engine, Handle, Options, Report, ServeError, Server};
use pyo3::create_exception;
use pyo3::prelude::*;

use crate::trace::keep_running;
use crate::{CoreError, core_error};

create_exception!(_core, ServeMachineError, CoreError, "The machine: a socket, a file, memory.");

/// How often Ctrl-C is looked for.
const LISTEN: Duration = Duration::from_millis(50);

fn serve_error(error: ServeError) -> PyErr {
    if error.is_machine() {
        ServeMachineError::new_err(error.to_string())
    } else {
        core_error(error)
    }
}

fn json(report: &Report) -> String {
    serde_json::to_string(report).expect("numbers")
}

/// A drive that is served; see `_core.pyi`.
#[pyclass(frozen, name = "Server")]
struct PyServer {
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
        profile_json: &str,
        seed: u64,
        options_json: &str,
    ) -> PyResult<PyServer> {
        let spec = Spec::from_json(profile_json).map_err(core_error)?;
        let options: Options = serde_json::from_str(options_json)
            .map_err(|e| core_error(format!("serve: {e}\nhint: see drivebay._core")))?;
        let server = py.detach(|| Server::new(spec, seed, &options)).map_err(serve_error)?;
        let (handle, addresses) = (server.handle(), server.addresses().to_vec());
        Ok(PyServer { server: Mutex::new(Some(server)), handle, addresses })
    }

    /// Serve until stopped.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let server = server.ok_or_else(|| core_error("it has run\nhint: make a new server"))?;
        let report = py.detach(|| {
            thread::scope(|scope| {
                let engine = scope.spawn(|| server.run());
                while !engine.is_finished() {
                    if !keep_running() {
                        self.handle.stop();
                    }
                    thread::sleep(LISTEN);
                }
                engine.join().expect("the server does not panic")
            })
        });
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

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyServer>()?;
    m.add("ServeMachineError", m.py().get_type::<ServeMachineError>())
}
