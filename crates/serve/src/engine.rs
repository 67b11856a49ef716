//! The engine: requests in, completions out when their time has come.
//!
//! It owns the drive's model and the data. A request goes to the model with the time at which it was
//! read from its socket; the model says when it is done; until then it waits in a heap.
//!
//! Order. Writes, TRIM and write-zeroes change the data when they are submitted, reads take it when
//! they complete. Both lie between submission and completion, so each request takes effect at one
//! moment while it is under way, and a read sees every write that was answered before it was asked.
//! A flush, and a write with FUA, is answered when its time has come and the store's file is synced;
//! the sync begins with the submission, when all writes it must cover have changed the file.
//!
//! A drive carries a limited number of commands; what a host asks beyond that waits here, as it would
//! in the host's block layer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use drivebay_drive::{Counters, Device, DeviceError, Health, Io};
use drivebay_units::{Lpn, Nanos, Rng, SECTOR_BYTES};
use serde::Serialize;

use crate::clock::{Clock, Pace};
use crate::faults::Faults;
use crate::lateness::{Lateness, Lead};
use crate::power::{Cuts, Plan};
use crate::session::SessionId;
use crate::slab::Slab;
use crate::store::Store;
use crate::volatile::Loss;

/// A time that does not come.
const NEVER: Nanos = Nanos(u64::MAX);

/// Least data that a drive can lose with [`Loss::Unflushed`], bytes: of a write buffer smaller than this
/// no flush is worth a test.
const LOSABLE_MIN: u64 = 1 << 20;

/// Room for what a power cut would take of requests that the model has not served yet, bytes; beyond it
/// the oldest counts as safe.
const ASKED_MAX: u64 = 128 << 20;

/// What a host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write; with `fua` answered when it is on flash.
    Write {
        /// Force Unit Access.
        fua: bool,
    },
    /// Everything answered so far goes to flash.
    Flush,
    /// Deallocate: zeros after.
    Trim {
        /// A flush follows before it is answered.
        fua: bool,
    },
    /// Zeros, without carrying them.
    WriteZeroes {
        /// Force Unit Access.
        fua: bool,
        /// Keeps the space allocated in the store.
        allocated: bool,
    },
}

impl Op {
    /// Whether it changes the data.
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(self, Op::Read | Op::Flush)
    }

    fn on_drive(self) -> drivebay_drive::Op {
        use drivebay_drive::Op as Drive;
        match self {
            Op::Read => Drive::Read,
            Op::Write { fua: false } => Drive::Write,
            Op::Write { fua: true } => Drive::WriteFua,
            Op::Flush => Drive::Flush,
            Op::Trim { .. } => Drive::Trim,
            Op::WriteZeroes { .. } => Drive::WriteZeroes,
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub op: Op,
    /// First sector of 512 B; nothing for a flush.
    pub lba: u64,
    /// How many sectors; nothing for a flush.
    pub sectors: u32,
    /// Who asks.
    pub session: SessionId,
    /// Comes back with the completion.
    pub token: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// Not on the drive, or too long.
    OutOfRange,
    /// Data could not be read (NVMe: Unrecovered Read Error).
    MediaError,
    /// The drive has worn out and is read-only.
    ReadOnly,
    /// The drive has no flash left, or the store no space.
    NoSpace,
    /// This machine could not keep its word: its disk failed.
    Internal,
}

/// A request whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request.
    pub request: Request,
    /// How it ended.
    pub status: Status,
    /// When it was due, on the drive's clock.
    pub due: Nanos,
}

struct Pending {
    request: Request,
    /// Counted over all requests.
    number: u64,
    /// A fault makes it take so much longer.
    extra: Nanos,
    status: Status,
    /// Takes one of the drive's places for commands.
    on_drive: bool,
    /// The sync of the store it waits for.
    ticket: Option<u64>,
    /// A flush on the drive follows before it is answered.
    then_flush: bool,
}

/// Bytes that hosts have asked to read and to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// What a power cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// When, since the server began, nanoseconds on the drive's clock.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// How long the drive took to come back, nanoseconds.
    #[serde(rename = "ready_after_ns")]
    pub ready_after: Nanos,
    /// Bytes whose newest content was lost.
    pub lost_bytes: u64,
}

/// The drive, its data, and what is under way.
pub struct Engine {
    device: Device,
    store: Store,
    clock: Clock,
    /// The drive's time at which this turn began.
    now: Nanos,
    pending: Slab<Pending>,
    /// (when, in which order they came, where in `pending`).
    due: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    sequence: u64,
    /// Due, but the store's file is not synced yet.
    unsynced: Vec<(Nanos, u32)>,
    /// Beyond what the drive carries.
    backlog: VecDeque<u32>,
    /// Commands the drive has at present, and at most.
    carried: u32,
    carried_max: u32,
    requests: u64,
    traffic: Traffic,
    /// When the server began, on the drive's clock.
    began: Nanos,
    faults: Faults,
    /// When the power goes, if that is planned.
    plan: Option<Plan>,
    rng: Rng,
    cuts: u64,
    last_cut: Option<Cut>,
    /// A flush is answered and makes nothing safe.
    ignores_flush: bool,
    /// When the answers of this turn were due.
    answered: Vec<Nanos>,
    /// When the first of them was begun.
    answering: Nanos,
    lead: Lead,
    lateness: Lateness,
}

impl Engine {
    /// The drive goes on at its own time.
    #[must_use]
    pub fn new(device: Device, store: Store, pace: Pace, seed: u64) -> Engine {
        let rng = Rng::new(seed).fork("serve");
        let spec = device.spec();
        let carried_max = spec.queue_depth_max.min(spec.host.outstanding_max).max(1);
        let ignores_flush = spec.ignore_flush;
        let now = device.now();
        Engine {
            device,
            store,
            clock: Clock::new(pace, now),
            now,
            pending: Slab::default(),
            due: BinaryHeap::new(),
            sequence: 0,
            unsynced: Vec::new(),
            backlog: VecDeque::new(),
            carried: 0,
            carried_max,
            requests: 0,
            traffic: Traffic::default(),
            began: now,
            faults: Faults::new(rng.fork("faults")),
            plan: None,
            rng: rng.fork("losses"),
            cuts: 0,
            last_cut: None,
            ignores_flush,
            answered: Vec::new(),
            answering: now,
            lead: Lead::default(),
            lateness: Lateness::default(),
        }
    }

    /// The data.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The drive's time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The drive's time since the server began.
    #[must_use]
    pub fn since_start(&self) -> Nanos {
        self.now.since(self.began)
    }

    /// Requests submitted so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Bytes read and written so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Bytes that a power cut would take now, at most.
    pub fn losable_bytes(&mut self) -> u64 {
        self.sweep();
        self.store.losable_bytes()
    }

    /// Forgets the way back to what has been programmed over.
    fn sweep(&mut self) {
        let (device, now) = (&self.device, self.now);
        if let Some(volatile) = self.store.volatile() {
            volatile.sweep(|place| device.is_programmed(place, now));
        }
    }

    /// Requests under way.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// The drive as it is now; for saving its state when nothing is under way.
    pub fn device(&mut self) -> &Device {
        self.catch_up();
        &self.device
    }

    /// How late the answers were.
    #[must_use]
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// The drive's counters, now.
    pub fn counters(&mut self) -> Counters {
        self.catch_up();
        self.device.counters()
    }

    /// The drive's health log, now.
    pub fn health(&mut self) -> Health {
        self.catch_up();
        self.device.health()
    }

    /// Takes a request. `data` is what a write carries. The answer comes in a later turn, through
    /// [`crate::Session::complete`], also if it is refused.
    pub fn submit(&mut self, request: Request, data: &[u8]) {
        self.requests += 1;
        match request.op {
            Op::Read => self.traffic.read += u64::from(request.sectors) * SECTOR_BYTES,
            Op::Write { .. } => self.traffic.written += data.len() as u64,
            _ => {}
        }
        let number = self.requests;
        self.begin_faults();
        let effect = self.faults.effect(self.now.since(self.began), &request);
        let applied = match effect.status {
            // Refused before it changes anything; a read fails when its time has come.
            Some(status) if request.op.changes() => Err(status),
            _ => self.apply(number, &request, data),
        };
        if self.store.volatile().is_some_and(|volatile| volatile.is_long()) {
            self.sweep();
        }
        let (status, ticket) = match applied {
            Ok(ticket) => (Status::Ok, ticket),
            Err(status) => (status, None),
        };
        let extra = effect.extra;
        let then_flush =
            matches!(request.op, Op::WriteZeroes { fua: true, .. } | Op::Trim { fua: true });
        let (slot, _) = self.pending.insert(Pending {
            request,
            number,
            extra,
            status: if status == Status::Ok { effect.status.unwrap_or(status) } else { status },
            on_drive: false,
            ticket,
            then_flush,
        });
        if status != Status::Ok {
            self.push(self.now, slot);
        } else if self.carried < self.carried_max {
            self.hand_over(self.now, slot);
        } else {
            self.backlog.push_back(slot);
        }
    }

    /// Format or secure erase: all data is gone. Requests under way are served first.
    ///
    /// # Errors
    /// The store's.
    pub fn erase(&mut self) -> io::Result<()> {
        self.serve_until(NEVER);
        self.device.secure_erase();
        self.store.zero(self.requests, 0, self.store.sectors(), false)
    }

    /// Changes the data; returns the sync that the answer must wait for.
    fn apply(
        &mut self,
        number: u64,
        request: &Request,
        data: &[u8],
    ) -> Result<Option<u64>, Status> {
        let Request { op, lba, sectors, .. } = *request;
        let end = lba.checked_add(u64::from(sectors));
        if op != Op::Flush && (sectors == 0 || end.is_none_or(|end| end > self.store.sectors())) {
            return Err(Status::OutOfRange);
        }
        let changed = match op {
            Op::Read | Op::Flush => Ok(()),
            Op::Write { .. } => {
                debug_assert_eq!(data.len() as u64, u64::from(sectors) * SECTOR_BYTES);
                self.store.write(number, lba, data)
            }
            Op::Trim { .. } => self.store.zero(number, lba, u64::from(sectors), false),
            Op::WriteZeroes { allocated, .. } => {
                self.store.zero(number, lba, u64::from(sectors), allocated)
            }
        };
        changed.map_err(|why| match why.kind() {
            io::ErrorKind::StorageFull => Status::NoSpace,
            _ => Status::Internal,
        })?;
        let durable =
            matches!(op, Op::Flush | Op::Write { fua: true } | Op::WriteZeroes { fua: true, .. });
        Ok(if durable { self.store.sync() } else { None })
    }

    fn push(&mut self, at: Nanos, slot: u32) {
        self.sequence += 1;
        self.due.push(Reverse((at, self.sequence, slot)));
    }

    fn hand_over(&mut self, at: Nanos, slot: u32) {
        let request = self.pending.get_mut(slot).expect("it is under way").request;
        let Request { op, lba, sectors, .. } = request;
        self.carry(at, Io { op: op.on_drive(), lba, sectors }, slot);
    }

    fn carry(&mut self, at: Nanos, io: Io, slot: u32) {
        let at = at.max(self.device.now());
        // Whose turn lies before is served before: the model's time does not go back.
        self.serve_until(at);
        match self.device.accept(at, io, slot) {
            Ok(()) => {
                self.pending.get_mut(slot).expect("it is under way").on_drive = true;
                self.carried += 1;
            }
            Err(error) => self.fail(at, slot, &error),
        }
    }

    fn fail(&mut self, at: Nanos, slot: u32, error: &DeviceError) {
        self.pending.get_mut(slot).expect("it is under way").status = match error {
            DeviceError::ReadOnly { .. } => Status::ReadOnly,
            DeviceError::NoSpace => Status::NoSpace,
            DeviceError::OutOfRange { .. } | DeviceError::TooLong { .. } => Status::OutOfRange,
            _ => Status::Internal,
        };
        self.push(at, slot);
    }

    /// The drive serves what reaches its flash core by `until`, or is settled.
    fn serve_until(&mut self, until: Nanos) {
        while let Some(turn) = self.device.next_command() {
            if !turn.settled && turn.at > until {
                return;
            }
            match self.device.serve() {
                Ok(served) => {
                    let pending = self.pending.get_mut(turn.tag).expect("it is under way");
                    if served.media_error {
                        pending.status = Status::MediaError;
                    }
                    let done = served.done.after(pending.extra);
                    let number = pending.number;
                    if pending.request.op.changes()
                        && served.io.op != drivebay_drive::Op::Flush
                        && let Some(volatile) = self.store.volatile()
                    {
                        let device = &self.device;
                        volatile.placed(number, |page| device.stream_page(Lpn(page as u32)));
                    }
                    self.push(done, turn.tag);
                }
                Err(error) => self.fail(turn.at, turn.tag, &error),
            }
        }
    }

    /// The drive's clock for figures: up to now, if nothing is under way.
    fn catch_up(&mut self) {
        if self.device.next_command().is_none() && self.now > self.device.now() {
            self.device.idle_until(self.now);
        }
    }

    // --- faults and power cuts --------------------------------------------------------------------

    /// The power can go: by plan, or by [`Engine::power_cut`]. From now on data that no flush has made
    /// safe can be lost.
    pub fn may_lose_power(&mut self, cuts: Option<Cuts>, loss: Loss) {
        let spec = self.device.spec();
        let buffer = 4096 * (u64::from(spec.buffer_pages) << spec.geometry.page_shift);
        let bytes_max = match loss {
            Loss::Unflushed => buffer.max(LOSABLE_MIN),
            // The host's streams have a buffer each; pages share a flash page where data is compressed.
            Loss::All | Loss::Random => 4 * buffer + ASKED_MAX,
        };
        self.store.may_lose(loss, bytes_max);
        self.plan = cuts.map(|cuts| Plan::new(cuts, self.rng.fork("cuts")));
    }

    /// Whether the plan's moment has come.
    pub fn power_goes(&mut self) -> bool {
        let (elapsed, requests) = (self.clock.elapsed(), self.requests);
        self.plan.as_mut().is_some_and(|plan| plan.strikes(elapsed, requests))
    }

    /// The plug is pulled and put in again: what is under way is never answered, what was not safe is
    /// lost, and the drive needs its time to come back.
    ///
    /// # Errors
    /// The store's: it holds neither the old nor the new data then.
    pub fn power_cut(&mut self) -> io::Result<Cut> {
        // Not before what has been answered.
        self.now = self.clock.now().max(self.now);
        let at = self.now.max(self.device.now());
        self.device.before_power_cut(at);
        let (device, rng) = (&self.device, &mut self.rng);
        let lost_bytes = self.store.power_cut(|place| device.is_programmed(place, at), rng)?;
        let recovery = self.device.power_cut(at);
        self.clock.skip_to(recovery.ready);
        self.pending = Slab::default();
        self.due.clear();
        self.unsynced.clear();
        self.backlog.clear();
        self.carried = 0;
        self.answered.clear();
        let ready_after = recovery.ready.since(at);
        let cut = Cut { at: at.since(self.began), ready_after, lost_bytes };
        self.cuts += 1;
        self.last_cut = Some(cut);
        Ok(cut)
    }

    /// How many power cuts there have been, and the last.
    #[must_use]
    pub fn cuts(&self) -> (u64, Option<Cut>) {
        (self.cuts, self.last_cut)
    }

    /// Faults to come.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// The surroundings' temperature, -40 to 100 degrees Celsius.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        self.device.set_ambient_c(ambient_c.clamp(-40.0, 100.0));
    }

    fn begin_faults(&mut self) {
        let now = self.now.since(self.began);
        if let Some(ambient_c) = self.faults.begin(now, self.requests) {
            self.set_ambient_c(ambient_c);
        }
    }

    // --- for the event loop -----------------------------------------------------------------------

    /// A turn begins: what time is it?
    pub fn begin_turn(&mut self) {
        self.now = self.clock.now().max(self.now);
        self.begin_faults();
    }

    /// The next request whose time has come, in order of their times. To be called until there is none.
    pub fn next_done(&mut self) -> Option<Done> {
        loop {
            let unpaced = self.clock.pace() == Pace::None;
            self.serve_until(if unpaced { NEVER } else { self.now });
            let (at, slot) = match self.take_synced() {
                Some(synced) => synced,
                None => {
                    let &Reverse((at, _, slot)) = self.due.peek()?;
                    if at > self.now.after(self.lead.get()) && !unpaced {
                        return None;
                    }
                    if at == NEVER {
                        return None;
                    }
                    self.due.pop();
                    self.clock.skip_to(at);
                    if let Some(until) = self.faults.hangs_until(at.since_or_zero(self.began)) {
                        let until = if until == NEVER { NEVER } else { self.began.after(until) };
                        self.push(until, slot);
                        continue;
                    }
                    self.free(at, slot);
                    if !self.is_synced(at, slot) {
                        continue;
                    }
                    (at, slot)
                }
            };
            if let Some(done) = self.finish(at, slot) {
                return Some(done);
            }
        }
    }

    /// If it was a command of the drive, the next one of the backlog has its turn.
    fn free(&mut self, at: Nanos, slot: u32) {
        let pending = self.pending.get_mut(slot).expect("it is under way");
        if std::mem::take(&mut pending.on_drive) {
            self.carried -= 1;
            if let Some(next) = self.backlog.pop_front() {
                self.hand_over(at, next);
            }
        }
    }

    /// Whether the store has done what a request waits for; otherwise it waits on.
    fn is_synced(&mut self, at: Nanos, slot: u32) -> bool {
        let pending = self.pending.get_mut(slot).expect("it is under way");
        match pending.ticket.map(|ticket| self.store.synced(ticket)) {
            None | Some(Some(Ok(()))) => true,
            Some(Some(Err(()))) => {
                pending.status = Status::Internal;
                true
            }
            Some(None) => {
                self.unsynced.push((at, slot));
                false
            }
        }
    }

    fn take_synced(&mut self) -> Option<(Nanos, u32)> {
        for i in 0..self.unsynced.len() {
            let (at, slot) = self.unsynced[i];
            let ticket = self.pending.get_mut(slot).and_then(|pending| pending.ticket)?;
            if let Some(result) = self.store.synced(ticket) {
                if result.is_err() {
                    self.pending.get_mut(slot).expect("it is under way").status = Status::Internal;
                }
                self.unsynced.remove(i);
                return Some((at, slot));
            }
        }
        None
    }

    fn finish(&mut self, at: Nanos, slot: u32) -> Option<Done> {
        let pending = self.pending.get_mut(slot).expect("it is under way");
        if pending.then_flush && pending.status == Status::Ok {
            pending.then_flush = false;
            let flush = Io { op: drivebay_drive::Op::Flush, lba: 0, sectors: 0 };
            self.carry(at, flush, slot);
            return None;
        }
        let pending = self.pending.remove(slot).expect("it is under way");
        let Pending { request, number, status, .. } = pending;
        if status == Status::Ok
            && !self.ignores_flush
            && let Some(volatile) = self.store.volatile()
        {
            match request.op {
                Op::Flush | Op::Trim { fua: true } | Op::WriteZeroes { fua: true, .. } => {
                    volatile.settle(number);
                }
                Op::Write { fua: true } => {
                    let end = request.lba + u64::from(request.sectors);
                    volatile.settle_range(number, request.lba..end);
                }
                _ => {}
            }
        }
        if self.clock.pace() != Pace::None {
            if self.answered.is_empty() {
                self.answering = self.clock.now();
            }
            self.answered.push(at);
        }
        Some(Done { request, status, due: at })
    }

    /// The answers of this turn have been handed to the kernel.
    pub fn end_turn(&mut self) {
        if !self.answered.is_empty() {
            let now = self.clock.now();
            self.lead.learn(now.since_or_zero(self.answering));
            for due in self.answered.drain(..) {
                self.lateness.record(Nanos(now.0.abs_diff(due.0)));
            }
        }
    }

    /// When something is to be done next, if nobody asks anything.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        let due = self.due.peek().map(|&Reverse((at, ..))| at).filter(|&at| at < NEVER);
        let begun = due.map(|due| due.since_or_zero(self.lead.get()));
        let turn = self.device.next_command().map(|turn| turn.at);
        match (begun, turn) {
            (Some(begun), Some(turn)) => Some(begun.min(turn)),
            (begun, turn) => begun.or(turn),
        }
    }

    /// The drive's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}
