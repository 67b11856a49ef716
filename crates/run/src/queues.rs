//! Several submission queues, and how the controller picks among them.
//!
//! Source: NVM Express base specification 1.2, section 4.11 (2.0: 3.4.4), command arbitration. Round
//! robin: the queues that have commands in turn, up to a burst of commands from each. Weighted: urgent
//! queues first; then high, medium and low classes share by weight, counted in commands, with round
//! robin inside a class.
//! Model: the controller takes one command at a time, when its host core is free, of those that stand
//! in their queues by then. Left out: the admin queue; the time of a look at an empty queue.

use std::collections::VecDeque;

use drivebay_drive::{Io, Posted};
use drivebay_units::Nanos;
use serde::Deserialize;

/// Class of a submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Always first.
    Urgent,
    /// By the weight of its class.
    High,
    /// By the weight of its class.
    Medium,
    /// By the weight of its class.
    Low,
}

/// Weighted round robin with urgent class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// Class of each queue.
    pub priorities: Vec<Priority>,
    /// Commands of the high, medium and low class in a round: 1 to 256.
    pub weights: [u32; 3],
}

/// How the controller picks among queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arbitration {
    /// Most commands taken from a queue in its turn.
    pub burst: u32,
    /// Weighted; plain round robin if left out.
    pub weighted: Option<Weighted>,
}

impl Default for Arbitration {
    fn default() -> Arbitration {
        Arbitration { burst: 1, weighted: None }
    }
}

const CLASSES: usize = 4;
const URGENT: usize = Priority::Urgent as usize;

/// The controller's choice.
struct Arbiter {
    /// Queues by class.
    classes: [Vec<usize>; CLASSES],
    /// Place in its class of the queue whose turn it is.
    turn: [usize; CLASSES],
    /// Commands that it may still give.
    burst_left: [u32; CLASSES],
    burst: u32,
    weights: [u32; CLASSES],
    credits: [u32; CLASSES],
}

impl Arbiter {
    fn new(queues: usize, arbitration: &Arbitration) -> Arbiter {
        let mut classes: [Vec<usize>; CLASSES] = Default::default();
        let mut weights = [1; CLASSES];
        for queue in 0..queues {
            let class = match &arbitration.weighted {
                Some(weighted) => weighted.priorities[queue] as usize,
                None => Priority::High as usize,
            };
            classes[class].push(queue);
        }
        if let Some(weighted) = &arbitration.weighted {
            weights[URGENT + 1..].copy_from_slice(&weighted.weights);
        }
        Arbiter {
            classes,
            turn: [0; CLASSES],
            burst_left: [arbitration.burst; CLASSES],
            burst: arbitration.burst,
            weights,
            credits: weights,
        }
    }

    /// The queue that gives the next command, among those that have one.
    fn pick(&mut self, has: impl Fn(usize) -> bool) -> usize {
        if let Some(queue) = self.pick_in(URGENT, &has) {
            return queue;
        }
        loop {
            for class in URGENT + 1..CLASSES {
                if self.credits[class] > 0
                    && let Some(queue) = self.pick_in(class, &has)
                {
                    self.credits[class] -= 1;
                    return queue;
                }
            }
            assert!(self.credits != self.weights, "somebody has a command");
            self.credits = self.weights;
        }
    }

    fn pick_in(&mut self, class: usize, has: impl Fn(usize) -> bool) -> Option<usize> {
        let queues = &self.classes[class];
        for _ in 0..=queues.len() {
            let queue = *queues.get(self.turn[class])?;
            if self.burst_left[class] > 0 && has(queue) {
                self.burst_left[class] -= 1;
                return Some(queue);
            }
            self.turn[class] = (self.turn[class] + 1) % queues.len();
            self.burst_left[class] = self.burst;
        }
        None
    }
}

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
    arbiter: Arbiter,
    waiting: Vec<VecDeque<QueuedCommand>>,
}

impl SubmissionQueues {
    /// So many empty queues.
    pub fn new(count: u32, arbitration: &Arbitration) -> SubmissionQueues {
        SubmissionQueues {
            arbiter: Arbiter::new(count as usize, arbitration),
            waiting: (0..count).map(|_| VecDeque::new()).collect(),
        }
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
        let waiting = &self.waiting;
        let ready = |queue: usize| {
            waiting[queue].front().is_some_and(|head: &QueuedCommand| head.posted.ready <= now)
        };
        let queue = self.arbiter.pick(ready);
        self.waiting[queue].pop_front().expect("a queue was picked that has a command")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(arbitration: &Arbitration, queues: usize, count: usize) -> Vec<usize> {
        let mut arbiter = Arbiter::new(queues, arbitration);
        (0..count).map(|_| arbiter.pick(|_| true)).collect()
    }

    #[test]
    fn round_robin_takes_a_burst_from_each() {
        let by = |burst| Arbitration { burst, weighted: None };
        assert_eq!(picks(&by(1), 3, 6), [0, 1, 2, 0, 1, 2]);
        assert_eq!(picks(&by(2), 3, 8), [0, 0, 1, 1, 2, 2, 0, 0]);
    }

    #[test]
    fn empty_queues_are_passed_over() {
        let mut arbiter = Arbiter::new(4, &Arbitration::default());
        let picks: Vec<usize> = (0..4).map(|_| arbiter.pick(|queue| queue % 2 == 1)).collect();
        assert_eq!(picks, [1, 3, 1, 3]);
    }

    #[test]
    fn weights_share_a_round_and_urgent_comes_first() {
        use Priority::{High, Low, Medium, Urgent};
        let weighted =
            Weighted { priorities: vec![High, Medium, Low, High, Urgent], weights: [4, 2, 1] };
        let arbitration = Arbitration { burst: 1, weighted: Some(weighted) };
        assert_eq!(picks(&arbitration, 5, 3), [4, 4, 4]);
        let mut arbiter = Arbiter::new(5, &arbitration);
        let picks: Vec<usize> = (0..14).map(|_| arbiter.pick(|queue| queue != 4)).collect();
        assert_eq!(picks, [0, 3, 0, 3, 1, 1, 2, 0, 3, 0, 3, 1, 1, 2]);
    }
}
