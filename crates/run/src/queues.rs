//! Several submission queues, and the arbitration between them.
//!
//! Source: NVM Express base specification 1.2, section 4.11 (2.0: 3.4.4), command arbitration:
//! round robin takes one command from each non-empty queue; weighted round robin takes as many in a
//! row as the weight of the class, and here each queue is a class by itself. The controller takes a
//! command when its host core is free and it has a place for one more
//! (`host_interface.commands_max`), from the commands in the queues by then. So a queue with few
//! commands overtakes the many that wait in others. Left out: the urgent class, more than one queue
//! per class, bursts, the admin queue, the time to check an empty queue; and the limit of commands
//! if all come through one queue, where it only affects the order of reads that pass writes.

use std::collections::VecDeque;

use drivebay_drive::{Interface, Io, Posted};
use drivebay_units::Nanos;

use crate::queue_slots::NEVER;

/// A command that waits to be fetched.
pub struct QueuedCommand {
    /// Time when the host began it, and time from which it can be fetched.
    pub posted: Posted,
    /// The request.
    pub io: Io,
    /// The submission queue.
    pub queue: usize,
    /// The host's slot that it occupies.
    pub slot: usize,
}

/// Places for commands in the controller.
pub struct CommandPlaces {
    is_limited: bool,
    /// Times from which the free places are free, latest first; they may lie in the future.
    free: Vec<Nanos>,
}

impl CommandPlaces {
    /// Creates places that are free from `start` on, for the commands of `slots` slots of the host.
    pub fn new(interface: Interface, slots: u32, start: Nanos) -> CommandPlaces {
        let limit = interface.commands_max.filter(|&most| most < slots);
        let free = vec![start; limit.unwrap_or(0) as usize];
        CommandPlaces { is_limited: limit.is_some(), free }
    }

    /// True if no command ever waits for a place.
    pub fn are_unlimited(&self) -> bool {
        !self.is_limited
    }

    /// Time from which a place is free; `NEVER` while that is not known.
    #[inline]
    pub fn free_at(&self) -> Nanos {
        if self.is_limited { self.free.last().copied().unwrap_or(NEVER) } else { Nanos::ZERO }
    }

    /// Occupies the place that is free first.
    pub fn take(&mut self) {
        self.free.pop();
    }

    /// Frees a place, at the completion time of its command.
    pub fn release(&mut self, done: Nanos) {
        if self.is_limited {
            let at = self.free.partition_point(|&later| later > done);
            self.free.insert(at, done);
        }
    }
}

/// The submission queues.
pub struct SubmissionQueues {
    waiting: Vec<VecDeque<QueuedCommand>>,
    /// Commands in a row that the controller takes from each queue.
    weights: Vec<u32>,
    /// Queue whose turn it is, and the number of commands left in its turn.
    turn: usize,
    left: u32,
}

impl SubmissionQueues {
    /// Creates empty queues with the given weights, each at least 1.
    pub fn weighted(weights: Vec<u32>) -> SubmissionQueues {
        let waiting: Vec<_> = weights.iter().map(|_| VecDeque::new()).collect();
        SubmissionQueues { turn: waiting.len() - 1, waiting, weights, left: 0 }
    }

    /// Returns the queue of a slot of the host.
    pub fn queue_of_slot(&self, slot: usize) -> usize {
        slot % self.waiting.len()
    }

    /// Appends a command to its queue.
    pub fn submit(&mut self, command: QueuedCommand) {
        self.waiting[command.queue].push_back(command);
    }

    /// Time when a controller that is free at `free_at` can fetch a command; `None` if none waits.
    pub fn fetches_at(&self, free_at: Nanos) -> Option<Nanos> {
        let heads = self.waiting.iter().filter_map(|queue| queue.front());
        heads.map(|head| head.posted.ready).min().map(|ready| ready.max(free_at))
    }

    /// Returns the command that the controller fetches at `now`, the result of `fetches_at`.
    pub fn fetch(&mut self, now: Nanos) -> QueuedCommand {
        let count = self.waiting.len();
        let first = if self.left > 0 { self.turn } else { (self.turn + 1) % count };
        let (before, from) = self.waiting.split_at(first);
        let ready = |queue: &VecDeque<QueuedCommand>| {
            queue.front().is_some_and(|head| head.posted.ready <= now)
        };
        let ahead = from.iter().chain(before).position(ready).expect("a queue has a command");
        let queue = (first + ahead) % count;
        if self.left == 0 || queue != self.turn {
            (self.turn, self.left) = (queue, self.weights[queue]);
        }
        self.left -= 1;
        self.waiting[queue].pop_front().expect("the queue has a command")
    }
}

#[cfg(test)]
#[path = "../tests/unit/queues.rs"]
mod tests;
