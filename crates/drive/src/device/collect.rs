//! Collection: copying valid pages out of a victim, in slots behind host commands or in bursts.
//!
//! Model: firmware shares the flash core between commands and collection by time. Once spare space
//! runs low, each command is followed by a slot; its length depends on how much is free, so the host
//! is slowed smoothly. In a slot, runs of consecutive pages are copied until the time or the page
//! limit is used up; the slot passes even if the copying ends sooner. What a copy overdraws, the next
//! slot lacks. Below the reserve, whole superblocks are collected before the host may go on.
//! The mechanism is a hypothesis that fits the published burst, cliff and steady state together; see
//! docs/adr/0004-collection-by-time-slots.md.

use drivebay_units::{Lpn, Nanos};

use super::{Device, DeviceError};
use crate::ftl::{HOST, Run};
use crate::spec::{PAGE_BYTES, Pacing};

/// Credit of the paced collector and the source page it is in.
#[derive(Debug, Default)]
pub struct Collector {
    /// Core time that may still be spent, nanoseconds; overdrawn when negative.
    time: i64,
    /// Pages that may still be copied, in 1/256.
    pages_256: i64,
    /// Source page sensed last, and 4 KiB pages of it not yet moved out.
    source: Option<(u32, Nanos, u64)>,
    /// When the data copied so far is in the controller.
    data_ready: Nanos,
}

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
    /// The slot behind a host command, if spare space is low enough for one.
    #[inline]
    pub(super) fn collect_slot(&mut self) {
        let free = self.ftl.free_slots();
        if free < self.spec.pacing.start_free {
            self.collect_in_slot(free);
        }
    }

    fn collect_in_slot(&mut self, free: u64) {
        let factor = self.spec.pacing.factor_256(free);
        let slot = Nanos((self.costs.slot.0 * factor) >> 8);
        if slot == Nanos::ZERO {
            return;
        }
        let begin = self.flash_core.free_at();
        let limit = ((self.spec.pacing.slot_pages_256 * factor) >> 8) as i64;
        self.collector.time += slot.0 as i64;
        let most = self.spec.pacing.slot_pages_256 as i64;
        self.collector.pages_256 = (self.collector.pages_256 + limit).min(most);
        while self.collector.time > 0 && self.collector.pages_256 >= 256 {
            let len_max = (self.collector.pages_256 / 256) as u32;
            let spent = slot.0.saturating_sub(self.collector.time.max(0) as u64);
            if self.collect_stream_is_stuck(begin.after(Nanos(spent))) {
                break;
            }
            match self.ftl.next_run(len_max) {
                Some(run) => {
                    let cost = self.copy(run, begin.after(Nanos(spent)));
                    self.collector.time -= cost.0 as i64;
                    self.collector.pages_256 -= i64::from(run.len) * 256;
                }
                None if self.ftl.victim_is_done() => self.retire(begin.after(Nanos(spent))),
                None => break,
            }
        }
        // Time that no copy could use has passed all the same.
        self.collector.time = self.collector.time.min(0);
        self.flash_core.collect(slot);
    }

    /// Whether the next copy would wait for flash: the slot does not wait, it ends.
    #[inline]
    fn collect_stream_is_stuck(&self, at: Nanos) -> bool {
        let stream = self.ftl.collect_stream();
        (self.ftl.room(stream) == 0 && self.ftl.free_superblocks() == 0)
            || self.buffers[stream].next_free_at() > at
    }

    /// Copies a run; returns what it costs the core.
    ///
    /// Cost: 1 sensing and 1 calendar per flash page read, `fill` for the new places.
    #[inline]
    fn copy(&mut self, run: Run, at: Nanos) -> Nanos {
        let shift = self.spec.geometry.page_shift;
        let stream = self.ftl.collect_stream();
        let (mut slot, mut lpn, mut left) = (run.slot.0, run.lpn.0, run.len);
        while left > 0 {
            if self.ftl.room(stream) == 0 {
                self.open_for_collection();
            }
            // As far as one source page and one frontier go.
            let page = slot >> shift;
            let len = left.min(((page + 1) << shift) - slot).min(self.ftl.room(stream));
            self.sense_source(page, u64::from(len), at);
            let place = self.ftl.relocate(Lpn(lpn), len);
            let mask = (1 << shift) - 1;
            if (place.0 & mask) + len > mask {
                // A flash page is completed: its data must be in the controller.
                self.settle_source();
            }
            if place.0 & mask == 0 || (place.0 & mask) + len > mask {
                self.fill(stream, place, len, at.max(self.collector.data_ready));
            }
            slot += len;
            lpn += len;
            left -= len;
        }
        self.copied_pages += u64::from(run.len);
        self.costs.copy_run.after(self.costs.copy_page.times(u64::from(run.len)))
    }

    /// Senses the source page unless it was sensed last; counts what has to be moved out of it.
    #[inline(always)]
    fn sense_source(&mut self, page: u32, len: u64, at: Nanos) {
        match &mut self.collector.source {
            Some((current, _, waiting)) if *current == page => *waiting += len,
            _ => {
                self.settle_source();
                let (_, sensed) = self.nand.sense(at, page);
                self.collector.source = Some((page, sensed, len));
            }
        }
    }

    /// Moves what waits in the source page's register over the channel.
    #[inline]
    fn settle_source(&mut self) {
        if let Some((page, sensed, waiting)) = &mut self.collector.source
            && *waiting > 0
        {
            let end = self.nand.move_out(self.now, *sensed, *page, *waiting * PAGE_BYTES);
            *waiting = 0;
            self.collector.data_ready = self.collector.data_ready.max(end);
        }
    }

    fn open_for_collection(&mut self) {
        let stream = self.ftl.collect_stream();
        let opened = self.ftl.open(stream, self.buffers[stream].taken());
        assert!(opened, "the reserve always has a superblock for collection");
    }

    /// Erases the victim that has been read to its end.
    fn retire(&mut self, at: Nanos) {
        self.settle_source();
        self.collector.source = None;
        self.ftl.finish_victim();
        self.nand.erase_superblock(at);
    }

    /// Opens the host's next superblock, collecting in the foreground while only the reserve is left.
    ///
    /// Returns when the host may go on.
    #[cold]
    pub(super) fn open_for_host(&mut self) -> Result<Nanos, DeviceError> {
        let reserve = self.spec.reserve_superblocks as usize;
        let mut may_go_on = Nanos::ZERO;
        while self.ftl.free_superblocks() <= reserve {
            self.collect_superblock()?;
            may_go_on = self.flash_core.free_at();
        }
        // Collection into a shared frontier may have opened a superblock already.
        if self.ftl.room(HOST) == 0 {
            let opened = self.ftl.open(HOST, self.buffers[HOST].taken());
            assert!(opened, "more than the reserve is free");
        }
        Ok(may_go_on)
    }

    /// Collects the rest of the victim, or a new one, without a pause.
    fn collect_superblock(&mut self) -> Result<(), DeviceError> {
        const RUN_MAX: u32 = 32;
        let stream = self.ftl.collect_stream();
        loop {
            match self.ftl.next_run(RUN_MAX) {
                Some(run) => {
                    let room_at = self.buffers[stream].next_free_at();
                    let begin = self.flash_core.free_at();
                    let wait = room_at.since_or_zero(begin);
                    let cost = self.copy(run, begin.after(wait));
                    self.flash_core.collect(wait.after(cost));
                }
                None if self.ftl.victim_is_done() => {
                    self.retire(self.flash_core.free_at());
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
            slot_pages_256: 0,
            after_reads: true,
        };
        let factors: Vec<u64> =
            [1001, 1000, 950, 900, 500, 200, 150, 100, 0].map(|f| pacing.factor_256(f)).to_vec();
        assert_eq!(factors, [0, 0, 128, 256, 256, 256, 2688, 5120, 5120]);
    }
}
