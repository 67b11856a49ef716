//! What parity takes and a failed die costs; which page is what is said in `firmware/datapath/stripes.rs`.

use drivebay_units::{Nanos, Ppa};

use super::{BackEnd, NO_WAIT, ReadParts};
use crate::firmware::datapath::stripes::{Role, Stripes};
use crate::nand::dies::{ReadTimes, Ticket};
use crate::superblock::Source;

impl BackEnd {
    /// Dies that failed, and what is moved of them.
    #[inline(always)]
    pub fn stripes(&self) -> &Stripes {
        &self.stripes
    }

    /// Pages of data that the superblocks have room for.
    pub(super) fn data_pages(&self) -> u64 {
        self.stripes.data_pages(self.ftl.usable_pages())
    }

    // ---- Frontiers.

    /// Goes on behind what holds no data at a stream's frontier, if data follows in its superblock:
    /// parity is programmed, failed dies are left out.
    #[inline]
    pub fn pass(&mut self, stream: usize, at: Nanos) -> bool {
        !self.stripes.are_plain() && self.pass_stripe(stream, at)
    }

    #[cold]
    fn pass_stripe(&mut self, stream: usize, at: Nanos) -> bool {
        let pages = 1 << self.geometry.page_shift;
        while !self.ftl.frontier(stream).is_empty() {
            let page = self.ftl.frontier(stream).start >> self.geometry.page_shift;
            let role = self.stripes.role(page);
            if role == Role::Data {
                break;
            }
            self.padding += u64::from(pages);
            let first = self.ftl.pass(stream);
            if role == Role::Parity {
                self.padded_pages += u64::from(pages);
                self.fill(stream, first, pages, at);
            } else {
                let free_at = self.buffer_free_at(stream);
                let buffer = &mut self.buffers[stream];
                buffer.take(free_at);
                buffer.give_back(buffer.taken() - 1, Ticket::ENDED);
                buffer.note_program(&self.geometry, page, Ticket::ENDED, 1);
            }
        }
        self.find_stop(stream);
        self.ftl.room(stream) > 0
    }

    /// Works out where the data of the stream's superblock stops next, and where it ends.
    fn find_stop(&mut self, stream: usize) {
        let (frontier, shift) = (self.ftl.frontier(stream), self.geometry.page_shift);
        let is_data = |ppa: u32| self.stripes.role(ppa >> shift) == Role::Data;
        let (mut stop, mut last) = (frontier.start, frontier.end);
        while stop < frontier.end && is_data(stop) {
            stop = ((stop >> shift) + 1) << shift;
        }
        while last > stop && !is_data(last - 1) {
            last -= 1 << shift;
        }
        self.ftl.set_stop(stream, [stop, last]);
    }

    /// Works it out for all streams.
    pub(super) fn begin_data(&mut self) {
        for stream in 0..self.buffers.len() {
            let end = self.ftl.frontier(stream).end;
            match self.stripes.are_plain() {
                true => self.ftl.set_stop(stream, [end; 2]),
                false => self.find_stop(stream),
            }
        }
    }

    /// A stream has opened a superblock.
    #[inline]
    pub(super) fn begin_superblock(&mut self, stream: usize, index: u32, at: Nanos) {
        if !self.stripes.are_plain() {
            self.stripes.note_opened(index);
            self.pass_stripe(stream, at);
        }
    }

    // ---- Reads.

    /// [`BackEnd::read`] where a read may not be plain; whether it was decoded as well.
    #[inline(never)]
    pub(super) fn read_erring(
        &mut self,
        from: Nanos,
        ppa: Ppa,
        len: u32,
        bytes: u64,
    ) -> (Nanos, ReadParts, bool) {
        if !self.lost.is_empty() {
            let lost = |at: &u32| self.lost.contains(&self.ftl.page_at(Ppa(*at)).0);
            let lost = (ppa.0..ppa.0 + len).filter(lost).count() as u64;
            self.media_error |= lost > 0;
            self.count_lost(lost);
        }
        if self.in_buffer(ppa, from) {
            return (from, NO_WAIT, false);
        }
        let page = ppa.0 >> self.geometry.page_shift;
        if self.stripes.is_lost(page) {
            let read = self.read_others(page, from, bytes, true);
            if read.is_none() {
                self.media_error = true;
                self.count_lost(u64::from(len));
            }
            let (done, parts) = read.unwrap_or((from, NO_WAIT));
            return (done, parts, false);
        }
        let ReadTimes { begin, sensed, done } = self.nand.read(self.now, from, page, bytes);
        let parts = [begin.since(from), sensed.since(begin), done.since(sensed)];
        if self.errors.is_none() {
            return (done, parts, false);
        }
        // A flash page has at most 16 pages.
        let (done, parts, _) = self.retry(ppa, (1 << len) - 1, done, parts, true);
        (done, parts, true)
    }

    /// Reads the others of a lost page's stripe; when the last has come, and its waits. None: they
    /// do not suffice.
    fn read_others(
        &mut self,
        page: u32,
        from: Nanos,
        bytes: u64,
        for_host: bool,
    ) -> Option<(Nanos, ReadParts)> {
        let floor = if for_host { self.now } else { from };
        let mut latest = (from, NO_WAIT);
        for other in self.stripes.others(page)? {
            let times = match for_host {
                true => self.nand.read(floor, from, other, bytes),
                false => self.nand.read_inside(floor, from, other, bytes),
            };
            let ReadTimes { begin, sensed, done } = times;
            if done >= latest.0 {
                latest = (done, [begin.since(from), sensed.since(begin), done.since(sensed)]);
            }
        }
        Some(latest)
    }

    /// Reads what is copied where a read may not be plain; returns when it is in the controller.
    #[inline(never)]
    pub(super) fn read_erring_source(&mut self, source: &Source, at: Nanos, bytes: u64) -> Nanos {
        let page = source.first.0 >> self.geometry.page_shift;
        if self.stripes.is_lost(page) {
            let read = self.read_others(page, at, bytes, false);
            if read.is_none() {
                self.lose(source, source.valid);
            }
            return read.map_or(at, |(done, _)| done);
        }
        let done = self.nand.read_inside(at, at, page, bytes).done;
        if self.errors.is_some() { self.decode_source(source, done) } else { done }
    }

    // ---- A die that fails.

    /// A die fails at `at`: open superblocks are closed with their parity, and if what is left has
    /// no room for all data, the drive only reads from then on.
    pub fn fail_die(&mut self, die: u32, at: Nanos) {
        for stream in 0..self.buffers.len() {
            self.pad(stream, 0, at);
            // The stripe under way gets its parity.
            let has_parity = self.geometry.parity_dies.is_some();
            if has_parity && self.ftl.room(stream) > 0 {
                self.pad(stream, 1 << self.geometry.page_shift, at);
            } else if has_parity {
                self.pass(stream, at);
            }
            self.abandon(stream, at);
        }
        self.stripes.fail(die, at);
        self.may_err = true;
        // A victim of before may hold more than a superblock of now has room for.
        self.reserve_superblocks += 1;
        self.read_only |= self.spendable(self.data_pages()) == 0;
        if self.read_only {
            self.stripes.stop();
        }
    }

    /// So many pages were moved from `at` on.
    pub fn note_moved(&mut self, pages: u32, at: Nanos) {
        self.stripes.note_moved(pages, at);
    }

    /// Nothing more is moved, for want of room.
    pub fn stop_moving(&mut self) {
        self.stripes.stop();
        self.read_only = true;
    }
}
