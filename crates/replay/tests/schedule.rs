//! Tests of the replay loop with a simulated drive and clock: issue times and reported results.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use drivebay_replay::{
    Clock, Command, Control, EndReason, IoBackend, Item, Next, Outcome, Queueing, ReplayError,
    ReplayOptions, Source, WaitFor, play,
};
use drivebay_trace::{Op, Pace, Pacer};
use drivebay_units::{Histogram, Nanos};

/// A clock that advances a little at each reading, and during sleeps.
#[derive(Default)]
struct Time(Cell<u64>);

impl Clock for Time {
    fn now(&self) -> Nanos {
        self.0.set(self.0.get() + 100);
        Nanos(self.0.get())
    }
}

/// A drive that serves its commands in parallel, each in `takes`.
struct Drive<'a> {
    time: &'a Time,
    takes: Nanos,
    /// Additional length of each sleep.
    oversleeps: Nanos,
    /// Reads from this address on fail.
    ends_at: u64,
    queued: Vec<(u32, Command)>,
    out: BinaryHeap<Reverse<(u64, u32, i32)>>,
    issued: &'a RefCell<Vec<(u64, Command)>>,
    slept: Cell<u64>,
}

impl IoBackend for Drive<'_> {
    fn queue(&mut self, slot: u32, command: &Command) -> Queueing {
        self.queued.push((slot, *command));
        Queueing::Yes
    }

    fn send(&mut self, until: WaitFor) -> io::Result<()> {
        let now = self.time.0.get();
        for (slot, command) in self.queued.drain(..) {
            self.issued.borrow_mut().push((now, command));
            let fails = command.op == Op::Read && command.offset_bytes >= self.ends_at;
            let result = if fails { -libc::EIO } else { command.bytes as i32 };
            self.out.push(Reverse((now + self.takes.0, slot, result)));
        }
        if let WaitFor::After(length) | WaitFor::Completion(length) = until {
            self.slept.set(self.slept.get() + 1);
            let end = now + length.0 + self.oversleeps.0;
            let first = self.out.peek().map_or(end, |Reverse((done, ..))| *done);
            self.time.0.set(end.min(first).max(now));
        }
        Ok(())
    }

    fn reap(&mut self) -> Option<(u32, i32)> {
        let Reverse((done, slot, result)) = *self.out.peek()?;
        (done <= self.time.0.get()).then(|| {
            self.out.pop();
            (slot, result)
        })
    }
}

/// Requests at given milliseconds, each with a recorded response time of one millisecond.
struct List(std::vec::IntoIter<Item>);

impl List {
    fn reads(at_ms: &[u64]) -> List {
        let item = |(number, at): (usize, &u64)| Item {
            number: number as u64,
            at: Nanos::millis(*at),
            response: Some(Nanos::millis(1)),
            command: Some(Command {
                op: Op::Read,
                offset_bytes: 4096 * number as u64,
                bytes: 4096,
            }),
        };
        List(at_ms.iter().enumerate().map(item).collect::<Vec<_>>().into_iter())
    }
}

impl Source for List {
    fn next(&mut self) -> Next {
        self.0.next().map_or(Next::End, Next::Item)
    }
}

struct Run {
    takes: Nanos,
    oversleeps: Nanos,
    ends_at: u64,
    pace: Pace,
    options: ReplayOptions,
    capacity_bytes: u64,
    /// Progress and stop flag of the replay.
    control: Control,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            takes: Nanos::millis(1),
            oversleeps: Nanos::ZERO,
            ends_at: u64::MAX,
            pace: Pace::AS_RECORDED,
            options: ReplayOptions::default(),
            capacity_bytes: 1 << 30,
            control: Control::default(),
        }
    }
}

impl Run {
    /// Returns the outcome, and the issue time of each command since the first was due.
    fn play(&self, mut source: impl Source) -> (Outcome, Vec<(Nanos, Command)>) {
        let (outcome, issued, _) = self.play_counting_sleeps(&mut source);
        (outcome, issued)
    }

    fn play_counting_sleeps(
        &self,
        source: &mut dyn Source,
    ) -> (Outcome, Vec<(Nanos, Command)>, u64) {
        let (time, issued) = (Time::default(), RefCell::new(Vec::new()));
        let mut drive = Drive {
            time: &time,
            takes: self.takes,
            oversleeps: self.oversleeps,
            ends_at: self.ends_at,
            queued: Vec::new(),
            out: BinaryHeap::new(),
            issued: &issued,
            slept: Cell::new(0),
        };
        let pacer = Pacer::new(self.pace).expect("an allowed pace");
        let outcome = play(
            source,
            pacer,
            &mut drive,
            &time,
            self.capacity_bytes,
            &self.options,
            &self.control,
        );
        let slept = drive.slept.get();
        drop(drive);
        // The first reading of the clock is 100 ns after zero; the start delay is 5 ms.
        let start = 100 + 5_000_000;
        let since = |(at, command)| (Nanos(at).since(Nanos(start)), command);
        let issued = issued.into_inner().into_iter().map(since).collect();
        (outcome.expect("allowed options"), issued, slept)
    }
}

/// A few readings of the clock.
const A_LITTLE: u64 = 2_000;

#[test]
fn every_request_is_issued_at_its_time_and_not_before() {
    let at = [0, 3, 3, 10, 500, 501];
    let (outcome, issued) = Run::default().play(List::reads(&at));
    assert_eq!(outcome.ended, EndReason::Complete);
    for (at, (issued, _)) in at.iter().zip(&issued) {
        let late = issued.0.checked_sub(Nanos::millis(*at).0).expect("never early");
        assert!(late <= A_LITTLE, "due at {at} ms, issued at {issued:?}");
    }
    assert_eq!((outcome.record.issued, outcome.record.completed, outcome.record.late), (6, 6, 0));
    assert_eq!(outcome.unanswered, 0);
}

#[test]
fn late_wake_ups_are_counted_and_do_not_add_up() {
    let oversleeps = Nanos::millis(2);
    let at: Vec<u64> = (0..100).map(|n| n * 20).collect();
    let options = ReplayOptions { spin_us: 0, ..ReplayOptions::default() };
    let (outcome, issued) = Run { oversleeps, options, ..Run::default() }.play(List::reads(&at));
    let record = &outcome.record;
    assert_eq!((record.late, record.late_queue_full, record.late_not_read), (100, 0, 0));
    assert!(record.lateness_max.0.abs_diff(oversleeps.0) <= A_LITTLE);
    assert_eq!(record.lateness.bins().map(|bin| bin.count).sum::<u64>(), 100);
    let (last, _) = issued.last().expect("a hundred");
    assert!(last.0.abs_diff(99 * 20_000_000 + oversleeps.0) <= A_LITTLE, "no drift");
    // Spinning helps only if the sleep ends within its margin.
    let spinning = ReplayOptions { spin_us: 3_000, ..options };
    let (outcome, _) =
        Run { oversleeps, options: spinning, ..Run::default() }.play(List::reads(&at));
    assert_eq!(outcome.record.late, 0, "the margin takes it");
}

#[test]
fn a_full_queue_makes_requests_late_and_is_reported() {
    let options = ReplayOptions { depth: 2, ..ReplayOptions::default() };
    let takes = Nanos::millis(10);
    let (outcome, issued) = Run { takes, options, ..Run::default() }.play(List::reads(&[0; 6]));
    let record = &outcome.record;
    assert_eq!((record.late, record.late_queue_full), (4, 4));
    assert_eq!((record.outstanding_max, record.by_depth), (2, [3, 3, 0, 0, 0, 0, 0, 0]));
    assert!(issued[4].0.0.abs_diff(20_000_000) <= A_LITTLE * 2);
    // The wait is part of the latency, and separate from the drive's part.
    let worst = |histogram: &Histogram| histogram.bins().last().expect("six").high;
    assert!(worst(&record.service[0]) < 10_400_000);
    assert!(worst(&record.latency[0]) >= 30_000_000);
    assert!(record.lateness_max.0 >= 20_000_000);
    assert_eq!(record.long, [6, 0], "10 ms and a little, 20, 30");
    assert!(record.busy.0.abs_diff(30_000_000) <= A_LITTLE * 3, "busy from the release on");
    let waited = (2 * 10 + 2 * 20 + 2 * 30) * 1_000_000;
    assert!(record.outstanding_ns.abs_diff(waited) <= u128::from(A_LITTLE) * 20);
}

#[test]
fn outstanding_agrees_with_littles_law() {
    let takes = Nanos::millis(7);
    let at: Vec<u64> = (0..200).map(|n| n * 3 + n % 7).collect();
    let (outcome, _) = Run { takes, ..Run::default() }.play(List::reads(&at));
    let record = &outcome.record;
    let mean_latency = record.latency_ns_sum[0] as f64 / 200.0;
    let rate = 200.0 / record.end.0 as f64;
    let outstanding = record.outstanding_ns as f64 / record.end.0 as f64;
    assert!((rate * mean_latency / outstanding - 1.0).abs() < 1e-3);
    assert!(record.busy <= record.end && record.busy.0 > record.end.0 * 9 / 10);
    assert_eq!(record.rows.iter().map(|row| row.reads).sum::<u64>(), 200);
}

#[test]
fn nothing_is_spun_while_nothing_is_due() {
    let at = [0, 1000];
    let (_, _, slept) = Run::default().play_counting_sleeps(&mut List::reads(&at));
    // The stop flag is checked every 50 ms, and before and after each request.
    assert!((20..=30).contains(&slept), "{slept}");
}

#[test]
fn failures_are_listed_with_their_place_and_are_in_no_latency() {
    let run = Run { ends_at: 3 * 4096, ..Run::default() };
    let (outcome, _) = run.play(List::reads(&[0, 1, 2, 3, 4]));
    let record = &outcome.record;
    assert_eq!(outcome.ended, EndReason::Complete);
    assert_eq!(record.failures.get(&(Op::Read, libc::EIO)), Some(&2));
    let numbers: Vec<u64> = record.listed.iter().map(|failure| failure.number).collect();
    assert_eq!(numbers, [3, 4]);
    assert_eq!(record.listed[0].command.offset_bytes, 3 * 4096);
    assert_eq!(record.latency[0].bins().map(|bin| bin.count).sum::<u64>(), 3);
    let options = ReplayOptions { failures_max: Some(0), ..ReplayOptions::default() };
    let (outcome, _) =
        Run { ends_at: 4096, options, ..Run::default() }.play(List::reads(&[0, 10, 20, 30]));
    assert_eq!((outcome.ended, outcome.record.issued), (EndReason::Failures, 2));
}

#[test]
fn nothing_beyond_the_capacity_is_sent() {
    let run = Run { capacity_bytes: 2 * 4096, ..Run::default() };
    let (outcome, issued) = run.play(List::reads(&[0, 1, 2, 3]));
    assert_eq!(issued.len(), 2);
    assert_eq!(outcome.record.failures.get(&(Op::Read, libc::EFBIG)), Some(&2));
    assert_eq!(outcome.record.issued, 2);
}

#[test]
fn dependencies_are_kept_and_skipped_requests_take_no_time() {
    // Recorded one after the other with a pause; the drive takes 5 ms each.
    let mut items: Vec<Item> = List::reads(&[0, 100, 200, 300]).0.collect();
    items[1].command = None;
    let run = Run { takes: Nanos::millis(5), pace: Pace::Dependencies, ..Run::default() };
    let (outcome, issued) = run.play(List(items.into_iter()));
    assert_eq!(outcome.ended, EndReason::Complete);
    let at: Vec<u64> = issued.iter().map(|(at, _)| at.0 / 1_000_000).collect();
    assert_eq!(at, [0, 5, 10]);
}

#[test]
fn a_stop_keeps_the_results_so_far() {
    struct StopsAt<'a>(List, u64, &'a Control);
    impl Source for StopsAt<'_> {
        fn next(&mut self) -> Next {
            let next = self.0.next();
            if matches!(next, Next::Item(item) if item.number == self.1) {
                self.2.cancel();
            }
            next
        }
    }
    let run = Run { takes: Nanos::millis(40), ..Run::default() };
    let source = StopsAt(List::reads(&[0, 10, 20, 30, 1000]), 4, &run.control);
    let (outcome, issued) = run.play(source);
    assert_eq!((outcome.ended, issued.len()), (EndReason::Stopped, 4));
    assert_eq!((outcome.record.completed, outcome.unanswered), (4, 0));
    assert_eq!(run.control.progress().done, 4);
}

#[test]
fn a_damaged_trace_keeps_the_results_so_far() {
    struct Breaks(List);
    impl Source for Breaks {
        fn next(&mut self) -> Next {
            match self.0.next() {
                Next::End => Next::Broken("line 3: what".to_string()),
                next => next,
            }
        }
    }
    let (outcome, _) = Run::default().play(Breaks(List::reads(&[0, 1])));
    assert_eq!(outcome.ended, EndReason::Broken("line 3: what".to_string()));
    assert_eq!(outcome.record.completed, 2);
}

#[test]
fn depths_are_bounded() {
    for depth in [0, 4097] {
        let options = ReplayOptions { depth, ..ReplayOptions::default() };
        assert!(matches!(options.check(), Err(ReplayError::OutOfRange { .. })));
    }
}
