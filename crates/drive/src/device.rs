//! The drive: one I/O from the host's call to its completion.
//!
//! [`Device::submit`] follows an I/O through front, cores, map and flash, and says when each part was
//! over; the stages of a completion add up to its latency exactly. Calls must come in time order.
//!
//! Collection is paced: when spare space runs low, each command is followed by a slot of firmware time
//! in which pages are copied (`collect.rs`); if the host still gets ahead, whole superblocks are
//! collected in the foreground.
//! Not modelled here: power states, background collection in idle time, data content.

mod collect;
mod map;
mod media;

use drivebay_units::{Lpn, Nanos, Rng, SECTOR_BYTES, Slot};

use crate::buffer::Buffer;
use crate::controller::FlashCore;
use crate::front::Front;
use crate::ftl::{Ftl, HOST};
use crate::heat::{Thermal, Work};
use crate::map_cache::{MapCache, MapTraffic};
use crate::nand::Nand;
use crate::reliability::{Errors, Reliability};
use crate::spec::{Costs, PAGE_BYTES, Spec, transfer};
use crate::stage::{Stage, Stages};
use crate::timeline::Fifo;

/// Most sectors of a read or write: 1 GiB. Protocols carry less (NVMe and ATA: 65,536 blocks); with this
/// no time or energy of one command can overflow, whatever the profile.
const SECTORS_MAX: u32 = 1 << 21;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Unmap whole pages.
    Trim,
}

/// One request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// What to do.
    pub op: Op,
    /// First sector of 512 B.
    pub lba: u64,
    /// How many sectors; at least one.
    pub sectors: u32,
}

/// When an I/O was done, and where its time went.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// When the host saw it.
    pub done: Nanos,
    /// Time per stage; adds up to `done` minus the time of submission.
    pub stages: Stages,
    /// Data could not be read, whatever was tried (NVMe: Unrecovered Read Error).
    pub media_error: bool,
}

/// Why a drive refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The request does not lie on the drive.
    #[error(
        "{op:?} of {sectors} sectors at sector {lba} does not fit a drive of {capacity} sectors\nhint: stay below the drive's capacity, with at least one sector"
    )]
    OutOfRange {
        /// What was asked.
        op: Op,
        /// First sector.
        lba: u64,
        /// Count.
        sectors: u32,
        /// The drive's sectors.
        capacity: u64,
    },
    /// More data than a command can carry.
    #[error(
        "{op:?} of {sectors} sectors is too long for one command\nhint: split it; a command carries at most {SECTORS_MAX} sectors"
    )]
    TooLong {
        /// What was asked.
        op: Op,
        /// Count.
        sectors: u32,
    },
    /// No erased superblock, and nothing to collect.
    #[error(
        "the drive has no free flash left and nothing to collect\nhint: the profile's spare space is too small for its reserve; raise nand.blocks_per_plane"
    )]
    NoSpace,
    /// Too many blocks have failed.
    #[error(
        "the drive has reached its end of life and is read-only: {failed_blocks} blocks have failed\nhint: it can still be read; start from a fresh drive, write less, or raise reliability.block_life_cycles or reliability.spare_blocks"
    )]
    ReadOnly {
        /// Blocks that failed in use.
        failed_blocks: u64,
    },
    /// The machine has no memory for the map.
    #[error(
        "no memory for the map: {0}\nhint: run fewer tests at a time (--jobs 1), or a smaller drive"
    )]
    Memory(String),
}

/// What the drive has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Host commands.
    pub commands: u64,
    /// 4 KiB pages the host wrote.
    pub host_pages: u64,
    /// 4 KiB pages programmed for the host, for collection and for the map.
    pub placed_pages: u64,
    /// 4 KiB pages copied by collection.
    pub copied_pages: u64,
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

/// A virtual drive.
pub struct Device {
    spec: Spec,
    costs: Costs,
    nominal: Costs,
    throttle_stage: usize,
    front: Front,
    host_core: Fifo,
    flash_core: FlashCore,
    write_path: Fifo,
    buffers: [Buffer; 2],
    ftl: Ftl,
    nand: Nand,
    thermal: Thermal,
    collector: collect::Collector,
    errors: Option<Box<Errors>>,
    map_cache: Option<Box<MapCache>>,
    /// Worn out.
    read_only: bool,
    /// The present command met data that could not be read.
    media_error: bool,
    now: Nanos,
    commands: u64,
    host_pages: u64,
    copied_pages: u64,
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
    pub fn renew(self, spec: Spec, seed: u64) -> Result<Device, DeviceError> {
        let rng = Rng::new(seed).fork("drive");
        match self.ftl.renew(&spec, &rng) {
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
            front: Front::new(&spec),
            host_core: Fifo::default(),
            flash_core: FlashCore::new(),
            write_path: Fifo::default(),
            buffers: [Buffer::new(spec.buffer_pages), Buffer::new(spec.buffer_pages)],
            nand: Nand::new(spec.nand, &spec.geometry, programs_pending_max(&spec)),
            thermal: Thermal::new(&spec),
            collector: collect::Collector::default(),
            errors: spec.reliability.map(|r| Box::new(Errors::new(r, superblocks, rng))),
            map_cache: spec.map_cache.map(|m| Box::new(MapCache::new(&m))),
            read_only: false,
            media_error: false,
            now: Nanos::ZERO,
            commands: 0,
            host_pages: 0,
            copied_pages: 0,
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
            commands: self.commands,
            host_pages: self.host_pages,
            placed_pages: self.programmed(),
            copied_pages: self.copied_pages,
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

    /// 4 KiB pages programmed so far.
    fn programmed(&self) -> u64 {
        self.host_pages + self.copied_pages + self.map_traffic().write_backs
    }

    /// Secure erase: all data gone, all superblocks free; clock, heat and wear stay.
    pub fn secure_erase(&mut self) {
        self.ftl.erase_all();
        self.forget_map();
        self.buffers = fresh_buffers(&self.spec);
        self.collector = collect::Collector::default();
    }

    /// Nothing is asked of the drive until `until`; it cools.
    pub fn rest(&mut self, until: Nanos) {
        self.now = self.now.max(until);
        self.heat_up(self.now);
    }

    /// Starts fetching what submitting an I/O at `lba` will need.
    #[inline(always)]
    pub fn prefetch(&self, lba: u64) {
        self.ftl.prefetch(Lpn((lba / (PAGE_BYTES / SECTOR_BYTES)) as u32));
    }

    /// Serves one I/O that the host submits at `now`, which must not go back.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], [`DeviceError::TooLong`], [`DeviceError::ReadOnly`]: no page has
    /// changed then; [`DeviceError::NoSpace`].
    #[inline]
    pub fn submit(&mut self, now: Nanos, io: Io) -> Result<Completion, DeviceError> {
        debug_assert!(now >= self.now, "submissions come in time order");
        let (first, last) = self.pages_of(io)?;
        self.now = now;
        if now >= self.thermal.next_step() {
            self.heat_up(now);
        }
        self.commands += 1;
        let mut stages = Stages::default();
        let issued = self.front.issue(now);
        stages.add(Stage::Host, issued.since(now));
        let (begin, fetched) = self.host_core.reserve(issued, self.costs.host_core);
        stages.add(Stage::Firmware, begin.since(issued));
        self.firmware(&mut stages, self.costs.host_core, self.nominal.host_core);
        let ready = match io.op {
            Op::Read => self.read(fetched, io, first, last, &mut stages),
            Op::Write | Op::Trim if self.read_only => return Err(self.worn_out()),
            Op::Write => self.write(fetched, io, first, last, &mut stages)?,
            Op::Trim => self.trim(fetched, io, &mut stages),
        };
        let done = self.front.complete(ready);
        stages.add(Stage::Link, done.since(ready));
        debug_assert_eq!(stages.total(), done.since(now), "stages add up to the latency");
        let media_error = std::mem::take(&mut self.media_error);
        Ok(Completion { done, stages, media_error })
    }

    /// First and last page that an I/O touches.
    #[inline(always)]
    fn pages_of(&self, io: Io) -> Result<(Lpn, Lpn), DeviceError> {
        const SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
        let capacity = u64::from(self.spec.geometry.user_pages) * SECTORS;
        let end = io.lba.checked_add(u64::from(io.sectors));
        // Zero wraps round to too long.
        let length_is_odd = io.sectors.wrapping_sub(1) >= SECTORS_MAX;
        if length_is_odd || end.is_none_or(|end| end > capacity) {
            self.check_range(io, capacity)?;
        }
        let last = (io.lba + u64::from(io.sectors) - 1) / SECTORS;
        Ok((Lpn((io.lba / SECTORS) as u32), Lpn(last as u32)))
    }

    /// Refuses what is not a trim of pages on the drive.
    #[cold]
    fn check_range(&self, Io { op, lba, sectors }: Io, capacity: u64) -> Result<(), DeviceError> {
        let end = lba.checked_add(u64::from(sectors));
        if sectors == 0 || end.is_none_or(|end| end > capacity) {
            return Err(DeviceError::OutOfRange { op, lba, sectors, capacity });
        }
        match op {
            Op::Trim => Ok(()),
            Op::Read | Op::Write => Err(DeviceError::TooLong { op, sectors }),
        }
    }

    /// Books firmware work: the nominal part as firmware, what a slower clock adds as throttling.
    #[inline(always)]
    fn firmware(&self, stages: &mut Stages, spent: Nanos, nominal: Nanos) {
        stages.add(Stage::Firmware, nominal);
        stages.add(Stage::Throttle, spent.since(nominal));
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
        let pass = self.flash_core.serve(from, cost);
        stages.add(Stage::Firmware, pass.queued);
        stages.add(Stage::Collection, pass.collection);
        self.firmware(stages, cost, nominal);
        pass.end
    }

    /// A read: look-up, flash page by flash page, and up the link as each arrives.
    #[inline]
    fn read(&mut self, from: Nanos, io: Io, first: Lpn, last: Lpn, stages: &mut Stages) -> Nanos {
        // A page that is not mapped is answered with zeros: no command goes to flash for it.
        let slot = self.ftl.look_up(first);
        let mapped = if first == last {
            usize::from(slot.is_some())
        } else {
            (first.0..=last.0).filter(|&lpn| self.ftl.look_up(Lpn(lpn)).is_some()).count()
        };
        let of = |costs: &Costs| costs.read_command.after(costs.read_page.times(mapped as u64));
        let (cost, nominal) = (of(&self.costs), of(&self.nominal));
        let mut known = self.flash_core(from, cost, nominal, stages);
        if self.map_cache.is_some() {
            let (ready, wait) = self.translate(known, first, last, false);
            stages.add(Stage::Map, wait);
            known = ready;
        }
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        let ready = if first == last {
            let (end, parts) = self.fetch(known, slot, 1);
            let ready = self.front.move_up(self.now, end, bytes);
            add_parts(stages, parts);
            stages.add(Stage::Link, ready.since(end));
            ready
        } else {
            self.read_many(known, first, last, bytes, stages)
        };
        if self.spec.pacing.after_reads {
            self.collect_slot();
        }
        self.flash_core.close_command();
        ready
    }

    /// Reads runs of pages; the stages are those of the part that arrives last.
    fn read_many(
        &mut self,
        from: Nanos,
        first: Lpn,
        last: Lpn,
        bytes: u64,
        stages: &mut Stages,
    ) -> Nanos {
        let page_shift = self.spec.geometry.page_shift;
        let mut latest = (Nanos::ZERO, Nanos::ZERO, [Nanos::ZERO; 3]);
        let mut left = bytes;
        let mut lpn = first.0;
        while lpn <= last.0 {
            let slot = self.ftl.look_up(Lpn(lpn));
            let mut len = 1;
            while lpn + len <= last.0
                && continues(slot, self.ftl.look_up(Lpn(lpn + len)), len, page_shift)
            {
                len += 1;
            }
            let (end, parts) = self.fetch(from, slot, len);
            lpn += len;
            // Partial first and last pages: what is left over goes with the last run.
            let share = if lpn > last.0 { left } else { left.min(u64::from(len) * PAGE_BYTES) };
            left -= share;
            let up = self.front.move_up(self.now, end, share);
            if up >= latest.0 {
                latest = (up, end, parts);
            }
        }
        add_parts(stages, latest.2);
        stages.add(Stage::Link, latest.0.since(latest.1));
        latest.0
    }

    /// Brings `len` consecutive 4 KiB pages out of one flash page, the buffer, or nowhere (unmapped).
    ///
    /// Returns when they are in the controller, and the waits: die, array, channel.
    #[inline]
    fn fetch(&mut self, from: Nanos, slot: Option<Slot>, len: u32) -> (Nanos, [Nanos; 3]) {
        let Some(slot) = slot else {
            return (from, [Nanos::ZERO; 3]);
        };
        if self.in_buffer(slot, from) {
            return (from, [Nanos::ZERO; 3]);
        }
        let page = slot.0 >> self.spec.geometry.page_shift;
        let times = self.nand.read(self.now, from, page, u64::from(len) * PAGE_BYTES);
        let parts = [
            times.begin.since(from),
            times.sensed.since(times.begin),
            times.done.since(times.sensed),
        ];
        if self.errors.is_some() {
            return self.decode(slot, len, times.done, parts);
        }
        (times.done, parts)
    }

    /// Whether a slot's data is still on its way to flash.
    #[inline]
    fn in_buffer(&self, slot: Slot, at: Nanos) -> bool {
        let (index, offset) = self.ftl.locate(slot);
        let superblock = self.ftl.superblock(index);
        let page = superblock.first_page + u64::from(offset >> self.spec.geometry.page_shift);
        self.buffers[superblock.stream as usize].holds(page, at, &self.nand)
    }

    /// A write: down the link, through the write path, a place on flash for every page.
    #[inline]
    fn write(
        &mut self,
        from: Nanos,
        io: Io,
        first: Lpn,
        last: Lpn,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        let arrived = self.front.move_down(from, bytes);
        stages.add(Stage::Link, arrived.since(from));
        let len = transfer(bytes, self.costs.write_path_fs_per_byte);
        let nominal_len = transfer(bytes, self.nominal.write_path_fs_per_byte);
        let (begin, accepted) = self.write_path.reserve(arrived, len);
        let limited = len > nominal_len;
        stages.add(if limited { Stage::Throttle } else { Stage::Buffer }, begin.since(arrived));
        stages.add(Stage::Buffer, nominal_len);
        stages.add(Stage::Throttle, len.since(nominal_len));

        let pages = last.0 - first.0 + 1;
        let count = u64::from(pages);
        let cost = self.costs.write_command.after(self.costs.write_page.times(count));
        let nominal = self.nominal.write_command.after(self.nominal.write_page.times(count));
        let mut clock = self.flash_core(accepted, cost, nominal, stages);
        if self.map_cache.is_some() {
            let (ready, wait) = self.translate(clock, first, last, true);
            stages.add(Stage::Map, wait);
            clock = ready;
        }
        if bytes != count * PAGE_BYTES {
            clock = self.read_edges(clock, io, first, last, stages);
        }
        self.host_pages += count;
        let mut lpn = first.0;
        let mut left = pages;
        while left > 0 {
            if self.ftl.room(HOST) == 0 {
                let before = clock;
                clock = clock.max(self.open_for_host()?);
                stages.add(Stage::Collection, clock.since(before));
            }
            let len = left.min(self.ftl.room(HOST));
            let slot = self.ftl.place(HOST, Lpn(lpn), len);
            let stored = self.fill(HOST, slot, len, clock);
            stages.add(Stage::Buffer, stored.since(clock));
            clock = stored;
            lpn += len;
            left -= len;
        }
        self.collect_slot();
        self.flash_core.close_command();
        Ok(clock)
    }

    /// Read-modify-write: the old contents of partly written first and last pages.
    fn read_edges(
        &mut self,
        from: Nanos,
        io: Io,
        first: Lpn,
        last: Lpn,
        stages: &mut Stages,
    ) -> Nanos {
        const SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
        let end = io.lba + u64::from(io.sectors);
        let cut_first = !io.lba.is_multiple_of(SECTORS);
        let cut_last = !end.is_multiple_of(SECTORS);
        let mut latest = (from, [Nanos::ZERO; 3]);
        let edges =
            [(first, cut_first || (cut_last && first == last)), (last, cut_last && first != last)];
        for (lpn, cut) in edges {
            if cut {
                let (done, parts) = self.fetch(from, self.ftl.look_up(lpn), 1);
                if done > latest.0 {
                    latest = (done, parts);
                }
            }
        }
        add_parts(stages, latest.1);
        latest.0
    }

    /// Lets `len` slots from `slot` on pass through a stream's buffer and programs what is complete.
    ///
    /// Returns when the last of them has found room. Cost: 1 ring entry per flash page begun, 1 die and
    /// 1 calendar per die-wide program.
    #[inline(always)]
    fn fill(&mut self, stream: usize, slot: Slot, len: u32, from: Nanos) -> Nanos {
        let last = (1u32 << self.spec.geometry.page_shift) - 1;
        let (mut at, end, mut clock) = (slot.0, slot.0 + len, from);
        while at < end {
            if at & last == 0 {
                self.buffers[stream].take(&self.nand);
            }
            clock = clock.max(self.buffers[stream].ready());
            let page_end = (at | last) + 1;
            if end < page_end {
                break;
            }
            let page = at >> self.spec.geometry.page_shift;
            let planes = 1u32 << self.spec.geometry.plane_shift;
            if (page >> self.spec.geometry.die_shift) & (planes - 1) == planes - 1 {
                self.program(stream, page, clock);
            }
            at = page_end;
        }
        clock
    }

    /// Programs the planes of a die, the last of which has just been filled, and frees their buffers.
    fn program(&mut self, stream: usize, page: u32, at: Nanos) {
        let g = &self.spec.geometry;
        let row = page >> (g.die_shift + g.plane_shift);
        let safe = self.nand.program(self.now, at, page, row);
        let buffer = &mut self.buffers[stream];
        let newest = buffer.taken() - 1;
        for earlier in 0..1u64 << g.plane_shift {
            buffer.give_back(newest - (earlier << g.die_shift), safe);
        }
    }

    /// Unmaps the whole pages inside the range; partly covered edges keep their data, as the ACS and
    /// NVMe standards allow.
    fn trim(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        const SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
        let begin = io.lba.div_ceil(SECTORS);
        let end = (io.lba + u64::from(io.sectors)) / SECTORS;
        let (cost, nominal) = (self.costs.write_command, self.nominal.write_command);
        let mut done = self.flash_core(from, cost, nominal, stages);
        if end > begin {
            if self.map_cache.is_some() {
                let (ready, wait) = self.translate_edges(done, begin as u32, end as u32 - 1);
                stages.add(Stage::Map, wait);
                done = ready;
            }
            self.ftl.trim(Lpn(begin as u32), (end - begin) as u32);
        }
        self.flash_core.close_command();
        done
    }

    /// Brings heat and throttling up to date.
    #[cold]
    fn heat_up(&mut self, now: Nanos) {
        let work = Work {
            programmed: self.programmed(),
            page_reads: self.nand.page_reads,
            erases: self.nand.superblock_erases,
            link_bytes: self.front.bytes,
            core_ns: self.flash_core.busy_ns(),
            commands: self.commands,
        };
        self.throttle_stage = self.thermal.advance(now, work);
        self.costs = self.spec.throttle[self.throttle_stage].costs;
    }
}

/// How many programs of a die the buffers can hold, and some erases.
fn programs_pending_max(spec: &Spec) -> u32 {
    let g = &spec.geometry;
    2 * (spec.buffer_pages >> (g.die_shift + g.plane_shift)) + 8
}

/// One buffer per write stream.
fn fresh_buffers(spec: &Spec) -> [Buffer; 2] {
    std::array::from_fn(|_| Buffer::new(spec.buffer_pages))
}

/// Whether page `len` further on lies right behind in the same flash page (or is unmapped as well).
#[inline(always)]
fn continues(first: Option<Slot>, next: Option<Slot>, len: u32, page_shift: u32) -> bool {
    match (first, next) {
        (Some(a), Some(b)) => b.0 == a.0 + len && b.0 >> page_shift == a.0 >> page_shift,
        (None, None) => true,
        _ => false,
    }
}

#[inline(always)]
fn add_parts(stages: &mut Stages, [die, array, channel]: [Nanos; 3]) {
    stages.add(Stage::Die, die);
    stages.add(Stage::Nand, array);
    stages.add(Stage::Channel, channel);
}
