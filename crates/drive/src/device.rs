//! The drive: one I/O from the host's call to its completion.
//!
//! [`Device::accept`] takes a request through host software, interface, host core and, for a write, the
//! link and the write path: resources that requests reach in the order of submission. There it waits
//! for the flash core, which serves in the order of arrival: [`Device::serve`] takes the next one
//! through map and flash (`device/read.rs`, `device/write.rs`) and back to the host. So a read passes a
//! write whose data is still on its way in, and every resource behind the core is asked in time order.
//! [`Device::submit`] does both for a host that waits for each request.
//!
//! The stages of a completion add up to its latency exactly. Collection is in `device/collect.rs`.
//! Data content is known only as how far it can be compressed (`device/reduce.rs`).

mod collect;
mod fold;
mod map;
mod media;
mod power_cut;
mod programs;
mod read;
mod reduce;
mod report;
mod sanitize;
mod state;
mod superblocks;
mod write;

pub use power_cut::{Recovery, StreamPage};
pub use sanitize::Sanitize;
pub use state::STATE_VERSION;

use std::collections::VecDeque;

use drivebay_units::{Lpn, Nanos, Rng, SECTOR_BYTES};

use crate::arbiter::Arbiter;
use crate::controller::FlashCore;
use crate::ftl::{Ftl, STREAMS};
use crate::health::Log;
use crate::host_interface::HostInterface;
use crate::io::{Completion, DeviceError, Io, NextCommand, Op, Posted};
use crate::map_cache::{MapCache, MapTraffic};
use crate::nand::Nand;
use crate::read_ahead::ReadAhead;
use crate::reliability::{Errors, Reliability};
use crate::spec::{Costs, PAGE_BYTES, Spec, transfer};
use crate::stage::{Stage, Stages};
use crate::thermal::{Thermal, Work};
use crate::timeline::Fifo;
use crate::write_buffer::WriteBuffer;

/// A time that never comes.
const NEVER: Nanos = Nanos(u64::MAX);

/// Most sectors of a read or write: 1 GiB. Protocols carry less (NVMe and ATA: 65,536 blocks); with this
/// no time or energy of one command can overflow, whatever the profile.
const SECTORS_MAX: u32 = 1 << 21;

/// Room to count commands by [`Op`].
const OPS_MAX: usize = 8;

/// Sectors of a mapped page.
const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;

/// What the drive has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Host commands.
    pub commands: u64,
    /// 4 KiB pages the host wrote.
    pub host_pages: u64,
    /// 4 KiB pages programmed: for the host, for collection, for the map, and as padding.
    pub placed_pages: u64,
    /// 4 KiB pages copied by collection and by folding.
    pub copied_pages: u64,
    /// 4 KiB pages placed in the SLC cache.
    pub slc_pages: u64,
    /// Erases that followed use in the SLC cache.
    pub slc_erases: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Flash pages read.
    pub page_reads: u64,
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

/// A request that waits for its turn at the flash core.
#[derive(Clone, Copy)]
struct QueuedRequest {
    /// Since when.
    arrival: Nanos,
    tag: u32,
    io: Io,
    submitted: Nanos,
    stages: Stages,
}

/// Requests on their way to the flash core, in the order of arrival: those that come straight from the
/// host core, and those whose data passes the write path first.
struct CoreQueue {
    queues: [VecDeque<QueuedRequest>; 2],
    /// When the first of each queue arrives.
    arrivals: [Nanos; 2],
}

/// Requests that come straight from the host core.
const DIRECT: usize = 0;
/// Requests whose data passes the write path.
const WITH_DATA: usize = 1;

impl Default for CoreQueue {
    fn default() -> CoreQueue {
        CoreQueue { queues: Default::default(), arrivals: [NEVER; 2] }
    }
}

impl CoreQueue {
    /// When the next one arrives; the end of time if none is on its way.
    #[inline(always)]
    fn next_arrival(&self) -> Nanos {
        self.arrivals[DIRECT].min(self.arrivals[WITH_DATA])
    }

    #[inline(always)]
    fn push(&mut self, waiting: QueuedRequest) {
        let way = if waiting.io.op.is_write() { WITH_DATA } else { DIRECT };
        self.arrivals[way] = self.arrivals[way].min(waiting.arrival);
        self.queues[way].push_back(waiting);
    }

    /// Takes the next one; of two that arrive together the one that came straight.
    #[inline(always)]
    fn take(&mut self) -> Option<QueuedRequest> {
        let way = usize::from(self.arrivals[WITH_DATA] < self.arrivals[DIRECT]);
        let waiting = self.queues[way].pop_front();
        self.arrivals[way] = self.queues[way].front().map_or(NEVER, |next| next.arrival);
        waiting
    }
}

/// A virtual drive.
pub struct Device {
    spec: Spec,
    costs: Costs,
    nominal: Costs,
    throttle_stage: usize,
    front: HostInterface,
    host_core: Fifo,
    write_path: Fifo,
    queue: CoreQueue,
    flash_core: FlashCore,
    buffers: [WriteBuffer; STREAMS],
    ftl: Ftl,
    nand: Nand,
    programs: programs::Programs,
    thermal: Thermal,
    collector: collect::Collector,
    fold: Option<Box<fold::Fold>>,
    errors: Option<Box<Errors>>,
    map_cache: Option<Box<MapCache>>,
    read_ahead: Option<Box<ReadAhead>>,
    /// Lets reads through at the rate that the controller moves them.
    read_gate: Fifo,
    /// Of a half-duplex controller.
    turns: Option<Box<Arbiter>>,
    reduction: reduce::Reduction,
    /// Worn out.
    read_only: bool,
    /// The present command met data that could not be read.
    media_error: bool,
    now: Nanos,
    /// Host commands by [`Op`].
    commands: [u64; OPS_MAX],
    host_pages: u64,
    copied_pages: u64,
    padded_pages: u64,
    log: Log,
}

impl Device {
    /// A fresh drive at ambient temperature.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn new(spec: Spec, seed: u64) -> Result<Device, DeviceError> {
        let rng = Rng::new(seed).fork("drive");
        let ftl = Ftl::new(&spec, &rng).map_err(|e| DeviceError::Memory(e.to_string()))?;
        Ok(Self::around(spec, ftl, &rng))
    }

    /// The same drive, as new, keeping its memory: cheaper than making another.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], when the new profile needs other tables.
    pub fn reset(self, spec: Spec, seed: u64) -> Result<Device, DeviceError> {
        let rng = Rng::new(seed).fork("drive");
        match self.ftl.reset(&spec, &rng) {
            Some(ftl) => Ok(Self::around(spec, ftl, &rng)),
            None => Self::new(spec, seed),
        }
    }

    fn around(spec: Spec, ftl: Ftl, rng: &Rng) -> Device {
        let nominal = spec.throttle[0].costs;
        let superblocks = spec.geometry.superblocks;
        Device {
            costs: nominal,
            nominal,
            throttle_stage: 0,
            front: HostInterface::new(&spec),
            host_core: Fifo::default(),
            write_path: Fifo::default(),
            queue: CoreQueue::default(),
            flash_core: FlashCore::new(),
            buffers: fresh_buffers(&spec),
            nand: Nand::new(spec.nand, &spec.geometry, programs_pending_max(&spec)),
            programs: programs::Programs::default(),
            thermal: Thermal::new(&spec),
            collector: collect::Collector::default(),
            fold: spec.slc_cache.map(|_| Box::default()),
            errors: spec.reliability.map(|r| Box::new(Errors::new(r, superblocks, rng))),
            map_cache: spec.map_cache.map(|m| Box::new(MapCache::new(&m))),
            read_ahead: spec.read_ahead.map(|r| Box::new(ReadAhead::new(r))),
            read_gate: Fifo::default(),
            turns: Arbiter::of(&spec),
            reduction: reduce::Reduction::default(),
            read_only: false,
            media_error: false,
            now: Nanos::ZERO,
            commands: [0; OPS_MAX],
            host_pages: 0,
            copied_pages: 0,
            padded_pages: 0,
            log: Log { power_cycles: 1, ..Log::default() },
            ftl,
            spec,
        }
    }

    /// The profile.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The map, for tests and prefetching.
    #[must_use]
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Time of the last submission, or the end of the last rest.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Everything counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            commands: self.commands.iter().sum(),
            host_pages: self.host_pages,
            placed_pages: self.placed_pages(),
            copied_pages: self.copied_pages,
            slc_pages: self.ftl.slc_pages(),
            slc_erases: self.ftl.slc_erases(),
            erases: self.nand.superblock_erases,
            page_reads: self.nand.page_reads,
            energy_nj: self.thermal.energy_nj(),
            throttled_ns: self.thermal.throttled().0,
            temperature_c: self.thermal.temperature_c(),
            throttle_stage: self.throttle_stage,
            reliability: self.reliability(),
            map: self.map_traffic(),
        }
    }

    /// Purge between tests: all data gone, all superblocks erased, in no time; clock, heat and wear stay.
    ///
    /// [`Device::sanitize`] is the command, with its time.
    pub fn secure_erase(&mut self) {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        self.settle();
        self.ftl.erase_all();
        self.forget_map();
        self.forget_streams();
        self.replace(0, self.spec.geometry.user_pages);
        self.reduction.forget();
        self.buffers = fresh_buffers(&self.spec);
        self.collector = collect::Collector::default();
        self.owe_no_folding();
    }

    /// The surroundings have another temperature from now on, -40 to 100 degrees Celsius.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        assert!((-40.0..=100.0).contains(&ambient_c), "as a profile's");
        self.heat_up(self.now);
        self.thermal.set_ambient_c(ambient_c);
    }

    /// Nothing is asked of the drive until `until`; it cools, and may collect.
    pub fn idle_until(&mut self, until: Nanos) {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        if self.spec.idle_after.is_some() {
            // Heat follows what is collected meanwhile, step by step.
            while self.thermal.next_step() < until {
                let step = self.thermal.next_step();
                self.collect_idle(step);
                self.now = self.now.max(step);
                self.heat_up(self.now);
            }
            self.collect_idle(until);
        }
        self.now = self.now.max(until);
        self.heat_up(self.now);
    }

    /// Starts fetching what submitting an I/O at `lba` will need.
    #[inline(always)]
    pub fn prefetch(&self, lba: u64) {
        self.ftl.prefetch(Lpn((lba / PAGE_SECTORS) as u32));
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

    /// As [`Device::accept`], for a host that submits nothing more before `until`: if the request has its
    /// turn by then, and no other before it, it is served at once.
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
        debug_assert!(now >= self.now, "submissions come in time order");
        self.check(io)?;
        let ready = self.front.post(0, now);
        let waiting = self.enter(now, Posted { at: now, ready }, io, tag);
        if waiting.arrival <= until && self.next_arrival() == NEVER {
            return self.serve_one(waiting).map(Some);
        }
        self.queue.push(waiting);
        Ok(None)
    }

    /// The host puts a command into a submission queue; to be followed by [`Device::fetch`].
    ///
    /// Posts must come in time order. `queue` is below the profile's `host_interface.queues_max`.
    pub fn post(&mut self, queue: usize, now: Nanos) -> Posted {
        Posted { at: now, ready: self.front.post(queue, now) }
    }

    /// When the controller can take another command.
    #[must_use]
    pub fn fetch_free_at(&self) -> Nanos {
        self.host_core.free_at()
    }

    /// The controller takes a posted command, not before [`Device::fetch_free_at`]; to be served later.
    ///
    /// Commands of one queue come in the order of their posts; which queue comes next is the caller's
    /// to decide. [`Device::accept`] is one post and one take.
    ///
    /// # Errors
    /// As [`Device::accept`].
    pub fn fetch(&mut self, posted: Posted, io: Io, tag: u32) -> Result<(), DeviceError> {
        self.check(io)?;
        let now = self.now.max(posted.ready.max(self.fetch_free_at()));
        let waiting = self.enter(now, posted, io, tag);
        self.queue.push(waiting);
        Ok(())
    }

    /// From a submission queue to the flash core.
    #[inline(always)]
    fn enter(&mut self, now: Nanos, posted: Posted, io: Io, tag: u32) -> QueuedRequest {
        self.now = now;
        let mut stages = Stages::default();
        let Posted { at, ready } = posted;
        stages.add(Stage::Host, ready.since(at));
        let mut woken = ready;
        if at > self.log.busy_until && self.next_arrival() == NEVER {
            let wake = self.end_idle(at);
            stages.add(Stage::Link, wake.link);
            stages.add(Stage::Firmware, wake.device);
            woken = ready.after(wake.link).after(wake.device);
        }
        if now >= self.thermal.next_step() {
            self.heat_up(now);
        }
        self.commands[io.op as usize] += 1;
        let issued = self.front.fetch(now, woken);
        stages.add(Stage::Link, issued.since(woken));
        let (begin, fetched) = self.host_core.reserve(issued, self.costs.host_core);
        stages.add(Stage::Firmware, begin.since(issued));
        self.firmware(&mut stages, self.costs.host_core, self.nominal.host_core);
        let moves = io.op.is_write() && self.turns.is_none();
        let arrival = if moves { self.move_in(fetched, io, &mut stages) } else { fetched };
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
        let at = self.next_arrival();
        // What comes straight from the host core keeps its order; only what waits for data is passed.
        let straight = self.queue.arrivals[DIRECT] <= self.queue.arrivals[WITH_DATA];
        let next = self.queue.queues[usize::from(!straight)].front()?;
        Some(NextCommand { tag: next.tag, at, settled: straight })
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
        let waiting = self.queue.take().expect("a request was accepted and not yet served");
        self.serve_one(waiting)
    }

    #[inline(always)]
    fn serve_one(&mut self, waiting: QueuedRequest) -> Result<Completion, DeviceError> {
        let QueuedRequest { arrival, tag, io, submitted, mut stages } = waiting;
        let ready = match io.op {
            Op::Flush => self.flush(arrival, &mut stages),
            _ if self.read_only && io.op != Op::Read => return Err(self.worn_out()),
            Op::Read | Op::Write | Op::WriteFua if self.turns.is_some() => {
                self.serve_in_turn(arrival, io, &mut stages)?
            }
            Op::Read => self.read(arrival, io, &mut stages),
            Op::Write | Op::WriteFua => self.write(arrival, io, &mut stages)?,
            Op::Trim => self.trim(arrival, io, &mut stages),
            Op::WriteZeroes => self.write_zeroes(arrival, io, &mut stages)?,
        };
        let mut done = self.front.complete(self.now, ready);
        stages.add(Stage::Link, done.since(ready));
        if let Some(longer) = self.front.pass_host(self.now, done, io.data_bytes()) {
            stages.add(Stage::Host, longer);
            done = done.after(longer);
        }
        self.log.busy_until = self.log.busy_until.max(done);
        debug_assert_eq!(stages.total(), done.since(submitted), "stages add up to the latency");
        let media_error = std::mem::take(&mut self.media_error);
        Ok(Completion { tag, io, submitted, done, stages, media_error })
    }

    /// Refuses what does not lie on the drive, or no command can carry.
    #[inline(always)]
    fn check(&self, io: Io) -> Result<(), DeviceError> {
        let capacity = u64::from(self.spec.geometry.user_pages) * PAGE_SECTORS;
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

    /// Books firmware work: the nominal part as firmware, what a slower clock adds as throttling.
    #[inline(always)]
    fn firmware(&self, stages: &mut Stages, spent: Nanos, nominal: Nanos) {
        stages.add(Stage::Firmware, nominal);
        stages.add(Stage::Throttle, spent.since(nominal));
    }

    /// Serves a read or a write of a half-duplex controller.
    #[cold]
    fn serve_in_turn(
        &mut self,
        from: Nanos,
        io: Io,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let is_write = io.op.is_write();
        let begin = self.turns.as_mut().map_or(from, |turns| turns.begin(is_write, from));
        stages.add(Stage::Firmware, begin.since(from));
        let end = if is_write {
            let arrived = self.move_in(begin, io, stages);
            self.write(arrived, io, stages)?
        } else {
            self.read(begin, io, stages)
        };
        if let Some(turns) = &mut self.turns {
            turns.end(end);
        }
        Ok(end)
    }

    /// Data of a write moves down the link and, as it comes, through the write path; returns when it is in.
    #[inline(always)]
    fn move_in(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        let arrived = self.front.move_down(self.now, from, bytes);
        stages.add(Stage::Link, arrived.since(from));
        let first = arrived.since_or_zero(transfer(bytes, self.spec.link_fs_per_byte)).max(from);
        let bytes = self.reduction.of(bytes);
        let len = transfer(bytes, self.costs.write_path_fs_per_byte);
        let nominal_len = transfer(bytes, self.nominal.write_path_fs_per_byte);
        let accepted = self.write_path.reserve(first, len).1.max(arrived);
        let wait = accepted.since(arrived);
        let throttled =
            if len > nominal_len { wait.since_or_zero(nominal_len) } else { Nanos::ZERO };
        stages.add(Stage::Throttle, throttled);
        stages.add(Stage::Buffer, wait.since(throttled));
        accepted
    }

    /// A command's pass through the flash core.
    #[inline(always)]
    fn flash_core(
        &mut self,
        from: Nanos,
        cost: Nanos,
        nominal: Nanos,
        stages: &mut Stages,
    ) -> Nanos {
        if self.may_have_rested(from) {
            self.collect_idle(from);
            self.end_rest();
        }
        let pass = self.flash_core.serve(from, cost);
        stages.add(Stage::Firmware, pass.queued);
        stages.add(Stage::Gc, pass.collection);
        self.firmware(stages, cost, nominal);
        self.dies_until(pass.end);
        pass.end
    }

    /// 4 KiB pages programmed so far.
    fn placed_pages(&self) -> u64 {
        let host = self.host_pages - self.reduction.ridden;
        host + self.copied_pages + self.padded_pages + self.map_traffic().write_backs
    }

    /// Brings heat and throttling up to date.
    #[cold]
    fn heat_up(&mut self, now: Nanos) {
        let work = self.work();
        let works_until = self.flash_core.free_at();
        self.throttle_stage = self.thermal.advance(now, work, works_until, self.log.busy_until);
        self.costs = self.spec.throttle[self.throttle_stage].costs;
    }

    /// What has been done so far that makes heat.
    fn work(&self) -> Work {
        Work {
            programmed: self.placed_pages(),
            slc_programmed: self.ftl.slc_pages(),
            page_reads: self.nand.page_reads,
            erases: self.nand.superblock_erases,
            link_bytes: self.front.bytes_up + self.front.bytes_down,
            core_ns: self.flash_core.busy_ns(),
            commands: self.commands.iter().sum(),
        }
    }
}

/// How many programs of a die the buffers can hold, and some erases.
fn programs_pending_max(spec: &Spec) -> u32 {
    let g = &spec.geometry;
    spec.streams() * (spec.buffer_pages >> (g.die_shift + g.plane_shift)) + 8
}

/// One buffer per write stream.
fn fresh_buffers(spec: &Spec) -> [WriteBuffer; STREAMS] {
    std::array::from_fn(|_| WriteBuffer::new(spec.buffer_pages))
}
