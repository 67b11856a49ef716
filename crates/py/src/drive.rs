//! Python bindings of virtual drives: profiles, drives, control of runs, the health log.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use drivebay_drive::{Device, HandleUse, Health, Mark, Operation, Sanitize, Spec, Zone};
use drivebay_run::{Control, Keep, Kept, Progress, TrimPlan, snapshot};
use drivebay_units::{Nanos, SECTOR_BYTES};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::columns::Column;
use crate::errors::{refused, replay_error, run_error, trace_error, user_error};
use crate::policy::{PyDecisions, PyPolicy};
use crate::replay::PyReplayOptions;
use crate::run::{PyCounters, ReplayResult, RunResult, TrimCheckResult};
use crate::threads::interruptible;
use crate::trace::PySource;
use crate::workload::PyWorkload;

/// Largest value of a drive's clock that idle time may reach, in seconds; saved states have the
/// same limit.
const CLOCK_MAX_S: f64 = 1e9;
/// Most passes of a Sanitize with overwrite (NVMe: Overwrite Pass Count, four bits).
const OVERWRITES_MAX: u32 = 16;

/// A checked drive profile: one resolved document, see docs/adr.
#[pyclass(module = "drivebay._core", frozen, name = "Profile")]
pub(crate) struct PyProfile {
    document: Py<PyString>,
    policy: Option<Py<PyPolicy>>,
    pub(crate) spec: Spec,
}

#[pymethods]
impl PyProfile {
    /// `document` is the whole profile as JSON, `policy` the plug-in that it names. Raises
    /// `UserError` with the name of the wrong field.
    #[new]
    #[pyo3(signature = (document, policy = None))]
    fn new(document: Bound<'_, PyString>, policy: Option<Py<PyPolicy>>) -> PyResult<PyProfile> {
        let plugin = policy.as_ref().map(|policy| policy.get().plugin());
        let spec = Spec::with_plugin(document.to_str()?, plugin).map_err(user_error)?;
        Ok(PyProfile { document: document.unbind(), policy, spec })
    }

    #[expect(clippy::type_complexity, reason = "what pickle asks for")]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyType>, (Bound<'py, PyString>, Option<Py<PyPolicy>>)) {
        let policy = self.policy.as_ref().map(|policy| policy.clone_ref(py));
        (py.get_type::<PyProfile>(), (self.document.bind(py).clone(), policy))
    }

    /// User capacity in bytes.
    #[getter]
    fn capacity_bytes(&self) -> u64 {
        self.spec.capacity_bytes()
    }

    /// Memory for the maps of a drive with this profile, in bytes.
    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.spec.map_entries() * 4
    }

    /// Share of the blocks for data that may fail before a new drive with this profile is worn out.
    #[getter]
    fn spare_share(&self) -> f64 {
        self.spec.spare_share()
    }

    /// Raises `UserError` with the name of the field if a drive with this profile cannot run the
    /// workload.
    fn check(&self, workload: &PyWorkload) -> PyResult<()> {
        workload.0.check(&self.spec).map_err(user_error)
    }
}

class! {
    /// Progress of a run as of its last full second.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Progress")]
    PyProgress(now: Progress) {}
    /// Virtual time since the start.
    elapsed_s: f64 = now.elapsed_ns as f64 / 1e9,
    /// Temperature of the drive, degrees Celsius.
    temperature_c: f64 = now.temperature_c,
    /// I/Os in the last second.
    iops: u64 = now.ios_last_second,
    /// Bytes in the last second.
    bytes_per_s: u64 = now.bytes_last_second,
    /// Trace requests replayed so far; 0 in other runs.
    requests: u64 = now.requests,
}

/// Monitors and stops a run from another thread.
#[pyclass(module = "drivebay._core", frozen, name = "Control")]
#[derive(Default)]
pub(crate) struct PyControl(Arc<Control>);

#[pymethods]
impl PyControl {
    #[new]
    fn new() -> PyControl {
        PyControl::default()
    }

    /// Stops the run at its next virtual second; the run raises `Cancelled`.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns the progress of the run.
    fn progress(&self) -> PyResult<PyProgress> {
        PyProgress::new(self.0.progress())
    }
}

/// A virtual drive in memory. Its methods release the interpreter lock while they run, and Ctrl-C
/// stops them.
#[pyclass(module = "drivebay._core", frozen)]
pub(crate) struct VirtualDrive(Mutex<Option<Device>>);

impl VirtualDrive {
    fn with<T>(&self, work: impl FnOnce(&mut Device) -> PyResult<T>) -> PyResult<T> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_mut().ok_or_else(|| refused("the drive is gone", "make a new one"))?)
    }

    /// As `with`, without the interpreter lock.
    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Device) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.with(work))
    }

    pub(crate) fn take(&self) -> Option<Device> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put(&self, device: Device) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
    }

    /// Runs `work` on the drive until it ends, or until Ctrl-C or `control` cancels it.
    fn run_with<T: Send>(
        &self,
        py: Python<'_>,
        control: Option<&PyControl>,
        work: impl FnOnce(&mut Device, &Control) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        run_until_stopped(py, control, |control| {
            self.with(|device| {
                let result = work(device, control)?;
                device.check_plugin().map_err(user_error)?;
                Ok(result)
            })
        })
    }
}

/// Runs `work` until it ends, or until Ctrl-C or `control` cancels it.
pub(crate) fn run_until_stopped<T: Send>(
    py: Python<'_>,
    control: Option<&PyControl>,
    work: impl FnOnce(&Control) -> PyResult<T> + Send,
) -> PyResult<T> {
    let control = control.map_or_else(Arc::default, |given| Arc::clone(&given.0));
    let (result, signal) = interruptible(py, || control.cancel(), || work(&control));
    signal.map_or(result, Err)
}

#[pymethods]
impl VirtualDrive {
    #[new]
    fn new(py: Python<'_>, profile: &PyProfile, seed: u64) -> PyResult<VirtualDrive> {
        let spec = profile.spec.clone();
        let device = py.detach(|| Device::new(spec, seed)).map_err(user_error)?;
        Ok(VirtualDrive(Mutex::new(Some(device))))
    }

    /// Turns this object into a new drive with the given profile; reuses the old drive's memory
    /// where it fits.
    fn reset(&self, py: Python<'_>, profile: &PyProfile, seed: u64) -> PyResult<()> {
        let spec = profile.spec.clone();
        py.detach(|| {
            let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = match guard.take() {
                Some(device) => device.reset(spec, seed),
                None => Device::new(spec, seed),
            };
            *guard = Some(fresh.map_err(user_error)?);
            Ok(())
        })
    }

    /// Runs a workload, from the drive's present state and time on. Keeps every `sample_every`-th
    /// I/O. If `events` is above 0, also keeps up to `events` events inside the drive, and its
    /// activity.
    #[pyo3(signature = (workload, seed, control = None, sample_every = 0, events = 0))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn run(
        &self,
        py: Python<'_>,
        workload: &PyWorkload,
        seed: u64,
        control: Option<&PyControl>,
        sample_every: u64,
        events: usize,
    ) -> PyResult<Py<RunResult>> {
        let workload = &workload.0;
        let keep = Keep { sample_every, events };
        let (outcome, kept) = self.run_with(py, control, |device, control| {
            drivebay_run::run_keeping(device, workload, seed, control, keep).map_err(run_error)
        })?;
        Py::new(py, RunResult::new(py, &outcome, (keep, kept))?)
    }

    /// Runs several workloads at once, each with its seed; returns their results in the same order.
    /// `events` is as in `run`; the events of all workloads together are in the first result.
    #[pyo3(signature = (jobs, control = None, events = 0))]
    fn run_jobs(
        &self,
        py: Python<'_>,
        jobs: Vec<(PyRef<'_, PyWorkload>, u64)>,
        control: Option<&PyControl>,
        events: usize,
    ) -> PyResult<Vec<Py<RunResult>>> {
        let jobs: Vec<_> = jobs.iter().map(|(job, seed)| (job.0.clone(), *seed)).collect();
        let (outcomes, mut inside) = self.run_with(py, control, |device, control| {
            drivebay_run::run_jobs(device, &jobs, control, events).map_err(run_error)
        })?;
        let mut result = |outcome| {
            let kept = Kept { inside: inside.take(), ..Kept::default() };
            Py::new(py, RunResult::new(py, outcome, (Keep::default(), kept))?)
        };
        outcomes.iter().map(&mut result).collect()
    }

    /// Replays a trace, from the drive's present state and time on; `events` is as in `run`.
    #[pyo3(signature = (source, options, control = None, events = 0))]
    fn replay(
        &self,
        py: Python<'_>,
        source: &PySource,
        options: &PyReplayOptions,
        control: Option<&PyControl>,
        events: usize,
    ) -> PyResult<ReplayResult> {
        let source = &source.0;
        let mut virtual_options = options.for_virtual(events);
        let replayed = self.run_with(py, control, |device, control| {
            virtual_options.recorded_bytes = source
                .recorded_bytes(virtual_options.rule, &mut || !control.cancelled())
                .map_err(trace_error)?;
            let mut requests = source.open().map_err(trace_error)?;
            drivebay_run::replay(device, &mut *requests, &virtual_options, control)
                .map_err(replay_error)
        })?;
        ReplayResult::new(py, replayed)
    }

    /// Writes a pattern to the extents that begin at `starts`, or with `discard` discards their
    /// middle halves; then reads the middle halves `reads` times, 4 KiB at queue depth 1.
    #[pyo3(signature = (starts, *, extent_bytes, reads, discard, control = None))]
    fn trim_check(
        &self,
        py: Python<'_>,
        starts: Vec<u64>,
        extent_bytes: u64,
        reads: u32,
        discard: bool,
        control: Option<&PyControl>,
    ) -> PyResult<TrimCheckResult> {
        let plan = TrimPlan { starts, extent_bytes, reads, discard };
        let checked = self.run_with(py, control, |device, control| {
            drivebay_run::trim_check(device, &plan, control).map_err(run_error)
        })?;
        TrimCheckResult::new(py, &checked)
    }

    /// Cuts the power now and turns it on again. Returns the number of 4 KiB pages whose newest
    /// data is lost, and the seconds until the drive responds again.
    fn power_cut(&self, py: Python<'_>) -> PyResult<(u64, f64)> {
        self.detached(py, |device| {
            let at = device.now();
            let recovery = device.power_cut(at);
            Ok((recovery.lost_pages, recovery.ready.since(at).as_secs_f64()))
        })
    }

    /// Makes a die fail now.
    fn fail_die(&self, py: Python<'_>, die: u32) -> PyResult<()> {
        self.detached(py, |device| {
            if device.fail_die(die) {
                return Ok(());
            }
            let dies = device.spec().geometry.dies();
            let which = "dies of flash that has not failed, on a drive without zones";
            Err(refused(format!("fail_die: must be one of the {dies} {which}"), "fail_die(0)"))
        })
    }

    /// Returns the failed dies in order, and whether their data is still being rebuilt.
    fn failed_dies(&self) -> PyResult<(Vec<u32>, bool)> {
        self.with(|device| Ok(device.failed_dies()))
    }

    /// Leaves the drive idle for some seconds of its time.
    fn rest(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        self.detached(py, |device| {
            let left = CLOCK_MAX_S - device.now().as_secs_f64();
            if !(0.0..=left).contains(&seconds) {
                let why = "a drive's clock holds 1e9 seconds (31 years)";
                let what = format!("rest: must be 0 to {left:.0} seconds: {why}");
                return Err(refused(what, "rest(1800)"));
            }
            device.idle_until(device.now().after(Nanos((seconds * 1e9) as u64)));
            Ok(())
        })
    }

    /// Discards (TRIM, Deallocate) an extent.
    fn discard(&self, py: Python<'_>, start_bytes: u64, length_bytes: u64) -> PyResult<()> {
        self.detached(py, |device| {
            drivebay_run::discard(device, start_bytes, length_bytes).map_err(run_error)
        })
    }

    /// Purges the drive in no time, as between tests: all data is gone, all flash erased; wear
    /// remains.
    fn secure_erase(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, |device| {
            device.secure_erase();
            Ok(())
        })
    }

    /// Sanitizes the drive with a command: "block" or "crypto" erase, or `passes` passes of
    /// "overwrite". Returns its duration in seconds.
    #[pyo3(signature = (method, passes = 1))]
    fn sanitize(&self, py: Python<'_>, method: &str, passes: u32) -> PyResult<f64> {
        let how = match method {
            "block" => Sanitize::Block,
            "crypto" => Sanitize::Crypto,
            "overwrite" => Sanitize::Overwrite(passes),
            other => {
                let allowed = "must be block, crypto or overwrite";
                let what = format!("sanitize: unknown method {other:?}; {allowed}");
                return Err(refused(what, "sanitize(\"block\")"));
            }
        };
        if !(1..=OVERWRITES_MAX).contains(&passes) {
            let allowed = format!("must be 1 to {OVERWRITES_MAX}");
            let what = format!("sanitize: passes={passes} is not allowed; {allowed}");
            return Err(refused(what, "passes=1"));
        }
        self.detached(py, |device| {
            if method == "overwrite" && !device.spec().sanitize_overwrite {
                let why = "sanitize: this drive's Sanitize does not overwrite";
                return Err(refused(why, "block or crypto; or a drive with sanitize_overwrite"));
            }
            let begin = device.now();
            Ok(device.sanitize(begin, how).since(begin).as_secs_f64())
        })
    }

    /// Returns another drive in the same state; both continue identically, bit for bit.
    fn copy(&self, py: Python<'_>) -> PyResult<VirtualDrive> {
        let copy = self.detached(py, |device| device.duplicate().map_err(user_error))?;
        Ok(VirtualDrive(Mutex::new(Some(copy))))
    }

    /// Turns this drive into a copy of another; reuses its memory where it fits.
    fn copy_from(slf: &Bound<'_, Self>, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        if slf.is(other) {
            return Ok(());
        }
        let (this, other) = (slf.get(), other.get());
        py.detach(|| {
            // Never holds both locks: two drives may be copied into each other at the same time.
            let memory = this.take();
            let copy = other.with(|device| {
                let copy = match memory {
                    Some(memory) => device.duplicate_into(memory),
                    None => device.duplicate(),
                };
                copy.map_err(user_error)
            })?;
            this.put(copy);
            Ok(())
        })
    }

    /// Returns a mark of the drive's present state, for `live`.
    fn mark(&self) -> PyResult<PyMark> {
        self.with(|device| Ok(PyMark(device.mark())))
    }

    /// Repeats the activity since the mark `since` `times` times, over `seconds` seconds, without
    /// simulating it. `began` is a mark of the beginning of the load.
    fn live(
        &self,
        py: Python<'_>,
        began: &PyMark,
        since: &PyMark,
        times: f64,
        seconds: f64,
    ) -> PyResult<()> {
        if !((0.0..=1e9).contains(&times) && (0.0..=CLOCK_MAX_S).contains(&seconds)) {
            let why = "live: times and seconds must be 0 to 1e9";
            return Err(refused(why, "live(began, mark, 100, 86400)"));
        }
        let elapsed = Nanos((seconds * 1e9) as u64);
        self.detached(py, |device| {
            device.live(&began.0, &since.0, times, elapsed);
            Ok(())
        })
    }

    /// Writes the drive's whole state to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.detached(py, |device| snapshot::save(device, &path).map_err(user_error))
    }

    /// Turns this object into a drive with the given profile in a saved state; reuses its memory
    /// where it fits. After an error there is no drive until `reset`.
    fn restore(&self, py: Python<'_>, profile: &PyProfile, path: PathBuf) -> PyResult<()> {
        let spec = profile.spec.clone();
        py.detach(|| {
            self.put(snapshot::restore(spec, self.take(), &path).map_err(user_error)?);
            Ok(())
        })
    }

    /// Returns the counters since the drive was made.
    fn counters(&self) -> PyResult<PyCounters> {
        self.with(|device| PyCounters::new(&device.counters()))
    }

    /// Returns the number of decisions of the policy plug-in since the drive was made; None without
    /// a plug-in.
    fn decisions(&self) -> PyResult<Option<PyDecisions>> {
        self.with(|device| device.decisions().map(PyDecisions::new).transpose())
    }

    /// Returns the use of each placement handle since the drive was made, by reclaim group,
    /// followed by the frontier of copies of each group if handles are initially isolated. Empty
    /// without placement.
    fn placement(&self) -> PyResult<Vec<PyHandleUse>> {
        self.with(|device| {
            let used = if device.zones().is_empty() { device.placement() } else { Vec::new() };
            used.into_iter().map(PyHandleUse::new).collect()
        })
    }

    /// Returns the zones in address order; empty for a drive without zones.
    pub(crate) fn zones(&self) -> PyResult<Vec<PyZone>> {
        self.with(|device| device.zones().iter().map(PyZone::new).collect())
    }

    /// Returns the map.
    fn map(&self, py: Python<'_>) -> PyResult<PyFlashMap> {
        self.with(|device| match device.spec().in_place {
            Some(_) => Err(no_map()),
            None => PyFlashMap::new(py, device),
        })
    }

    /// Returns the operations of the translation layer since the last call, none at the first one.
    /// `keep`: log them from now on, else no longer.
    fn operations(&self, py: Python<'_>, keep: bool) -> PyResult<PyOperations> {
        let taken = self.with(|device| device.take_operations(keep).ok_or_else(no_map))?;
        PyOperations::new(py, &taken)
    }

    /// Returns the health log at this time.
    fn health(&self) -> PyResult<PyHealth> {
        self.with(|device| PyHealth::new(device.health()))
    }

    /// User capacity in bytes.
    #[getter]
    pub(crate) fn capacity_bytes(&self) -> PyResult<u64> {
        self.with(|device| Ok(device.spec().capacity_bytes()))
    }
}

/// A mark of a drive's state, for `VirtualDrive.live`.
#[pyclass(module = "drivebay._core", frozen, name = "Mark")]
pub(crate) struct PyMark(Mark);

fn no_map() -> PyErr {
    refused("the drive's media is written in place: it has no map", "use a drive of flash")
}

class! {
    /// Map of a drive. An address is a number of a mapping unit of flash: superblock times
    /// `superblock_units`, plus its number in the superblock.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "FlashMap")]
    PyFlashMap(py: Python<'_>, device: &Device) {
        let g = device.spec().geometry;
        let pages = 0..g.superblock_pages >> g.page_shift;
    }
    /// Address of each mapping unit of the drive, in their order; 4294967295 if it is not mapped.
    addresses: Column<u32> = Column::new(py, device.ftl().addresses()),
    /// Bytes of a mapping unit.
    unit_bytes: u64 = g.unit_bytes(),
    /// Mapping units of a superblock.
    superblock_units: u32 = g.superblock_pages,
    /// Die of each flash page of a superblock (of the first one, with reclaim groups). The mapping
    /// units of a flash page are consecutive.
    dies: Column<u32> = Column::new(py, pages.clone().map(|page| g.die_of(page))),
    /// Plane in its die of each flash page of a superblock.
    planes: Column<u32> = Column::new(py, pages.map(|page| g.plane_of(page))),
}

class! {
    /// Operations of the flash translation layer in their order; every array has shape
    /// (operations,). Pages and addresses are numbers of mapping units as in `FlashMap`.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Operations")]
    PyOperations(py: Python<'_>, all: &[Operation]) {
        let column = |i: usize| Column::new(py, all.iter().map(|operation| operation[i]));
    }
    /// 0: the host writes `count` pages to addresses from `address` on. 1: a valid page is copied
    /// to `address`. 2: `count` addresses get padding or parity, or nothing on a failed die. 3:
    /// `count` pages are trimmed. 4: after a power cut a page is at its older `address` again, or
    /// at none (4294967295). 5: a superblock with `count` addresses is erased. 6: all pages are
    /// unmapped.
    kind: Column<u32> = column(0),
    /// First page; 0 for kinds without one.
    page: Column<u32> = column(1),
    /// First address; 0 for kinds without one.
    address: Column<u32> = column(2),
    /// Number of pages or addresses.
    count: Column<u32> = column(3),
}

class! {
    /// Use of a placement handle or of the frontier of copies, in pages of 4 KiB.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "HandleUse")]
    #[derive(PartialEq)]
    PyHandleUse(used: HandleUse) {}
    /// Reclaim group, from 0.
    reclaim_group: u8 = used.group,
    /// Placement handle, from 0; None for the frontier of copies.
    handle: Option<u8> = used.handle,
    /// Pages written by the host; for the frontier of copies: pages copied from the handles for the
    /// first time.
    written_4k: u64 = used.written_4k,
    /// Pages copied out of its reclaim units by garbage collection.
    copied_4k: u64 = used.copied_4k,
    /// Pages that can still be written to its present reclaim unit.
    unit_left_4k: u64 = used.unit_left_4k,
    /// Pages written and copied per page written; None before the first.
    waf: Option<f64> = (used.written_4k > 0)
        .then(|| (used.written_4k + used.copied_4k) as f64 / used.written_4k as f64),
}

class! {
    /// A zone of a zoned drive.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Zone")]
    #[derive(PartialEq)]
    PyZone(zone: &Zone) {}
    /// "empty", "implicitly open", "explicitly open", "closed" or "full".
    state: &'static str = zone.state.name(),
    /// Bytes that the host has written to it: its write pointer, except for a finished zone.
    written_bytes: u64 = zone.written * SECTOR_BYTES,
}

class! {
    /// A drive's health log; fields named as in NVMe's SMART page have its meaning.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Health")]
    #[derive(PartialEq)]
    PyHealth(h: Health) {
        let seconds = |len: Nanos| len.0 as f64 / 1e9;
    }
    /// Temperature as the sensor reads it, whole degrees Celsius.
    temperature_c: f64 = h.temperature_c,
    /// Name and exact temperature of each heat node.
    node_temperatures_c: Vec<(&'static str, f64)> = h.node_temperatures_c,
    /// Remaining spare flash, per cent.
    available_spare_percent: u8 = h.available_spare_percent,
    /// Wear relative to the rated cycles, per cent; None without a rating.
    percentage_used: Option<u8> = h.percentage_used,
    /// Units of 512,000 bytes that the host read.
    data_units_read: u64 = h.data_units_read,
    /// Units of 512,000 bytes that the host wrote.
    data_units_written: u64 = h.data_units_written,
    /// Read commands.
    host_reads: u64 = h.host_reads,
    /// Write commands.
    host_writes: u64 = h.host_writes,
    /// Seconds with a command outstanding.
    busy_s: f64 = seconds(h.busy),
    /// Number of power-ons.
    power_cycles: u64 = h.power_cycles,
    /// Seconds powered on.
    power_on_s: f64 = seconds(h.power_on),
    /// Number of power losses without warning.
    unsafe_shutdowns: u64 = h.unsafe_shutdowns,
    /// Reads that error correction could not recover.
    media_errors: u64 = h.media_errors,
    /// Seconds at or above the warning temperature, below the critical one.
    warning_temperature_s: f64 = seconds(h.warning_time),
    /// Seconds at or above the critical temperature.
    critical_temperature_s: f64 = seconds(h.critical_time),
    /// Number of entries and seconds of each throttle stage, mildest first.
    throttling: Vec<(u64, f64)> = h.throttling.iter().map(|&(n, len)| (n, seconds(len))).collect(),
    /// Number of times that drive or link were woken from sleep.
    wakes: u64 = h.wakes,
    /// Seconds that drive or link slept, or were entering sleep.
    asleep_s: f64 = seconds(h.asleep),
    /// Number of link outages.
    link_outages: u64 = h.link_outages,
    /// Erases per superblock: minimum, maximum, and mean.
    erases: (u32, u32, u32) = h.erases.into(),
    /// 4 KiB pages programmed per page that the host wrote; None before the first write.
    waf: Option<f64> = h.waf,
}

#[pymethods]
impl PyHealth {
    fn __eq__(&self, other: &PyHealth) -> bool {
        self == other
    }
}
