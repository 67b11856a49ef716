//! The driver: a closed loop at a queue depth, in virtual time.
//!
//! Each turn takes the slot that is free first, serves the requests that reach the flash core before
//! that time, and submits the next. Requests are drawn in batches so that the map entries they need are
//! fetched meanwhile: on a map of 500 MB the cache miss is the cost. A host that wants more outstanding
//! than the interface carries waits in its own queue, and that wait is the host's. With several
//! submission queues the controller picks among what waits in them (`queues.rs`); requests too large for
//! one command are cut (`split.rs`).

use std::collections::VecDeque;

use drivebay_drive::{Completion, Counters, Device, DeviceError, Io, Op, Spec, Stage};
use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::control::Control;
use crate::queues::{Queues, Waiting};
use crate::recorder::Recorder;
use crate::slots::{FAR, Slots};
use crate::workload::{Generator, Stable, Workload, WorkloadError};

/// Requests drawn ahead.
const BATCH: usize = 32;

/// Everything known after a run.
pub struct Outcome {
    /// When it began, on the drive's clock.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// What was recorded.
    pub recorder: Recorder,
    /// The drive's counters before.
    pub before: Counters,
    /// And after.
    pub after: Counters,
    /// Whether a run that waits for a stable rate found one.
    pub stable: bool,
    /// What each submission queue got.
    pub queues: Vec<QueueTotals>,
}

/// One I/O of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What was asked.
    pub io: Io,
    /// When the host asked.
    pub asked: Nanos,
    /// When it was done.
    pub done: Nanos,
}

/// What a submission queue got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Commands that were completed before the end.
    pub ios: u64,
    /// Sum of their latencies.
    pub latency_ns_sum: u64,
}

/// Why a run ended without an outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The workload is not possible.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The drive refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Somebody asked to stop.
    #[error("cancelled\nhint: run it again")]
    Cancelled,
}

/// Runs a workload on a drive, from the drive's present time on.
///
/// # Errors
/// [`RunError`]; after `Cancelled` the drive is in an undefined but valid state.
pub fn run(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
) -> Result<Outcome, RunError> {
    go::<false>(device, workload, seed, control, 0).map(|(outcome, _)| outcome)
}

/// As [`run`], and keeps every `every`-th completed I/O, in the order in which they were served.
///
/// # Errors
/// As [`run`].
pub fn run_sampled(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
    every: u64,
) -> Result<(Outcome, Vec<Sample>), RunError> {
    if every == 0 {
        return go::<false>(device, workload, seed, control, 0);
    }
    go::<true>(device, workload, seed, control, every)
}

fn go<const SAMPLED: bool>(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
    every: u64,
) -> Result<(Outcome, Vec<Sample>), RunError> {
    workload.check(device.spec().capacity_bytes())?;
    workload.check_queues(device.spec())?;
    device.set_compressible(workload.compressible_percent);
    device.take_peak_power_w();
    let before = device.counters();
    let start = device.now();
    let end = workload.duration().map_or(Nanos(u64::MAX), |len| start.after(len));
    let mut run = Loop::<SAMPLED> {
        samples: Samples { every, left: every, taken: Vec::new() },
        generator: Generator::new(workload, seed),
        host: Host::new(workload, device.spec(), start),
        recorder: Recorder::new(start, end, before.energy_nj),
        bytes_left: workload.stop.bytes.unwrap_or(u64::MAX),
        latest: start,
        stable_rule: workload.stop.stable,
        stable: false,
        control,
        start,
        end,
    };
    let mut totals = vec![QueueTotals::default(); workload.queues as usize];
    let transfer_max = device.spec().host.transfer_max;
    if workload.queues == 1 && workload.largest_bytes() > u64::from(transfer_max) * SECTOR_BYTES {
        run.go_split(device, workload.queue_depth, transfer_max)?;
        totals[0] = run.recorder.totals();
    } else if workload.queues == 1 {
        run.go(device)?;
        totals[0] = run.recorder.totals();
    } else {
        run.go_through(device, Queues::new(workload.queues, &workload.arbitration), &mut totals)?;
    }
    // A run by time ends with its time, one by amount with its last completion.
    let by_amount = run.bytes_left == 0 || run.end.0 == u64::MAX;
    let end = if by_amount { run.latest.min(run.end) } else { run.end };
    device.idle_until(end.max(run.host.now));
    let after = device.counters();
    run.recorder.sense(end, &after, device.take_peak_power_w());
    let (recorder, stable, samples) = (run.recorder, run.stable, run.samples.taken);
    Ok((Outcome { start, end, recorder, before, after, stable, queues: totals }, samples))
}

/// The host's side: outstanding commands, and requests that wait for a command slot.
pub(crate) struct Host {
    pub(crate) slots: Slots,
    /// By slot: when its request was made.
    asked: Vec<Nanos>,
    /// Times at which the waiting requests were made, oldest first.
    waiting: VecDeque<Nanos>,
    /// Time of the last submission.
    pub(crate) now: Nanos,
}

impl Host {
    /// Most commands at the drive.
    pub(crate) fn commands(&self) -> usize {
        self.asked.len()
    }

    fn new(workload: &Workload, spec: &Spec, start: Nanos) -> Host {
        let depth = workload.queue_depth * workload.queues;
        let most = spec.queue_depth_max.saturating_mul(workload.queues);
        let outstanding = depth.min(most).min(spec.host.outstanding_max);
        Host {
            slots: Slots::new(outstanding as usize, start),
            asked: vec![start; outstanding as usize],
            waiting: std::iter::repeat_n(start, (depth - outstanding) as usize).collect(),
            now: start,
        }
    }

    /// Gives the slot that is free first, at `now`, to the next request; the longest waiting goes first.
    #[inline(always)]
    fn submit(&mut self, now: Nanos) -> u32 {
        let (slot, _) = self.slots.first();
        self.now = now;
        self.asked[slot] = now;
        if !self.waiting.is_empty() {
            self.waiting.push_back(now);
            self.asked[slot] = self.waiting.pop_front().expect("one was just added");
        }
        slot as u32
    }
}

/// Every so many I/Os, one is kept.
pub(crate) struct Samples {
    every: u64,
    /// Until the next one.
    left: u64,
    taken: Vec<Sample>,
}

/// A run; the plain one and the one that keeps samples are compiled apart.
pub(crate) struct Loop<'a, const SAMPLED: bool> {
    samples: Samples,
    pub(crate) generator: Generator,
    pub(crate) host: Host,
    pub(crate) recorder: Recorder,
    pub(crate) bytes_left: u64,
    pub(crate) latest: Nanos,
    stable_rule: Option<Stable>,
    stable: bool,
    control: &'a Control,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

impl<const SAMPLED: bool> Loop<'_, SAMPLED> {
    fn go(&mut self, device: &mut Device) -> Result<(), RunError> {
        const NOTHING: Io = Io { op: Op::Read, lba: 0, sectors: 1 };
        let mut batches = [[NOTHING; BATCH]; 2];
        self.draw(device, &mut batches[0]);
        loop {
            let [current, next] = &mut batches;
            self.draw(device, next);
            for &io in current.iter() {
                let now = self.next_submission(device)?;
                if now >= self.end || self.bytes_left == 0 {
                    return self.finish(device);
                }
                if now >= self.recorder.next_second() {
                    self.on_second(device, now)?;
                }
                let bytes = u64::from(io.sectors) * SECTOR_BYTES;
                self.bytes_left = self.bytes_left.saturating_sub(bytes);
                let slot = self.host.submit(now);
                // With its own slot taken, the first one is that of the next submission.
                self.host.slots.set(slot as usize, FAR);
                let (_, until) = self.host.slots.first();
                if let Some(served) = device.accept_or_serve(now, io, slot, until)? {
                    self.count(served);
                }
            }
            batches.swap(0, 1);
        }
    }

    /// Serves what reaches the flash core before the host can submit again; returns when it can.
    #[inline(always)]
    fn next_submission(&mut self, device: &mut Device) -> Result<Nanos, RunError> {
        loop {
            let (_, at) = self.host.slots.first();
            if at < device.next_arrival() {
                return Ok(at);
            }
            let served = device.serve()?;
            self.count(served);
        }
    }

    /// Counts a request that was served; returns its slot, and when it was done.
    #[inline(always)]
    fn count(&mut self, served: Completion) -> (usize, Nanos) {
        let mut completion = served;
        let Completion { tag, io, submitted, .. } = completion;
        let asked = self.host.asked[tag as usize];
        completion.stages.add(Stage::Host, submitted.since(asked));
        let done = completion.done;
        self.host.slots.set(tag as usize, done);
        self.latest = self.latest.max(done);
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        self.recorder.count(io.op, bytes, done.since(asked), done, &completion.stages);
        if completion.media_error {
            self.recorder.count_media_error(done);
        }
        self.sample(io, asked, done);
        (tag as usize, done)
    }

    /// Keeps an I/O that was counted, if it is its turn.
    #[inline(always)]
    pub(crate) fn sample(&mut self, io: Io, asked: Nanos, done: Nanos) {
        if !SAMPLED || done > self.end {
            return;
        }
        self.samples.left -= 1;
        if self.samples.left == 0 {
            self.samples.left = self.samples.every;
            self.samples.taken.push(Sample { io, asked, done });
        }
    }

    /// As `go`, through several submission queues: of what is posted before the controller can take the
    /// next command, the arbitration picks one.
    #[inline(never)]
    fn go_through(
        &mut self,
        device: &mut Device,
        mut queues: Queues,
        totals: &mut [QueueTotals],
    ) -> Result<(), RunError> {
        loop {
            let (slot, free) = self.host.slots.first();
            let more = free < self.end && self.bytes_left > 0;
            let asked = if more { free } else { FAR };
            let taken = queues.takes_at(device.fetch_free_at()).unwrap_or(FAR);
            if device.next_arrival() <= asked.min(taken) {
                let served = device.serve()?;
                let (slot, done) = self.count(served);
                if done <= self.end {
                    let queue = &mut totals[queues.of_slot(slot)];
                    queue.ios += 1;
                    queue.latency_ns_sum += done.since(self.host.asked[slot]).0;
                }
            } else if asked < taken {
                if asked >= self.recorder.next_second() {
                    self.on_second(device, asked)?;
                }
                let io = self.generator.next_io();
                device.prefetch(io.lba);
                (self.host.now, self.host.asked[slot]) = (asked, asked);
                self.bytes_left = self.bytes_left.saturating_sub(io.data_bytes());
                let posted = device.post(queues.of_slot(slot), asked);
                queues.post(Waiting { posted, io, slot });
                self.host.slots.set(slot, FAR);
            } else if taken < FAR {
                let Waiting { posted, io, slot } = queues.take(taken);
                device.fetch(posted, io, slot as u32)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Serves what is still under way.
    fn finish(&mut self, device: &mut Device) -> Result<(), RunError> {
        while device.next_arrival() < FAR {
            let served = device.serve()?;
            self.count(served);
        }
        Ok(())
    }

    fn draw(&mut self, device: &Device, batch: &mut [Io; BATCH]) {
        for io in batch.iter_mut() {
            *io = self.generator.next_io();
            device.prefetch(io.lba);
        }
    }

    /// Once per virtual second: sensors, progress, the wish to stop, the rule for stability.
    #[cold]
    pub(crate) fn on_second(&mut self, device: &mut Device, now: Nanos) -> Result<(), RunError> {
        if self.control.cancelled() {
            return Err(RunError::Cancelled);
        }
        let counters = device.counters();
        self.recorder.sense(now, &counters, device.take_peak_power_w());
        let elapsed = now.since(self.start);
        let second = elapsed.whole_secs() as usize;
        let last = second.saturating_sub(1);
        let ios = self.recorder.rows.get(last).map_or(0, |r| r.reads + r.writes);
        self.control.publish(elapsed.0, counters.temperature_c, ios, self.recorder.bytes_in(last));
        if !self.stable && self.stable_rule.is_some_and(|rule| self.is_stable(rule, second)) {
            // One more second, so that the run ends on a whole one.
            self.stable = true;
            self.end = self.end.min(self.start.after(Nanos::secs(second as u64 + 1)));
            self.recorder.end_at(self.end);
        }
        Ok(())
    }

    /// Whether the seconds before `second` are stable by the rule.
    fn is_stable(&self, rule: Stable, second: usize) -> bool {
        let window = rule.window_s as usize;
        if second < rule.min_s as usize || second < window {
            return false;
        }
        let rates = (second - window..second).map(|s| self.recorder.bytes_in(s));
        let (low, high, sum) = rates
            .fold((u64::MAX, 0, 0u64), |(low, high, sum), r| (low.min(r), high.max(r), sum + r));
        let mean = sum as f64 / window as f64;
        (high - low) as f64 <= rule.within_percent / 100.0 * mean
    }
}
