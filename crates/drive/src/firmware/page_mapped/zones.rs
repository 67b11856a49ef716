//! Zone Management Send on flash: a finish fills the rest of the zone's superblock at the rate of
//! the dies, a reset reclaims its superblocks without a copy. Data in a zone's random write area
//! stays in the write buffer; pages that the write pointer passes are programmed, once, whether
//! they were written or not.
//!
//! Both are done in steps, with other commands between them: a finish row by row over all dies, a
//! reset for a slice of the flash core's time. An erase that fails without spare flash removes a
//! zone (`Zones::shrink`). Source: resets and finishes of a WD ZN540 (NVMeBenchmarks, arXiv
//! 2310.19094): a finish takes what is left at the drive's write rate, a reset longer the more was
//! written. guess: steps, and that they are the flash core's. Left out: a superblock that a zone
//! has not begun, which a finish leaves free.

use std::ops::Range;

use drivebay_units::{Lpn, Nanos};

use super::PageMappedMedia;
use crate::firmware::path::Path;
use crate::firmware::scheduler::WorkClass;
use crate::io::{DeviceError, Io, Op};
use crate::profile::ZoneSpec;
use crate::stage::Stage;

impl PageMappedMedia {
    /// Serves a step of a command that the zones have accepted (`firmware/zones.rs`).
    #[cold]
    pub(super) fn manage_zone(
        &mut self,
        from: Nanos,
        io: Io,
        path: &mut Path,
    ) -> Result<Nanos, DeviceError> {
        let Some(zones) = self.zones else { return Ok(from) };
        let is_active = u32::from(io.handle) < zones.active;
        Ok(match io.op {
            Op::ZoneFinish if is_active && io.sectors > 0 => {
                self.finish_zone(&zones, from, io, path)?
            }
            Op::ZrwaFlush => {
                path.left = Nanos::ZERO;
                let begin = self.run_ftl_core(from, |costs| costs.write_command, path);
                let zone = io.lba - io.lba % zones.sectors;
                let end = io.lba + (1 << self.page_shift);
                self.commit(zone..end, usize::from(io.handle), begin, path)?
            }
            // A zone that was opened has blocks, written or not.
            Op::ZoneReset if io.sectors > 0 || is_active => {
                self.reset_zone(&zones, from, io, is_active, path)
            }
            _ => {
                path.left = Nanos::ZERO;
                self.run_ftl_core(from, |costs| costs.write_command, path)
            }
        })
    }

    /// Pages at the end of a zone's sectors that are not yet on flash.
    fn uncommitted(&self, sectors: Range<u64>) -> (Lpn, u32) {
        let (begin, end) = (self.page_of(sectors.start).0, self.page_of(sectors.end).0);
        let is_left = |page: &u32| self.backend.ftl.look_up(Lpn(*page)).is_none();
        let count = (begin..end).rev().take_while(is_left).count() as u32;
        (Lpn(end - count), count)
    }

    /// Programs the rest of a zone's sectors in its random write area.
    fn commit(
        &mut self,
        sectors: Range<u64>,
        stream: usize,
        at: Nanos,
        path: &mut Path,
    ) -> Result<Nanos, DeviceError> {
        let (first, count) = self.uncommitted(sectors);
        self.begin_zone(first, stream, at);
        let clock = self.store(stream, at, first, count, path)?;
        self.work_behind(WorkClass::BEHIND_WRITE, u64::from(count), path)?;
        Ok(clock)
    }

    fn finish_zone(
        &mut self,
        zones: &ZoneSpec,
        from: Nanos,
        io: Io,
        path: &mut Path,
    ) -> Result<Nanos, DeviceError> {
        let stream = usize::from(io.handle);
        let mut begin = self.run_ftl_core(from, |costs| costs.write_command, path);
        if path.left == Nanos::ZERO {
            begin = self.commit(io.lba..io.lba + u64::from(io.sectors), stream, begin, path)?;
        }
        let room = self.backend.ftl.room(stream);
        if room > 0 {
            let clock = self.backend.pad(stream, self.row_pages().min(room), begin);
            path.left = Nanos(1);
            return Ok(path.book(Stage::Buffer, begin, clock));
        }
        // The blocks are closed while the last row is programmed.
        let safe = self.backend.make_durable(stream, begin, u64::MAX);
        let clock = path.book(Stage::Buffer, begin, safe);
        path.left = Nanos::ZERO;
        Ok(path.book(Stage::Firmware, clock, clock.max(begin.after(zones.close))))
    }

    fn reset_zone(
        &mut self,
        zones: &ZoneSpec,
        from: Nanos,
        io: Io,
        is_active: bool,
        path: &mut Path,
    ) -> Nanos {
        let (first, pages) = (self.page_of(io.lba), io.sectors >> self.page_shift);
        let is_first = path.left == Nanos::ZERO;
        if is_first {
            let written = zones.reset_ps_per_sector * u64::from(io.sectors) / 1000;
            // Pages that fill no row are still in the buffer: no block has begun.
            let closes = is_active && pages > self.row_pages();
            path.left = Nanos(zones.reset.0 + written + if closes { zones.close.0 } else { 0 });
        }
        let step = path.left.min(zones.slice);
        path.left = path.left.since(step);
        let clock = path.controller.take_ftl_core(from, step, path.stages);
        self.backend.dies_until(clock);
        if is_first {
            self.backend.unmap(first, pages);
            if is_active {
                self.backend.abandon(usize::from(io.handle), clock);
            }
            self.backend.collect_empty(clock);
        }
        clock
    }

    /// Work of the flash core for an append, in addition to that for a write.
    #[cold]
    pub(super) fn append_pass(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        match self.zones {
            Some(zones) if io.op == Op::Append => self.run_ftl_core(from, |_| zones.append, path),
            _ => from,
        }
    }

    /// Acknowledges a write to a zone.
    #[cold]
    pub(super) fn acknowledge(&self, at: Nanos, io: Io, path: &mut Path) -> Nanos {
        let Some(zones) = &self.zones else { return at };
        let more = if io.op == Op::Append { zones.append_latency } else { Nanos::ZERO };
        path.book(Stage::Firmware, at, at.after(zones.write_latency).after(more))
    }

    /// Pages that a write programs: all of `count` from `first` on, or for a write to a random
    /// write area those that its end moves the write pointer over.
    #[cold]
    pub(super) fn place_in_zone(&self, first: Lpn, count: u32, io: Io) -> (Lpn, u32) {
        match self.zones {
            Some(ZoneSpec { zrwa: Some(area), sectors, .. }) if io.op == Op::ZrwaWrite => {
                let begin = io.lba - io.lba % sectors;
                let end = io.lba + u64::from(io.sectors) - begin;
                self.uncommitted(begin..begin + area.pointer(end))
            }
            _ => (first, count),
        }
    }

    /// Closes a stream's superblock, which may be another zone's, before a zone's first block is
    /// written.
    #[cold]
    pub(super) fn begin_zone(&mut self, first: Lpn, stream: usize, at: Nanos) {
        if self.zones.is_some_and(|zones| first.0.is_multiple_of(zones.pages)) {
            self.backend.abandon(stream, at);
        }
    }

    /// Pages of a row over all planes of all dies.
    fn row_pages(&self) -> u32 {
        (self.geometry.row_pages() as u32) << self.geometry.page_shift
    }
}
