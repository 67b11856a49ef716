//! The border: `run(profile, workload, seed) -> columns`. Conversion only, never a call per I/O.
//!
//! Errors become `drivebay._core.CoreError` with the message and hint of the core; the interpreter lock
//! is released while a drive runs.

mod replay;
mod replay_real;
mod serve;
mod trace;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use drivebay_drive::{Counters, Device, Health, Sanitize, Spec, Stage};
use drivebay_run::snapshot;
use drivebay_run::{Control, Outcome, QueueTotals, Row, RunError, Sample, TrimPlan, Workload};
use drivebay_units::{Nanos, SECTOR_BYTES};
use numpy::{IntoPyArray, PyArray1};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

create_exception!(_core, CoreError, PyException, "A mistake in a profile or a workload.");
create_exception!(_core, CancelledError, PyException, "A run was cancelled.");

fn core_error(error: impl ToString) -> PyErr {
    CoreError::new_err(error.to_string())
}

fn run_error(error: RunError) -> PyErr {
    match error {
        RunError::Cancelled => CancelledError::new_err("cancelled"),
        other => core_error(other),
    }
}

fn workload(json: &str) -> PyResult<Workload> {
    serde_json::from_str(json)
        .map_err(|e| core_error(format!("workload: {e}\nhint: see drivebay._core")))
}

/// Watches and stops a run from another thread.
#[pyclass(frozen, name = "Control")]
#[derive(Default)]
struct PyControl(Arc<Control>);

#[pymethods]
impl PyControl {
    #[new]
    fn new() -> PyControl {
        PyControl::default()
    }

    /// Ask the run to stop at the next virtual second.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Requests of a trace replayed so far.
    fn requests(&self) -> u64 {
        self.0.progress().requests
    }

    /// (virtual seconds, temperature in Celsius, I/Os and bytes of the last second).
    fn look(&self) -> (f64, f64, u64, u64) {
        let now = self.0.progress();
        let (ios, bytes) = (now.ios_last_second, now.bytes_last_second);
        (now.elapsed_ns as f64 / 1e9, now.temperature_c, ios, bytes)
    }
}

/// A virtual drive.
#[pyclass(frozen)]
struct VirtualDrive(Mutex<Option<Device>>);

impl VirtualDrive {
    fn with<T>(&self, work: impl FnOnce(&mut Device) -> PyResult<T>) -> PyResult<T> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_mut().ok_or_else(|| core_error("the drive is gone\nhint: make a new one"))?)
    }

    fn take(&self) -> Option<Device> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, device: Device) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
    }
}

#[pymethods]
impl VirtualDrive {
    #[new]
    fn new(py: Python<'_>, profile_json: &str, seed: u64) -> PyResult<VirtualDrive> {
        let spec = Spec::from_json(profile_json).map_err(core_error)?;
        let device = py.detach(|| Device::new(spec, seed)).map_err(core_error)?;
        Ok(VirtualDrive(Mutex::new(Some(device))))
    }

    /// Make it a fresh drive of this profile, keeping its memory where it fits.
    fn renew(&self, py: Python<'_>, profile_json: &str, seed: u64) -> PyResult<()> {
        let spec = Spec::from_json(profile_json).map_err(core_error)?;
        py.detach(|| {
            let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = match guard.take() {
                Some(device) => device.reset(spec, seed),
                None => Device::new(spec, seed),
            };
            *guard = Some(fresh.map_err(core_error)?);
            Ok(())
        })
    }

    /// Run one workload; returns columns, see `_core.pyi`.
    #[pyo3(signature = (workload_json, seed, control, sample_every = 0))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        workload_json: &str,
        seed: u64,
        control: Option<&PyControl>,
        sample_every: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let workload = workload(workload_json)?;
        let control = control.map_or_else(Arc::default, |c| Arc::clone(&c.0));
        let (outcome, samples) = py.detach(|| {
            self.with(|device| {
                drivebay_run::run_sampled(device, &workload, seed, &control, sample_every)
                    .map_err(run_error)
            })
        })?;
        let dict = columns(py, &outcome)?;
        if sample_every > 0 {
            sample_columns(&dict, &outcome, &samples)?;
        }
        Ok(dict)
    }

    /// Cut the power now, and turn it on again; see `_core.pyi`.
    fn power_cut(&self, py: Python<'_>) -> PyResult<(u64, f64)> {
        py.detach(|| {
            self.with(|device| {
                let at = device.now();
                let recovery = device.power_cut(at);
                Ok((recovery.lost_pages, recovery.ready.since(at).as_secs_f64()))
            })
        })
    }

    /// Write or discard a pattern, and read it back; returns columns, see `_core.pyi`.
    fn trim_check<'py>(
        &self,
        py: Python<'py>,
        plan_json: &str,
        control: Option<&PyControl>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let plan: TrimPlan = serde_json::from_str(plan_json)
            .map_err(|e| core_error(format!("trim_check: {e}\nhint: see drivebay._core")))?;
        let control = control.map_or_else(Arc::default, |c| Arc::clone(&c.0));
        let checked = py.detach(|| {
            self.with(|device| drivebay_run::trim_check(device, &plan, &control).map_err(run_error))
        })?;
        let dict = columns(py, &checked.outcome)?;
        dict.set_item("pages", checked.pages)?;
        dict.set_item("mapped", checked.mapped)?;
        dict.set_item("outer_lost", checked.outer_lost)?;
        Ok(dict)
    }

    /// Leave the drive alone for some seconds of its time.
    fn rest(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        if !(0.0..=1e8).contains(&seconds) {
            return Err(core_error("rest: must be 0 to 1e8 seconds\nhint: rest(1800)"));
        }
        py.detach(|| {
            self.with(|device| {
                device.idle_until(device.now().after(Nanos((seconds * 1e9) as u64)));
                Ok(())
            })
        })
    }

    /// Discard (trim) a stretch of addresses, in bytes.
    fn discard(&self, py: Python<'_>, start_bytes: u64, length_bytes: u64) -> PyResult<()> {
        py.detach(|| {
            self.with(|device| {
                drivebay_run::discard(device, start_bytes, length_bytes).map_err(run_error)
            })
        })
    }

    /// Secure erase: everything unmapped, all flash erased.
    fn secure_erase(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.with(|device| {
                device.secure_erase();
                Ok(())
            })
        })
    }

    /// Erase everything as a command, with its time: "block" or "crypto"; returns the seconds.
    fn sanitize(&self, py: Python<'_>, how: &str) -> PyResult<f64> {
        let how = match how {
            "block" => Sanitize::Block,
            "crypto" => Sanitize::Crypto,
            other => {
                let hint = "hint: sanitize(\"block\") or sanitize(\"crypto\")";
                return Err(core_error(format!("sanitize: no such erase as {other:?}\n{hint}")));
            }
        };
        py.detach(|| {
            self.with(|device| {
                let begin = device.now();
                Ok(device.sanitize(begin, how).since(begin).as_secs_f64())
            })
        })
    }

    /// Another drive in the same state.
    fn copy(&self, py: Python<'_>) -> PyResult<VirtualDrive> {
        let copy = py.detach(|| self.with(|device| device.duplicate().map_err(core_error)))?;
        Ok(VirtualDrive(Mutex::new(Some(copy))))
    }

    /// Make this drive a copy of another, keeping its memory where it fits.
    fn copy_from(slf: &Bound<'_, Self>, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        if slf.is(other) {
            return Ok(());
        }
        let (this, other) = (slf.get(), other.get());
        py.detach(|| {
            // Never both locks at once: two drives may be copied into each other at the same time.
            let memory = this.take();
            let copy = other.with(|device| {
                let copy = match memory {
                    Some(memory) => device.duplicate_into(memory),
                    None => device.duplicate(),
                };
                copy.map_err(core_error)
            })?;
            this.put(copy);
            Ok(())
        })
    }

    /// Write the drive's whole state to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.with(|device| snapshot::save(device, &path).map_err(core_error)))
    }

    /// Make it a drive of this profile in a state that was saved, keeping its memory where it fits.
    fn restore(&self, py: Python<'_>, profile_json: &str, path: PathBuf) -> PyResult<()> {
        let spec = Spec::from_json(profile_json).map_err(core_error)?;
        py.detach(|| {
            let restored = snapshot::restore(spec, self.take(), &path).map_err(core_error)?;
            self.put(restored);
            Ok(())
        })
    }

    /// The drive's counters, a dict of numbers.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.with(|device| Ok(device.counters()))?;
        counters_dict(py, &counters)
    }

    /// The health log, see `_core.pyi`.
    fn health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let health = self.with(|device| Ok(device.health()))?;
        health_dict(py, &health)
    }

    /// User capacity in bytes.
    #[getter]
    fn capacity_bytes(&self) -> PyResult<u64> {
        self.with(|device| Ok(device.spec().capacity_bytes()))
    }
}

fn counters_dict<'py>(py: Python<'py>, c: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("commands", c.commands)?;
    dict.set_item("host_pages", c.host_pages)?;
    dict.set_item("placed_pages", c.placed_pages)?;
    dict.set_item("copied_pages", c.copied_pages)?;
    dict.set_item("erases", c.erases)?;
    dict.set_item("page_reads", c.page_reads)?;
    dict.set_item("energy_j", c.energy_nj as f64 / 1e9)?;
    dict.set_item("throttled_s", c.throttled_ns as f64 / 1e9)?;
    dict.set_item("temperature_c", c.temperature_c)?;
    dict.set_item("throttle_stage", c.throttle_stage)?;
    Ok(dict)
}

fn health_dict<'py>(py: Python<'py>, h: &Health) -> PyResult<Bound<'py, PyDict>> {
    let seconds = |len: Nanos| len.0 as f64 / 1e9;
    let dict = PyDict::new(py);
    dict.set_item("temperature_c", h.temperature_c)?;
    let nodes = PyDict::new(py);
    for &(name, celsius) in &h.node_temperatures_c {
        nodes.set_item(name, celsius)?;
    }
    dict.set_item("node_temperatures_c", nodes)?;
    dict.set_item("available_spare_percent", h.available_spare_percent)?;
    dict.set_item("percentage_used", h.percentage_used)?;
    dict.set_item("data_units_read", h.data_units_read)?;
    dict.set_item("data_units_written", h.data_units_written)?;
    dict.set_item("host_reads", h.host_reads)?;
    dict.set_item("host_writes", h.host_writes)?;
    dict.set_item("busy_s", seconds(h.busy))?;
    dict.set_item("power_cycles", h.power_cycles)?;
    dict.set_item("power_on_s", seconds(h.power_on))?;
    dict.set_item("unsafe_shutdowns", h.unsafe_shutdowns)?;
    dict.set_item("media_errors", h.media_errors)?;
    dict.set_item("warning_temperature_s", seconds(h.warning_time))?;
    dict.set_item("critical_temperature_s", seconds(h.critical_time))?;
    let stages: Vec<(u64, f64)> =
        h.throttling.iter().map(|&(entries, len)| (entries, seconds(len))).collect();
    dict.set_item("throttling", stages)?;
    dict.set_item("wakes", h.wakes)?;
    dict.set_item("asleep_s", seconds(h.asleep))?;
    dict.set_item("waf", h.waf)?;
    Ok(dict)
}

fn sample_columns(dict: &Bound<'_, PyDict>, outcome: &Outcome, samples: &[Sample]) -> PyResult<()> {
    let py = dict.py();
    let column = |of: &dyn Fn(&Sample) -> u64| -> Bound<'_, PyArray1<u64>> {
        samples.iter().map(of).collect::<Vec<u64>>().into_pyarray(py)
    };
    dict.set_item("sample_at_ns", column(&|s| s.requested.since(outcome.start).0))?;
    dict.set_item("sample_latency_ns", column(&|s| s.completed.since(s.requested).0))?;
    dict.set_item("sample_offset_bytes", column(&|s| s.io.lba * SECTOR_BYTES))?;
    dict.set_item("sample_bytes", column(&|s| s.io.data_bytes()))?;
    let write: Vec<bool> = samples.iter().map(|s| s.io.op.is_write()).collect();
    dict.set_item("sample_is_write", write.into_pyarray(py))
}

fn columns<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let recorder = &outcome.recorder;
    let dict = PyDict::new(py);
    dict.set_item("start_ns", outcome.start.0)?;
    dict.set_item("end_ns", outcome.end.0)?;
    dict.set_item("stable", outcome.stable)?;
    dict.set_item("media_errors", recorder.media_errors)?;
    dict.set_item("before", counters_dict(py, &outcome.before)?)?;
    dict.set_item("after", counters_dict(py, &outcome.after)?)?;
    let column = |of: fn(&Row) -> u64| -> Bound<'py, PyArray1<u64>> {
        recorder.rows.iter().map(of).collect::<Vec<u64>>().into_pyarray(py)
    };
    dict.set_item("reads", column(|r| r.reads))?;
    dict.set_item("writes", column(|r| r.writes))?;
    dict.set_item("read_bytes", column(|r| r.read_bytes))?;
    dict.set_item("write_bytes", column(|r| r.write_bytes))?;
    dict.set_item("latency_ns_sum", column(|r| r.latency_ns_sum))?;
    dict.set_item("latency_ns_max", column(|r| r.latency_ns_max))?;
    let stages = PyDict::new(py);
    for stage in Stage::ALL {
        let ns: Vec<u64> = recorder.rows.iter().map(|r| r.stage_ns[stage as usize]).collect();
        stages.set_item(stage.name(), ns.into_pyarray(py))?;
    }
    dict.set_item("stage_ns", stages)?;
    let sensors = &recorder.sensors;
    let floats = |of: fn(&drivebay_run::Sensor) -> f64| -> Bound<'py, PyArray1<f64>> {
        sensors.iter().map(of).collect::<Vec<f64>>().into_pyarray(py)
    };
    dict.set_item("temperature_c", floats(|s| s.temperature_c))?;
    dict.set_item("power_w", floats(|s| s.power_w))?;
    dict.set_item("power_w_peak", floats(|s| s.power_w_peak))?;
    let pages = |of: fn(&drivebay_run::Sensor) -> u64| -> Bound<'py, PyArray1<u64>> {
        sensors.iter().map(of).collect::<Vec<u64>>().into_pyarray(py)
    };
    dict.set_item("host_pages", pages(|s| s.host_pages))?;
    dict.set_item("placed_pages", pages(|s| s.placed_pages))?;
    let queues = &outcome.queues;
    let per_queue = |of: fn(&QueueTotals) -> u64| -> Bound<'py, PyArray1<u64>> {
        queues.iter().map(of).collect::<Vec<u64>>().into_pyarray(py)
    };
    dict.set_item("queue_ios", per_queue(|q| q.ios))?;
    dict.set_item("queue_latency_ns_sum", per_queue(|q| q.latency_ns_sum))?;
    let stage: Vec<u32> = sensors.iter().map(|s| s.throttle_stage as u32).collect();
    dict.set_item("throttle_stage", stage.into_pyarray(py))?;
    for (name, histogram) in ["read", "write"].into_iter().zip(&recorder.histograms) {
        let bins: Vec<_> = histogram.bins().collect();
        let part = |of: fn(&drivebay_run::Bin) -> u64| -> Bound<'py, PyArray1<u64>> {
            bins.iter().map(of).collect::<Vec<u64>>().into_pyarray(py)
        };
        dict.set_item(format!("{name}_low_ns"), part(|b| b.low))?;
        dict.set_item(format!("{name}_high_ns"), part(|b| b.high))?;
        dict.set_item(format!("{name}_count"), part(|b| b.count))?;
    }
    Ok(dict)
}

/// Check a profile given as JSON; raises `CoreError` naming the field. Returns (capacity in bytes,
/// bytes of memory that a drive of this profile needs).
#[pyfunction]
fn check_profile(profile_json: &str) -> PyResult<(u64, u64)> {
    let spec = Spec::from_json(profile_json).map_err(core_error)?;
    let g = &spec.geometry;
    let slots = u64::from(g.superblocks) * u64::from(g.superblock_slots);
    Ok((spec.capacity_bytes(), (slots + u64::from(g.user_pages)) * 4))
}

/// Check a workload given as JSON against a profile; raises `CoreError` naming the field.
#[pyfunction]
fn check_workload(profile_json: &str, workload_json: &str) -> PyResult<()> {
    let spec = Spec::from_json(profile_json).map_err(core_error)?;
    let workload = workload(workload_json)?;
    workload.check(&spec).map_err(core_error)
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<VirtualDrive>()?;
    m.add_class::<PyControl>()?;
    m.add_function(wrap_pyfunction!(check_profile, m)?)?;
    m.add_function(wrap_pyfunction!(check_workload, m)?)?;
    m.add("CoreError", m.py().get_type::<CoreError>())?;
    replay::register(m)?;
    replay_real::register(m)?;
    serve::register(m)?;
    trace::register(m)?;
    m.add("CancelledError", m.py().get_type::<CancelledError>())?;
    Ok(())
}
