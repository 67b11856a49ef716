//! Tests of whole runs: the same seed gives the same result, runs end on time, and counts add up.

use std::time::Duration;

use drivebay_drive::samples::{SM951_AHCI_512, SM951_NVME_256, WINDOWS_8_1_Z97 as HOST};
use drivebay_drive::{Device, Spec, Stage, whole_profile};
use drivebay_run::{
    Control, Keep, Offsets, Outcome, Pattern, RunError, Stable, Stop, TrimPlan, Workload, discard,
    run, run_jobs, run_keeping, trim_check,
};
use drivebay_units::Nanos;

fn spec() -> Spec {
    spec_in(HOST)
}

fn spec_in(host: &str) -> Spec {
    // A sixteenth of the flash (the same dies, fewer blocks), without the map journal.
    let small = SM951_AHCI_512
        .replace("blocks_per_plane = { value = 1024", "blocks_per_plane = { value = 64")
        .replace("free_mb = { value = 33000, range = [10000, 35500]", "free_mb = { value = 1000")
        .replace("value = 1000215216", "value = 56000000");
    let mut whole = whole_profile(host, &small).unwrap_or_else(|e| panic!("{e}"));
    whole.remove("map_journal");
    Spec::from_toml(&whole.to_string()).unwrap_or_else(|e| panic!("{e}"))
}

fn device() -> Device {
    Device::new(spec(), 1).expect("memory")
}

fn workload(pattern: Pattern, read_percent: f64, queue_depth: u32, seconds: f64) -> Workload {
    Workload {
        pattern,
        read_percent,
        queue_depth,
        span_bytes: 1 << 30,
        stop: Stop::after_s(seconds),
        ..Workload::default()
    }
}

fn go(device: &mut Device, workload: &Workload, seed: u64) -> Outcome {
    run(device, workload, seed, &Control::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn totals(outcome: &Outcome) -> (u64, u64) {
    outcome.recorder.rows.iter().fold((0, 0), |(r, w), row| (r + row.io.reads, w + row.io.writes))
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let load = workload(Pattern::Random, 70.0, 8, 3.0);
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

/// `reset` keeps the tables; no state of the used drive may remain.
#[test]
fn a_reset_drive_equals_a_new_one() {
    let load = workload(Pattern::Random, 30.0, 4, 2.0);
    let mut used = device();
    go(&mut used, &workload(Pattern::Random, 0.0, 32, 5.0), 9);
    let mut renewed = used.reset(spec(), 1).expect("memory");
    let again = go(&mut renewed, &load, 3);
    let fresh = go(&mut device(), &load, 3);
    assert_eq!(again.recorder.rows, fresh.recorder.rows);
    assert_eq!(again.after, fresh.after);
}

#[test]
fn rows_histograms_and_stages_count_the_same() {
    let outcome = go(&mut device(), &workload(Pattern::Random, 50.0, 16, 2.5), 1);
    let (reads, writes) = totals(&outcome);
    let counted =
        outcome.recorder.histograms.each_ref().map(|h| h.bins().map(|bin| bin.count).sum::<u64>());
    assert_eq!(counted, [reads, writes]);
    assert!((reads as f64 / (reads + writes) as f64 - 0.5).abs() < 0.01);
    let rows = &outcome.recorder.rows;
    assert_eq!(rows.len(), 3, "two and a half seconds are three rows");
    for row in rows {
        assert_eq!(row.stage_ns.iter().sum::<u64>(), row.io.latency_ns_sum, "stages add up");
    }
    assert_eq!(outcome.recorder.sensors.len(), 2, "one reading per whole second");
}

#[test]
fn a_run_by_amount_ends_with_it() {
    let mut load = workload(Pattern::Sequential, 0.0, 32, 1.0);
    load.block_bytes = 131_072;
    load.stop = Stop::after_bytes(1 << 30);
    let mut drive = device();
    let outcome = go(&mut drive, &load, 1);
    assert_eq!(totals(&outcome).1, (1 << 30) / 131_072);
    assert_eq!(drive.ftl().mapped(), (1 << 30) / 4096, "every page of the span is mapped");
    assert!(drive.now() >= outcome.end);
}

#[test]
fn completions_after_the_end_are_not_counted() {
    let outcome = go(&mut device(), &workload(Pattern::Random, 0.0, 32, 1.0), 1);
    assert_eq!(outcome.recorder.rows.len(), 1);
    assert_eq!(outcome.end.since(outcome.start).0, 1_000_000_000);
    // 1 s at 10 us per write, minus the 32 writes still outstanding.
    let (_, writes) = totals(&outcome);
    assert!((99_900..=100_000).contains(&writes), "{writes}");
}

#[test]
fn a_stable_run_ends_early_on_a_whole_second() {
    let mut load = workload(Pattern::Random, 100.0, 4, 600.0);
    load.stop.stable = Some(Stable { window_s: 3, within_percent: 5.0, min_s: 4 });
    let outcome = go(&mut device(), &load, 1);
    assert!(outcome.stable);
    assert_eq!(outcome.end.since(outcome.start).0, 5_000_000_000);
    assert_eq!(outcome.recorder.rows.len(), 5);
}

/// AHCI carries 32 commands: with deeper queues the surplus waits in the host, at the same rate.
#[test]
fn a_queue_deeper_than_the_interface_waits_in_the_host() {
    let at = |depth| {
        let mut drive = device();
        let outcome = go(&mut drive, &workload(Pattern::Random, 100.0, depth, 1.0), 1);
        let (reads, _) = totals(&outcome);
        let row = outcome.recorder.rows[0];
        (
            reads as f64,
            row.io.latency_ns_sum as f64 / reads as f64,
            row.stage_ns[Stage::Host as usize],
        )
    };
    let (reads_32, latency_32, host_32) = at(32);
    let (reads_64, latency_64, host_64) = at(64);
    assert!((reads_64 / reads_32 - 1.0).abs() < 0.01);
    assert!((latency_64 / latency_32 - 2.0).abs() < 0.02, "Little's law");
    assert!(host_64 > 2 * host_32);
}

/// The SM951 with NVMe firmware, with replacements in its profile.
fn nvme(changes: &[(&str, &str)]) -> Device {
    let mut base = SM951_AHCI_512
        .replace("blocks_per_plane = { value = 1024", "blocks_per_plane = { value = 64");
    let mut text = SM951_NVME_256.replace("value = 500118192", "value = 28000000").replace(
        "threshold_mb = { value = 2450, range = [500, 18000]",
        "threshold_mb = { value = 50",
    );
    let mut host = HOST.to_owned();
    for (old, new) in changes {
        // In its own profile, its family's, or its host's.
        assert!([&text, &base, &host].iter().any(|part| part.contains(old)), "{old}");
        (text, base, host) =
            (text.replace(old, new), base.replace(old, new), host.replace(old, new));
    }
    let base = whole_profile(&host, &base).unwrap_or_else(|e| panic!("{e}")).to_string();
    let mut whole = whole_profile(&base, &text).unwrap_or_else(|e| panic!("{e}"));
    whole["gc"].as_table_mut().expect("a section").remove("idle");
    let spec = Spec::from_toml(&whole.to_string()).unwrap_or_else(|e| panic!("{e}"));
    Device::new(spec, 1).expect("memory")
}

fn through(queues: u32, depth: u32) -> Workload {
    let mut load = workload(Pattern::Random, 100.0, depth, 1.0);
    load.queues = queues;
    load
}

/// Unmapped reads are bound by the host core, 1 / 3.09 us, with any number of queues; round robin
/// gives each queue its share.
#[test]
fn queues_share_the_controller_evenly() {
    let outcome = go(&mut nvme(&[]), &through(4, 32), 1);
    let total: u64 = outcome.queues.iter().map(|q| q.ios).sum();
    assert!((total as f64 / (1e9 / 3090.0) - 1.0).abs() < 0.001, "{total}");
    let (low, high) = outcome
        .queues
        .iter()
        .fold((u64::MAX, 0), |(low, high), q| (low.min(q.ios), high.max(q.ios)));
    assert!(high - low <= 1, "{:?}", outcome.queues);
    let row = outcome.recorder.rows[0];
    assert_eq!(row.stage_ns.iter().sum::<u64>(), row.io.latency_ns_sum, "stages add up");
    // Little's law: 128 outstanding.
    let mean = row.io.latency_ns_sum as f64 / row.io.reads as f64;
    assert!((mean * total as f64 / 1e9 / 128.0 - 1.0).abs() < 0.001, "{mean}");
}

/// A processor's time per command limits one queue, but each further queue has its own processor.
#[test]
fn each_queue_has_a_processor() {
    let slow_host = [("serial_us = { value = 0, range = [0, 3.0]", "serial_us = { value = 19.7")];
    let ios = |queues| {
        let outcome = go(&mut nvme(&slow_host), &through(queues, 32), 1);
        outcome.queues.iter().map(|q| q.ios).sum::<u64>() as f64
    };
    assert!((ios(1) / 50_000.0 - 1.0).abs() < 0.001);
    assert!((ios(4) / 200_000.0 - 1.0).abs() < 0.001);
}

/// The program's time between two requests keeps a slot idle and is in no latency, whether a
/// request takes one command or several, in one queue or several.
#[test]
fn a_program_takes_its_time_between_two_requests() {
    let busy = [("[host]\n", "[host]\nbetween_us = { value = 20, source = \"test\" }\n")];
    for (queues, bytes) in [(1, 4096), (2, 4096), (1, 4 << 20)] {
        let load = Workload { block_bytes: bytes, ..through(queues, 1) };
        let measure = |changes: &[_]| {
            let row = go(&mut nvme(changes), &load, 1).recorder.rows[0];
            (row.io.reads as f64, row.io.latency_ns_sum as f64 / row.io.reads as f64)
        };
        let ((free_ios, free_ns), (ios, ns)) = (measure(&[]), measure(&busy));
        assert!(
            (ns / free_ns - 1.0).abs() < 0.02,
            "{queues} queues, {bytes} bytes: {ns} ns, {free_ns}"
        );
        let outstanding = |ios: f64, ns: f64| ios * ns / 1e9;
        let idle = ios * 20_000.0 / 1e9;
        assert!((outstanding(free_ios, free_ns) - f64::from(queues)).abs() < 0.01);
        assert!(
            (outstanding(ios, ns) + idle - f64::from(queues)).abs() < 0.01,
            "{queues}, {bytes}"
        );
    }
}

/// The SM951 with NVMe firmware whose controller holds at most `commands` commands.
fn holding(commands: u32) -> Device {
    let limit =
        format!("[host_interface]\ncommands_max = {{ value = {commands}, source = \"test\" }}");
    nvme(&[("[host_interface]", &limit)])
}

/// Writes a gibibyte sequentially.
fn fill(drive: &mut Device) {
    let load = Workload {
        block_bytes: 1 << 17,
        stop: Stop::after_bytes(1 << 30),
        ..workload(Pattern::Sequential, 0.0, 8, 1.0)
    };
    go(drive, &load, 1);
}

/// Tenants on disjoint spans have separate counts of copies, whose sum is the drive's; tenants with
/// overlapping spans have none.
#[test]
fn a_tenants_copies_are_those_of_its_span() {
    let mut drive = nvme(&[]);
    let capacity = drive.spec().capacity_bytes();
    let whole = Workload {
        block_bytes: 1 << 17,
        span_bytes: capacity,
        stop: Stop::after_bytes(capacity),
        ..workload(Pattern::Sequential, 0.0, 8, 1.0)
    };
    go(&mut drive, &whole, 1);
    let span = |first: u64, bytes: u64, rate: f64| Workload {
        span_start_bytes: first,
        span_bytes: bytes,
        rate_iops: Some(rate),
        ..workload(Pattern::Random, 0.0, 8, 60.0)
    };
    let half = capacity / 2 / 4096 * 4096;
    let jobs = [(span(0, half, 30_000.0), 1), (span(half, capacity - half, 10_000.0), 2)];
    let mut run = |jobs: &[(Workload, u64)]| {
        let done = run_jobs(&mut drive, jobs, &Control::default(), 0);
        done.unwrap_or_else(|e| panic!("{e}")).0
    };
    let done = run(&jobs);
    let (before, after) = (done[0].before.copied_pages, done[0].after.copied_pages);
    let copied = [0, 1].map(|job: usize| done[job].copied_4k.expect("its own span"));
    assert!(copied[0] > 0 && copied[1] > 0, "{copied:?}");
    assert_eq!(copied[0] + copied[1], after - before);
    let overlapping = [(span(0, half + 4096, 30_000.0), 1), jobs[1].clone()];
    assert_eq!(run(&overlapping)[0].copied_4k, None);
}

/// Reads that the dies limit. With a limit of commands, a command of the short queue waits for the
/// commands in the controller and one turn, by Little's law with the limit in place of the depth;
/// without a limit, it waits for all commands in other queues.
#[test]
fn a_command_waits_for_those_in_the_controller_and_not_for_other_queues() {
    let deep = workload(Pattern::Random, 100.0, 248, 1.0);
    let few = Workload { rate_iops: Some(5000.0), queue_depth: 8, ..deep.clone() };
    // Number of all commands that complete within the mean latency of the short queue's.
    let waits_for = |mut drive: Device| {
        fill(&mut drive);
        let jobs = [(deep.clone(), 1), (few.clone(), 2)];
        let done = run_jobs(&mut drive, &jobs, &Control::default(), 0);
        let (done, _) = done.unwrap_or_else(|e| panic!("{e}"));
        for row in done.iter().flat_map(|job| &job.recorder.rows) {
            assert_eq!(row.stage_ns.iter().sum::<u64>(), row.io.latency_ns_sum, "stages add up");
        }
        let all: u64 = done.iter().map(|job| totals(job).0).sum();
        let row = done[1].recorder.rows[0];
        row.io.latency_ns_sum as f64 / row.io.reads as f64 * all as f64 / 1e9
    };
    let limited = waits_for(holding(64));
    // 64 commands and one turn of the other queue: 65, with an error of 2 % from 5,000 commands.
    assert!((62.0..68.0).contains(&limited), "{limited} commands");
    let free = waits_for(nvme(&[]));
    assert!((220.0..260.0).contains(&free), "{free} commands");
    assert_eq!(waits_for(holding(256)), free, "more places than commands are none");
}

/// The limit also holds for several queues of one job: each has its share, and with 16 reads in the
/// controller in place of 128 fewer dies are busy. By Little's law all 128 remain outstanding.
#[test]
fn queues_share_the_places_of_the_controller_evenly() {
    let ios = |mut drive: Device| {
        fill(&mut drive);
        let outcome = go(&mut drive, &through(4, 32), 1);
        let each: Vec<_> = outcome.queues.iter().map(|q| q.ios).collect();
        let apart = each.iter().max().unwrap() - each.iter().min().unwrap();
        let latencies: u64 = outcome.queues.iter().map(|q| q.latency_ns_sum).sum();
        assert!((latencies as f64 / 128e9 - 1.0).abs() < 0.01, "{latencies} ns");
        (each.iter().sum::<u64>(), apart)
    };
    let [limited, more, free] = [holding(16), holding(32), nvme(&[])].map(ios);
    assert!(limited.0 < more.0 && more.0 < free.0, "{limited:?}, {more:?}, {free:?}");
    // Round robin alone decides the order, except for the commands in the controller at the end.
    assert!(limited.1 <= 16 && more.1 <= 32, "{limited:?}, {more:?}");
    assert_eq!(ios(holding(128)), free, "never full");
}

/// A job has a turn for each of its queues: with three queues it gets three of four commands,
/// compared with a job of one queue and the same total depth. The totals of its queues add up to
/// its own.
#[test]
fn a_job_of_several_queues_has_a_turn_for_each() {
    let jobs = [(through(3, 32), 1), (through(1, 96), 2)];
    let done = run_jobs(&mut nvme(&[]), &jobs, &Control::default(), 0);
    let (done, _) = done.unwrap_or_else(|e| panic!("{e}"));
    let [several, single] = [0, 1].map(|job| totals(&done[job]).0 as f64);
    assert!((several / single - 3.0).abs() < 0.01, "{several} and {single}");
    let each: Vec<_> = done[0].queues.iter().map(|q| q.ios).collect();
    assert_eq!((each.len(), each.iter().sum::<u64>()), (3, several as u64));
    assert!(each.iter().max().unwrap() - each.iter().min().unwrap() <= 32, "{each:?}");
    assert_eq!(done[1].queues.len(), 1);
}

/// A rate limit covers all queues of a run together, as a single workload or as a job.
#[test]
fn a_rate_covers_all_queues() {
    let held = Workload { rate_iops: Some(20_000.0), ..through(4, 8) };
    let alone = go(&mut nvme(&[]), &held, 1);
    let done = run_jobs(&mut nvme(&[]), &[(held.clone(), 1)], &Control::default(), 0);
    let (job, _) = done.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((totals(&alone).0, totals(&job[0]).0), (20_000, 20_000));
    assert_eq!(alone.queues, job[0].queues);
    assert!(alone.queues.iter().all(|queue| queue.ios > 4_500), "{:?}", alone.queues);
}

/// A run by amount on several queues ends with its last command.
#[test]
fn a_run_by_amount_ends_on_several_queues() {
    let mut load = through(3, 4);
    load.read_percent = 0.0;
    load.stop = Stop::after_bytes(4096 * 10_001);
    let outcome = go(&mut nvme(&[]), &load, 1);
    assert_eq!(outcome.queues.iter().map(|q| q.ios).sum::<u64>(), 10_001);
    assert_eq!(totals(&outcome).1, 10_001);
}

/// Three seconds of random writes at 10 us each; the peak is that of the busiest tenth of a second.
#[test]
fn power_is_sensed_as_mean_and_peak() {
    let mut drive = device();
    let outcome = go(&mut drive, &workload(Pattern::Random, 0.0, 32, 3.0), 1);
    for sensor in &outcome.recorder.sensors {
        assert!(sensor.power_w > 1.6 && sensor.power_w_peak >= sensor.power_w, "{sensor:?}");
        assert!(sensor.power_w_peak < 1.5 * sensor.power_w, "{sensor:?}");
    }
    let health = drive.health();
    assert_eq!(health.host_writes, outcome.after.commands);
    assert_eq!(health.data_units_written, (outcome.after.host_pages * 4096).div_ceil(512_000));
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
    let result = run(&mut drive, &workload(Pattern::Random, 100.0, 32, 3e6), 1, &control);
    assert_eq!(result.map(|_| ()), Err(RunError::Cancelled));
}

#[test]
fn impossible_workloads_are_refused_by_name() {
    let good = workload(Pattern::Random, 50.0, 8, 1.0);
    let changed = |load: &Workload, edit: fn(&mut Workload)| {
        let mut load = load.clone();
        edit(&mut load);
        load
    };
    let refusal = |load: &Workload| match run(&mut device(), load, 1, &Control::default()) {
        Err(RunError::Workload(e)) => e.field,
        other => panic!("not refused: {:?}", other.map(|_| ())),
    };
    let change = |edit: fn(&mut Workload)| refusal(&changed(&good, edit));
    assert_eq!(change(|w| w.read_percent = 100.5), "read_percent");
    assert_eq!(change(|w| w.read_percent = f64::NAN), "read_percent");
    assert_eq!(change(|w| w.trim_percent = 50.5), "trim_percent");
    assert_eq!(change(|w| (w.read_percent, w.trim_percent) = (0.0, 100.0)), "trim_percent");
    assert_eq!(change(|w| w.fsync = Some(0)), "fsync");
    assert_eq!(change(|w| (w.fsync, w.read_percent) = (Some(1), 100.0)), "fsync");
    assert_eq!(change(|w| (w.fsync, w.rate_iops) = (Some(1), Some(10.0))), "fsync");
    assert_eq!(change(|w| w.thinktime_us = Some(0)), "thinktime_us");
    assert_eq!(change(|w| w.thinktime_blocks = 0), "thinktime_blocks");
    assert_eq!(change(|w| (w.thinktime_us, w.queue_depth) = (Some(1), 64)), "queue_depth");
    // 115 days are 10^7 seconds.
    let long = |w: &mut Workload| w.stop = Stop::after_bytes(10_000_001 * 4096);
    let slow = Workload { rate_iops: Some(1.0), ..good.clone() };
    assert_eq!(refusal(&changed(&slow, long)), "rate_iops");
    let slow = Workload { thinktime_us: Some(2_000_000), thinktime_blocks: 2, ..good.clone() };
    assert_eq!(refusal(&changed(&slow, long)), "thinktime_us");
    assert_eq!(change(|w| w.block_bytes = 100), "block_bytes");
    assert_eq!(change(|w| w.queue_depth = 0), "queue_depth");
    assert_eq!(change(|w| w.queue_depth = 1025), "queue_depth");
    assert_eq!(change(|w| w.span_bytes = 0), "span_bytes");
    assert_eq!(change(|w| w.span_bytes = u64::MAX), "span_bytes");
    assert_eq!(change(|w| w.span_start_bytes = 3), "span_start_bytes");
    assert_eq!(change(|w| w.stop.duration_s = Some(f64::NAN)), "stop.duration_s");
    assert_eq!(change(|w| w.stop.duration_s = None), "stop");
    assert_eq!(change(|w| w.stop.bytes = Some(0)), "stop.bytes");
    assert_eq!(change(|w| w.queues = 0), "queues");
    assert_eq!(change(|w| w.queues = 2), "queues", "AHCI has one");
    let refused = |load: &Workload| match run(&mut nvme(&[]), load, 1, &Control::default()) {
        Err(RunError::Workload(e)) => e.field,
        other => panic!("not refused: {:?}", other.map(|_| ())),
    };
    assert_eq!(refused(&through(9, 1)), "queues");
    assert_eq!(refused(&through(8, 129)), "queue_depth");
}

#[test]
fn reads_of_discarded_data_need_no_flash() {
    let mut device = device();
    let starts = vec![0, 1 << 30];
    let plan = TrimPlan { starts, extent_bytes: 8 << 20, reads: 2, discard: false };
    let control = Control::default();
    let written = trim_check(&mut device, &plan, &control).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((written.pages, written.mapped, written.outer_lost), (2048, 2048, 0));
    let plan = TrimPlan { discard: true, ..plan };
    let discarded = trim_check(&mut device, &plan, &control).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((discarded.pages, discarded.mapped, discarded.outer_lost), (2048, 0, 0));
    let nand = |o: &Outcome| {
        o.recorder.rows.iter().map(|row| row.stage_ns[Stage::Nand as usize]).sum::<u64>()
    };
    assert_eq!(totals(&discarded.outcome), (4096, 0));
    assert!(nand(&written.outcome) > 0);
    assert_eq!(nand(&discarded.outcome), 0);
    let beyond = TrimPlan { starts: vec![1 << 40], ..plan };
    let refused = trim_check(&mut device, &beyond, &control);
    assert!(matches!(refused, Err(RunError::Device(_))));
}

/// A permutation writes every address of the span once per pass; uniform draws miss 1/e of them.
#[test]
fn a_pass_of_a_permutation_writes_each_address_once() {
    let mapped = |offsets, passes: u64| {
        let mut load = workload(Pattern::Random, 0.0, 32, 1.0);
        load.offsets = offsets;
        load.span_bytes = 40_001 * 4096;
        load.stop = Stop::after_bytes(passes * load.span_bytes);
        let mut drive = device();
        go(&mut drive, &load, 1);
        drive.ftl().mapped()
    };
    assert_eq!(mapped(Offsets::Permutation, 1), 40_001);
    assert_eq!(mapped(Offsets::PermutationRepeated, 2), 40_001);
    let once = mapped(Offsets::Uniform, 1) as f64 / 40_001.0;
    assert!((once - (1.0 - (-1f64).exp())).abs() < 0.01, "{once}");
}

/// Runs on the same span skew the same blocks for any seed; otherwise preconditioning would prepare
/// other addresses than the measured ones.
#[test]
fn popular_blocks_are_the_same_in_every_run() {
    let mut load = workload(Pattern::Random, 0.0, 32, 1.0);
    load.span_bytes = 40_000 * 4096;
    load.stop = Stop::after_bytes(load.span_bytes);
    load.offsets = "zoned-scattered:0/90:100/10".parse().expect("allowed");
    let mut drive = device();
    for seed in 1..=3 {
        go(&mut drive, &load, seed);
        // With ten writes per page, one page in 22,000 is never written.
        assert!((3_990..=4_000).contains(&drive.ftl().mapped()), "{}", drive.ftl().mapped());
    }
}

#[test]
fn a_discard_unmaps_its_range_and_nothing_else() {
    let mut load = workload(Pattern::Sequential, 0.0, 32, 1.0);
    load.stop = Stop::after_bytes(load.span_bytes);
    let mut drive = device();
    go(&mut drive, &load, 1);
    let (pages, before) = (load.span_bytes / 4096, drive.now());
    discard(&mut drive, 4096 + 1, 100 * 4096).expect("on the drive");
    assert_eq!(drive.ftl().mapped(), pages - 99, "partly covered pages stay");
    assert!(drive.now() > before, "a command takes time");
    let capacity = drive.spec().capacity_bytes();
    discard(&mut drive, 0, capacity).expect("the whole drive");
    assert_eq!(drive.ftl().mapped(), 0);
    assert!(matches!(discard(&mut drive, capacity, 4096), Err(RunError::Device(_))));
}

/// Requests of 16 MiB go out as commands of 1,280 KiB: depth 1 reaches the rate of depth 32 with
/// such commands, every request is counted once, and its stages add up.
#[test]
fn large_requests_are_split_by_the_host() {
    const MIB: u64 = 1 << 20;
    let load = |block: u64, depth| Workload {
        block_bytes: block,
        stop: Stop::after_bytes(512 * MIB),
        ..workload(Pattern::Sequential, 100.0, depth, 1.0)
    };
    let rate = |outcome: &Outcome| {
        outcome.queues[0].ios as f64 / outcome.end.since(outcome.start).as_secs_f64()
    };
    let mut drive = device();
    go(&mut drive, &Workload { read_percent: 0.0, ..load(MIB, 4) }, 1);
    let whole = go(&mut drive, &load(16 * MIB, 1), 1);
    assert_eq!(whole.queues[0].ios, 32);
    assert_eq!(whole.after.commands - whole.before.commands, 32 * 13, "16 MiB are 12.8 commands");
    let cut = go(&mut drive, &load(MIB, 32), 1);
    let ratio = rate(&whole) * 16.0 / rate(&cut);
    assert!((0.8..=1.02).contains(&ratio), "{ratio} of the rate of depth 32");
    let stages: u64 = whole.recorder.rows.iter().flat_map(|row| row.stage_ns).sum();
    assert_eq!(stages, whole.queues[0].latency_ns_sum);
    // More than the interface's 32 commands: the rest waits in the host.
    let deep = go(&mut drive, &load(16 * MIB, 8), 1);
    assert_eq!(deep.queues[0].ios, 32);
    assert!(rate(&deep) * 16.0 / rate(&cut) < 1.02);
    let little = deep.queues[0].latency_ns_sum as f64 / deep.end.since(deep.start).0 as f64;
    assert!((6.0..=8.0).contains(&little), "{little} requests outstanding, by Little's law");
}

/// The commands of a request are outstanding together, as a driver sends them: random requests of
/// 128 KiB in commands of 8 KiB at depth 1 are nearly as fast as commands of 8 KiB at depth 16,
/// which do not wait for the other fifteen.
#[test]
fn commands_of_a_request_go_out_together() {
    let mut drive = nvme(&[("transfer_max_kib = { value = 128", "transfer_max_kib = { value = 8")]);
    let load = |block_bytes, queue_depth| Workload {
        block_bytes,
        ..workload(Pattern::Random, 100.0, queue_depth, 0.5)
    };
    go(&mut drive, &Workload { read_percent: 0.0, ..load(8192, 32) }, 1);
    let bytes = |outcome: &Outcome, block: u64| outcome.queues[0].ios * block;
    let together = bytes(&go(&mut drive, &load(128 << 10, 1), 1), 128 << 10);
    let one_by_one = bytes(&go(&mut drive, &load(8192, 1), 1), 8192);
    let deep = bytes(&go(&mut drive, &load(8192, 16), 1), 8192);
    assert!(together * 10 > deep * 6, "{together} of {deep} bytes");
    assert!(together > 4 * one_by_one, "{together} bytes, {one_by_one} in turn");
}

/// The host makes `thinktime_blocks` requests, waits for all of them, and pauses.
#[test]
fn a_host_that_thinks_pauses_with_nothing_outstanding() {
    for (block_bytes, queue_depth, thinktime_blocks) in
        [(4096, 1, 1), (4096, 8, 20), (4 << 20, 4, 6)]
    {
        let load = Workload {
            block_bytes,
            thinktime_us: Some(5_000),
            thinktime_blocks,
            ..workload(Pattern::Random, 50.0, queue_depth, 2.0)
        };
        let control = Control::default();
        let keep = Keep { sample_every: 1, ..Keep::default() };
        let kept = run_keeping(&mut device(), &load, 3, &control, keep);
        let mut samples = kept.unwrap_or_else(|e| panic!("{e}")).1.samples;
        samples.sort_by_key(|sample| sample.requested);
        let groups: Vec<_> = samples.chunks_exact(thinktime_blocks as usize).collect();
        assert!(groups.len() > 5, "{block_bytes}: {} groups", groups.len());
        for pair in groups.windows(2) {
            let ended = pair[0].iter().map(|sample| sample.completed).max().expect("not empty");
            let begun = pair[1].iter().map(|sample| sample.requested).min().expect("not empty");
            assert_eq!(begun.since(ended), Nanos::millis(5));
            let within = pair[1].iter().map(|sample| sample.requested).max().expect("not empty");
            assert!(within.since(begun) < Nanos::millis(50), "no pause within a group");
        }
    }
}

#[test]
fn a_fractional_share_of_reads_is_met() {
    let outcome = go(&mut device(), &workload(Pattern::Random, 66.7, 32, 2.0), 1);
    let (reads, writes) = totals(&outcome);
    let share = reads as f64 / (reads + writes) as f64;
    // Five standard deviations of a binomial share.
    let allowed = 5.0 * (0.667 * 0.333 / (reads + writes) as f64).sqrt();
    assert!((share - 0.667).abs() < allowed, "{share} of {}", reads + writes);
}

/// With uniform addresses, pages are trimmed as often as they are written again when the share u of
/// pages with data equals the share of writes among writes and trims: u q = (1 - u) (1 - q).
#[test]
fn trims_of_a_mix_leave_their_share_unmapped_and_count_apart() {
    let mut device = device();
    let span_bytes = 64 << 20;
    let load = Workload {
        trim_percent: 20.0,
        span_bytes,
        stop: Stop::after_bytes(10 * span_bytes),
        ..workload(Pattern::Random, 20.0, 8, 1.0)
    };
    let outcome = go(&mut device, &load, 1);
    let (reads, writes) = totals(&outcome);
    let trims = outcome.recorder.trims;
    let all = 10 * span_bytes / 4096;
    assert_eq!(reads + writes + trims.ios, all, "requests of all kinds end a run by amount");
    assert!((trims.ios as f64 / all as f64 - 0.2).abs() < 0.01, "{trims:?}");
    assert!(trims.latency_ns_sum > 0);
    let share = device.ftl().mapped() as f64 / (span_bytes / 4096) as f64;
    assert!((share - 0.75).abs() < 0.02, "{share}");
}

/// For requests of one command, and of several.
#[test]
fn trims_of_whole_zones_do_not_count_as_amount() {
    for block_bytes in [4096, 4 << 20] {
        let mut device = device();
        let bytes = 512 << 20;
        let load = Workload {
            offsets: "open-zones:2/8".parse().expect("allowed"),
            block_bytes,
            span_bytes: 256 << 20,
            stop: Stop::after_bytes(bytes),
            ..workload(Pattern::Random, 0.0, 4, 1.0)
        };
        let outcome = go(&mut device, &load, 1);
        let (_, writes) = totals(&outcome);
        assert_eq!(writes * block_bytes, bytes);
        assert!(outcome.recorder.trims.ios >= 16, "{:?}", outcome.recorder.trims);
    }
}

/// A write is done when it is in the buffer. A flush waits for its program, and so do all writes
/// after it at queue depth 1.
#[test]
fn flushes_of_a_mix_count_apart_and_wait_for_flash() {
    let load = Workload {
        fsync: Some(4),
        stop: Stop::after_bytes(4000 * 4096),
        ..workload(Pattern::Random, 0.0, 1, 1.0)
    };
    let plain = go(&mut device(), &Workload { fsync: None, ..load.clone() }, 1);
    let flushed = go(&mut device(), &load, 1);
    assert_eq!(totals(&plain), totals(&flushed));
    let flushes = flushed.recorder.flushes;
    assert_eq!(flushes.ios, 999, "the last write ends the run");
    let program = spec().nand.program[0].0;
    assert!(flushes.latency_ns_sum > flushes.ios * program / 2, "{flushes:?}");
    assert!(flushed.end.since(flushed.start) > plain.end.since(plain.start));
    assert_eq!(flushed.after.commands - flushed.before.commands, 4000 + 999);
}

/// For requests of several commands, several jobs, and think time, which counts requests but not
/// flushes.
#[test]
fn flushes_work_in_every_loop() {
    let load = Workload {
        fsync: Some(2),
        stop: Stop::after_bytes(100 * 4096),
        ..workload(Pattern::Random, 0.0, 4, 1.0)
    };
    let large =
        Workload { block_bytes: 4 << 20, stop: Stop::after_bytes(100 << 22), ..load.clone() };
    let thinks = Workload { thinktime_us: Some(100), thinktime_blocks: 3, ..load.clone() };
    for load in [&load, &large, &thinks] {
        let outcome = go(&mut device(), load, 1);
        assert_eq!((totals(&outcome).1, outcome.recorder.flushes.ios), (100, 49), "{load:?}");
    }
    let jobs = [(load.clone(), 1), (thinks, 2)];
    let outcomes = run_jobs(&mut device(), &jobs, &Control::default(), 0);
    for outcome in outcomes.unwrap_or_else(|e| panic!("{e}")).0 {
        assert_eq!((totals(&outcome).1, outcome.recorder.flushes.ios), (100, 49));
    }
}

/// Keeping events does not affect the drive, and the events add up to the run.
#[test]
fn keeping_events_changes_no_result() {
    let large = Workload { block_bytes: 4 << 20, ..workload(Pattern::Random, 50.0, 4, 1.0) };
    for load in [workload(Pattern::Random, 30.0, 8, 2.5), large] {
        let plain = go(&mut device(), &load, 5);
        let keep = Keep { events: 1000, ..Keep::default() };
        let kept = run_keeping(&mut device(), &load, 5, &Control::default(), keep);
        let (recorded, kept) = kept.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(plain.recorder.rows, recorded.recorder.rows);
        assert_eq!(plain.recorder.sensors, recorded.recorder.sensors);
        assert_eq!(plain.after, recorded.after);
        let inside = kept.inside.expect("it was asked for");
        let length = recorded.end.since(recorded.start);
        assert_eq!(inside.intervals as u64, length.0.div_ceil(inside.interval.0));
        assert_eq!(inside.readings.len(), inside.intervals + 1);
        assert_eq!(inside.readings[0].counters, recorded.before);
        assert_eq!(inside.readings[inside.intervals].counters, recorded.after);
        let outstanding: u64 = inside.outstanding.of(0, inside.intervals).sum();
        let mean = outstanding as f64 / length.0 as f64;
        let depth = f64::from(load.queue_depth);
        assert!((mean / depth - 1.0).abs() < 0.01, "{mean} of {depth} outstanding");
    }
}

#[test]
fn a_job_alone_runs_as_a_workload_does() {
    for load in [
        workload(Pattern::Random, 70.0, 8, 2.5),
        Workload {
            thinktime_us: Some(300),
            thinktime_blocks: 5,
            ..workload(Pattern::Random, 0.0, 4, 2.0)
        },
        Workload {
            stop: Stop::after_bytes(1 << 28),
            ..workload(Pattern::Sequential, 0.0, 32, 1.0)
        },
    ] {
        let alone = go(&mut device(), &load, 7);
        let jobs = run_jobs(&mut device(), &[(load, 7)], &Control::default(), 0);
        let [job] = &jobs.unwrap_or_else(|e| panic!("{e}")).0[..] else { panic!("one job") };
        assert_eq!(job.recorder.rows, alone.recorder.rows);
        assert_eq!(job.recorder.sensors, alone.recorder.sensors);
        assert_eq!((job.start, job.end, job.after), (alone.start, alone.end, alone.after));
    }
}

/// Two jobs of different lengths: the outstanding requests are those of both, until the longer one
/// ends.
#[test]
fn events_cover_all_jobs_and_change_no_result() {
    let short = workload(Pattern::Random, 30.0, 8, 1.0);
    let long = workload(Pattern::Random, 100.0, 4, 2.5);
    let jobs = [(short, 1), (long, 2)];
    let go = |events| {
        run_jobs(&mut device(), &jobs, &Control::default(), events)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let ((plain, none), (recorded, inside)) = (go(0), go(1000));
    assert!(none.is_none());
    for (plain, recorded) in plain.iter().zip(&recorded) {
        assert_eq!(plain.recorder.rows, recorded.recorder.rows);
        assert_eq!(plain.after, recorded.after);
    }
    let inside = inside.expect("it was asked for");
    assert_eq!(inside.readings[0].counters, recorded[0].before);
    assert_eq!(inside.readings[inside.intervals].counters, recorded[1].after);
    let outstanding: u64 = inside.outstanding.of(0, inside.intervals).sum();
    let expected = 8e9 * 1.0 + 4e9 * 2.5;
    assert!((outstanding as f64 / expected - 1.0).abs() < 0.01, "{outstanding} ns");
}

#[test]
fn jobs_share_the_drive_and_have_results_of_their_own() {
    let reads = workload(Pattern::Random, 100.0, 4, 2.0);
    let span_start_bytes = 1 << 30;
    let writes = Workload { span_start_bytes, ..workload(Pattern::Sequential, 0.0, 4, 2.0) };
    let mut drive = device();
    let whole = Workload {
        span_start_bytes: 0,
        span_bytes: 2 << 30,
        stop: Stop::after_bytes(2 << 30),
        ..writes.clone()
    };
    go(&mut drive, &whole, 1);
    let alone = totals(&go(&mut drive.duplicate().expect("memory"), &reads, 1)).0;
    let jobs = [(reads, 1), (writes, 2)];
    let done = run_jobs(&mut drive, &jobs, &Control::default(), 0);
    let (done, _) = done.unwrap_or_else(|e| panic!("{e}"));
    let (read, written) = (totals(&done[0]), totals(&done[1]));
    assert_eq!((read.1, written.0), (0, 0), "each its own");
    assert!(written.0 + written.1 > 0 && read.0 < alone, "writes hold reads up");
    assert_eq!(done[0].after, done[1].after, "one drive");
    let commands = done[0].after.commands - done[0].before.commands;
    let counted = read.0 + written.1;
    assert!(commands - counted <= 8, "but for those that end after the run");
}

#[test]
fn jobs_that_do_not_fit_together_are_refused_by_name() {
    let refusal = |jobs: &[Workload]| {
        let jobs: Vec<_> = jobs.iter().map(|job| (job.clone(), 1)).collect();
        match run_jobs(&mut device(), &jobs, &Control::default(), 0) {
            Err(RunError::Workload(e)) => e.field,
            other => panic!("not refused: {:?}", other.map(|_| ())),
        }
    };
    let good = workload(Pattern::Random, 50.0, 16, 1.0);
    assert_eq!(refusal(&[]), "jobs");
    assert_eq!(refusal(&[good.clone(), good.clone(), good.clone()]), "queue_depth");
    assert_eq!(refusal(&[Workload { block_bytes: 1 << 26, ..good.clone() }]), "block_bytes");
    assert_eq!(refusal(&[good, Workload::default()]), "span_bytes");
}
