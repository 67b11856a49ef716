//! A half-duplex controller: reads and writes in batches, one direction at a time.
//!
//! Source: Tom's Hardware on the SM951 (2015): PCIe drives before it were modular designs with
//! remains of the SATA era, half-duplex, unable to process reads and writes at the same time.
//! Model: one data path for both directions. A batch of one direction goes on while commands of it
//! come and some of them are under way. It is closed, if the other direction waits, when it has
//! served so many commands or the other has waited so long in it. Then the path drains and turns:
//! the turnaround begins with the end of the last transfer, so a path that has rested has turned
//! already. A write's data moves only when its direction has the path; it is off the path when it
//! is in the buffer, a read when its data is in the host's memory. Commands without data do not
//! wait. guess: that a batch is closed by these two limits; no maker has published its rule. Left
//! out: a turnaround that takes longer at the slower clock of a hot drive.

use drivebay_units::Nanos;

use crate::persist::{StateError, ensure, persist};
use crate::profile::HalfDuplexSpec;
use crate::timeline::NEVER;

/// Neither direction, of a path that has moved nothing.
const NEITHER: usize = 2;

/// What stands first in the queue of a direction.
#[derive(Clone, Copy)]
pub struct Head {
    /// When it came; [`NEVER`] if none waits.
    pub arrival: Nanos,
    pub has_data: bool,
}

/// The path's direction: the number of the queue that has it.
pub struct HalfDuplex {
    spec: HalfDuplexSpec,
    direction: usize,
    /// From when on it has it.
    since: Nanos,
    /// Commands of the batch so far.
    served: u32,
    /// When the last of its transfers ends.
    end: Nanos,
    /// When the newest command was let through.
    last: Nanos,
}

persist!(HalfDuplex: direction, since, served, end, last; given: spec);

impl HalfDuplex {
    /// Nothing granted yet.
    pub fn new(spec: HalfDuplexSpec) -> HalfDuplex {
        let zero = Nanos::ZERO;
        HalfDuplex { spec, direction: NEITHER, since: zero, served: 0, end: zero, last: zero }
    }

    pub fn check(&self) -> Result<(), StateError> {
        ensure(self.direction <= NEITHER, "a direction")
    }

    /// When each queue's head goes on or turns the path, as far as is known now; only the earlier
    /// is given.
    pub fn due(&self, heads: [Head; 2]) -> [Nanos; 2] {
        let due = [0, 1].map(|queue| self.due_of(queue, heads));
        let first = usize::from(due[1] < due[0] || (due[1] == due[0] && self.direction == 1));
        let mut only = [NEVER; 2];
        only[first] = due[first];
        only
    }

    fn due_of(&self, queue: usize, heads: [Head; 2]) -> Nanos {
        let (Head { arrival, has_data }, other) = (heads[queue], heads[1 - queue]);
        if arrival == NEVER || !has_data {
            return arrival.max(self.last);
        }
        if queue != self.direction {
            return arrival.max(if self.direction == NEITHER { self.last } else { self.end });
        }
        let at = arrival.max(self.since).max(self.last);
        let is_closed = || {
            self.served >= self.spec.batch_commands
                || at.since(other.arrival.max(self.since)) > self.spec.batch_wait
        };
        if other.has_data && other.arrival <= at && is_closed() { NEVER } else { at }
    }

    /// Lets the head of a queue through that is due at `due`; returns from when on.
    pub fn grant(&mut self, queue: usize, has_data: bool, due: Nanos) -> Nanos {
        let mut at = due;
        if has_data {
            if queue != self.direction {
                let turned = self.end.after(self.spec.turnaround);
                self.since = if self.direction == NEITHER { Nanos::ZERO } else { turned };
                (self.direction, self.served) = (queue, 0);
            }
            self.served = self.served.saturating_add(1);
            at = at.max(self.since);
        }
        self.last = self.last.max(at);
        at
    }

    /// A command of the granted direction is off the path at `at`.
    pub fn release(&mut self, at: Nanos) {
        self.end = self.end.max(at);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/firmware_scheduler_half_duplex.rs"]
mod tests;
