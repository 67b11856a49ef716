//! Serving a drive at the border: its options, faults to inject, and figures. Conversion only.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use drivebay_run::Control;
use drivebay_serve::{
    DriveOptions, Engine, Fault, Handle, IdentityOptions, LatenessFigures, NamespaceFigures,
    NamespaceOptions, Options, Report, ServeError, Server, TimeScaleError,
};
use pyo3::prelude::*;

use crate::document::named;
use crate::drive::PyProfile;
use crate::errors::{machine_error, user_error};
use crate::threads::interruptible;

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

/// A class around figures of the server, with a getter for each that is named.
macro_rules! figures {
    ($(#[doc = $about:tt])* $class:ident($inner:ty) {
        $($(#[doc = $doc:tt])* $name:ident: $kind:ty,)*
    } $($more:tt)*) => {
        $(#[doc = $about])*
        #[pyclass(module = "drivebay._core", frozen)]
        pub(crate) struct $class($inner);

        #[pymethods]
        impl $class {
            $($(#[doc = $doc])* #[getter] fn $name(&self) -> $kind { self.0.$name })*
            $($more)*
        }
    };
}

figures! {
    /// What a power cut did.
    PowerCut(drivebay_serve::PowerCut) {
        /// When, since the server started, on the drive's clock.
        at_ns: u64,
        /// How long the drive took to become ready.
        ready_after_ns: u64,
        /// Bytes whose newest content was lost.
        lost_bytes: u64,
    }
}

figures! {
    /// Lateness of completions, microseconds of the host's clock; zeros if the server is not paced.
    Lateness(LatenessFigures) {
        /// Number of completions.
        answers: u64,
        /// Median lateness.
        us_p50: f64,
        /// 99th percentile of the lateness.
        us_p99: f64,
        /// 99.9th percentile of the lateness.
        us_p999: f64,
        /// Longest lateness.
        us_max: f64,
        /// Number of completions later than `late_from_us`.
        late: u64,
        /// Lateness from which a completion counts as late.
        late_from_us: f64,
        /// The latencies of the model over these with what the host added, percent; None before the first
        /// completion, or unpaced.
        kept_up_percent: Option<f64>,
    }
}

figures! {
    /// A namespace of a served drive.
    ServedNamespace(NamespaceFigures) {
        /// Its number, from 1.
        nsid: u32,
        /// Where it begins on the drive.
        start_bytes: u64,
        /// Its size.
        bytes: u64,
        /// Whether it refuses all that changes its data.
        is_read_only: bool,
    }
}

figures! {
    /// Figures of a served drive since the server started.
    ServeReport(Report) {
        /// Bytes of the drive.
        capacity_bytes: u64,
        /// Seconds of the host's clock since the server started.
        elapsed_s: f64,
        /// The drive's time.
        drive_s: f64,
        /// Seconds of the drive's clock in a second of the host's.
        time_scale: f64,
        /// Requests of all hosts.
        requests: u64,
        /// Memory that all drives of the server take for data, snapshots and buffers.
        memory_bytes: u64,
        /// What of it is buffers of connections.
        buffer_bytes: u64,
        /// The most that they may take.
        memory_max_bytes: u64,
        /// How often a request had to wait until there was memory for it.
        memory_waits: u64,
        /// Connections that were refused, or ended for what they did.
        refused: u64,
        /// Commands in flight.
        outstanding: usize,
        /// Bytes that hosts read.
        bytes_read: u64,
        /// Bytes that hosts wrote.
        bytes_written: u64,
        /// Write amplification; zero before the first write.
        waf: f64,
        /// The drive's sensor, degrees Celsius.
        temperature_c: f64,
        /// Throttle stage, 0 for none.
        throttle_stage: usize,
        /// Bytes that a power cut would take now, at most.
        losable_bytes: u64,
        /// Whether the power is off since the last power cut.
        is_off: bool,
        /// Number of power cuts.
        power_cuts: u64,
    }

    /// The drive's name.
    #[getter]
    fn drive(&self) -> &str {
        &self.0.drive
    }

    /// What it is; a scaled drive's says so.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// Its parts, as hosts see them.
    #[getter]
    fn namespaces(&self) -> Vec<ServedNamespace> {
        self.0.namespaces.iter().copied().map(ServedNamespace).collect()
    }

    /// The last of them.
    #[getter]
    fn last_power_cut(&self) -> Option<PowerCut> {
        self.0.last_power_cut.map(PowerCut)
    }

    /// How late the completions were.
    #[getter]
    fn lateness(&self) -> Lateness {
        Lateness(self.0.lateness)
    }

    /// The same as one line of JSON, as the control socket answers it.
    fn json(&self) -> String {
        serde_json::to_string(&self.0).expect("numbers")
    }

    /// What the control socket answered; raises `UserError` if these are not the figures of this version.
    #[staticmethod]
    fn from_json(answer: &str) -> PyResult<ServeReport> {
        let hint = "ask with the drivebay that serves it";
        let report = serde_json::from_str(answer);
        report.map(ServeReport).map_err(|error| user_error(format!("status: {error}\nhint: {hint}")))
    }
}

fn namespace((bytes, start_bytes, is_read_only): (u64, Option<u64>, bool)) -> NamespaceOptions {
    NamespaceOptions { bytes, start_bytes, is_read_only }
}

/// A drive to be served.
///
/// `name`: of its NBD export, and for the control socket; `vfio_user`: a socket's path;
/// `ublk`: each namespace is a block device of this machine;
/// `namespaces`: bytes, start in bytes or None for behind the one before, and whether it is read-only;
/// `time_scale`: seconds of the drive's clock in one of the host's, a number or a fraction, 1/10000 to 100;
/// `host_durability`: what flushes make of the file `data`, fdatasync or nothing;
/// `image`: what new data begins with, a raw file or a block device;
/// `precondition`: what was done to a drive without a state before;
/// `power_cut`: after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS;
/// `after_cut`: return, refuse or hold=SECONDS.
#[pyclass(module = "drivebay._core", frozen)]
pub(crate) struct ServedDrive(DriveOptions);

#[pymethods]
impl ServedDrive {
    #[new]
    #[pyo3(signature = (
        profile,
        *,
        name: "str",
        seed: "int" = 1,
        read_only: "bool" = false,
        namespaces = Vec::new(),
        vfio_user = None,
        ublk: "bool" = false,
        data = None,
        host_durability: "typing.Literal['flush', 'none']" = "flush",
        image = None,
        state = None,
        pace: "typing.Literal['sleep', 'hybrid', 'spin', 'none']" = "hybrid",
        time_scale: "str" = "1",
        precondition: "typing.Literal['new', 'filled', 'steady']" = "new",
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
        profile: &PyProfile,
        name: String,
        seed: u64,
        read_only: bool,
        namespaces: Vec<(u64, Option<u64>, bool)>,
        vfio_user: Option<PathBuf>,
        ublk: bool,
        data: Option<PathBuf>,
        host_durability: &str,
        image: Option<PathBuf>,
        state: Option<PathBuf>,
        pace: &str,
        time_scale: &str,
        precondition: &str,
        power_cut: Option<String>,
        after_cut: Option<String>,
        loss: &str,
        faults: Vec<PyRef<'_, PyFault>>,
        serial: Option<String>,
        nqn: Option<String>,
        eui64: Option<String>,
    ) -> PyResult<ServedDrive> {
        Ok(ServedDrive(DriveOptions {
            name,
            spec: profile.spec.clone(),
            seed,
            is_read_only: read_only,
            namespaces: namespaces.into_iter().map(namespace).collect(),
            vfio_user,
            ublk,
            data,
            host_durability: named("host_durability", host_durability)?,
            image,
            state,
            precondition: named("precondition", precondition)?,
            pace: named("pace", pace)?,
            time_scale: time_scale.parse().map_err(|error: TimeScaleError| user_error(error))?,
            power_cut,
            after_cut,
            loss: named("loss", loss)?,
            faults: faults.iter().map(|fault| fault.0).collect(),
            identity: IdentityOptions { serial, nqn, eui64 },
        }))
    }
}

/// Drives that listen from the moment this is made, and answer while `run` runs.
///
/// `nbd`, `nvme_tcp`: addresses; `tls`: certificate chain and key, PEM files; `control`: `unix:PATH`.
#[pyclass(module = "drivebay._core", frozen, name = "Server")]
pub(crate) struct PyServer {
    server: Mutex<Option<Server>>,
    handles: Vec<Handle>,
    /// Addresses that it listens at, with the ports that it was given.
    #[pyo3(get)]
    addresses: Vec<String>,
}

#[pymethods]
impl PyServer {
    #[new]
    #[pyo3(signature = (
        drives,
        *,
        memory_max_bytes: "int",
        nbd = Vec::new(),
        nvme_tcp = Vec::new(),
        tls = None,
        control: "str | None" = None,
    ))]
    fn new(
        py: Python<'_>,
        drives: Vec<PyRef<'_, ServedDrive>>,
        memory_max_bytes: u64,
        nbd: Vec<String>,
        nvme_tcp: Vec<String>,
        tls: Option<(PathBuf, PathBuf)>,
        control: Option<String>,
    ) -> PyResult<PyServer> {
        if drives.is_empty() {
            return Err(user_error("a server has no drive\nhint: name one"));
        }
        let drives: Vec<DriveOptions> = drives.iter().map(|drive| drive.0.clone()).collect();
        let options = Options { nbd, nvme_tcp, tls, control, memory_max_bytes };
        let control = Control::default();
        let make = || Server::new(drives, &options, &control);
        let (server, signal) = interruptible(py, || control.cancel(), make);
        if let Some(signal) = signal {
            return Err(signal);
        }
        let server = server.map_err(serve_error)?;
        let (handles, addresses) = (server.handles(), server.addresses().to_vec());
        Ok(PyServer { server: Mutex::new(Some(server)), handles, addresses })
    }

    /// Serve until stopped; the figures of each drive.
    fn run(&self, py: Python<'_>) -> PyResult<Vec<ServeReport>> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let server = server.ok_or_else(|| user_error("it has run\nhint: make a new server"))?;
        let (reports, _) = interruptible(py, || self.stop(), || server.run());
        Ok(reports.map_err(serve_error)?.into_iter().map(ServeReport).collect())
    }

    /// Complete what is under way, then end.
    fn stop(&self) {
        self.handles.iter().for_each(Handle::stop);
    }

    /// Figures so far of each drive that runs.
    fn status(&self, py: Python<'_>) -> Vec<ServeReport> {
        let ask = |handle: &Handle| handle.ask(Engine::report).map(ServeReport);
        py.detach(|| self.handles.iter().filter_map(ask).collect())
    }
}
