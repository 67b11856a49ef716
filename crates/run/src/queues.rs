//! Several submission queues, and how the controller picks among them.
//!
//! Source: NVM Express base specification 1.2, section 4.11 (2.0: 3.4.4), command arbitration: round robin,
//! one command from each queue that has some. The controller takes a command when its host core is free, of
//! those that stand in their queues by then. Left out: weighted round robin, the admin queue, the time of a
//! look at an empty queue.

use std::collections::VecDeque;

use drivebay_drive::{Io, Posted};
use drivebay_units::Nanos;

/// A command that waits to be taken.
pub struct QueuedCommand {
    /// When the host began it, and since when it can be taken.
    pub posted: Posted,
    /// What it asks.
    pub io: Io,
    /// Slot of the host that it occupies.
    pub slot: usize,
}

/// The submission queues.
pub struct SubmissionQueues {
    waiting: Vec<VecDeque<QueuedCommand>>,
    /// Queue that is asked first for the next command.
    next: usize,
}

impl SubmissionQueues {
    /// So many empty queues.
    pub fn new(count: u32) -> SubmissionQueues {
        SubmissionQueues { waiting: (0..count).map(|_| VecDeque::new()).collect(), next: 0 }
    }

    /// The queue of a host slot.
    pub fn of_slot(&self, slot: usize) -> usize {
        slot % self.waiting.len()
    }

    /// Puts a command into its queue.
    pub fn submit(&mut self, command: QueuedCommand) {
        let queue = self.of_slot(command.slot);
        self.waiting[queue].push_back(command);
    }

    /// When a controller that is free at `free_at` can take a command; none if no command waits.
    pub fn fetches_at(&self, free_at: Nanos) -> Option<Nanos> {
        let heads = self.waiting.iter().filter_map(|queue| queue.front());
        heads.map(|head| head.posted.ready).min().map(|ready| ready.max(free_at))
    }

    /// The command that the controller takes at `now`, which `fetches_at` gave.
    pub fn fetch(&mut self, now: Nanos) -> QueuedCommand {
        let (before, from) = self.waiting.split_at(self.next);
        let ready = |queue: &VecDeque<QueuedCommand>| {
            queue.front().is_some_and(|head| head.posted.ready <= now)
        };
        let ahead = from.iter().chain(before).position(ready).expect("a queue has a command");
        let queue = (self.next + ahead) % self.waiting.len();
        self.next = (queue + 1) % self.waiting.len();
        self.waiting[queue].pop_front().expect("the queue has a command")
    }
}

#[cfg(test)]
mod tests {
    use drivebay_drive::Op;

    use super::*;

    /// Queues from which `count` commands are taken, of queues with `depth` commands each.
    fn fetched(depths: &[usize], count: usize) -> Vec<usize> {
        let mut queues = SubmissionQueues::new(depths.len() as u32);
        for (slot, &depth) in depths.iter().enumerate() {
            for _ in 0..depth {
                let io = Io { op: Op::Read, lba: 0, sectors: 8 };
                let posted = Posted { at: Nanos::ZERO, ready: Nanos::ZERO };
                queues.submit(QueuedCommand { posted, io, slot });
            }
        }
        (0..count).map(|_| queues.fetch(Nanos::ZERO).slot).collect()
    }

    #[test]
    fn round_robin_takes_one_command_from_each_queue() {
        assert_eq!(fetched(&[2, 2, 2], 6), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn empty_queues_are_passed_over() {
        assert_eq!(fetched(&[0, 2, 0, 2], 4), [1, 3, 1, 3]);
    }
}
