//! Several closed loops on one drive at once, like the jobs of a fio file, and loads on several
//! submission queues.
//!
//! Each job has its own span, mix, sizes, queue depth, pacing, end and results. Over NVMe a job
//! also has its own submission queue, or several, because a fio job is a process and Linux gives
//! each processor a queue; the controller arbitrates between them by the jobs' weights
//! (`queues.rs`). If the drive or the host has fewer queues, jobs share them. Requests due in the
//! same nanosecond are made in job order. The drive's sensors and counters cover all jobs together;
//! the power peak is in the results of the first job. If the flash wears out, all jobs end. Left
//! out: priorities, requests of more than one command.

use std::ops::Range;

use drivebay_drive::{Completion, Device, DeviceError, Io, Spec};
use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::array::Array;
use crate::closed_loop::ClosedLoop;
use crate::control::Control;
use crate::error::RunError;
use crate::inside::{Inside, Keep, Kept, WatchedInside};
use crate::queue_slots::{DEPTH_MAX, NEVER};
use crate::queues::{CommandPlaces, QueuedCommand, SubmissionQueues};
use crate::recorder::{Outcome, Totals};
use crate::storage::Storage;
use crate::workload::{Workload, WorkloadError};

/// Most jobs: every request checks all of them.
const JOBS_MAX: usize = 64;

struct Job<'a, const KEEPS: bool> {
    run: ClosedLoop<'a, KEEPS>,
    /// Next request, drawn in advance so that its map entry can be prefetched.
    next: Io,
    /// Requests under way.
    outstanding: u32,
    /// Tag at the drive of the job's slot 0.
    first_tag: u32,
    /// The job's first submission queue.
    first_queue: usize,
    /// Totals per submission queue; empty for a job with one queue.
    totals: Vec<Totals>,
}

impl<const KEEPS: bool> Job<'_, KEEPS> {
    /// Returns the submission queue of a slot; a job's slots are assigned to its queues round
    /// robin.
    fn queue_of(&self, slot: usize) -> usize {
        self.first_queue + slot % self.totals.len().max(1)
    }

    /// Time of the job's next request; `NEVER` at the end and before a pause.
    fn next_request(&self) -> Nanos {
        let at = self.run.host.slots.first().1.max(self.run.due);
        if at < self.run.end && self.run.bytes_left > 0 { at } else { NEVER }
    }

    /// Makes a request; returns it with its slot within the job.
    fn request(&mut self, device: &impl Storage, at: Nanos) -> (Io, usize) {
        let run = &mut self.run;
        let slot = run.host.submit(at);
        run.host.slots.take(slot as usize);
        run.request_made(&self.next);
        self.outstanding += 1;
        let io = std::mem::replace(&mut self.next, run.generator.next_io());
        device.prefetch(self.next.lba);
        (io, slot as usize)
    }

    /// Counts a served request of the job; returns the times when it was made and completed.
    fn count(&mut self, mut served: Completion) -> (Nanos, Nanos) {
        served.tag -= self.first_tag;
        let requested = self.run.host.requested(served.tag);
        let (slot, done) = self.run.count(served);
        if done <= self.run.end && !self.totals.is_empty() {
            let own = self.queue_of(slot) - self.first_queue;
            self.totals[own].count(done.since(requested));
        }
        self.outstanding -= 1;
        (requested, done)
    }
}

/// Returns the job of a served request.
fn job_of<'j, 'c, const KEEPS: bool>(
    jobs: &'j mut [Job<'c, KEEPS>],
    served: &Completion,
) -> &'j mut Job<'c, KEEPS> {
    let index = jobs.partition_point(|job| job.first_tag <= served.tag) - 1;
    &mut jobs[index]
}

/// Runs jobs at the same time, each with its seed, from the drive's present time on; the results
/// are in job order. If `events` is above 0, also returns the events inside the drive (at most so
/// many) and its activity, for all jobs together.
///
/// # Errors
/// As [`crate::run`]; also for jobs that do not fit together.
pub fn run_jobs(
    device: &mut Device,
    jobs: &[(Workload, u64)],
    control: &Control,
    events: usize,
) -> Result<(Vec<Outcome>, Option<Inside>), RunError> {
    check(device.spec(), jobs)?;
    jobs.iter().try_for_each(|(workload, _)| workload.check_state(device))?;
    let spans = spans_apart(jobs);
    // Compiled separately, as in `run_keeping`.
    let (outcomes, kept) = match events {
        0 => run_together::<false>(device, jobs, control, Keep::default(), &spans)?,
        _ => {
            let keep = Keep { events, ..Keep::default() };
            let done = run_together::<true>(device, jobs, control, keep, &spans);
            if done.is_err() {
                device.take_events();
            }
            done?
        }
    };
    Ok((outcomes, kept.inside))
}

/// Runs jobs on an array, as [`run_jobs`] does on a drive. Members that are not whole are rebuilt
/// in parallel.
///
/// # Errors
/// As [`run_jobs`].
pub fn run_array(
    array: &mut Array,
    jobs: &[(Workload, u64)],
    control: &Control,
) -> Result<Vec<Outcome>, RunError> {
    check(array.spec(), jobs)?;
    array.check(jobs)?;
    Ok(run_together::<false>(array, jobs, control, Keep::default(), &[])?.0)
}

/// Runs checked jobs at the same time; returns their results, the samples of the first job and the
/// events of all. `spans` are sectors whose copies are counted apart, one span for each job.
pub(crate) fn run_together<const KEEPS: bool>(
    device: &mut impl Storage,
    jobs: &[(Workload, u64)],
    control: &Control,
    keep: Keep,
    spans: &[Range<u64>],
) -> Result<(Vec<Outcome>, Kept), RunError> {
    let mut running = start::<KEEPS>(device, jobs, control, keep.sample_every);
    let mut controller = Controller::new(device, jobs);
    if let Some(device) = device.single() {
        device.count_copies_of(spans);
    }
    let mut inside = WatchedInside::<KEEPS>::new(device, keep.events);
    let ended = run_to_end(device, &mut running, &mut controller, &mut inside);
    end_with(device, &mut running, ended)?;
    let mut kept = Kept::default();
    let mut outcomes = Vec::new();
    for job in running {
        let (outcome, Kept { mut samples, .. }) = job.run.finish(device);
        kept.samples.append(&mut samples);
        let queues = if job.totals.is_empty() { outcome.queues } else { job.totals };
        outcomes.push(Outcome { queues, ..outcome });
    }
    let copied = device.single().map(|device| device.count_copies_of(&[])).unwrap_or_default();
    outcomes.iter_mut().zip(copied).for_each(|(outcome, copied)| outcome.copied_4k = Some(copied));
    let end = outcomes.iter().map(|outcome| outcome.end).max().expect("there is a job");
    kept.inside = inside.finish(device, end);
    Ok((outcomes, kept))
}

/// Prepares jobs to run from the device's present time on.
fn start<'a, const KEEPS: bool>(
    device: &mut impl Storage,
    jobs: &[(Workload, u64)],
    control: &'a Control,
    sample_every: u64,
) -> Vec<Job<'a, KEEPS>> {
    let keep = Keep { sample_every, ..Keep::default() };
    let (mut first_tag, mut first_queue) = (0, 0);
    let mut start = |(workload, seed): &(Workload, u64)| {
        let mut run = ClosedLoop::new(device, workload, *seed, control, keep);
        let next = run.generator.next_io();
        let totals = vec![Totals::default(); queues_with_totals(workload)];
        let job = Job { run, next, outstanding: 0, first_tag, first_queue, totals };
        first_tag += workload.queue_depth * workload.queues;
        first_queue += workload.queues as usize;
        job
    };
    jobs.iter().map(&mut start).collect()
}

/// Runs until all jobs have ended. Each iteration processes the earliest event: of the device, the
/// end of a second, a request of a job, or a fetch by the controller; ties are resolved in this
/// order.
fn run_to_end<const KEEPS: bool>(
    device: &mut impl Storage,
    running: &mut [Job<'_, KEEPS>],
    controller: &mut Controller,
    inside: &mut WatchedInside<KEEPS>,
) -> Result<(), RunError> {
    loop {
        let due = running.iter().enumerate().map(|(number, job)| (job.next_request(), number));
        let (request, number) = due.min().expect("there is a job");
        let (fetch, place) = controller.next_fetch(device);
        let next = request.min(fetch);
        let arrival = device.next_arrival();
        // An array may have background work (a rebuild) that belongs to no job.
        let is_awaited = next < NEVER || running.iter().any(|job| job.outstanding > 0);
        if is_awaited && arrival < NEVER && arrival <= next {
            let Some(served) = device.serve()? else { continue };
            controller.places.release(served.done);
            let job = job_of(running, &served);
            let (requested, done) = job.count(served);
            inside.add_outstanding(requested, done.min(job.run.end));
            if job.outstanding == 0 && job.run.due == NEVER {
                job.run.resume();
            }
        } else if next == NEVER {
            return Ok(());
        } else if next >= running[0].run.recorder.next_second() {
            for job in running.iter_mut() {
                job.run.on_second(device, next)?;
            }
        } else if request < fetch {
            inside.look(device, request);
            controller.submit(device, &mut running[number], request)?;
        } else {
            controller.fetch(device, fetch, place)?;
        }
    }
}

/// The controller's side of the jobs: submission queues, and places for commands.
struct Controller {
    queues: SubmissionQueues,
    places: CommandPlaces,
    /// With one queue and enough places there is nothing to arbitrate and nothing to wait for.
    takes_at_once: bool,
}

impl Controller {
    fn new(device: &impl Storage, jobs: &[(Workload, u64)]) -> Controller {
        let tags = jobs.iter().map(|(job, _)| job.queue_depth * job.queues).sum();
        let places = CommandPlaces::new(device.spec().host_interface, tags, device.now());
        let count = queues_of(device.spec(), jobs);
        let weights = jobs.iter().flat_map(|(job, _)| vec![job.weight; job.queues as usize]);
        let queues = SubmissionQueues::weighted(weights.take(count as usize).collect());
        let takes_at_once = count == 1 && places.are_unlimited();
        Controller { queues, places, takes_at_once }
    }

    /// Time of the next fetch, `NEVER` if no command waits, and time from which a place is free.
    #[inline(always)]
    fn next_fetch(&self, device: &impl Storage) -> (Nanos, Nanos) {
        let place = self.places.free_at();
        let fetch = self.queues.fetches_at(device.fetch_free_at().max(place));
        (fetch.unwrap_or(NEVER), place)
    }

    /// Makes the next request of a job at `at`, and posts it.
    #[inline(always)]
    fn submit<const KEEPS: bool>(
        &mut self,
        device: &mut impl Storage,
        job: &mut Job<'_, KEEPS>,
        at: Nanos,
    ) -> Result<(), DeviceError> {
        let (io, own_slot) = job.request(device, at);
        let slot = job.first_tag as usize + own_slot;
        if self.takes_at_once {
            return device.accept(at, io, slot as u32);
        }
        let queue = self.queues.queue_of_slot(job.queue_of(own_slot));
        let posted = device.post(queue, at);
        self.queues.submit(QueuedCommand { posted, io, queue, slot });
        Ok(())
    }

    /// Fetches a posted command at `at`, into a place that is free from `place` on.
    #[inline(always)]
    fn fetch(
        &mut self,
        device: &mut impl Storage,
        at: Nanos,
        place: Nanos,
    ) -> Result<(), DeviceError> {
        let QueuedCommand { posted, io, slot, .. } = self.queues.fetch(at);
        self.places.take();
        device.fetch(posted, place, io, slot as u32)
    }
}

/// The jobs' spans in sectors; empty if two of them overlap.
fn spans_apart(jobs: &[(Workload, u64)]) -> Vec<Range<u64>> {
    let span = |(job, _): &(Workload, u64)| {
        let first = job.span_start_bytes / SECTOR_BYTES;
        first..first + (job.span_bytes / SECTOR_BYTES).max(1)
    };
    let spans: Vec<_> = jobs.iter().map(span).collect();
    let mut sorted = spans.clone();
    sorted.sort_by_key(|span| span.start);
    let apart = sorted.windows(2).all(|pair| pair[0].end <= pair[1].start);
    if apart { spans } else { Vec::new() }
}

/// Handles the end of the loop. If the flash wore out, the outstanding requests are served, and the
/// results so far are the outcomes, unless there are none; compare `ClosedLoop::end_with`.
fn end_with<const KEEPS: bool>(
    device: &mut impl Storage,
    running: &mut [Job<'_, KEEPS>],
    ended: Result<(), RunError>,
) -> Result<(), RunError> {
    let Err(RunError::Device(DeviceError::ReadOnly { .. })) = ended else { return ended };
    while device.next_arrival() < NEVER {
        match device.serve() {
            Ok(None) => {}
            Ok(Some(served)) => drop(job_of(running, &served).count(served)),
            Err(DeviceError::ReadOnly { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if running.iter().all(|job| job.run.latest == job.run.start) {
        return ended;
    }
    running.iter_mut().for_each(|job| job.run.end_worn_out());
    Ok(())
}

/// Number of queues for which a job keeps totals.
fn queues_with_totals(workload: &Workload) -> usize {
    if workload.queues > 1 { workload.queues as usize } else { 0 }
}

/// Number of submission queues of all jobs together.
fn queues_of(spec: &Spec, jobs: &[(Workload, u64)]) -> u32 {
    let asked: u32 = jobs.iter().map(|(workload, _)| workload.queues).sum();
    asked.min(spec.host_interface.queues_max).min(spec.host.queues_max)
}

fn check(spec: &Spec, jobs: &[(Workload, u64)]) -> Result<(), WorkloadError> {
    if !(1..=JOBS_MAX).contains(&jobs.len()) {
        let allowed = format!("1 to {JOBS_MAX} jobs");
        return WorkloadError::refuse("jobs", &jobs.len(), &allowed);
    }
    let mut together = 0;
    for (workload, _) in jobs {
        workload.check(spec)?;
        together += u64::from(workload.queue_depth) * u64::from(workload.queues);
        if workload.stop.stable.is_some() {
            let allowed = "missing: jobs end by time or bytes";
            return WorkloadError::refuse("stop.stable", "a rule", allowed);
        }
        let most = u64::from(spec.host.transfer_max) * SECTOR_BYTES;
        if workload.largest_bytes() > most {
            let allowed = format!("at most {most}, one command, in a job");
            return WorkloadError::refuse("block_bytes", &workload.largest_bytes(), &allowed);
        }
    }
    let carried = spec.queue_depth_max.saturating_mul(queues_of(spec, jobs));
    let room = carried.min(DEPTH_MAX as u32);
    if together > u64::from(room) {
        let allowed = format!("at most {room} in all jobs together");
        return WorkloadError::refuse("queue_depth", &together, &allowed);
    }
    Ok(())
}
