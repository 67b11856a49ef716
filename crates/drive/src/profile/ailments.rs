//! Ailments of a drive: outages, wear at the beginning, and the end of its life. All are optional.
//!
//! Sources. The health log's fields: NVM Express base specification, SMART / Health Information.
//! Stalls of firmware and slow dies in the field: Gunawi et al., "Fail-Slow at Scale", FAST 2018.
//! `ailments/*.toml` defines each named ailment, with sources.
//!
//! Outages depend only on the drive's clock, without state or chance. A command that meets an
//! outage waits for its end; the drive's background work continues. The history of a worn drive is
//! made up (`guess:`) from its wear, for the health log only: its data is as fresh as that of a new
//! drive.

use drivebay_units::Nanos;

use crate::persist::persist;

use super::key::SpecError;
use super::power::Rated;
use super::schema::{RawOutage, RawSpec};

/// Flash programmed per byte of the host in the drive's earlier life. guess: WAF of mixed loads
/// (`docs/concepts`).
const EARLIER_WAF: f64 = 2.0;
/// Time in which the rated cycles were used. guess: the warranty of most drives, switched on
/// throughout.
const RATED_YEARS: f64 = 5.0;
const YEAR_S: f64 = 365.25 * 86_400.0;
/// Power cycles per year. guess: monthly maintenance.
const YEARLY_POWER_CYCLES: f64 = 12.0;

/// Periodic outage of a part.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    every: Nanos,
    len: Nanos,
}

impl Outage {
    /// Time at which work that arrives at `at` continues: after the outage during which it arrives.
    #[inline]
    #[must_use]
    pub fn pass(&self, at: Nanos) -> Nanos {
        let begun = self.begun(at) * self.every.0;
        if begun > 0 { at.max(Nanos(begun).after(self.len)) } else { at }
    }

    /// Number of outages that have begun by `at`.
    #[must_use]
    pub fn begun(&self, at: Nanos) -> u64 {
        at.0 / self.every.0
    }
}

/// Both kinds of outages in one type, so that a command needs only one check whether the drive has
/// any.
#[derive(Clone, Copy, Debug)]
pub struct Outages {
    /// Stalls of the firmware.
    pub stall: Option<Outage>,
    /// Outages of the link.
    pub link: Option<Outage>,
}

/// Counters of the drive's life before the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lived {
    /// Bytes written by the host.
    pub written_bytes: u64,
    /// Bytes read by the host.
    pub read_bytes: u64,
    /// Number of read commands.
    pub reads: u64,
    /// Number of write commands.
    pub writes: u64,
    /// Number of 4 KiB pages that the host wrote.
    pub host_4k: u64,
    /// Number of 4 KiB pages programmed.
    pub programmed_4k: u64,
    /// Bytes read over the flash channels.
    pub flash_read_bytes: u64,
    /// Sum of erases of superblocks; erases after use with one bit per cell are weighted by their
    /// wear.
    pub erases: u64,
    /// Time with a command outstanding.
    pub busy: Nanos,
    /// Time switched on.
    pub power_on: Nanos,
    /// Number of power cycles.
    pub power_cycles: u64,
}

persist!(Lived: written_bytes, read_bytes, reads, writes, host_4k, programmed_4k, flash_read_bytes, erases, busy, power_on,
    power_cycles);

/// History of a worn drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct History {
    /// Erases per superblock.
    pub cycles: u32,
    /// Counters of the earlier life. Reads equal writes; commands and busy time are unknown.
    pub lived: Lived,
}

/// End of life at which the firmware refuses writes.
#[derive(Clone, Copy, Debug)]
pub struct EndOfLife {
    /// Available spare at the beginning, in percent.
    pub spare_percent: u8,
    /// Number of 4 KiB units that the host can write.
    pub writes_4k: u64,
}

impl EndOfLife {
    /// Available spare after the host has written `written_4k`, in percent, rounded up.
    #[must_use]
    pub fn spare_percent(&self, written_4k: u64) -> u8 {
        let left = self.writes_4k.saturating_sub(written_4k);
        (u64::from(self.spare_percent) * left).div_ceil(self.writes_4k.max(1)) as u8
    }
}

pub(super) fn check_outages(raw: &RawSpec) -> Result<Option<Outages>, SpecError> {
    let stall = check_outage("controller.stall.for_ms", &raw.controller.stall)?;
    let link = check_outage("link.outage.for_ms", &raw.link.outage)?;
    Ok((stall.is_some() || link.is_some()).then_some(Outages { stall, link }))
}

fn check_outage(field: &str, raw: &Option<RawOutage>) -> Result<Option<Outage>, SpecError> {
    let Some(raw) = raw else { return Ok(None) };
    let (every, len) = (Nanos((raw.every_s.value * 1e9).round() as u64), raw.for_ms.millis());
    if len >= every {
        let allowed = format!("less than every_s = {}", raw.every_s.value);
        let hint = "shorten the outage, so that commands are served between outages";
        return Err(SpecError::out(field, raw.for_ms.value, allowed, hint));
    }
    Ok(Some(Outage { every, len }))
}

pub(super) fn check_history(
    raw: &RawSpec,
    rated: &Rated,
    flash_bytes: u64,
    good_superblocks: u64,
) -> Result<History, SpecError> {
    let Some(worn) = raw.health.as_ref().and_then(|health| health.worn_percent.as_ref()) else {
        return Ok(History::default());
    };
    let Some(cycles) = rated.cycles else {
        let allowed = "left out without health.rated_cycles";
        let hint = "set health.rated_cycles, of which worn_percent is a share";
        return Err(SpecError::out("health.worn_percent", worn.value, allowed, hint));
    };
    let share = worn.value / 100.0;
    // The log reports whole percent, rounded down; rounding up here makes it report at least the
    // requested wear.
    let cycles = (cycles * share).ceil().min(f64::from(u32::MAX >> 1));
    let years = RATED_YEARS * share;
    let programmed = cycles * flash_bytes as f64;
    let host_bytes = (programmed / EARLIER_WAF) as u64;
    let lived = Lived {
        written_bytes: host_bytes,
        read_bytes: host_bytes,
        host_4k: host_bytes / 4096,
        programmed_4k: (programmed / 4096.0) as u64,
        // Data that the host read, and data that was copied.
        flash_read_bytes: programmed as u64,
        erases: cycles as u64 * good_superblocks.max(1),
        power_on: Nanos((years * YEAR_S) as u64 * 1_000_000_000),
        power_cycles: (years * YEARLY_POWER_CYCLES) as u64,
        ..Lived::default()
    };
    Ok(History { cycles: cycles as u32, lived })
}

pub(super) fn end_of_life(raw: &RawSpec) -> Option<EndOfLife> {
    let end = raw.health.as_ref()?.end_of_life.as_ref()?;
    let writes_4k = (end.writes_mb.value * 1e6 / 4096.0).round() as u64;
    Some(EndOfLife { spare_percent: end.spare_percent.value as u8, writes_4k })
}
