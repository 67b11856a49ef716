//! Sleep: the states of drive and link after a time without work, the cost of waking, and the saved
//! energy.
//!
//! The states are evaluated when the next command comes: there is no event, and no cost while the
//! drive is busy. The idle time begins with the last completion; on each ladder, the deepest state
//! whose time has come applies. A command that meets a state being entered waits for its entry,
//! then for its exit. The link must be awake before the doorbell reaches the drive, so the two
//! exits follow one another. Left out: work after the last completion (programs from the write
//! buffer, garbage collection) does not keep the drive awake, so sleep begins a few milliseconds
//! early after writes.

use drivebay_units::Nanos;

use crate::profile::{Power, Sleep};

/// Delay of the command that wakes the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// Time to leave the link's state.
    pub link: Nanos,
    /// Time to leave the drive's state.
    pub device: Nanos,
}

impl Power {
    /// Delay of a command that comes after this idle time.
    pub fn wake(&self, idle: Nanos) -> Wake {
        Wake { link: exit(&self.link, idle), device: exit(&self.device, idle) }
    }

    /// Energy without work between two points of an idle time, in nanojoules.
    pub fn idle_energy_nj(&self, from: Nanos, to: Nanos) -> u64 {
        // Microwatts times nanoseconds are femtojoules: an hour of 10 W needs more than 64 bits.
        let device = energy_fj(&self.device, self.awake_uw, from, to);
        let link = energy_fj(&self.link, self.link_awake_uw, from, to);
        ((device + link) / 1_000_000) as u64
    }

    /// Part of an idle time that was spent asleep or falling asleep; `None` if it was too short.
    pub fn asleep(&self, idle: Nanos) -> Option<Nanos> {
        let first = |ladder: &[Sleep]| ladder.first().map_or(Nanos(u64::MAX), |state| state.after);
        let begin = first(&self.device).min(first(&self.link));
        (begin <= idle).then(|| idle.since(begin))
    }

    /// Idle time after which both ladders are in their deepest state.
    pub fn settled_after(&self) -> Nanos {
        let last = |ladder: &[Sleep]| ladder.last().map_or(Nanos::ZERO, |s| s.after.after(s.entry));
        last(&self.device).max(last(&self.link))
    }
}

fn exit(ladder: &[Sleep], idle: Nanos) -> Nanos {
    match ladder.iter().rev().find(|state| state.after <= idle) {
        Some(state) => state.after.after(state.entry).since_or_zero(idle).after(state.exit),
        None => Nanos::ZERO,
    }
}

fn energy_fj(ladder: &[Sleep], awake_uw: u64, from: Nanos, to: Nanos) -> u128 {
    let mut power_uw = awake_uw;
    let mut begin = Nanos::ZERO;
    let mut sum = 0;
    let mut add = |power_uw: u64, begin: Nanos, end: Nanos| {
        let len = end.min(to).since_or_zero(begin.max(from));
        sum += u128::from(power_uw) * u128::from(len.0);
    };
    for state in ladder {
        let entered = state.after.after(state.entry);
        add(power_uw, begin, entered);
        (power_uw, begin) = (state.power_uw, entered);
    }
    add(power_uw, begin, to);
    sum
}

#[cfg(test)]
#[path = "../../tests/unit/physics_power.rs"]
mod tests;
