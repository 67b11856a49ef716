//! The arbiter of a half-duplex controller: reads and writes wait for each other.
//!
//! Source: Tom's Hardware on the SM951 (2015): PCIe drives before it were modular designs with remains of the
//! SATA era, half-duplex, unable to process reads and writes at the same time. Model: a command in the other
//! direction than the one before it waits until all before it have ended, and for a turnaround; then
//! those behind it may follow. A write's data moves only when the arbiter has granted it.
//! Left out: a controller that picks several commands of one direction from its queue before it turns; a
//! turnaround that takes longer at the slower clock of a hot drive.

use drivebay_units::Nanos;

use crate::persist::persist;

/// Neither direction, of a drive that has served nothing.
const NEITHER: u8 = 2;

/// The direction that has been granted.
pub struct Arbiter {
    turnaround: Nanos,
    /// 0 for reads, 1 for writes.
    direction: u8,
    /// When it was granted.
    since: Nanos,
    /// When the last of its commands ends.
    end: Nanos,
}

persist!(Arbiter: direction, since, end; given: turnaround);

impl Arbiter {
    /// Nothing granted yet.
    pub fn new(turnaround: Nanos) -> Arbiter {
        Arbiter { turnaround, direction: NEITHER, since: Nanos::ZERO, end: Nanos::ZERO }
    }

    /// When a command that could go on at `from` may; commands ask in the order in which they are served.
    pub fn grant(&mut self, is_write: bool, from: Nanos) -> Nanos {
        let direction = u8::from(is_write);
        if self.direction != direction {
            let first = self.direction == NEITHER;
            self.since = if first { Nanos::ZERO } else { self.end.after(self.turnaround) };
            self.direction = direction;
        }
        from.max(self.since)
    }

    /// A command of the granted direction ends at `at`.
    pub fn release(&mut self, at: Nanos) {
        self.end = self.end.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_direction_waits_for_all_before_and_the_turnaround() {
        let mut arbiter = Arbiter::new(Nanos(10));
        assert_eq!(arbiter.grant(true, Nanos(5)), Nanos(5), "nothing came before");
        arbiter.release(Nanos(100));
        assert_eq!(arbiter.grant(true, Nanos(6)), Nanos(6), "the same direction");
        arbiter.release(Nanos(80));
        assert_eq!(arbiter.grant(false, Nanos(7)), Nanos(110));
        arbiter.release(Nanos(200));
        assert_eq!(arbiter.grant(false, Nanos(8)), Nanos(110), "not before reads were granted");
        arbiter.release(Nanos(150));
        assert_eq!(arbiter.grant(true, Nanos(205)), Nanos(210));
        arbiter.release(Nanos(300));
        assert_eq!(arbiter.grant(false, Nanos(400)), Nanos(400), "the turnaround was over");
    }
}
