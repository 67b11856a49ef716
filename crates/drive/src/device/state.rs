//! A drive's state as a value: copied in memory, written to a stream, read back.
//!
//! All of it: map, wear, clock, heat, requests under way, and where every random stream stands. A copy
//! goes on exactly as its original does. What is read back is checked before it is used: nothing
//! that was written by something else can make the drive index where nothing is, or count below zero.
//! How a stream becomes a file is `drivebay-run`'s part.

use std::io::{BufReader, BufWriter, Read, Write};

use super::reduce::Reduction;
use super::{CoreQueue, DIRECT, Device, NEVER, QueuedRequest, WITH_DATA};
use crate::ftl::STREAMS;
use crate::io::{DeviceError, Io, Op};
use crate::persist::{Persist, StateError, ensure, persist};
use crate::spec::{Geometry, PAGE_BYTES, Spec};
use crate::stage::Stages;

/// Raised with every change of what is written: older states are not read.
pub const STATE_VERSION: u32 = 5;

persist!(QueuedRequest: arrival, tag, io, submitted, stages);
persist!(CoreQueue: queues; given: arrivals);
persist!(Device: now, throttle_stage, front, host_core, write_path, queue, flash_core, buffers, ftl, nand,
    programs, thermal, collector, fold, errors, map_cache, read_ahead, read_gate, turns, read_only, media_error, commands, host_pages,
    copied_pages, padded_pages, reduction, log;
    given: spec, costs, nominal);
persist!(Reduction: stored_bytes, gathered, ridden);

/// Flash pages of a row over all dies and planes.
fn row(g: &Geometry) -> u64 {
    u64::from(g.dies()) << g.plane_shift
}

impl Default for QueuedRequest {
    fn default() -> QueuedRequest {
        let io = Io { op: Op::Read, lba: 0, sectors: 0 };
        let (arrival, submitted) = (NEVER, NEVER);
        QueuedRequest { arrival, tag: 0, io, submitted, stages: Stages::default() }
    }
}

impl Device {
    /// A drive in the same state, with memory of its own.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn duplicate(&self) -> Result<Device, DeviceError> {
        Ok(self.copied_into(Device::new(self.spec.clone(), 0)?))
    }

    /// As [`Device::duplicate`], in the memory of another drive where that fits: cheaper.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn duplicate_into(&self, other: Device) -> Result<Device, DeviceError> {
        Ok(self.copied_into(other.reset(self.spec.clone(), 0)?))
    }

    /// `fresh` is a new drive of the same profile.
    fn copied_into(&self, mut fresh: Device) -> Device {
        fresh.copy_from(self);
        fresh.derive();
        fresh
    }

    /// Works out what follows from the state.
    fn derive(&mut self) {
        self.costs = self.spec.throttle[self.throttle_stage].costs;
        self.programs.find_heads();
        self.read_ahead.iter_mut().for_each(|ahead| ahead.find_ages());
        for way in [DIRECT, WITH_DATA] {
            let first = self.queue.queues[way].front();
            self.queue.arrivals[way] = first.map_or(NEVER, |waiting| waiting.arrival);
        }
    }

    /// Writes the state; the profile is not part of it.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn save(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        Persist::save(self, &mut out)?;
        out.flush()
    }

    /// A drive of this profile in a state that was written by [`Device::save`].
    ///
    /// `memory`: a drive whose memory is used where it fits. A profile other than that of the drive that
    /// was saved is noticed only if it needs tables of other sizes.
    ///
    /// # Errors
    /// [`StateError`], if the stream ends early or holds no state of such a drive.
    pub fn restore(
        spec: Spec,
        memory: Option<Device>,
        from: &mut dyn Read,
    ) -> Result<Device, StateError> {
        let fresh = match memory {
            Some(device) => device.reset(spec, 0),
            None => Device::new(spec, 0),
        };
        let mut device = fresh.map_err(|e| StateError::Memory(e.to_string()))?;
        let mut from = BufReader::with_capacity(1 << 16, from);
        device.load(&mut from)?;
        let mut more = [0];
        ensure(from.read(&mut more)? == 0, "more than a drive of this profile")?;
        device.check_state()?;
        device.derive();
        Ok(device)
    }

    /// Checks that what was read is a state that this drive can be in.
    fn check_state(&self) -> Result<(), StateError> {
        ensure(self.throttle_stage < self.spec.throttle.len(), "the throttle stage")?;
        self.front.check()?;
        self.flash_core.check()?;
        self.nand.check()?;
        self.buffers.iter().try_for_each(|buffer| buffer.check(&self.nand))?;
        self.ftl.check(Some(std::array::from_fn(|stream| self.buffers[stream].taken())))?;
        self.errors.iter().try_for_each(|errors| errors.check(self.spec.geometry.user_pages))?;
        self.map_cache.iter().try_for_each(|cache| cache.check())?;
        self.check_counts()?;
        self.thermal.check(self.now, self.work())?;
        self.check_queue()?;
        self.check_programs()
    }

    /// Counters far from any overflow, and none ahead of the clock.
    fn check_counts(&self) -> Result<(), StateError> {
        let counts = [self.host_pages, self.copied_pages, self.padded_pages, self.nand.page_reads];
        let all = self.commands.iter().chain(&counts).chain([&self.nand.superblock_erases]);
        let few = all.max().is_some_and(|&count| count < 1 << 50);
        let slept = self.log.idle <= self.now && self.log.asleep <= self.now;
        ensure(few && slept, "the drive's counters")?;
        let page = PAGE_BYTES as u32;
        let reduction = &self.reduction;
        let shrunk = reduction.stored_bytes <= page && reduction.gathered <= page;
        ensure(shrunk && reduction.ridden <= self.host_pages, "what compression has saved")
    }

    /// Requests on their way: they lie on the drive, and each queue is in order.
    fn check_queue(&self) -> Result<(), StateError> {
        for way in [DIRECT, WITH_DATA] {
            let queue = &self.queue.queues[way];
            for waiting in queue {
                let fits = self.check(waiting.io).is_ok() && waiting.submitted <= waiting.arrival;
                let spent = waiting.stages.0.iter().try_fold(0u64, |sum, &ns| sum.checked_add(ns));
                let since = waiting.arrival.since_or_zero(waiting.submitted);
                ensure(fits && spent == Some(since.0), "a request on its way")?;
            }
            let ordered =
                queue.iter().zip(queue.iter().skip(1)).all(|(a, b)| a.arrival <= b.arrival);
            ensure(ordered, "the order of requests")?;
        }
        Ok(())
    }

    /// Programs and erases that are due: every page that waits has one, and none is of another drive.
    fn check_programs(&self) -> Result<(), StateError> {
        let g = &self.spec.geometry;
        let pages = (g.superblocks * g.superblock_slots) >> g.page_shift;
        for stream in 0..STREAMS {
            let buffer = &self.buffers[stream];
            let taken = buffer.taken();
            let covered = self.programs.covers(stream, g, pages, &buffer.known())?;
            for page in buffer.known().filter(|&page| buffer.waits(page)) {
                // Its die's planes are not yet full: their last page will program all of them.
                let coming = || {
                    let place = self.ftl.frontier_page(stream, taken - 1 - page);
                    let plane = (place >> g.die_shift) & ((1 << g.plane_shift) - 1);
                    let left = u64::from((1 << g.plane_shift) - 1 - plane) << g.die_shift;
                    page + left >= self.ftl.filled(stream, taken)
                };
                let newest = page + row(g) >= taken;
                ensure(covered.contains(&page) || newest && coming(), "a page nobody programs")?;
            }
        }
        self.programs.check_erases(&self.ftl)
    }
}
