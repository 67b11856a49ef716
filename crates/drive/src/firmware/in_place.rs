//! The firmware of media that is written in place (`nand/in_place.rs`): reads and writes.
//!
//! A write is complete when the media has it: there is no volatile buffer, so a flush has nothing
//! to wait for and a power cut loses nothing that was acknowledged. A piece of 4 KiB that is
//! written in part is read before. TRIM and Write Zeroes change nothing on the media: they cost as
//! much as a command without data.

use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::events::Events;
use crate::firmware::path::Path;
use crate::io::{Io, Op};
use crate::nand::in_place::{Access, InPlace};
use crate::persist::{StateError, ensure, persist};
use crate::physics::thermal::Work;
use crate::profile::{Costs, InPlaceSpec, PAGE_BYTES, Spec};
use crate::stage::Stage;

/// log2 of sectors in 4 KiB.
const PAGE_SHIFT: u32 = 3;

/// Media and the host's writes to it.
pub struct InPlaceMedia {
    pub cells: InPlace,
    /// Pieces of 4 KiB that the host wrote, whole or in part.
    pub host_4k: u64,
    /// Time of the newest submission, or the end of the last idle time.
    pub now: Nanos,
    user_sectors: u64,
}

persist!(InPlaceMedia: cells, host_4k, now; given: user_sectors);

impl InPlaceMedia {
    pub fn new(spec: &Spec, media: &InPlaceSpec) -> InPlaceMedia {
        InPlaceMedia {
            cells: InPlace::new(media),
            host_4k: 0,
            now: Nanos::ZERO,
            user_sectors: spec.geometry.user_sectors,
        }
    }

    pub fn check(&self) -> Result<(), StateError> {
        ensure(self.host_4k < 1 << 50, "the drive's counters")?;
        self.cells.check()
    }

    pub fn work(&self) -> Work {
        let (page_reads, read_bytes) = (self.cells.reads, self.cells.read_bytes);
        Work { programmed: self.host_4k, page_reads, read_bytes, ..Work::default() }
    }

    /// Number of times that the whole of it has been written.
    pub fn cycles(&self) -> f64 {
        self.cells.writes as f64 / (self.user_sectors >> PAGE_SHIFT) as f64
    }

    /// See [`crate::Device::take_events`].
    pub fn take_events(&mut self) -> Option<Events> {
        let flash = *self.cells.take_activity()?;
        Some(Events { events: Vec::new(), dropped: 0, flash, superblocks: Vec::new() })
    }

    /// Serves a command that reaches the flash core at `from`; returns when it is done.
    #[inline(never)]
    pub fn serve(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let ready = match io.op {
            Op::Read => self.read(from, io, path),
            op if op.is_write() => self.write(from, io, path),
            _ => path.run_ftl_core(from, |costs| costs.write_command),
        };
        path.controller.ftl_core().close_command();
        ready
    }

    /// Writes all of it so often; returns when that is done.
    pub fn overwrite(&mut self, from: Nanos, passes: u32) -> Nanos {
        self.cells.write_all(from, self.pages() * u64::from(passes))
    }

    /// Time to write all of it.
    pub fn overwrite_time(&self) -> Nanos {
        self.cells.time_of_writes(self.pages())
    }

    fn pages(&self) -> u64 {
        self.user_sectors >> PAGE_SHIFT
    }

    /// First and last piece of 4 KiB, and how many there are.
    fn touched(io: Io) -> (u32, u32, u64) {
        let first = io.lba >> PAGE_SHIFT;
        let last = (io.lba + u64::from(io.sectors) - 1) >> PAGE_SHIFT;
        (first as u32, last as u32, last - first + 1)
    }

    /// Page by page from the media, and up the link as each arrives.
    fn read(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let (first, last, count) = Self::touched(io);
        let mut left = u64::from(io.sectors) * SECTOR_BYTES;
        let cost = |costs: &Costs| costs.read_command.after(costs.read_page.times(count));
        let from = path.controller.admit_read(from, left, path.stages);
        let begin = path.run_ftl_core(from, cost);
        let mut latest = (Nanos::ZERO, Access::default());
        for page in first..=last {
            let access = self.cells.read(self.now, begin, page);
            let share = if page == last { left } else { left.min(PAGE_BYTES) };
            left -= share;
            let up = path.link.move_up(self.now, access.done, share);
            if up >= latest.0 {
                latest = (up, access);
            }
        }
        path.add_parts(latest.1.parts);
        path.book(Stage::Link, latest.1.done, latest.0)
    }

    /// A write whose data has come through the write path: done when the media has all of it.
    fn write(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let (first, last, count) = Self::touched(io);
        let cost = |costs: &Costs| costs.write_command.after(costs.write_page.times(count));
        let begin = path.run_ftl_core(from, cost);
        let cuts = |lba: u64| !lba.is_multiple_of(1 << PAGE_SHIFT) && lba != self.user_sectors;
        let [cuts_first, cuts_last] = [io.lba, io.lba + u64::from(io.sectors)].map(cuts);
        let mut latest = (begin, Access::default());
        for page in first..=last {
            let is_cut = (page == first && cuts_first) || (page == last && cuts_last);
            let whole = if is_cut { self.cells.read(self.now, begin, page).done } else { begin };
            let access = self.cells.write(self.now, whole, page);
            if access.done >= latest.1.done {
                latest = (whole, access);
            }
        }
        path.book(Stage::Nand, begin, latest.0);
        path.add_parts(latest.1.parts);
        self.host_4k += count;
        latest.1.done
    }
}
