//! What the controller's cores and its write path cost.

use drivebay_units::Nanos;

use super::checker::{Checker, SpecError, fs_per_byte, nanos};
use crate::raw::RawSpec;

/// What the cores and the write path cost at one throttle stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Host core, per command.
    pub host_core: Nanos,
    /// Flash core, per read command.
    pub read_command: Nanos,
    /// Flash core, per 4 KiB read.
    pub read_page: Nanos,
    /// Flash core, per write command.
    pub write_command: Nanos,
    /// Flash core, per 4 KiB written.
    pub write_page: Nanos,
    /// Flash core, per extent copied.
    pub copy_extent: Nanos,
    /// Flash core, per page copied.
    pub copy_page: Nanos,
    /// Flash core: most that garbage collection takes per page that the host writes.
    pub gc_duty: Nanos,
    /// Flash core, per program of the map's journal.
    pub journal: Nanos,
    /// Write path, femtoseconds per byte.
    pub write_path_fs_per_byte: u64,
    /// Reads are let through no faster than this, femtoseconds per byte; 0 for no limit.
    pub read_limit_fs_per_byte: u64,
}

impl Costs {
    /// Flash core, for `pages` copied that make so many extents.
    #[inline(always)]
    #[must_use]
    pub fn copy(&self, extents: u32, pages: u32) -> Nanos {
        let extents = self.copy_extent.times(u64::from(extents));
        extents.after(self.copy_page.times(u64::from(pages)))
    }
}

pub(super) fn check_costs(raw: &RawSpec) -> Result<Costs, SpecError> {
    let (c, g) = (&raw.controller, &raw.gc);
    Ok(Costs {
        host_core: Checker::micros("controller.host_core_us", &c.host_core_us)?,
        read_command: Checker::micros("controller.read_command_us", &c.read_command_us)?,
        read_page: Checker::micros("controller.read_page_us", &c.read_page_us)?,
        write_command: Checker::micros("controller.write_command_us", &c.write_command_us)?,
        write_page: Checker::micros("controller.write_page_us", &c.write_page_us)?,
        copy_extent: Checker::micros("gc.copy_extent_us", &g.copy_extent_us)?,
        copy_page: Checker::micros("gc.copy_page_us", &g.copy_page_us)?,
        gc_duty: nanos(Checker::float("gc.duty_limit_us", &g.duty_limit_us, 0.0, 10_000.0)?),
        journal: match &raw.map_journal {
            Some(journal) => Checker::micros("map_journal.program_us", &journal.program_us)?,
            None => Nanos::ZERO,
        },
        write_path_fs_per_byte: fs_per_byte(Checker::float(
            "controller.write_path_mb_per_s",
            &c.write_path_mb_per_s,
            1.0,
            100_000.0,
        )?),
        read_limit_fs_per_byte: match &c.read_path_mb_per_s {
            Some(rate) => {
                let field = "controller.read_path_mb_per_s";
                fs_per_byte(Checker::float(field, rate, 1.0, 100_000.0)?)
            }
            None => 0,
        },
    })
}

/// What a half-duplex controller needs to change between reads and writes; none for another.
pub(super) fn check_turnaround(raw: &RawSpec) -> Result<Option<Nanos>, SpecError> {
    let turnaround = raw.controller.turnaround_us.as_ref();
    turnaround.map(|us| Checker::micros("controller.turnaround_us", us)).transpose()
}

/// Costs of all cores at a slower clock; the write path is hardware and keeps its rate.
pub(super) fn slowed(c: Costs, clock_percent: f64) -> Costs {
    let slow = |len: Nanos| Nanos((len.0 as f64 * 100.0 / clock_percent).round() as u64);
    Costs {
        host_core: slow(c.host_core),
        read_command: slow(c.read_command),
        read_page: slow(c.read_page),
        write_command: slow(c.write_command),
        write_page: slow(c.write_page),
        copy_extent: slow(c.copy_extent),
        copy_page: slow(c.copy_page),
        gc_duty: slow(c.gc_duty),
        journal: slow(c.journal),
        write_path_fs_per_byte: c.write_path_fs_per_byte,
        read_limit_fs_per_byte: c.read_limit_fs_per_byte,
    }
}
