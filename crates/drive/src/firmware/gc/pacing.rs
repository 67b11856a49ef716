//! How much garbage collection runs behind the host's writes: a control loop on free space.
//!
//! Model: for each page that the host writes one must be given back. A victim with a share u of valid
//! pages gives 1 - u of its pages for u copied, so this takes u / (1 - u) copies. That balance is
//! multiplied by a gain: below one while more than the target is free, above one below it, by the distance
//! from the target.
//! So free space settles at the target, and write amplification is what the victims there hold: policy,
//! spare space and load decide it, no count of pages. Per page that the host writes, garbage collection takes no
//! more of the flash core than its duty limit, which grows below the target. It binds after a fill,
//! when victims are nearly full; then free space falls until they are not. Where a profile says so, the duty limit
//! counts only the first pages of a command: firmware that copies a bounded piece between two commands, whatever
//! their size. Likewise it runs once for each word line that the host fills instead of behind each command: the copies that
//! are owed come together, and their reads overlap on the dies; writes behind them wait for the flash core. The
//! duty limit counts the first pages of all commands of a word line together then, not of each.
//! Sources: the balance is arithmetic; u / (1 - u) as in Desnoyers (SYSTOR 2012). That firmware paces so
//! is a hypothesis: docs/adr/0024-garbage-collection-as-a-control-loop.md.

use drivebay_units::Nanos;

use crate::persist::{StateError, TIME_MAX, ensure, persist};
use crate::policy_plugin::Pace;
use crate::profile::{PAGES_MAX, PacingSpec};

/// What may be spent behind one command.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Core time left, nanoseconds; overdrawn when negative.
    time: i64,
    /// Pages to be given back, in 1/65536; overdrawn when negative.
    owed: i64,
}

impl Budget {
    /// Whether another flash page may be copied.
    #[inline(always)]
    pub fn is_left(&self) -> bool {
        self.time > 0 && self.owed > 0
    }

    /// A copy took so much core time and gave so much, in 1/65536 pages.
    #[inline(always)]
    pub fn spend(&mut self, time: Nanos, given: u64) {
        self.time -= time.0 as i64;
        self.owed -= given as i64;
    }
}

/// The control loop, and what was overdrawn so far.
#[derive(Debug)]
pub struct Pacing {
    spec: PacingSpec,
    /// Core time, nanoseconds; never above zero between commands.
    time: i64,
    /// Pages to be given back, in 1/65536: below zero what copies gave beyond, never above.
    owed: i64,
    /// Pages that the host wrote since it ran; fewer than those behind which it runs.
    pending: u64,
}

persist!(Pacing: time, owed, pending; given: spec);

impl Pacing {
    pub fn new(spec: PacingSpec) -> Pacing {
        Pacing { spec, time: 0, owed: 0, pending: 0 }
    }

    /// What is overdrawn is no more than a command can be answerable for; pages wait only where it runs behind several.
    pub fn check(&self) -> Result<(), StateError> {
        let time = self.time <= 0 && self.time.unsigned_abs() <= TIME_MAX;
        let owed = self.owed <= 0 && self.owed.unsigned_abs() <= TIME_MAX;
        let pending = self.pending == 0 || self.pending < self.spec.every_pages;
        ensure(time && owed && pending, "garbage collection's pace")
    }

    /// Whether garbage collection runs at this much free space.
    #[inline(always)]
    pub fn starts_at(&self, free: u64) -> bool {
        free < self.spec.start_free
    }

    /// The host wrote so many `pages`: how many it runs for now, if it does.
    #[inline(always)]
    pub fn due(&mut self, pages: u64) -> Option<u64> {
        let pages = self.pending.saturating_add(pages);
        let due = pages >= self.spec.every_pages;
        self.pending = if due { 0 } else { pages };
        due.then_some(pages)
    }

    /// The control loop's pace at this much free space.
    #[inline(always)]
    pub fn own(&self, free: u64) -> Pace {
        Pace { gain_256: self.spec.gain_256(free), duty_256: self.spec.duty_256(free) }
    }

    /// What may be spent behind a command that took `pages`; `duty`: the duty limit at the present clock.
    #[inline(always)]
    pub fn budget(&self, pages: u64, duty: Nanos, pace: Pace) -> Budget {
        let pages = pages.min(PAGES_MAX);
        Budget {
            time: self.time
                + ((duty.0 * pages.min(self.spec.duty_pages) * pace.duty_256) >> 8) as i64,
            owed: self.owed + ((pages * pace.gain_256) << 8) as i64,
        }
    }

    /// Takes back what is overdrawn; what is left is not kept.
    #[inline(always)]
    pub fn settle(&mut self, budget: Budget) {
        (self.time, self.owed) = (budget.time.min(0), budget.owed.min(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_each_time_that_so_many_pages_were_written_and_for_all_of_them() {
        let mut pacing = Pacing::new(PacingSpec::new(1000, 200, (0.5, 3.0), 20.0, 1));
        assert_eq!([1, 32].map(|pages| pacing.due(pages)), [Some(1), Some(32)]);
        pacing.spec.every_pages = 48;
        let due = [40, 7, 3, 47, 1, 200].map(|pages| pacing.due(pages));
        assert_eq!(due, [None, None, Some(50), None, Some(48), Some(200)]);
    }

    #[test]
    fn what_no_command_can_have_overdrawn_is_no_state() {
        let mut pacing = Pacing::new(PacingSpec::new(1000, 200, (0.5, 3.0), 20.0, 1));
        assert!(pacing.check().is_ok());
        pacing.spec.every_pages = 48;
        for (time, owed, pending, fine) in [
            (-5, -7, 47, true),
            (1, 0, 0, false),
            (0, 1, 0, false),
            (0, 0, 48, false),
            (i64::MIN, 0, 0, false),
            (0, i64::MIN, 0, false),
        ] {
            (pacing.time, pacing.owed, pacing.pending) = (time, owed, pending);
            assert_eq!(pacing.check().is_ok(), fine, "{time} {owed} {pending}");
        }
    }

    #[test]
    fn the_duty_limit_counts_the_first_pages_of_a_command_and_all_are_owed() {
        let limited = |most| Pacing::new(PacingSpec::new(1000, 200, (0.5, 3.0), 20.0, most));
        let (first, all) = (limited(7), limited(PAGES_MAX));
        let [short, long] = [2, 32].map(|pages| first.budget(pages, Nanos(100), first.own(200)));
        assert_eq!((short.time, long.time), (200, 700));
        assert_eq!(all.budget(32, Nanos(100), all.own(200)).time, 3200);
        assert_eq!((short.owed, long.owed), (2 << 16, 32 << 16));
    }
}
