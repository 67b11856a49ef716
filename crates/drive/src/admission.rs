//! Admission of writes: while the flash has no room for more, they wait outside and reads pass them.
//!
//! Source: firmware of drives for servers holds writes to the pace at which space comes free, so that reads
//! beside them are served as at lower rates (SSD-iq, Haas et al., VLDB 2025: reads of a saturated drive in 0.2 ms beside
//! writes in 6 ms). Model: a write whose data has come is let in when the one before it has found room, and the
//! buffers of host and garbage collection have a place for one flash page more. Where the profile says so, writes are
//! also paced while garbage collection runs, by a virtual scheduling algorithm (ITU-T I.371): one in an
//! interval in the long run, a few together. Without admission a write that finds no room, and the copies behind it,
//! keep the flash core from what comes after them.
//! guess: both rules; no maker has published its own. Left out: that a command of many pages needs more room than one.

use drivebay_units::Nanos;

use crate::persist::persist;
use crate::spec::AdmissionSpec;

/// When writes are let in.
pub struct Admission {
    spec: AdmissionSpec,
    /// When the next write would come if all came in their intervals.
    due: Nanos,
    /// Not before this.
    open_at: Nanos,
}

persist!(Admission: due, open_at; given: spec);

impl Admission {
    /// Nothing let in yet.
    pub fn new(spec: AdmissionSpec) -> Admission {
        Admission { spec, due: Nanos::ZERO, open_at: Nanos::ZERO }
    }

    /// From when on the next write may pass.
    pub fn open_at(&self) -> Nanos {
        self.open_at
    }

    /// A write was let in at `at`, and there is room for another from `room` on; `paced`: garbage collection runs.
    pub fn let_in(&mut self, at: Nanos, room: Nanos, paced: bool) {
        self.open_at = room;
        if paced {
            self.due = self.due.max(at).after(self.spec.interval);
            let together = self.spec.interval.times(self.spec.together);
            self.open_at = room.max(Nanos(self.due.0.saturating_sub(together.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the write behind each of these may pass; there is room from 5 on.
    fn open_at(together: u64, let_in: &[u64]) -> Vec<u64> {
        let mut admission = Admission::new(AdmissionSpec { interval: Nanos(14), together });
        let follow = |&at: &u64| {
            admission.let_in(Nanos(at), Nanos(5), true);
            admission.open_at().0
        };
        let_in.iter().map(follow).collect()
    }

    #[test]
    fn the_next_write_waits_for_its_interval() {
        assert_eq!(open_at(0, &[100, 114, 200]), [114, 128, 214]);
    }

    #[test]
    fn a_few_come_together_and_are_made_up_for() {
        assert_eq!(open_at(2, &[100, 100, 100, 114, 128]), [86, 100, 114, 128, 142]);
    }

    #[test]
    fn without_collection_the_next_write_waits_for_room_alone() {
        let spec = AdmissionSpec { interval: Nanos(14), together: 0 };
        let mut admission = Admission::new(spec);
        admission.let_in(Nanos(100), Nanos(105), false);
        assert_eq!(admission.open_at(), Nanos(105));
    }
}
