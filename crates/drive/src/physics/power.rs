//! Sleep: how deep drive and link are after a time without work, what waking costs, what it saves.
//!
//! Evaluated when the next command comes: no event, no cost while the drive is busy. The idle time
//! begins with the last completion; each ladder's deepest state whose time has come is the one that
//! holds. A command that meets a state being entered waits for its entry, then for its exit. The
//! link must be awake before the doorbell reaches the drive, so the two exits follow one another.
//! Left out: work behind the last completion (programs from the write buffer, garbage collection)
//! does not keep the drive awake, so sleep begins a few milliseconds early after writes.

use drivebay_units::Nanos;

use crate::profile::{Power, Sleep};

/// What a wake-up delays the command that causes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// Leaving the link's state.
    pub link: Nanos,
    /// Leaving the drive's state.
    pub device: Nanos,
}

impl Power {
    /// What a command pays that comes after so much idle time.
    pub fn wake(&self, idle: Nanos) -> Wake {
        Wake { link: exit(&self.link, idle), device: exit(&self.device, idle) }
    }

    /// Energy without work from one idle time to another, nanojoule.
    pub fn idle_energy_nj(&self, from: Nanos, to: Nanos) -> u64 {
        // Microwatt times nanoseconds are femtojoule: an hour of 10 W needs more than 64 bits.
        let device = energy_fj(&self.device, self.awake_uw, from, to);
        let link = energy_fj(&self.link, self.link_awake_uw, from, to);
        ((device + link) / 1_000_000) as u64
    }

    /// How much of an idle time was spent asleep, or falling asleep; none if it was too short.
    pub fn asleep(&self, idle: Nanos) -> Option<Nanos> {
        let first = |ladder: &[Sleep]| ladder.first().map_or(Nanos(u64::MAX), |state| state.after);
        let begin = first(&self.device).min(first(&self.link));
        (begin <= idle).then(|| idle.since(begin))
    }

    /// When both ladders have come to their deepest state.
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
mod tests {
    use super::*;

    fn power() -> Power {
        let state = |after, entry, exit, power_uw| Sleep {
            after: Nanos::micros(after),
            entry: Nanos::micros(entry),
            exit: Nanos::micros(exit),
            power_uw,
        };
        Power {
            awake_uw: 1_500_000,
            link_awake_uw: 50_000,
            device: vec![state(1000, 500, 5000, 20_000), state(10_000, 2000, 22_000, 5000)],
            link: vec![state(100, 10, 70, 0)],
        }
    }

    #[test]
    fn waking_costs_the_exit_and_what_is_left_of_the_entry() {
        let at = |us| {
            let wake = power().wake(Nanos::micros(us));
            (wake.link.0 / 1000, wake.device.0 / 1000)
        };
        assert_eq!(at(99), (0, 0));
        assert_eq!(at(100), (80, 0));
        assert_eq!(at(110), (70, 0));
        assert_eq!(at(1200), (70, 5300));
        assert_eq!(at(9999), (70, 5000));
        assert_eq!(at(11_000), (70, 23_000));
        assert_eq!(at(1_000_000), (70, 22_000));
    }

    #[test]
    fn energy_is_the_sum_over_states() {
        let nj = |from, to| power().idle_energy_nj(Nanos::micros(from), Nanos::micros(to));
        // 110 us of the link's 50 mW, 1,500 us of 1,500 mW, 10,500 us of 20 mW, 8,000 us of 5 mW.
        let whole = 110 * 50 + 1500 * 1500 + 10_500 * 20 + 8000 * 5;
        assert_eq!(nj(0, 20_000), whole);
        assert_eq!(nj(0, 777) + nj(777, 20_000), whole);
        assert_eq!(nj(20_000, 21_000), 5000);
    }
}
