//! Results of a run: a latency histogram per direction, one row per second, and sensors.
//!
//! An I/O counts in the second in which it completes. Counts are exact; latencies are kept as sum
//! and maximum per second, and as a histogram over the run.

use drivebay_drive::{Counters, Op, STAGE_COUNT, Stages};
use drivebay_units::{Histogram, IoCounts, Nanos};

use crate::control::{Control, Progress};
use crate::storage::Storage;

/// Results of a run.
pub struct Outcome {
    /// Start of the run, on the drive's clock.
    pub start: Nanos,
    /// End of the run.
    pub end: Nanos,
    /// Recorded I/Os and sensors.
    pub recorder: Recorder,
    /// The drive's counters before the run.
    pub before: Counters,
    /// The drive's counters after the run.
    pub after: Counters,
    /// True if a run that waits for a stable rate reached one.
    pub stable: bool,
    /// True if the run ended because the flash is worn out; the drive refuses all later writes.
    pub worn_out: bool,
    /// Totals per submission queue.
    pub queues: Vec<Totals>,
    /// 4 KiB pages of the job's own span that the drive copied during the run; only for jobs whose
    /// spans do not overlap.
    pub copied_4k: Option<u64>,
}

/// Number and latencies of completed commands: of a submission queue, of trims or of flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Commands completed before the end.
    pub ios: u64,
    /// Sum of their latencies.
    pub latency_ns_sum: u64,
}

impl Totals {
    /// Counts a command with this latency.
    pub fn count(&mut self, latency: Nanos) {
        self.ios += 1;
        self.latency_ns_sum += latency.0;
    }
}

/// One second of a run: two cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Row {
    /// Reads and writes completed.
    pub io: IoCounts,
    /// Sums per stage.
    pub stage_ns: [u64; STAGE_COUNT],
}

/// Sensor values at the end of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensor {
    /// Degrees Celsius.
    pub temperature_c: f64,
    /// Mean power over the second, watt.
    pub power_w: f64,
    /// Highest power over a tenth of the second, watt.
    pub power_w_peak: f64,
    /// Throttle stage, 0 for none.
    pub throttle_stage: usize,
    /// 4 KiB pages that the host has written since the drive was made.
    pub host_pages: u64,
    /// 4 KiB pages programmed since the drive was made.
    pub placed_pages: u64,
}

/// The recorder of one run.
pub struct Recorder {
    start: Nanos,
    end: Nanos,
    /// One row per second.
    pub rows: Vec<Row>,
    /// Sensor values per second.
    pub sensors: Vec<Sensor>,
    /// Latencies of reads and of writes.
    pub histograms: [Histogram; 2],
    /// I/Os whose data could not be read.
    pub media_errors: u64,
    /// Trims of a mix.
    pub trims: Totals,
    /// Flushes of a mix.
    pub flushes: Totals,
    next_second: Nanos,
    energy_nj: u64,
    before: Counters,
}

impl Recorder {
    /// Starts recording at `start`, when the drive's counters were `before`; ignores completions
    /// after `end`.
    pub fn new(start: Nanos, end: Nanos, before: Counters) -> Recorder {
        Recorder {
            start,
            end,
            rows: Vec::with_capacity(4096),
            sensors: Vec::new(),
            histograms: [Histogram::default(), Histogram::default()],
            media_errors: 0,
            trims: Totals::default(),
            flushes: Totals::default(),
            next_second: start.after(Nanos::secs(1)),
            energy_nj: before.energy_nj,
            before,
        }
    }

    /// Sets the end: later completions are ignored.
    pub fn end_at(&mut self, end: Nanos) {
        self.end = end;
    }

    /// Counts one completed I/O.
    #[inline(always)]
    pub fn count(&mut self, op: Op, bytes: u64, latency: Nanos, done: Nanos, stages: &Stages) {
        if done > self.end {
            return;
        }
        let second = (done.since(self.start).0.saturating_sub(1) / 1_000_000_000) as usize;
        if second >= self.rows.len() {
            self.rows.resize(second + 1, Row::default());
        }
        let row = &mut self.rows[second];
        let is_write = op != Op::Read;
        self.histograms[usize::from(is_write)].record(latency.0);
        row.io.count(is_write, bytes, latency);
        for (sum, &ns) in row.stage_ns.iter_mut().zip(&stages.0) {
            *sum += ns;
        }
    }

    /// Counts a media error of an I/O that is also passed to `count`.
    #[cold]
    pub fn count_media_error(&mut self, done: Nanos) {
        self.media_errors += u64::from(done <= self.end);
    }

    /// Counts a completed trim or flush, which appears in no row and no histogram.
    #[cold]
    pub fn count_apart(&mut self, op: Op, latency: Nanos, done: Nanos) {
        let totals = if op == Op::Flush { &mut self.flushes } else { &mut self.trims };
        if done <= self.end {
            totals.count(latency);
        }
    }

    /// Time when the sensors are due next.
    #[inline(always)]
    pub fn next_second(&self) -> Nanos {
        self.next_second
    }

    /// Samples the sensors and publishes the progress, once per virtual second; returns false if
    /// the run was cancelled. `requests` is the number of trace requests replayed so far.
    #[cold]
    #[must_use]
    pub(crate) fn on_second(
        &mut self,
        device: &mut impl Storage,
        control: &Control,
        now: Nanos,
        requests: u64,
    ) -> bool {
        let counters = device.counters();
        self.sample_sensors(now, &counters, device.take_peak_power_w());
        let elapsed = now.since(self.start);
        let last = (elapsed.whole_secs() as usize).saturating_sub(1);
        control.publish(Progress {
            elapsed_ns: elapsed.0,
            temperature_c: counters.temperature_c,
            ios_last_second: self.rows.get(last).map_or(0, |row| row.io.ios()),
            bytes_last_second: self.bytes_in(last),
            requests,
        });
        !control.cancelled()
    }

    /// Leaves the drive idle until `idle_until`; returns the results up to `end`, as of one
    /// submission queue.
    pub(crate) fn finish(
        mut self,
        device: &mut impl Storage,
        end: Nanos,
        idle_until: Nanos,
    ) -> Outcome {
        device.idle_until(idle_until);
        let after = device.counters();
        self.sample_sensors(end, &after, device.take_peak_power_w());
        let queues = vec![self.totals()];
        let (start, before) = (self.start, self.before);
        Outcome {
            start,
            end,
            recorder: self,
            before,
            after,
            stable: false,
            worn_out: false,
            queues,
            copied_4k: None,
        }
    }

    /// Samples the sensors for each second that has passed until `now`.
    ///
    /// `power_w_peak` is the highest power since the last call; it belongs to the first of these
    /// seconds.
    fn sample_sensors(&mut self, now: Nanos, counters: &Counters, mut power_w_peak: f64) {
        while self.next_second <= now {
            let power_w = (counters.energy_nj - self.energy_nj) as f64 / 1e9;
            self.energy_nj = counters.energy_nj;
            self.sensors.push(Sensor {
                temperature_c: counters.temperature_c,
                power_w,
                power_w_peak: power_w_peak.max(power_w),
                throttle_stage: counters.throttle_stage,
                host_pages: counters.host_pages,
                placed_pages: counters.placed_pages,
            });
            self.next_second = self.next_second.after(Nanos::secs(1));
            power_w_peak = 0.0;
        }
    }

    /// Totals of all I/Os, as of one queue.
    fn totals(&self) -> Totals {
        self.rows.iter().fold(Totals::default(), |sum, row| Totals {
            ios: sum.ios + row.io.ios(),
            latency_ns_sum: sum.latency_ns_sum + row.io.latency_ns_sum,
        })
    }

    /// Bytes moved in a second, in both directions; zero for a second not yet reached.
    #[must_use]
    pub fn bytes_in(&self, second: usize) -> u64 {
        self.rows.get(second).map_or(0, |row| row.io.bytes())
    }
}
