//! The drive: one I/O from the host's call to its completion.
//!
//! [`Device::accept`] takes a request through host software, host interface, host core and, for a write, the
//! link and the write path: resources that requests reach in the order of submission. There it waits
//! for the flash core, which serves in the order of arrival: [`Device::serve`] takes the next one
//! through map and flash (`device/read.rs`, `device/write.rs`) and back to the host. So a read passes a
//! write whose data is still on its way in, and every resource behind the core is asked in time order.
//! [`Device::submit`] does both for a host that waits for each request.
//!
//! The device is a composition: each part owns its state, and this file says in which order an I/O passes
//! them. The stages of a completion add up to its latency exactly.
//! Data content is not known.

mod in_place;
pub mod power_cut;
mod read;
mod report;
pub mod sanitize;
pub mod state;
mod write;

use drivebay_units::{Lpn, Nanos, Rng, SECTOR_BYTES};

use crate::firmware::backend::Flash;
use crate::firmware::controller::Controller;
use crate::firmware::ftl::Ftl;
use crate::firmware::gc::Gc;
use crate::firmware::health::Log;
use crate::firmware::map_cache::MapTraffic;
use crate::firmware::read_ahead::ReadAhead;
use crate::firmware::slc_cache::SlcCache;
use crate::flash::in_place::InPlace;
use crate::host::command_queue::{CommandQueue, QueuedRequest};
use crate::host::interface::HostInterface;
use crate::host::link::Link;
use crate::io::{Completion, DeviceError, Io, NextCommand, Op, Posted};
use crate::physics::reliability::Reliability;
use crate::physics::thermal::{Thermal, Work};
use crate::policy_plugin::{Decides, Decisions};
use crate::profile::{Costs, Spec};
use crate::stage::{Stage, Stages};
use crate::timeline::NEVER;

/// Most sectors of a read or write: 1 GiB. Protocols carry less (NVMe and ATA: 65,536 blocks); with this
/// no time or energy of one command can overflow, whatever the profile.
const SECTORS_MAX: u32 = 1 << 21;

/// log2 of sectors in 4 KiB.
const SHIFT_4K: u32 = 3;

/// What the drive has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Host commands.
    pub commands: u64,
    /// 4 KiB pages the host wrote, whole or in part.
    pub host_pages: u64,
    /// 4 KiB pages programmed: for the host, for garbage collection, for the map, and as padding.
    pub placed_pages: u64,
    /// 4 KiB pages copied by garbage collection and by folding.
    pub copied_pages: u64,
    /// 4 KiB pages placed in the SLC cache.
    pub slc_pages: u64,
    /// Erases that followed use in the SLC cache.
    pub slc_erases: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Flash pages read.
    pub page_reads: u64,
    /// Bytes read over the flash channels.
    pub read_bytes: u64,
    /// Time that the flash core has worked, nanoseconds.
    pub core_busy_ns: u64,
    /// Energy up to the last heat step, nanojoule.
    pub energy_nj: u64,
    /// Time spent throttled, nanoseconds.
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
    queue: CommandQueue,
    flash: Flash,
    /// The media in place of flash, if the drive has such.
    in_place: Option<Box<InPlace>>,
    gc: Gc,
    slc_cache: Option<Box<SlcCache>>,
    read_ahead: Option<Box<ReadAhead>>,
    thermal: Thermal,
    log: Log,
    /// 4 KiB pages that the host wrote, whole or in part.
    host_4k: u64,
    /// Pages (mapping units) that these were brought up to.
    host_pages: u64,
    /// Of these, those that took the place of others in the write buffer.
    absorbed_pages: u64,
    /// log2 of sectors in a page.
    page_shift: u32,
}

impl Device {
    /// A fresh drive at ambient temperature.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn new(spec: Spec, seed: u64) -> Result<Device, DeviceError> {
        Self::with_memory(spec, seed, None)
    }

    /// A fresh drive in the memory of this one, where its tables fit: cheaper than making another.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], when the new profile needs other tables.
    pub fn reset(self, spec: Spec, seed: u64) -> Result<Device, DeviceError> {
        Self::with_memory(spec, seed, Some(self.flash))
    }

    fn with_memory(spec: Spec, seed: u64, memory: Option<Flash>) -> Result<Device, DeviceError> {
        let rng = Rng::new(seed).fork("drive");
        Ok(Device {
            host_interface: HostInterface::new(&spec),
            link: Link::new(&spec),
            controller: Controller::new(&spec),
            queue: CommandQueue::new(&spec),
            flash: Flash::new(&spec, &rng, memory)?,
            in_place: spec.in_place.as_ref().map(|media| Box::new(InPlace::new(media))),
            gc: Gc::new(&spec),
            slc_cache: spec.slc_cache.map(|slc| Box::new(SlcCache::new(slc))),
            read_ahead: spec.read_ahead.map(|r| Box::new(ReadAhead::new(r))),
            thermal: Thermal::new(&spec),
            log: Log::new(),
            page_shift: SHIFT_4K + spec.geometry.unit_shift,
            host_4k: 0,
            host_pages: 0,
            absorbed_pages: 0,
            spec,
        })
    }

    /// The profile that the drive was made from.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The map and the superblocks, to look at.
    #[must_use]
    pub fn ftl(&self) -> &Ftl {
        self.flash.ftl()
    }

    /// What a policy plug-in takes, and was asked so far; none without one.
    #[must_use]
    pub fn decisions(&self) -> Option<(Decides, Decisions)> {
        self.flash.decisions()
    }

    /// # Errors
    /// [`DeviceError::Policy`], once a policy plug-in has given an answer that is not allowed.
    pub fn check_plugin(&self) -> Result<(), DeviceError> {
        self.flash.check_plugin()
    }

    /// Time of the last submission, or the end of the last idle time.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.flash.now()
    }

    /// Everything counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let work = self.work();
        Counters {
            commands: work.commands,
            host_pages: self.host_4k,
            placed_pages: work.programmed,
            copied_pages: self.gc.copied_pages() << self.spec.geometry.unit_shift,
            slc_pages: work.slc_programmed,
            slc_erases: self.ftl().slc_erases(),
            erases: work.erases,
            page_reads: work.page_reads,
            read_bytes: work.read_bytes,
            core_busy_ns: work.core_ns,
            energy_nj: self.thermal.energy_nj(),
            throttled_ns: self.thermal.throttled().0,
            temperature_c: self.thermal.temperature_c(),
            throttle_stage: self.thermal.stage(),
            reliability: self.flash.reliability(),
            map: self.flash.map_traffic(),
        }
    }

    /// Data that the SLC cache can hold at most just now, and valid data in it, in 4 KiB pages.
    #[must_use]
    pub fn cache_pages(&self) -> (u64, u64) {
        let (room, held) = self.ftl().cache_pages(self.flash.reserve());
        let shift = self.spec.geometry.unit_shift;
        (room << shift, held << shift)
    }

    /// 4 KiB pages that are free, or will be with the next erase.
    #[must_use]
    pub fn free_4k(&self) -> u64 {
        self.ftl().free_pages() << self.spec.geometry.unit_shift
    }

    /// Sectors that hold data, in whole mapping units.
    #[must_use]
    pub fn mapped_sectors(&self) -> u64 {
        if self.in_place.is_some() {
            return self.spec.geometry.user_sectors;
        }
        self.ftl().mapped() << self.page_shift
    }

    /// Whether a sector holds data. Cost: 1 map entry.
    #[must_use]
    pub fn is_mapped(&self, lba: u64) -> bool {
        self.in_place.is_some() || self.ftl().look_up(self.page_of(lba)).is_some()
    }

    /// The page of a sector.
    #[inline(always)]
    fn page_of(&self, lba: u64) -> Lpn {
        Lpn((lba >> self.page_shift) as u32)
    }

    /// First and last page that an I/O touches.
    #[inline(always)]
    fn touched(&self, io: Io) -> (Lpn, Lpn) {
        (self.page_of(io.lba), self.page_of(io.lba + u64::from(io.sectors) - 1))
    }

    /// The environment has another temperature from now on, -40 to 100 degrees Celsius.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        assert!((-40.0..=100.0).contains(&ambient_c), "as a profile's");
        self.advance_thermal(self.now());
        self.thermal.set_ambient_c(ambient_c);
    }

    /// Nothing is asked of the drive until `until`; it cools, and may run garbage collection.
    pub fn idle_until(&mut self, until: Nanos) {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        if self.gc.works_when_idle() {
            // Temperature follows idle garbage collection, step by step.
            while self.thermal.next_step() < until {
                let step = self.thermal.next_step();
                self.work_until(step);
                self.flash.advance(self.now().max(step));
                self.advance_thermal(self.now());
            }
            self.work_until(until);
        }
        self.flash.advance(self.now().max(until));
        self.advance_thermal(self.now());
    }

    /// Starts fetching what submitting an I/O at `lba` will need.
    #[inline(always)]
    pub fn prefetch(&self, lba: u64) {
        self.flash.ftl().prefetch(self.page_of(lba));
    }

    /// Serves one I/O that the host submits at `now`, which must not go back, and then waits for.
    ///
    /// For a host that asks more before it knows this one's end, use [`Device::accept`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], [`DeviceError::TooLong`], [`DeviceError::ReadOnly`]: no page has
    /// changed then; [`DeviceError::NoSpace`].
    #[inline]
    pub fn submit(&mut self, now: Nanos, io: Io) -> Result<Completion, DeviceError> {
        debug_assert_eq!(self.next_arrival(), NEVER, "accepted requests were served");
        let completion = self.accept_or_serve(now, io, 0, NEVER)?;
        Ok(completion.expect("nothing else is submitted before it is served"))
    }

    /// Takes a request that the host submits at `now`, which must not go back; `tag` is the host's name
    /// for it. It is served by a later call of [`Device::serve`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], [`DeviceError::TooLong`]; the drive is unchanged then.
    #[inline]
    pub fn accept(&mut self, now: Nanos, io: Io, tag: u32) -> Result<(), DeviceError> {
        self.accept_or_serve(now, io, tag, Nanos::ZERO).map(|_| ())
    }

    /// As [`Device::accept`], for a host that submits nothing more before `until`: if the request reaches
    /// the flash core by then, and no other before it, it is served at once.
    ///
    /// # Errors
    /// As [`Device::accept`] and [`Device::serve`].
    #[inline(always)]
    pub fn accept_or_serve(
        &mut self,
        now: Nanos,
        io: Io,
        tag: u32,
        until: Nanos,
    ) -> Result<Option<Completion>, DeviceError> {
        debug_assert!(now >= self.now(), "submissions come in time order");
        self.check(io)?;
        let ready = self.host_interface.post(0, now);
        let request = self.enter(now, Posted { at: now, ready }, io, tag);
        if request.arrival <= until && self.next_arrival() == NEVER {
            if self.queue.has_turns() {
                return self.wait_for_turn(request, until);
            }
            return self.serve_request(request).map(Some);
        }
        self.queue.push(request);
        Ok(None)
    }

    /// A half-duplex controller serves a request when its direction has the path, an admitted write is served when
    /// it is let in: which may be at once.
    #[cold]
    #[inline(never)]
    fn wait_for_turn(
        &mut self,
        request: QueuedRequest,
        until: Nanos,
    ) -> Result<Option<Completion>, DeviceError> {
        self.queue.push(request);
        if self.next_arrival() <= until { self.serve().map(Some) } else { Ok(None) }
    }

    /// The host puts a command into a submission queue; to be followed by [`Device::fetch`].
    ///
    /// Posts must come in time order. `queue` is below the profile's `host_interface.queues_max`.
    pub fn post(&mut self, queue: usize, now: Nanos) -> Posted {
        Posted { at: now, ready: self.host_interface.post(queue, now) }
    }

    /// When the controller can fetch another command.
    #[must_use]
    pub fn fetch_free_at(&self) -> Nanos {
        self.controller.host_core_free_at()
    }

    /// The controller fetches a posted command, not before [`Device::fetch_free_at`]; to be served later. `room`: since
    /// when it has a place for the command; what that one waited for it is the firmware's.
    ///
    /// Commands of one queue come in the order of their posts; which queue comes next, and how many are in
    /// the controller, is the caller's to decide. [`Device::accept`] is one post and one fetch.
    ///
    /// # Errors
    /// As [`Device::accept`].
    pub fn fetch(
        &mut self,
        posted: Posted,
        room: Nanos,
        io: Io,
        tag: u32,
    ) -> Result<(), DeviceError> {
        self.check(io)?;
        let ready = posted.ready.max(room);
        let now = self.now().max(ready.max(self.fetch_free_at()));
        let mut request = self.enter(now, Posted { at: posted.at, ready }, io, tag);
        let waited = ready.since(posted.ready).0;
        request.stages.0[Stage::Host as usize] -= waited;
        request.stages.0[Stage::Firmware as usize] += waited;
        self.queue.push(request);
        Ok(())
    }

    /// From a submission queue to the flash core.
    #[inline(always)]
    fn enter(&mut self, now: Nanos, posted: Posted, io: Io, tag: u32) -> QueuedRequest {
        self.flash.advance(now);
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
        if now >= self.thermal.next_step() {
            self.advance_thermal(now);
        }
        self.log.count_command(io.op);
        let issued = self.host_interface.fetch(&mut self.link, now, awake);
        stages.add(Stage::Link, issued.since(awake));
        let fetched = self.controller.run_host_core(issued, &mut stages);
        let moves_now = io.op.is_write() && !self.queue.is_half_duplex();
        let arrival = if moves_now { self.receive(fetched, io, &mut stages) } else { fetched };
        QueuedRequest { arrival, tag, io, submitted: at, stages }
    }

    /// When the next accepted request reaches the flash core; the end of time if there is none.
    ///
    /// It may be served once the host knows that it submits nothing before this time.
    #[inline(always)]
    #[must_use]
    pub fn next_arrival(&self) -> Nanos {
        self.queue.next_arrival()
    }

    /// The accepted request that reaches the flash core next.
    #[must_use]
    pub fn next_command(&self) -> Option<NextCommand> {
        self.queue.next()
    }

    /// Serves the accepted request that reaches the flash core next.
    ///
    /// # Errors
    /// [`DeviceError::ReadOnly`], no page has changed then; [`DeviceError::NoSpace`].
    ///
    /// # Panics
    /// When no request has been accepted: see [`Device::next_arrival`].
    #[inline]
    pub fn serve(&mut self) -> Result<Completion, DeviceError> {
        const NONE: &str = "a request was accepted and not yet served";
        if self.queue.has_turns() {
            if !self.queue.is_half_duplex() {
                let request = self.queue.let_in().expect(NONE);
                return self.serve_admitted(request);
            }
            let (request, begin) = self.queue.grant().expect(NONE);
            return self.serve_half_duplex(request, begin);
        }
        let request = self.queue.pop().expect(NONE);
        self.serve_request(request)
    }

    #[inline(always)]
    fn serve_request(&mut self, request: QueuedRequest) -> Result<Completion, DeviceError> {
        let QueuedRequest { arrival, tag, io, submitted, mut stages } = request;
        if self.in_place.is_some() {
            let ready = match io.op {
                Op::Read => self.read_in_place(arrival, io, &mut stages),
                Op::Write | Op::WriteFua => self.write_in_place(arrival, io, &mut stages),
                _ => self.pass_in_place(arrival, &mut stages),
            };
            return Ok(self.complete(tag, io, submitted, ready, stages));
        }
        let ready = match io.op {
            Op::Flush => self.flush(arrival, &mut stages),
            _ if self.flash.is_read_only() && io.op != Op::Read => return Err(self.worn_out()),
            Op::Read => self.read(arrival, io, &mut stages),
            Op::Write | Op::WriteFua => self.write(arrival, io, &mut stages)?,
            Op::Trim => self.trim(arrival, io, &mut stages),
            Op::WriteZeroes => self.write_zeroes(arrival, io, &mut stages)?,
        };
        Ok(self.complete(tag, io, submitted, ready, stages))
    }

    /// The completion of a request that the drive is done with at `ready`.
    #[inline(always)]
    fn complete(
        &mut self,
        tag: u32,
        io: Io,
        submitted: Nanos,
        ready: Nanos,
        mut stages: Stages,
    ) -> Completion {
        let now = self.now();
        let posted = self.host_interface.complete(&mut self.link, now, ready);
        stages.add(Stage::Link, posted.since(ready));
        let done = self.host_interface.interrupt(now, posted, io.data_bytes());
        stages.add(Stage::Host, done.since(posted));
        self.log.complete(done);
        debug_assert_eq!(stages.total(), done.since(submitted), "stages add up to the latency");
        let media_error = self.flash.take_media_error();
        Completion { tag, io, submitted, done, stages, media_error }
    }

    /// Refuses what does not lie on the drive, or no command can carry.
    #[inline(always)]
    fn check(&self, io: Io) -> Result<(), DeviceError> {
        let capacity = self.spec.geometry.user_sectors;
        let end = io.lba.checked_add(u64::from(io.sectors));
        // Zero wraps round to too long.
        let length_is_odd = io.sectors.wrapping_sub(1) >= SECTORS_MAX;
        if length_is_odd || end.is_none_or(|end| end > capacity) {
            self.check_range(io, capacity)?;
        }
        Ok(())
    }

    /// `check` for what is no ordinary read or write: long ranges are for commands without data.
    #[cold]
    fn check_range(&self, io: Io, capacity: u64) -> Result<(), DeviceError> {
        let Io { op, lba, sectors } = io;
        let end = lba.checked_add(u64::from(sectors));
        if op != Op::Flush && (sectors == 0 || end.is_none_or(|end| end > capacity)) {
            return Err(DeviceError::OutOfRange { op, lba, sectors, capacity });
        }
        if io.data_bytes() > u64::from(SECTORS_MAX) * SECTOR_BYTES {
            return Err(DeviceError::TooLong { op, sectors });
        }
        Ok(())
    }

    /// Serves a request of a half-duplex controller, which goes on at `begin`.
    #[cold]
    #[inline(never)]
    fn serve_half_duplex(
        &mut self,
        request: QueuedRequest,
        begin: Nanos,
    ) -> Result<Completion, DeviceError> {
        let QueuedRequest { arrival, io, mut stages, .. } = request;
        stages.add(Stage::Firmware, begin.since(arrival));
        let refused = self.flash.is_read_only() && io.op.is_write();
        if io.op == Op::Read {
            let ready = self.read(begin, io, &mut stages);
            self.queue.release(ready);
            Ok(self.complete(request.tag, io, request.submitted, ready, stages))
        } else {
            let mut arrival = begin;
            if io.op.is_write() && !refused {
                arrival = self.receive(begin, io, &mut stages);
                self.queue.release(arrival);
            }
            self.serve_request(QueuedRequest { arrival, stages, ..request })
        }
    }

    /// Serves a request where writes are admitted; a write decides when the next may come.
    #[cold]
    #[inline(never)]
    fn serve_admitted(&mut self, request: QueuedRequest) -> Result<Completion, DeviceError> {
        let (at, op) = (request.arrival, request.io.op);
        let completion = self.serve_request(request);
        if op == Op::Read {
            self.queue.follow_read(at);
        } else if op.is_write() && completion.is_ok() {
            let paced = self.gc.runs(&self.flash);
            let room = self.flash.room_at().max(self.gc.writes_from());
            if self.queue.looks(self.host_pages) {
                self.queue.look(self.host_pages, self.flash.buffer_taken_64(at));
            }
            self.queue.follow_write(at, room, paced, self.host_pages);
        }
        completion
    }

    /// Data of a write moves down the link and, as it comes, through the write path; returns when it is in.
    #[inline(always)]
    fn receive(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        let (first, arrived) = self.link.move_down(self.now(), from, bytes);
        stages.add(Stage::Link, arrived.since(from));
        self.controller.receive(first, arrived, bytes, stages)
    }

    /// A command's pass through the flash core, after what the drive did for itself while idle.
    #[inline(always)]
    fn run_flash_core(
        &mut self,
        from: Nanos,
        cost: impl Fn(&Costs) -> Nanos,
        stages: &mut Stages,
    ) -> Nanos {
        if self.gc.may_have_idled(from, &self.controller) {
            self.work_until(from);
            self.gc.end_idle();
        }
        let end = self.controller.run_flash_core(from, cost, stages);
        self.flash.dies_until(end);
        end
    }

    /// What the drive does for itself while the flash core has no command until `until`.
    #[inline(never)]
    fn work_until(&mut self, until: Nanos) {
        let (gc, flash, controller) = (&mut self.gc, &mut self.flash, &mut self.controller);
        match &mut self.slc_cache {
            Some(cache) => cache.work_until(until, gc, flash, controller),
            None => gc.run_until(until, flash, controller),
        }
    }

    /// Brings temperatures and throttling up to date.
    #[cold]
    fn advance_thermal(&mut self, now: Nanos) {
        let (_, works_until) = self.controller.work();
        let stage = self.thermal.advance(now, self.work(), works_until, self.log.busy_until());
        self.controller.set_costs(self.spec.throttle[stage].costs);
    }

    /// What has been done so far that takes energy.
    fn work(&self) -> Work {
        let (bytes_up, bytes_down) = self.link.bytes();
        let placed = self.host_pages - self.absorbed_pages + self.gc.copied_pages();
        let unit_shift = self.spec.geometry.unit_shift;
        let nand = self.flash.nand();
        let (page_reads, read_bytes) = match &self.in_place {
            Some(media) => (media.reads(), media.read_bytes()),
            None => (nand.page_reads(), nand.read_bytes()),
        };
        Work {
            programmed: (placed << unit_shift) + self.flash.overhead_4k(),
            slc_programmed: self.ftl().slc_pages() << unit_shift,
            page_reads,
            read_bytes,
            erases: nand.superblock_erases(),
            link_bytes: bytes_up + bytes_down,
            core_ns: self.controller.work().0,
            commands: self.log.commands(),
        }
    }

    /// Why a change is refused: a worn-out drive only reads.
    #[cold]
    fn worn_out(&self) -> DeviceError {
        DeviceError::ReadOnly { failed_blocks: self.flash.reliability().failed_blocks }
    }
}
