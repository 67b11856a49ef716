//! Effects of flash errors and wear on reads, copies and superblocks; decided in
//! `physics/reliability.rs`.

use drivebay_units::{Nanos, Ppa};

use super::BackEnd;
use crate::firmware::datapath::{NO_WAIT, ReadParts};
use crate::nand::dies::ReadTimes;
use crate::physics::reliability::{Erased, FlashMark, Leap, Reliability};
use crate::superblock::{Purpose, Source};

impl BackEnd {
    /// Decodes pages of a flash page, bit i of `which` being `ppa + i`, and reads again as often as
    /// needed. `for_host`: the read is the host's.
    ///
    /// Returns when they are good, or given up; the waits with those of the retries; and which are
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
        let Some(errors) = &mut self.damage.errors else {
            return (from, parts, 0);
        };
        let verdict = errors.read(index, ppa, which, self.path.now());
        let retry_read = errors.retry_read();
        let page = ppa.0 >> self.geometry.page_shift;
        let bytes = u64::from(which.count_ones()) * self.geometry.unit_bytes();
        let mut clock = from;
        for _ in 0..verdict.retries {
            // Copies made while idle were read before the command that has come now.
            let floor = self.path.now().min(from);
            let ReadTimes { begin, sensed, done } =
                self.path.nand.read_in(floor, clock, page, bytes, retry_read, for_host);
            let waits = [begin.since(clock), sensed.since(begin), done.since(sensed)];
            parts = std::array::from_fn(|i| parts[i].after(waits[i]));
            clock = done;
        }
        self.damage.media_error |= verdict.lost != 0;
        let moved = verdict.retries > 0
            && self.ftl.plugin().is_some()
            && self.damage.errors.as_ref().is_some_and(|errors| {
                self.ftl.moves_retried(&errors.retried(index, verdict, self.path.now()))
            });
        if verdict.refresh || moved {
            self.ftl.suggest_victim(index);
        }
        (clock, parts, verdict.lost)
    }

    /// As `retry`, for a flash page that is being copied: an error there does not concern the
    /// command, but the copies have lost their data.
    pub(super) fn decode_source(&mut self, source: Source, from: Nanos) -> Nanos {
        let of_command = self.damage.media_error;
        let (done, _, lost) = self.retry(source.first, source.valid, from, NO_WAIT, false);
        self.damage.media_error = of_command;
        self.lose(source, lost);
        done
    }

    /// True if the victim can be used again after its erase; the drive may become read-only.
    pub(super) fn victim_survives_erase(&mut self, purpose: Purpose) -> bool {
        let affordable = self.space.spendable(self.data_pages()) > 0;
        let Some(errors) = &mut self.damage.errors else {
            return true;
        };
        let (index, before, cycles) = self.ftl.victim_cycles(purpose);
        if cycles == before {
            // With one bit per cell several erases wear as much as one.
            return true;
        }
        // Garbage collection must find a superblock to go on with.
        let may_retire = (affordable || self.space.zoned) && self.ftl.free_superblocks() > 0;
        let erased = errors.erase(index, cycles, may_retire);
        self.space.read_only |= erased == Erased::Short && !affordable && !self.space.zoned;
        erased != Erased::Retired
    }

    /// Ages the flash as [`crate::Device::live`] does: superblocks wear and data ages; returns the
    /// erases of all superblocks together.
    pub fn live(&mut self, began: &FlashMark, since: &FlashMark, leap: &Leap) -> u64 {
        let worn = self.ftl.wear_on(&began.cycles, &since.cycles, leap.times);
        if let Some(errors) = &mut self.damage.errors {
            errors.count_more(&since.reliability, leap);
            for (index, erases) in (0..).zip(worn.iter().cloned()) {
                errors.live(index, erases, began.at, leap);
            }
        }
        worn.iter().map(|erases| u64::from(erases.end - erases.start)).sum()
    }

    /// Number of zones of so many pages for which there is flash.
    pub fn zones(&self, pages: u32) -> usize {
        let spare = self.geometry.spare_needed(u64::from(self.space.reserve));
        (self.ftl.usable_pages().saturating_sub(spare) / u64::from(pages)) as usize
    }

    /// Errors and wear so far.
    pub fn reliability(&self) -> Reliability {
        Reliability { read_only: self.space.read_only, ..self.damage.counts() }
    }

    /// Flash that may still fail before the drive is worn out, in per cent of a new drive's: spare
    /// blocks, and the blocks of superblocks that it can do without.
    pub fn available_spare_percent(&self) -> u8 {
        if self.space.spare_blocks.is_none() && self.stripes.failed().is_empty() {
            return 100;
        }
        if self.space.read_only {
            return 0;
        }
        let spare_blocks = self.space.spare_blocks.unwrap_or(0);
        let of_superblock = u64::from(self.geometry.superblock_blocks);
        let blocks = |spares: u64, pages: u64| spares + self.space.spendable(pages) * of_superblock;
        let fresh = blocks(u64::from(spare_blocks), self.geometry.usable_pages());
        let left = blocks(self.reliability().spare_blocks, self.data_pages());
        (left.min(fresh) * 100).checked_div(fresh).unwrap_or(100) as u8
    }

    /// Notes that these copied pages have lost their data: they cannot be read until they are
    /// written anew.
    pub(super) fn lose(&mut self, source: Source, mut lost: u32) {
        while lost != 0 {
            let page = self.ftl.page_at(Ppa(source.first.0 + lost.trailing_zeros())).0;
            lost &= lost - 1;
            self.damage.lost.insert(page);
        }
    }
}
