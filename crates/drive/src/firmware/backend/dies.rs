//! Parity and failed dies in the back end; `firmware/datapath/stripes.rs` decides the role of each
//! page.

use drivebay_units::{Nanos, Ppa};

use super::BackEnd;
use crate::firmware::datapath::stripes::Role;
use crate::firmware::datapath::{NO_WAIT, ReadParts};
use crate::superblock::Source;

impl BackEnd {
    /// Pages of data that the superblocks have space for.
    pub(super) fn data_pages(&self) -> u64 {
        self.stripes.data_pages(self.ftl.usable_pages())
    }

    // ---- Frontiers.

    /// Passes over pages without data at a stream's frontier: programs parity, leaves failed dies
    /// out. Returns true if data follows in its superblock.
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

    /// Derives where the data of a stream's superblock stops next, and where it ends.
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

    /// Derives where data stops for all streams.
    pub(super) fn begin_data(&mut self) {
        for stream in 0..self.path.streams() {
            let end = self.ftl.frontier(stream).end;
            match self.stripes.are_plain() {
                true => self.ftl.set_stop(stream, [end; 2]),
                false => self.find_stop(stream),
            }
        }
    }

    /// Begins a superblock that a stream has opened.
    #[inline]
    pub(super) fn begin_superblock(&mut self, stream: usize, index: u32, at: Nanos) {
        if !self.stripes.are_plain() {
            self.stripes.note_opened(index);
            self.pass_stripe(stream, at);
        }
    }

    // ---- Reads.

    /// [`BackEnd::read`] where a read may not be plain; also returns whether it was decoded.
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

    /// Reads the other pages of a lost page's stripe; returns when the last has come, and its
    /// waits. `None`: they do not suffice.
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

    /// Reads pages that are copied where a read may not be plain; returns when they are in the
    /// controller.
    #[inline(never)]
    pub(super) fn read_erring_source(&mut self, source: Source, at: Nanos, bytes: u64) -> Nanos {
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

    /// Fails a die at `at`: closes open superblocks with their parity. If the rest has no space for
    /// all data, the drive only reads from then on.
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
        // A victim chosen before may hold more than a superblock has space for now.
        self.space.reserve += 1;
        self.space.read_only |= self.space.spendable(self.data_pages()) == 0;
        if self.space.read_only {
            self.stripes.stop();
        }
    }

    /// Ends the rebuild, for want of space.
    pub fn stop_moving(&mut self) {
        self.stripes.stop();
        self.space.read_only = true;
    }
}
