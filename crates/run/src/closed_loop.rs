//! The closed loop: a host that keeps a constant number of requests outstanding, in virtual time.
//!
//! Each iteration takes the first free queue slot, serves the requests that reach the flash core
//! before the slot is free, and submits the next request. Requests are drawn in batches so that
//! their map entries can be prefetched: with a map of 500 MB, cache misses dominate the cost. If
//! the queue depth exceeds the number of commands that the interface carries, the surplus waits in
//! the host's own queue, and this wait counts as host time. A load on several submission queues
//! runs like a job (`jobs.rs`).

use std::collections::VecDeque;

use drivebay_drive::{Completion, Device, DeviceError, Io, Op, Spec, Stage};
use drivebay_units::{Nanos, SECTOR_BYTES, refuse_if};

use crate::control::Control;
use crate::error::RunError;
use crate::generator::Generator;
use crate::inside::{Keep, Kept, Sample, WatchedInside};
use crate::pacing::Pacing;
use crate::queue_slots::{DEPTH_MAX, NEVER, QueueSlots};
use crate::recorder::{Outcome, Recorder};
use crate::storage::Storage;
use crate::workload::{Stable, Workload};

/// Requests per batch.
const BATCH: usize = 32;

/// Host side: outstanding commands, and requests that wait for a command slot.
pub(crate) struct HostQueue {
    pub(crate) slots: QueueSlots,
    /// Per slot: time when its request was made.
    requested: Vec<Nanos>,
    /// Times when the waiting requests were made, oldest first.
    waiting: VecDeque<Nanos>,
    /// Time from a completion to the next request in its place.
    between: Nanos,
    /// Time of the last submission.
    pub(crate) now: Nanos,
}

impl HostQueue {
    /// Most commands outstanding at the drive.
    pub(crate) fn commands(&self) -> usize {
        self.requested.len()
    }

    /// Time when the request of a slot was made.
    pub(crate) fn requested(&self, slot: u32) -> Nanos {
        self.requested[slot as usize]
    }

    fn new(workload: &Workload, spec: &Spec, start: Nanos) -> HostQueue {
        let depth = workload.queue_depth * workload.queues;
        let most = spec.queue_depth_max.saturating_mul(workload.queues);
        // Requests are split into commands only on a single queue (`split.rs`).
        let cut = if workload.queues > 1 { 0 } else { workload.largest_bytes() };
        let parts = cut.div_ceil(u64::from(spec.host.transfer_max) * SECTOR_BYTES).max(1);
        let commands = u64::from(depth) * parts;
        let outstanding = commands.min(u64::from(most.min(DEPTH_MAX as u32))) as u32;
        HostQueue {
            slots: QueueSlots::new(outstanding as usize, start),
            requested: vec![start; outstanding as usize],
            waiting: std::iter::repeat_n(start, depth.saturating_sub(outstanding) as usize)
                .collect(),
            between: spec.host.between,
            now: start,
        }
    }

    /// Earliest time of the request that follows one completed at `done`.
    #[inline(always)]
    pub(crate) fn next_after(&self, done: Nanos) -> Nanos {
        done.after(self.between)
    }

    /// Assigns the first free slot to a request at `now`, the longest waiting first.
    #[inline(always)]
    pub(crate) fn submit(&mut self, now: Nanos) -> u32 {
        let (slot, _) = self.slots.first();
        self.now = now;
        self.requested[slot] = now;
        if !self.waiting.is_empty() {
            self.waiting.push_back(now);
            self.requested[slot] = self.waiting.pop_front().expect("one was just added");
        }
        slot as u32
    }
}

/// Samples every n-th I/O.
pub(crate) struct Sampling {
    every: u64,
    /// I/Os until the next sample.
    left: u64,
    taken: Vec<Sample>,
}

/// A run. `KEEPS` compiles the plain run separately from the one that keeps samples or events.
pub(crate) struct ClosedLoop<'a, const KEEPS: bool> {
    samples: Sampling,
    pub(crate) inside: WatchedInside<KEEPS>,
    pub(crate) generator: Generator,
    pub(crate) host: HostQueue,
    pub(crate) recorder: Recorder,
    pub(crate) bytes_left: u64,
    pacing: Option<Pacing>,
    /// Earliest time of the next request: zero without pacing, `NEVER` before a pause.
    pub(crate) due: Nanos,
    pub(crate) latest: Nanos,
    stable_rule: Option<Stable>,
    stable: bool,
    worn_out: bool,
    control: &'a Control,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

impl<'a, const KEEPS: bool> ClosedLoop<'a, KEEPS> {
    /// Creates a run that starts at the drive's present time.
    pub(crate) fn new(
        device: &mut impl Storage,
        workload: &Workload,
        seed: u64,
        control: &'a Control,
        keep: Keep,
    ) -> ClosedLoop<'a, KEEPS> {
        device.take_peak_power_w();
        let start = device.now();
        let every = keep.sample_every;
        let end = workload.duration().map_or(Nanos(u64::MAX), |len| start.after(len));
        ClosedLoop {
            samples: Sampling { every, left: every, taken: Vec::new() },
            inside: WatchedInside::new(device, keep.events),
            generator: Generator::on(workload, seed, device.spec()),
            host: HostQueue::new(workload, device.spec(), start),
            recorder: Recorder::new(start, end, device.counters()),
            bytes_left: workload.stop.bytes.unwrap_or(u64::MAX),
            pacing: Pacing::new(workload, seed),
            due: Nanos::ZERO,
            latest: start,
            stable_rule: workload.stop.stable,
            stable: false,
            worn_out: false,
            control,
            start,
            end,
        }
    }

    /// Returns the results, and the samples and events. A run limited by time ends at its time
    /// limit, one limited by amount with its last completion.
    pub(crate) fn finish(self, device: &mut impl Storage) -> (Outcome, Kept) {
        let by_amount = self.bytes_left == 0 || self.end.0 == u64::MAX;
        let end = if by_amount { self.latest.min(self.end) } else { self.end };
        let outcome = self.recorder.finish(device, end, end.max(self.host.now));
        (
            Outcome { stable: self.stable, worn_out: self.worn_out, ..outcome },
            Kept { samples: self.samples.taken, inside: self.inside.finish(device, end) },
        )
    }

    /// Handles the end of the loop. If the flash wore out, the outstanding requests are served, and
    /// the results so far are the outcome, unless there are none.
    pub(crate) fn end_with(
        &mut self,
        device: &mut Device,
        ended: Result<(), RunError>,
    ) -> Result<(), RunError> {
        let Err(RunError::Device(DeviceError::ReadOnly { .. })) = ended else { return ended };
        while device.next_arrival() < NEVER {
            match device.serve() {
                Ok(served) => drop(served.map(|served| self.count(served))),
                Err(DeviceError::ReadOnly { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.latest == self.start {
            return ended;
        }
        self.end_worn_out();
        Ok(())
    }

    /// The flash wore out: the run ends with its last completion.
    pub(crate) fn end_worn_out(&mut self) {
        self.worn_out = true;
        self.end = self.end.min(self.latest);
    }

    /// Runs on one submission queue, with one command per request.
    pub(crate) fn run_single(&mut self, device: &mut Device) -> Result<(), RunError> {
        const NOTHING: Io = Io::new(Op::Read, 0, 1);
        let mut batches = [[NOTHING; BATCH]; 2];
        self.draw(device, &mut batches[0]);
        loop {
            let [current, next] = &mut batches;
            self.draw(device, next);
            for &io in current.iter() {
                let now = self.next_submission(device)?;
                if now >= self.end || self.bytes_left == 0 {
                    return self.drain(device);
                }
                self.inside.look(device, now);
                if now >= self.recorder.next_second() {
                    self.on_second(device, now)?;
                }
                let slot = self.host.submit(now);
                self.request_made(&io);
                // The request's own slot is taken, so the first free slot is that of the next
                // submission.
                self.host.slots.take(slot as usize);
                let until = self.host.slots.first_at();
                if let Some(served) = device.accept(now, io, slot, until.max(self.due))? {
                    self.count(served);
                }
                if self.due == NEVER {
                    self.pause(device)?;
                }
            }
            batches.swap(0, 1);
        }
    }

    /// Serves all requests that reach the flash core before the host can submit again; returns the
    /// time of that submission.
    #[inline(always)]
    fn next_submission(&mut self, device: &mut Device) -> Result<Nanos, RunError> {
        loop {
            let at = self.host.slots.first_at().max(self.due);
            if at < device.next_arrival() {
                return Ok(at);
            }
            if let Some(served) = device.serve()? {
                self.count(served);
            }
        }
    }

    /// Updates the remaining amount, and the earliest time of the next request. A flush belongs to
    /// the write before it.
    #[inline(always)]
    pub(crate) fn request_made(&mut self, io: &Io) {
        self.bytes_left = self.bytes_left.saturating_sub(self.generator.amount(io));
        if let Some(pacing) = &mut self.pacing
            && io.op != Op::Flush
        {
            self.due = pacing.next(self.start, io.data_bytes());
        }
    }

    /// Sets the time of the next request after a think time; all earlier requests are complete.
    pub(crate) fn resume(&mut self) {
        self.due = self.pacing.as_mut().map_or(Nanos::ZERO, |pacing| pacing.resume(self.latest));
    }

    #[cold]
    fn pause(&mut self, device: &mut Device) -> Result<(), RunError> {
        self.drain(device)?;
        self.resume();
        Ok(())
    }

    /// Counts a served request; returns its slot and its completion time.
    #[inline(always)]
    pub(crate) fn count(&mut self, mut completion: Completion) -> (usize, Nanos) {
        let Completion { tag, io, submitted, .. } = completion;
        let requested = self.host.requested[tag as usize];
        completion.stages.add(Stage::Host, submitted.since(requested));
        let done = completion.done;
        self.host.slots.set(tag as usize, self.host.next_after(done));
        self.latest = self.latest.max(done);
        self.inside.add_outstanding(requested, done.min(self.end));
        let latency = done.since(requested);
        if self.generator.counts_apart(io.op) {
            self.recorder.count_apart(io.op, latency, done);
            return (tag as usize, done);
        }
        self.recorder.count(io.op, io.data_bytes(), latency, done, &completion.stages);
        if completion.media_error {
            self.recorder.count_media_error(done);
        }
        self.sample(io, requested, done);
        (tag as usize, done)
    }

    /// Keeps every n-th counted I/O as a sample.
    #[inline(always)]
    pub(crate) fn sample(&mut self, io: Io, requested: Nanos, done: Nanos) {
        if !KEEPS || self.samples.every == 0 || done > self.end {
            return;
        }
        self.samples.left -= 1;
        if self.samples.left == 0 {
            self.samples.left = self.samples.every;
            self.samples.taken.push(Sample { io, requested, completed: done });
        }
    }

    /// Serves all outstanding requests.
    fn drain(&mut self, device: &mut Device) -> Result<(), RunError> {
        while device.next_arrival() < NEVER {
            if let Some(served) = device.serve()? {
                self.count(served);
            }
        }
        Ok(())
    }

    fn draw(&mut self, device: &Device, batch: &mut [Io; BATCH]) {
        for io in batch.iter_mut() {
            *io = self.generator.next_io();
            device.prefetch(io.lba);
        }
    }

    /// Runs once per virtual second: sensors, progress, cancellation, and the stability rule.
    #[cold]
    pub(crate) fn on_second(
        &mut self,
        device: &mut impl Storage,
        now: Nanos,
    ) -> Result<(), RunError> {
        refuse_if(!self.recorder.on_second(device, self.control, now, 0), RunError::Cancelled)?;
        let second = now.since(self.start).whole_secs() as usize;
        if !self.stable && self.stable_rule.is_some_and(|rule| self.is_stable(rule, second)) {
            // One more second, so that the run ends on a whole second.
            self.stable = true;
            self.end = self.end.min(self.start.after(Nanos::secs(second as u64 + 1)));
            self.recorder.end_at(self.end);
        }
        Ok(())
    }

    /// True if the seconds before `second` are stable by the rule.
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
