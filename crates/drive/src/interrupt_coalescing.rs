//! Interrupts that several completions share: no two come closer together than the host allows.
//!
//! Sources: NVMe base specification 2.0, feature 08h (aggregation time); AHCI 1.3.1, section 11 (command completion
//! coalescing). Model: a completion interrupts at once if the last interrupt is long enough ago; else the next one
//! tells of it. A completion that is served late but posted early joins an interrupt that is already set.
//! Left out: the threshold by a number of completions, which can only shorten the wait; one vector per queue.

use drivebay_units::Nanos;

use crate::persist::persist;
use crate::timeline::NEVER;

/// Interrupts that are remembered: completions are posted out of order by less than so many.
const REMEMBERED: usize = 32;

/// When the newest interrupts were raised: completions close to one share it.
pub struct Coalescing {
    gap: Nanos,
    /// In a ring, in no order of time.
    fired: [Nanos; REMEMBERED],
    oldest: usize,
}

persist!(Coalescing: fired, oldest; given: gap);

impl Coalescing {
    /// Interrupts at least `gap` apart.
    pub fn new(gap: Nanos) -> Coalescing {
        Coalescing { gap, fired: [Nanos::ZERO; REMEMBERED], oldest: 0 }
    }

    /// When the host is told of a completion posted at `at`.
    #[cold]
    pub fn interrupt(&mut self, at: Nanos) -> Nanos {
        let before = self.fired.iter().filter(|&&fired| fired < at && fired > Nanos::ZERO).max();
        let earliest = before.map_or(at, |before| at.max(before.after(self.gap)));
        let next = self.fired.iter().filter(|&&fired| fired >= at).min().copied().unwrap_or(NEVER);
        if next != NEVER && next < earliest.after(self.gap) {
            return next;
        }
        self.fired[self.oldest % REMEMBERED] = earliest;
        self.oldest = (self.oldest + 1) % REMEMBERED;
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drivebay_units::Rng;

    /// In order of time, as a controller does it: an interrupt tells of all that was posted by then.
    #[test]
    fn equals_a_timer_that_is_asked_in_order() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let mut coalescing = Coalescing::new(Nanos(50));
            let (mut at, mut fired) = (1, None);
            for _ in 0..500 {
                at += rng.below(if seed % 2 == 0 { 20 } else { 200 });
                let due = match fired {
                    Some(fired) if fired >= at => fired,
                    Some(fired) => at.max(fired + 50),
                    None => at,
                };
                fired = Some(due);
                assert_eq!(coalescing.interrupt(Nanos(at)), Nanos(due), "seed {seed}");
            }
        }
    }

    #[test]
    fn interrupts_keep_their_distance_in_any_order() {
        let mut rng = Rng::new(7);
        let mut coalescing = Coalescing::new(Nanos(50));
        let mut fired = Vec::new();
        for i in 0..5000u64 {
            let at = 1000 + i * 10 + rng.below(400);
            let due = coalescing.interrupt(Nanos(at)).0;
            assert!(due >= at && due < at + 100, "{at} told at {due}");
            fired.push(due);
        }
        fired.sort_unstable();
        fired.dedup();
        assert!(fired.windows(2).all(|pair| pair[1] - pair[0] >= 50));
    }
}
