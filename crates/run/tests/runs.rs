//! Runs as a whole: same seed, same result; ends where they should; counts add up.

use std::time::Duration;

use drivebay_drive::{Device, Spec, Stage};
use drivebay_run::{Control, Outcome, Pattern, RunError, Stable, Stop, Workload, run};

fn spec() -> Spec {
    let text = include_str!("../../../drives/sm951-ahci-512.toml");
    // A sixteenth of the flash: the same dies, fewer blocks.
    let small = text
        .replace("blocks_per_plane = { value = 1024", "blocks_per_plane = { value = 64")
        .replace("value = 1000215216", "value = 56000000");
    Spec::from_toml(&small).unwrap_or_else(|e| panic!("{e}"))
}

fn device() -> Device {
    Device::new(spec(), 1).expect("memory")
}

fn workload(pattern: Pattern, read_percent: u32, queue_depth: u32, seconds: f64) -> Workload {
    Workload {
        pattern,
        read_percent,
        block_bytes: 4096,
        queue_depth,
        queues: 1,
        arbitration: Default::default(),
        span_start_bytes: 0,
        span_bytes: 1 << 30,
        stop: Stop { duration_s: Some(seconds), bytes: None, stable: None },
    }
}

fn go(device: &mut Device, workload: &Workload, seed: u64) -> Outcome {
    run(device, workload, seed, &Control::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn totals(outcome: &Outcome) -> (u64, u64) {
    outcome.recorder.rows.iter().fold((0, 0), |(r, w), row| (r + row.reads, w + row.writes))
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let load = workload(Pattern::Random, 70, 8, 3.0);
    let first = go(&mut device(), &load, 5);
    let second = go(&mut device(), &load, 5);
    assert_eq!(first.recorder.rows, second.recorder.rows);
    assert_eq!(first.recorder.sensors, second.recorder.sensors);
    assert_eq!(first.after, second.after);
    let bins = |o: &Outcome| o.recorder.histograms.each_ref().map(|h| h.bins().collect::<Vec<_>>());
    assert_eq!(bins(&first), bins(&second));
    let other = go(&mut device(), &load, 6);
    assert_ne!(first.recorder.rows, other.recorder.rows);
}

/// `renew` keeps the tables: nothing of the drive's past may show.
#[test]
fn a_renewed_drive_is_a_new_one() {
    let load = workload(Pattern::Random, 30, 4, 2.0);
    let mut used = device();
    go(&mut used, &workload(Pattern::Random, 0, 32, 5.0), 9);
    let mut renewed = used.renew(spec(), 1).expect("memory");
    let again = go(&mut renewed, &load, 3);
    let fresh = go(&mut device(), &load, 3);
    assert_eq!(again.recorder.rows, fresh.recorder.rows);
    assert_eq!(again.after, fresh.after);
}

#[test]
fn rows_histograms_and_stages_count_the_same() {
    let outcome = go(&mut device(), &workload(Pattern::Random, 50, 16, 2.5), 1);
    let (reads, writes) = totals(&outcome);
    let counted =
        outcome.recorder.histograms.each_ref().map(|h| h.bins().map(|bin| bin.count).sum::<u64>());
    assert_eq!(counted, [reads, writes]);
    assert!((reads as f64 / (reads + writes) as f64 - 0.5).abs() < 0.01);
    let rows = &outcome.recorder.rows;
    assert_eq!(rows.len(), 3, "two and a half seconds are three rows");
    for row in rows {
        assert_eq!(row.stage_ns.iter().sum::<u64>(), row.latency_ns_sum, "stages add up");
    }
    assert_eq!(outcome.recorder.sensors.len(), 2, "one reading per whole second");
}

#[test]
fn a_run_by_amount_ends_with_it() {
    let mut load = workload(Pattern::Sequential, 0, 32, 1.0);
    load.block_bytes = 131_072;
    load.stop = Stop { duration_s: None, bytes: Some(1 << 30), stable: None };
    let mut drive = device();
    let outcome = go(&mut drive, &load, 1);
    assert_eq!(totals(&outcome).1, (1 << 30) / 131_072);
    assert_eq!(drive.ftl().mapped(), (1 << 30) / 4096, "every page of the span is mapped");
    assert!(drive.now() >= outcome.end);
}

#[test]
fn completions_after_the_end_are_not_counted() {
    let outcome = go(&mut device(), &workload(Pattern::Random, 0, 32, 1.0), 1);
    assert_eq!(outcome.recorder.rows.len(), 1);
    assert_eq!(outcome.end.since(outcome.start).0, 1_000_000_000);
    // 1 s at 10 us a write, less the 32 that were still under way.
    let (_, writes) = totals(&outcome);
    assert!((99_900..=100_000).contains(&writes), "{writes}");
}

#[test]
fn a_stable_run_ends_early_on_a_whole_second() {
    let mut load = workload(Pattern::Random, 100, 4, 600.0);
    load.stop.stable = Some(Stable { window_s: 3, within_percent: 5.0, min_s: 4 });
    let outcome = go(&mut device(), &load, 1);
    assert!(outcome.stable);
    assert_eq!(outcome.end.since(outcome.start).0, 5_000_000_000);
    assert_eq!(outcome.recorder.rows.len(), 5);
}

/// AHCI carries 32 commands: deeper queues wait in the host, at the same rate.
#[test]
fn a_queue_deeper_than_the_interface_waits_in_the_host() {
    let at = |depth| {
        let mut drive = device();
        let outcome = go(&mut drive, &workload(Pattern::Random, 100, depth, 1.0), 1);
        let (reads, _) = totals(&outcome);
        let row = outcome.recorder.rows[0];
        (reads as f64, row.latency_ns_sum as f64 / reads as f64, row.stage_ns[Stage::Host as usize])
    };
    let (reads_32, latency_32, host_32) = at(32);
    let (reads_64, latency_64, host_64) = at(64);
    assert!((reads_64 / reads_32 - 1.0).abs() < 0.01);
    assert!((latency_64 / latency_32 - 2.0).abs() < 0.02, "Little's law");
    assert!(host_64 > 2 * host_32);
}

#[test]
fn a_cancelled_run_stops_soon() {
    let control = std::sync::Arc::new(Control::default());
    let remote = std::sync::Arc::clone(&control);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        remote.cancel();
    });
    let mut drive = device();
    let result = run(&mut drive, &workload(Pattern::Random, 100, 32, 3e6), 1, &control);
    assert_eq!(result.map(|_| ()), Err(RunError::Cancelled));
}

#[test]
fn impossible_workloads_are_refused_by_name() {
    let good = workload(Pattern::Random, 50, 8, 1.0);
    let change = |edit: fn(&mut Workload)| {
        let mut load = good.clone();
        edit(&mut load);
        match run(&mut device(), &load, 1, &Control::default()) {
            Err(RunError::Workload(e)) => e.field,
            other => panic!("not refused: {:?}", other.map(|_| ())),
        }
    };
    assert_eq!(change(|w| w.read_percent = 101), "read_percent");
    assert_eq!(change(|w| w.block_bytes = 100), "block_bytes");
    assert_eq!(change(|w| w.queue_depth = 0), "queue_depth");
    assert_eq!(change(|w| w.queue_depth = 1025), "queue_depth");
    assert_eq!(change(|w| w.span_bytes = 0), "span_bytes");
    assert_eq!(change(|w| w.span_bytes = u64::MAX), "span_bytes");
    assert_eq!(change(|w| w.span_start_bytes = 3), "span_start_bytes");
    assert_eq!(change(|w| w.stop.duration_s = Some(f64::NAN)), "stop.duration_s");
    assert_eq!(change(|w| w.stop.duration_s = None), "stop");
    assert_eq!(change(|w| w.stop.bytes = Some(0)), "stop.bytes");
}
