//! What ails a drive: outages, the wear that it begins with, the end of its life. All optional.
//!
//! Sources. The health log's fields: NVM Express base specification, SMART / Health Information.
//! Stalls of firmware and slow dies in the field: Gunawi et al., "Fail-Slow at Scale", FAST 2018.
//! What each named ailment is made of, with sources, is in `ailments/*.toml`.
//!
//! Outages follow from the drive's clock alone: they take no state, and no chance. A command that
//! meets one waits for its end; what the drive does for itself goes on. What a worn drive has been
//! through before is made up (`guess:`) from its wear, for the health log only: its data is as
//! fresh as a new drive's.

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
/// Power cycles of a year. guess: monthly maintenance.
const YEARLY_POWER_CYCLES: f64 = 12.0;

/// Times in which a part does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    every: Nanos,
    len: Nanos,
}

impl Outage {
    /// When what comes at `at` goes on: after the outage that it falls into.
    #[inline]
    #[must_use]
    pub fn pass(&self, at: Nanos) -> Nanos {
        let begun = self.begun(at) * self.every.0;
        if begun > 0 { at.max(Nanos(begun).after(self.len)) } else { at }
    }

    /// How many have begun by `at`.
    #[must_use]
    pub fn begun(&self, at: Nanos) -> u64 {
        at.0 / self.every.0
    }
}

/// Both kinds; a command asks once whether the drive has any.
#[derive(Clone, Copy, Debug)]
pub struct Outages {
    /// The firmware stalls.
    pub stall: Option<Outage>,
    /// The link is down.
    pub link: Option<Outage>,
}

/// What a drive has behind it that was not simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lived {
    /// Written by the host, bytes.
    pub written_bytes: u64,
    /// Read by the host, bytes.
    pub read_bytes: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// 4 KiB pages that the host wrote.
    pub host_4k: u64,
    /// 4 KiB pages programmed.
    pub programmed_4k: u64,
    /// Read over the flash channels, bytes.
    pub flash_read_bytes: u64,
    /// Erases of superblocks together, those after use with one bit per cell by what they wear.
    pub erases: u64,
    /// With a command outstanding.
    pub busy: Nanos,
    /// Switched on.
    pub power_on: Nanos,
    /// How often it was switched on.
    pub power_cycles: u64,
}

persist!(Lived: written_bytes, read_bytes, reads, writes, host_4k, programmed_4k, flash_read_bytes, erases, busy, power_on,
    power_cycles);

/// What a worn drive has behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct History {
    /// Erases of each superblock.
    pub cycles: u32,
    /// What was counted: as much read as written, and commands and busy time unknown.
    pub lived: Lived,
}

/// When the firmware stops writing.
#[derive(Clone, Copy, Debug)]
pub struct EndOfLife {
    /// Available spare at first, percent.
    pub spare_percent: u8,
    /// 4 KiB that the host can write.
    pub writes_4k: u64,
}

impl EndOfLife {
    /// Available spare when the host has written so much, percent, rounded up.
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
        let hint = "something must get through in between";
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
        let hint = "give health.rated_cycles, of which it is a share";
        return Err(SpecError::out("health.worn_percent", worn.value, allowed, hint));
    };
    let share = worn.value / 100.0;
    // What is used is told in whole percent, rounded down: no less than was asked for.
    let cycles = (cycles * share).ceil().min(f64::from(u32::MAX >> 1));
    let years = RATED_YEARS * share;
    let programmed = cycles * flash_bytes as f64;
    let host_bytes = (programmed / EARLIER_WAF) as u64;
    let lived = Lived {
        written_bytes: host_bytes,
        read_bytes: host_bytes,
        host_4k: host_bytes / 4096,
        programmed_4k: (programmed / 4096.0) as u64,
        // What the host read, and what was copied.
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
