//! The scheduler: the firmware's next work, and the time when it begins.
//!
//! Work has classes. The host's commands wait for the flash core in the order of arrival: those
//! that come straight from the host core keep their order, and so do writes, whose data passes the
//! write path first: two queues, merged by time. A rule sets when the head of each may go on. The
//! drive's own work has no queue: it is done after a command, or while the flash core has none
//! ([`WorkClass`]). Time does not go back: a command is served once nothing that begins before it
//! can come any more, so that every resource after the core is asked in time order.

mod half_duplex;

use std::collections::VecDeque;

use drivebay_units::Nanos;

use crate::firmware::zones::NO_STREAM;
use crate::host::admission::Admission;
use crate::io::{Io, NextCommand, Op};
use crate::persist::{StateError, ensure, persist, persist_variant};
use crate::profile::Spec;
use crate::stage::{Stage, Stages};
use crate::timeline::NEVER;
use half_duplex::{HalfDuplex, Head};

/// A class of work that the drive does for itself.
#[derive(Clone, Copy, Debug)]
pub enum WorkClass {
    /// Data of the SLC cache goes to superblocks with all bits per cell.
    Fold,
    /// Garbage collection copies valid pages.
    Copy,
    /// Garbage collection of a superblock that was read too often, or with too many errors.
    Refresh,
    /// The map's journal.
    Journal,
}

impl WorkClass {
    /// Work after a write, in this order.
    pub const BEHIND_WRITE: [WorkClass; 3] = [WorkClass::Fold, WorkClass::Copy, WorkClass::Journal];
    /// Work after a read whose data was decoded.
    pub const BEHIND_READ: [WorkClass; 1] = [WorkClass::Refresh];
}

/// A request on its way to the flash core.
#[derive(Clone, Copy)]
pub struct Request {
    /// When it reaches the flash core; once it is taken, from when on it may be served.
    pub begin: Nanos,
    pub tag: u32,
    pub io: Io,
    pub submitted: Nanos,
    pub stages: Stages,
    /// Rest of a command that is done in steps; zero before the first.
    pub left: Nanos,
}

persist!(Request: begin, tag, io, submitted, stages, left);

impl Default for Request {
    fn default() -> Request {
        let io = Io::new(Op::Read, 0, 0);
        let (stages, left) = (Stages::default(), Nanos::ZERO);
        Request { begin: NEVER, tag: 0, io, submitted: NEVER, stages, left }
    }
}

/// Time when the heads of the queues may go on.
enum Rule {
    /// From their arrival.
    InOrder,
    /// In turns, which reads and writes have on one data path.
    HalfDuplex(Box<HalfDuplex>),
    /// Writes once they are admitted; reads pass them.
    Admission(Box<Admission>),
}

persist_variant!(Rule: HalfDuplex, Admission; without state: InOrder);

/// The queue of requests that come straight from the host core.
const DIRECT: usize = 0;
/// Queue of requests whose data passes the write path.
const WITH_DATA: usize = 1;

/// Requests on their way, and the rule that holds for them.
pub struct Scheduler {
    queues: [VecDeque<Request>; 2],
    rule: Rule,
    /// Time when the head of each queue goes on, as far as is known; in turns only that of the
    /// first to do so.
    due: [Nanos; 2],
}

persist!(Scheduler: queues, rule; given: due);

/// State of the flash after a write, where writes are admitted.
pub struct Room {
    /// From when on there is room for another write.
    pub at: Nanos,
    /// Garbage collection runs.
    pub paced: bool,
    /// Pages that the host has written so far.
    pub written: u64,
    /// Part of the write buffer that is taken, in 1/64, if admission samples it now.
    pub taken_64: Option<u32>,
}

impl Scheduler {
    pub fn new(spec: &Spec) -> Scheduler {
        let rule = match (spec.half_duplex, spec.admission) {
            (Some(half), _) => Rule::HalfDuplex(Box::new(HalfDuplex::new(half))),
            (None, Some(admission)) => Rule::Admission(Box::new(Admission::new(admission))),
            (None, None) => Rule::InOrder,
        };
        Scheduler { queues: Default::default(), rule, due: [NEVER; 2] }
    }

    /// Time when the next request goes on; the end of time if none is on its way.
    #[inline(always)]
    pub fn next_at(&self) -> Nanos {
        self.due[DIRECT].min(self.due[WITH_DATA])
    }

    /// The next one. It is settled if it comes straight: only what waits for data, or for its turn,
    /// can be passed.
    pub fn peek(&self) -> Option<NextCommand> {
        let queue = self.next_queue();
        let next = self.queues[queue].front()?;
        let at = self.next_at();
        let settled = queue == DIRECT && !self.is_half_duplex() && at == next.begin;
        Some(NextCommand { tag: next.tag, at, settled })
    }

    /// The queue of the next one; of two that come together that of the one that comes straight.
    #[inline(always)]
    fn next_queue(&self) -> usize {
        usize::from(self.due[WITH_DATA] < self.due[DIRECT])
    }

    /// Takes a request on its way.
    #[inline(always)]
    pub fn push(&mut self, request: Request) {
        let op = request.io.op;
        if op.is_zone_management() {
            return self.push_step(request);
        }
        let queue = if op.is_write() { WITH_DATA } else { DIRECT };
        self.due[queue] = self.due[queue].min(request.begin);
        self.queues[queue].push_back(request);
        if !self.is_in_order() {
            self.arrange();
        }
    }

    /// Takes a step of a zone's command. The first keeps its order among writes, behind which it
    /// waits; later ones let what has come meanwhile go before.
    #[cold]
    fn push_step(&mut self, mut request: Request) {
        let is_first = request.left == Nanos::ZERO;
        let queue = &mut self.queues[if is_first { WITH_DATA } else { DIRECT }];
        if is_first && let Some(last) = queue.back() {
            let wait = last.begin.since_or_zero(request.begin);
            request.stages.add(Stage::Firmware, wait);
            request.begin = request.begin.after(wait);
        }
        let at = queue.partition_point(|other| other.begin <= request.begin);
        queue.insert(at, request);
        self.arrange();
    }

    /// A zone's finish that has not ended, as the zone is reset, leaves its write stream alone.
    #[cold]
    pub fn end_finish(&mut self, lba: u64) {
        for request in self.queues.iter_mut().flatten() {
            if request.io.op == Op::ZoneFinish && request.io.lba == lba {
                request.io.handle = NO_STREAM;
            }
        }
    }

    /// Sectors to be written by requests that wait.
    pub fn waiting_sectors(&self) -> u64 {
        let writes = self.queues.iter().flatten().filter(|request| request.io.op.is_write());
        writes.map(|request| u64::from(request.io.sectors)).sum()
    }

    /// Zones' resets that have not begun.
    pub fn resets(&self) -> impl Iterator<Item = Io> {
        let is_first = |request: &&Request| request.left == Nanos::ZERO;
        let first = self.queues.iter().flatten().filter(is_first).map(|request| request.io);
        first.filter(|io| io.op == Op::ZoneReset)
    }

    /// Takes the next request, of which there must be one; it may begin at its `begin`, and what it
    /// waited for that is booked.
    #[inline(always)]
    pub fn next(&mut self) -> Request {
        let (queue, due) = (self.next_queue(), self.next_at());
        let next = self.queues[queue].front();
        let mut request = *next.expect("a request was accepted and not yet served");
        self.queues[queue].pop_front();
        self.due[queue] = self.queues[queue].front().map_or(NEVER, |next| next.begin);
        if !self.is_in_order() {
            self.grant(&mut request, queue, due);
        }
        request
    }

    #[cold]
    #[inline(never)]
    fn grant(&mut self, request: &mut Request, queue: usize, due: Nanos) {
        let (begin, stage) = match &mut self.rule {
            Rule::HalfDuplex(path) => {
                (path.grant(queue, request.io.data_bytes() > 0, due), Stage::Firmware)
            }
            Rule::Admission(admission) if queue == WITH_DATA => {
                (admission.open_at().max(request.begin), Stage::Buffer)
            }
            _ => (request.begin, Stage::Buffer),
        };
        request.stages.add(stage, begin.since(request.begin));
        request.begin = begin;
        self.arrange();
    }

    /// True if reads and writes have one data path in turns: a write's data moves once it has the
    /// path.
    #[inline(always)]
    pub fn is_half_duplex(&self) -> bool {
        matches!(self.rule, Rule::HalfDuplex(_))
    }

    /// True if requests go on from their arrival.
    #[inline(always)]
    pub fn is_in_order(&self) -> bool {
        matches!(self.rule, Rule::InOrder)
    }

    /// A request is off the half-duplex data path at `at`.
    pub fn release(&mut self, at: Nanos) {
        if let Rule::HalfDuplex(path) = &mut self.rule {
            path.release(at);
            self.arrange();
        }
    }

    /// A request that began at `begin` was served, and was done at `ready`: what that says to those
    /// that wait. `room` is asked behind a write that was admitted.
    #[cold]
    #[inline(never)]
    pub fn follow(
        &mut self,
        op: Op,
        [begin, ready]: [Nanos; 2],
        room: impl FnOnce(&Admission) -> Room,
    ) {
        match &mut self.rule {
            Rule::HalfDuplex(path) if op == Op::Read => path.release(ready),
            Rule::Admission(admission) if op == Op::Read => {
                admission.follow_read(begin);
            }
            Rule::Admission(admission) if op.is_write() => {
                let Room { at, paced, written, taken_64 } = room(admission);
                if let Some(taken_64) = taken_64 {
                    admission.sample(written, taken_64);
                }
                admission.admit(begin, at, paced, written);
            }
            _ => return,
        }
        self.arrange();
    }

    /// True if the write buffer fills, as far as admission knows.
    #[inline(always)]
    pub fn has_backpressure(&self) -> bool {
        matches!(&self.rule, Rule::Admission(admission) if admission.has_backpressure())
    }

    /// Derives when the heads go on.
    #[cold]
    pub fn arrange(&mut self) {
        let head = |queue: &VecDeque<Request>| match queue.front() {
            Some(next) => Head { arrival: next.begin, has_data: next.io.data_bytes() > 0 },
            None => Head { arrival: NEVER, has_data: false },
        };
        let heads = [head(&self.queues[DIRECT]), head(&self.queues[WITH_DATA])];
        let [direct, with_data] = heads.map(|head| head.arrival);
        self.due = match &self.rule {
            Rule::InOrder => [direct, with_data],
            Rule::HalfDuplex(path) => path.due(heads),
            Rule::Admission(admission) => [direct, admission.open_at().max(with_data)],
        };
    }

    /// Checks that all requests are `allowed`, their stages add up, and each queue is in order; so
    /// many pages are `written`.
    pub fn check(&self, allowed: impl Fn(Io) -> bool, written: u64) -> Result<(), StateError> {
        match &self.rule {
            Rule::InOrder => {}
            Rule::HalfDuplex(path) => path.check()?,
            Rule::Admission(admission) => admission.check(written)?,
        }
        for queue in &self.queues {
            for request in queue {
                let fits = allowed(request.io) && request.submitted <= request.begin;
                let spent = request.stages.0.iter().try_fold(0u64, |sum, &ns| sum.checked_add(ns));
                let since = request.begin.since_or_zero(request.submitted);
                ensure(fits && spent == Some(since.0), "a request on its way")?;
            }
            let ordered = queue.iter().zip(queue.iter().skip(1)).all(|(a, b)| a.begin <= b.begin);
            ensure(ordered, "the order of requests")?;
        }
        Ok(())
    }
}
