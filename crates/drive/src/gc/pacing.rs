//! Pacing: how much garbage collection runs behind a host command.
//!
//! Model: firmware shares the flash core between commands and garbage collection by time. Once free space
//! runs low, each page that the host writes is followed by a quantum of core time; its length depends on how
//! much is free, so the host is slowed smoothly. In a quantum, flash pages are copied, one by one, until its
//! time or its page limit is used up; the first quantum passes even if the copying ends sooner, the others
//! do not. What a copy overdraws, the next quantum lacks. Every so often a burst may follow.
//! The mechanism is a hypothesis that fits the published burst, cliff and steady state together; see
//! docs/adr/0004-collection-by-time-slots.md.

use drivebay_units::Nanos;

use crate::persist::persist;
use crate::spec::{Burst, PacingSpec};

/// What garbage collection has to go by after a host command.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Free 4 KiB pages.
    pub free: u64,
    /// A superblock must be refreshed, whatever is free.
    pub must_collect: bool,
    /// 4 KiB pages that the command wrote.
    pub host_pages: u64,
}

/// What may be spent behind one command.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Core time that passes at least.
    least: Nanos,
    /// All quanta together.
    whole: Nanos,
    /// Core time left, nanoseconds; overdrawn when negative.
    time: i64,
    /// Pages left, in 1/256; overdrawn when negative.
    pages_256: i64,
}

impl Budget {
    /// Whether another flash page may be copied.
    #[inline(always)]
    pub fn is_left(&self) -> bool {
        self.time > 0 && self.pages_256 > 0
    }

    /// Core time that has passed.
    #[inline(always)]
    pub fn elapsed(&self) -> Nanos {
        Nanos(self.whole.0.saturating_sub(self.time as u64))
    }

    /// `pages` were copied for so much core time.
    #[inline(always)]
    pub fn spend(&mut self, pages: u32, cost: Nanos) {
        self.pages_256 -= i64::from(pages) * 256;
        self.time -= cost.0 as i64;
    }
}

/// The pacing, and what earlier quanta left over.
#[derive(Debug)]
pub struct Pacing {
    spec: PacingSpec,
    burst: Option<Burst>,
    /// Core time overdrawn so far, nanoseconds; never above zero.
    time: i64,
    /// Pages that may still be copied, in 1/256; overdrawn when negative.
    pages_256: i64,
    /// Commands with a full quantum behind them since the last burst, in 1/256.
    commands_256: u64,
}

persist!(Pacing: time, pages_256, commands_256; given: spec, burst);

impl Pacing {
    pub fn new(spec: PacingSpec, burst: Option<Burst>) -> Pacing {
        Pacing { spec, burst, time: 0, pages_256: 0, commands_256: 0 }
    }

    /// Whether anything is collected at this much free space.
    #[inline(always)]
    pub fn starts_at(&self, free: u64) -> bool {
        free < self.spec.start_free
    }

    /// Whether reads are followed by a quantum.
    #[inline(always)]
    pub fn follows_reads(&self) -> bool {
        self.spec.after_reads
    }

    /// What may be spent behind a command; none if nothing. `quantum`: the full quantum at the present clock.
    pub fn budget(&mut self, demand: Demand, quantum: Nanos) -> Option<Budget> {
        let mut factor = factor_256(&self.spec, demand.free);
        if demand.must_collect {
            factor = factor.max(256);
        }
        let mut quanta = factor * demand.host_pages;
        let mut limit = ((self.spec.quantum_pages_256 * quanta) >> 8) as i64;
        if let Some(burst) = self.burst {
            self.commands_256 += factor;
            if self.commands_256 >= burst.every_256 {
                self.commands_256 = 0;
                factor += burst.quanta << 8;
                quanta += burst.quanta << 8;
                // A burst copies as much as its time allows.
                limit = i64::MAX / 2;
            }
        }
        let least = Nanos((quantum.0 * factor) >> 8);
        if least == Nanos::ZERO {
            return None;
        }
        let whole = Nanos((quantum.0 * quanta) >> 8);
        let most = limit.max(self.spec.quantum_pages_256 as i64);
        let time = self.time + whole.0 as i64;
        let pages_256 = (self.pages_256 + limit).min(most);
        Some(Budget { least, whole, time, pages_256 })
    }

    /// Takes back what is left of a budget; returns how much core time has passed.
    pub fn settle(&mut self, budget: Budget) -> Nanos {
        let Budget { least, whole, time, pages_256 } = budget;
        // Of the first quantum, time that no copy could use has passed all the same.
        self.time = time.min(0);
        self.pages_256 = pages_256.min(self.spec.quantum_pages_256 as i64);
        least.max(Nanos(whole.0 - time.max(0) as u64))
    }
}

/// Length of the quantum at this much free space, in 1/256 of the full one.
#[inline]
fn factor_256(spec: &PacingSpec, free: u64) -> u64 {
    if free >= spec.start_free {
        return 0;
    }
    if free > spec.full_free {
        return ((spec.start_free - free) << 8) / (spec.start_free - spec.full_free);
    }
    if free >= spec.low_free {
        return 256;
    }
    if free <= spec.critical_free {
        return spec.low_factor_256;
    }
    let way = spec.low_free - free;
    256 + (spec.low_factor_256 - 256) * way / (spec.low_free - spec.critical_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantum_grows_as_space_shrinks() {
        let pacing = PacingSpec {
            start_free: 1000,
            full_free: 900,
            low_free: 200,
            critical_free: 100,
            low_factor_256: 20 * 256,
            quantum_pages_256: 0,
            after_reads: true,
        };
        let factors: Vec<u64> =
            [1001, 1000, 950, 900, 500, 200, 150, 100, 0].map(|f| factor_256(&pacing, f)).to_vec();
        assert_eq!(factors, [0, 0, 128, 256, 256, 256, 2688, 5120, 5120]);
    }
}
