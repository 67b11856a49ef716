//! Garbage collection: victim choice, and the numbers of the control loop that paces it
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
    /// One of the drive's own, and its parameter.
    Own(&'static VictimPolicy, u32),
    /// The plug-in's choice: [`Spec::plugin`](super::Spec::plugin).
    Plugin,
}

/// The write frontiers of host and garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frontiers {
    /// One for each.
    Separate,
    /// One for both. Foreground collection goes on until more than the reserve is free: several
    /// victims in a row, whose copies fill most of a superblock by themselves; or for as many as
    /// `gc.foreground_victims` says.
    Shared,
    /// One for both, as the literature's models have it (Desnoyers, SYSTOR 2012; Van Houdt,
    /// SIGMETRICS 2013): one victim at a time, and the host goes on behind its copies.
    Single,
}

fn frontiers(raw: &RawSpec) -> Result<Frontiers, SpecError> {
    let words = [Frontiers::Separate, Frontiers::Shared, Frontiers::Single];
    let words = ["separate", "shared", "single"].into_iter().zip(words).collect::<Vec<_>>();
    raw.gc().frontiers.one_of("gc.frontiers", &words)
}

/// The control loop's numbers; space in mapped pages, gains in 1/256.
#[derive(Clone, Copy, Debug)]
pub struct PacingSpec {
    /// Garbage collection runs below this much free space.
    pub start_free: u64,
    /// Free space at which the gain is one.
    pub target_free: u64,
    /// Gain lost per page above the target, won per page below it, in 2^-32 of 1/256: no division
    /// per write.
    above: u64,
    below: u64,
    /// Most pages of a command that the duty limit counts.
    pub duty_pages: u64,
    /// It runs each time that the host has written so many pages.
    pub every_pages: u64,
    /// What the duty limit grows by per page below the target, likewise.
    duty_below: u64,
    /// The quantum of foreground collection where host and copies share a frontier: so many
    /// victims, or what brings a superblock beyond the reserve, if that is less.
    pub foreground_victims: u32,
}

/// Garbage collection in the background and in rounds.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundSpec {
    /// From one page copied in the background to the next.
    pub interval: Nanos,
    /// Pages of a round.
    pub round_pages: u64,
}

/// Most pages that one command answers for: with so many no product of the pacing overflows.
pub const PAGES_MAX: u64 = 1 << 19;

/// Gain of one.
const ONE: u64 = 256;

impl PacingSpec {
    /// `gain`: at `start_free` and with nothing free, `duty_growth`: of the duty limit with nothing
    /// free.
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

    /// Pacing of a drive with zones: what they leave is collected only where the reserve is needed.
    pub fn in_foreground_only(self) -> PacingSpec {
        PacingSpec { start_free: 0, ..self }
    }

    /// Copies per page that the host writes, as a multiple of what keeps free space as it is, in
    /// 1/256.
    #[inline]
    pub fn gain_256(&self, free: u64) -> u64 {
        if free >= self.target_free {
            let above = free.min(self.start_free) - self.target_free;
            ONE - ((above * self.above) >> 32)
        } else {
            ONE + (((self.target_free - free) * self.below) >> 32)
        }
    }

    /// The duty limit at this much free space, in 1/256 of what it is at the target.
    #[inline]
    pub fn duty_256(&self, free: u64) -> u64 {
        ONE + ((self.target_free.saturating_sub(free) * self.duty_below) >> 32)
    }
}

/// Garbage collection in idle time.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Begins when the flash core has had no command for so long.
    pub after: Nanos,
    /// Ends when so many pages are free, in each reclaim group.
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

/// Whether what the host writes is split by the lifespan of what it takes the place of, or by a
/// plug-in.
pub(super) fn check_host_frontiers(
    raw: &RawSpec,
    shared: bool,
    by_plugin: bool,
) -> Result<bool, SpecError> {
    let field = "gc.host_frontiers";
    let words = [("one", false), ("by-lifespan", true)];
    let word = raw.gc().host_frontiers.as_ref();
    let split = word.map(|word| word.one_of(field, &words)).transpose()?.unwrap_or(false);
    let cannot = shared || raw.slc_cache.is_some();
    if by_plugin && cannot {
        let hint = "leave out [slc_cache], set gc.frontiers to separate, or use a policy without place_write";
        let allowed = "a policy without place_write beside one frontier for both or an SLC cache, which do not keep data apart";
        let given = raw.gc().plugin.as_ref().map_or("", |plugin| &plugin.value);
        return Err(SpecError::out("gc.plugin", format!("\"{given}\""), allowed, hint));
    }
    if split && cannot {
        let hint = "leave out [slc_cache], set gc.frontiers to separate, or leave this out";
        let allowed =
            "\"one\" beside one frontier for both or an SLC cache, which do not keep data apart";
        return Err(SpecError::out(field, "\"by-lifespan\"", allowed, hint));
    }
    Ok(split || by_plugin)
}

/// The policies behind writes and, if it has one of its own, in idle time, and whether host and
/// garbage collection share a frontier. A plug-in's choice holds for both.
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

/// The drive's policy of this name, with its parameter, which the profile must then have.
fn own_policy(raw: &RawSpec, field: &str, word: &Word) -> Result<Policy, SpecError> {
    let all: Vec<_> = VICTIM_POLICIES.iter().map(|policy| (policy.word, policy)).collect();
    let policy = word.one_of(field, &all)?;
    let Some(key) = policy.parameter else { return Ok(Policy::Own(policy, 0)) };
    let gc = serde_json::to_value(raw.gc()).unwrap_or_default();
    let Some(value) = gc[key]["value"].as_u64() else {
        let (field, word) = (format!("gc.{key}"), policy.word);
        let hint = format!("set {field}, the parameter of {word}, or choose another policy");
        let allowed = format!("a whole number where the policy is \"{word}\"");
        return Err(SpecError::out(&field, "to leave it out", allowed, &hint));
    };
    Ok(Policy::Own(policy, value as u32))
}

/// The plug-in that the profile names, which must be the one at hand, and what it needs on this
/// drive.
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
        let allowed = "a policy plug-in that is loaded";
        return Err(SpecError::out("gc.plugin", format!("\"{}\"", named.value), allowed, hint));
    };
    if code.decides().die_read && nand.independent_planes {
        let hint = "set nand.read_planes to together, or use a policy without schedule_read";
        let allowed = "a policy without schedule_read where the planes of a die read by themselves";
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
        let hint = "keep less per page, or test a smaller drive";
        return Err(SpecError::out("gc.plugin", given, "one with at most 512 MiB", hint));
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
    let words = [("commands", 1), ("word-lines", word_line)];
    let every = c.runs_behind.as_ref().map(|word| word.one_of("gc.runs_behind", &words));
    let spare = geometry.usable_pages().saturating_sub(u64::from(geometry.user_pages));
    // Each reclaim group has its share of all.
    let groups = geometry.group_shift;
    let start_free = spare.saturating_sub(geometry.pages_of(c.threshold_mb.value)) >> groups;
    // With less than the target to begin with, the loop only knows what is below it.
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
            let hint = "set gc.frontiers to shared, where copies make room for the host";
            return Err(SpecError::out("gc.foreground_victims", victims.value, allowed, hint));
        }
        // Several reclaim groups: each keeps its reserve.
        _ if groups > 0 => u32::MAX,
        (_, Some(victims)) => victims.value as u32,
        (Frontiers::Single, None) => 1,
        (_, None) => u32::MAX,
    };
    Ok(PacingSpec { every_pages: every.transpose()?.unwrap_or(1), foreground_victims, ..pacing })
}

/// Only where it runs behind word lines, and the write buffer is looked at.
pub(super) fn check_background(
    raw: &RawSpec,
    geometry: &Geometry,
    pacing: &PacingSpec,
    samples_buffer: bool,
) -> Result<Option<BackgroundSpec>, SpecError> {
    let Some(rate) = &raw.gc().background_pages_per_s else { return Ok(None) };
    if pacing.every_pages == 1 || !samples_buffer {
        let allowed = "left out unless gc.runs_behind is \"word-lines\" and controller.admission.pace \"balanced\"";
        let hint = "leave this out, or set those two";
        return Err(SpecError::out("gc.background_pages_per_s", rate.value, allowed, hint));
    }
    Ok(Some(BackgroundSpec {
        interval: Nanos((1e9 / rate.value).round() as u64),
        round_pages: pacing.every_pages * u64::from(geometry.dies()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_and_duty_limit_grow_as_space_shrinks() {
        let pacing = PacingSpec::new(1000, 200, (0.5, 3.0), 20.0, 1);
        // Slopes are cut off: a gain is right to 1/256.
        let near = |got: u64, expected: u64| assert!(got.abs_diff(expected) <= 1, "{got}");
        for (free, gain) in [(2000, 128), (1000, 128), (600, 192), (200, 256), (100, 512), (0, 768)]
        {
            near(pacing.gain_256(free), gain);
        }
        for (free, limit) in [(1000, 256), (200, 256), (100, 2688), (0, 5120)] {
            near(pacing.duty_256(free), limit);
        }
    }
}
