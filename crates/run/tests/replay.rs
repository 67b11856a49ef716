//! Tests of whole replays: invariants that hold for any recording, and repeatable results.

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Spec};
use drivebay_run::{Control, ReplayError, ReplayOptions, ReplayOutcome, replay};
use drivebay_trace::{
    KeepRunning, Op, Pace, Profile, Request, RequestSource, Rule, Synth, TIME_PERCENT_MAX,
    TraceError,
};
use drivebay_units::Nanos;
use proptest::prelude::*;

fn device() -> Device {
    let text = SM951_AHCI_512
        .replace("blocks_per_plane = { value = 1024", "blocks_per_plane = { value = 64")
        .replace("free_mb = { value = 33000, range = [10000, 35500]", "free_mb = { value = 1000")
        .replace("value = 1000215216", "value = 56000000");
    Device::new(Spec::from_family(WINDOWS_8_1_Z97, &text).unwrap_or_else(|e| panic!("{e}")), 1)
        .expect("memory")
}

/// A recording in memory, returned three requests at a time.
struct Recording(Vec<Request>, usize);

impl RequestSource for Recording {
    fn next_requests(
        &mut self,
        keep_running: KeepRunning<'_>,
    ) -> Result<Option<&[Request]>, TraceError> {
        if !keep_running() {
            return Err(TraceError::Cancelled);
        }
        let from = self.1;
        self.1 = (from + 3).min(self.0.len());
        Ok((from < self.1).then(|| &self.0[from..self.1]))
    }

    fn name(&self) -> &str {
        "recording"
    }
}

fn request(at: u64, response: Option<u64>, op: Op, offset: u64, bytes: u64) -> Request {
    let response = response.map(Nanos);
    Request { at: Nanos(at), offset_bytes: offset, bytes, response, device: 0, op }
}

fn plan(pace: Pace) -> ReplayOptions {
    ReplayOptions {
        pace,
        rule: Rule::Fold,
        recorded_bytes: 0,
        trim: false,
        handle_by_device: false,
        events: 0,
    }
}

fn go(requests: &[Request], plan: &ReplayOptions) -> ReplayOutcome {
    let mut source = Recording(requests.to_vec(), 0);
    replay(&mut device(), &mut source, plan, &Control::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn ios(done: &ReplayOutcome) -> u64 {
    done.outcome.recorder.rows.iter().map(|row| row.io.ios()).sum()
}

fn latency_ns(done: &ReplayOutcome) -> u64 {
    done.outcome.recorder.rows.iter().map(|row| row.io.latency_ns_sum).sum()
}

fn light(seed: u64) -> Synth {
    let profile = Profile::parse(Profile::text("light").expect("known")).expect("allowed");
    Synth::new(profile, 0.01, seed).expect("a scale in bounds")
}

#[test]
fn the_same_trace_gives_the_same_result() {
    let plan = plan(Pace::idle_capped(Nanos::millis(25)));
    let run = |seed| {
        let done = replay(&mut device(), &mut light(seed), &plan, &Control::default());
        done.unwrap_or_else(|e| panic!("{e}"))
    };
    let (first, second, other) = (run(1), run(1), run(2));
    assert_eq!(first.outcome.recorder.rows, second.outcome.recorder.rows);
    assert_eq!(first.depths, second.depths);
    assert_eq!(first.outcome.after, second.outcome.after);
    assert_ne!(first.outcome.recorder.rows, other.outcome.recorder.rows);
}

#[test]
fn events_of_a_replay_add_up_and_change_no_result() {
    let plan = plan(Pace::idle_capped(Nanos::millis(25)));
    let run = |events| {
        let plan = ReplayOptions { events, ..plan };
        replay(&mut device(), &mut light(1), &plan, &Control::default())
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let (plain, kept) = (run(0), run(1000));
    assert!(plain.inside.is_none());
    assert_eq!(plain.outcome.recorder.rows, kept.outcome.recorder.rows);
    assert_eq!(plain.outcome.after, kept.outcome.after);
    let inside = kept.inside.as_ref().expect("it was asked for");
    assert_eq!(inside.readings[inside.intervals].counters, kept.outcome.after);
    let outstanding: u64 = inside.outstanding.of(0, inside.intervals).sum();
    assert_eq!(outstanding, latency_ns(&kept), "no trims, so latencies added up");
}

#[test]
fn littles_law_holds_and_stages_add_up() {
    let plan = plan(Pace::idle_capped(Nanos::millis(25)));
    let done = replay(&mut device(), &mut light(1), &plan, &Control::default()).expect("a run");
    let busy = done.depths.busy.0 as f64;
    let little = latency_ns(&done) as f64 / busy;
    assert!((done.depths.mean / little - 1.0).abs() < 1e-9, "{} {little}", done.depths.mean);
    let stages: u64 = done.outcome.recorder.rows.iter().flat_map(|row| row.stage_ns).sum();
    assert_eq!(stages, latency_ns(&done));
    assert_eq!(done.depths.by_depth.iter().sum::<u64>(), ios(&done));
}

#[test]
fn a_slower_drive_queues_in_the_host_and_the_wait_counts() {
    // 1,000 reads at once on a drive that takes 32: the last one waits for all others.
    let at_once: Vec<Request> =
        (0..1000).map(|i| request(0, Some(1000), Op::Read, i * 4096, 4096)).collect();
    let done = go(&at_once, &plan(Pace::AS_RECORDED));
    assert_eq!(done.depths.max, 1000);
    let length = done.outcome.end.since(done.outcome.start).0;
    let longest = done.outcome.recorder.rows.iter().map(|row| row.io.latency_ns_max).max();
    assert_eq!(longest, Some(length), "latency counts from release, not from the free slot");
    assert_eq!(done.depths.busy.0, length);
}

#[test]
fn long_is_more_than_ten_milliseconds() {
    // Half a second of 128 KiB writes, released at once.
    let many: Vec<Request> =
        (0..5000).map(|i| request(0, None, Op::Write, i * 131_072, 131_072)).collect();
    let done = go(&many, &plan(Pace::AS_RECORDED));
    let over = |ns| {
        let bins = done.outcome.recorder.histograms.iter().flat_map(|h| h.bins());
        bins.filter(|bin| bin.low > ns).map(|bin| bin.count).sum::<u64>()
    };
    // The histogram's bins are 1.6 % wide.
    for (count, bound) in done.long.into_iter().zip([10_000_000, 100_000_000]) {
        assert!(over(bound * 102 / 100) <= count && count <= over(bound * 98 / 100));
        assert!(count > 0);
    }
}

#[test]
fn trims_and_flushes_only_if_asked() {
    let mixed = [
        request(0, None, Op::Write, 0, 65_536),
        request(1_000_000, None, Op::Trim, 0, 65_536),
        request(2_000_000, None, Op::Flush, 0, 0),
        request(3_000_000, None, Op::Read, 0, 4096),
    ];
    let without = go(&mixed, &plan(Pace::AS_RECORDED));
    assert_eq!((without.skipped, without.outcome.after.commands), (2, 2));
    let with = go(&mixed, &ReplayOptions { trim: true, ..plan(Pace::AS_RECORDED) });
    assert_eq!((with.skipped, with.outcome.after.commands), (0, 4));
    assert_eq!(ios(&with), 2, "figures are of reads and writes");
}

#[test]
fn impossible_replays_are_errors() {
    let fine = request(0, None, Op::Read, 0, 4096);
    let long = request(0, None, Op::Write, 0, 1 << 30);
    let run = |requests: Vec<Request>, plan: ReplayOptions| {
        replay(&mut device(), &mut Recording(requests, 0), &plan, &Control::default()).err()
    };
    assert!(run(vec![fine, long], plan(Pace::AS_RECORDED)).is_none(), "1 GiB, the longest, fits");
    let trim = Request { op: Op::Trim, bytes: 1 << 40, ..fine };
    let asked = ReplayOptions { trim: true, ..plan(Pace::AS_RECORDED) };
    let error = run(vec![fine, trim], asked).expect("does not fit").to_string();
    assert!(error.starts_with("recording: request 2: ") && error.contains("hint: "), "{error}");
    let scale = ReplayOptions { rule: Rule::Scale, ..plan(Pace::AS_RECORDED) };
    assert!(matches!(run(vec![fine], scale), Some(ReplayError::UnknownSize)));
    let slow = Pace::Recorded { idle_max_ns: None, time_percent: TIME_PERCENT_MAX + 1 };
    assert!(matches!(run(vec![fine], plan(slow)), Some(ReplayError::Pace(_))));
    let control = Control::default();
    control.cancel();
    let cancelled = replay(&mut device(), &mut light(1), &plan(Pace::AS_RECORDED), &control);
    assert!(matches!(
        cancelled.err(),
        Some(ReplayError::Cancelled | ReplayError::Trace(TraceError::Cancelled))
    ));
}

fn any_request() -> impl Strategy<Value = (u64, Option<u64>, bool, u64, u64)> {
    let gap = prop_oneof![Just(0u64), 0u64..200_000, 0u64..80_000_000];
    (gap, prop::option::of(1u64..5_000_000), any::<bool>(), 0u64..1 << 45, 1u64..300_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Invariants of any replay: every request completes, Little's law holds, elapsed time is busy
    /// time plus idle time, and with dependencies at most as many requests are outstanding as in
    /// the recording.
    #[test]
    fn figures_hold_for_any_recording(
        requests in prop::collection::vec(any_request(), 1..200),
        dependencies in any::<bool>(),
    ) {
        let mut at = 0;
        let recording: Vec<Request> = requests
            .iter()
            .map(|&(gap, response, write, offset, bytes)| {
                at += gap;
                request(at, response, if write { Op::Write } else { Op::Read }, offset, bytes)
            })
            .collect();
        let cap = Nanos::millis(25);
        let pace = if dependencies { Pace::Dependencies } else { Pace::idle_capped(cap) };
        let done = go(&recording, &plan(pace));
        prop_assert_eq!(ios(&done), recording.len() as u64);
        let wall = done.outcome.end.since(done.outcome.start);
        prop_assert!(done.depths.busy <= wall);
        let little = latency_ns(&done) as f64 / done.depths.busy.0 as f64;
        prop_assert!((done.depths.mean / little - 1.0).abs() < 1e-9);
        if dependencies {
            let out = |i: usize| {
                let before = recording[..i].iter();
                let end = |r: &Request| r.at.0 + r.response.map_or(1, |response| response.0);
                before.filter(|r| end(r) > recording[i].at.0).count() as u64 + 1
            };
            let deepest = (0..recording.len()).map(out).max().expect("not empty");
            prop_assert!(done.depths.max <= deepest);
        } else {
            let idle = wall.0 - done.depths.busy.0;
            // The drive may finish at once where the recording was busy for up to 5 ms.
            prop_assert!(idle <= recording.len() as u64 * (cap.0 + 5_000_000));
        }
    }
}
