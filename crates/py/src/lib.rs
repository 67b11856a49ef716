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
    use crate::{
        array::VirtualArray,
        columns::PyHistogram,
        crash::{PyCrashStates, PyCrashView},
        drive::{
            PyControl, PyFlashMap, PyHandleUse, PyHealth, PyMark, PyOperations, PyProfile,
            PyProgress, PyZone, VirtualDrive,
        },
        inside::Inside,
        policy::{PyDecisions, PyPolicy, victim_policies},
        replay::{
            OpLatency, PyReplayControl, PyReplayOptions, RealReplayResult, ReplayProgress, Survey,
            replay_real, replay_survey,
        },
        run::{PyCounters, ReplayResult, RunResult, Samples, TrimCheckResult},
        serve::PyServer,
        trace::{
            PySource, TraceBatches, TraceColumns, TraceInfo, TraceSummary, synth_names,
            synth_profile, trace_formats,
        },
        workload::{PyWorkload, workload_fields},
    };
    /// Most outstanding requests over all queues.
    #[pymodule_export]
    const QUEUE_DEPTH_MAX: usize = drivebay_run::DEPTH_MAX;
}
