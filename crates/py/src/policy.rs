//! Policy plug-ins at the border: a table of compiled functions becomes decisions of a drive.
//!
//! Its address is what a library or `ctypes` gives. That code is there, and stays, is what the
//! caller vouches for.
#![allow(unsafe_code)]

use std::sync::Arc;

use drivebay_drive::{Decides, Decisions, PolicyPlugin, VICTIM_POLICIES};
use drivebay_plugin::{Loaded, Table};
use pyo3::prelude::*;

use crate::errors::user_error;

/// Compiled code that takes decisions of a virtual drive.
#[pyclass(module = "drivebay._core", frozen, name = "Policy")]
pub(crate) struct PyPolicy(Arc<Loaded>);

impl PyPolicy {
    pub(crate) fn plugin(&self) -> Arc<dyn PolicyPlugin> {
        Arc::clone(&self.0) as Arc<dyn PolicyPlugin>
    }
}

#[pymethods]
impl PyPolicy {
    /// The plug-in `name`, "name@digest", whose table is at this address; raises `UserError` if it
    /// is of another version. The table and the code of its functions must stay.
    #[staticmethod]
    fn from_table(name: String, address: usize) -> PyResult<PyPolicy> {
        // SAFETY: the address is that of a table in a library or of `from_functions`, which Python
        // keeps for good.
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
    /// What a policy plug-in was asked; None where it leaves the decision to the drive.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Decisions")]
    PyDecisions((decides, n): (Decides, Decisions)) {
    }
    /// Victims, and of these those where every candidate held as many valid pages.
    victims: Option<(u64, u64)> = decides.victim.then_some((n.victims, n.victims_alike)),
    /// Writes that needed a frontier, and of these those to the host's second one.
    writes: Option<(u64, u64)> = decides.frontier.then_some((n.writes, n.writes_second)),
    /// Commands whose pace was asked for, and of these those where it was changed.
    paces: Option<(u64, u64)> = decides.pace.then_some((n.paces, n.paces_changed)),
    /// Times that it was asked what wear levelling is to move, and of these those where it named a
    /// superblock.
    levelings: Option<(u64, u64)> = decides.wear.then_some((n.levelings, n.levelings_moved)),
    /// Superblocks to be opened, and of these those where the drive would have opened another.
    opens: Option<(u64, u64)> = decides.open.then_some((n.opens, n.opens_changed)),
    /// Reads that met a program or an erase on their die, and of these those that it had wait.
    die_reads: Option<(u64, u64)> = decides.die_read.then_some((n.die_reads, n.die_reads_delayed)),
    /// Reads with retries, and of these those whose superblock it had moved.
    retried: Option<(u64, u64)> = decides.retried.then_some((n.retried, n.retried_moved)),
}
