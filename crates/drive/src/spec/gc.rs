//! Garbage collection: victim choice and pacing.

use std::sync::Arc;

use drivebay_units::Nanos;

use super::checker::{Checker, SpecError, nanos, pages_of_mb};
use super::constants::PAGE_BYTES;
use super::flash::Geometry;
use crate::raw::RawSpec;
use crate::victim_policy::VictimPolicy;

/// Victim choice.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Fewest valid pages.
    Greedy,
    /// Oldest first.
    Fifo,
    /// Fewest valid pages among that many drawn at random.
    Choices(u32),
    /// Largest (1 - u) x age / (1 + u): Rosenblum and Ousterhout, 1992.
    CostBenefit,
    /// A rule from outside: [`Spec::with_policy`](super::Spec::with_policy).
    Custom(Arc<dyn VictimPolicy>),
}

/// Collection thresholds, in 4 KiB pages of free space.
#[derive(Clone, Copy, Debug)]
pub struct PacingSpec {
    /// Collection starts below this.
    pub start_free: u64,
    /// The slot has its full length at and below this.
    pub full_free: u64,
    /// The slot grows beyond its full length below this.
    pub low_free: u64,
    /// The slot has grown to `low_factor_256` here.
    pub critical_free: u64,
    /// Ppa length there, in 1/256 of the full slot.
    pub low_factor_256: u64,
    /// Page credit of a full slot, in 1/256 pages.
    pub quantum_pages_256: u64,
    /// Whether reads are followed by a slot.
    pub after_reads: bool,
}

/// Bursts of collection between the slots.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Commands with a full slot behind them, from one to the next, in 1/256.
    pub every_256: u64,
    /// Length, in full slots.
    pub quanta: u64,
}

/// How wear is spread.
#[derive(Clone, Copy, Debug, Default)]
pub struct WearLeveling {
    /// The free superblock with the fewest erases is used next.
    pub dynamic: bool,
    /// Largest difference of erases between superblocks that is left alone; 0 for any.
    pub spread_max: u32,
}

pub(super) fn check_wear_leveling(raw: &RawSpec) -> Result<WearLeveling, SpecError> {
    let Some(w) = &raw.wear_leveling else {
        return Ok(WearLeveling::default());
    };
    Checker::source("wear_leveling.dynamic", &w.dynamic)?;
    let spread = Checker::integer("wear_leveling.spread_max", &w.spread_max, 0, 1 << 20)?;
    Ok(WearLeveling { dynamic: w.dynamic.value, spread_max: spread as u32 })
}

/// Collection in idle time.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Begins when the flash core has had no command for so long.
    pub after: Nanos,
    /// Ends when so many slots are free.
    pub free: u64,
}

pub(super) fn check_idle(raw: &RawSpec, geometry: &Geometry) -> Result<Option<Idle>, SpecError> {
    let Some(idle) = &raw.gc.idle else {
        return Ok(None);
    };
    let after = Checker::float("gc.idle.after_ms", &idle.after_ms, 0.0, 1e6)?;
    let free_mb = Checker::float("gc.idle.free_mb", &idle.free_mb, 0.0, 1e9)?;
    let spare = geometry.usable_slots() - u64::from(geometry.user_pages);
    if pages_of_mb(free_mb) > spare {
        let most = spare * PAGE_BYTES / 1_000_000;
        let hint = "a full drive never has more free space than it has spare flash";
        let allowed = format!("at most the spare flash, {most} MB");
        return Err(Checker::out("gc.idle.free_mb", free_mb, allowed, hint));
    }
    Ok(Some(Idle { after: nanos(after * 1000.0), free: pages_of_mb(free_mb) }))
}

pub(super) fn check_burst(raw: &RawSpec) -> Result<Option<Burst>, SpecError> {
    let Some(burst) = &raw.gc.burst else {
        return Ok(None);
    };
    let every =
        Checker::integer("gc.burst.every_commands", &burst.every_commands, 1, 1_000_000_000)?;
    let ms = Checker::float("gc.burst.length_ms", &burst.length_ms, 0.0, 1e5)?;
    let quantum_us = raw.gc.quantum_us.value.max(0.001);
    Ok(Some(Burst { every_256: every << 8, quanta: (ms * 1000.0 / quantum_us).round() as u64 }))
}

/// Whether what the host writes is split by the lifespan of what it takes the place of.
pub(super) fn check_host_frontiers(raw: &RawSpec, shared: bool) -> Result<bool, SpecError> {
    let Some(word) = &raw.gc.host_frontiers else {
        return Ok(false);
    };
    let field = "gc.host_frontiers";
    let split = Checker::one_of(field, word, &[("one", false), ("by-lifespan", true)])?;
    if split && (shared || raw.slc_cache.is_some()) {
        let hint = "leave out [slc_cache], set gc.frontiers to separate, or leave this out";
        let allowed =
            "\"one\" beside a shared frontier or an SLC cache, which do not keep data apart";
        return Err(Checker::out(field, "\"by-lifespan\"", allowed, hint));
    }
    Ok(split)
}

pub(super) fn check_policy(raw: &RawSpec) -> Result<(Policy, bool), SpecError> {
    let c = &raw.gc;
    let choices = Checker::integer("gc.choices", &c.choices, 1, 1024)? as u32;
    let policy = Checker::one_of(
        "gc.victim_policy",
        &c.victim_policy,
        &[
            ("greedy", Policy::Greedy),
            ("fifo", Policy::Fifo),
            ("d-choices", Policy::Choices(choices)),
            ("cost-benefit", Policy::CostBenefit),
        ],
    )?;
    let shared =
        Checker::one_of("gc.frontiers", &c.frontiers, &[("separate", false), ("shared", true)])?;
    Ok((policy, shared))
}

pub(super) fn check_pacing(raw: &RawSpec, geometry: &Geometry) -> Result<PacingSpec, SpecError> {
    let c = &raw.gc;
    let spare = geometry.usable_slots() - u64::from(geometry.user_pages);
    let pool = pages_of_mb(Checker::float("gc.threshold_mb", &c.threshold_mb, 0.0, 1e9)?);
    let ramp = pages_of_mb(Checker::float("gc.ramp_mb", &c.ramp_mb, 0.0, 1e9)?);
    let low_free = pages_of_mb(Checker::float("gc.low_mb", &c.low_mb, 0.0, 1e9)?);
    let critical_free = pages_of_mb(Checker::float("gc.critical_mb", &c.critical_mb, 0.0, 1e9)?);
    if critical_free > low_free {
        let hint = "the slot grows from low_mb down to critical_mb";
        return Err(Checker::out(
            "gc.critical_mb",
            c.critical_mb.value,
            format!("at most gc.low_mb = {}", c.low_mb.value),
            hint,
        ));
    }
    Checker::source("gc.quantum_after_reads", &c.quantum_after_reads)?;
    let start_free = spare.saturating_sub(pool);
    let quantum_pages = Checker::float("gc.quantum_pages", &c.quantum_pages, 0.0, 1e4)?;
    let low_factor = Checker::float("gc.low_factor", &c.low_factor, 1.0, 1e3)?;
    Ok(PacingSpec {
        start_free,
        full_free: start_free.saturating_sub(ramp),
        low_free,
        critical_free,
        low_factor_256: (low_factor * 256.0).round() as u64,
        quantum_pages_256: (quantum_pages * 256.0).round() as u64,
        after_reads: c.quantum_after_reads.value,
    })
}
