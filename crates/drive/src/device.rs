//! The drive: one I/O from the host's call to its completion.
//!
//! [`Device::accept`] takes a request through host software, host interface, host core and, for a
//! write, the link and the write path: resources that requests reach in the order of submission.
//! There it waits for its turn (`firmware/scheduler.rs`): [`Device::serve`] takes the next request
//! through flash core and media (`firmware/media.rs`) and back to the host. So a read passes a
//! write whose data is still on its way in, and calls to every resource after the core are in time
//! order. [`Device::submit`] does both for a host that waits for each request.
//!
//! The device is a composition: each part owns its state, and this file defines the order in which
//! an I/O passes them. The stages of a completion add up to its latency exactly. The contents of
//! data are not known.

pub(crate) mod life;
pub mod power_cut;
pub(crate) mod report;
pub mod sanitize;
pub mod state;

use drivebay_units::{Nanos, Rng, SECTOR_BYTES};

use crate::firmware::backend::BackEnd;
use crate::firmware::controller::Controller;
use crate::firmware::datapath::map_cache::MapTraffic;
use crate::firmware::ftl::Ftl;
use crate::firmware::health::Log;
use crate::firmware::media::Media;
use crate::firmware::path::Path;
use crate::firmware::scheduler::{Request, Scheduler};
use crate::firmware::zones::{Zone, ZoneState, Zones};
use crate::host::interface::HostInterface;
use crate::host::link::Link;
use crate::io::{Completion, DeviceError, Io, NextCommand, Op, Posted, ZoneProblem};
use crate::physics::reliability::Reliability;
use crate::physics::thermal::{Thermal, Work};
use crate::policy_plugin::{Decides, Decisions};
use crate::profile::{Lived, Outages, Spec};
use crate::stage::{Stage, Stages};
use crate::timeline::NEVER;

/// Maximum sectors of a read or write: 1 GiB. Protocols carry less (NVMe and ATA: 65,536 blocks).
/// With this limit no time or energy of one command can overflow, whatever the profile.
const SECTORS_MAX: u32 = 1 << 21;

/// Heat steps of an idle drive without any work, three hours, after which no work can follow: all
/// background work is over in seconds.
const SETTLED_STEPS: u32 = 108_000;

/// Counters since the drive was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Host commands.
    pub commands: u64,
    /// 4 KiB pages that the host wrote, whole or in part.
    pub host_pages: u64,
    /// 4 KiB pages programmed: for the host, for garbage collection, for the map, and as padding.
    pub placed_pages: u64,
    /// 4 KiB pages copied by garbage collection and by folding.
    pub copied_pages: u64,
    /// 4 KiB pages placed in the SLC cache.
    pub slc_pages: u64,
    /// Erases after use in the SLC cache.
    pub slc_erases: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Flash pages read.
    pub page_reads: u64,
    /// Bytes read over the flash channels.
    pub read_bytes: u64,
    /// Time that the flash core has worked, in nanoseconds.
    pub core_busy_ns: u64,
    /// Energy up to the last heat step, in nanojoules.
    pub energy_nj: u64,
    /// Time spent throttled, in nanoseconds.
    pub throttled_ns: u64,
    /// Temperature, degrees Celsius.
    pub temperature_c: f64,
    /// Throttle stage, 0 for none.
    pub throttle_stage: usize,
    /// Errors and wear; zeros if not modelled.
    pub reliability: Reliability,
    /// Traffic of the map's cache; zeros if the map is in the drive's memory.
    pub map: MapTraffic,
}

/// A virtual drive.
pub struct Device {
    spec: Spec,
    host_interface: HostInterface,
    link: Link,
    controller: Controller,
    scheduler: Scheduler,
    media: Media,
    thermal: Thermal,
    log: Log,
    lived: Lived,
    zones: Option<Box<Zones>>,
    /// Time at which heat, or the rebuild of a die, is next due.
    work_at: Nanos,
}

impl Device {
    /// Creates a new drive at ambient temperature.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn new(spec: Spec, seed: u64) -> Result<Device, DeviceError> {
        Self::with_memory(spec, seed, None)
    }

    /// Creates a new drive in the memory of this one where its tables fit, which is cheaper than a
    /// new allocation.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] if the new profile needs other tables.
    pub fn reset(self, spec: Spec, seed: u64) -> Result<Device, DeviceError> {
        Self::with_memory(spec, seed, Some(self.media))
    }

    fn with_memory(spec: Spec, seed: u64, memory: Option<Media>) -> Result<Device, DeviceError> {
        let rng = Rng::new(seed).fork("drive");
        Ok(Device {
            host_interface: HostInterface::new(&spec),
            link: Link::new(&spec),
            controller: Controller::new(&spec),
            scheduler: Scheduler::new(&spec),
            media: Media::new(&spec, &rng, memory)?,
            thermal: Thermal::new(&spec),
            log: Log::new(),
            lived: spec.history.lived,
            zones: spec.zones.map(|zones| Box::new(Zones::new(zones))),
            work_at: Nanos::ZERO,
            spec,
        })
    }

    /// Profile of the drive.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Map and superblocks, for inspection.
    ///
    /// # Panics
    /// If the media is written in place.
    #[must_use]
    pub fn ftl(&self) -> &Ftl {
        &self.media.page_mapped().expect("the media is flash").backend.ftl
    }

    /// Decisions that a policy plug-in makes, and counts of its calls so far; `None` without a
    /// plug-in.
    #[must_use]
    pub fn decisions(&self) -> Option<(Decides, Decisions)> {
        self.media.of_back_end(BackEnd::decisions)
    }

    /// Checks the answers of a policy plug-in so far.
    ///
    /// # Errors
    /// [`DeviceError::Policy`] if an answer was not allowed.
    pub fn check_plugin(&self) -> Result<(), DeviceError> {
        self.media.page_mapped().map_or(Ok(()), |flash| flash.backend.check_plugin())
    }

    /// Zones in the order of their addresses; empty on a drive without zones.
    #[must_use]
    pub fn zones(&self) -> &[Zone] {
        self.zones.as_ref().map_or(&[], |zones| zones.all())
    }

    /// Time of the last submission, or the end of the last idle time.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.media.now()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let work = self.work();
        Counters {
            commands: work.commands,
            host_pages: self.media.host_4k() + self.lived.host_4k,
            placed_pages: work.programmed + self.lived.programmed_4k,
            copied_pages: self.media.page_mapped().map_or(0, |flash| flash.copied_4k()),
            slc_pages: work.slc_programmed,
            slc_erases: self.media.of_back_end(|flash| flash.ftl.slc_erases()),
            erases: work.erases,
            page_reads: work.page_reads,
            read_bytes: work.read_bytes + self.lived.flash_read_bytes,
            core_busy_ns: work.core_ns,
            energy_nj: self.thermal.energy_nj,
            throttled_ns: self.thermal.throttled().0,
            temperature_c: self.thermal.temperature_c(),
            throttle_stage: self.thermal.stage(),
            reliability: self.media.of_back_end(BackEnd::reliability),
            map: self.media.of_back_end(|flash| flash.map.traffic()),
        }
    }

    /// Current maximum of data in the SLC cache, and valid data in it, in 4 KiB pages.
    #[must_use]
    pub fn cache_pages(&self) -> (u64, u64) {
        let (room, held) = self.media.of_back_end(|flash| flash.ftl.cache_pages(flash.reserve()));
        let shift = self.spec.geometry.unit_shift;
        (room << shift, held << shift)
    }

    /// 4 KiB pages that are free, or will be after the next erase; zero on media that is written in
    /// place.
    #[must_use]
    pub fn free_4k(&self) -> u64 {
        self.media.of_back_end(|flash| flash.ftl.free_pages()) << self.spec.geometry.unit_shift
    }

    /// Sectors that hold data, in whole mapping units; all sectors if the media is written in
    /// place.
    #[must_use]
    pub fn mapped_sectors(&self) -> u64 {
        let all = self.spec.geometry.user_sectors;
        self.media.page_mapped().map_or(all, |flash| flash.mapped_sectors())
    }

    /// True if a sector holds data. Cost: 1 map entry.
    #[must_use]
    pub fn is_mapped(&self, lba: u64) -> bool {
        let flash = self.media.page_mapped();
        flash.is_none_or(|flash| flash.backend.ftl.look_up(flash.page_of(lba)).is_some())
    }

    /// Changes the ambient temperature from now on, -40 to 100 degrees Celsius.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        assert!((-40.0..=100.0).contains(&ambient_c), "as a profile's");
        self.advance_thermal(self.now());
        self.thermal.set_ambient_c(ambient_c);
    }

    /// Leaves the drive idle until `until`; it cools, and may run garbage collection.
    pub fn idle_until(&mut self, until: Nanos) {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        if self.media.page_mapped().is_some_and(|flash| flash.works_when_idle()) {
            // Temperature follows idle garbage collection step by step, until nothing has happened
            // for hours; after that nothing will happen.
            let (mut work, mut steps) = (self.work(), 0);
            while self.thermal.next_step() < until && steps < SETTLED_STEPS {
                let step = self.thermal.next_step();
                self.work_until(step);
                self.media.advance(self.now().max(step));
                self.advance_thermal(self.now());
                let before = std::mem::replace(&mut work, self.work());
                steps = if work == before { steps + 1 } else { 0 };
            }
            self.work_until(until);
        }
        self.media.advance(self.now().max(until));
        self.advance_thermal(self.now());
    }

    fn work_until(&mut self, until: Nanos) {
        if let Some(flash) = self.media.page_mapped_mut() {
            flash.rebuild_until(until, &mut self.controller);
            flash.work_until(until, &mut self.controller);
        }
    }

    /// Does work that is due at `now` by the clock, not after a command.
    #[cold]
    #[inline(never)]
    fn keep_up(&mut self, now: Nanos) {
        if let Some(flash) = self.media.page_mapped_mut() {
            flash.rebuild_until(now, &mut self.controller);
        }
        if now >= self.thermal.next_step() {
            self.advance_thermal(now);
        }
        let rebuild = self.media.page_mapped().map_or(NEVER, |flash| flash.backend.stripes.due());
        self.work_at = self.thermal.next_step().min(rebuild);
    }

    /// Fails a die now: its data is computed from the other dies of its stripes and moved to them,
    /// or is lost without `nand.parity`. Returns false and does nothing if there is no such working
    /// die, or on a drive with zones.
    pub fn fail_die(&mut self, die: u32) -> bool {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        let (now, has_zones) = (self.now(), self.zones.is_some());
        let is_die = die < self.spec.geometry.dies();
        let Some(flash) = self.media.page_mapped_mut() else { return false };
        if has_zones || !is_die || flash.backend.stripes.failed().contains(&die) {
            return false;
        }
        flash.backend.fail_die(die, now.max(self.controller.ftl_core().free_at()));
        self.work_at = Nanos::ZERO;
        true
    }

    /// Failed dies in order, and true if their data is still being moved.
    #[must_use]
    pub fn failed_dies(&self) -> (Vec<u32>, bool) {
        let Some(flash) = self.media.page_mapped() else { return Default::default() };
        let stripes = &flash.backend.stripes;
        (stripes.failed().iter().copied().collect(), stripes.due() < NEVER)
    }

    /// Prefetches the memory that submitting an I/O at `lba` needs.
    #[inline(always)]
    pub fn prefetch(&self, lba: u64) {
        if let Some(flash) = self.media.page_mapped() {
            flash.backend.ftl.prefetch(flash.page_of(lba));
        }
    }

    /// Serves one I/O that the host submits at `now`, which must not go back, and then waits for.
    ///
    /// A host that submits more before it knows the end of this I/O must use [`Device::accept`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], [`DeviceError::TooLong`], [`DeviceError::ReadOnly`]: no page
    /// has changed then; [`DeviceError::NoSpace`].
    #[inline]
    pub fn submit(&mut self, now: Nanos, io: Io) -> Result<Completion, DeviceError> {
        debug_assert_eq!(self.next_arrival(), NEVER, "accepted requests were served");
        let mut completion = self.accept(now, io, 0, NEVER)?;
        while completion.is_none() {
            completion = self.serve()?; // one step of a zone's command
        }
        Ok(completion.expect("nothing else is submitted before it is served"))
    }

    /// Accepts a request that the host submits at `now`, which must not go back; `tag` is the
    /// host's identifier of the request.
    ///
    /// A later call of [`Device::serve`] serves it. It is served at once if no other request is
    /// before it and it reaches the flash core by `until`, before which the host submits nothing
    /// more.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], [`DeviceError::TooLong`]: the drive is unchanged then; errors
    /// of [`Device::serve`].
    #[inline(always)]
    pub fn accept(
        &mut self,
        now: Nanos,
        io: Io,
        tag: u32,
        until: Nanos,
    ) -> Result<Option<Completion>, DeviceError> {
        debug_assert!(now >= self.now(), "submissions come in time order");
        self.check(io)?;
        let io = if self.zones.is_some() { self.admit(io)? } else { io };
        let ready = self.host_interface.post(0, now);
        let request = self.enter(now, Posted { at: now, ready }, io, tag);
        let alone = self.next_arrival() == NEVER;
        if alone && request.begin <= until && self.scheduler.is_in_order() {
            return self.serve_request(request);
        }
        self.scheduler.push(request);
        if alone && self.next_arrival() <= until { self.serve() } else { Ok(None) }
    }

    /// Puts a command into a submission queue; [`Device::fetch`] must follow.
    ///
    /// Posts must come in time order. `queue` is below the profile's `host_interface.queues_max`.
    pub fn post(&mut self, queue: usize, now: Nanos) -> Posted {
        Posted { at: now, ready: self.host_interface.post(queue, now) }
    }

    /// Time from which the controller can fetch another command.
    #[must_use]
    pub fn fetch_free_at(&self) -> Nanos {
        self.controller.host_core_free_at()
    }

    /// Fetches a posted command into the controller, not before [`Device::fetch_free_at`]; it is
    /// served later. `room` is the time since which the controller has space for the command; the
    /// wait for this space belongs to the firmware stage.
    ///
    /// Commands of one queue come in the order of their posts. The caller decides which queue comes
    /// next and how many commands are in the controller. [`Device::accept`] is one post and one
    /// fetch.
    ///
    /// # Errors
    /// Errors of [`Device::accept`].
    pub fn fetch(
        &mut self,
        posted: Posted,
        room: Nanos,
        io: Io,
        tag: u32,
    ) -> Result<(), DeviceError> {
        self.check(io)?;
        let io = if self.zones.is_some() { self.admit(io)? } else { io };
        let ready = posted.ready.max(room);
        let now = self.now().max(ready.max(self.fetch_free_at()));
        let mut request = self.enter(now, Posted { at: posted.at, ready }, io, tag);
        let waited = ready.since(posted.ready).0;
        request.stages.0[Stage::Host as usize] -= waited;
        request.stages.0[Stage::Firmware as usize] += waited;
        self.scheduler.push(request);
        Ok(())
    }

    /// Takes a command from a submission queue to the flash core.
    #[inline(always)]
    fn enter(&mut self, now: Nanos, posted: Posted, io: Io, tag: u32) -> Request {
        self.media.advance(now);
        let mut stages = Stages::default();
        let Posted { at, ready } = posted;
        stages.add(Stage::Host, ready.since(at));
        let mut awake = ready;
        if at > self.log.busy_until() && self.next_arrival() == NEVER {
            let wake = self.end_idle(at);
            stages.add(Stage::Link, wake.link);
            stages.add(Stage::Firmware, wake.device);
            awake = ready.after(wake.link).after(wake.device);
        }
        if self.spec.outages.is_some() {
            awake = self.wait_out(Stage::Link, awake, &mut stages);
        }
        if now >= self.work_at {
            self.keep_up(now);
        }
        self.log.count_command(io.op);
        let issued = self.host_interface.fetch(&mut self.link, now, awake);
        stages.add(Stage::Link, issued.since(awake));
        let mut fetched = self.controller.run_host_core(issued, &mut stages);
        if self.spec.outages.is_some() {
            fetched = self.wait_out(Stage::Firmware, fetched, &mut stages);
        }
        let moves_now = io.op.is_write() && !self.scheduler.is_half_duplex();
        let begin = if moves_now { self.receive(fetched, io, &mut stages) } else { fetched };
        Request { begin, tag, io, submitted: at, stages, left: Nanos::ZERO }
    }

    /// Time at which a command that reaches the link or the firmware at `at` continues; later if it
    /// meets an outage.
    #[cold]
    #[inline(never)]
    fn wait_out(&self, part: Stage, at: Nanos, stages: &mut Stages) -> Nanos {
        let Some(Outages { stall, link }) = self.spec.outages else { return at };
        let outage = if part == Stage::Link { link } else { stall };
        let goes_on = outage.map_or(at, |outage| outage.pass(at));
        stages.add(part, goes_on.since(at));
        goes_on
    }

    /// Time at which the next accepted request reaches the flash core; the end of time if there is
    /// none.
    ///
    /// It may be served once the host knows that it submits nothing before this time.
    #[inline(always)]
    #[must_use]
    pub fn next_arrival(&self) -> Nanos {
        self.scheduler.next_at()
    }

    /// Accepted request that reaches the flash core next.
    #[must_use]
    pub fn next_command(&self) -> Option<NextCommand> {
        self.scheduler.peek()
    }

    /// Serves the next accepted request. Returns `None` after a step of a zone's reset or finish,
    /// which continues later.
    ///
    /// # Errors
    /// [`DeviceError::ReadOnly`], no page has changed then; [`DeviceError::NoSpace`].
    ///
    /// # Panics
    /// If no request has been accepted: see [`Device::next_arrival`].
    #[inline]
    pub fn serve(&mut self) -> Result<Option<Completion>, DeviceError> {
        let request = self.scheduler.next();
        self.serve_request(request)
    }

    #[inline(always)]
    fn serve_request(&mut self, mut request: Request) -> Result<Option<Completion>, DeviceError> {
        if self.scheduler.is_half_duplex() && request.io.op.is_write() {
            request.begin = self.receive(request.begin, request.io, &mut request.stages);
            self.scheduler.release(request.begin);
        }
        let Request { begin, io, .. } = request;
        let mut path = Path {
            controller: &mut self.controller,
            link: &mut self.link,
            stages: &mut request.stages,
            backpressure: self.scheduler.has_backpressure(),
            left: request.left,
        };
        let (ready, media_error) = self.media.serve(begin, io, &mut path)?;
        let left = path.left;
        if io.op.is_zone_management() && self.goes_on(&request, ready, left) {
            return Ok(None);
        }
        if !self.scheduler.is_in_order() {
            let flash = self.media.page_mapped_mut();
            self.scheduler.follow(io.op, [begin, ready], |admission| {
                flash.expect("writes are admitted to flash").room(begin, admission)
            });
        }
        Ok(Some(self.complete(&mut request, ready, media_error)))
    }

    /// True if a zone's command that has done a step by `ready` has work left, and continues later.
    #[cold]
    #[inline(never)]
    fn goes_on(&mut self, request: &Request, ready: Nanos, left: Nanos) -> bool {
        let is_step = left > Nanos::ZERO;
        if is_step {
            self.scheduler.push(Request { begin: ready, left, ..*request });
            return true;
        }
        let (Some(zones), Some(flash)) = (&mut self.zones, self.media.page_mapped()) else {
            return false;
        };
        match request.io.op {
            Op::ZoneFinish => zones.finished(request.io),
            Op::ZoneReset => zones.shrink(flash.backend.zones(zones.spec().pages)),
            _ => {}
        }
        false
    }

    /// Injects a fault: a zone becomes read-only, or goes offline with its data.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn fail_zone(&mut self, index: usize, state: ZoneState) {
        let zones = self.zones.as_mut().expect("a drive with zones");
        zones.fail(index, state);
    }

    /// Completes a request that the drive has finished at `ready`.
    #[inline(always)]
    fn complete(
        &mut self,
        request: &mut Request,
        mut ready: Nanos,
        media_error: bool,
    ) -> Completion {
        let Request { tag, io, submitted, ref mut stages, .. } = *request;
        if self.spec.outages.is_some() {
            ready = self.wait_out(Stage::Firmware, ready, stages);
            ready = self.wait_out(Stage::Link, ready, stages);
        }
        let now = self.now();
        let posted = self.host_interface.complete(&mut self.link, now, ready);
        stages.add(Stage::Link, posted.since(ready));
        let done = self.host_interface.interrupt(now, posted, io.data_bytes());
        stages.add(Stage::Host, done.since(posted));
        self.log.complete(done);
        debug_assert_eq!(stages.total(), done.since(submitted), "stages add up to the latency");
        Completion { tag, io, submitted, done, stages: *stages, media_error }
    }

    /// Checks the command against the state of its zone; returns it in the form that the drive
    /// serves.
    #[cold]
    #[inline(never)]
    fn admit(&mut self, io: Io) -> Result<Io, DeviceError> {
        let Some(zones) = &mut self.zones else { return Ok(io) };
        if self.media.page_mapped().is_some_and(|flash| flash.backend.is_read_only()) {
            zones.fail_all();
        }
        let io = zones.admit(io)?;
        if io.op == Op::ZoneReset {
            self.scheduler.end_finish(io.lba);
        }
        Ok(io)
    }

    /// Checks that the range is on the drive and that a command can carry it.
    #[inline(always)]
    fn check(&self, io: Io) -> Result<(), DeviceError> {
        let capacity = self.spec.geometry.user_sectors;
        let end = io.lba.checked_add(u64::from(io.sectors));
        // Zero wraps round to too long.
        let length_is_odd = io.sectors.wrapping_sub(1) >= SECTORS_MAX;
        if length_is_odd || io.op as u8 >= Op::Append as u8 || end.is_none_or(|end| end > capacity)
        {
            self.check_range(io, capacity)?;
        }
        Ok(())
    }

    /// Checks commands other than ordinary reads and writes. Long ranges are allowed for commands
    /// without data.
    #[cold]
    fn check_range(&self, io: Io, capacity: u64) -> Result<(), DeviceError> {
        let Io { op, lba, sectors, .. } = io;
        if op as u8 >= Op::Append as u8 && self.zones.is_none() {
            return Err(DeviceError::Zone { op, zone: 0, problem: ZoneProblem::NoZones });
        }
        // The command applies to the zone of its first block.
        let sectors = if op.is_zone_management() { 1 } else { sectors };
        let end = lba.checked_add(u64::from(sectors));
        let ranged = !matches!(op, Op::Flush | Op::HandleUpdate);
        if ranged && (sectors == 0 || end.is_none_or(|end| end > capacity)) {
            return Err(DeviceError::OutOfRange { op, lba, sectors, capacity });
        }
        if io.data_bytes() > u64::from(SECTORS_MAX) * SECTOR_BYTES {
            return Err(DeviceError::TooLong { op, sectors });
        }
        Ok(())
    }

    /// Moves data of a write down the link and, as it arrives, through the write path; returns the
    /// time at which it is in the buffer.
    #[inline(always)]
    fn receive(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        let (first, arrived) = self.link.move_down(self.now(), from, bytes);
        stages.add(Stage::Link, arrived.since(from));
        self.controller.receive(first, arrived, bytes, stages)
    }

    /// Updates temperatures and throttling.
    #[cold]
    fn advance_thermal(&mut self, now: Nanos) {
        let (_, works_until) = self.controller.work();
        let stage = self.thermal.advance(now, self.work(), works_until, self.log.busy_until());
        self.controller.set_costs(self.spec.throttle[stage].costs);
    }

    /// Work done so far that takes energy.
    fn work(&self) -> Work {
        let (bytes_up, bytes_down) = self.link.bytes();
        Work {
            link_bytes: bytes_up + bytes_down,
            core_ns: self.controller.work().0,
            commands: self.log.commands(),
            ..self.media.work()
        }
    }
}
