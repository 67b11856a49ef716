//! The way of writes behind the write path: a place on flash for every page, and the program of a die
//! once its planes are full; flush, TRIM and Write Zeroes.
//!
//! A flush programs what is there: the open flash page is padded, and dies of which only some planes are
//! filled are programmed with those (a program of one plane takes as long as one of all).
//! Sources: NVMe base specification 2.0, commands Flush, Write, Write Zeroes and Dataset Management.

use drivebay_units::{Lpn, Nanos, Ppa, SECTOR_BYTES};

use super::read::{add_parts, touched};
use super::{Device, PAGE_SECTORS};
use crate::ftl::{COLD, HOST};
use crate::io::{DeviceError, Io, Op};
use crate::spec::{Costs, PAGE_BYTES};
use crate::stage::{Stage, Stages};

impl Device {
    /// A write whose data has come through the write path.
    #[inline]
    pub(super) fn write(
        &mut self,
        from: Nanos,
        io: Io,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let (first, last) = touched(io);
        let count = last.0 - first.0 + 1;
        let mut clock = self.write_pass(from, u64::from(count), stages);
        if self.map_cache.is_some() {
            let (ready, wait) = self.translate(clock, first, last, true);
            stages.add(Stage::Map, wait);
            clock = ready;
        }
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        if bytes != u64::from(count) * PAGE_BYTES {
            clock = self.read_edges(clock, io, first, last, stages);
        }
        let stream = self.stream_of(first, count);
        clock = self.store(stream, clock, first, count, stages)?;
        if io.op == Op::WriteFua && !self.spec.ignore_flush {
            let safe = self.make_durable(stream, clock, u64::from(count));
            stages.add(Stage::Buffer, safe.since(clock));
            clock = safe;
        }
        if self.fold.is_some() {
            self.fold_under_load(u64::from(count))?;
        }
        self.collect_slot(u64::from(count));
        self.flash_core.close_command();
        Ok(clock)
    }

    /// The flash core's work for a command that writes `pages` pages.
    #[inline(always)]
    fn write_pass(&mut self, from: Nanos, pages: u64, stages: &mut Stages) -> Nanos {
        let of = |costs: &Costs| costs.write_command.after(costs.write_page.times(pages));
        let (cost, nominal) = (of(&self.costs), of(&self.nominal));
        self.flash_core(from, cost, nominal, stages)
    }

    /// The stream of the host's to which a command's pages go.
    #[inline(always)]
    fn stream_of(&mut self, first: Lpn, count: u32) -> usize {
        if self.spec.by_lifespan { self.ftl.stream_of(first, count) } else { HOST }
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
        if self.errors.is_some() {
            self.replace(first.0, count);
        }
        if self.reduction.shrinks() {
            return self.store_reduced(stream, from, first, count, stages);
        }
        self.host_pages += u64::from(count);
        self.store_pages(stream, from, first, count, stages)
    }

    /// `store` for pages that take a slot each.
    #[inline]
    pub(super) fn store_pages(
        &mut self,
        stream: usize,
        from: Nanos,
        first: Lpn,
        count: u32,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let (mut lpn, mut left, mut clock) = (first.0, count, from);
        while left > 0 {
            if self.ftl.room(stream) == 0 {
                let before = clock;
                clock = clock.max(self.open_for_host(stream, from)?);
                stages.add(Stage::Gc, clock.since(before));
            }
            let len = left.min(self.ftl.room(stream));
            let slot = self.ftl.place(stream, Lpn(lpn), len);
            let stored = self.fill(stream, slot, len, clock);
            stages.add(Stage::Buffer, stored.since(clock));
            clock = stored;
            lpn += len;
            left -= len;
        }
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
        let end = io.lba + u64::from(io.sectors);
        let cut_first = !io.lba.is_multiple_of(PAGE_SECTORS);
        let cut_last = !end.is_multiple_of(PAGE_SECTORS);
        let mut latest = (from, [Nanos::ZERO; 3]);
        let edges =
            [(first, cut_first || (cut_last && first == last)), (last, cut_last && first != last)];
        for (lpn, cut) in edges {
            if cut {
                let (done, parts) = self.read_pages(from, self.ftl.look_up(lpn), 1);
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
    /// Returns when the last of them has found room. Cost: 1 ring entry per flash page begun, 1 queue entry
    /// per die-wide program.
    #[inline(always)]
    pub(super) fn fill(&mut self, stream: usize, slot: Ppa, len: u32, from: Nanos) -> Nanos {
        let last = (1u32 << self.spec.geometry.page_shift) - 1;
        let (mut at, end, mut clock) = (slot.0, slot.0 + len, from);
        while at < end {
            if at & last == 0 {
                let free_at = self.place_free_at(stream);
                self.buffers[stream].take(free_at);
            }
            clock = clock.max(self.buffers[stream].ready());
            let page_end = (at | last) + 1;
            if end < page_end {
                break;
            }
            let page = at >> self.spec.geometry.page_shift;
            let planes = 1u32 << self.spec.geometry.plane_shift;
            if (page >> self.spec.geometry.die_shift) & (planes - 1) == planes - 1 {
                let newest = self.buffers[stream].taken() - 1;
                self.program(stream, page, newest, clock);
            }
            at = page_end;
        }
        clock
    }

    /// Flush: everything acknowledged so far goes to flash. Copies of collection need none: what they
    /// were copied from is not erased before they are safe.
    pub(super) fn flush(&mut self, from: Nanos, stages: &mut Stages) -> Nanos {
        let (cost, nominal) = (self.costs.write_command, self.nominal.write_command);
        let begin = self.flash_core(from, cost, nominal, stages);
        if self.spec.ignore_flush {
            self.flash_core.close_command();
            return begin;
        }
        let pages = u64::from(self.spec.buffer_pages);
        let mut safe = self.make_durable(HOST, begin, pages);
        if self.spec.by_lifespan {
            safe = safe.max(self.make_durable(COLD, begin, pages));
        }
        stages.add(Stage::Buffer, safe.since(begin));
        self.flash_core.close_command();
        safe
    }

    /// Programs all that a stream's buffer holds; returns when its newest `pages` flash pages (or all it
    /// can hold) are safe, as far as is known now: reads asked later may still suspend the programs.
    ///
    /// Cost: 1 ring entry per page of the buffer.
    pub(super) fn make_durable(&mut self, stream: usize, at: Nanos, pages: u64) -> Nanos {
        let g = self.spec.geometry;
        if let Some(padding) = self.ftl.pad(stream, (1 << g.page_shift) - 1) {
            self.padded_pages += u64::from(padding.1);
            self.fill(stream, padding.0, padding.1, at);
        }
        self.ask_all();
        let taken = self.buffers[stream].taken();
        // Dies filled in part lie in the newest row, which lies in the open superblock.
        let row = u64::from(g.dies()) << g.plane_shift;
        let first = taken.saturating_sub(row);
        for number in (first..taken).rev() {
            if self.buffers[stream].waits(number) {
                let page = self.ftl.frontier_page(stream, taken - 1 - number);
                self.program(stream, page, number, at);
                self.ask_all();
            }
        }
        let oldest = taken.saturating_sub(pages).max(self.buffers[stream].known().start);
        let ends = (oldest..taken).map(|n| self.buffers[stream].end_of(n, &self.nand));
        let safe = ends.fold(at, Nanos::max);
        self.buffers[stream].promise(oldest..taken, safe);
        safe
    }

    /// Unmaps the whole pages inside the range; partly covered edges keep their data, as the ACS and
    /// NVMe standards allow.
    pub(super) fn trim(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let (cost, nominal) = (self.costs.write_command, self.nominal.write_command);
        let passed = self.flash_core(from, cost, nominal, stages);
        let done = self.unmap(passed, io, stages);
        self.flash_core.close_command();
        done
    }

    /// Unmaps the whole pages inside a range; returns when the map is changed.
    fn unmap(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let begin = io.lba.div_ceil(PAGE_SECTORS);
        let end = (io.lba + u64::from(io.sectors)) / PAGE_SECTORS;
        if end <= begin {
            return from;
        }
        let mut ready = from;
        if self.map_cache.is_some() {
            let (changed, wait) = self.translate_edges(from, begin as u32, end as u32 - 1);
            stages.add(Stage::Map, wait);
            ready = changed;
        }
        self.ftl.trim(Lpn(begin as u32), (end - begin) as u32);
        self.replace(begin as u32, (end - begin) as u32);
        ready
    }

    /// Write Zeroes: whole pages are unmapped, partial ones at the edges written with the rest kept.
    pub(super) fn write_zeroes(
        &mut self,
        from: Nanos,
        io: Io,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let (first, last) = touched(io);
        let end = io.lba + u64::from(io.sectors);
        let cut_first = !io.lba.is_multiple_of(PAGE_SECTORS);
        let cut_last = !(end.is_multiple_of(PAGE_SECTORS) || (cut_first && first == last));
        let edges = u64::from(cut_first) + u64::from(cut_last);
        let passed = self.write_pass(from, edges, stages);
        let mut clock = self.unmap(passed, io, stages);
        if edges > 0 {
            clock = self.read_edges(clock, io, first, last, stages);
            for (lpn, cut) in [(first, cut_first), (last, cut_last)] {
                if cut {
                    let stream = self.stream_of(lpn, 1);
                    clock = self.store(stream, clock, lpn, 1, stages)?;
                }
            }
            self.collect_slot(edges);
        }
        self.flash_core.close_command();
        Ok(clock)
    }
}
