//! The replay loop: takes completions, issues due requests, and sleeps until just before the next
//! one.
//!
//! Times are absolute, since the start, so a late request does not delay later ones. It is issued
//! at once and counted. The last interval before a request is due is spent spinning, because a
//! sleeping thread wakes up tens of microseconds late; the loop does not spin while no request is
//! due soon. Left out: several submitting threads. Effect: at some 500,000 requests per second one
//! processor is saturated; requests are then late, and counted so.

use drivebay_trace::{Op, Pacer, Ticket};
use drivebay_units::Nanos;

use crate::clock::Clock;
use crate::control::{Control, Progress};
use crate::error::ReplayError;
use crate::options::ReplayOptions;
use crate::record::{Failure, Record};
use crate::source::{Item, Next, Skipped, Source};
use crate::uring::{Command, IoBackend, Queueing, WaitFor};

/// Delay from the call to the first request, so that the thread can sleep before it.
const START_DELAY: Nanos = Nanos::millis(5);
/// Longest sleep, which bounds the reaction time to a stop request.
const SLEEP_MAX: Nanos = Nanos::millis(50);
/// Length of a sleep while the trace is not read yet.
const UNREAD_SLEEP: Nanos = Nanos::micros(100);
/// Lateness above which a request counts as late.
const LATE_AFTER: Nanos = Nanos::micros(100);
/// Longest wait for outstanding requests after a stop: a drive's own time-out is 30 s in Linux.
const DRAIN_MAX: Nanos = Nanos::secs(35);

/// End of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// All requests were played.
    Complete,
    /// The time limit was reached.
    TimeUp,
    /// A stop was requested.
    Stopped,
    /// Too many requests failed.
    Failures,
    /// The trace is damaged, or the ring failed; the text is an error message.
    Broken(String),
}

/// Results of a replay, complete or partial.
#[derive(Clone)]
pub struct Outcome {
    /// Reason for the end of the replay.
    pub ended: EndReason,
    /// Counts, series and latencies of the replay.
    pub record: Record,
    /// Requests of the trace that were not played.
    pub skipped: Skipped,
    /// Time from start to end, including idle time at both ends.
    pub length: Nanos,
    /// Requests that never completed.
    pub unanswered: u64,
    /// True if the memory was registered with the kernel.
    pub fixed_buffers: bool,
    /// True if direct I/O bypassed the page cache.
    pub direct: bool,
}

#[derive(Clone, Copy)]
struct InFlight {
    number: u64,
    command: Command,
    due: Nanos,
    issued: Nanos,
    ticket: Ticket,
}

struct ReplayLoop<'a, P, C> {
    source: &'a mut dyn Source,
    pacer: Pacer,
    backend: &'a mut P,
    clock: &'a C,
    start: Nanos,
    options: ReplayOptions,
    capacity_bytes: u64,
    record: Record,
    slots: Box<[Option<InFlight>]>,
    free: Vec<u32>,
    /// Next request to issue.
    pending: Option<Item>,
    /// Times when a request last found the queue full, and when the trace was last not read in
    /// time. Requests due by then are late for that reason.
    full_at: Option<Nanos>,
    unread_at: Option<Nanos>,
    bytes: u64,
    ended: Option<EndReason>,
    /// True if the backend has failed and cannot be used any more.
    failed: bool,
}

/// Plays the requests of a source on a backend.
///
/// Nothing at or beyond `capacity_bytes` is sent: such a request fails with `EFBIG`, unsent.
///
/// # Errors
/// [`ReplayError::OutOfRange`]; later problems are in the outcome.
pub fn play<P: IoBackend, C: Clock>(
    source: &mut dyn Source,
    pacer: Pacer,
    backend: &mut P,
    clock: &C,
    capacity_bytes: u64,
    options: &ReplayOptions,
    control: &Control,
) -> Result<Outcome, ReplayError> {
    options.check()?;
    let mut replay_loop = ReplayLoop {
        source,
        pacer,
        backend,
        clock,
        start: clock.now().after(START_DELAY),
        options: *options,
        capacity_bytes,
        record: Record::default(),
        slots: vec![None; options.depth as usize].into(),
        free: (0..options.depth).rev().collect(),
        pending: None,
        full_at: None,
        unread_at: None,
        bytes: 0,
        ended: None,
        failed: false,
    };
    let length = replay_loop.run(control);
    let unanswered = replay_loop.out() as u64;
    let (ended, record) = (replay_loop.ended.expect("it has ended"), replay_loop.record);
    let (skipped, fixed_buffers, direct) = (source.skipped(), false, false);
    Ok(Outcome { ended, record, skipped, length, unanswered, fixed_buffers, direct })
}

impl<P: IoBackend, C: Clock> ReplayLoop<'_, P, C> {
    /// Runs to the end; returns the elapsed time.
    fn run(&mut self, control: &Control) -> Nanos {
        let mut give_up = None;
        loop {
            self.take_completions();
            let now = self.now();
            self.publish(control, now);
            if self.ended.is_none() {
                self.find_reason_to_end(control, now);
            }
            let due = if self.ended.is_none() { self.issue_all_due() } else { None };
            if self.ended.is_some() {
                let give_up = *give_up.get_or_insert(now.after(DRAIN_MAX));
                if self.out() == 0 || now > give_up {
                    return self.now();
                }
            }
            if self.failed {
                return self.now();
            }
            self.send(self.until(due));
        }
    }

    fn send(&mut self, until: WaitFor) {
        if let Err(error) = self.backend.send(until) {
            let text = format!("io_uring failed: {error}\nhint: see: dmesg | tail");
            self.ended = Some(EndReason::Broken(text));
            self.failed = true;
        }
    }

    /// Time since the start; zero before it.
    fn now(&self) -> Nanos {
        self.clock.now().since_or_zero(self.start)
    }

    fn out(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn publish(&self, control: &Control, now: Nanos) {
        control.publish(Progress {
            elapsed_ns: now.0,
            done: self.record.completed,
            bytes: self.bytes,
            late: self.record.late,
            failed: self.record.failed(),
        });
    }

    fn find_reason_to_end(&mut self, control: &Control, now: Nanos) {
        if control.cancelled() {
            self.ended = Some(EndReason::Stopped);
        } else if self.options.length_max().is_some_and(|max| now >= max) {
            self.ended = Some(EndReason::TimeUp);
        } else if self.options.failures_max.is_some_and(|most| self.record.failed() > most) {
            self.ended = Some(EndReason::Failures);
        }
    }

    fn take_completions(&mut self) {
        while let Some((slot, result)) = self.backend.reap() {
            let now = self.now();
            let flight = self.slots[slot as usize].take().expect("only what is out comes back");
            self.free.push(slot);
            let InFlight { number, command, due, issued, ticket } = flight;
            self.record.complete(number, command, result, (due, issued), now);
            self.bytes += u64::try_from(result).map_or(0, |moved| moved.min(command.bytes));
            self.pacer.completed(ticket, now);
        }
    }

    /// Issues all due requests; returns the time when the next one is due, if known.
    fn issue_all_due(&mut self) -> Option<Nanos> {
        if self.clock.now() < self.start {
            return Some(Nanos::ZERO);
        }
        let now = self.now();
        loop {
            if self.failed {
                return None;
            }
            if self.pending.is_none() && !self.fetch(now) {
                return self.ended.is_none().then(|| now.after(UNREAD_SLEEP));
            }
            let due = self.pacer.release()?;
            if due > now {
                return Some(due);
            }
            let item = self.pending.expect("fetched");
            let Some(command) = item.command else {
                self.skip(due);
                continue;
            };
            if !self.fits(&command) {
                self.refuse(item.number, command, now);
                continue;
            }
            let queued = match self.free.last() {
                Some(slot) => self.backend.queue(*slot, &command),
                None => Queueing::NoMemory,
            };
            match queued {
                // Each command is sent separately: the drive starts with the first while the next
                // is prepared, and no request waits between its time stamp and the system call.
                Queueing::Yes => {
                    self.issued(item.number, command, due);
                    self.send(WaitFor::Now);
                }
                Queueing::NoMemory => {
                    self.full_at = Some(now);
                    return None;
                }
                Queueing::TooLong => self.refuse(item.number, command, now),
            }
        }
    }

    /// Fetches the next request; returns true if there is one now.
    fn fetch(&mut self, now: Nanos) -> bool {
        match self.source.next() {
            Next::Item(item) => {
                self.pacer.admit(item.at, item.response);
                self.pending = Some(item);
                return true;
            }
            Next::NotYet => self.unread_at = Some(now),
            Next::End => self.ended = Some(EndReason::Complete),
            Next::Broken(text) => self.ended = Some(EndReason::Broken(text)),
        }
        false
    }

    fn fits(&self, command: &Command) -> bool {
        let end = command.offset_bytes.checked_add(command.bytes);
        end.is_some_and(|end| end <= self.capacity_bytes)
    }

    /// Completes a skipped request at the time when it may be issued.
    fn skip(&mut self, due: Nanos) {
        self.pending = None;
        let ticket = self.pacer.issue();
        self.pacer.completed(ticket, due);
    }

    /// Fails a request that cannot be sent.
    fn refuse(&mut self, number: u64, command: Command, now: Nanos) {
        self.record.fail(Failure { number, command, errno: libc::EFBIG, at: now });
        self.skip(now);
    }

    fn issued(&mut self, number: u64, command: Command, due: Nanos) {
        self.pending = None;
        let slot = self.free.pop().expect("it was queued there");
        let now = self.now();
        self.record.issue(command.op, due, now);
        let ticket = self.pacer.issue();
        let late = now.since_or_zero(due);
        let (full, unread) = (self.full_at >= Some(due), self.unread_at >= Some(due));
        self.record.lateness(late, LATE_AFTER, full, unread);
        let flight = InFlight { number, command, due, issued: now, ticket };
        self.slots[slot as usize] = Some(flight);
    }

    /// Returns how long the loop may sleep.
    fn until(&self, due: Option<Nanos>) -> WaitFor {
        let Some(due) = due else { return WaitFor::Completion(SLEEP_MAX) };
        // `now` is zero until the start, so the clock itself is used.
        let left = self.start.after(due).since_or_zero(self.clock.now());
        if left <= self.options.spin() {
            return WaitFor::Now;
        }
        WaitFor::After(left.since(self.options.spin()).min(SLEEP_MAX))
    }
}

const _: () = assert!(Op::WriteFua as usize == 4, "one histogram for each other operation");
