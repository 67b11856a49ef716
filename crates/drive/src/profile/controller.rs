//! Costs of the controller's cores and of its write path.

use drivebay_units::Nanos;

use super::flash::Geometry;
use super::key::{Number, SpecError};
use super::schema::{RawHalfDuplex, RawSpec};

/// Sharing of a half-duplex controller's data path between the directions.
#[derive(Clone, Copy, Debug)]
pub struct HalfDuplexSpec {
    /// Time from the end of the last transfer in one direction to the first transfer in the other.
    pub turnaround: Nanos,
    /// Commands after which a batch ends if the other direction waits.
    pub batch_commands: u32,
    /// Maximum time that a batch continues while the other direction waits.
    pub batch_wait: Nanos,
}

pub(super) fn half_duplex(raw: &RawHalfDuplex) -> HalfDuplexSpec {
    HalfDuplexSpec {
        turnaround: raw.turnaround_us.micros(),
        batch_commands: raw.batch_commands.value as u32,
        batch_wait: raw.batch_wait_us.micros(),
    }
}

/// Admission of writes.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionSpec {
    /// Minimum mean time between two admitted writes while garbage collection runs.
    pub interval: Nanos,
    /// Number of writes that may be admitted together, in addition to one per interval.
    pub together: u64,
    /// True if reads also feed the pacer: a read that is served while a write is held admits this
    /// write.
    pub fed_by_reads: bool,
    /// Pages that the host writes between two samples of the write buffer, an eighth of its size. A
    /// control loop on these samples sets the interval. `None` for a fixed interval.
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
        let allowed = "left out with controller.half_duplex, whose turns already hold writes";
        let given = admission.interval_us.value;
        return Err(SpecError::out("controller.admission.interval_us", given, allowed, hint));
    }
    let paces =
        [("fixed", (false, false)), ("with-reads", (true, false)), ("balanced", (false, true))];
    let pace = admission.pace.as_ref().map(|word| word.choose("controller.admission.pace", &paces));
    let (fed_by_reads, balanced) = pace.transpose()?.unwrap_or_default();
    Ok(Some(AdmissionSpec {
        interval: admission.interval_us.micros(),
        together: admission.together.as_ref().map_or(0, |most| most.value),
        fed_by_reads,
        sample_pages: balanced.then_some(u64::from(buffer_pages) << geometry.page_shift >> 3),
    }))
}

/// Costs of the cores and of the write path at one throttle stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Time of the host core per command.
    pub host_core: Nanos,
    /// Time of the flash core per read command.
    pub read_command: Nanos,
    /// Time of the flash core per page (mapping unit) read.
    pub read_page: Nanos,
    /// Time of the flash core per write command.
    pub write_command: Nanos,
    /// Time of the flash core per page (mapping unit) written.
    pub write_page: Nanos,
    /// Time of the flash core per copied extent.
    pub copy_extent: Nanos,
    /// Time of the flash core per copied page.
    pub copy_page: Nanos,
    /// Maximum time of the flash core for garbage collection per page that the host writes.
    pub gc_duty: Nanos,
    /// Time of the flash core per program of the map's journal.
    pub journal: Nanos,
    /// Rate of the write path, in femtoseconds per byte.
    pub write_path_fs_per_byte: u64,
    /// Minimum time of reads, in femtoseconds per byte; 0 for no limit.
    pub read_limit_fs_per_byte: u64,
    /// Share of the cores' time that a slower clock adds, in 2^-[`SHARE_BITS`].
    pub added_by_clock: u64,
    /// Coefficient of variation of the flash core's time for a host command, in 2^-[`SHARE_BITS`].
    pub variation: u64,
}

/// Bits of a share of time.
pub const SHARE_BITS: u32 = 16;

impl Costs {
    /// Time of the flash core to copy `pages` that form this number of extents.
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

/// Costs without throttling.
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

/// Costs of all cores at a slower clock. The write path is hardware and keeps its rate.
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
        added_by_clock: share(1.0 - clock_percent / 100.0),
        ..c
    }
}
