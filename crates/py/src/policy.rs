//! Policy plug-ins at the border: addresses of compiled functions become decisions of a drive.
//!
//! An address is what `ctypes` and numba give. That code is there, and stays, is what the caller vouches for.
#![allow(unsafe_code)]

use std::sync::Arc;

use drivebay_drive::{Decides, Decisions, PolicyPlugin};
use drivebay_plugin::{Functions, Loaded, Table};
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
    /// The plug-in `name`, "name@digest", whose table is at this address; raises `UserError` if it is of another
    /// version. The library must stay loaded.
    #[staticmethod]
    fn from_table(name: String, address: usize) -> PyResult<PyPolicy> {
        // SAFETY: the address is what the library's drivebay_policy() returned; Python never unloads it.
        let loaded = unsafe { Loaded::from_table(name, address as *const Table) };
        loaded.map(|loaded| PyPolicy(Arc::new(loaded))).map_err(user_error)
    }

    /// The plug-in `name`, "name@digest", of the functions at these addresses; 0 for none.
    #[staticmethod]
    #[pyo3(signature = (
        name, *, state_bytes = 0, start = 0, choose_victim = 0, place_write = 0, set_pace = 0, level_wear = 0,
        open_superblock = 0, schedule_read = 0, read_retried = 0
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn from_functions(
        name: String,
        state_bytes: usize,
        start: usize,
        choose_victim: usize,
        place_write: usize,
        set_pace: usize,
        level_wear: usize,
        open_superblock: usize,
        schedule_read: usize,
        read_retried: usize,
    ) -> PyResult<PyPolicy> {
        // SAFETY: an address is 0, which is no function, or that of a C function with this signature, which the
        // caller keeps.
        let loaded = unsafe {
            let functions = Functions {
                state_bytes: std::mem::transmute::<usize, Option<_>>(state_bytes),
                start: std::mem::transmute::<usize, Option<_>>(start),
                choose_victim: std::mem::transmute::<usize, Option<_>>(choose_victim),
                place_write: std::mem::transmute::<usize, Option<_>>(place_write),
                set_pace: std::mem::transmute::<usize, Option<_>>(set_pace),
                level_wear: std::mem::transmute::<usize, Option<_>>(level_wear),
                open_superblock: std::mem::transmute::<usize, Option<_>>(open_superblock),
                schedule_read: std::mem::transmute::<usize, Option<_>>(schedule_read),
                read_retried: std::mem::transmute::<usize, Option<_>>(read_retried),
            };
            Loaded::from_functions(name, functions)
        };
        loaded.map(|loaded| PyPolicy(Arc::new(loaded))).map_err(user_error)
    }
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
    /// Times that it was asked what wear levelling is to move, and of these those where it named a superblock.
    levelings: Option<(u64, u64)> = decides.wear.then_some((n.levelings, n.levelings_moved)),
    /// Superblocks to be opened, and of these those where the drive would have opened another.
    opens: Option<(u64, u64)> = decides.open.then_some((n.opens, n.opens_changed)),
    /// Reads that met a program or an erase on their die, and of these those that it had wait.
    die_reads: Option<(u64, u64)> = decides.die_read.then_some((n.die_reads, n.die_reads_delayed)),
    /// Reads with retries, and of these those whose superblock it had moved.
    retried: Option<(u64, u64)> = decides.retried.then_some((n.retried, n.retried_moved)),
}
