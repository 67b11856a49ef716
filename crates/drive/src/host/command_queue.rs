//! Requests on their way to the flash core, in the order of arrival.
//!
//! Those that come straight from the host core keep their order, and so do those whose data passes the
//! write path first: two queues, merged by time. A half-duplex controller's arbiter chooses between them; where
//! writes are admitted, they wait for that, and the others pass.

use std::collections::VecDeque;

use drivebay_units::Nanos;

use crate::host::admission::Admission;
use crate::host::arbiter::{Arbiter, Head};
use crate::io::{Io, NextCommand, Op};
use crate::persist::{StateError, ensure, persist};
use crate::profile::Spec;
use crate::stage::{Stage, Stages};
use crate::timeline::NEVER;

/// A request that waits for the flash core.
#[derive(Clone, Copy)]
pub struct QueuedRequest {
    /// When it reaches the flash core.
    pub arrival: Nanos,
    pub tag: u32,
    pub io: Io,
    pub submitted: Nanos,
    pub stages: Stages,
}

persist!(QueuedRequest: arrival, tag, io, submitted, stages);

impl Default for QueuedRequest {
    fn default() -> QueuedRequest {
        let io = Io { op: Op::Read, lba: 0, sectors: 0 };
        let (arrival, submitted) = (NEVER, NEVER);
        QueuedRequest { arrival, tag: 0, io, submitted, stages: Stages::default() }
    }
}

/// Requests that come straight from the host core.
const DIRECT: usize = 0;
/// Requests whose data passes the write path.
const WITH_DATA: usize = 1;

/// Requests on their way.
pub struct CommandQueue {
    queues: [VecDeque<QueuedRequest>; 2],
    /// When the first of each queue arrives or is admitted; with an arbiter, when the one that it chooses goes on.
    arrivals: [Nanos; 2],
    arbiter: Option<Box<Arbiter>>,
    admission: Option<Box<Admission>>,
    /// There is an arbiter or an admission.
    has_turns: bool,
}

persist!(CommandQueue: queues, arbiter, admission; given: arrivals, has_turns);

impl CommandQueue {
    pub fn new(spec: &Spec) -> CommandQueue {
        CommandQueue {
            queues: Default::default(),
            arrivals: [NEVER; 2],
            arbiter: spec.half_duplex.map(|half| Box::new(Arbiter::new(half))),
            admission: spec.admission.map(|spec| Box::new(Admission::new(spec))),
            has_turns: spec.half_duplex.is_some() || spec.admission.is_some(),
        }
    }

    /// Whether a request may wait for more than its arrival.
    #[inline(always)]
    pub fn has_turns(&self) -> bool {
        self.has_turns
    }

    /// Whether reads and writes are served in turns.
    #[inline(always)]
    pub fn is_half_duplex(&self) -> bool {
        self.arbiter.is_some()
    }

    /// When the next one arrives; the end of time if none is on its way.
    #[inline(always)]
    pub fn next_arrival(&self) -> Nanos {
        self.arrivals[DIRECT].min(self.arrivals[WITH_DATA])
    }

    /// The next one. It is settled if it comes straight: only what waits for data, or for its turn, can be
    /// passed.
    pub fn next(&self) -> Option<NextCommand> {
        let straight = self.arrivals[DIRECT] <= self.arrivals[WITH_DATA];
        let next = self.queues[usize::from(!straight)].front()?;
        let at = self.next_arrival();
        let settled = straight && !self.is_half_duplex() && at == next.arrival;
        Some(NextCommand { tag: next.tag, at, settled })
    }

    #[inline(always)]
    pub fn push(&mut self, request: QueuedRequest) {
        let queue = if request.io.op.is_write() { WITH_DATA } else { DIRECT };
        self.arrivals[queue] = self.arrivals[queue].min(request.arrival);
        self.queues[queue].push_back(request);
        if self.has_turns {
            self.arrange();
        }
    }

    /// Takes the next one; of two that arrive together the one that came straight.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<QueuedRequest> {
        let queue = usize::from(self.arrivals[WITH_DATA] < self.arrivals[DIRECT]);
        let request = self.queues[queue].pop_front();
        self.arrivals[queue] = self.queues[queue].front().map_or(NEVER, |next| next.arrival);
        request
    }

    /// [`CommandQueue::pop`] of a half-duplex controller; from when on the request has the data path as well.
    #[cold]
    pub fn grant(&mut self) -> Option<(QueuedRequest, Nanos)> {
        let due = self.next_arrival();
        let queue = usize::from(self.arrivals[WITH_DATA] < self.arrivals[DIRECT]);
        let request = self.queues[queue].pop_front()?;
        let has_data = request.io.data_bytes() > 0;
        let begin = self.arbiter.as_mut().map_or(due, |a| a.grant(queue, has_data, due));
        self.arrange();
        Some((request, begin))
    }

    /// [`CommandQueue::pop`] where writes are admitted: the request as it goes on to the flash core.
    /// What a write waited until it was admitted is booked as a wait for room in the buffer.
    #[cold]
    pub fn let_in(&mut self) -> Option<QueuedRequest> {
        let mut request = self.pop()?;
        if request.io.op.is_write()
            && let Some(admission) = &self.admission
        {
            let at = admission.open_at().max(request.arrival);
            request.stages.add(Stage::Buffer, at.since(request.arrival));
            request.arrival = at;
        }
        self.arrange();
        Some(request)
    }

    /// A write was let in: see [`Admission::let_in`].
    pub fn follow_write(&mut self, at: Nanos, room: Nanos, paced: bool, written: u64) {
        self.admission.iter_mut().for_each(|admission| admission.let_in(at, room, paced, written));
        self.arrange();
    }

    /// See [`Admission::follow_read`].
    pub fn follow_read(&mut self, at: Nanos) {
        if self.admission.as_mut().is_some_and(|admission| admission.follow_read(at)) {
            self.arrange();
        }
    }

    /// See [`Admission::is_pressed`].
    pub fn is_pressed(&self) -> bool {
        self.admission.as_ref().is_some_and(|admission| admission.is_pressed())
    }

    /// See [`Admission::looks`].
    pub fn looks(&self, written: u64) -> bool {
        self.admission.as_ref().is_some_and(|admission| admission.looks(written))
    }

    /// See [`Admission::look`].
    pub fn look(&mut self, written: u64, taken_64: u32) {
        let admission = self.admission.iter_mut();
        admission.for_each(|admission| admission.look(written, taken_64));
    }

    /// A request that was granted is off the data path at `at`.
    pub fn release(&mut self, at: Nanos) {
        self.arbiter.iter_mut().for_each(|arbiter| arbiter.release(at));
        self.arrange();
    }

    /// Works out when the heads go on.
    #[cold]
    fn arrange(&mut self) {
        let head = |queue: &VecDeque<QueuedRequest>| match queue.front() {
            Some(next) => Head { arrival: next.arrival, has_data: next.io.data_bytes() > 0 },
            None => Head { arrival: NEVER, has_data: false },
        };
        let heads = [head(&self.queues[DIRECT]), head(&self.queues[WITH_DATA])];
        if let Some(arbiter) = &self.arbiter {
            self.arrivals = arbiter.due(heads);
        } else {
            self.arrivals = heads.map(|head| head.arrival);
        }
        if let Some(admission) = &self.admission {
            let write = &mut self.arrivals[WITH_DATA];
            *write = admission.open_at().max(*write);
        }
    }

    /// Works out what follows from queues that were read back.
    pub fn derive(&mut self) {
        self.arrange();
    }

    /// Whether all requests are `allowed`, their stages add up, and each queue is in order; so many pages are `written`.
    pub fn check(&self, allowed: impl Fn(Io) -> bool, written: u64) -> Result<(), StateError> {
        self.arbiter.iter().try_for_each(|arbiter| arbiter.check())?;
        self.admission.iter().try_for_each(|admission| admission.check(written))?;
        for queue in &self.queues {
            for request in queue {
                let fits = allowed(request.io) && request.submitted <= request.arrival;
                let spent = request.stages.0.iter().try_fold(0u64, |sum, &ns| sum.checked_add(ns));
                let since = request.arrival.since_or_zero(request.submitted);
                ensure(fits && spent == Some(since.0), "a request on its way")?;
            }
            let pairs = queue.iter().zip(queue.iter().skip(1));
            let ordered = pairs.into_iter().all(|(a, b)| a.arrival <= b.arrival);
            ensure(ordered, "the order of requests")?;
        }
        Ok(())
    }
}
