//! What a run gives: columns by second, histograms, counters.

use drivebay_drive::{Counters, Stage};
use drivebay_run::{
    Keep, Kept, Outcome, ReplayOutcome, Row, Sample, Sensor, Totals, TrimCheckOutcome,
};
use drivebay_units::SECTOR_BYTES;
use pyo3::prelude::*;

use crate::columns::{Column, Columns, PyHistogram};
use crate::inside::Inside;

/// What a drive has counted since it was made.
#[pyclass(module = "drivebay._core", frozen, get_all, eq, name = "Counters")]
#[derive(PartialEq)]
pub(crate) struct PyCounters {
    /// Host commands.
    commands: u64,
    /// 4 KiB pages that the host wrote.
    host_pages: u64,
    /// 4 KiB pages programmed: for the host, garbage collection, the map, and as padding.
    placed_pages: u64,
    /// 4 KiB pages copied by garbage collection and by folding.
    copied_pages: u64,
    /// Of the pages programmed, those with one bit per cell.
    slc_pages: u64,
    /// Superblocks erased.
    erases: u64,
    /// Flash pages read.
    page_reads: u64,
    /// Bytes read over the flash channels.
    channel_read_bytes: u64,
    /// Time that the flash core has worked, in seconds.
    flash_core_busy_s: f64,
    /// Energy, in joule.
    energy_j: f64,
    /// Time slowed by heat, in seconds.
    throttled_s: f64,
    /// Temperature, in degrees Celsius.
    temperature_c: f64,
    /// Throttle stage, 0 for none.
    throttle_stage: usize,
}

impl From<&Counters> for PyCounters {
    fn from(c: &Counters) -> PyCounters {
        PyCounters {
            commands: c.commands,
            host_pages: c.host_pages,
            placed_pages: c.placed_pages,
            copied_pages: c.copied_pages,
            slc_pages: c.slc_pages,
            erases: c.erases,
            page_reads: c.page_reads,
            channel_read_bytes: c.read_bytes,
            flash_core_busy_s: c.core_busy_ns as f64 / 1e9,
            energy_j: c.energy_nj as f64 / 1e9,
            throttled_s: c.throttled_ns as f64 / 1e9,
            temperature_c: c.temperature_c,
            throttle_stage: c.throttle_stage,
        }
    }
}

/// Every n-th I/O of a run; arrays of shape (samples,).
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct Samples {
    /// When the host made the request, from the start of the run.
    at_ns: Column<u64>,
    /// Until it was completed.
    latency_ns: Column<u64>,
    /// First byte of the request.
    offset_bytes: Column<u64>,
    /// Length of the request in bytes.
    bytes: Column<u64>,
    /// Whether it was a write.
    is_write: Column<bool>,
}

/// A run: columns of shape (seconds,) unless something else is said.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct RunResult {
    /// When the run began, on the drive's clock.
    start_ns: u64,
    /// When the run ended, on the drive's clock.
    end_ns: u64,
    /// Whether the rule for stability ended it.
    stable: bool,
    /// I/Os whose data could not be read.
    media_errors: u64,
    /// Trims of a mix, which count nowhere else.
    trims: u64,
    /// Sum of their latencies.
    trim_latency_ns_sum: u64,
    /// Flushes of a mix, which count nowhere else.
    flushes: u64,
    /// Sum of their latencies.
    flush_latency_ns_sum: u64,
    /// The drive's counters before the run.
    before: Py<PyCounters>,
    /// The drive's counters after it.
    after: Py<PyCounters>,
    /// Reads completed.
    reads: Column<u64>,
    /// Writes completed.
    writes: Column<u64>,
    /// Bytes read.
    read_bytes: Column<u64>,
    /// Bytes written.
    write_bytes: Column<u64>,
    /// Sum of the latencies of all I/Os.
    latency_ns_sum: Column<u64>,
    /// Longest latency.
    latency_ns_max: Column<u64>,
    /// Sum of the time spent in each stage, by its name.
    stage_ns: Columns,
    /// Temperature at the end of each whole second, degrees Celsius.
    temperature_c: Column<f64>,
    /// Mean power of each whole second, watt.
    power_w: Column<f64>,
    /// Highest power of a tenth of each whole second.
    power_w_peak: Column<f64>,
    /// Throttle stage at the end of each whole second.
    throttle_stage: Column<u32>,
    /// 4 KiB pages that the host had written by the end of each whole second, since the drive was made.
    host_pages: Column<u64>,
    /// 4 KiB pages that had been programmed by then.
    placed_pages: Column<u64>,
    /// I/Os of each submission queue, shape (queues,).
    queue_ios: Column<u64>,
    /// Sum of their latencies.
    queue_latency_ns_sum: Column<u64>,
    /// Latencies of reads.
    read_latency: Py<PyHistogram>,
    /// Latencies of writes.
    write_latency: Py<PyHistogram>,
    /// Every n-th I/O, if the run was asked to keep them.
    samples: Option<Py<Samples>>,
    /// What happened inside the drive, if the run was asked to keep it.
    inside: Option<Py<Inside>>,
}

impl RunResult {
    pub(crate) fn new(
        py: Python<'_>,
        outcome: &Outcome,
        (keep, kept): (Keep, Kept),
    ) -> PyResult<Py<RunResult>> {
        let recorder = &outcome.recorder;
        let by_second = |of: fn(&Row) -> u64| Column::new(py, recorder.rows.iter().map(of));
        let floats = |of: fn(&Sensor) -> f64| Column::new(py, recorder.sensors.iter().map(of));
        let pages = |of: fn(&Sensor) -> u64| Column::new(py, recorder.sensors.iter().map(of));
        let by_queue = |of: fn(&Totals) -> u64| Column::new(py, outcome.queues.iter().map(of));
        let stages = Stage::ALL.into_iter().map(|stage| {
            let ns = recorder.rows.iter().map(|row| row.stage_ns[stage as usize]);
            (stage.name(), Column::new(py, ns))
        });
        let [reads, writes] = &recorder.histograms;
        let samples = (keep.sample_every > 0).then(|| {
            let kept = &kept.samples;
            let column = |of: &dyn Fn(&Sample) -> u64| Column::new(py, kept.iter().map(of));
            let samples = Samples {
                at_ns: column(&|s| s.requested.since(outcome.start).0),
                latency_ns: column(&|s| s.completed.since(s.requested).0),
                offset_bytes: column(&|s| s.io.lba * SECTOR_BYTES),
                bytes: column(&|s| s.io.data_bytes()),
                is_write: Column::new(py, kept.iter().map(|s| s.io.op.is_write())),
            };
            Py::new(py, samples)
        });
        let result = RunResult {
            start_ns: outcome.start.0,
            end_ns: outcome.end.0,
            stable: outcome.stable,
            media_errors: recorder.media_errors,
            trims: recorder.trims.ios,
            trim_latency_ns_sum: recorder.trims.latency_ns_sum,
            flushes: recorder.flushes.ios,
            flush_latency_ns_sum: recorder.flushes.latency_ns_sum,
            before: Py::new(py, PyCounters::from(&outcome.before))?,
            after: Py::new(py, PyCounters::from(&outcome.after))?,
            reads: by_second(|row| row.reads),
            writes: by_second(|row| row.writes),
            read_bytes: by_second(|row| row.read_bytes),
            write_bytes: by_second(|row| row.write_bytes),
            latency_ns_sum: by_second(|row| row.latency_ns_sum),
            latency_ns_max: by_second(|row| row.latency_ns_max),
            stage_ns: Columns::new(py, stages)?,
            temperature_c: floats(|sensor| sensor.temperature_c),
            power_w: floats(|sensor| sensor.power_w),
            power_w_peak: floats(|sensor| sensor.power_w_peak),
            throttle_stage: Column::new(
                py,
                recorder.sensors.iter().map(|sensor| sensor.throttle_stage as u32),
            ),
            host_pages: pages(|sensor| sensor.host_pages),
            placed_pages: pages(|sensor| sensor.placed_pages),
            queue_ios: by_queue(|queue| queue.ios),
            queue_latency_ns_sum: by_queue(|queue| queue.latency_ns_sum),
            read_latency: PyHistogram::new(py, reads)?,
            write_latency: PyHistogram::new(py, writes)?,
            samples: samples.transpose()?,
            inside: kept.inside.map(|inside| Py::new(py, Inside::new(py, &inside)?)).transpose()?,
        };
        Py::new(py, result)
    }
}

/// A replay on a virtual drive.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct ReplayResult {
    /// The columns and histograms, as of any run.
    run: Py<RunResult>,
    /// Time with at least one I/O outstanding.
    busy_ns: u64,
    /// Mean number outstanding over the busy time.
    outstanding_mean: f64,
    /// Most outstanding at once.
    outstanding_max: u64,
    /// I/Os by the number outstanding at their release, themselves included: 1, 2, 3, 4-5, 6-10, 11-20,
    /// 21-32, above.
    outstanding_counts: Vec<u64>,
    /// I/Os with a latency over 10 ms.
    over_10_ms: u64,
    /// I/Os with a latency over 100 ms.
    over_100_ms: u64,
    /// Trims and flushes that were not replayed.
    skipped: u64,
}

impl ReplayResult {
    pub(crate) fn new(py: Python<'_>, replayed: ReplayOutcome) -> PyResult<ReplayResult> {
        let depths = &replayed.depths;
        let kept = Kept { inside: replayed.inside, ..Kept::default() };
        Ok(ReplayResult {
            run: RunResult::new(py, &replayed.outcome, (Keep::default(), kept))?,
            busy_ns: depths.busy.0,
            outstanding_mean: depths.mean,
            outstanding_max: depths.max,
            outstanding_counts: depths.by_depth.to_vec(),
            over_10_ms: replayed.long[0],
            over_100_ms: replayed.long[1],
            skipped: replayed.skipped,
        })
    }
}

/// One half of a TRIM check on a virtual drive.
#[pyclass(module = "drivebay._core", frozen, get_all)]
pub(crate) struct TrimCheckResult {
    /// The reads of the extents' middle halves, 4 KiB at queue depth 1.
    run: Py<RunResult>,
    /// 4 KiB pages of the middle halves.
    pages: u64,
    /// How many of them still give what was written; the others give zeros.
    mapped: u64,
    /// Pages of the outer quarters that no longer give what was written.
    outer_lost: u64,
}

impl TrimCheckResult {
    pub(crate) fn new(py: Python<'_>, checked: &TrimCheckOutcome) -> PyResult<TrimCheckResult> {
        let run = RunResult::new(py, &checked.outcome, Default::default())?;
        let TrimCheckOutcome { pages, mapped, outer_lost, .. } = *checked;
        Ok(TrimCheckResult { run, pages, mapped, outer_lost })
    }
}
