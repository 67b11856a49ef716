//! Python bindings of arrays: several virtual drives combined into one.

use std::sync::{Mutex, PoisonError};

use drivebay_drive::Device;
use drivebay_run::{Array, Control, Keep, Kept, Layout, Level, WHOLE};
use pyo3::prelude::*;

use crate::drive::{PyControl, VirtualDrive, run_until_stopped};
use crate::errors::{refused, run_error, user_error};
use crate::run::RunResult;
use crate::workload::PyWorkload;

/// Virtual drives that a host sees as one drive, like a Linux md array. The drives remain
/// accessible to the caller.
#[pyclass(module = "drivebay._core", frozen)]
pub(crate) struct VirtualArray {
    layout: Layout,
    members: Vec<Py<VirtualDrive>>,
    /// End of each member's valid data in sectors; `None` for a failed one.
    standing: Mutex<Vec<Option<u64>>>,
}

impl VirtualArray {
    fn standing(&self) -> Vec<Option<u64>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` on the array. The drives are taken out of their objects in the meantime, and put
    /// back in any case.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        control: Option<&PyControl>,
        rebuild_rate: Option<f64>,
        work: impl FnOnce(&mut Array, &Control) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let taken: Vec<_> = self.members.iter().map(|member| member.get().take()).collect();
        if taken.iter().any(Option::is_none) {
            self.put_back(taken);
            let why = "a drive of the array is missing, or is in it twice";
            return Err(refused(why, "make a new one for each member"));
        }
        let devices = taken.into_iter().flatten().collect();
        let array = Array::new(self.layout, devices, self.standing(), rebuild_rate);
        let mut array = array.map_err(user_error)?;
        let result = run_until_stopped(py, control, |control| work(&mut array, control));
        let (devices, standing) = array.into_parts();
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
        let answers = devices.iter().try_for_each(Device::check_plugin).map_err(user_error);
        self.put_back(devices.into_iter().map(Some));
        answers.and(result)
    }

    fn put_back(&self, devices: impl IntoIterator<Item = Option<Device>>) {
        for (member, device) in self.members.iter().zip(devices) {
            device.into_iter().for_each(|device| member.get().put(device));
        }
    }
}

#[pymethods]
impl VirtualArray {
    /// Creates an array of `members`. `good_bytes` gives the end of each member's valid data: None
    /// for a failed member, -1 for a complete one. Raises `UserError` for an impossible array.
    #[new]
    fn new(
        members: Vec<Py<VirtualDrive>>,
        level: &str,
        chunk_bytes: u64,
        good_bytes: Vec<Option<i64>>,
    ) -> PyResult<VirtualArray> {
        let level = Level::from_name(level)
            .ok_or_else(|| refused(format!("unknown level {level:?}"), "0, 1, 10, 5 or 6"))?;
        let layout = Layout { level, members: members.len(), chunk: chunk_bytes / 512 };
        for member in &members {
            if !member.get().zones()?.is_empty() {
                let why = "zones must be written sequentially, which an array does not do";
                return Err(refused(why, "use drives without zones"));
            }
        }
        let sectors = |bytes: i64| u64::try_from(bytes / 512).ok().filter(|_| bytes >= 0);
        let good = |bytes: Option<i64>| bytes.map(|bytes| sectors(bytes).unwrap_or(WHOLE));
        let standing: Vec<_> = good_bytes.into_iter().map(good).collect();
        layout.check(&standing).map_err(user_error)?;
        Ok(VirtualArray { layout, members, standing: Mutex::new(standing) })
    }

    /// Runs jobs like `VirtualDrive.run_jobs`. Incomplete members are rebuilt in parallel, at
    /// `rebuild_rate` bytes per second at most.
    #[pyo3(signature = (jobs, control = None, rebuild_rate = None))]
    fn run_jobs(
        &self,
        py: Python<'_>,
        jobs: Vec<(PyRef<'_, PyWorkload>, u64)>,
        control: Option<&PyControl>,
        rebuild_rate: Option<f64>,
    ) -> PyResult<Vec<Py<RunResult>>> {
        let jobs: Vec<_> = jobs.iter().map(|(job, seed)| (job.0.clone(), *seed)).collect();
        let outcomes = self.with(py, control, rebuild_rate, |array, control| {
            drivebay_run::run_array(array, &jobs, control).map_err(run_error)
        })?;
        let nothing = || (Keep::default(), Kept::default());
        outcomes
            .iter()
            .map(|outcome| Py::new(py, RunResult::new(py, outcome, nothing())?))
            .collect()
    }

    /// Rebuilds incomplete members, without host requests; returns the elapsed seconds.
    #[pyo3(signature = (control = None, rebuild_rate = None))]
    fn rebuild(
        &self,
        py: Python<'_>,
        control: Option<&PyControl>,
        rebuild_rate: Option<f64>,
    ) -> PyResult<f64> {
        let took = self.with(py, control, rebuild_rate, |array, control| {
            array.rebuild(control).map_err(run_error)
        })?;
        Ok(took.as_secs_f64())
    }

    /// Returns the end of each member's valid data in bytes: None for a failed member, -1 for a
    /// complete one.
    fn good_bytes(&self) -> Vec<Option<i64>> {
        let bytes = |sectors| if sectors == WHOLE { -1 } else { (sectors * 512) as i64 };
        self.standing().into_iter().map(|good| good.map(bytes)).collect()
    }

    /// Returns the capacity for the host in bytes.
    fn capacity_bytes(&self) -> PyResult<u64> {
        let each: PyResult<Vec<_>> =
            self.members.iter().map(|member| member.get().capacity_bytes()).collect();
        Ok(self.layout.sectors(each?.into_iter().min().unwrap_or(0) / 512) * 512)
    }

    /// Returns the bytes of host data per stripe.
    fn stripe_bytes(&self) -> u64 {
        self.layout.stripe() * 512
    }
}
