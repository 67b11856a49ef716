//! The way of writes behind the write path: a place on flash for every page, and the program of a die
//! once its planes are full; flush, TRIM and Write Zeroes.
//!
//! A flush programs what is there: the open flash page is padded, and dies of which only some planes are
//! filled are programmed with those (a program of one plane takes as long as one of all).
//! Sources: NVMe base specification 2.0, commands Flush, Write, Write Zeroes and Dataset Management.

use drivebay_units::{Lpn, Nanos};

use super::{Device, SHIFT_4K};
use crate::io::{DeviceError, Io, Op};
use crate::profile::Costs;
use crate::stage::{Stage, Stages};
use crate::superblock::Mode;

impl Device {
    /// A write whose data has come through the write path.
    #[inline]
    pub(super) fn write(
        &mut self,
        from: Nanos,
        io: Io,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let (first, last) = self.touched(io);
        let count = last.0 - first.0 + 1;
        let mut clock = self.write_pass(from, u64::from(count), stages);
        if self.flash.has_map_cache() {
            let ready = self.flash.translate(clock, first, last, true);
            stages.add(Stage::Map, ready.since(clock));
            clock = ready;
        }
        if u64::from(io.sectors) != u64::from(count) << self.page_shift {
            self.merge_edges(clock, io, first, last);
        }
        self.host_4k += frames_touched(io);
        let stream = self.flash.ftl_mut().stream_of(first, count)?;
        let absorbed = self.absorbed_pages;
        clock = self.store(stream, clock, first, count, stages)?;
        if io.op == Op::WriteFua && self.spec.flush_waits() {
            let safe = self.flash.make_durable(stream, clock, u64::from(count));
            stages.add(Stage::Buffer, safe.since(clock));
            clock = safe;
        }
        self.follow_write(u64::from(count) - (self.absorbed_pages - absorbed))?;
        self.controller.flash_core().close_command();
        Ok(clock)
    }

    /// Folding and garbage collection behind a command that wrote `pages`.
    #[inline(always)]
    fn follow_write(&mut self, pages: u64) -> Result<(), DeviceError> {
        let pressed = self.queue.is_pressed();
        let (gc, flash, controller) = (&mut self.gc, &mut self.flash, &mut self.controller);
        if let Some(cache) = &mut self.slc_cache {
            cache.follow_write(pages, gc, flash, controller)?;
        }
        gc.follow_write(pages, pressed, flash, controller)?;
        let programs = flash.write_journal(controller.flash_core().free_at());
        if programs > 0 {
            let cost = controller.costs().journal.times(programs);
            controller.flash_core().gc(cost);
        }
        Ok(())
    }

    /// The flash core's work for a command that writes `pages` pages.
    #[inline(always)]
    pub(super) fn write_pass(&mut self, from: Nanos, pages: u64, stages: &mut Stages) -> Nanos {
        let cost = |costs: &Costs| costs.write_command.after(costs.write_page.times(pages));
        self.run_flash_core(from, cost, stages)
    }

    /// Finds places for `count` pages; returns when all are in the buffer.
    #[inline]
    fn store(
        &mut self,
        stream: usize,
        from: Nanos,
        first: Lpn,
        count: u32,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        self.flash.replace(first.0, count);
        self.host_pages += u64::from(count);
        if self.spec.coalesces {
            return self.store_coalescing(stream, from, first, count, stages);
        }
        self.store_pages(stream, from, first, count, stages)
    }

    /// `store` where data in the buffer that no program has taken yet is overwritten there.
    #[inline(never)]
    fn store_coalescing(
        &mut self,
        stream: usize,
        from: Nanos,
        first: Lpn,
        count: u32,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let mut clock = from;
        for lpn in (first.0..first.0 + count).map(Lpn) {
            if self.flash.can_overwrite(lpn, clock) {
                self.absorbed_pages += 1;
            } else {
                clock = self.store_pages(stream, clock, lpn, 1, stages)?;
            }
        }
        Ok(clock)
    }

    /// `store` for pages that take an address each.
    #[inline]
    fn store_pages(
        &mut self,
        stream: usize,
        from: Nanos,
        first: Lpn,
        count: u32,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let (mut lpn, mut left, mut clock) = (first.0, count, from);
        while left > 0 {
            if self.flash.ftl().room(stream) == 0 {
                let before = clock;
                clock = clock.max(self.open_for_host(stream, from)?);
                self.controller.book(Stage::Gc, clock.since(before), stages);
            }
            let len = left.min(self.flash.ftl().room(stream));
            let stored = self.flash.write(stream, Lpn(lpn), len, clock);
            stages.add(Stage::Buffer, stored.since(clock));
            clock = stored;
            lpn += len;
            left -= len;
        }
        Ok(clock)
    }

    /// Opens the next superblock of one of the host's streams, collecting garbage in the foreground while
    /// only the reserve is left.
    ///
    /// `at`: when the command passed the flash core. Returns when it may go on.
    #[cold]
    fn open_for_host(&mut self, stream: usize, at: Nanos) -> Result<Nanos, DeviceError> {
        let (gc, flash, controller) = (&mut self.gc, &mut self.flash, &mut self.controller);
        let mut may_go_on = Nanos::ZERO;
        if let Some(cache) = &mut self.slc_cache {
            let (opened, end) = cache.open(at, gc, flash, controller)?;
            if opened {
                return Ok(end);
            }
            may_go_on = end;
        }
        may_go_on = may_go_on.max(gc.run_to_reserve(flash, controller)?);
        // Copies into a shared frontier may have opened a superblock already.
        if flash.ftl().room(stream) == 0 {
            let opened = flash.open(stream, at.max(may_go_on), Mode::Native);
            assert!(opened, "more than the reserve is free");
        }
        Ok(may_go_on)
    }

    /// Read-modify-write: the old contents of partly written first and last pages are read behind the command,
    /// whose data is safe in the buffer; it is programmed when they have come.
    #[cold]
    fn merge_edges(&mut self, from: Nanos, io: Io, first: Lpn, last: Lpn) {
        let end = io.lba + u64::from(io.sectors);
        let [cut_first, cut_last] = [self.cuts_page(io.lba), self.cuts_page(end)];
        let edges =
            [(first, cut_first || (cut_last && first == last)), (last, cut_last && first != last)];
        for (lpn, _) in edges.into_iter().filter(|&(_, cut)| cut) {
            let ppa = self.flash.ftl().look_up(lpn);
            let (merged, _) = self.read_pages(from, ppa, 1, self.spec.geometry.unit_bytes());
            self.flash.merge(merged);
        }
    }

    /// Whether a sector's beginning lies inside a page; the drive's end does not.
    pub(super) fn cuts_page(&self, lba: u64) -> bool {
        !lba.is_multiple_of(1 << self.page_shift) && lba != self.spec.geometry.user_sectors
    }

    /// Flush: everything acknowledged so far goes to flash.
    pub(super) fn flush(&mut self, from: Nanos, stages: &mut Stages) -> Nanos {
        let begin = self.run_flash_core(from, |costs| costs.write_command, stages);
        let mut safe = begin;
        if self.spec.flush_waits() {
            safe = self.flash.flush(begin);
            stages.add(Stage::Buffer, safe.since(begin));
        }
        self.controller.flash_core().close_command();
        safe
    }

    /// Unmaps the whole pages inside the range; partly covered edges keep their data, as the ACS and
    /// NVMe standards allow.
    pub(super) fn trim(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let passed = self.run_flash_core(from, |costs| costs.write_command, stages);
        let done = self.unmap(passed, io, stages);
        self.controller.flash_core().close_command();
        done
    }

    /// Unmaps the whole pages inside a range; returns when the map is changed.
    fn unmap(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let begin = io.lba.div_ceil(1 << self.page_shift);
        let end = io.lba + u64::from(io.sectors);
        let end = if self.cuts_page(end) {
            end >> self.page_shift
        } else {
            end.div_ceil(1 << self.page_shift)
        };
        if end <= begin {
            return from;
        }
        let mut ready = from;
        if self.flash.has_map_cache() {
            ready = self.flash.translate_edges(from, Lpn(begin as u32), Lpn(end as u32 - 1));
            stages.add(Stage::Map, ready.since(from));
        }
        self.flash.ftl_mut().trim(Lpn(begin as u32), (end - begin) as u32);
        self.flash.replace(begin as u32, (end - begin) as u32);
        ready
    }

    /// Write Zeroes: whole pages are unmapped, partial ones at the edges written with the rest kept.
    pub(super) fn write_zeroes(
        &mut self,
        from: Nanos,
        io: Io,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let (first, last) = self.touched(io);
        let end = io.lba + u64::from(io.sectors);
        let cut_first = self.cuts_page(io.lba);
        let cut_last = self.cuts_page(end) && !(cut_first && first == last);
        let edges = u64::from(cut_first) + u64::from(cut_last);
        let passed = self.write_pass(from, edges, stages);
        let mut clock = self.unmap(passed, io, stages);
        if edges > 0 {
            self.merge_edges(clock, io, first, last);
            for (lpn, cut) in [(first, cut_first), (last, cut_last)] {
                if cut {
                    let stream = self.flash.ftl_mut().stream_of(lpn, 1)?;
                    clock = self.store(stream, clock, lpn, 1, stages)?;
                }
            }
            self.host_4k += edges;
            let pressed = self.queue.is_pressed();
            self.gc.follow_write(edges, pressed, &mut self.flash, &mut self.controller)?;
        }
        self.controller.flash_core().close_command();
        Ok(clock)
    }
}

/// Pieces of 4 KiB that an I/O touches.
#[inline(always)]
fn frames_touched(io: Io) -> u64 {
    (io.lba + u64::from(io.sectors)).div_ceil(1 << SHIFT_4K) - (io.lba >> SHIFT_4K)
}
