//! What Zone Management Send comes to on flash: a finish fills what is left of the zone's superblock at the rate of the
//! dies, a reset gives its superblocks back without a copy.
//!
//! Both are done in steps, and commands go between: a finish row by row over all dies, a reset for a slice of the flash
//! core's time. Source: resets and finishes of a WD ZN540 (NVMeBenchmarks, arXiv 2310.19094): a finish takes what is left at
//! the drive's write rate, a reset longer the more was written. guess: steps, and that they are the flash core's. Left out: a
//! superblock that a zone has not begun, which a finish leaves free.

use drivebay_units::{Lpn, Nanos};

use super::FlashMedia;
use crate::firmware::path::Path;
use crate::io::{Io, Op};
use crate::profile::ZoneSpec;
use crate::stage::Stage;

impl FlashMedia {
    /// A step of a command that the zones have taken (`firmware/zones.rs`).
    #[cold]
    pub(super) fn manage_zone(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let Some(zones) = self.zones else { return from };
        let is_active = u32::from(io.handle) < zones.active;
        match io.op {
            Op::ZoneFinish if is_active && io.sectors > 0 => {
                self.finish_zone(&zones, from, io, path)
            }
            Op::ZoneReset if io.sectors > 0 => self.reset_zone(&zones, from, io, is_active, path),
            _ => {
                path.left = Nanos::ZERO;
                self.run_flash_core(from, |costs| costs.write_command, path)
            }
        }
    }

    fn finish_zone(&mut self, zones: &ZoneSpec, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let stream = usize::from(io.handle);
        let begin = self.run_flash_core(from, |costs| costs.write_command, path);
        let room = self.backend.ftl().room(stream);
        if room > 0 {
            let clock = self.backend.pad(stream, self.row_pages().min(room), begin);
            path.left = Nanos(1);
            return path.book(Stage::Buffer, begin, clock);
        }
        let safe = self.backend.make_durable(stream, begin, u64::MAX);
        let clock = path.book(Stage::Buffer, begin, safe);
        path.left = Nanos::ZERO;
        path.book(Stage::Firmware, clock, clock.after(zones.close))
    }

    fn reset_zone(
        &mut self,
        zones: &ZoneSpec,
        from: Nanos,
        io: Io,
        is_active: bool,
        path: &mut Path,
    ) -> Nanos {
        let (first, pages) = (self.page_of(io.lba), io.sectors >> self.page_shift);
        let is_first = path.left == Nanos::ZERO;
        if is_first {
            let written = zones.reset_ps_per_sector * u64::from(io.sectors) / 1000;
            // What has not filled a row is still in the buffer: no block has begun.
            let closes = is_active && pages > self.row_pages();
            path.left = Nanos(zones.reset.0 + written + if closes { zones.close.0 } else { 0 });
        }
        let step = path.left.min(zones.slice);
        path.left = path.left.since(step);
        let clock = self.run_flash_core(from, |_| step, path);
        if is_first {
            self.backend.ftl_mut().trim(first, pages);
            self.backend.replace(first.0, pages);
            if is_active {
                self.backend.abandon(usize::from(io.handle), clock);
            }
            self.backend.collect_empty(clock);
        }
        clock
    }

    /// A zone's first block is about to be written through a stream whose superblock may be another's.
    pub(super) fn begin_zone(&mut self, first: Lpn, stream: usize, at: Nanos) {
        if self.zones.is_some_and(|zones| first.0.is_multiple_of(zones.pages)) {
            self.backend.abandon(stream, at);
        }
    }

    /// Pages of a row over all planes of all dies.
    fn row_pages(&self) -> u32 {
        (self.geometry.row_pages() as u32) << self.geometry.page_shift
    }
}
