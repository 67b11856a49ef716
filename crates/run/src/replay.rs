//! Replay of a trace on a virtual drive: an open loop, paced by the recording.
//!
//! The rules are in `docs/concepts/replay.md`: the pacer releases requests, the placement maps
//! their addresses; replay on a real drive uses the same two. A second thread reads or generates
//! the requests and places them, a bounded number ahead. The drive processes them in order, so the
//! result does not depend on thread timing. Latency counts from release; the wait for a command
//! slot belongs to the host's stage. Trims and flushes, if enabled, take a command slot and the
//! drive's time, but are left out of all results. Left out: other activity of the host.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use drivebay_drive::{Completion, Device, DeviceError, Io, Op, Stage};
use drivebay_trace::{
    Op as TraceOp, Pace, PaceError, Pacer, PlaceError, Placement, Request, RequestSource, Rule,
    Ticket, TraceError,
};
use drivebay_units::{Nanos, SECTOR_BYTES, refuse_if};

use crate::control::Control;
use crate::inside::{Inside, WatchedInside};
use crate::queue_depth::{DepthTracker, QueueDepths};
use crate::queue_slots::{DEPTH_MAX, NEVER, QueueSlots};
use crate::recorder::{Outcome, Recorder};

/// Requests per batch between the threads, and most batches in transit.
const BATCH: usize = 4096;
const BATCHES: usize = 4;
/// Number of requests that map entries are prefetched ahead.
const AHEAD: usize = 24;
const LONG: Nanos = Nanos::millis(10);
const VERY_LONG: Nanos = Nanos::millis(100);

/// Options of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayOptions {
    /// Pace of the releases.
    pub pace: Pace,
    /// Placement of the recorded addresses on the drive.
    pub rule: Rule,
    /// End of the highest recorded address, in bytes; 0 if unknown. Required for scaling.
    pub recorded_bytes: u64,
    /// True to replay trims and flushes.
    pub trim: bool,
    /// True to use the number of a request's device as its placement handle; otherwise all requests
    /// use handle 0.
    pub handle_by_device: bool,
    /// Most events inside the drive to keep; 0 keeps nothing.
    pub events: usize,
}

/// Results of a replay.
pub struct ReplayOutcome {
    /// Results as of any run, from the first release to the last completion.
    pub outcome: Outcome,
    /// Statistics of the host's queue.
    pub depths: QueueDepths,
    /// I/Os over 10 ms, and over 100 ms.
    pub long: [u64; 2],
    /// Trims and flushes that were skipped.
    pub skipped: u64,
    /// Events inside the drive, if kept.
    pub inside: Option<Inside>,
}

/// Reason why a replay ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The pace is invalid.
    #[error(transparent)]
    Pace(#[from] PaceError),
    /// A request does not fit the drive.
    #[error("{trace}: request {number}: {problem}")]
    Address {
        /// Name of the trace as the user gave it.
        trace: String,
        /// Number of the request in the trace, counted from 1.
        number: u64,
        /// The broken rule.
        problem: PlaceError,
    },
    /// A device number of the trace exceeds the placement handles.
    #[error(
        "{trace}: request {number}: device {device} is not allowed; must be below {handles}, the drive's number of \
         placement handles\nhint: --set fdp=8, or leave out --handle-by device"
    )]
    Handle {
        /// Name of the trace as the user gave it.
        trace: String,
        /// Number of the request in the trace, counted from 1.
        number: u64,
        /// Device number of the request.
        device: u32,
        /// Placement handles of the drive; 1 without Flexible Data Placement.
        handles: u32,
    },
    /// Scaling requires the size of the recorded drive.
    #[error(
        "scale: the size of the recorded drive is not known\nhint: give the size, or fold the addresses"
    )]
    UnknownSize,
    /// Zoned drives take no traces, which have no zone resets.
    #[error(
        "a drive with zones cannot replay a trace, which writes anywhere\nhint: --set zns=none, or the suite zones"
    )]
    Zones,
    /// The drive refused a command.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The replay was cancelled.
    #[error("cancelled\nhint: run it again")]
    Cancelled,
}

/// A request with its address on the drive.
#[derive(Clone, Copy)]
struct Step {
    at: Nanos,
    response: Option<Nanos>,
    /// `None` for skipped requests, whose time still counts.
    io: Option<Io>,
}

type Batch = Result<Vec<Step>, ReplayError>;

/// Replays a trace on a drive, from the drive's present time on.
///
/// # Errors
/// [`ReplayError`]; the drive is in an undefined but valid state then. A drive that wears out
/// during the replay is not an error: see [`Outcome::worn_out`].
pub fn replay(
    device: &mut Device,
    source: &mut dyn RequestSource,
    options: &ReplayOptions,
    control: &Control,
) -> Result<ReplayOutcome, ReplayError> {
    let capacity = device.spec().capacity_bytes();
    refuse_if(device.spec().zones.is_some(), ReplayError::Zones)?;
    let is_unknown = options.rule == Rule::Scale && options.recorded_bytes == 0;
    refuse_if(is_unknown, ReplayError::UnknownSize)?;
    let pacer = Pacer::new(options.pace)?;
    let placement =
        Placement::new(options.rule, capacity, SECTOR_BYTES, options.recorded_bytes).map_err(
            |problem| ReplayError::Address { trace: source.name().to_string(), number: 1, problem },
        )?;
    let trim = options.trim;
    let handles = options.handle_by_device.then(|| device.spec().streams.handles.max(1) as u32);
    std::thread::scope(|scope| {
        let (send, batches) = sync_channel::<Batch>(BATCHES);
        let (recycled, empty) = sync_channel::<Vec<Step>>(BATCHES + 2);
        scope.spawn(move || {
            if let Err(error) = produce(source, &placement, trim, handles, control, &send, &empty) {
                // If the replay has failed in the meantime, the channel is closed.
                send.send(Err(error)).ok();
            }
        });
        // Dropping both ends of the channels ends the other thread. Compiled separately, as in
        // `run_keeping`.
        if options.events == 0 {
            return OpenLoop::<false>::new(device, pacer, control, 0)
                .run(device, batches, recycled);
        }
        let replay = OpenLoop::<true>::new(device, pacer, control, options.events);
        let done = replay.run(device, batches, recycled);
        if done.is_err() {
            device.take_events();
        }
        done
    })
}

/// Body of the second thread: reads, places and batches the requests.
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
        TraceOp::WriteFua => Some(Op::WriteFua),
        TraceOp::Trim => trim.then_some(Op::Trim),
        TraceOp::Flush => trim.then_some(Op::Flush),
    };
    let io = match op {
        None => None,
        Some(Op::Flush) => Some(Io::new(Op::Flush, 0, 0)),
        Some(op) => {
            let (start, bytes) = placement.place(request)?;
            // 2 TiB at once: longer than any trim of a virtual drive.
            let sectors = u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX);
            Some(Io::new(op, start / SECTOR_BYTES, sectors))
        }
    };
    Ok(Step { at: request.at, response: request.response, io })
}

/// True for reads and writes; trims and flushes are counted apart.
#[inline(always)]
fn counts(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write | Op::WriteFua)
}

/// Request in a command slot.
#[derive(Clone, Copy)]
struct InFlight {
    released: Nanos,
    ticket: Option<Ticket>,
}

struct OpenLoop<'a, const KEEPS: bool> {
    inside: WatchedInside<KEEPS>,
    pacer: Pacer,
    slots: QueueSlots,
    in_flight: Vec<InFlight>,
    outstanding: DepthTracker,
    recorder: Recorder,
    long: [u64; 2],
    skipped: u64,
    /// Reads and writes completed so far.
    served: u64,
    /// Time of the last submission.
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
        let depth = (device.spec().queue_depth_max as usize).min(DEPTH_MAX);
        OpenLoop {
            inside: WatchedInside::new(device, events),
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
        recycled: SyncSender<Vec<Step>>,
    ) -> Result<ReplayOutcome, ReplayError> {
        let worn_out = match self.run_all(device, &batches, &recycled) {
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
            inside: self.inside.finish(device, end),
            depths: self.outstanding.finish(),
            long: self.long,
            skipped: self.skipped,
        })
    }

    /// Replays the whole trace, until it ends or the flash is worn out.
    fn run_all(
        &mut self,
        device: &mut Device,
        batches: &Receiver<Batch>,
        recycled: &SyncSender<Vec<Step>>,
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
            // Fails only if the other thread has ended.
            recycled.try_send(batch).ok();
        }
        refuse_if(self.control.cancelled(), ReplayError::Cancelled)?;
        while device.next_arrival() < NEVER {
            self.serve(device)?;
        }
        Ok(())
    }

    /// Releases a request, and submits it when a slot is free.
    #[inline(always)]
    fn step(&mut self, device: &mut Device, step: Step) -> Result<(), ReplayError> {
        self.pacer.admit(step.at, step.response);
        let Some(io) = step.io else {
            self.skipped += 1;
            return Ok(());
        };
        // First serves all requests that reach the flash core before this one can be submitted.
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
        self.inside.look(device, now);
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

    /// Serves the next request, and counts it.
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
        self.inside.add_outstanding(released, done);
        if !counts(io.op) {
            self.recorder.count_apart(io.op, latency, done);
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
