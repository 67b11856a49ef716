//! What parity takes and a failed die costs; which page is what is said in `firmware/datapath/stripes.rs`.

use drivebay_units::{Nanos, Ppa};

use super::BackEnd;
use crate::firmware::datapath::stripes::Role;
use crate::firmware::datapath::{NO_WAIT, ReadParts};
use crate::superblock::Source;

impl BackEnd {
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
            self.space.padding += u64::from(pages);
            let first = self.ftl.pass(stream);
            if role == Role::Parity {
                self.space.padded_pages += u64::from(pages);
                self.path.fill(stream, first, pages, at);
            } else {
                self.path.skip_page(stream, page);
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
        for stream in 0..self.path.streams() {
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
        if !self.damage.lost.is_empty() {
            let lost = |at: &u32| self.damage.lost.contains(&self.ftl.page_at(Ppa(*at)).0);
            let lost = (ppa.0..ppa.0 + len).filter(lost).count() as u64;
            self.damage.media_error |= lost > 0;
            self.damage.count_lost(lost);
        }
        if self.in_buffer(ppa, from) {
            return (from, NO_WAIT, false);
        }
        let page = ppa.0 >> self.geometry.page_shift;
        if self.stripes.is_lost(page) {
            let read = self.read_others(page, from, bytes, true);
            if read.is_none() {
                self.damage.media_error = true;
                self.damage.count_lost(u64::from(len));
            }
            let (done, parts) = read.unwrap_or((from, NO_WAIT));
            return (done, parts, false);
        }
        let (done, parts) = self.path.read(from, page, bytes);
        if self.damage.errors.is_none() {
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
        let mut latest = (from, NO_WAIT);
        for other in self.stripes.others(page)? {
            let (done, parts) = match for_host {
                true => self.path.read(from, other, bytes),
                false => (self.path.nand.read_inside(from, from, other, bytes).done, NO_WAIT),
            };
            if done >= latest.0 {
                latest = (done, parts);
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
        let done = self.path.nand.read_inside(at, at, page, bytes).done;
        if self.damage.errors.is_some() { self.decode_source(source, done) } else { done }
    }

    // ---- A die that fails.

    /// A die fails at `at`: open superblocks are closed with their parity, and if what is left has
    /// no room for all data, the drive only reads from then on.
    pub fn fail_die(&mut self, die: u32, at: Nanos) {
        for stream in 0..self.path.streams() {
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
        self.damage.may_err = true;
        // A victim of before may hold more than a superblock of now has room for.
        self.space.reserve += 1;
        self.space.read_only |= self.space.spendable(self.data_pages()) == 0;
        if self.space.read_only {
            self.stripes.stop();
        }
    }

    /// Nothing more is moved, for want of room.
    pub fn stop_moving(&mut self) {
        self.stripes.stop();
        self.space.read_only = true;
    }
}
