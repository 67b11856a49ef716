//! Admission of writes: reads pass writes that wait for space, and a paced write takes its
//! interval, no more.

use crate::support::{Profile, closed_loop, one_by_one, page};
use drivebay_drive::{Completion, Device, Op, Spec};
use drivebay_units::{Nanos, Rng};

const USER: u64 = 65_536;

/// A drive of four dies, a fifth of them spare, so that the flash is the limit by far.
fn profile() -> Profile {
    Profile::sm951().cool().four_dies(USER).set("gc.threshold_mb", 10.0).set("gc.target_mb", 20.0)
}

fn admitted(interval_us: f64) -> Profile {
    profile().with("controller.admission.interval_us", interval_us)
}

/// Runs random reads and writes at a depth on a drive that was written twice; returns those after
/// the first `warm`.
fn run(profile: &Profile, depth: usize, read_percent: u64, warm: usize) -> Vec<Completion> {
    let mut device: Device = profile.device();
    let mut rng = Rng::new(7);
    one_by_one(&mut device, (0..USER).map(|lpn| page(Op::Write, lpn)));
    let draw = std::iter::repeat_with(|| {
        let op = if rng.below(100) < read_percent { Op::Read } else { Op::Write };
        page(op, rng.below(USER))
    });
    let mut seen = Vec::new();
    closed_loop(&mut device, depth, draw.take(warm + 20_000), |served| seen.push(*served));
    device.ftl().check_invariants();
    seen.split_off(warm)
}

fn latencies(served: &[Completion], op: Op) -> Vec<u64> {
    let of = served.iter().filter(|one| one.io.op == op);
    let mut all: Vec<u64> = of.map(|one| one.done.since(one.submitted).0).collect();
    all.sort_unstable();
    all
}

fn seconds(served: &[Completion]) -> f64 {
    let last = served.iter().map(|one| one.done).max().expect("some");
    last.since(served[0].done).0 as f64 * 1e-9
}

#[test]
fn reads_pass_writes_that_find_no_room() {
    let [queued, passing] = [profile(), admitted(0.0)].map(|profile| run(&profile, 64, 3, 60_000));
    let median = |served: &[Completion], op| {
        let all = latencies(served, op);
        all[all.len() / 2]
    };
    // After a queue of writes, each of which waits for its program, a read takes as long as they
    // do.
    assert!(median(&queued, Op::Read) > 2_000_000, "{}", median(&queued, Op::Read));
    // A read that passes them waits for reads of copies and for the operation that it suspends:
    // some times as long as alone.
    assert!(median(&passing, Op::Read) < 500_000, "{}", median(&passing, Op::Read));
}

#[test]
fn paced_writes_take_the_interval_each_and_the_queue_all_of_theirs() {
    let depth = 32;
    let served = run(&admitted(600.0), depth, 0, 60_000);
    let each = seconds(&served) / (served.len() - 1) as f64;
    assert!((each * 1e6 / 600.0 - 1.0).abs() < 0.001, "{each}");
    let all = latencies(&served, Op::Write);
    let queue = 600e3 * depth as f64;
    for share in [0.001, 0.5, 0.999] {
        let latency = all[(share * all.len() as f64) as usize] as f64;
        assert!((latency / queue - 1.0).abs() < 0.01, "{share}: {latency}");
    }
}

/// If reads feed the pacer, each lets another write pass: the writes of a mix are paced as if they
/// were fewer by the number of reads.
#[test]
fn a_read_lets_another_write_pass_beyond_the_pace() {
    for (pace, counted) in [("fixed", 0), ("with-reads", 1)] {
        let profile = admitted(600.0).with("controller.admission.pace", pace);
        let served = run(&profile, 32, 20, 60_000);
        let [reads, writes] = [Op::Read, Op::Write].map(|op| latencies(&served, op).len());
        assert!(reads > 3_000, "{reads} reads");
        let paced = (writes - counted * reads) as f64 * 600e-6;
        assert!((seconds(&served) / paced - 1.0).abs() < 0.01, "{} {paced}", seconds(&served));
    }
}

/// With a balanced pace, all writes of a saturated drive take a similar time, and its dies program
/// as much as if writes only waited for space, with or without concurrent reads.
#[test]
fn balanced_writes_are_even_at_the_pace_of_the_flash() {
    for read_percent in [0, 20] {
        let [unpaced, balanced] = ["fixed", "balanced"].map(|pace| {
            let profile = admitted(0.0)
                .with("controller.admission.pace", pace)
                .set("write_buffer.size_kib", 4096)
                .set("nand.program_us", vec![1000.0]);
            programmed_and_spread(&profile, read_percent)
        });
        let rate = balanced.0 / unpaced.0;
        assert!((0.96..1.02).contains(&rate), "{read_percent}: {balanced:?} of {unpaced:?}");
        let even = balanced.1 < 1.2 && balanced.1 < 0.8 * unpaced.1;
        assert!(even, "{read_percent}: {balanced:?} against {unpaced:?}");
    }
}

/// Pages programmed per second by a drive under random writes, and p99 of its writes divided by
/// their median.
fn programmed_and_spread(profile: &Profile, read_percent: u64) -> (f64, f64) {
    let mut device: Device = profile.device();
    let mut rng = Rng::new(7);
    one_by_one(&mut device, (0..USER).map(|lpn| page(Op::Write, lpn)));
    let mut served = Vec::new();
    let mut placed = [0, 0];
    for measured in [0, 1] {
        let draw = std::iter::repeat_with(|| {
            let op = if rng.below(100) < read_percent { Op::Read } else { Op::Write };
            page(op, rng.below(USER))
        });
        served.clear();
        closed_loop(&mut device, 32, draw.take(100_000), |one| served.push(*one));
        placed[measured] = device.counters().placed_pages;
    }
    let all = latencies(&served, Op::Write);
    let at = |share: f64| all[(share * all.len() as f64) as usize] as f64;
    ((placed[1] - placed[0]) as f64 / seconds(&served), at(0.99) / at(0.5))
}

#[test]
fn a_write_alone_is_not_held() {
    let one = |profile: Profile| {
        let mut device = profile.device();
        let completion = device.submit(Nanos(1_000), page(Op::Write, 3)).expect("on the drive");
        completion.stages.0
    };
    assert_eq!(one(admitted(600.0)), one(profile()));
}

#[test]
fn turns_of_a_half_duplex_path_are_enough() {
    let text = admitted(0.0)
        .with("controller.half_duplex.turnaround_us", 10.0)
        .with("controller.half_duplex.batch_commands", 3)
        .with("controller.half_duplex.batch_wait_us", 30.0)
        .0
        .to_string();
    let error = Spec::from_toml(&text).map(|_| ()).expect_err("two rules for one path").to_string();
    assert!(error.starts_with("controller.admission") && error.contains("hint: "), "{error}");
}

/// While the host leaves the buffer space, collection copies its debt in rounds of a word line of
/// all dies, for which a write waits as long as their programs take. The same amount is copied in
/// the end, and with enough background copies no write waits.
#[test]
fn deferred_collection_holds_writes_for_whole_rounds() {
    const WRITES: u64 = 60_000;
    let program = Nanos::micros(300);
    let behind = admitted(0.0)
        .with("controller.admission.pace", "balanced")
        .set("nand.pages_per_block", 63)
        .set("nand.program_us", vec![300.0; 3])
        .with("gc.runs_behind", "word-lines")
        .set("gc.copy_extent_us", 1.0)
        .set("gc.copy_page_us", 0.5);
    let run = |profile: &Profile| {
        let mut device = profile.device();
        let mut rng = Rng::new(7);
        let mut at = one_by_one(&mut device, (0..USER).map(|lpn| page(Op::Write, lpn)));
        let mut long = Vec::new();
        let mut copied = 0;
        for i in 0..2 * WRITES {
            if i == WRITES {
                copied = device.counters().copied_pages;
                long.clear();
            }
            at = at.after(Nanos::micros(500));
            let done =
                device.submit(at, page(Op::Write, rng.below(USER / 2))).expect("served").done;
            if done.since(at) > program {
                long.push(done.since(at).0);
            }
            at = at.max(done);
        }
        device.ftl().check_invariants();
        (long, device.counters().copied_pages - copied)
    };
    let deferred = |rate: f64| run(&behind.clone().with("gc.background_pages_per_s", rate));
    let (long, copied) = deferred(1.0);
    let spec = behind.spec();
    let round = spec.pacing.every_pages * u64::from(spec.geometry.dies());
    let rounds = long.len() as f64;
    let expected = copied as f64 / round as f64;
    assert!((rounds / expected - 1.0).abs() < 0.1, "{rounds} for {expected}");
    let mean = long.iter().sum::<u64>() / long.len() as u64;
    assert!((3 * program.0..6 * program.0).contains(&mean), "a word line's programs: {mean} ns");
    let (behind_word_lines, same) = run(&behind);
    let longest = behind_word_lines.iter().max().copied().unwrap_or(0);
    assert!(longest < 2 * program.0, "no wait for a whole word line: {longest} ns");
    let near = |same: u64| (copied as f64 / same as f64 - 1.0).abs() < 0.1;
    assert!(near(same), "{copied} and {same}");
    let (background, same) = deferred(1e6);
    assert!(background.is_empty(), "{} long", background.len());
    assert!(near(same), "{copied} and {same}");
}
