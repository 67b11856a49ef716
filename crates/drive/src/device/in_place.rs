//! The way of reads and writes on media that is written in place (`../in_place.rs`).
//!
//! A write is complete when the media has it: there is no volatile buffer, so a flush has nothing to wait for
//! and a power cut loses nothing that was acknowledged. A piece of 4 KiB that is written in part is read before.
//! TRIM and Write Zeroes change nothing on the media: they cost what a command does.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::Device;
use super::read::add_parts;
use crate::io::Io;
use crate::profile::{Costs, PAGE_BYTES};
use crate::stage::{Stage, Stages};

/// Why a device without such media cannot come here.
const IN_PLACE: &str = "the drive's media is written in place";

impl Device {
    /// A read: page by page from the media, and up the link as each arrives.
    #[inline(never)]
    pub(super) fn read_in_place(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let (first, last) = self.touched(io);
        let count = u64::from(last.0 - first.0 + 1);
        let mut left = u64::from(io.sectors) * SECTOR_BYTES;
        let cost = |costs: &Costs| costs.read_command.after(costs.read_page.times(count));
        let from = self.controller.admit_read(from, left, stages);
        let begin = self.run_flash_core(from, cost, stages);
        let floor = self.now();
        let media = self.in_place.as_mut().expect(IN_PLACE);
        let mut latest = (Nanos::ZERO, Nanos::ZERO, [Nanos::ZERO; 3]);
        for page in first.0..=last.0 {
            let access = media.read(floor, begin, page);
            let share = if page == last.0 { left } else { left.min(PAGE_BYTES) };
            left -= share;
            let up = self.link.move_up(floor, access.done, share);
            if up >= latest.0 {
                latest = (up, access.done, access.parts);
            }
        }
        add_parts(stages, latest.2);
        stages.add(Stage::Link, latest.0.since(latest.1));
        self.controller.flash_core().close_command();
        latest.0
    }

    /// A write whose data has come through the write path: done when the media has all of it.
    #[inline(never)]
    pub(super) fn write_in_place(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let (first, last) = self.touched(io);
        let count = u64::from(last.0 - first.0 + 1);
        let begin = self.write_pass(from, count, stages);
        let end = io.lba + u64::from(io.sectors);
        let [cuts_first, cuts_last] = [self.cuts_page(io.lba), self.cuts_page(end)];
        let floor = self.now();
        let media = self.in_place.as_mut().expect(IN_PLACE);
        let mut latest = (Nanos::ZERO, Nanos::ZERO, [Nanos::ZERO; 3]);
        for page in first.0..=last.0 {
            let is_cut = (page == first.0 && cuts_first) || (page == last.0 && cuts_last);
            let whole = if is_cut { media.read(floor, begin, page).done } else { begin };
            let access = media.write(floor, whole, page);
            if access.done >= latest.0 {
                latest = (access.done, whole, access.parts);
            }
        }
        stages.add(Stage::Nand, latest.1.since(begin));
        add_parts(stages, latest.2);
        self.host_4k += count;
        self.host_pages += count;
        self.controller.flash_core().close_command();
        latest.0
    }

    /// A command that asks nothing of the media: flush, TRIM, Write Zeroes.
    pub(super) fn pass_in_place(&mut self, from: Nanos, stages: &mut Stages) -> Nanos {
        let passed = self.run_flash_core(from, |costs| costs.write_command, stages);
        self.controller.flash_core().close_command();
        passed
    }
}
