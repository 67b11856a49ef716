//! What the controller's cores and its write path cost.

use drivebay_units::Nanos;

use super::flash::Geometry;
use super::key::{Number, SpecError};
use super::schema::{RawHalfDuplex, RawSpec};

/// How a half-duplex controller shares its data path between the directions.
#[derive(Clone, Copy, Debug)]
pub struct HalfDuplexSpec {
    /// From the end of the last transfer in one direction to the first in the other.
    pub turnaround: Nanos,
    /// Commands after which a batch ends if the other direction waits.
    pub batch_commands: u32,
    /// How long a batch goes on while the other direction waits.
    pub batch_wait: Nanos,
}

pub(super) fn half_duplex(raw: &RawHalfDuplex) -> HalfDuplexSpec {
    HalfDuplexSpec {
        turnaround: raw.turnaround_us.micros(),
        batch_commands: raw.batch_commands.value as u32,
        batch_wait: raw.batch_wait_us.micros(),
    }
}

/// How writes are admitted.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionSpec {
    /// Least time between two while garbage collection runs, in the long run.
    pub interval: Nanos,
    /// Writes that may come together beyond one in an interval.
    pub together: u64,
    /// Reads feed the pacer as well: one that is served while a write is held admits it.
    pub fed_by_reads: bool,
    /// A control loop on the write buffer sets the interval: pages that the host writes between two
    /// samples of it, an eighth of what it holds.
    pub sample_pages: Option<u64>,
}

pub(super) fn check_admission(
    raw: &RawSpec,
    geometry: &Geometry,
    buffer_pages: u32,
) -> Result<Option<AdmissionSpec>, SpecError> {
    let Some(admission) = &raw.controller.admission else { return Ok(None) };
    if raw.controller.half_duplex.is_some() {
        let hint = "leave out controller.admission or controller.half_duplex";
        let allowed = "no admission beside a half-duplex path, whose turns hold writes already";
        let given = admission.interval_us.value;
        return Err(SpecError::out("controller.admission.interval_us", given, allowed, hint));
    }
    let paces =
        [("fixed", (false, false)), ("with-reads", (true, false)), ("balanced", (false, true))];
    let pace = admission.pace.as_ref().map(|word| word.one_of("controller.admission.pace", &paces));
    let (fed_by_reads, balanced) = pace.transpose()?.unwrap_or_default();
    Ok(Some(AdmissionSpec {
        interval: admission.interval_us.micros(),
        together: admission.together.as_ref().map_or(0, |most| most.value),
        fed_by_reads,
        sample_pages: balanced.then_some(u64::from(buffer_pages) << geometry.page_shift >> 3),
    }))
}

/// What the cores and the write path cost at one throttle stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Host core, per command.
    pub host_core: Nanos,
    /// Flash core, per read command.
    pub read_command: Nanos,
    /// Flash core, per page (mapping unit) read.
    pub read_page: Nanos,
    /// Flash core, per write command.
    pub write_command: Nanos,
    /// Flash core, per page (mapping unit) written.
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
    /// The share of the cores' time that a slower clock adds, in parts of 2 to the power of
    /// [`SHARE_BITS`].
    pub added_by_clock: u64,
    /// How much the flash core's time for a command of the host varies: its coefficient of
    /// variation, in parts of 2 to the power of [`SHARE_BITS`].
    pub variation: u64,
}

/// Bits of a share of time.
pub const SHARE_BITS: u32 = 16;

impl Costs {
    /// Flash core, for `pages` copied that make so many extents.
    #[inline(always)]
    #[must_use]
    pub fn copy(&self, extents: u32, pages: u32) -> Nanos {
        let extents = self.copy_extent.times(u64::from(extents));
        extents.after(self.copy_page.times(u64::from(pages)))
    }
}

fn share(part: f64) -> u64 {
    (part * f64::from(1 << SHARE_BITS)).round() as u64
}

/// What they cost without throttling.
pub(super) fn costs(raw: &RawSpec) -> Costs {
    let (c, g) = (&raw.controller, raw.gc());
    Costs {
        host_core: c.host_core_us.micros(),
        read_command: c.read_command_us.micros(),
        read_page: c.read_page_us.micros(),
        write_command: c.write_command_us.micros(),
        write_page: c.write_page_us.micros(),
        copy_extent: g.copy_extent_us.micros(),
        copy_page: g.copy_page_us.micros(),
        gc_duty: g.duty_limit_us.micros(),
        journal: raw.map_journal.as_ref().map_or(Nanos::ZERO, |j| j.program_us.micros()),
        write_path_fs_per_byte: c.write_path_mb_per_s.fs_per_byte(),
        read_limit_fs_per_byte: c.read_path_mb_per_s.as_ref().map_or(0, Number::fs_per_byte),
        added_by_clock: 0,
        variation: c.service_cv.as_ref().map_or(0, |cv| share(cv.value)),
    }
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
        added_by_clock: share(1.0 - clock_percent / 100.0),
        variation: c.variation,
    }
}
