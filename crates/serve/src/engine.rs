//! The engine: the model, the data, and the parts that a served drive is composed of.
//!
//! A request goes to the model with the time at which it was read from its socket; the model says when
//! it is done; until then it is in flight (`inflight.rs`). What a request may meet on its way each has
//! its part: faults (`faults.rs`), power cuts (`power_cut.rs`), the clock (`clock.rs`), the lateness of
//! answers (`lateness.rs`), the data (`store/`).
//!
//! Order. Writes, TRIM and write-zeroes change the data when they are submitted, reads take it when
//! they complete. Both lie between submission and completion, so each request takes effect at one
//! moment while it is in flight, and a read sees every write that completed before it was submitted.
//! A flush, and a write with FUA, completes when it is due and the store's file is synced; the sync
//! begins with the submission, when all writes that it must cover have changed the file.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use drivebay_drive::{Device, DeviceError, Health, Io};
use drivebay_units::{Nanos, Rng, SECTOR_BYTES};

use crate::clock::{Clock, Pace, TimeScale};
use crate::drive::{ControlCommand, ControlError, ControlReply, Drive};
use crate::events::{Event, Events, What};
use crate::faults::{Fault, FaultError, Faults};
use crate::inflight::{InflightCommand, InflightCommands, NEVER};
use crate::lateness::Lateness;
use crate::memory_limit::Use;
use crate::namespace::{NamespaceError, NamespaceFigures, Namespaces};
use crate::namespace_file::{NamespaceFile, NamespaceFileError};
use crate::power_cut::{AfterCut, PowerCut, PowerCutPlan, PowerCuts};
use crate::report::Report;
use crate::request::{Completion, Op, Request, SessionId, Status};
use crate::snapshots::{Chance, SnapshotError, Snapshots};
use crate::store::{PowerCutLoss, Store, SyncId};

/// Least data that [`PowerCutLoss::Unflushed`] can lose, bytes: with a smaller write buffer hardly any
/// flush would be tested.
const LOSABLE_MIN: u64 = 1 << 20;

/// Room in the undo log for requests that the model has not served yet, bytes; beyond it the oldest
/// counts as durable.
const UNSERVED_MAX: u64 = 128 << 20;

/// A host that keeps up by less than this in a second, percent, is told of. guess: below it a latency is the host's
/// as much as the drive's.
const KEPT_UP_MIN: f64 = 90.0;

/// Sectors of a TRIM that the server makes itself, at most: 1 TiB.
const DISCARD_MAX: u64 = 1 << 31;

/// Sectors of a page of the model's map.
const PAGE_SECTORS: u64 = 8;

/// What hosts have asked for.
#[derive(Default)]
struct Traffic {
    requests: u64,
    /// Connections that were refused or ended.
    refused: u64,
    bytes_read: u64,
    bytes_written: u64,
}

/// What was told last of what goes on and ends.
#[derive(Default)]
struct Told {
    throttle_stage: usize,
    is_read_only: bool,
    is_off: bool,
    is_late: bool,
    /// When the second began by which the host is judged, on its clock since the start.
    second: Nanos,
}

/// A served drive: the model, its data, its clock, and the commands in flight.
pub struct Engine {
    /// The drive's name among those of its server.
    name: String,
    /// Whether it refuses all that changes data.
    is_write_protected: bool,
    namespaces: Namespaces,
    /// Where they are kept.
    namespace_file: Option<NamespaceFile>,
    /// Whether their sizes cannot change.
    is_of_one_size: bool,
    device: Device,
    store: Store,
    clock: Clock,
    inflight: InflightCommands,
    faults: Faults,
    power_cuts: PowerCuts,
    lateness: Lateness,
    /// For how long the requests of this iteration could not be read.
    starved: Nanos,
    traffic: Traffic,
    snapshots: Snapshots,
    /// The model has refused a write: it has worn out.
    is_worn_out: bool,
    events: Events,
    told: Told,
}

impl Engine {
    /// The drive continues at its own time, on the host's clock.
    pub fn new(device: Device, store: Store, pace: Pace, seed: u64) -> Engine {
        Engine::with_time_scale(device, store, pace, TimeScale::default(), seed)
    }

    /// The drive continues at its own time, faster or slower than the host's clock.
    pub fn with_time_scale(
        device: Device,
        store: Store,
        pace: Pace,
        scale: TimeScale,
        seed: u64,
    ) -> Engine {
        let rng = Rng::new(seed).fork("serve");
        let spec = device.spec();
        let on_drive_max = spec.queue_depth_max.max(1);
        Engine {
            name: "drive".to_owned(),
            is_write_protected: false,
            namespaces: Namespaces::whole(store.sectors(), false),
            namespace_file: None,
            is_of_one_size: false,
            store,
            clock: Clock::new(pace, scale, device.now()),
            inflight: InflightCommands::new(on_drive_max),
            faults: Faults::new(rng.fork("faults")),
            power_cuts: PowerCuts::new(rng.fork("losses")),
            lateness: Lateness::new(scale),
            starved: Nanos::ZERO,
            traffic: Traffic::default(),
            snapshots: Snapshots::default(),
            is_worn_out: false,
            events: Events::default(),
            told: Told::default(),
            device,
        }
    }

    /// Gives the drive its name.
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Its parts, as hosts see them: the whole drive if nobody says otherwise.
    pub fn set_namespaces(&mut self, namespaces: Namespaces) {
        self.namespaces = namespaces;
    }

    /// Keeps them there from now on, at each change.
    pub(crate) fn keep_namespaces_in(&mut self, file: NamespaceFile) {
        self.namespace_file = Some(file);
    }

    /// Hosts cannot be told of another size.
    pub(crate) fn fix_size(&mut self) {
        self.is_of_one_size = true;
    }

    /// From now on all that changes data is refused.
    pub fn protect_writes(&mut self) {
        self.is_write_protected = true;
    }

    /// The drive as `session` sees it.
    pub fn drive_of(&mut self, session: SessionId) -> SessionDrive<'_> {
        SessionDrive { engine: self, session }
    }

    /// The data of the drive's sectors.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Commands in flight.
    pub fn outstanding(&self) -> usize {
        self.inflight.len()
    }

    /// The model at this moment; its state can be saved when no commands are in flight.
    pub fn device(&mut self) -> &Device {
        if self.device.next_command().is_none() && self.clock.now() > self.device.now() {
            self.device.idle_until(self.clock.now());
        }
        &self.device
    }

    /// The figures at this moment.
    pub fn report(&mut self) -> Report {
        let (counters, health) = (self.device().counters(), self.device.health());
        let memory = self.store.memory_limit().clone();
        let buffers = memory.used(Use::Sessions) + memory.used(Use::Requests);
        Report {
            drive: self.name.clone(),
            title: self.device.spec().raw.drive.title.clone(),
            capacity_bytes: self.store.sectors() * SECTOR_BYTES,
            namespaces: self.namespaces.figures(),
            memory_bytes: memory.used(Use::Data) + buffers,
            buffer_bytes: buffers,
            memory_max_bytes: memory.max(),
            memory_waits: memory.waits(),
            elapsed_s: self.clock.elapsed().as_secs_f64(),
            drive_s: self.clock.now().as_secs_f64(),
            time_scale: self.clock.scale().ratio(),
            requests: self.traffic.requests,
            refused: self.traffic.refused,
            outstanding: self.outstanding(),
            bytes_read: self.traffic.bytes_read,
            bytes_written: self.traffic.bytes_written,
            waf: health.waf.unwrap_or(0.0),
            temperature_c: counters.temperature_c,
            throttle_stage: counters.throttle_stage,
            losable_bytes: self.losable_bytes(),
            is_off: self.is_off(),
            power_cuts: self.power_cuts.count,
            last_power_cut: self.power_cuts.last,
            lateness: self.lateness.figures(),
        }
    }

    // --- requests ---------------------------------------------------------------------------------

    /// Takes a request; `data` is what a write carries. It completes in a later iteration of the event loop,
    /// also if refused.
    pub fn submit(&mut self, session: SessionId, request: Request, data: &[u8]) {
        self.traffic.requests += 1;
        match request.op {
            Op::Read => self.traffic.bytes_read += u64::from(request.sectors) * SECTOR_BYTES,
            Op::Write { .. } => self.traffic.bytes_written += data.len() as u64,
            _ => {}
        }
        let mut command = InflightCommand::new(session, request, self.traffic.requests);
        (command.read_at, command.starved) = (self.clock.now(), self.starved);
        let accepted = self.accept(&mut command, data);
        if self.store.undo_is_long() {
            self.prune_undo();
        }
        let status = accepted.err();
        command.status = status.unwrap_or(command.status);
        let tag = self.inflight.insert(command);
        let now = self.clock.now();
        if status.is_some() {
            self.inflight.schedule(now, tag);
        } else if self.inflight.admit(tag) {
            self.hand_over(now, tag);
        }
    }

    /// Applies faults and changes the data; refuses what cannot be served.
    fn accept(&mut self, command: &mut InflightCommand, data: &[u8]) -> Result<(), Status> {
        let request = command.request;
        if self.is_write_protected && request.op.changes_data() {
            return Err(Status::ReadOnly);
        }
        self.begin_faults();
        let fault = self.faults.effect(self.clock.since_start(self.clock.now()), &request);
        command.extra = fault.extra;
        command.flush_follows =
            matches!(request.op, Op::WriteZeroes { fua: true, .. } | Op::Trim { fua: true });
        if let Some(status) = fault.status {
            if request.op.changes_data() {
                return Err(status);
            }
            // A read fails when it completes.
            command.status = status;
        }
        command.sync = self.store.apply(command.number, &request, data)?;
        if request.op.changes_data() {
            let now = self.clock.since_start(self.clock.now());
            self.faults.heal(now, request.lba, request.sectors.into());
        }
        Ok(())
    }

    /// Hands a command to the drive, which has a queue slot for it.
    fn hand_over(&mut self, at: Nanos, tag: u32) {
        let Request { op, lba, sectors, .. } = self.inflight[tag].request;
        self.submit_to_model(at, Io { op: op.on_drive(), lba, sectors }, tag);
    }

    fn submit_to_model(&mut self, at: Nanos, io: Io, tag: u32) {
        let at = at.max(self.device.now());
        // What reaches the flash core before is served before: the model's time does not go back.
        self.serve_until(at);
        match self.device.accept(at, io, tag, Nanos::ZERO) {
            Ok(_) => self.inflight.enter_drive(tag),
            Err(error) => self.fail(at, tag, &error),
        }
    }

    fn fail(&mut self, at: Nanos, tag: u32, error: &DeviceError) {
        self.is_worn_out |= matches!(error, DeviceError::ReadOnly { .. });
        self.inflight[tag].status = match error {
            DeviceError::ReadOnly { .. } => Status::ReadOnly,
            DeviceError::NoSpace => Status::NoSpace,
            DeviceError::OutOfRange { .. } | DeviceError::TooLong { .. } => Status::OutOfRange,
            _ => Status::Internal,
        };
        self.inflight.schedule(at, tag);
    }

    /// The model serves what reaches its flash core by `until`, or can no longer change.
    fn serve_until(&mut self, until: Nanos) {
        while let Some(next) = self.device.next_command() {
            if !next.settled && next.at > until {
                return;
            }
            match self.device.serve() {
                Ok(served) => {
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

    /// The next command that completes, in the order of the drive's time; None if none does now.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let (serve_by, due_by) = match self.clock.is_paced() {
                true => (self.clock.now(), self.clock.now().after(self.lateness.send_time())),
                false => (NEVER, NEVER),
            };
            self.serve_until(serve_by);
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
                let flush = Io { op: drivebay_drive::Op::Flush, lba: 0, sectors: 0 };
                self.submit_to_model(at, flush, tag);
                continue;
            }
            return Some(self.complete(at, tag));
        }
    }

    /// Whether the sync that a command waits for has completed.
    fn is_synced(&mut self, tag: u32) -> bool {
        let result = self.inflight[tag].sync.map(|sync: SyncId| self.store.sync_result(sync));
        if result == Some(Some(Err(()))) {
            self.inflight[tag].status = Status::Internal;
        }
        result != Some(None)
    }

    fn complete(&mut self, at: Nanos, tag: u32) -> Completion {
        let InflightCommand { number, read_at, starved, .. } = self.inflight[tag];
        let completion = self.inflight.complete(tag);
        if completion.status == Status::Ok && !self.device.spec().ignore_flush {
            self.store.completed(number, &completion.request);
        }
        if self.clock.is_paced() {
            let modelled = at.since_or_zero(read_at);
            self.lateness.begin_answer(at, modelled, starved, || self.clock.read());
        }
        completion
    }

    /// Format or secure erase: the data of these sectors is gone. Commands in flight are served first.
    fn erase(&mut self, sectors: Range<u64>) -> io::Result<()> {
        self.note(What::Erased);
        if sectors != (0..self.store.sectors()) {
            return self.discard(sectors).map_err(io::Error::other);
        }
        self.serve_until(NEVER);
        self.device.secure_erase();
        let now = self.clock.since_start(self.clock.now());
        self.faults.heal(now, 0, self.store.sectors());
        self.store.zero(self.traffic.requests, 0, self.store.sectors(), false)
    }

    // --- namespaces -------------------------------------------------------------------------------

    /// Gives a namespace, the only one if none is named, another size, bytes. What it loses is trimmed, for good.
    pub fn resize(
        &mut self,
        nsid: Option<u32>,
        bytes: u64,
    ) -> Result<NamespaceFigures, ControlError> {
        if self.is_of_one_size {
            return Err(NamespaceError::Ahci.into());
        }
        let numbers: Vec<u32> = self.namespaces.iter().map(|(nsid, _)| nsid).collect();
        let nsid = match (nsid, &numbers[..]) {
            (Some(nsid), _) | (None, &[nsid]) => nsid,
            (None, several) => return Err(ControlError::WhichNamespace(several.len())),
        };
        let lost = self.namespaces.resize(nsid, bytes)?;
        self.discard(lost)?;
        self.keep_namespaces()?;
        let figures = self.namespaces.get(nsid).expect("it was resized").figures(nsid);
        self.note(What::Resized { nsid, bytes: figures.bytes });
        Ok(figures)
    }

    /// Makes a namespace, which is empty, and returns its number.
    fn create_namespace(&mut self, sectors: u64, is_shared: bool) -> Result<u32, ControlError> {
        if self.is_write_protected {
            return Err(NamespaceError::ReadOnlyDrive.into());
        }
        let nsid = self.namespaces.create(sectors, is_shared)?;
        let one = self.namespaces.get(nsid).expect("it was made");
        let (bytes, sectors) = (one.bytes(), one.range());
        // What was written there before it was a namespace's.
        self.discard(sectors)?;
        self.keep_namespaces()?;
        self.note(What::NamespaceCreated { nsid, bytes });
        Ok(nsid)
    }

    /// Deletes a namespace and what it held, for good.
    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError> {
        if self.is_write_protected {
            return Err(NamespaceError::ReadOnlyDrive.into());
        }
        let lost = self.namespaces.delete(nsid)?;
        self.discard(lost)?;
        self.keep_namespaces()?;
        self.note(What::NamespaceDeleted { nsid });
        Ok(())
    }

    /// Keeps the namespaces beside the drive's state, where it has one.
    pub(crate) fn keep_namespaces(&self) -> Result<(), NamespaceFileError> {
        self.namespace_file.as_ref().map_or(Ok(()), |file| file.save(&self.namespaces))
    }

    /// These sectors hold nothing from now on, whatever the power does. Commands in flight are served first.
    fn discard(&mut self, sectors: Range<u64>) -> Result<(), ControlError> {
        let number = self.traffic.requests;
        self.serve_until(NEVER);
        let mut lba = sectors.start;
        while lba < sectors.end {
            let count = (sectors.end - lba).min(DISCARD_MAX);
            let io = Io { op: drivebay_drive::Op::Trim, lba, sectors: count as u32 };
            self.device.submit(self.device.now().max(self.clock.now()), io)?;
            self.store.discard(number, lba, count)?;
            lba += count;
        }
        Ok(())
    }

    // --- faults and power cuts --------------------------------------------------------------------

    /// The power may be cut, by plan or by [`Engine::power_cut`]: from now on data that is not durable
    /// can be lost.
    pub fn allow_power_cuts(&mut self, plan: Option<PowerCutPlan>, loss: PowerCutLoss) {
        let spec = self.device.spec();
        let buffer = 4096 * (u64::from(spec.buffer_pages) << spec.geometry.page_shift);
        let bytes_max = match loss {
            PowerCutLoss::Unflushed => buffer.max(LOSABLE_MIN),
            // Twice the buffers of the host's two streams.
            PowerCutLoss::All | PowerCutLoss::Random => 4 * buffer + UNSERVED_MAX,
        };
        self.store.keep_undo(loss, bytes_max);
        self.power_cuts.set_plan(plan);
    }

    /// Bytes that a power cut would take now, at most.
    pub fn losable_bytes(&mut self) -> u64 {
        self.prune_undo();
        self.store.losable_bytes()
    }

    fn prune_undo(&mut self) {
        let (device, now) = (&self.device, self.clock.now());
        self.store.prune_undo(|place| device.is_programmed(place, now));
    }

    /// Cuts the power if the plan says so.
    pub fn planned_power_cut(&mut self) -> io::Result<()> {
        if self.power_cuts.is_due(self.clock.plan_time(), self.traffic.requests) {
            self.power_cut()?;
        }
        Ok(())
    }

    /// Cuts the power and restores it: commands in flight never complete, data that is not durable is
    /// lost, and the drive takes its time to become ready. An error of the store leaves neither the old
    /// nor the new data.
    pub fn power_cut(&mut self) -> io::Result<PowerCut> {
        // Not before what has completed.
        self.clock.begin_iteration();
        let at = self.clock.now().max(self.device.now());
        self.device.before_power_cut(at);
        let device = &self.device;
        let programmed = |place| device.is_programmed(place, at);
        let lost_bytes = self.store.power_cut(programmed, &mut self.power_cuts.rng)?;
        let recovery = self.device.power_cut(at);
        self.clock.skip_to(recovery.ready);
        self.inflight.clear();
        self.lateness.drop_answers();
        let ready_after = recovery.ready.since(at);
        let at_ns = self.clock.since_start(at).0;
        let cut = PowerCut { at_ns, ready_after_ns: ready_after.0, lost_bytes };
        self.power_cuts.record(cut, self.clock.elapsed());
        self.told.is_off = self.is_off();
        self.note(What::PowerCut(cut));
        Ok(cut)
    }

    /// What hosts meet after a power cut.
    pub fn set_after_cut(&mut self, after: AfterCut) {
        self.power_cuts.set_after(after);
    }

    /// Whether the power is off: nobody may connect.
    pub(crate) fn is_off(&self) -> bool {
        self.power_cuts.is_off(self.clock.elapsed())
    }

    /// How often all connections had to drop so far.
    pub(crate) fn interruptions(&self) -> u64 {
        self.power_cuts.count + self.snapshots.restored
    }

    /// Adds a fault whose times count from the start of the server.
    pub fn add_fault(&mut self, fault: Fault) -> Result<(), FaultError> {
        self.faults.add(fault)
    }

    fn begin_faults(&mut self) {
        let now = self.clock.since_start(self.clock.now());
        if let Some(ambient_c) = self.faults.begin(now, self.traffic.requests) {
            self.set_ambient_c(ambient_c);
        }
    }

    fn set_ambient_c(&mut self, ambient_c: f64) {
        self.device.set_ambient_c(ambient_c.clamp(-40.0, 100.0));
    }

    // --- snapshots --------------------------------------------------------------------------------

    /// Takes a snapshot, in place of one of the same name. Returns how long the drive was held, seconds of the
    /// host's clock; None if memory for it is being made: to be called again, a little later.
    pub fn snapshot(&mut self, name: &str) -> Result<Option<f64>, SnapshotError> {
        let Some(model) =
            self.snapshots.memory_for(name, &self.device, self.store.memory_limit())?
        else {
            return Ok(None);
        };
        let held = self.hold(|engine| {
            engine.serve_until(NEVER);
            engine.device();
            let losses = engine.power_cuts.rng.clone();
            let chance = Chance { losses, faults: engine.faults.rng.clone() };
            engine.snapshots.take(name, model, &engine.device, &mut engine.store, chance)
        })?;
        Ok(Some(held))
    }

    /// Makes the drive what it was at a snapshot, which stays. Commands in flight never complete, and
    /// connections drop, as hosts know another drive than this. Returns as [`Engine::snapshot`].
    ///
    /// # Errors
    /// [`SnapshotError`]. An error of the store leaves neither the old nor the new data.
    pub fn restore(&mut self, name: &str) -> Result<f64, SnapshotError> {
        self.hold(|engine| {
            let Engine { snapshots, device, store, .. } = engine;
            let chance = snapshots.restore(name, device, store)?;
            snapshots.restored += 1;
            (engine.power_cuts.rng, engine.faults.rng) = (chance.losses, chance.faults);
            engine.is_worn_out = false;
            engine.inflight.clear();
            engine.lateness.drop_answers();
            engine.clock.go_back(engine.device.now());
            Ok(())
        })
    }

    /// Ends a snapshot and frees what it took. Returns as [`Engine::snapshot`].
    pub fn forget_snapshot(&mut self, name: &str) -> Result<f64, SnapshotError> {
        self.hold(|engine| engine.snapshots.forget(name, &mut engine.store))
    }

    /// Writes a snapshot as a new folder with `data` and `state`, as a server takes them. Returns as
    /// [`Engine::snapshot`].
    pub fn clone_snapshot(&mut self, name: &str, folder: &Path) -> Result<f64, SnapshotError> {
        self.hold(|engine| engine.snapshots.clone_to(name, folder, &engine.store))
    }

    /// Does `work` while the drive's clock stands still.
    fn hold(
        &mut self,
        work: impl FnOnce(&mut Engine) -> Result<(), SnapshotError>,
    ) -> Result<f64, SnapshotError> {
        let began = Instant::now();
        self.clock.begin_iteration();
        let done = work(self);
        self.clock.resume();
        done.map(|()| began.elapsed().as_secs_f64())
    }

    // --- events -----------------------------------------------------------------------------------

    /// It has happened now.
    pub(crate) fn note(&mut self, what: What) {
        let drive_s = self.clock.since_start(self.clock.now()).as_secs_f64();
        self.events.note(&self.name, drive_s, what);
    }

    /// Tells of what has begun or ended since it was asked before; some ten times a second.
    pub(crate) fn watch(&mut self) {
        let now = self.clock.since_start(self.clock.now());
        for (kind, begins) in self.faults.changes(now) {
            self.note(if begins { What::FaultBegins { kind } } else { What::FaultEnds { kind } });
        }
        let counters = self.device().counters();
        let (stage, temperature_c) = (counters.throttle_stage, counters.temperature_c);
        if std::mem::replace(&mut self.told.throttle_stage, stage) != stage {
            self.note(match stage {
                0 => What::ThrottleEnds { temperature_c },
                stage => What::ThrottleBegins { stage, temperature_c },
            });
        }
        let is_read_only = self.is_worn_out || self.faults.is_read_only(now);
        if std::mem::replace(&mut self.told.is_read_only, is_read_only) != is_read_only {
            self.note(if is_read_only { What::ReadOnlyBegins } else { What::ReadOnlyEnds });
        }
        let is_off = self.is_off();
        if std::mem::replace(&mut self.told.is_off, is_off) && !is_off {
            self.note(What::PowerOn);
        }
        let elapsed = self.clock.elapsed();
        if elapsed >= self.told.second.after(Nanos::secs(1)) {
            self.told.second = elapsed;
            self.watch_pace();
        }
    }

    fn watch_pace(&mut self) {
        let Some(kept_up_percent) = self.lateness.kept_up_lately() else { return };
        let is_late = kept_up_percent < KEPT_UP_MIN;
        if std::mem::replace(&mut self.told.is_late, is_late) != is_late {
            self.note(match is_late {
                true => What::HostLate { kept_up_percent },
                false => What::HostKeepsUp { kept_up_percent },
            });
        }
    }

    // --- for the event loop -----------------------------------------------------------------------

    /// A connection was refused, or ended for what it did.
    pub(crate) fn note_refused(&mut self) {
        self.traffic.refused += 1;
    }

    /// The requests of this iteration have waited for so long, as the server had no processor to read them.
    pub(crate) fn note_starved(&mut self, starved: Nanos) {
        self.starved = starved;
    }

    /// An iteration of the event loop begins.
    pub fn begin_iteration(&mut self) {
        self.clock.begin_iteration();
        self.begin_faults();
    }

    /// The answers of this iteration have been handed to the kernel.
    pub fn end_iteration(&mut self) {
        self.starved = Nanos::ZERO;
        self.lateness.end_iteration(|| self.clock.read());
    }

    /// When the engine has something to do next, if no request comes.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let due = self.inflight.next_due();
        let begun = due.map(|due| due.since_or_zero(self.lateness.send_time()));
        let next = self.device.next_command().map(|command| command.at);
        match (begun, next) {
            (Some(begun), Some(next)) => Some(begun.min(next)),
            (begun, next) => begun.or(next),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// The drive as one session sees it: its requests and completions carry the session's identifier.
pub struct SessionDrive<'a> {
    engine: &'a mut Engine,
    session: SessionId,
}

impl Drive for SessionDrive<'_> {
    fn submit(&mut self, request: Request, data: &[u8]) {
        self.engine.submit(self.session, request, data);
    }

    fn data(&self) -> &Store {
        &self.engine.store
    }

    fn health(&mut self) -> Health {
        let mut health = self.engine.device().health();
        health.media_errors += self.engine.faults.media_errors;
        health
    }

    fn is_read_only(&mut self) -> bool {
        let engine = &self.engine;
        let now = engine.clock.since_start(engine.clock.now());
        engine.is_worn_out || engine.faults.is_read_only(now)
    }

    fn is_off(&self) -> bool {
        self.engine.is_off()
    }

    fn events(&self, from: u64, most: usize) -> Vec<Event> {
        self.engine.events.since(from).take(most).cloned().collect()
    }

    fn namespaces(&self) -> &Namespaces {
        &self.engine.namespaces
    }

    fn create_namespace(&mut self, sectors: u64, is_shared: bool) -> Result<u32, ControlError> {
        self.engine.create_namespace(sectors, is_shared)
    }

    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError> {
        self.engine.delete_namespace(nsid)
    }

    fn used_sectors(&self) -> u64 {
        self.engine.device.mapped_sectors().min(self.engine.store.sectors())
    }

    fn erase(&mut self, sectors: Range<u64>) -> io::Result<()> {
        self.engine.erase(sectors)
    }

    fn control(&mut self, command: ControlCommand) -> Result<ControlReply, ControlError> {
        let engine = &mut *self.engine;
        match command {
            ControlCommand::Report => return Ok(ControlReply::Report(Box::new(engine.report()))),
            ControlCommand::PowerCut => return Ok(ControlReply::PowerCut(engine.power_cut()?)),
            ControlCommand::PowerOn => engine.power_cuts.power_on(),
            ControlCommand::Ambient(ambient_c) => engine.set_ambient_c(ambient_c),
            ControlCommand::AddFault(mut fault) => {
                let now = engine.clock.since_start(engine.clock.now());
                fault.after_s += now.as_secs_f64();
                fault.after_ios += engine.traffic.requests;
                engine.add_fault(fault)?;
            }
            ControlCommand::ClearFaults => {
                for kind in engine.faults.clear() {
                    engine.note(What::FaultEnds { kind });
                }
            }
            ControlCommand::Resize(nsid, bytes) => {
                return Ok(ControlReply::Resized(engine.resize(nsid, bytes)?));
            }
            ControlCommand::Snapshot(name) => {
                let Some(held_s) = engine.snapshot(&name)? else { return Ok(ControlReply::Later) };
                engine.note(What::Snapshot { name, held_s });
                return Ok(ControlReply::Held { held_s });
            }
            ControlCommand::Restore(name) => {
                let held_s = engine.restore(&name)?;
                engine.note(What::Restored { name, held_s });
                return Ok(ControlReply::Held { held_s });
            }
            ControlCommand::Forget(name) => {
                let held_s = engine.forget_snapshot(&name)?;
                engine.note(What::Forgotten { name });
                return Ok(ControlReply::Held { held_s });
            }
            ControlCommand::Clone(name, folder) => {
                let held_s = engine.clone_snapshot(&name, &folder)?;
                engine.note(What::Cloned { name, folder });
                return Ok(ControlReply::Held { held_s });
            }
        }
        Ok(ControlReply::Success)
    }
}
