//! The firmware of page-mapped flash: serves commands, and has the back end collect garbage, fold
//! and refresh.
//!
//! Reads are in `read.rs`, commands that change data in `write.rs`, zones in `zones.rs`. The
//! drive's own work is done after commands and while the flash core has none
//! (`firmware/scheduler.rs`).

mod read;
mod write;
mod zones;

use drivebay_units::{Lpn, Nanos, Rng};

use crate::events::Trigger;
use crate::firmware::backend::BackEnd;
use crate::firmware::controller::Controller;
use crate::firmware::gc::Gc;
use crate::firmware::path::Path;
use crate::firmware::read_ahead::ReadAhead;
use crate::firmware::scheduler::{Room, WorkClass};
use crate::firmware::slc_cache::SlcCache;
use crate::host::admission::Admission;
use crate::io::{DeviceError, Io, Op};
use crate::persist::{StateError, ensure, persist};
use crate::physics::thermal::Work;
use crate::profile::{Costs, EndOfLife, Geometry, Spec, ZoneSpec};
use crate::stage::Stage;
use crate::timeline::NEVER;

/// log2 of sectors in 4 KiB.
const SHIFT_4K: u32 = 3;

/// Page-mapped flash and its firmware.
pub struct PageMappedMedia {
    /// Map, superblocks, write buffer and dies.
    pub backend: BackEnd,
    gc: Gc,
    slc_cache: Option<Box<SlcCache>>,
    read_ahead: Option<Box<ReadAhead>>,
    /// Pieces of 4 KiB that the host wrote, whole or in part.
    pub host_4k: u64,
    /// Pages (mapping units) of these.
    pub host_pages: u64,
    geometry: Geometry,
    /// log2 of sectors in a page.
    page_shift: u32,
    flush_waits: bool,
    /// Wear of an erase after use with one bit per cell, against one after use with all.
    slc_cycle_weight: f64,
    end_of_life: Option<EndOfLife>,
    zones: Option<ZoneSpec>,
}

persist!(PageMappedMedia: backend, gc, slc_cache, read_ahead, host_4k, host_pages;
    given: geometry, page_shift, flush_waits, slc_cycle_weight, end_of_life,
    zones);

impl PageMappedMedia {
    /// Fresh flash; `memory`: flash whose tables are used where they fit.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn new(
        spec: &Spec,
        rng: &Rng,
        memory: Option<PageMappedMedia>,
    ) -> Result<PageMappedMedia, DeviceError> {
        Ok(PageMappedMedia {
            backend: BackEnd::new(spec, rng, memory.map(|old| old.backend))?,
            gc: Gc::new(spec),
            slc_cache: spec.slc_cache.map(|slc| Box::new(SlcCache::new(slc))),
            read_ahead: spec.read_ahead.map(|r| Box::new(ReadAhead::new(r))),
            host_4k: 0,
            host_pages: 0,
            geometry: spec.geometry,
            page_shift: SHIFT_4K + spec.geometry.unit_shift,
            flush_waits: spec.flush_waits(),
            slc_cycle_weight: spec
                .slc_cache
                .map_or(1.0, |slc| f64::from(slc.cycle_weight_256) / 256.0),
            end_of_life: spec.end_of_life,
            zones: spec.zones,
        })
    }

    /// Flash that may still fail, in percent: the lesser of the back end's count and the firmware's
    /// countdown.
    pub fn available_spare_percent(&self) -> u8 {
        let spare = self.backend.available_spare_percent();
        self.end_of_life.map_or(spare, |end| spare.min(end.spare_percent(self.host_4k)))
    }

    /// 4 KiB copied so far.
    pub fn copied_4k(&self) -> u64 {
        self.gc.copied_pages() << self.geometry.unit_shift
    }

    pub fn work(&self) -> Work {
        let placed = self.host_pages + self.gc.copied_pages();
        let (nand, unit_shift) = (&self.backend.path.nand, self.geometry.unit_shift);
        Work {
            programmed: (placed << unit_shift) + self.backend.overhead_4k(),
            slc_programmed: self.backend.ftl.slc_pages() << unit_shift,
            page_reads: nand.page_reads,
            read_bytes: nand.read_bytes,
            erases: nand.superblock_erases,
            ..Work::default()
        }
    }

    /// Mean program/erase cycles, those of the SLC cache weighted by their wear.
    pub fn cycles(&self) -> f64 {
        let slc_erases = self.backend.ftl.slc_erases() as f64;
        let erases = self.backend.path.nand.superblock_erases as f64;
        let worn = erases - slc_erases * (1.0 - self.slc_cycle_weight);
        worn / f64::from(self.geometry.superblocks - self.geometry.bad_superblocks)
    }

    /// Checks a state that was read back.
    pub fn check(&self, core_until: Nanos) -> Result<(), StateError> {
        self.backend.check(core_until)?;
        self.gc.check()?;
        let counts = [self.host_4k, self.host_pages, self.gc.copied_pages()];
        ensure(counts.iter().all(|&count| count < 1 << 50), "the drive's counters")
    }

    /// Derives what follows from a state that was read back.
    pub fn derive(&mut self) {
        self.backend.derive();
        self.read_ahead.iter_mut().for_each(|ahead| ahead.find_ages());
    }

    /// Forgets the drive's own work under way.
    pub fn forget_work_under_way(&mut self, spec: &Spec) {
        self.gc.restart(spec);
        self.slc_cache.iter_mut().for_each(|cache| cache.restart());
        self.read_ahead.iter_mut().for_each(|ahead| ahead.forget());
    }

    /// True if the drive works while no command is there.
    pub fn works_when_idle(&self) -> bool {
        self.gc.works_when_idle() || self.backend.stripes.due() < NEVER
    }

    /// Moves the data of a failed die, page by page as each is due, up to `until`; commands wait
    /// for it.
    pub fn rebuild_until(&mut self, until: Nanos, controller: &mut Controller) {
        let (gc, backend) = (&mut self.gc, &mut self.backend);
        while backend.stripes.due() <= until {
            if backend.is_read_only() || gc.make_room_to_copy(backend, controller).is_err() {
                return backend.stop_moving();
            }
            let due = backend.stripes.due().max(controller.ftl_core().free_at());
            let Some((source, stream)) = backend.next_to_move() else { return };
            let from = due.max(backend.path.free_at(stream));
            let cost = gc.copy(source, stream, from, Trigger::Behind, backend, controller);
            controller.ftl_core().gc_from(from, cost);
            backend.stripes.note_moved(source.pages, from);
        }
    }

    /// State of buffer and space after a write that was admitted at `at`, for the scheduler.
    pub fn room(&mut self, at: Nanos, admission: &Admission) -> Room {
        let samples = admission.sample_due(self.host_pages);
        Room {
            at: self.backend.room_at().max(self.gc.writes_from()),
            paced: self.gc.runs(&self.backend),
            written: self.host_pages,
            taken_64: samples.then(|| self.backend.path.taken_64(at)),
        }
    }

    /// Serves a command that reaches the flash core at `from`: see
    /// [`crate::firmware::media::Media::serve`].
    #[inline(always)]
    pub fn serve(
        &mut self,
        from: Nanos,
        io: Io,
        path: &mut Path,
    ) -> Result<(Nanos, bool), DeviceError> {
        let ready = match io.op {
            Op::Read => self.read(from, io, path),
            Op::Flush => self.flush(from, path),
            _ if self.backend.is_read_only() && io.op != Op::ZoneOffline => {
                return Err(self.worn_out());
            }
            Op::Write | Op::WriteFua | Op::Append | Op::ZrwaWrite => self.write(from, io, path)?,
            Op::Trim => self.trim(from, io, path),
            Op::WriteZeroes => self.write_zeroes(from, io, path)?,
            Op::HandleUpdate => self.update_handle(from, io, path),
            Op::ZoneOpen
            | Op::ZoneClose
            | Op::ZoneFinish
            | Op::ZoneReset
            | Op::ZoneOpenZrwa
            | Op::ZrwaFlush
            | Op::ZoneOffline => self.manage_zone(from, io, path)?,
        };
        path.controller.ftl_core().close_command();
        if self.end_of_life.is_some_and(|end| self.host_4k >= end.writes_4k) {
            self.backend.wear_out();
        }
        Ok((ready, self.backend.take_media_error()))
    }

    /// Error of a change that a worn-out drive refuses: it only reads.
    #[cold]
    fn worn_out(&self) -> DeviceError {
        DeviceError::ReadOnly { failed_blocks: self.backend.reliability().failed_blocks }
    }

    /// The page of a sector.
    #[inline(always)]
    pub fn page_of(&self, lba: u64) -> Lpn {
        Lpn((lba >> self.page_shift) as u32)
    }

    /// First and last page that an I/O touches.
    #[inline(always)]
    fn touched(&self, io: Io) -> (Lpn, Lpn) {
        (self.page_of(io.lba), self.page_of(io.lba + u64::from(io.sectors) - 1))
    }

    /// Sectors that hold data, in whole pages.
    pub fn mapped_sectors(&self) -> u64 {
        self.backend.ftl.mapped() << self.page_shift
    }

    /// Passes a command through the flash core, after the drive's own work in idle time.
    #[inline(always)]
    fn run_ftl_core(
        &mut self,
        from: Nanos,
        cost: impl Fn(&Costs) -> Nanos,
        path: &mut Path,
    ) -> Nanos {
        if self.gc.may_have_idled(from, path.controller) {
            self.work_until(from, path.controller);
            self.gc.end_idle();
        }
        let end = path.run_ftl_core(from, cost);
        self.backend.dies_until(end);
        end
    }

    /// Keeps a command to a reclaim group waiting while its own copies take it; returns until when.
    #[cold]
    fn wait_for_copies(&mut self, group: usize, from: Nanos, path: &mut Path) -> Nanos {
        let until = from.max(self.gc.takes_until(group));
        self.backend.start_until(until);
        path.book(Stage::Gc, from, until)
    }

    /// Does the drive's own work while the flash core has no command until `until`.
    #[inline(never)]
    pub fn work_until(&mut self, until: Nanos, controller: &mut Controller) {
        let (gc, backend) = (&mut self.gc, &mut self.backend);
        match &mut self.slc_cache {
            Some(cache) => cache.work_until(until, gc, backend, controller),
            None => gc.run_until(until, backend, controller),
        }
    }

    /// Does the drive's own work after a command that wrote `pages`.
    #[inline(always)]
    fn work_behind<const N: usize>(
        &mut self,
        classes: [WorkClass; N],
        pages: u64,
        path: &mut Path,
    ) -> Result<(), DeviceError> {
        classes.into_iter().try_for_each(|class| self.work_on(class, pages, path))
    }

    #[inline(always)]
    fn work_on(
        &mut self,
        class: WorkClass,
        pages: u64,
        path: &mut Path,
    ) -> Result<(), DeviceError> {
        let (gc, backend, controller) = (&mut self.gc, &mut self.backend, &mut *path.controller);
        match class {
            WorkClass::Fold => {
                if let Some(cache) = &mut self.slc_cache {
                    cache.follow_write(pages, gc, backend, controller)?;
                }
            }
            WorkClass::Copy => gc.follow_write(pages, path.backpressure, backend, controller)?,
            WorkClass::Refresh => {
                if let Some(group) = backend.suggested_group() {
                    gc.refresh(group, backend, controller);
                }
            }
            WorkClass::Journal => {
                let programs = backend.write_journal(controller.ftl_core().free_at());
                if programs > 0 {
                    let cost = controller.costs().journal.times(programs);
                    controller.ftl_core().gc(cost);
                }
            }
        }
        Ok(())
    }
}
