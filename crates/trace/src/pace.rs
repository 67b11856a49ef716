//! When a recorded request may be issued again: the same rules for a virtual drive and a real one.
//!
//! The rules are written down in `docs/concepts/replay.md`. The engine shows each request in the
//! order of the recording ([`Pacer::admit`]), asks when it may go ([`Pacer::release`]), and tells
//! of every completion ([`Pacer::completed`]). An engine in virtual time knows the completion as it
//! submits and tells at once; one in real time tells when it happens. Both get the same answers.
//!
//! Nothing is allocated after [`Pacer::new`]. Times are since the start of the replay. Left out:
//! think time in [`Pace::Dependencies`]; a host that computes between I/Os is slower than it says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drivebay_units::Nanos;

/// Most requests that are tracked as outstanding in the recording; beyond it the soonest to end
/// counts as ended, so a deeper recording is replayed at this depth.
pub const DEPTH_MAX: usize = 1 << 16;
/// Slowest replay, in percent of the recorded time: a hundred times slower.
pub const TIME_PERCENT_MAX: u32 = 10_000;

/// How a recording's times become the replay's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At the recorded times, whatever the drive does: a slower drive queues.
    Recorded {
        /// Recorded intervals with nothing outstanding are cut to this length, in the replay's
        /// time.
        idle_max_ns: Option<u64>,
        /// Length of the replay in percent of the recording: 100 as recorded, 50 twice as fast.
        time_percent: u32,
    },
    /// As soon as every request has completed that had completed before it in the recording.
    Dependencies,
}

/// A pace that is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time_percent: {0} is not allowed; must be 1 to 10000\nhint: 100 keeps the recorded times")]
pub struct PaceError(pub u32);

impl Pace {
    /// The recorded times.
    pub const AS_RECORDED: Pace = Pace::Recorded { idle_max_ns: None, time_percent: 100 };

    /// The recorded times, idle intervals cut to `cap`.
    #[must_use]
    pub const fn idle_capped(cap: Nanos) -> Pace {
        Pace::Recorded { idle_max_ns: Some(cap.0), time_percent: 100 }
    }
}

/// A request that was issued; given back with its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// Paces one replay. Cost per request: a few additions; with dependencies a heap's push and pop.
#[derive(Debug)]
pub struct Pacer {
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    Recorded(Schedule),
    Dependencies(Box<Dependencies>),
}

impl Pacer {
    /// A pacer at the start of a replay.
    ///
    /// # Errors
    /// [`PaceError`] if the scale is out of bounds.
    pub fn new(pace: Pace) -> Result<Pacer, PaceError> {
        let mode = match pace {
            Pace::Recorded { idle_max_ns, time_percent } => {
                if !(1..=TIME_PERCENT_MAX).contains(&time_percent) {
                    return Err(PaceError(time_percent));
                }
                Mode::Recorded(Schedule::new(idle_max_ns, time_percent))
            }
            Pace::Dependencies => Mode::Dependencies(Box::new(Dependencies::new(DEPTH_MAX))),
        };
        Ok(Pacer { mode })
    }

    /// Shows the next request of the recording; those shown before must have been issued.
    ///
    /// `at` must not go back. Without a response time the request counts as done before anything
    /// that was recorded later than it; requests of one time go together.
    #[inline]
    pub fn admit(&mut self, at: Nanos, response: Option<Nanos>) {
        match &mut self.mode {
            Mode::Recorded(schedule) => schedule.admit(at, response),
            Mode::Dependencies(dependencies) => dependencies.admit(at, response),
        }
    }

    /// When the request shown last may be issued, at the earliest; None while a request that it
    /// depends on is still out. Never earlier than for the request before.
    #[inline]
    #[must_use]
    pub fn release(&self) -> Option<Nanos> {
        match &self.mode {
            Mode::Recorded(schedule) => Some(schedule.due),
            Mode::Dependencies(d) => (d.missing == 0).then_some(d.gate),
        }
    }

    /// The request shown last is issued now.
    ///
    /// # Panics
    /// If [`Pacer::release`] said None.
    #[inline]
    pub fn issue(&mut self) -> Ticket {
        match &mut self.mode {
            Mode::Recorded(_) => Ticket(0),
            Mode::Dependencies(dependencies) => dependencies.issue(),
        }
    }

    /// An issued request was done at `done`; in any order, once each.
    #[inline]
    pub fn completed(&mut self, ticket: Ticket, done: Nanos) {
        if let Mode::Dependencies(dependencies) = &mut self.mode {
            dependencies.completed(ticket, done);
        }
    }
}

/// The recorded times less the idle time that was cut, scaled.
#[derive(Debug)]
struct Schedule {
    /// In recorded time.
    idle_max: u64,
    time_percent: u32,
    busy_until: u64,
    /// Recorded time that was cut so far; the time before the first request is kept.
    cut: u64,
    due: Nanos,
}

impl Schedule {
    fn new(idle_max_ns: Option<u64>, time_percent: u32) -> Schedule {
        let idle_max = idle_max_ns.map_or(u64::MAX, |ns| scaled(ns, 100, time_percent));
        Schedule { idle_max, time_percent, busy_until: 0, cut: 0, due: Nanos::ZERO }
    }

    #[inline]
    fn admit(&mut self, at: Nanos, response: Option<Nanos>) {
        let idle = at.0.saturating_sub(self.busy_until);
        self.cut += idle.saturating_sub(self.idle_max);
        let end = at.0.saturating_add(response.map_or(0, |response| response.0));
        self.busy_until = self.busy_until.max(end);
        let kept = at.0 - self.cut;
        self.due = Nanos(match self.time_percent {
            100 => kept,
            percent => scaled(kept, percent, 100),
        });
    }
}

fn scaled(ns: u64, times: u32, over: u32) -> u64 {
    let wide = u128::from(ns) * u128::from(times) / u128::from(over);
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Which requests of the recording the next one has to wait for.
#[derive(Debug)]
struct Dependencies {
    /// Issued requests that the recording has not ended yet: (recorded end, tag), soonest first.
    outstanding: BinaryHeap<Reverse<(u64, u32)>>,
    /// By tag.
    requests: Box<[RequestState]>,
    free: Vec<u32>,
    /// Recorded end of the request shown last.
    end: u64,
    /// Latest completion of those it depends on.
    gate: Nanos,
    /// How many of them are still out.
    missing: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestState {
    /// Out in the replay; nothing waits for it.
    Out,
    /// Out in the replay, and the request shown last waits for it.
    Awaited,
    /// Completed in the replay at this time, still out in the recording.
    Completed(Nanos),
    /// No request has this tag.
    Free,
}

impl Dependencies {
    fn new(depth: usize) -> Dependencies {
        Dependencies {
            outstanding: BinaryHeap::with_capacity(depth),
            requests: vec![RequestState::Free; depth].into(),
            free: (0..depth as u32).rev().collect(),
            end: 0,
            gate: Nanos::ZERO,
            missing: 0,
        }
    }

    #[inline]
    fn admit(&mut self, at: Nanos, response: Option<Nanos>) {
        // Unanswered: over before anything later, not before another of the same time.
        self.end = at.0.saturating_add(response.map_or(1, |response| response.0));
        while let Some(&Reverse((end, tag))) = self.outstanding.peek() {
            if end > at.0 && self.outstanding.len() < self.requests.len() {
                break;
            }
            self.outstanding.pop();
            self.wait_for(tag);
        }
    }

    fn wait_for(&mut self, tag: u32) {
        match self.requests[tag as usize] {
            RequestState::Completed(done) => self.give_back(tag, done),
            RequestState::Out => {
                self.requests[tag as usize] = RequestState::Awaited;
                self.missing += 1;
            }
            RequestState::Awaited | RequestState::Free => {
                unreachable!("a request ends once in the recording")
            }
        }
    }

    fn give_back(&mut self, tag: u32, done: Nanos) {
        self.gate = self.gate.max(done);
        self.requests[tag as usize] = RequestState::Free;
        self.free.push(tag);
    }

    fn issue(&mut self) -> Ticket {
        assert_eq!(self.missing, 0, "a request waits for all it depends on");
        let tag = self.free.pop().expect("admit keeps a tag free");
        self.requests[tag as usize] = RequestState::Out;
        self.outstanding.push(Reverse((self.end, tag)));
        Ticket(tag)
    }

    fn completed(&mut self, Ticket(tag): Ticket, done: Nanos) {
        match self.requests[tag as usize] {
            RequestState::Out => self.requests[tag as usize] = RequestState::Completed(done),
            RequestState::Awaited => {
                self.missing -= 1;
                self.give_back(tag, done);
            }
            RequestState::Completed(_) | RequestState::Free => panic!("a request completes once"),
        }
    }
}

#[cfg(test)]
mod tests;
