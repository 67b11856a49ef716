//! Python bindings: `run(profile, workload, seed) -> columns`. Conversion only, never a call per
//! I/O.
//!
//! All interfaces are typed: workloads and options are classes with checked keywords, results are
//! classes of numpy columns. The one exception is the drive profile, a document (docs/adr). The
//! interpreter lock is released while a drive runs. `_core.pyi` is generated from this crate: `make
//! stub`.

#[macro_use]
mod class;
mod array;
mod columns;
mod crash;
mod document;
mod drive;
mod errors;
mod inside;
mod policy;
mod replay;
mod run;
mod serve;
mod threads;
mod trace;
mod workload;

/// The Rust core. Private: use `drivebay` and `drivebay.definitions`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::array::VirtualArray;
    #[pymodule_export]
    use crate::columns::PyHistogram;
    #[pymodule_export]
    use crate::crash::{PyCrashStates, PyCrashView};
    #[pymodule_export]
    use crate::drive::{
        PyControl, PyHandleUse, PyHealth, PyMark, PyProfile, PyProgress, PyZone, VirtualDrive,
    };
    #[pymodule_export]
    use crate::inside::Inside;
    #[pymodule_export]
    use crate::policy::{PyDecisions, PyPolicy, victim_policies};
    #[pymodule_export]
    use crate::replay::{
        OpLatency, PyReplayControl, PyReplayOptions, RealReplayResult, ReplayProgress, Survey,
        replay_real, replay_survey,
    };
    #[pymodule_export]
    use crate::run::{PyCounters, ReplayResult, RunResult, Samples, TrimCheckResult};
    #[pymodule_export]
    use crate::serve::PyServer;
    #[pymodule_export]
    use crate::trace::{
        PySource, TraceBatches, TraceColumns, TraceInfo, TraceSummary, synth_names, synth_profile,
        trace_formats,
    };
    #[pymodule_export]
    use crate::workload::{PyWorkload, workload_fields};
    /// Most outstanding requests over all queues.
    #[pymodule_export]
    const QUEUE_DEPTH_MAX: usize = drivebay_run::DEPTH_MAX;
}
