//! Engine: the model, the data, and the other parts of a served drive.
//!
//! A request goes to the model with the time at which it was read from its socket; the model
//! returns its completion time; until then it is in flight (`inflight.rs`). Separate parts handle
//! faults and power cuts (`faults/`), the clock and the lateness of answers (`pacing/`) and the
//! data (`store/`). `operations.rs` has namespaces, snapshots and all other operations besides
//! reading and writing.
//!
//! Order. Writes, TRIM and write-zeroes change the data at submission, reads take it at completion.
//! Both lie between submission and completion, so each request takes effect at one moment while it
//! is in flight, and a read sees every write that completed before it was submitted. A flush, and a
//! write with FUA, completes when it is due and the store's file is synced; the sync begins at
//! submission, when all writes that it must cover have changed the file.

mod follow_ups;
pub(crate) mod inflight;
mod operations;
mod recording;
mod zones;

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use drivebay_crash::Recorder;
use drivebay_drive::{Counters, Device, DeviceError, HandleUse, Health, Sanitize, Zone};
use drivebay_units::{Nanos, Rng, SECTOR_BYTES, refuse_if};
use serde::{Deserialize, Serialize};

use crate::engine::follow_ups::FollowUps;
use crate::engine::inflight::{InflightCommand, InflightCommands, NEVER};
use crate::faults::power_cut::PowerCuts;
use crate::faults::{FailureMode, Faults};
use crate::interface::drive::{Data, Drive, Io};
use crate::interface::events::{Events, What};
use crate::interface::latency_histogram::LatencyHistogram;
use crate::interface::latency_monitor::LatencyMonitor;
use crate::namespace::{AccessState, NamespaceTable};
use crate::pacing::clock::{Clock, Pace, TimeScale};
use crate::pacing::lateness::Lateness;
use crate::request::{Completion, Op, Request, SessionId, Status};
use crate::state::namespace_file::NamespaceFile;
use crate::state::snapshots::Snapshots;
use crate::store::{Extent, Store, SyncId};

/// Sectors of a page of the model's map.
const PAGE_SECTORS: u64 = 8;

/// Traffic of the hosts.
#[derive(Default)]
struct Traffic {
    requests: u64,
    /// Connections that were refused or ended.
    refused: u64,
    bytes_read: u64,
    bytes_written: u64,
    latencies: LatencyHistogram,
}

/// Last reported state of the conditions that begin and end.
#[derive(Default)]
struct Reported {
    throttle_stage: usize,
    is_read_only: bool,
    is_off: bool,
    is_late: bool,
    /// Start of the second for which the host is judged, on its clock since the start.
    second: Nanos,
}

/// Content of the logs that is neither in the model's state nor in the NVMe records.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct DriveLogs {
    latencies: LatencyMonitor,
    /// Media errors of injected faults.
    media_errors: u64,
    /// Traffic by namespace: reads, writes, sectors read and written.
    traffic: Vec<(u32, [u64; 4])>,
    #[serde(default)]
    failure_mode: FailureMode,
}

/// Served drive: the model, its data, its clock, and the commands in flight.
pub struct Engine {
    /// The drive's name among the drives of its server.
    pub(crate) name: String,
    /// True if all commands that change data are refused.
    pub(crate) is_write_protected: bool,
    /// Namespaces, as hosts see them; by default one for the whole drive.
    pub(crate) namespaces: NamespaceTable,
    /// File in which the namespaces are saved at each change.
    pub(crate) namespace_file: Option<NamespaceFile>,
    /// True if hosts cannot be notified of a new size.
    pub(crate) is_of_fixed_size: bool,
    /// State of the access through each portal, if there are several.
    access: Vec<AccessState>,
    /// Number of failed NVMe commands, which the subsystem counts.
    pub(crate) nvme_errors: Arc<AtomicU64>,
    /// Session whose requests are being submitted.
    caller: SessionId,
    device: Device,
    store: Store,
    clock: Clock,
    inflight: InflightCommands,
    /// Arrival times of requests; unpaced only.
    follow_ups: FollowUps,
    faults: Faults,
    power_cuts: PowerCuts,
    lateness: Lateness,
    latencies: LatencyMonitor,
    /// Time for which the requests of this iteration could not be read, on the host's clock.
    starved: Nanos,
    /// Time up to which the model's flash core has been served with commands that a later one could
    /// still have passed.
    served: Nanos,
    traffic: Traffic,
    snapshots: Snapshots,
    /// Recorder of the commands, if enabled.
    recorder: Option<Recorder>,
    /// Number of link outages.
    pub(crate) link_outages: u64,
    /// True after the model has refused a write: it is worn out.
    is_worn_out: bool,
    events: Events,
    reported: Reported,
}

impl Engine {
    /// Creates an engine; the drive continues at its own time, on the host's clock.
    pub fn new(device: Device, store: Store, pace: Pace, seed: u64) -> Engine {
        Engine::with_time_scale(device, store, pace, TimeScale::default(), seed)
    }

    /// Creates an engine; the drive continues at its own time, faster or slower than the host's
    /// clock.
    pub fn with_time_scale(
        device: Device,
        store: Store,
        pace: Pace,
        scale: TimeScale,
        seed: u64,
    ) -> Engine {
        let rng = Rng::new(seed).fork("serve");
        let spec = device.spec();
        let namespaces = NamespaceTable::whole(store.sectors(), false).on(spec);
        let on_drive_max = spec.queue_depth_max.max(1);
        Engine {
            name: "drive".to_owned(),
            is_write_protected: false,
            namespaces: namespaces.expect("the whole drive is whole zones"),
            namespace_file: None,
            is_of_fixed_size: false,
            access: Vec::new(),
            nvme_errors: Arc::default(),
            caller: SessionId::default(),
            store,
            clock: Clock::new(pace, scale, device.now()),
            inflight: InflightCommands::new(on_drive_max),
            follow_ups: FollowUps::default(),
            faults: Faults::new(rng.fork("faults"), device.spec().capacity_bytes() / SECTOR_BYTES),
            power_cuts: PowerCuts::new(rng.fork("losses")),
            latencies: LatencyMonitor::new(device.now()),
            lateness: Lateness::default(),
            starved: Nanos::ZERO,
            served: Nanos::ZERO,
            traffic: Traffic::default(),
            snapshots: Snapshots::default(),
            recorder: None,
            link_outages: device.link_outages(device.now()),
            is_worn_out: false,
            events: Events::default(),
            reported: Reported::default(),
            device,
        }
    }

    /// The drive as `session` sees it: requests belong to this session until the next call.
    pub fn drive_of(&mut self, session: SessionId) -> &mut dyn Drive {
        self.caller = session;
        self
    }

    /// The data of the drive's sectors.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Sets the number of portals through which hosts have access.
    pub fn set_portals(&mut self, portals: usize) {
        let portals = if portals > 1 { portals } else { 0 };
        self.access = vec![AccessState::default(); portals];
    }

    /// Number of commands in flight.
    pub fn outstanding(&self) -> usize {
        self.inflight.len()
    }

    /// The model at the current time; its state can be saved when no commands are in flight.
    pub fn device(&mut self) -> &Device {
        let now = self.clock.now().min(self.follow_ups.horizon());
        if self.device.next_command().is_none() && now > self.device.now() {
            self.device.idle_until(now);
        }
        &self.device
    }

    /// Continues the logs of an earlier server.
    pub(crate) fn restore_logs(&mut self, kept: DriveLogs) {
        self.latencies = kept.latencies;
        self.faults.media_errors = kept.media_errors;
        self.faults.failure_mode = kept.failure_mode;
        for (nsid, traffic) in kept.traffic {
            if let Some(namespace) = self.namespaces.get(nsid) {
                namespace.restore_traffic(traffic);
            }
        }
    }

    /// Logs that outlast the server.
    pub(crate) fn logs(&self) -> DriveLogs {
        DriveLogs {
            latencies: self.latencies.clone(),
            media_errors: self.faults.media_errors,
            failure_mode: self.faults.failure_mode,
            traffic: self
                .namespaces
                .iter()
                .map(|(nsid, namespace)| (nsid, namespace.traffic()))
                .collect(),
        }
    }

    // --- requests ---

    /// Applies faults; refuses requests that cannot be served.
    fn accept(&mut self, command: &mut InflightCommand) -> Result<(), Status> {
        let request = command.request;
        refuse_if(self.is_write_protected && request.op.changes_data(), Status::ReadOnly)?;
        self.begin_faults();
        let fault = self.faults.effect(self.clock.since_start(self.clock.now()), &request);
        command.extra = fault.extra;
        if fault.is_write_through {
            command.request.op = request.op.durable();
        }
        command.flush_follows = matches!(
            command.request.op,
            Op::WriteZeroes { fua: true, .. } | Op::Trim { fua: true } | Op::Append { fua: true }
        );
        if let Some(status) = fault.status {
            refuse_if(request.op.changes_data(), status)?;
            // A read fails when it completes.
            command.status = status;
        }
        Ok(())
    }

    /// Applies a request to the data; returns the sync that its completion must wait for.
    fn apply(
        &mut self,
        number: u64,
        request: &Request,
        data: &[u8],
    ) -> Result<Option<SyncId>, Status> {
        let sync = self.store.apply(number, request, data)?;
        if request.op.changes_data() {
            let now = self.clock.since_start(self.clock.now());
            self.faults.heal(now, request.lba, request.sectors.into());
        }
        Ok(sync)
    }

    /// Drops all commands: they never complete.
    fn drop_commands(&mut self) {
        self.inflight.clear();
        self.follow_ups.clear();
        self.lateness.drop_answers();
    }

    /// Unpaced: takes the model to its next event. Returns true if this was the arrival of a
    /// request.
    fn step(&mut self) -> bool {
        let horizon = self.follow_ups.horizon();
        let arrival = self.follow_ups.next_arrival();
        self.serve_until(horizon.min(arrival));
        // A client may follow a completion at an earlier time than this arrival.
        if self.inflight.next_due().is_some() || arrival > horizon {
            return false;
        }
        let Some((at, tag)) = self.follow_ups.pop() else { return false };
        if self.inflight.admit(tag) {
            self.hand_over(at, tag);
        }
        true
    }

    /// Submits a command to the drive, which has a queue slot for it.
    fn hand_over(&mut self, at: Nanos, tag: u32) {
        let Request { op, lba, sectors, handle, .. } = self.inflight[tag].request;
        let io = drivebay_drive::Io::new(op.on_drive(), lba, sectors);
        self.submit_to_model(at, drivebay_drive::Io { handle, ..io }, tag);
    }

    /// Returns true if the model accepts the command; otherwise the command fails.
    fn submit_to_model(&mut self, at: Nanos, io: drivebay_drive::Io, tag: u32) -> bool {
        let at = at.max(self.device.now());
        // Commands that reach the flash core earlier are served first: the model's time does not go
        // back.
        self.serve_until(at);
        match self.device.accept(at, io, tag, Nanos::ZERO) {
            Ok(_) => self.inflight.enter_drive(tag),
            Err(error) => {
                self.fail(at, tag, &error);
                return false;
            }
        }
        true
    }

    fn fail(&mut self, at: Nanos, tag: u32, error: &DeviceError) {
        self.is_worn_out |= matches!(error, DeviceError::ReadOnly { .. });
        self.inflight[tag].status = match error {
            DeviceError::ReadOnly { .. } => Status::ReadOnly,
            DeviceError::NoSpace => Status::NoSpace,
            DeviceError::Zone { problem, .. } => Status::Zone(*problem),
            DeviceError::OutOfRange { .. } | DeviceError::TooLong { .. } => Status::OutOfRange,
            _ => Status::Internal,
        };
        self.inflight.schedule(at, tag);
    }

    /// Serves the commands of the model that reach its flash core by `until`, or that can no longer
    /// change.
    fn serve_until(&mut self, until: Nanos) {
        while let Some(next) = self.device.next_command() {
            if !next.settled && next.at > until {
                return;
            }
            // A settled command waits only for earlier ones, so later requests may arrive before it
            // reaches the flash core.
            if !next.settled {
                self.served = self.served.max(next.at);
            }
            match self.device.serve() {
                Ok(None) => {}
                Ok(Some(served)) => {
                    let command = &mut self.inflight[served.tag];
                    if served.media_error {
                        command.status = Status::MediaError;
                    }
                    let done = served.done.after(command.extra);
                    if command.request.op.changes_data()
                        && served.io.op != drivebay_drive::Op::Flush
                    {
                        let device = &self.device;
                        let place = |page: u64| device.stream_page(page * PAGE_SECTORS);
                        self.store.placed(command.number, place);
                    }
                    self.inflight.schedule(done, served.tag);
                }
                Err(error) => self.fail(next.at, next.tag, &error),
            }
        }
    }

    /// Returns the next command that completes, in the order of the drive's time; `None` if none
    /// completes now.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let due_by = if self.clock.is_paced() {
                self.serve_until(self.clock.now());
                self.clock.now().after(self.send_time())
            } else {
                while self.step() {}
                NEVER
            };
            let store = &self.store;
            let synced = self.inflight.take_synced(|sync| store.sync_result(sync));
            let (at, tag) = match synced {
                Some(synced) => synced,
                None => {
                    let (at, tag) = self.inflight.take_due(due_by)?;
                    self.clock.skip_to(at);
                    if let Some(until) = self.faults.hangs_until(self.clock.since_start(at)) {
                        self.inflight.schedule(self.clock.at(until), tag);
                        continue;
                    }
                    self.inflight.leave_drive(tag);
                    while let Some(next) = self.inflight.next_of_backlog() {
                        self.hand_over(at, next);
                    }
                    if !self.is_synced(tag) {
                        self.inflight.await_sync(at, tag);
                        continue;
                    }
                    (at, tag)
                }
            };
            let command = &mut self.inflight[tag];
            if command.status == Status::Ok && std::mem::take(&mut command.flush_follows) {
                let flush = drivebay_drive::Io::new(drivebay_drive::Op::Flush, 0, 0);
                self.submit_to_model(at, flush, tag);
                continue;
            }
            return Some(self.complete(at, tag));
        }
    }

    /// True if the sync that a command waits for has completed.
    fn is_synced(&mut self, tag: u32) -> bool {
        let result = self.inflight[tag].sync.map(|sync: SyncId| self.store.sync_result(sync));
        if result == Some(Some(Err(()))) {
            self.inflight[tag].status = Status::Internal;
        }
        result != Some(None)
    }

    fn complete(&mut self, at: Nanos, tag: u32) -> Completion {
        let InflightCommand { number, arrived, arrived_host, sync, .. } = self.inflight[tag];
        let is_synced = sync.is_some();
        let completion = self.inflight.complete(tag);
        if completion.status == Status::Ok && !self.device.spec().ignore_flush {
            let request = self.with_what_lies_before(completion.request);
            self.store.completed(number, &request);
        }
        let modelled = at.since_or_zero(arrived);
        self.latencies.record(completion.request.op, modelled, at);
        self.traffic.latencies.record(completion.request.op, modelled);
        let since = self.clock.since_start(at).0;
        if let Some(recorder) = &mut self.recorder {
            recorder.completed(since, number, completion.status == Status::Ok);
        }
        if self.clock.is_paced() {
            let modelled = [modelled, self.clock.scale().to_host(modelled)];
            // The clock does not make up for a wait for the store's file.
            let due = if is_synced { at.max(self.clock.now()) } else { at };
            self.lateness.begin_answer(due, arrived_host, modelled, self.clock.elapsed());
        } else {
            self.follow_ups.answer(completion.session, at, self.clock.elapsed());
        }
        completion
    }

    // --- for the event loop ---

    /// Counts a connection that was refused, or ended for a violation.
    pub(crate) fn note_refused(&mut self) {
        self.traffic.refused += 1;
    }

    /// Sets the time for which the requests of this iteration have waited because the server had no
    /// processor to read them.
    pub(crate) fn note_starved(&mut self, starved: Nanos) {
        self.starved = starved;
    }

    /// Begins an iteration of the event loop.
    pub fn begin_iteration(&mut self) {
        self.clock.begin_iteration(self.inflight.next_due());
        self.begin_faults();
    }

    /// Ends an iteration: its answers have been passed to the kernel.
    pub fn end_iteration(&mut self) {
        self.starved = Nanos::ZERO;
        let in_flight = self.inflight.len() > 0;
        let clock = &self.clock;
        if let Some((sent, due)) = self.lateness.end_iteration(|| clock.elapsed()) {
            self.clock.hold(due, sent);
        }
        self.clock.set_in_flight(in_flight);
    }

    /// Time before its due time at which an answer is begun.
    fn send_time(&self) -> Nanos {
        self.clock.scale().to_drive(self.lateness.send_time())
    }

    /// Expects follow-ups of clients that keep several requests in flight, if the drive is not
    /// paced. [`Engine::next_completion`] may then wait for requests.
    pub fn expect_follow_ups(&mut self) {
        self.follow_ups.is_on = true;
    }

    /// Waits for no more requests of a session that has ended.
    pub(crate) fn end_session(&mut self, session: SessionId) {
        self.follow_ups.end(session);
    }

    /// Gives up requests that have not come in time; returns the longest time to wait for others,
    /// on the host's clock.
    pub(crate) fn patience(&mut self) -> Option<Nanos> {
        if self.clock.is_paced() { None } else { self.follow_ups.expire(self.clock.elapsed()) }
    }

    /// Time of the engine's next action if no request comes.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let due = self.inflight.next_due();
        let begun = due.map(|due| due.since_or_zero(self.send_time()));
        let next = self.device.next_command().map(|command| command.at);
        let next = next.filter(|&at| self.clock.is_paced() || at <= self.follow_ups.horizon());
        match (begun, next) {
            (Some(begun), Some(next)) => Some(begun.min(next)),
            (begun, next) => begun.or(next),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Io for Engine {
    fn submit(&mut self, request: Request, data: &[u8]) {
        self.traffic.requests += 1;
        match request.op {
            Op::Read => self.traffic.bytes_read += u64::from(request.sectors) * SECTOR_BYTES,
            Op::Write { .. } | Op::Append { .. } => {
                self.traffic.bytes_written += u64::from(request.sectors) * SECTOR_BYTES;
            }
            _ => {}
        }
        let mut command = InflightCommand::new(self.caller, request, self.traffic.requests);
        let (arrived, arrived_host) = self.clock.arrival(self.starved);
        let arrived = match self.clock.is_paced() {
            true => arrived,
            false => self.follow_ups.arrival(self.caller, arrived),
        };
        // The model's time does not go back.
        let arrived = arrived.max(self.served).max(self.device.now());
        (command.arrived, command.arrived_host) = (arrived, arrived_host);
        self.lateness.request(arrived_host);
        let has_zones = self.device.spec().zones.is_some();
        let mut accepted = self.accept(&mut command);
        let request = command.request;
        // A zone may still refuse it.
        if accepted.is_ok() && !has_zones {
            let applied = self.apply(command.number, &request, data);
            accepted = applied.map(|sync| command.sync = sync);
        }
        if self.store.undo_is_long() {
            self.prune_undo();
        }
        let status = accepted.err();
        command.status = status.unwrap_or(command.status);
        if self.recorder.is_some() && status.is_none() {
            self.record_submitted(command.number, &request, data);
        }
        let tag = self.inflight.insert(command);
        if status.is_some() {
            self.inflight.schedule(arrived, tag);
        } else if has_zones {
            self.hand_over_to_zone(arrived, tag, data);
        } else if !self.clock.is_paced() {
            self.follow_ups.push(arrived, self.traffic.requests, tag);
        } else if self.inflight.admit(tag) {
            self.hand_over(arrived, tag);
        }
    }

    fn health(&mut self) -> Health {
        let mut health = self.device().health();
        health.media_errors += self.faults.media_errors;
        health
    }

    fn counters(&mut self) -> Counters {
        self.device().counters()
    }

    fn latency_monitor(&mut self) -> &mut LatencyMonitor {
        &mut self.latencies
    }

    fn handle_use(&self) -> Vec<HandleUse> {
        self.device.placement()
    }

    fn zones(&self) -> &[Zone] {
        self.device.zones()
    }

    fn now(&self) -> Nanos {
        self.clock.read()
    }

    fn spoil(&mut self, lba: u64, sectors: u64) -> bool {
        self.faults.spoil(lba, sectors)
    }

    fn is_read_only(&mut self) -> bool {
        self.is_worn_out
            || self.device.counters().reliability.read_only
            || self.faults.is_read_only(self.clock.since_start(self.clock.now()))
    }

    fn failure_mode(&self) -> FailureMode {
        self.faults.failure_mode
    }

    fn set_failure_mode(&mut self, mode: FailureMode) {
        self.faults.failure_mode = mode;
    }

    fn is_off(&self) -> bool {
        self.power_cuts.is_off(self.clock.elapsed())
    }

    fn power_cuts(&self) -> u64 {
        self.power_cuts.count
    }
}

impl Data for Engine {
    fn sectors(&self) -> u64 {
        self.store.sectors()
    }

    fn used_sectors(&self) -> u64 {
        self.device.mapped_sectors().min(self.store.sectors())
    }

    fn zeroes_fast(&self) -> bool {
        self.store.zeroes_fast()
    }

    fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()> {
        self.store.read(lba, into)
    }

    fn append(&self, lba: u64, sectors: u32, out: &mut Vec<u8>) -> io::Result<()> {
        self.store.append(lba, sectors, out)
    }

    fn pieces<'a>(&'a self, lba: u64, sectors: u32, into: &mut [IoSlice<'a>]) -> usize {
        self.store.pieces(lba, sectors, into)
    }

    /// Not possible if the effect of a write depends on more than the store.
    fn place(&mut self, lba: u64, sectors: u32) -> Option<&mut [u8]> {
        let is_plain = !self.is_write_protected
            && self.recorder.is_none()
            && !self.faults.are_any()
            && self.device.spec().zones.is_none();
        if is_plain { self.store.place(lba, sectors) } else { None }
    }

    fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>> {
        self.store.extents(lba, sectors, most)
    }

    fn erase(&mut self, sectors: Range<u64>, how: Sanitize) -> io::Result<Nanos> {
        self.note(What::Erased);
        if sectors != (0..self.store.sectors()) {
            let done = self.discard(sectors).map_err(io::Error::other)?;
            self.clock.skip_to(done);
            return Ok(done);
        }
        self.erase_all(how, None).map(|(done, _)| done)
    }

    fn overwrite(&mut self, how: Sanitize, pattern: u32) -> io::Result<(Nanos, bool)> {
        self.note(What::Erased);
        self.erase_all(how, Some(pattern))
    }

    fn erase_time(&self, how: Sanitize) -> Option<Nanos> {
        Some(self.device.sanitize_time(how))
    }
}
