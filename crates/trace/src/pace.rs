//! Issue times of replayed requests: the same rules for virtual and real drives.
//!
//! The rules are defined in `docs/concepts/replay.md`. The engine passes each request in recorded
//! order ([`Pacer::admit`]), asks for its earliest issue time ([`Pacer::release`]), and reports
//! every completion ([`Pacer::completed`]). An engine in virtual time knows the completion when it
//! submits and reports it at once; an engine in real time reports it when it happens. The results
//! are the same.
//!
//! Nothing is allocated after [`Pacer::new`]. Times are since the start of the replay. Left out:
//! think time in [`Pace::Dependencies`]; a host that computes between I/Os is slower than this.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drivebay_units::{Nanos, refuse_if};

/// Most requests tracked as outstanding in the recording. Beyond it the request that ends first
/// counts as ended, so a deeper recording is replayed at this depth.
pub const DEPTH_MAX: usize = 1 << 16;
/// Slowest replay, in per cent of the recorded time: a hundred times slower.
pub const TIME_PERCENT_MAX: u32 = 10_000;

/// Mapping of recorded times to replay times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Issues at the recorded times, independent of the drive's speed: on a slower drive, requests
    /// queue.
    Recorded {
        /// Longest idle interval; recorded intervals with nothing outstanding are cut to this
        /// length, in replay time.
        idle_max_ns: Option<u64>,
        /// Length of the replay in per cent of the recording: 100 as recorded, 50 twice as fast.
        time_percent: u32,
    },
    /// Issues each request once all requests have completed that had completed before it in the
    /// recording.
    Dependencies,
}

/// Error of a pace that is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time_percent: {0} is not allowed; must be 1 to 10000\nhint: 100 keeps the recorded times")]
pub struct PaceError(pub u32);

impl Pace {
    /// Recorded times.
    pub const AS_RECORDED: Pace = Pace::Recorded { idle_max_ns: None, time_percent: 100 };

    /// Returns the recorded times with idle intervals cut to `cap`.
    #[must_use]
    pub const fn idle_capped(cap: Nanos) -> Pace {
        Pace::Recorded { idle_max_ns: Some(cap.0), time_percent: 100 }
    }
}

/// Identifies an issued request in [`Pacer::completed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// Pacer of a replay. Cost per request: a few additions; with dependencies a heap push and pop.
#[derive(Debug)]
pub struct Pacer(Mode);

#[derive(Debug)]
enum Mode {
    Recorded(Schedule),
    Dependencies(Box<Dependencies>),
}

impl Pacer {
    /// Creates a pacer at the start of a replay.
    ///
    /// # Errors
    /// [`PaceError`] if the scale is out of bounds.
    pub fn new(pace: Pace) -> Result<Pacer, PaceError> {
        Ok(Pacer(match pace {
            Pace::Recorded { idle_max_ns, time_percent } => {
                let is_known = (1..=TIME_PERCENT_MAX).contains(&time_percent);
                refuse_if(!is_known, PaceError(time_percent))?;
                Mode::Recorded(Schedule::new(idle_max_ns, time_percent))
            }
            Pace::Dependencies => Mode::Dependencies(Box::new(Dependencies::new(DEPTH_MAX))),
        }))
    }

    /// Passes the next request of the recording; all previous ones must have been issued.
    ///
    /// `at` must not decrease. A request without a response time counts as done before any request
    /// with a later time; requests with the same time go together.
    #[inline]
    pub fn admit(&mut self, at: Nanos, response: Option<Nanos>) {
        match &mut self.0 {
            Mode::Recorded(schedule) => schedule.admit(at, response),
            Mode::Dependencies(dependencies) => dependencies.admit(at, response),
        }
    }

    /// Returns the earliest issue time of the last admitted request; `None` while a request that it
    /// depends on is outstanding. Never earlier than for the previous request.
    #[inline]
    #[must_use]
    pub fn release(&self) -> Option<Nanos> {
        match &self.0 {
            Mode::Recorded(schedule) => Some(schedule.due),
            Mode::Dependencies(d) => (d.missing == 0).then_some(d.gate),
        }
    }

    /// Issues the last admitted request now.
    ///
    /// # Panics
    /// If [`Pacer::release`] returned `None`.
    #[inline]
    pub fn issue(&mut self) -> Ticket {
        match &mut self.0 {
            Mode::Recorded(_) => Ticket(0),
            Mode::Dependencies(dependencies) => dependencies.issue(),
        }
    }

    /// Reports the completion of an issued request at `done`; in any order, once per request.
    #[inline]
    pub fn completed(&mut self, ticket: Ticket, done: Nanos) {
        if let Mode::Dependencies(dependencies) = &mut self.0 {
            dependencies.completed(ticket, done);
        }
    }
}

/// Recorded times minus the idle time that was cut, scaled.
#[derive(Debug)]
struct Schedule {
    /// Longest idle interval in recorded time.
    idle_max: u64,
    time_percent: u32,
    busy_until: u64,
    /// Recorded time cut so far; the time before the first request is kept.
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

/// Requests of the recording that the next one must wait for.
#[derive(Debug)]
struct Dependencies {
    /// Issued requests that have not ended in the recording yet: (recorded end, tag), earliest
    /// first.
    outstanding: BinaryHeap<Reverse<(u64, u32)>>,
    /// State of each tag.
    requests: Box<[RequestState]>,
    free: Vec<u32>,
    /// Recorded end of the last admitted request.
    end: u64,
    /// Latest completion among its dependencies.
    gate: Nanos,
    /// Number of its dependencies that are outstanding.
    missing: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestState {
    /// Outstanding in the replay; no request waits for it.
    Out,
    /// Outstanding in the replay; the last admitted request waits for it.
    Awaited,
    /// Completed in the replay at this time, still outstanding in the recording.
    Completed(Nanos),
    /// Unused tag.
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
        // A request without a response time ends before any later request, but not before another
        // one of the same time.
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
            RequestState::Completed(done) => self.free_tag(tag, done),
            RequestState::Out => {
                self.requests[tag as usize] = RequestState::Awaited;
                self.missing += 1;
            }
            RequestState::Awaited | RequestState::Free => {
                unreachable!("a request ends once in the recording")
            }
        }
    }

    fn free_tag(&mut self, tag: u32, done: Nanos) {
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
                self.free_tag(tag, done);
            }
            RequestState::Completed(_) | RequestState::Free => panic!("a request completes once"),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/pace.rs"]
mod tests;
