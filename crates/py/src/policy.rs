//! Python bindings of policy plug-ins: a table of compiled functions makes a drive's decisions.
//!
//! The table's address comes from a library or from `ctypes`. The caller guarantees that the code
//! exists and stays loaded.
#![allow(unsafe_code)]

use std::sync::Arc;

use drivebay_drive::{Decides, Decisions, PolicyPlugin, VICTIM_POLICIES};
use drivebay_plugin::{Loaded, Table};
use pyo3::prelude::*;

use crate::errors::user_error;

/// Compiled code that makes decisions for a virtual drive.
#[pyclass(module = "drivebay._core", frozen, name = "Policy")]
pub(crate) struct PyPolicy(Arc<Loaded>);

impl PyPolicy {
    pub(crate) fn plugin(&self) -> Arc<dyn PolicyPlugin> {
        Arc::clone(&self.0) as Arc<dyn PolicyPlugin>
    }
}

#[pymethods]
impl PyPolicy {
    /// Creates the plug-in `name`, in the form "name@digest", from the table at this address.
    /// Raises `UserError` if it has another version. The table and the code of its functions must
    /// stay loaded.
    #[staticmethod]
    fn from_table(name: String, address: usize) -> PyResult<PyPolicy> {
        // SAFETY: the address is that of a table in a library or in Python's memory, which the
        // caller keeps forever.
        let loaded = unsafe { Loaded::from_table(name, address as *const Table) };
        loaded.map(|loaded| PyPolicy(Arc::new(loaded))).map_err(user_error)
    }
}

/// The drive's own victim policies: name, description, and the key of `[gc]` that holds the
/// parameter, if there is one.
#[pyfunction]
pub(crate) fn victim_policies() -> Vec<(&'static str, &'static str, Option<&'static str>)> {
    VICTIM_POLICIES.iter().map(|policy| (policy.word, policy.about, policy.parameter)).collect()
}

class! {
    /// Number of decisions of a policy plug-in; None for decisions that it leaves to the drive.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Decisions")]
    PyDecisions((decides, n): (Decides, Decisions)) {}
    /// Victims; and those for which every candidate had the same number of valid pages.
    victims: Option<(u64, u64)> = decides.victim.then_some((n.victims, n.victims_alike)),
    /// Writes that needed a frontier; and those sent to the host's second one.
    writes: Option<(u64, u64)> = decides.frontier.then_some((n.writes, n.writes_second)),
    /// Commands whose pace was requested; and those for which it was changed.
    paces: Option<(u64, u64)> = decides.pace.then_some((n.paces, n.paces_changed)),
    /// Requests for a superblock to move for wear levelling; and those answered with a superblock.
    levelings: Option<(u64, u64)> = decides.wear.then_some((n.levelings, n.levelings_moved)),
    /// Superblocks to open; and those for which the drive would have chosen another.
    opens: Option<(u64, u64)> = decides.open.then_some((n.opens, n.opens_changed)),
    /// Reads that met a program or an erase on their die; and those that the plug-in delayed.
    die_reads: Option<(u64, u64)> = decides.die_read.then_some((n.die_reads, n.die_reads_delayed)),
    /// Reads with retries; and those whose superblock was moved.
    retried: Option<(u64, u64)> = decides.retried.then_some((n.retried, n.retried_moved)),
}
