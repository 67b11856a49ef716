//! Commands that change data, after the write path: a place on flash for every page, and the
//! program of a die once its planes are full; flush, TRIM and Write Zeroes.
//!
//! A flush programs the contents of the buffer: the open flash page is padded, and dies with some
//! full planes are programmed with those (a program of one plane takes as long as one of all).
//! Sources: NVMe base specification 2.0, commands Flush, Write, Write Zeroes and Dataset
//! Management.

use drivebay_units::{Lpn, Nanos};

use super::{PageMappedMedia, SHIFT_4K};
use crate::firmware::controller::Controller;
use crate::firmware::path::Path;
use crate::firmware::scheduler::WorkClass;
use crate::io::{DeviceError, Io, Op};
use crate::profile::Costs;
use crate::stage::Stage;
use crate::superblock::Mode;

impl PageMappedMedia {
    /// Serves a write whose data has come through the write path.
    #[inline]
    pub(super) fn write(
        &mut self,
        from: Nanos,
        io: Io,
        path: &mut Path,
    ) -> Result<Nanos, DeviceError> {
        let (mut first, last) = self.touched(io);
        let mut count = last.0 - first.0 + 1;
        let zoned = self.zones.is_some();
        let mut clock = self.write_pass(from, u64::from(count), path);
        if zoned {
            clock = self.append_pass(clock, io, path);
        }
        if self.backend.map.is_cached() {
            let ready = self.backend.translate(clock, first, last, true);
            clock = path.book(Stage::Map, clock, ready);
        }
        if u64::from(io.sectors) != u64::from(count) << self.page_shift {
            self.merge_edges(clock, io, path);
        }
        self.host_4k += frames_touched(io);
        let stream = self.backend.ftl.stream_of(first, count, io.handle)?;
        if zoned {
            (first, count) = self.place_in_zone(first, count, io);
            self.begin_zone(first, stream, clock);
        }
        clock = self.store(stream, clock, first, count, path)?;
        if zoned {
            clock = self.acknowledge(clock, io, path);
        }
        if io.op == Op::WriteFua && self.flush_waits {
            let safe = match self.backend.ftl.has_groups() {
                // Its group may have had no space.
                true => self.backend.flush(clock),
                false => self.backend.make_durable(stream, clock, u64::from(count)),
            };
            clock = path.book(Stage::Buffer, clock, safe);
        }
        self.work_behind(WorkClass::BEHIND_WRITE, u64::from(count), path)?;
        Ok(clock)
    }

    /// Work of the flash core for a command that writes `pages` pages.
    #[inline(always)]
    fn write_pass(&mut self, from: Nanos, pages: u64, path: &mut Path) -> Nanos {
        let cost = |costs: &Costs| costs.write_command.after(costs.write_page.times(pages));
        self.run_ftl_core(from, cost, path)
    }

    /// Finds places for `count` pages; returns when all are in the buffer.
    #[inline]
    pub(super) fn store(
        &mut self,
        own: usize,
        from: Nanos,
        first: Lpn,
        count: u32,
        path: &mut Path,
    ) -> Result<Nanos, DeviceError> {
        self.backend.replace(first.0, count);
        self.host_pages += u64::from(count);
        self.backend.ftl.note_written(own, count);
        let (mut lpn, mut left, mut clock) = (first.0, count, from);
        let (mut stream, has_groups) = (own, self.backend.ftl.has_groups());
        if has_groups {
            stream = self.backend.ftl.goes_on(own);
            clock = self.enter_group(stream, clock, path);
        }
        while left > 0 {
            if self.backend.ftl.room(stream) == 0 && has_groups {
                stream = self.backend.ftl.choose_stream(own);
                clock = self.enter_group(stream, clock, path);
            }
            if self.backend.ftl.room(stream) == 0 {
                let opened = self.open_for_host(stream, from, path.controller)?;
                let wait = opened.since_or_zero(clock);
                path.controller.book(Stage::Gc, wait, path.stages);
                clock = clock.after(wait);
            }
            let len = left.min(self.backend.ftl.room(stream));
            let stored = self.backend.write(stream, Lpn(lpn), len, clock);
            clock = path.book(Stage::Buffer, clock, stored);
            lpn += len;
            left -= len;
        }
        Ok(clock)
    }

    /// Goes on in the reclaim group of a stream; returns the time from which that is possible.
    #[cold]
    fn enter_group(&mut self, stream: usize, from: Nanos, path: &mut Path) -> Nanos {
        let group = self.backend.ftl.streams().group_of(stream);
        self.gc.enter(group, &mut self.backend);
        self.wait_for_copies(group, from, path)
    }

    /// Opens the next superblock of one of the host's streams, collecting garbage in the foreground
    /// while only the reserve is left; returns when the command may go on. `at`: time when it
    /// passed the flash core.
    #[cold]
    fn open_for_host(
        &mut self,
        stream: usize,
        at: Nanos,
        controller: &mut Controller,
    ) -> Result<Nanos, DeviceError> {
        if self.backend.pass(stream, at) {
            return Ok(Nanos::ZERO);
        }
        if self.zones.is_some() {
            self.backend.collect_empty(at);
        }
        let (gc, flash) = (&mut self.gc, &mut self.backend);
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
        if flash.ftl.room(stream) == 0 {
            let opened = flash.open(stream, at.max(may_go_on), Mode::Native);
            assert!(opened, "more than the reserve is free");
        }
        Ok(may_go_on)
    }

    /// Reads the old contents of partly written first and last pages (read-modify-write), after the
    /// command, whose data is safe in the buffer; its program waits for them.
    #[cold]
    fn merge_edges(&mut self, from: Nanos, io: Io, path: &mut Path) {
        for lpn in self.edges(io).into_iter().flatten() {
            let ppa = self.backend.ftl.look_up(lpn);
            let (merged, _) = self.read_pages(from, ppa, 1, self.geometry.unit_bytes(), path);
            self.backend.path.merge(merged);
        }
    }

    /// First and last page, each if the I/O covers only a part of it; one page counts once.
    fn edges(&self, io: Io) -> [Option<Lpn>; 2] {
        let (first, last) = self.touched(io);
        let end = io.lba + u64::from(io.sectors);
        let [cut_first, cut_last] = [self.cuts_page(io.lba), self.cuts_page(end)];
        let one = first == last;
        [(cut_first || cut_last && one).then_some(first), (cut_last && !one).then_some(last)]
    }

    /// True if a sector begins inside a page; the drive's end does not.
    fn cuts_page(&self, lba: u64) -> bool {
        !lba.is_multiple_of(1 << self.page_shift) && lba != self.geometry.user_sectors
    }

    /// Programs everything acknowledged so far (Flush).
    pub(super) fn flush(&mut self, from: Nanos, path: &mut Path) -> Nanos {
        let begin = self.run_ftl_core(from, |costs| costs.write_command, path);
        if !self.flush_waits {
            return begin;
        }
        let safe = self.backend.flush(begin);
        path.book(Stage::Buffer, begin, safe)
    }

    /// Makes a handle's next write begin a new superblock (Reclaim Unit Handle Update). The rest of
    /// the present one is padded, as open blocks are closed.
    pub(super) fn update_handle(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let begin = self.run_ftl_core(from, |costs| costs.write_command, path);
        let stream = self.backend.ftl.streams().of_place(io.handle);
        self.backend.pad(stream, self.backend.ftl.room(stream), begin);
        while self.backend.pass(stream, begin) {
            self.backend.pad(stream, self.backend.ftl.room(stream), begin);
        }
        begin
    }

    /// Unmaps the whole pages inside the range; partly covered edges keep their data, as the ACS
    /// and NVMe standards allow.
    pub(super) fn trim(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let passed = self.run_ftl_core(from, |costs| costs.write_command, path);
        self.unmap(passed, io, path)
    }

    /// Unmaps the whole pages inside a range; returns when the map is changed.
    fn unmap(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
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
        let (first, count) = (begin as u32, (end - begin) as u32);
        let mut ready = from;
        if self.backend.map.is_cached() {
            ready = self.backend.translate_edges(from, Lpn(first), Lpn(first + count - 1));
        }
        self.backend.unmap(Lpn(first), count);
        path.book(Stage::Map, from, ready)
    }

    /// Unmaps whole pages, and writes partial ones at the edges with the rest kept (Write Zeroes).
    pub(super) fn write_zeroes(
        &mut self,
        from: Nanos,
        io: Io,
        path: &mut Path,
    ) -> Result<Nanos, DeviceError> {
        let edges = self.edges(io);
        let count = edges.iter().flatten().count() as u64;
        let passed = self.write_pass(from, count, path);
        let mut clock = self.unmap(passed, io, path);
        if count > 0 {
            self.merge_edges(clock, io, path);
            for lpn in edges.into_iter().flatten() {
                let stream = self.backend.ftl.stream_of(lpn, 1, io.handle)?;
                clock = self.store(stream, clock, lpn, 1, path)?;
            }
            self.host_4k += count;
            self.work_behind(WorkClass::BEHIND_WRITE, count, path)?;
        }
        Ok(clock)
    }
}

/// Pieces of 4 KiB that an I/O touches.
#[inline(always)]
fn frames_touched(io: Io) -> u64 {
    (io.lba + u64::from(io.sectors)).div_ceil(1 << SHIFT_4K) - (io.lba >> SHIFT_4K)
}
