//! Operations on a served drive other than reading and writing (namespaces, faults, power cuts,
//! snapshots), and its reports and events.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use drivebay_drive::{Io as ModelIo, Op as ModelOp, Sanitize};
use drivebay_units::{Nanos, SECTOR_BYTES, refuse_if};

use super::Engine;
use crate::engine::inflight::NEVER;
use crate::error::ServeError;
use crate::faults::Fault;
use crate::faults::power_cut::{AfterCut, PowerCut, PowerCutPlan};
use crate::interface::drive::{Control, ControlError, Io, Namespaces};
use crate::interface::events::{Event, What};
use crate::interface::report::{Report, WARNING_C, critical_warning, health_figures};
use crate::memory_limit::Use;
use crate::namespace::{
    AccessState, NamespaceError, NamespaceFigures, NamespaceTable, NewNamespace,
};
use crate::pacing::auto_scale;
use crate::state::snapshots::{Chance, SnapshotError};
use crate::store::PowerCutLoss;

/// Least data that [`PowerCutLoss::Unflushed`] can lose, bytes: with a smaller write buffer hardly
/// any flush would be tested.
const LOSABLE_MIN: u64 = 1 << 20;

/// Space in the undo log for requests that the model has not served yet, bytes; beyond it the
/// oldest entry counts as durable.
const UNSERVED_MAX: u64 = 128 << 20;

/// Share of the model's rate, percent, below which a second of the host is reported as late. guess:
/// below it a latency is the host's as much as the drive's.
const KEPT_UP_MIN: f64 = 90.0;

/// Most sectors of a TRIM that the server issues itself: 1 TiB.
const DISCARD_MAX: u64 = 1 << 31;

impl Namespaces for Engine {
    fn table(&self) -> &NamespaceTable {
        &self.namespaces
    }

    fn access(&self) -> &[AccessState] {
        &self.access
    }

    fn set_placed(&mut self, is_placed: bool) -> Result<(), ControlError> {
        self.changeable_namespaces()?.set_placed(is_placed);
        Ok(self.keep_namespaces()?)
    }

    fn create_namespace(&mut self, wanted: NewNamespace) -> Result<u32, ControlError> {
        let nsid = self.changeable_namespaces()?.create(wanted)?;
        let namespace = self.namespaces.get(nsid).expect("it was made");
        let (bytes, sectors) = (namespace.bytes(), namespace.range());
        // Data that was written there before the namespace existed.
        self.discard(sectors)?;
        self.keep_namespaces()?;
        self.note(What::NamespaceCreated { nsid, bytes });
        Ok(nsid)
    }

    fn format_namespace(&mut self, nsid: u32, block_shift: u8) -> Result<(), ControlError> {
        self.changeable_namespaces()?.format(nsid, block_shift)?;
        Ok(self.keep_namespaces()?)
    }

    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError> {
        let lost = self.changeable_namespaces()?.delete(nsid)?;
        self.discard(lost)?;
        self.keep_namespaces()?;
        self.note(What::NamespaceDeleted { nsid });
        Ok(())
    }
}

impl Control for Engine {
    fn report(&mut self) -> Report {
        let (counters, health) = (self.device().counters(), self.health());
        let warning_c = self.device.spec().rated.warning_c.unwrap_or(WARNING_C);
        let is_hot = health.temperature_c >= warning_c;
        let warning = critical_warning(&health, is_hot, self.is_read_only());
        let errors = self.nvme_errors.load(Ordering::Relaxed);
        let memory = self.store.memory_limit().clone();
        let buffers = memory.used(Use::Sessions) + memory.used(Use::Requests);
        Report {
            drive: self.name.clone(),
            title: self.device.spec().raw.drive.title.clone(),
            capacity_bytes: self.store.sectors() * SECTOR_BYTES,
            namespaces: self.namespaces.figures(),
            ana_states: self.access.clone(),
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
            health: health_figures(&health, warning, errors),
            latency: self.traffic.latencies.figures(),
        }
    }

    fn events(&self, from: u64, most: usize) -> Vec<Event> {
        self.events.since(from).take(most).cloned().collect()
    }

    fn power_cut(&mut self) -> io::Result<PowerCut> {
        // The cut comes after all completed commands.
        self.clock.begin_iteration(None);
        let at = self.clock.now().max(self.device.now());
        self.device.before_power_cut(at);
        let device = &self.device;
        let programmed = |place| device.is_programmed(place, at);
        let block_sectors = |lba| self.namespaces.block_sectors_at(lba);
        let rng = &mut self.power_cuts.rng;
        let lost = self.store.power_cut(programmed, block_sectors, rng)?;
        let lost_bytes = lost.iter().map(|(_, sectors)| sectors * SECTOR_BYTES).sum();
        lost.into_iter().for_each(|(lba, sectors)| self.device.lose(lba, sectors));
        let zones = self.device.zones().to_vec();
        let recovery = self.device.power_cut(at);
        self.forget_behind_write_pointers(&zones)?;
        self.clock.skip_to(recovery.ready);
        self.drop_commands();
        let ready_after = recovery.ready.since(at);
        let at_ns = self.clock.since_start(at).0;
        let cut = PowerCut { at_ns, ready_after_ns: ready_after.0, lost_bytes };
        self.power_cuts.record(cut, self.clock.elapsed());
        self.reported.is_off = self.is_off();
        self.end_recording()?;
        self.note(What::PowerCut(cut));
        Ok(cut)
    }

    fn power_on(&mut self) {
        self.power_cuts.power_on();
    }

    fn set_ambient_c(&mut self, ambient_c: f64) {
        self.device.set_ambient_c(ambient_c.clamp(-40.0, 100.0));
    }

    fn mark(&mut self, text: &str) -> Result<(), ControlError> {
        self.record_mark(text)
    }

    fn add_fault(&mut self, mut fault: Fault) -> Result<(), ControlError> {
        fault.after_s += self.clock.since_start(self.clock.now()).as_secs_f64();
        fault.after_ios += self.traffic.requests;
        Ok(self.faults.add(fault)?)
    }

    fn clear_faults(&mut self) {
        for kind in self.faults.clear() {
            self.note(What::FaultEnds { kind });
        }
    }

    fn set_access(
        &mut self,
        portal: usize,
        state: AccessState,
    ) -> Result<Vec<AccessState>, ControlError> {
        let access = portal.checked_sub(1).and_then(|place| self.access.get_mut(place));
        *access.ok_or(ControlError::Portal(portal))? = state;
        self.note(What::AnaState { portal, state });
        Ok(self.access.clone())
    }

    fn resize(&mut self, nsid: Option<u32>, bytes: u64) -> Result<NamespaceFigures, ControlError> {
        refuse_if(self.is_of_fixed_size, NamespaceError::Ahci)?;
        let nsid = match (nsid, &self.namespace_ids()[..]) {
            (Some(nsid), _) | (None, &[nsid]) => nsid,
            (None, several) => return Err(ControlError::WhichNamespace(several.len())),
        };
        let lost = self.namespaces.resize(nsid, bytes)?;
        self.discard(lost)?;
        self.keep_namespaces()?;
        let figures = self.namespaces.get(nsid).expect("it was resized").figures();
        self.note(What::Resized { nsid, bytes: figures.bytes });
        Ok(figures)
    }

    fn snapshot(&mut self, name: &str) -> Result<Option<f64>, ControlError> {
        let Some(model) =
            self.snapshots.memory_for(name, &self.device, self.store.memory_limit())?
        else {
            return Ok(None);
        };
        let held_s = self.hold(|engine| {
            engine.serve_until(NEVER);
            engine.device();
            let losses = engine.power_cuts.rng.clone();
            let chance = Chance { losses, faults: engine.faults.rng.clone() };
            engine.snapshots.take(name, model, &engine.device, &mut engine.store, chance)
        })?;
        self.note(What::Snapshot { name: name.to_owned(), held_s });
        Ok(Some(held_s))
    }

    fn restore(&mut self, name: &str) -> Result<f64, ControlError> {
        let held_s = self.hold(|engine| {
            let Engine { snapshots, device, store, .. } = engine;
            let chance = snapshots.restore(name, device, store)?;
            snapshots.restored += 1;
            (engine.power_cuts.rng, engine.faults.rng) = (chance.losses, chance.faults);
            engine.is_worn_out = false;
            engine.drop_commands();
            engine.clock.go_back(engine.device.now());
            engine.served = engine.device.now();
            engine.link_outages = engine.device.link_outages(engine.device.now());
            Ok(engine.end_recording()?)
        })?;
        self.note(What::Restored { name: name.to_owned(), held_s });
        Ok(held_s)
    }

    fn forget_snapshot(&mut self, name: &str) -> Result<f64, ControlError> {
        let held_s = self.hold(|engine| engine.snapshots.forget(name, &mut engine.store))?;
        self.note(What::Forgotten { name: name.to_owned() });
        Ok(held_s)
    }

    fn clone_snapshot(&mut self, name: &str, folder: &Path) -> Result<f64, ControlError> {
        let held_s = self.hold(|engine| engine.snapshots.clone_to(name, folder, &engine.store))?;
        self.note(What::Cloned { name: name.to_owned(), folder: folder.to_owned() });
        Ok(held_s)
    }
}

impl Engine {
    /// Allows power cuts, by plan or by [`Control::power_cut`]: from now on data that is not
    /// durable can be lost.
    pub fn allow_power_cuts(&mut self, plan: Option<PowerCutPlan>, loss: PowerCutLoss) {
        let spec = self.device.spec();
        let buffer = 4096 * (u64::from(spec.buffer_pages) << spec.geometry.page_shift);
        let bytes_max = match loss {
            // A write pointer goes back by at most the size of the buffer.
            PowerCutLoss::Unflushed if spec.zones.is_some() => buffer,
            PowerCutLoss::Unflushed => buffer.max(LOSABLE_MIN),
            // Twice the buffers of the host's two streams.
            PowerCutLoss::All | PowerCutLoss::Random => 4 * buffer + UNSERVED_MAX,
        };
        self.store.keep_undo(loss, bytes_max);
        self.power_cuts.set_plan(plan);
    }

    /// Sets the behaviour after a power cut, as hosts see it.
    pub(crate) fn set_after_cut(&mut self, after: AfterCut) {
        self.power_cuts.after = after;
    }

    /// Most bytes that a power cut could lose now.
    pub fn losable_bytes(&mut self) -> u64 {
        self.prune_undo();
        self.store.losable_bytes()
    }

    pub(super) fn prune_undo(&mut self) {
        let (device, now) = (&self.device, self.clock.now());
        self.store.prune_undo(|place| device.is_programmed(place, now));
    }

    /// Drops all commands in flight if the link is down from now on.
    pub(crate) fn watch_link(&mut self) {
        let outages = self.device.link_outages(self.clock.now());
        if outages > self.link_outages {
            self.link_outages = outages;
            self.serve_until(NEVER);
            self.drop_commands();
            self.note(What::LinkDown { outages });
        }
    }

    /// Cuts the power if the plan requires it.
    pub(crate) fn planned_power_cut(&mut self) -> io::Result<()> {
        if self.power_cuts.is_due(self.clock.plan_time(), self.traffic.requests) {
            self.power_cut()?;
        }
        Ok(())
    }

    /// Number of times that all connections had to drop.
    pub(crate) fn interruptions(&self) -> u64 {
        self.power_cuts.count + self.snapshots.restored + self.link_outages
    }

    pub(super) fn begin_faults(&mut self) {
        let now = self.clock.since_start(self.clock.now());
        if let Some(ambient_c) = self.faults.begin(now, self.traffic.requests) {
            self.set_ambient_c(ambient_c);
        }
    }

    /// Namespaces, if hosts may change them.
    fn changeable_namespaces(&mut self) -> Result<&mut NamespaceTable, NamespaceError> {
        refuse_if(self.is_write_protected, NamespaceError::ReadOnlyDrive)?;
        Ok(&mut self.namespaces)
    }

    /// Saves the namespaces next to the drive's state, if it has one.
    pub(crate) fn keep_namespaces(&self) -> Result<(), ServeError> {
        self.namespace_file.as_ref().map_or(Ok(()), |file| file.save(&self.namespaces))
    }

    /// Discards the content of these sectors, even across a power cut. Commands in flight are
    /// served first. Returns the time at which the drive is done.
    pub(super) fn discard(&mut self, sectors: Range<u64>) -> Result<Nanos, ControlError> {
        let number = self.traffic.requests;
        self.serve_until(NEVER);
        let now = self.clock.since_start(self.clock.now());
        self.faults.heal(now, sectors.start, sectors.end - sectors.start);
        let mut done = self.clock.now();
        self.record_erased(&sectors);
        if !self.device.zones().is_empty() {
            return self.reset_zones(sectors);
        }
        let mut lba = sectors.start;
        while lba < sectors.end {
            let count = (sectors.end - lba).min(DISCARD_MAX);
            let io = ModelIo::new(ModelOp::Trim, lba, count as u32);
            done = self.device.submit(self.device.now().max(self.clock.now()), io)?.done;
            self.store.discard(number, lba, count)?;
            lba += count;
        }
        Ok(done)
    }

    /// Erases the whole drive. With a pattern, the sectors with data are filled with it, if the
    /// store has enough space and there is no recording, whose format has no such command. Returns
    /// the time of the end, and true if the pattern was written.
    pub(super) fn erase_all(
        &mut self,
        how: Sanitize,
        pattern: Option<u32>,
    ) -> io::Result<(Nanos, bool)> {
        self.serve_until(NEVER);
        let (sectors, number) = (self.store.sectors(), self.traffic.requests);
        let pattern = pattern.filter(|_| self.recorder.is_none());
        let is_kept = pattern.is_some_and(|pattern| self.store.fill(number, pattern).is_ok());
        self.record_erased(&(0..sectors));
        let at = self.clock.now().max(self.device.now());
        let done = if is_kept {
            self.device.sanitize_kept(at, how)
        } else {
            self.device.sanitize(at, how)
        };
        self.clock.skip_to(done);
        let now = self.clock.since_start(self.clock.now());
        self.faults.heal(now, 0, sectors);
        if !is_kept {
            self.store.zero(number, 0, sectors, false)?;
        }
        Ok((done, is_kept))
    }

    /// Does `work` while the drive's clock stands still; returns the duration in seconds of the
    /// host's clock.
    fn hold(
        &mut self,
        work: impl FnOnce(&mut Engine) -> Result<(), SnapshotError>,
    ) -> Result<f64, SnapshotError> {
        let began = Instant::now();
        self.clock.begin_iteration(None);
        let done = work(self);
        self.clock.resume();
        done.map(|()| began.elapsed().as_secs_f64())
    }

    /// Records an event that happens now.
    pub(crate) fn note(&mut self, what: What) {
        let drive_s = self.clock.since_start(self.clock.now()).as_secs_f64();
        self.events.note(&self.name, drive_s, what);
    }

    /// Reports conditions that have begun or ended since the last call; called about ten times a
    /// second.
    pub(crate) fn watch(&mut self) {
        let now = self.clock.since_start(self.clock.now());
        for (kind, begins) in self.faults.changes(now) {
            self.note(if begins { What::FaultBegins { kind } } else { What::FaultEnds { kind } });
        }
        let counters = self.device().counters();
        let (stage, temperature_c) = (counters.throttle_stage, counters.temperature_c);
        if std::mem::replace(&mut self.reported.throttle_stage, stage) != stage {
            self.note(match stage {
                0 => What::ThrottleEnds { temperature_c },
                stage => What::ThrottleBegins { stage, temperature_c },
            });
        }
        let is_read_only = self.is_read_only();
        if std::mem::replace(&mut self.reported.is_read_only, is_read_only) != is_read_only {
            self.note(if is_read_only { What::ReadOnlyBegins } else { What::ReadOnlyEnds });
        }
        let is_off = self.is_off();
        if std::mem::replace(&mut self.reported.is_off, is_off) && !is_off {
            self.note(What::PowerOn);
        }
        let elapsed = self.clock.elapsed();
        if elapsed >= self.reported.second.after(Nanos::secs(1)) {
            self.reported.second = elapsed;
            self.watch_pace();
        }
    }

    fn watch_pace(&mut self) {
        let Some(lately) = self.lateness.lately() else { return };
        let kept_up_percent = lately.kept_up_percent;
        let is_late = kept_up_percent < KEPT_UP_MIN;
        if std::mem::replace(&mut self.reported.is_late, is_late) != is_late {
            self.note(match is_late {
                true => What::HostLate { kept_up_percent },
                false => What::HostKeepsUp { kept_up_percent },
            });
        }
        let scale = self.clock.scale();
        if scale.is_auto()
            && let Some(time_scale) = auto_scale::judge(scale.ratio(), &lately)
        {
            self.clock.set_scale(time_scale);
            self.note(What::TimeScale { time_scale, kept_up_percent });
        }
    }
}
