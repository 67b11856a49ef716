//! Python bindings of crash states: names, files and documents. Conversion only.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use drivebay_crash::{CrashError, Recording, Rules, State, States, View};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::drive::PyProfile;
use crate::errors::{machine_error, user_error};

fn crash_error(error: CrashError) -> PyErr {
    match error {
        CrashError::File { .. } => machine_error(error),
        _ => user_error(error),
    }
}

fn state(name: &str) -> PyResult<State> {
    name.parse().map_err(crash_error)
}

/// Content of a recording.
#[derive(Serialize)]
struct Info<'a> {
    drive: &'a str,
    capacity_bytes: u64,
    is_truncated: bool,
    writes: usize,
    flushes: usize,
    fua: usize,
    written_bytes: u64,
    distinct_bytes: u64,
    marks: Vec<&'a str>,
    rules: &'a Rules,
}

/// A recording, and the states that a power cut could leave.
///
/// `recording`: path of the recording. `drive`: profile whose rules apply; None for the rules of
/// the recorded drive. `changes`: changed fields of the rules, with the names in `info`. `after`:
/// cuts begin at the first mark with this text.
#[pyclass(module = "drivebay._core", frozen, name = "CrashStates")]
pub(crate) struct PyCrashStates(States);

#[pymethods]
impl PyCrashStates {
    #[new]
    #[pyo3(signature = (recording, drive, changes: "dict[str, object]", after))]
    fn new(
        py: Python<'_>,
        recording: PathBuf,
        drive: Option<PyRef<'_, PyProfile>>,
        changes: &Bound<'_, PyDict>,
        after: Option<String>,
    ) -> PyResult<PyCrashStates> {
        let recording = py.detach(|| Recording::open(&recording)).map_err(crash_error)?;
        let mut rules = drive.map(|drive| Rules::from_spec(&drive.spec)).or(recording.header.rules);
        if !changes.is_empty() {
            let document = match &rules {
                Some(known) => pythonize::pythonize(py, known)?.cast_into::<PyDict>()?,
                None => PyDict::new(py),
            };
            document.update(changes.as_mapping())?;
            let read = pythonize::depythonize(&document);
            rules = Some(read.map_err(|why| user_error(format!("{why}\nhint: --drive DRIVE")))?);
        }
        let states = py.detach(|| States::new(recording, rules, after.as_deref()));
        Ok(PyCrashStates(states.map_err(crash_error)?))
    }

    /// Returns a description of the recording: drive, capacity_bytes, is_truncated, writes, flushes
    /// (including FUA), fua, written_bytes, distinct_bytes, marks, rules.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let recording = self.0.recording();
        let (writes, flushes, fua) = recording.counts();
        let (written_bytes, distinct_bytes) = recording.bytes();
        let info = Info {
            drive: &recording.header.drive,
            capacity_bytes: recording.header.sectors * 512,
            is_truncated: recording.is_truncated,
            writes,
            flushes,
            fua,
            written_bytes,
            distinct_bytes,
            marks: recording.marks(),
            rules: self.0.rules(),
        };
        Ok(pythonize::pythonize(py, &info)?)
    }

    /// Returns the names of distinct states, at most `most`, and their coverage: cuts,
    /// cuts_visited, cuts_exhausted, choices_log2, states, volatile_max, damaged.
    fn enumerate<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        seed: u64,
    ) -> PyResult<(Vec<String>, Bound<'py, PyAny>)> {
        let enumerated = py.detach(|| self.0.enumerate(most, seed)).map_err(crash_error)?;
        let names = enumerated.0.iter().map(State::to_string).collect();
        Ok((names, pythonize::pythonize(py, &enumerated.1)?))
    }

    /// Returns the last state, in which nothing is lost; None if there is no command.
    fn last(&self) -> Option<String> {
        self.0.last().map(|state| state.to_string())
    }

    /// Returns the last mark before a state's cut.
    fn mark_of(&self, name: &str) -> PyResult<Option<String>> {
        Ok(self.0.mark_of(&state(name)?).map(str::to_owned))
    }

    /// Returns the lost units of a state, each with its command.
    fn lost_units(&self, name: &str) -> PyResult<Vec<(u32, u32)>> {
        self.0.lost_units(&state(name)?).map_err(crash_error)
    }

    /// Returns the state of the same cut in which these units are lost. Units hidden below present
    /// ones do not count as lost.
    fn with_lost(&self, name: &str, units: Vec<u32>) -> PyResult<String> {
        let state = self.0.with_lost(&state(name)?, units).map_err(crash_error)?;
        Ok(state.to_string())
    }

    /// Returns the explanation of a state: `Timeline` in crates/crash/src/timeline.rs.
    fn timeline<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let timeline = self.0.timeline(&state(name)?).map_err(crash_error)?;
        Ok(pythonize::pythonize(py, &timeline)?)
    }
}

/// A new file at `path` that shows one state at a time.
#[pyclass(module = "drivebay._core", frozen, name = "CrashView")]
pub(crate) struct PyCrashView(Mutex<View>);

#[pymethods]
impl PyCrashView {
    #[new]
    fn new(path: PathBuf) -> PyResult<PyCrashView> {
        Ok(PyCrashView(Mutex::new(View::create(&path).map_err(crash_error)?)))
    }

    /// Resets the file to an empty drive. Required before the next state if another program has
    /// written to the file.
    fn clear(&self, py: Python<'_>, states: &PyCrashStates) -> PyResult<()> {
        py.detach(|| self.locked().clear(&states.0)).map_err(crash_error)
    }

    /// Shows a state; returns the number of written 4 KiB pages.
    fn show(&self, py: Python<'_>, states: &PyCrashStates, name: &str) -> PyResult<usize> {
        let state = state(name)?;
        py.detach(|| self.locked().show(&states.0, &state)).map_err(crash_error)
    }
}

impl PyCrashView {
    fn locked(&self) -> std::sync::MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
