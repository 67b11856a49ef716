//! Collection: copying valid pages out of a victim, in slots behind host commands or in bursts.
//!
//! Model: firmware shares the flash core between commands and collection by time. Once spare space
//! runs low, each command is followed by a slot for every page it writes; its length depends on how much
//! is free, so the host is slowed smoothly. In slots, flash pages are copied, one by one, until the time
//! or the page limit is used up; the first slot passes even if the copying ends sooner, the others do
//! not. What a copy overdraws, the next slot lacks. Below the reserve, whole superblocks are collected
//! before the host may go on. Where the profile says so, collection also uses the time in which nothing
//! is asked of the drive.
//! The mechanism is a hypothesis that fits the published burst, cliff and steady state together; see
//! docs/adr/0004-collection-by-time-slots.md.

use drivebay_units::Nanos;

use super::Device;
use crate::ftl::Source;
use crate::io::DeviceError;
use crate::persist::persist;
use crate::spec::{PAGE_BYTES, Pacing};

/// What the paced collector may still spend, and when its copies will be at hand.
#[derive(Debug, Default)]
pub struct Collector {
    /// Core time overdrawn by the slots so far, nanoseconds; never above zero between slots.
    time: i64,
    /// Pages that may still be copied, in 1/256; overdrawn when negative.
    pages_256: i64,
    /// When the data copied so far is in the controller.
    data_ready: Nanos,
    /// Since when the flash core has had no command, if it is known to have none.
    pub(super) rests_since: Option<Nanos>,
    /// Commands with a full slot behind them since the last burst, in 1/256.
    commands_256: u64,
}

persist!(Collector: time, pages_256, data_ready, rests_since, commands_256);

impl Pacing {
    /// Length of the slot at this much free space, in 1/256 of the full slot.
    #[inline]
    fn factor_256(&self, free: u64) -> u64 {
        if free >= self.start_free {
            return 0;
        }
        if free > self.full_free {
            return ((self.start_free - free) << 8) / (self.start_free - self.full_free);
        }
        if free >= self.low_free {
            return 256;
        }
        if free <= self.critical_free {
            return self.low_factor_256;
        }
        let way = self.low_free - free;
        256 + (self.low_factor_256 - 256) * way / (self.low_free - self.critical_free)
    }
}

impl Device {
    /// The slots behind a host command, one for each of `pages`, if spare space is low enough.
    #[inline]
    pub(super) fn collect_slot(&mut self, pages: u64) {
        let free = self.ftl.free_slots();
        if free < self.spec.pacing.start_free {
            self.collect_in_slot(free, pages);
        }
    }

    pub(super) fn collect_in_slot(&mut self, free: u64, pages: u64) {
        if self.read_only {
            return;
        }
        let pacing = &self.spec.pacing;
        let mut factor = pacing.factor_256(free);
        if self.ftl.must_collect() {
            factor = factor.max(256);
        }
        let mut slots = factor * pages;
        let mut limit = ((pacing.quantum_pages_256 * slots) >> 8) as i64;
        if let Some(burst) = self.spec.burst {
            self.collector.commands_256 += factor;
            if self.collector.commands_256 >= burst.every_256 {
                self.collector.commands_256 = 0;
                factor += burst.slots << 8;
                slots += burst.slots << 8;
                // A burst copies as much as its time allows.
                limit = i64::MAX / 2;
            }
        }
        let passes = Nanos((self.costs.slot.0 * factor) >> 8);
        if passes == Nanos::ZERO {
            return;
        }
        let slot = Nanos((self.costs.slot.0 * slots) >> 8);
        let most = limit.max(pacing.quantum_pages_256 as i64);
        let begin = self.flash_core.free_at();
        let mut time = self.collector.time + slot.0 as i64;
        let mut pages_256 = (self.collector.pages_256 + limit).min(most);
        while time > 0 && pages_256 > 0 {
            let at = begin.after(Nanos(slot.0.saturating_sub(time as u64)));
            if self.collection_must_wait(at) {
                break;
            }
            match self.ftl.next_source() {
                Some(source) => {
                    pages_256 -= i64::from(source.pages) * 256;
                    time -= self.copy(source, at).0 as i64;
                }
                None if self.ftl.victim_is_done() => self.retire(),
                None => break,
            }
        }
        // Of the first slot, time that no copy could use has passed all the same.
        self.collector.time = time.min(0);
        self.collector.pages_256 = pages_256.min(self.spec.pacing.quantum_pages_256 as i64);
        self.flash_core.collect(passes.max(Nanos(slot.0 - time.max(0) as u64)));
    }

    /// A command reaches the flash core: its rest, if there was one, is over.
    #[inline(always)]
    pub(super) fn end_rest(&mut self) {
        self.collector.rests_since = None;
    }

    /// Whether the next copy would wait for flash: the slot does not wait, it ends.
    #[inline(always)]
    fn collection_must_wait(&self, at: Nanos) -> bool {
        let stream = self.ftl.collect_stream();
        (self.ftl.room(stream) == 0 && self.ftl.free_superblocks() == 0)
            || self.buffers[stream].next_free_at(&self.nand) > at
    }

    /// Copies what is valid in a flash page; returns what it costs the core.
    ///
    /// Cost: 1 sensing and 1 calendar, `fill` for the new places.
    #[inline(always)]
    pub(super) fn copy(&mut self, mut source: Source, at: Nanos) -> Nanos {
        let stream = self.ftl.collect_stream();
        let pages = u64::from(source.pages);
        let page = source.first.0 >> self.spec.geometry.page_shift;
        self.dies_until(at);
        let read = self.nand.read(at, at, page, pages * PAGE_BYTES);
        let mut done = read.done;
        if self.errors.is_some() {
            done = self.decode_copy(&source, done);
        }
        if self.map_cache.is_some() {
            done = done.max(self.translate_copy(&source, at));
        }
        // Pages are programmed in order: none before the data of all before it has come.
        self.collector.data_ready = self.collector.data_ready.max(done);
        while source.valid != 0 {
            if self.ftl.room(stream) == 0 {
                self.open_for_collection(at);
            }
            let (place, count) = self.ftl.relocate(&mut source);
            self.fill(stream, place, count, at.max(self.collector.data_ready));
        }
        self.copied_pages += pages;
        self.costs
            .copy_extent
            .times(u64::from(source.runs))
            .after(self.costs.copy_page.times(pages))
    }

    fn open_for_collection(&mut self, at: Nanos) {
        let opened = self.open(self.ftl.collect_stream(), at);
        assert!(opened, "the reserve always has a superblock for collection");
    }

    /// Gives the victim back that has been read to its end; worn flash may not survive its next erase.
    pub(super) fn retire(&mut self) {
        if self.errors.is_some() && !self.survives_erase() {
            self.ftl.discard_victim();
        } else {
            self.ftl.finish_victim(std::array::from_fn(|stream| self.buffers[stream].taken()));
        }
    }

    /// Whether the flash core may have had so long without a command until `at` that there is a rest to
    /// end, or work that it did meanwhile.
    #[inline(always)]
    pub(super) fn may_have_rested(&self, at: Nanos) -> bool {
        self.spec.idle_after.is_some_and(|after| {
            self.collector.rests_since.is_some() || self.flash_core.free_at().after(after) <= at
        })
    }

    /// Collects while the flash core has no command until `until`, as the profile allows.
    ///
    /// Nothing happens in idle time by itself: the next command, or the end of a rest, asks for what has
    /// been done by then. A copy that has begun is finished, and a command that comes waits for it.
    #[inline(always)]
    pub(super) fn collect_idle(&mut self, until: Nanos) {
        if self.spec.idle_after.is_some() {
            self.work_at_rest(until);
        }
    }

    pub(super) fn collect_until(&mut self, until: Nanos) {
        let Some(idle) = self.spec.idle else {
            return;
        };
        let from = self.rests_since().after(idle.after);
        let mut at = from.max(self.flash_core.free_at());
        let stream = self.ftl.collect_stream();
        while at < until && self.ftl.free_slots() < idle.free {
            if self.ftl.room(stream) == 0 && self.ftl.free_superblocks() == 0 {
                return;
            }
            at = at.max(self.place_free_at(stream));
            if at >= until {
                return;
            }
            match self.ftl.next_source() {
                Some(source) => {
                    let cost = self.copy(source, at);
                    self.flash_core.collect_from(at, cost);
                    at = at.after(cost);
                }
                None if self.ftl.victim_is_done() => self.retire(),
                None => return,
            }
        }
    }

    /// Since when the flash core has had no command.
    pub(super) fn rests_since(&mut self) -> Nanos {
        *self.collector.rests_since.get_or_insert(self.flash_core.free_at())
    }

    /// Opens the next superblock of one of the host's streams, collecting in the foreground while only the reserve is left.
    ///
    /// `at`: when the command passed the flash core. Returns when it may go on.
    #[cold]
    pub(super) fn open_for_host(&mut self, stream: usize, at: Nanos) -> Result<Nanos, DeviceError> {
        let mut may_go_on = Nanos::ZERO;
        if self.fold.is_some() {
            let (opened, end) = self.open_cache(at)?;
            if opened {
                return Ok(end);
            }
            may_go_on = end;
        }
        let reserve = self.spec.reserve_superblocks as usize;
        while self.ftl.free_superblocks() <= reserve {
            self.collect_superblock()?;
            may_go_on = self.flash_core.free_at();
        }
        // Collection into a shared frontier may have opened a superblock already.
        if self.ftl.room(stream) == 0 {
            let opened = self.open(stream, at.max(may_go_on));
            assert!(opened, "more than the reserve is free");
        }
        Ok(may_go_on)
    }

    /// Collects the rest of the victim, or a new one, without a pause.
    pub(super) fn collect_superblock(&mut self) -> Result<(), DeviceError> {
        let stream = self.ftl.collect_stream();
        loop {
            match self.ftl.next_source() {
                Some(source) => {
                    let begin = self.flash_core.free_at();
                    let wait = self.place_free_at(stream).since_or_zero(begin);
                    let cost = self.copy(source, begin.after(wait));
                    self.flash_core.collect(wait.after(cost));
                }
                None if self.ftl.victim_is_done() => {
                    self.retire();
                    return Ok(());
                }
                None => return Err(DeviceError::NoSpace),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_grows_as_space_shrinks() {
        let pacing = Pacing {
            start_free: 1000,
            full_free: 900,
            low_free: 200,
            critical_free: 100,
            low_factor_256: 20 * 256,
            quantum_pages_256: 0,
            after_reads: true,
        };
        let factors: Vec<u64> =
            [1001, 1000, 950, 900, 500, 200, 150, 100, 0].map(|f| pacing.factor_256(f)).to_vec();
        assert_eq!(factors, [0, 0, 128, 256, 256, 256, 2688, 5120, 5120]);
    }
}
