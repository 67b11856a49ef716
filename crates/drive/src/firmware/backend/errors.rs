//! What flash errors and wear do to reads, copies and superblocks; decided in
//! `physics/reliability.rs`.

use std::ops::Range;

use drivebay_units::{Nanos, Ppa};

use super::{BackEnd, NO_WAIT, ReadParts};
use crate::nand::dies::ReadTimes;
use crate::physics::reliability::{Erased, Reliability};
use crate::superblock::{Purpose, Source};

impl BackEnd {
    /// Decodes pages of a flash page, bit i of `which` being `ppa + i`, reading again as often as
    /// it takes; whether that is `for_host`.
    ///
    /// Returns when they are good, or given up; the waits with the retries' added; and which are
    /// lost.
    #[inline(never)]
    pub(super) fn retry(
        &mut self,
        ppa: Ppa,
        which: u32,
        from: Nanos,
        mut parts: ReadParts,
        for_host: bool,
    ) -> (Nanos, ReadParts, u32) {
        let index = self.ftl.locate(ppa).0;
        // One bit per cell leaves margin enough: no errors there, and no disturbance worth
        // counting.
        if self.ftl.superblock(index).slc {
            return (from, parts, 0);
        }
        let Some(errors) = &mut self.errors else {
            return (from, parts, 0);
        };
        let verdict = errors.read(index, ppa, which, self.now);
        let retry_read = errors.retry_read();
        let page = ppa.0 >> self.geometry.page_shift;
        let bytes = u64::from(which.count_ones()) * self.geometry.unit_bytes();
        let mut clock = from;
        for _ in 0..verdict.retries {
            // Copies made while idle were read before the command that has come now.
            let floor = self.now.min(from);
            let ReadTimes { begin, sensed, done } =
                self.nand.read_in(floor, clock, page, bytes, retry_read, for_host);
            let waits = [begin.since(clock), sensed.since(begin), done.since(sensed)];
            parts = std::array::from_fn(|i| parts[i].after(waits[i]));
            clock = done;
        }
        self.media_error |= verdict.lost != 0;
        let moved = verdict.retries > 0
            && self.ftl.plugin().is_some()
            && self.errors.as_ref().is_some_and(|errors| {
                self.ftl.moves_retried(&errors.retried(index, verdict, self.now))
            });
        if verdict.refresh || moved {
            self.ftl.suggest_victim(index);
        }
        (clock, parts, verdict.lost)
    }

    /// `retry` for a flash page that is being copied: an error there is not the command's, but the
    /// copies are of nothing.
    pub(super) fn decode_source(&mut self, source: &Source, from: Nanos) -> Nanos {
        let of_command = self.media_error;
        let (done, _, lost) = self.retry(source.first, source.valid, from, NO_WAIT, false);
        self.media_error = of_command;
        self.lose(source, lost);
        done
    }

    /// Whether the victim can be used again after its erase; the drive may become read-only.
    pub(super) fn victim_survives_erase(&mut self, purpose: Purpose) -> bool {
        let affordable = self.spendable(self.data_pages()) > 0;
        let Some(errors) = &mut self.errors else {
            return true;
        };
        let (index, before, cycles) = self.ftl.victim_cycles(purpose);
        if cycles == before {
            // With one bit per cell several erases wear as much as one.
            return true;
        }
        // Garbage collection must find a superblock to go on with.
        let may_retire = (affordable || self.zoned) && self.ftl.free_superblocks() > 0;
        let erased = errors.erase(index, cycles, may_retire);
        self.read_only |= erased == Erased::Short && !affordable && !self.zoned;
        erased != Erased::Retired
    }

    /// As [`crate::Device::live`]: superblocks wear and data ages; returns the erases of all
    /// superblocks together.
    pub fn live(
        &mut self,
        before: &[u32],
        counts: &Reliability,
        times: f64,
        elapsed: Nanos,
    ) -> u64 {
        let worn = self.ftl.wear_on(before, times);
        if let Some(errors) = &mut self.errors {
            errors.count_more(counts, times);
            for (index, erases) in (0..).zip(worn.iter().cloned()) {
                errors.live(index, erases, elapsed);
            }
        }
        worn.iter().map(|erases| u64::from(erases.end - erases.start)).sum()
    }

    /// How many superblocks a drive can lose that has room for so many pages of data.
    pub(super) fn spendable(&self, usable: u64) -> u64 {
        let g = &self.geometry;
        let spare = g.spare_needed(u64::from(self.reserve_superblocks));
        let row = u64::from(g.superblock_pages) << g.group_shift;
        (usable.saturating_sub(u64::from(g.user_pages) + spare) / row) << g.group_shift
    }

    /// For how many zones of so many pages there is flash.
    pub fn zones(&self, pages: u32) -> usize {
        let spare = self.geometry.spare_needed(u64::from(self.reserve_superblocks));
        (self.ftl.usable_pages().saturating_sub(spare) / u64::from(pages)) as usize
    }

    /// Errors and wear so far.
    pub fn reliability(&self) -> Reliability {
        let mut counts = self.errors.as_ref().map_or_else(Reliability::default, |e| e.counts);
        counts.media_errors += self.lost_reads;
        Reliability { read_only: self.read_only, ..counts }
    }

    /// Flash that may still fail before the drive is worn out, per cent of what a new one has:
    /// spare blocks, and the blocks of superblocks that it can do without.
    pub fn available_spare_percent(&self) -> u8 {
        if self.spare_blocks.is_none() && self.stripes.failed().is_empty() {
            return 100;
        }
        if self.read_only {
            return 0;
        }
        let spare_blocks = self.spare_blocks.unwrap_or(0);
        let of_superblock = u64::from(self.geometry.superblock_blocks);
        let blocks = |spares: u64, pages: u64| spares + self.spendable(pages) * of_superblock;
        let fresh = blocks(u64::from(spare_blocks), self.geometry.usable_pages());
        let left = blocks(self.reliability().spare_blocks, self.data_pages());
        (left.min(fresh) * 100).checked_div(fresh).unwrap_or(100) as u8
    }

    /// Of what was copied these pages have lost their data: they cannot be read until they are
    /// written anew.
    pub(super) fn lose(&mut self, source: &Source, mut lost: u32) {
        while lost != 0 {
            let page = self.ftl.page_at(Ppa(source.first.0 + lost.trailing_zeros())).0;
            lost &= lost - 1;
            self.lost.insert(page);
        }
    }

    /// Counts reads that no error correction could save.
    pub(super) fn count_lost(&mut self, reads: u64) {
        match &mut self.errors {
            Some(errors) => errors.counts.media_errors += reads,
            None => self.lost_reads += reads,
        }
    }

    /// Pages get new data, or none: what was lost of them does not matter any more. Cost: a look
    /// whether any was lost; then a search, and one for each page.
    #[inline(always)]
    pub fn replace(&mut self, first: u32, count: u32) {
        if !self.lost.is_empty() {
            self.forget_lost(first..first + count);
        }
    }

    #[cold]
    fn forget_lost(&mut self, pages: Range<u32>) {
        while let Some(&page) = self.lost.range(pages.clone()).next() {
            self.lost.remove(&page);
        }
    }
}
