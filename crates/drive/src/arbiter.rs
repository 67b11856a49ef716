//! Whose turn it is in a half-duplex controller: reads and writes wait for each other.
//!
//! Source: Tom's Hardware on the SM951 (2015): PCIe drives before it were modular designs with remains of the
//! SATA era, half-duplex, unable to process reads and writes at the same time. Model: a command that goes the
//! other way than the one before it waits until all of that way have ended, and for a turnaround; then
//! those behind it may follow. A write's data moves in its turn.
//! Left out: a controller that picks several of one way from its queue before it turns; a turnaround that
//! takes longer at the slower clock of a hot drive.

use drivebay_units::Nanos;

use crate::persist::persist;
use crate::spec::Spec;

/// Neither way, of a drive that has served nothing.
const NEITHER: u8 = 2;

/// The turn that is on.
pub struct Arbiter {
    turnaround: Nanos,
    /// 0 for reads, 1 for writes.
    way: u8,
    /// When it began.
    since: Nanos,
    /// When the last of its commands ends.
    end: Nanos,
}

persist!(Arbiter: way, since, end; given: turnaround);

impl Arbiter {
    /// Nobody's turn yet; none for a controller that serves both ways at the same time.
    pub fn of(spec: &Spec) -> Option<Box<Arbiter>> {
        spec.turnaround.map(|turnaround| Box::new(Arbiter::new(turnaround)))
    }

    fn new(turnaround: Nanos) -> Arbiter {
        Arbiter { turnaround, way: NEITHER, since: Nanos::ZERO, end: Nanos::ZERO }
    }

    /// When a command that could go on at `from` may; commands ask in the order in which they are served.
    pub fn begin(&mut self, is_write: bool, from: Nanos) -> Nanos {
        let way = u8::from(is_write);
        if self.way != way {
            self.since =
                if self.way == NEITHER { Nanos::ZERO } else { self.end.after(self.turnaround) };
            self.way = way;
        }
        from.max(self.since)
    }

    /// A command whose turn it is ends at `at`.
    pub fn end(&mut self, at: Nanos) {
        self.end = self.end.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_the_other_way_waits_for_all_before_and_the_turnaround() {
        let mut turns = Arbiter::new(Nanos(10));
        assert_eq!(turns.begin(true, Nanos(5)), Nanos(5), "nothing came before");
        turns.end(Nanos(100));
        assert_eq!(turns.begin(true, Nanos(6)), Nanos(6), "the same way");
        turns.end(Nanos(80));
        assert_eq!(turns.begin(false, Nanos(7)), Nanos(110));
        turns.end(Nanos(200));
        assert_eq!(turns.begin(false, Nanos(8)), Nanos(110), "not before the turn began");
        turns.end(Nanos(150));
        assert_eq!(turns.begin(true, Nanos(205)), Nanos(210));
        turns.end(Nanos(300));
        assert_eq!(turns.begin(false, Nanos(400)), Nanos(400), "the turnaround was over");
    }
}
