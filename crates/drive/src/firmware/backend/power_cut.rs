//! What outlives a power cut, and whether a state that was read back can be one.

use drivebay_units::{Lpn, Nanos};

use super::{BackEnd, StreamPage};
use crate::firmware::datapath::deferred::DeferredQueue;
use crate::firmware::datapath::write_buffer::WriteBuffer;
use crate::persist::{StateError, ensure};

impl BackEnd {
    /// Where the newest version of a page was put; none if the page holds no data. Cost: 1 map
    /// entry.
    pub fn stream_page(&self, lpn: Lpn) -> Option<StreamPage> {
        Some(self.stream_page_at(self.ftl.look_up(lpn)?))
    }

    /// Whether what was put there since the last power cut or erase would outlive one at `at`.
    pub fn is_programmed(&self, place: StreamPage, at: Nanos) -> bool {
        let buffer = &self.buffers[usize::from(place.stream)];
        self.protected
            || place.page < buffer.known().start
            || buffer.survives(place.page, at, &self.nand)
    }

    /// Cuts the power at `at`: what was not programmed is lost; returns how many pages' newest
    /// data.
    pub fn power_cut(&mut self, at: Nanos) -> u64 {
        self.dies_until(at);
        let lost_of = |buffer: &WriteBuffer| -> Vec<u64> {
            let lost = |&page: &u64| !self.protected && !buffer.survives(page, at, &self.nand);
            buffer.known().filter(lost).collect()
        };
        let lost: Vec<_> = self.buffers.iter().map(lost_of).collect();
        let free = self.ftl.free_pages();
        let lost_pages = self.ftl.lose(&lost);
        // The rest of a begun row stays unused: garbage collection makes up for it as for padding.
        self.padding += free.saturating_sub(self.ftl.free_pages());
        for (stream, buffer) in self.buffers.iter_mut().enumerate() {
            buffer.restart(self.ftl.next_page(stream));
        }
        self.begin_data();
        self.stripes.restart(at);
        self.nand.power_cut();
        self.deferred = DeferredQueue::new(self.buffers.len());
        (self.dies_floor, self.merged) = (Nanos::ZERO, Nanos::ZERO);
        lost_pages
    }

    /// As many of a stream's newest pages may not be programmed.
    pub fn buffered_pages(&self) -> u64 {
        (WriteBuffer::places(self.buffer_pages) as u64) << self.geometry.page_shift
    }

    /// Works out what follows from a state that was read back.
    pub fn derive(&mut self) {
        self.ftl.derive();
        self.may_err |= !self.stripes.failed().is_empty();
        self.reserve_superblocks += self.stripes.failed().len() as u32;
        self.begin_data();
        self.deferred.derive();
        self.buffers.iter_mut().for_each(WriteBuffer::derive);
    }

    /// Checks that what was read is a state that this flash can be in.
    pub fn check(&self, core_until: Nanos) -> Result<(), StateError> {
        self.nand.check()?;
        ensure(self.dies_floor <= core_until, "the time up to which dies are planned")?;
        self.buffers.iter().try_for_each(|buffer| buffer.check(&self.nand))?;
        let taken: Vec<u64> = self.buffers.iter().map(WriteBuffer::taken).collect();
        self.ftl.check(Some(&taken))?;
        self.errors.iter().try_for_each(|errors| errors.check())?;
        self.stripes.check()?;
        let is_page = |&page: &u32| page < self.geometry.user_pages;
        ensure(self.lost.last().is_none_or(is_page), "a page that was lost")?;
        self.map.check()?;
        let reads = self.nand.page_reads;
        let counts = [self.padded_pages, self.padding, reads, self.nand.superblock_erases];
        ensure(self.lost_reads < 1 << 50, "reads of what was lost")?;
        ensure(counts.iter().all(|&count| count < 1 << 50), "the flash's counters")?;
        self.check_deferred()
    }

    /// Programs and erases that are due: every page that waits has one, and none is of another
    /// drive.
    fn check_deferred(&self) -> Result<(), StateError> {
        let g = &self.geometry;
        let pages = (g.superblocks * g.superblock_pages) >> g.page_shift;
        for (stream, buffer) in self.buffers.iter().enumerate() {
            let taken = buffer.taken();
            let covered =
                self.deferred.check_programs(stream, g, pages, &buffer.known(), self.dies_floor)?;
            for page in buffer.known().filter(|&page| buffer.waits(page)) {
                // Its die's planes are not yet full: their last page will program all of them.
                let coming = || {
                    let plane = g.plane_of(self.ftl.frontier_page(stream, taken - 1 - page));
                    let left = u64::from((1 << g.plane_shift) - 1 - plane) << g.order.plane_shift;
                    page + left >= self.ftl.filled(stream, taken)
                };
                let newest = page + g.row_pages() >= taken;
                ensure(covered.contains(&page) || newest && coming(), "a page nobody programs")?;
            }
        }
        self.deferred.check_erases(|index| self.ftl.is_free_and_used(index))
    }
}
