//! Garbage collection: victim policy, and parameters of the control loop that paces it
//! (`firmware/gc/pacing.rs`).

use std::sync::Arc;

use drivebay_units::Nanos;

use super::flash::{Geometry, NandTiming};
use super::key::{SpecError, Word};
use super::schema::RawSpec;
use crate::policy_plugin::{DriveView, PluginSpec, PolicyPlugin, STATE_WORDS_MAX};
use crate::victim_policies::{VICTIM_POLICIES, VictimPolicy};

/// Victim policy of garbage collection.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// Built-in policy and its parameter.
    Own(&'static VictimPolicy, u32),
    /// Choice of the plug-in: [`Spec::plugin`](super::Spec::plugin).
    Plugin,
}

/// The write frontiers of host and garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frontiers {
    /// A frontier for each.
    Separate,
    /// One frontier for both. Foreground collection continues until more than the reserve is free:
    /// it empties several victims in a row, whose copies alone fill most of a superblock; or as
    /// many victims as `gc.foreground_victims` specifies.
    Shared,
    /// One frontier for both, as in models in the literature (Desnoyers, SYSTOR 2012; Van Houdt,
    /// SIGMETRICS 2013): one victim at a time, and the host continues to write after its copies.
    Single,
}

fn frontiers(raw: &RawSpec) -> Result<Frontiers, SpecError> {
    let choices = [Frontiers::Separate, Frontiers::Shared, Frontiers::Single];
    let choices = ["separate", "shared", "single"].into_iter().zip(choices).collect::<Vec<_>>();
    raw.gc().frontiers.choose("gc.frontiers", &choices)
}

/// Parameters of the control loop; space in mapped pages, gains in 1/256.
#[derive(Clone, Copy, Debug)]
pub struct PacingSpec {
    /// Free space below which garbage collection runs.
    pub start_free: u64,
    /// Free space at which the gain is one.
    pub target_free: u64,
    /// Decrease of the gain per page above the target, and increase per page below it, in 2^-32 of
    /// 1/256. This avoids a division per write.
    above: u64,
    below: u64,
    /// Maximum number of pages of a command that the duty limit counts.
    pub duty_pages: u64,
    /// Pages that the host writes between two runs of garbage collection.
    pub every_pages: u64,
    /// Increase of the duty limit per page below the target, in 2^-32 of 1/256.
    duty_below: u64,
    /// Quantum of foreground collection where host and copies share a frontier: this number of
    /// victims, or fewer if they bring a superblock beyond the reserve.
    pub foreground_victims: u32,
}

/// Garbage collection in the background and in rounds.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundSpec {
    /// Time between two pages copied in the background.
    pub interval: Nanos,
    /// Pages per round.
    pub round_pages: u64,
}

/// Maximum pages of one command that the duty limit counts. Up to this number no product of the
/// pacing overflows.
pub const PAGES_MAX: u64 = 1 << 19;

/// A gain of one, in 1/256.
const GAIN_ONE: u64 = 256;

impl PacingSpec {
    /// Creates the parameters. `gain` is the gain at `start_free` and with nothing free;
    /// `duty_growth` is the factor of the duty limit with nothing free.
    pub fn new(
        start_free: u64,
        target_free: u64,
        gain: (f64, f64),
        duty_growth: f64,
        duty_pages: u64,
    ) -> PacingSpec {
        let slope = |by: f64, pages: u64| (by * 256.0 * 2f64.powi(32) / pages.max(1) as f64) as u64;
        PacingSpec {
            start_free,
            target_free,
            duty_pages,
            every_pages: 1,
            foreground_victims: u32::MAX,
            above: slope(1.0 - gain.0, start_free.saturating_sub(target_free)),
            below: slope(gain.1 - 1.0, target_free),
            duty_below: slope(duty_growth - 1.0, target_free),
        }
    }

    /// Returns the pacing of a drive with zones: collection runs only when the reserve is needed.
    pub fn in_foreground_only(self) -> PacingSpec {
        PacingSpec { start_free: 0, ..self }
    }

    /// Copies per page that the host writes, in 1/256 of the number that keeps free space constant.
    #[inline]
    pub fn gain_256(&self, free: u64) -> u64 {
        if free >= self.target_free {
            let above = free.min(self.start_free) - self.target_free;
            GAIN_ONE - ((above * self.above) >> 32)
        } else {
            GAIN_ONE + (((self.target_free - free) * self.below) >> 32)
        }
    }

    /// Duty limit at this free space, in 1/256 of its value at the target.
    #[inline]
    pub fn duty_256(&self, free: u64) -> u64 {
        GAIN_ONE + ((self.target_free.saturating_sub(free) * self.duty_below) >> 32)
    }
}

/// Garbage collection in idle time.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Time without commands at the flash core after which collection begins.
    pub after: Nanos,
    /// Free pages in each reclaim group at which collection ends.
    pub free: u64,
}

pub(super) fn check_idle(raw: &RawSpec, geometry: &Geometry) -> Result<Option<Idle>, SpecError> {
    let Some(idle) = &raw.gc().idle else {
        return Ok(None);
    };
    let spare = geometry.usable_pages() - u64::from(geometry.user_pages);
    let free = geometry.pages_of(idle.free_mb.value);
    if free > spare {
        let most = geometry.mb_of(spare);
        let hint = "a full drive never has more free space than it has spare flash";
        let allowed = format!("at most the spare flash, {most} MB");
        return Err(SpecError::out("gc.idle.free_mb", idle.free_mb.value, allowed, hint));
    }
    Ok(Some(Idle { after: idle.after_ms.millis(), free: free >> geometry.group_shift }))
}

/// True if the host's writes are split by the lifespan of the overwritten data, or by a plug-in.
pub(super) fn check_host_frontiers(
    raw: &RawSpec,
    shared: bool,
    by_plugin: bool,
) -> Result<bool, SpecError> {
    let field = "gc.host_frontiers";
    let choices = [("one", false), ("by-lifespan", true)];
    let word = raw.gc().host_frontiers.as_ref();
    let split = word.map(|word| word.choose(field, &choices)).transpose()?.unwrap_or(false);
    let cannot = shared || raw.slc_cache.is_some();
    if by_plugin && cannot {
        let hint = "leave out [slc_cache], set gc.frontiers to separate, or use a policy without place_write";
        let allowed =
            "a policy without place_write, because a shared frontier or an SLC cache mixes data";
        let given = raw.gc().plugin.as_ref().map_or("", |plugin| &plugin.value);
        return Err(SpecError::out("gc.plugin", format!("\"{given}\""), allowed, hint));
    }
    if split && cannot {
        let hint = "leave out [slc_cache], set gc.frontiers to separate, or leave this out";
        let allowed = "\"one\", because a shared frontier or an SLC cache mixes data";
        return Err(SpecError::out(field, "\"by-lifespan\"", allowed, hint));
    }
    Ok(split || by_plugin)
}

/// Returns the policy after writes, the policy in idle time if it differs, and true if host and
/// garbage collection share a frontier. A plug-in's choice applies to both.
pub(super) fn check_policy(
    raw: &RawSpec,
    by_plugin: bool,
) -> Result<(Policy, Option<Policy>, bool), SpecError> {
    let policy = own_policy(raw, "gc.victim_policy", &raw.gc().victim_policy)?;
    let idle = raw.gc().idle.as_ref().and_then(|idle| idle.policy.as_ref());
    let idle = idle.map(|word| own_policy(raw, "gc.idle.policy", word)).transpose()?;
    let shared = frontiers(raw)? != Frontiers::Separate;
    Ok(if by_plugin { (Policy::Plugin, None, shared) } else { (policy, idle, shared) })
}

/// Returns the built-in policy of this name with its parameter, which the profile must specify.
fn own_policy(raw: &RawSpec, field: &str, word: &Word) -> Result<Policy, SpecError> {
    let all: Vec<_> = VICTIM_POLICIES.iter().map(|policy| (policy.word, policy)).collect();
    let policy = word.choose(field, &all)?;
    let Some(key) = policy.parameter else { return Ok(Policy::Own(policy, 0)) };
    let gc = serde_json::to_value(raw.gc()).unwrap_or_default();
    let Some(value) = gc[key]["value"].as_u64() else {
        let (field, word) = (format!("gc.{key}"), policy.word);
        let hint = format!("set {field}, the parameter of {word}, or choose another policy");
        let allowed = format!("a whole number with the policy \"{word}\"");
        return Err(SpecError::out(&field, "missing", allowed, &hint));
    };
    Ok(Policy::Own(policy, value as u32))
}

/// Checks that the loaded plug-in is the one that the profile names, and that the drive meets its
/// requirements.
pub(super) fn check_plugin(
    raw: &RawSpec,
    geometry: &Geometry,
    nand: &NandTiming,
    pacing: &PacingSpec,
    code: Option<Arc<dyn PolicyPlugin>>,
) -> Result<Option<PluginSpec>, SpecError> {
    let Some(named) = &raw.gc().plugin else { return Ok(None) };
    let Some(code) = code.filter(|code| code.name() == named.value) else {
        let hint = "load it: --policy FILE, or drivebay.load_policy(\"FILE\")";
        let allowed = "a loaded policy plug-in";
        return Err(SpecError::out("gc.plugin", format!("\"{}\"", named.value), allowed, hint));
    };
    if code.decides().die_read && nand.independent_planes {
        let hint = "set nand.read_planes to together, or use a policy without schedule_read";
        let allowed = "a policy without schedule_read if the planes of a die read independently";
        return Err(SpecError::out("gc.plugin", format!("\"{}\"", named.value), allowed, hint));
    }
    let drive = DriveView {
        user_pages: u64::from(geometry.user_pages),
        start_free_pages: pacing.start_free,
        target_free_pages: pacing.target_free,
        superblock_pages: geometry.superblock_pages,
        superblocks: geometry.ordinary_superblocks(),
        reserve_superblocks: raw.gc().reserve_superblocks.value as u32,
        ..DriveView::default()
    };
    let words = code.state_bytes(&drive).div_ceil(8);
    if words > STATE_WORDS_MAX {
        let given = format!("\"{}\" with {} MiB of state", named.value, words >> 17);
        let hint = "keep less state per page, or test a smaller drive";
        let allowed = "a policy with at most 512 MiB of state";
        return Err(SpecError::out("gc.plugin", given, allowed, hint));
    }
    Ok(Some(PluginSpec { code, drive, state_words: words as usize }))
}

pub(super) fn check_pacing(
    raw: &RawSpec,
    geometry: &Geometry,
    page_types: u32,
) -> Result<PacingSpec, SpecError> {
    let c = raw.gc();
    let word_line = u64::from(page_types) << (geometry.page_shift + geometry.plane_shift);
    let choices = [("commands", 1), ("word-lines", word_line)];
    let every = c.runs_behind.as_ref().map(|word| word.choose("gc.runs_behind", &choices));
    let spare = geometry.usable_pages().saturating_sub(u64::from(geometry.user_pages));
    // Each reclaim group has its share of the whole.
    let groups = geometry.group_shift;
    let start_free = spare.saturating_sub(geometry.pages_of(c.threshold_mb.value)) >> groups;
    // If less than the target is spare, the loop only has the range below the target.
    let target_free = (geometry.pages_of(c.target_mb.value) >> groups).min(start_free);
    let pacing = PacingSpec::new(
        start_free,
        target_free,
        (c.gain_min.value, c.gain_max.value),
        c.duty_growth.value,
        c.duty_pages_max.as_ref().map_or(PAGES_MAX, |most| most.value),
    );
    let foreground_victims = match (frontiers(raw)?, &c.foreground_victims) {
        (Frontiers::Separate, Some(victims)) => {
            let allowed = "left out with separate frontiers";
            let hint = "set gc.frontiers to shared, or leave this out";
            return Err(SpecError::out("gc.foreground_victims", victims.value, allowed, hint));
        }
        // With several reclaim groups, each keeps its reserve.
        _ if groups > 0 => u32::MAX,
        (_, Some(victims)) => victims.value as u32,
        (Frontiers::Single, None) => 1,
        (_, None) => u32::MAX,
    };
    Ok(PacingSpec { every_pages: every.transpose()?.unwrap_or(1), foreground_victims, ..pacing })
}

/// Derives the background copies. They require collection per word line and samples of the write
/// buffer.
pub(super) fn check_background(
    raw: &RawSpec,
    geometry: &Geometry,
    pacing: &PacingSpec,
    samples_buffer: bool,
) -> Result<Option<BackgroundSpec>, SpecError> {
    let Some(rate) = &raw.gc().background_pages_per_s else { return Ok(None) };
    if pacing.every_pages == 1 || !samples_buffer {
        let allowed = "left out unless gc.runs_behind is \"word-lines\" and controller.admission.pace \"balanced\"";
        let hint = "leave this out, or set both";
        return Err(SpecError::out("gc.background_pages_per_s", rate.value, allowed, hint));
    }
    Ok(Some(BackgroundSpec {
        interval: Nanos((1e9 / rate.value).round() as u64),
        round_pages: pacing.every_pages * u64::from(geometry.dies()),
    }))
}

#[cfg(test)]
#[path = "../../tests/unit/profile_gc.rs"]
mod tests;
