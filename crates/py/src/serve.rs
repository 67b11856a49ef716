//! Serving a drive at the border: its options, faults to inject, and figures. Conversion only.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use drivebay_run::Control;
use drivebay_serve::{
    Engine, Fault, Handle, IdentityOptions, Options, Report, ServeError, Server, TimeScaleError,
};
use pyo3::prelude::*;

use crate::drive::PyProfile;
use crate::errors::{machine_error, user_error};
use crate::threads::interruptible;
use crate::workload::named;

fn serve_error(error: ServeError) -> PyErr {
    if error.is_machine() { machine_error(error) } else { user_error(error) }
}

/// A fault to inject; which of the fields belong to a kind is checked when the drive is served.
#[pyclass(module = "drivebay._core", frozen, name = "Fault")]
pub(crate) struct PyFault(Fault);

#[pymethods]
impl PyFault {
    #[new]
    #[pyo3(signature = (
        *,
        kind: "typing.Literal['read-error', 'latency', 'hang', 'read-only', 'ambient']",
        after_s: "float" = 0.0,
        after_ios: "int" = 0,
        for_s: "float | None" = None,
        lba: "int | None" = None,
        sectors: "int | None" = None,
        extra_us: "int | None" = None,
        one_in: "int | None" = None,
        celsius: "float | None" = None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        kind: &str,
        after_s: f64,
        after_ios: u64,
        for_s: Option<f64>,
        lba: Option<u64>,
        sectors: Option<u64>,
        extra_us: Option<u64>,
        one_in: Option<u64>,
        celsius: Option<f64>,
    ) -> PyResult<PyFault> {
        let kind = named("kind", kind)?;
        Ok(PyFault(Fault {
            kind,
            after_s,
            after_ios,
            for_s,
            lba,
            sectors,
            extra_us,
            one_in,
            celsius,
        }))
    }
}

/// What a power cut did.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct PowerCut {
    /// When, since the server started, on the drive's clock.
    at_ns: u64,
    /// How long the drive took to become ready.
    ready_after_ns: u64,
    /// Bytes whose newest content was lost.
    lost_bytes: u64,
}

/// Lateness of completions, microseconds of the host's clock; zeros if the server is not paced.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct Lateness {
    /// Number of completions.
    answers: u64,
    /// Median.
    us_p50: f64,
    /// 99th percentile.
    us_p99: f64,
    /// 99.9th percentile.
    us_p999: f64,
    /// Maximum.
    us_max: f64,
    /// Number of completions later than `late_from_us`.
    late: u64,
    /// Lateness from which a completion counts as late.
    late_from_us: f64,
    /// The latencies of the model over these with what the host added, percent; None before the first
    /// completion, or unpaced.
    kept_up_percent: Option<f64>,
}

/// Figures of a served drive since the server started.
#[pyclass(module = "drivebay._core", frozen)]
pub(crate) struct ServeReport {
    report: Report,
    /// Wall time.
    #[pyo3(get)]
    elapsed_s: f64,
    /// The drive's time.
    #[pyo3(get)]
    drive_s: f64,
    /// Seconds of the drive's clock in a second of the host's.
    #[pyo3(get)]
    time_scale: f64,
    /// Requests of all hosts.
    #[pyo3(get)]
    requests: u64,
    /// Commands in flight.
    #[pyo3(get)]
    outstanding: usize,
    /// Bytes that hosts read.
    #[pyo3(get)]
    bytes_read: u64,
    /// Bytes that hosts wrote.
    #[pyo3(get)]
    bytes_written: u64,
    /// Write amplification; zero before the first write.
    #[pyo3(get)]
    waf: f64,
    /// The drive's sensor, degrees Celsius.
    #[pyo3(get)]
    temperature_c: f64,
    /// Throttle stage, 0 for none.
    #[pyo3(get)]
    throttle_stage: usize,
    /// Bytes that a power cut would take now, at most.
    #[pyo3(get)]
    losable_bytes: u64,
    /// Whether the power is off since the last power cut.
    #[pyo3(get)]
    is_off: bool,
    /// Number of power cuts.
    #[pyo3(get)]
    power_cuts: u64,
    /// The last of them.
    #[pyo3(get)]
    last_power_cut: Option<Py<PowerCut>>,
    /// How late the completions were.
    #[pyo3(get)]
    lateness: Py<Lateness>,
}

#[pymethods]
impl ServeReport {
    /// The same as one line of JSON, as the control socket answers it.
    fn json(&self) -> String {
        serde_json::to_string(&self.report).expect("numbers")
    }
}

impl ServeReport {
    fn new(py: Python<'_>, report: Report) -> PyResult<ServeReport> {
        let late = report.lateness;
        let lateness = Lateness {
            answers: late.answers,
            us_p50: late.us_p50,
            us_p99: late.us_p99,
            us_p999: late.us_p999,
            us_max: late.us_max,
            late: late.late,
            late_from_us: late.late_from_us,
            kept_up_percent: late.kept_up_percent,
        };
        let cut = report.last_power_cut.map(|cut| PowerCut {
            at_ns: cut.at.0,
            ready_after_ns: cut.ready_after.0,
            lost_bytes: cut.lost_bytes,
        });
        Ok(ServeReport {
            elapsed_s: report.elapsed_s,
            drive_s: report.drive_s,
            time_scale: report.time_scale,
            requests: report.requests,
            outstanding: report.outstanding,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
            waf: report.waf,
            temperature_c: report.temperature_c,
            throttle_stage: report.throttle_stage,
            losable_bytes: report.losable_bytes,
            is_off: report.is_off,
            power_cuts: report.power_cuts,
            last_power_cut: cut.map(|cut| Py::new(py, cut)).transpose()?,
            lateness: Py::new(py, lateness)?,
            report,
        })
    }
}

/// A drive that listens from the moment this is made, and answers while `run` runs.
///
/// `nbd`, `nvme_tcp`: addresses; `vfio_user`: a socket's path; `tls`: certificate chain and key, PEM files;
/// `time_scale`: seconds of the drive's clock in one of the host's, a number or a fraction, 1/1000 to 100;
/// `precondition`: what was done to a drive without a state before;
/// `power_cut`: after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS;
/// `after_cut`: return, refuse or hold=SECONDS.
#[pyclass(module = "drivebay._core", frozen, name = "Server")]
pub(crate) struct PyServer {
    server: Mutex<Option<Server>>,
    handle: Handle,
    /// Where it listens.
    #[pyo3(get)]
    addresses: Vec<String>,
}

#[pymethods]
impl PyServer {
    #[new]
    #[pyo3(signature = (
        profile,
        *,
        seed: "int",
        name: "str",
        memory_max_bytes: "int",
        nbd = Vec::new(),
        nvme_tcp = Vec::new(),
        vfio_user = None,
        data = None,
        state = None,
        pace: "typing.Literal['sleep', 'hybrid', 'spin', 'none']" = "hybrid",
        time_scale: "str" = "1",
        precondition: "typing.Literal['new', 'filled', 'steady']" = "new",
        tls = None,
        control: "str | None" = None,
        power_cut: "str | None" = None,
        after_cut: "str | None" = None,
        loss: "typing.Literal['all', 'random', 'unflushed']" = "all",
        faults = Vec::new(),
        serial: "str | None" = None,
        nqn: "str | None" = None,
        eui64: "str | None" = None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        profile: &PyProfile,
        seed: u64,
        name: String,
        memory_max_bytes: u64,
        nbd: Vec<String>,
        nvme_tcp: Vec<String>,
        vfio_user: Option<PathBuf>,
        data: Option<PathBuf>,
        state: Option<PathBuf>,
        pace: &str,
        time_scale: &str,
        precondition: &str,
        tls: Option<(PathBuf, PathBuf)>,
        control: Option<String>,
        power_cut: Option<String>,
        after_cut: Option<String>,
        loss: &str,
        faults: Vec<PyRef<'_, PyFault>>,
        serial: Option<String>,
        nqn: Option<String>,
        eui64: Option<String>,
    ) -> PyResult<PyServer> {
        let spec = profile.spec.clone();
        let options = Options {
            name,
            nbd,
            nvme_tcp,
            vfio_user,
            data,
            memory_max_bytes,
            state,
            precondition: named("precondition", precondition)?,
            pace: named("pace", pace)?,
            time_scale: time_scale.parse().map_err(|error: TimeScaleError| user_error(error))?,
            tls,
            control,
            power_cut,
            after_cut,
            loss: named("loss", loss)?,
            faults: faults.iter().map(|fault| fault.0).collect(),
            identity: IdentityOptions { serial, nqn, eui64 },
        };
        let control = Control::default();
        let make = || Server::watched(spec, seed, &options, &control);
        let (server, signal) = interruptible(py, || control.cancel(), make);
        if let Some(signal) = signal {
            return Err(signal);
        }
        let server = server.map_err(serve_error)?;
        let (handle, addresses) = (server.handle(), server.addresses().to_vec());
        Ok(PyServer { server: Mutex::new(Some(server)), handle, addresses })
    }

    /// Serve until stopped.
    fn run(&self, py: Python<'_>) -> PyResult<ServeReport> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let server = server.ok_or_else(|| user_error("it has run\nhint: make a new server"))?;
        let (report, _) = interruptible(py, || self.handle.stop(), || server.run());
        ServeReport::new(py, report.map_err(serve_error)?)
    }

    /// Complete what is under way, then end.
    fn stop(&self) {
        self.handle.stop();
    }

    /// Figures so far; None if it does not run.
    fn status(&self, py: Python<'_>) -> PyResult<Option<ServeReport>> {
        let report = py.detach(|| self.handle.ask(Engine::report));
        report.map(|report| ServeReport::new(py, report)).transpose()
    }
}
