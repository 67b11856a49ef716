//! Several submission queues, and how the controller picks among them.
//!
//! Source: NVM Express base specification 1.2, section 4.11 (2.0: 3.4.4), command arbitration:
//! round robin, one command from each queue that has some; weighted, as many in a row as the
//! queue's weight, as weighted round robin has of its classes: each queue is a class of its own.
//! The controller takes a command when its host core is free and it has a place for one more
//! (`host_interface.commands_max`), of those that stand in their queues by then. So a queue with
//! few commands passes the many that wait in others. Left out: the urgent class, more than one
//! queue of a class, bursts, the admin queue, the time of a look at an empty queue; the limit where
//! all commands come through one queue, as their order is the same with and without it but for
//! reads that pass writes.

use std::collections::VecDeque;

use drivebay_drive::{Interface, Io, Posted};
use drivebay_units::Nanos;

use crate::queue_slots::NEVER;

/// A command that waits to be taken.
pub struct QueuedCommand {
    /// When the host began it, and since when it can be taken.
    pub posted: Posted,
    /// What it asks.
    pub io: Io,
    /// The submission queue.
    pub queue: usize,
    /// Slot of the host that it occupies.
    pub slot: usize,
}

/// The controller's places for commands.
pub struct CommandPlaces {
    is_limited: bool,
    /// Since when each of the free ones is so, latest first; the times may be still to come.
    free: Vec<Nanos>,
}

impl CommandPlaces {
    /// All free from `start` on; for commands of so many slots of the host.
    pub fn new(interface: Interface, slots: u32, start: Nanos) -> CommandPlaces {
        let limit = interface.commands_max.filter(|&most| most < slots);
        let free = vec![start; limit.unwrap_or(0) as usize];
        CommandPlaces { is_limited: limit.is_some(), free }
    }

    /// Whether no command waits for a place.
    pub fn are_unlimited(&self) -> bool {
        !self.is_limited
    }

    /// Since when there is a place; `NEVER` while it is not known.
    #[inline]
    pub fn free_at(&self) -> Nanos {
        if self.is_limited { self.free.last().copied().unwrap_or(NEVER) } else { Nanos::ZERO }
    }

    /// A command takes the place that is free first.
    pub fn take(&mut self) {
        self.free.pop();
    }

    /// A command is done at `done`.
    pub fn give_back(&mut self, done: Nanos) {
        if self.is_limited {
            let at = self.free.partition_point(|&later| later > done);
            self.free.insert(at, done);
        }
    }
}

/// The submission queues.
pub struct SubmissionQueues {
    waiting: Vec<VecDeque<QueuedCommand>>,
    /// Commands that each may give in a row.
    weights: Vec<u32>,
    /// Queue whose turn it is, and how many commands it may still give.
    turn: usize,
    left: u32,
}

impl SubmissionQueues {
    /// So many empty queues, of equal weight.
    pub fn new(count: u32) -> SubmissionQueues {
        SubmissionQueues::weighted(vec![1; count as usize])
    }

    /// Empty queues of these weights, of which each is at least 1.
    pub fn weighted(weights: Vec<u32>) -> SubmissionQueues {
        let waiting: Vec<_> = weights.iter().map(|_| VecDeque::new()).collect();
        SubmissionQueues { turn: waiting.len() - 1, waiting, weights, left: 0 }
    }

    /// The queue of a host slot.
    pub fn of_slot(&self, slot: usize) -> usize {
        slot % self.waiting.len()
    }

    /// Puts a command into its queue.
    pub fn submit(&mut self, command: QueuedCommand) {
        self.waiting[command.queue].push_back(command);
    }

    /// When a controller that is free at `free_at` can take a command; none if no command waits.
    pub fn fetches_at(&self, free_at: Nanos) -> Option<Nanos> {
        let heads = self.waiting.iter().filter_map(|queue| queue.front());
        heads.map(|head| head.posted.ready).min().map(|ready| ready.max(free_at))
    }

    /// The command that the controller takes at `now`, which `fetches_at` gave.
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
