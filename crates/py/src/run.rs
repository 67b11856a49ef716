//! Results of a run: columns by second, histograms, counters.

use drivebay_drive::{Counters, Stage};
use drivebay_run::{
    Keep, Kept, Outcome, ReplayOutcome, Row, Sample, Sensor, Totals, TrimCheckOutcome,
};
use drivebay_units::SECTOR_BYTES;
use pyo3::prelude::*;

use crate::columns::{Column, Columns, PyHistogram, counted};
use crate::inside::Inside;

class! {
    /// Counters of a drive since it was made.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Counters")]
    #[derive(PartialEq)]
    PyCounters(c: &Counters) {}
    /// Host commands.
    commands: u64 = c.commands,
    /// 4 KiB pages that the host wrote.
    host_pages: u64 = c.host_pages,
    /// 4 KiB pages programmed: for the host, garbage collection and the map, and as padding.
    placed_pages: u64 = c.placed_pages,
    /// 4 KiB pages copied by garbage collection and by folding.
    copied_pages: u64 = c.copied_pages,
    /// Programmed pages with one bit per cell.
    slc_pages: u64 = c.slc_pages,
    /// Superblocks erased.
    erases: u64 = c.erases,
    /// Flash pages read.
    page_reads: u64 = c.page_reads,
    /// Bytes read over the flash channels.
    channel_read_bytes: u64 = c.read_bytes,
    /// Flash reads that needed a retry, including those of garbage collection.
    retried_reads: u64 = c.reliability.retried_reads,
    /// Retries of these reads.
    retries: u64 = c.reliability.retries,
    /// Superblocks moved because they had been read too often.
    refreshes: u64 = c.reliability.refreshes,
    /// Flash blocks that failed in use.
    failed_blocks: u64 = c.reliability.failed_blocks,
    /// Spare blocks left.
    spare_blocks: u64 = c.reliability.spare_blocks,
    /// Superblocks taken out of use.
    retired_superblocks: u64 = c.reliability.retired_superblocks,
    /// Time that the flash core was busy, in seconds.
    flash_core_busy_s: f64 = c.core_busy_ns as f64 / 1e9,
    /// Energy, in joule.
    energy_j: f64 = c.energy_nj as f64 / 1e9,
    /// Time throttled by heat, in seconds.
    throttled_s: f64 = c.throttled_ns as f64 / 1e9,
    /// Temperature, in degrees Celsius.
    temperature_c: f64 = c.temperature_c,
    /// Throttle stage, 0 for none.
    throttle_stage: usize = c.throttle_stage,
}

#[pymethods]
impl PyCounters {
    fn __eq__(&self, other: &PyCounters) -> bool {
        self == other
    }
}

class! {
    /// Every n-th I/O of a run; arrays of shape (samples,).
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    Samples(py: Python<'_>, outcome: &Outcome, kept: &[Sample]) {
        let column = |field: &dyn Fn(&Sample) -> u64| Column::new(py, kept.iter().map(field));
    }
    /// Time when the host made the request, from the start of the run.
    at_ns: Column<u64> = column(&|s| s.requested.since(outcome.start).0),
    /// Latency of the request.
    latency_ns: Column<u64> = column(&|s| s.completed.since(s.requested).0),
    /// First byte of the request.
    offset_bytes: Column<u64> = column(&|s| s.io.lba * SECTOR_BYTES),
    /// Length of the request in bytes.
    bytes: Column<u64> = column(&|s| s.io.data_bytes()),
    /// True for writes.
    is_write: Column<bool> = Column::new(py, kept.iter().map(|s| s.io.op.is_write())),
}

class! {
    /// Results of a run: columns of shape (seconds,) unless noted otherwise.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    RunResult(py: Python<'_>, outcome: &Outcome, (keep, kept): (Keep, Kept)) {
        let recorder = &outcome.recorder;
        let by_second = |field: fn(&Row) -> u64| Column::new(py, recorder.rows.iter().map(field));
        let floats = |field: fn(&Sensor) -> f64| Column::new(py, recorder.sensors.iter().map(field));
        let pages = |field: fn(&Sensor) -> u64| Column::new(py, recorder.sensors.iter().map(field));
        let by_queue = |field: fn(&Totals) -> u64| Column::new(py, outcome.queues.iter().map(field));
        let stages = Stage::ALL.into_iter().map(|stage| {
            let ns = recorder.rows.iter().map(|row| row.stage_ns[stage as usize]);
            (stage.name(), Column::new(py, ns))
        });
        let [reads, writes] = &recorder.histograms;
        let samples = (keep.sample_every > 0).then(|| Py::new(py, Samples::new(py, outcome, &kept.samples)?));
    }
    /// Start of the run, on the drive's clock.
    start_ns: u64 = outcome.start.0,
    /// End of the run, on the drive's clock.
    end_ns: u64 = outcome.end.0,
    /// True if the stability rule ended the run.
    stable: bool = outcome.stable,
    /// True if the run ended because the flash is worn out; the drive refuses all later writes.
    worn_out: bool = outcome.worn_out,
    /// 4 KiB pages of the job's own span copied during the run; None unless jobs ran together on
    /// spans that do not overlap.
    copied_4k: Option<u64> = outcome.copied_4k,
    /// I/Os whose data could not be read.
    media_errors: u64 = recorder.media_errors,
    /// Trims of a mix, which are in no other count.
    trims: u64 = recorder.trims.ios,
    /// Sum of their latencies.
    trim_latency_ns_sum: u64 = recorder.trims.latency_ns_sum,
    /// Flushes of a mix, which are in no other count.
    flushes: u64 = recorder.flushes.ios,
    /// Sum of their latencies.
    flush_latency_ns_sum: u64 = recorder.flushes.latency_ns_sum,
    /// The drive's counters before the run.
    before: Py<PyCounters> = Py::new(py, PyCounters::new(&outcome.before)?)?,
    /// The drive's counters after the run.
    after: Py<PyCounters> = Py::new(py, PyCounters::new(&outcome.after)?)?,
    /// Reads completed.
    reads: Column<u64> = by_second(|row| row.io.reads),
    /// Writes completed.
    writes: Column<u64> = by_second(|row| row.io.writes),
    /// Bytes read.
    read_bytes: Column<u64> = by_second(|row| row.io.read_bytes),
    /// Bytes written.
    write_bytes: Column<u64> = by_second(|row| row.io.write_bytes),
    /// Sum of the latencies of all I/Os.
    latency_ns_sum: Column<u64> = by_second(|row| row.io.latency_ns_sum),
    /// Longest latency.
    latency_ns_max: Column<u64> = by_second(|row| row.io.latency_ns_max),
    /// Sum of the time spent in each stage, by its name.
    stage_ns: Columns = Columns::new(py, stages)?,
    /// Temperature at the end of each whole second, degrees Celsius.
    temperature_c: Column<f64> = floats(|sensor| sensor.temperature_c),
    /// Mean power of each whole second, watt.
    power_w: Column<f64> = floats(|sensor| sensor.power_w),
    /// Highest power over a tenth of each whole second, watt.
    power_w_peak: Column<f64> = floats(|sensor| sensor.power_w_peak),
    /// Throttle stage at the end of each whole second.
    throttle_stage: Column<u32> =
        Column::new( py, recorder.sensors.iter().map(|sensor| sensor.throttle_stage as u32), ),
    /// 4 KiB pages that the host had written by the end of each whole second, since the drive was
    /// made.
    host_pages: Column<u64> = pages(|sensor| sensor.host_pages),
    /// 4 KiB pages programmed by the end of each whole second, since the drive was made.
    placed_pages: Column<u64> = pages(|sensor| sensor.placed_pages),
    /// I/Os of each submission queue, shape (queues,).
    queue_ios: Column<u64> = by_queue(|queue| queue.ios),
    /// Sum of their latencies.
    queue_latency_ns_sum: Column<u64> = by_queue(|queue| queue.latency_ns_sum),
    /// Latencies of reads.
    read_latency: Py<PyHistogram> = counted(py, reads)?,
    /// Latencies of writes.
    write_latency: Py<PyHistogram> = counted(py, writes)?,
    /// Every n-th I/O, if requested.
    samples: Option<Py<Samples>> = samples.transpose()?,
    /// Events inside the drive, if requested.
    inside: Option<Py<Inside>> =
        kept.inside.map(|inside| Py::new(py, Inside::new(py, &inside)?)).transpose()?,
}

class! {
    /// Results of a replay on a virtual drive.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    ReplayResult(py: Python<'_>, replayed: ReplayOutcome) {
        let depths = &replayed.depths;
        let kept = Kept { inside: replayed.inside, ..Kept::default() };
    }
    /// Columns and histograms, as of any run.
    run: Py<RunResult> =
        Py::new(py, RunResult::new(py, &replayed.outcome, (Keep::default(), kept))?)?,
    /// Time with at least one I/O outstanding.
    busy_ns: u64 = depths.busy.0,
    /// Mean number outstanding over the busy time.
    outstanding_mean: f64 = depths.mean,
    /// Largest number outstanding.
    outstanding_max: u64 = depths.max,
    /// I/Os by the number outstanding at their release, including themselves: 1, 2, 3, 4-5, 6-10,
    /// 11-20, 21-32, above.
    outstanding_counts: Vec<u64> = depths.by_depth.to_vec(),
    /// I/Os with a latency over 10 ms.
    over_10_ms: u64 = replayed.long[0],
    /// I/Os with a latency over 100 ms.
    over_100_ms: u64 = replayed.long[1],
    /// Trims and flushes that were not replayed.
    skipped: u64 = replayed.skipped,
}

class! {
    /// Results of one half of a TRIM check on a virtual drive.
    #[pyclass(module = "drivebay._core", frozen, get_all)]
    TrimCheckResult(py: Python<'_>, checked: &TrimCheckOutcome) {
        let run = RunResult::new(py, &checked.outcome, Default::default())?;
        let TrimCheckOutcome { pages, mapped, outer_lost, .. } = *checked;
    }
    /// Reads of the extents' middle halves, 4 KiB at queue depth 1.
    run: Py<RunResult> = Py::new(py, run)?,
    /// 4 KiB pages of the middle halves.
    pages: u64 = pages,
    /// Pages of the middle halves that still return the written data; the others return zeros.
    mapped: u64 = mapped,
    /// Pages of the outer quarters that no longer return the written data.
    outer_lost: u64 = outer_lost,
}
