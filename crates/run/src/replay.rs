//! A trace on a virtual drive: an open loop, paced by the recording.
//!
//! The rules are `docs/concepts/replay.md`: the pacer says when a request is released, the
//! placement where it goes; both are the ones that a real drive's replay uses. A second thread
//! reads or makes the requests and places them, a bounded number ahead; the drive sees them in
//! order, so the result is the same however the threads run. Latency counts from release: waiting
//! for a command slot is the host's stage. Trims and flushes, where they are asked for, take a
//! command slot and the drive's time, and count in no figure. Left out: what the host does besides.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use drivebay_drive::{Completion, Device, DeviceError, Io, Op, Stage};
use drivebay_trace::{
    Op as TraceOp, Pace, PaceError, Pacer, PlaceError, Placement, Request, RequestSource, Rule,
    Ticket, TraceError,
};
use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::control::Control;
use crate::inside::{Inside, Watch, next_look};
use crate::queue_depth::{DepthTracker, QueueDepths};
use crate::queue_slots::{DEPTH_MAX, NEVER, QueueSlots};
use crate::recorder::{Outcome, Recorder};

/// Requests that go from thread to thread at once, and how many such batches may lie between them.
const BATCH: usize = 4096;
const BATCHES: usize = 4;
/// How many requests ahead map entries are fetched.
const AHEAD: usize = 24;
const LONG: Nanos = Nanos::millis(10);
const VERY_LONG: Nanos = Nanos::millis(100);

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayOptions {
    /// When requests are released.
    pub pace: Pace,
    /// Where they go.
    pub rule: Rule,
    /// Where the recording's highest address ends, in bytes; 0 if nobody knows. Needed to scale.
    pub recorded_bytes: u64,
    /// Whether trims and flushes are replayed.
    pub trim: bool,
    /// The number of a request's device is its placement handle; else all go through handle 0.
    pub handle_by_device: bool,
    /// Events inside the drive that are kept at most; 0: nothing is.
    pub events: usize,
}

/// Everything known after a replay.
pub struct ReplayOutcome {
    /// As of any run: from the first release to the last completion.
    pub outcome: Outcome,
    /// The host's queue.
    pub depths: QueueDepths,
    /// I/Os over 10 ms, and over 100 ms.
    pub long: [u64; 2],
    /// Trims and flushes that were left out.
    pub skipped: u64,
    /// What happened inside the drive, if it was kept.
    pub inside: Option<Inside>,
}

/// Why a replay ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The pace is not possible.
    #[error(transparent)]
    Pace(#[from] PaceError),
    /// A request does not fit the drive.
    #[error("{trace}: request {number}: {problem}")]
    Address {
        /// The trace's name, as the user gave it.
        trace: String,
        /// Number of the request in the trace, counted from 1.
        number: u64,
        /// How it breaks the rule for addresses.
        problem: PlaceError,
    },
    /// A device of the trace has no placement handle.
    #[error(
        "{trace}: request {number}: device {device} is not allowed; must be below {handles}, the placement handles of \
         the drive\nhint: --set fdp=8, or leave out --handle-by device"
    )]
    Handle {
        /// The trace's name, as the user gave it.
        trace: String,
        /// Number of the request in the trace, counted from 1.
        number: u64,
        /// Of the request.
        device: u32,
        /// That the drive has; one without placement.
        handles: u32,
    },
    /// To scale, the recording's size must be known.
    #[error(
        "scale: the size of the recorded drive is not known\nhint: give it, or fold the addresses"
    )]
    UnknownSize,
    /// A trace has no resets of zones.
    #[error(
        "a drive with zones takes no trace, which writes anywhere\nhint: --set zns=none, or the suite zones"
    )]
    Zones,
    /// The drive refused a command.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Somebody asked to stop.
    #[error("cancelled\nhint: run it again")]
    Cancelled,
}

/// A request with its place on the drive.
#[derive(Clone, Copy)]
struct Step {
    at: Nanos,
    response: Option<Nanos>,
    /// None for what is left out but counts as time of the recording.
    io: Option<Io>,
}

type Batch = Result<Vec<Step>, ReplayError>;

/// Replays a trace on a drive, from the drive's present time on.
///
/// # Errors
/// [`ReplayError`]; the drive is in an undefined but valid state then. A drive that wears out on
/// the way is none: [`Outcome::worn_out`].
pub fn replay(
    device: &mut Device,
    source: &mut dyn RequestSource,
    options: &ReplayOptions,
    control: &Control,
) -> Result<ReplayOutcome, ReplayError> {
    let capacity = device.spec().capacity_bytes();
    if device.spec().zones.is_some() {
        return Err(ReplayError::Zones);
    }
    if options.rule == Rule::Scale && options.recorded_bytes == 0 {
        return Err(ReplayError::UnknownSize);
    }
    let pacer = Pacer::new(options.pace)?;
    let placement =
        Placement::new(options.rule, capacity, SECTOR_BYTES, options.recorded_bytes).map_err(
            |problem| ReplayError::Address { trace: source.name().to_string(), number: 1, problem },
        )?;
    let trim = options.trim;
    let handles = options.handle_by_device.then(|| device.spec().streams.handles.max(1) as u32);
    std::thread::scope(|scope| {
        let (send, batches) = sync_channel::<Batch>(BATCHES);
        let (give_back, empty) = sync_channel::<Vec<Step>>(BATCHES + 2);
        scope.spawn(move || {
            if let Err(error) = produce(source, &placement, trim, handles, control, &send, &empty) {
                // Nobody listens any more if the replay has failed meanwhile.
                send.send(Err(error)).ok();
            }
        });
        // Both ends go when this is over, which ends the other thread.
        // Compiled apart, as in `run_keeping`.
        if options.events == 0 {
            return OpenLoop::<false>::new(device, pacer, control, 0)
                .run(device, batches, give_back);
        }
        let replay = OpenLoop::<true>::new(device, pacer, control, options.events);
        let done = replay.run(device, batches, give_back);
        if done.is_err() {
            device.take_events();
        }
        done
    })
}

/// The other thread: requests, placed, in batches.
fn produce(
    source: &mut dyn RequestSource,
    placement: &Placement,
    trim: bool,
    handles: Option<u32>,
    control: &Control,
    send: &SyncSender<Batch>,
    empty: &Receiver<Vec<Step>>,
) -> Result<(), ReplayError> {
    let name = source.name().to_string();
    let mut number = 0;
    while let Some(requests) = source.next_requests(&mut || !control.cancelled())? {
        for requests in requests.chunks(BATCH) {
            let mut batch = empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
            batch.clear();
            for request in requests {
                number += 1;
                let mut step = step(request, placement, trim).map_err(|problem| {
                    ReplayError::Address { trace: name.clone(), number, problem }
                })?;
                if let (Some(handles), Some(io)) = (handles, &mut step.io) {
                    let device = request.device;
                    io.handle = u8::try_from(device).ok().filter(|_| device < handles).ok_or_else(
                        || ReplayError::Handle { trace: name.clone(), number, device, handles },
                    )?;
                }
                batch.push(step);
            }
            if send.send(Ok(batch)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[inline]
fn step(request: &Request, placement: &Placement, trim: bool) -> Result<Step, PlaceError> {
    let op = match request.op {
        TraceOp::Read => Some(Op::Read),
        TraceOp::Write => Some(Op::Write),
        TraceOp::Trim => trim.then_some(Op::Trim),
        TraceOp::Flush => trim.then_some(Op::Flush),
    };
    let io = match op {
        None => None,
        Some(Op::Flush) => Some(Io::new(Op::Flush, 0, 0)),
        Some(op) => {
            let (start, bytes) = placement.place(request)?;
            // 2 TiB at once: more than any virtual drive's trim needs.
            let sectors = u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX);
            Some(Io::new(op, start / SECTOR_BYTES, sectors))
        }
    };
    Ok(Step { at: request.at, response: request.response, io })
}

/// Reads and writes are what figures are made from.
#[inline(always)]
fn counts(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

/// What a command slot holds.
#[derive(Clone, Copy)]
struct InFlight {
    released: Nanos,
    ticket: Option<Ticket>,
}

struct OpenLoop<'a, const KEEPS: bool> {
    watch: Option<Watch>,
    /// When to look into the drive next.
    next_look: Nanos,
    pacer: Pacer,
    slots: QueueSlots,
    in_flight: Vec<InFlight>,
    outstanding: DepthTracker,
    recorder: Recorder,
    long: [u64; 2],
    skipped: u64,
    /// Completion so far.
    served: u64,
    /// Last submission.
    now: Nanos,
    latest: Nanos,
    start: Nanos,
    control: &'a Control,
}

impl<'a, const KEEPS: bool> OpenLoop<'a, KEEPS> {
    fn new(
        device: &mut Device,
        pacer: Pacer,
        control: &'a Control,
        events: usize,
    ) -> OpenLoop<'a, KEEPS> {
        let start = device.now();
        let watch = KEEPS.then(|| Watch::new(device, events));
        let depth = (device.spec().queue_depth_max as usize).min(DEPTH_MAX);
        OpenLoop {
            next_look: next_look(watch.as_ref()),
            watch,
            pacer,
            slots: QueueSlots::new(depth, start),
            in_flight: vec![InFlight { released: start, ticket: None }; depth],
            outstanding: DepthTracker::new(start),
            recorder: Recorder::new(start, NEVER, device.counters()),
            long: [0; 2],
            skipped: 0,
            served: 0,
            now: start,
            latest: start,
            start,
            control,
        }
    }

    fn run(
        mut self,
        device: &mut Device,
        batches: Receiver<Batch>,
        give_back: SyncSender<Vec<Step>>,
    ) -> Result<ReplayOutcome, ReplayError> {
        let worn_out = match self.run_all(device, &batches, &give_back) {
            Err(ReplayError::Device(DeviceError::ReadOnly { .. })) if self.served > 0 => true,
            ended => {
                ended?;
                false
            }
        };
        while worn_out && device.next_arrival() < NEVER {
            match self.serve(device) {
                Ok(()) | Err(ReplayError::Device(DeviceError::ReadOnly { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        let end = self.latest.max(self.now);
        self.outstanding.refuse_rest(end);
        let outcome = self.recorder.finish(device, end, end);
        Ok(ReplayOutcome {
            outcome: Outcome { worn_out, ..outcome },
            inside: self.watch.and_then(|watch| watch.finish(device, end)),
            depths: self.outstanding.finish(),
            long: self.long,
            skipped: self.skipped,
        })
    }

    /// The whole recording, until it ends or the flash is worn out.
    fn run_all(
        &mut self,
        device: &mut Device,
        batches: &Receiver<Batch>,
        give_back: &SyncSender<Vec<Step>>,
    ) -> Result<(), ReplayError> {
        for batch in batches {
            let batch = batch?;
            for i in 0..batch.len() {
                if let Some(Io { lba, sectors, .. }) = batch.get(i + AHEAD).and_then(|step| step.io)
                {
                    device.prefetch(lba);
                    device.prefetch((lba + u64::from(sectors)).saturating_sub(1));
                }
                self.step(device, batch[i])?;
            }
            // When the other thread has ended there is nobody to take it.
            give_back.try_send(batch).ok();
        }
        if self.control.cancelled() {
            return Err(ReplayError::Cancelled);
        }
        while device.next_arrival() < NEVER {
            self.serve(device)?;
        }
        Ok(())
    }

    /// One request of the recording: released, submitted when a slot is free.
    #[inline(always)]
    fn step(&mut self, device: &mut Device, step: Step) -> Result<(), ReplayError> {
        self.pacer.admit(step.at, step.response);
        let Some(io) = step.io else {
            self.skipped += 1;
            return Ok(());
        };
        // What reaches the flash core before this request can be submitted is served first.
        let (released, now) = loop {
            let (_, free) = self.slots.first();
            let released = self.pacer.release().map(|since| self.start.after(since));
            if let Some(released) = released {
                let now = released.max(free).max(self.now);
                if now < device.next_arrival() {
                    break (released, now);
                }
            }
            self.serve(device)?;
        };
        if KEEPS
            && now >= self.next_look
            && let Some(watch) = &mut self.watch
        {
            watch.read(device, now);
            self.next_look = watch.next();
        }
        if now >= self.recorder.next_second()
            && !self.recorder.on_second(device, self.control, now, self.served)
        {
            return Err(ReplayError::Cancelled);
        }
        let (slot, _) = self.slots.first();
        if counts(io.op) {
            self.outstanding.released(released);
        }
        self.in_flight[slot] = InFlight { released, ticket: Some(self.pacer.issue()) };
        self.now = now;
        device.accept(now, io, slot as u32, Nanos::ZERO)?;
        self.slots.take(slot);
        Ok(())
    }

    /// Serves the request whose turn it is, and counts it.
    #[inline(always)]
    fn serve(&mut self, device: &mut Device) -> Result<(), ReplayError> {
        let Some(mut completion) = device.serve()? else { return Ok(()) };
        let Completion { tag, io, submitted, .. } = completion;
        let InFlight { released, ticket } = self.in_flight[tag as usize];
        completion.stages.add(Stage::Host, submitted.since(released));
        let done = completion.done;
        let latency = done.since(released);
        self.slots.set(tag as usize, done);
        self.latest = self.latest.max(done);
        if let Some(ticket) = ticket {
            self.pacer.completed(ticket, done.since(self.start));
        }
        if KEEPS && let Some(watch) = &mut self.watch {
            watch.outstanding.add(0, released, done);
        }
        if !counts(io.op) {
            return Ok(());
        }
        self.outstanding.completed(done);
        self.long[0] += u64::from(latency > LONG);
        self.long[1] += u64::from(latency > VERY_LONG);
        self.served += 1;
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        self.recorder.count(io.op, bytes, latency, done, &completion.stages);
        if completion.media_error {
            self.recorder.count_media_error(done);
        }
        Ok(())
    }
}
