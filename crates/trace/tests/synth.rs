//! Tests that synthesized traces have the published statistics, and are the same for the same seed.
//!
//! The expected numbers are copied from the printed tables (AnandTech 8979, 2015-02-24), not read
//! from the profiles. GB is read as GiB: docs/adr/0010.

use drivebay_trace::{Info, Profile, Request, Stats, Synth};

const GIB: f64 = 1_073_741_824.0;

struct Table {
    name: &'static str,
    reads: u64,
    writes: u64,
    read_gib: f64,
    written_gib: f64,
    /// <4, 4, 8, 16, 32, 64, 128 KB, percent.
    sizes: [f64; 7],
    /// 1, 2, 3, 4-5, 6-10, 11-20, 21-32, >32, percent.
    depths: [f64; 8],
    /// Printed, or the range that the depth table allows (Light).
    depth_mean: std::ops::Range<f64>,
    sequential: f64,
}

const DESTROYER: Table = Table {
    name: "destroyer",
    reads: 38_830_000,
    writes: 10_980_000,
    read_gib: 1583.02,
    written_gib: 875.62,
    sizes: [6.0, 26.2, 3.1, 2.4, 1.7, 38.4, 18.0],
    depths: [50.0, 21.9, 4.1, 5.7, 8.8, 6.0, 2.1, 1.4],
    depth_mean: 5.3..5.7,
    sequential: 67.0,
};
const HEAVY: Table = Table {
    name: "heavy",
    reads: 2_170_000,
    writes: 1_780_000,
    read_gib: 48.63,
    written_gib: 106.32,
    sizes: [7.8, 29.2, 3.5, 10.3, 10.8, 4.1, 21.7],
    depths: [63.5, 10.4, 5.1, 5.0, 6.4, 6.0, 3.2, 0.3],
    depth_mean: 4.3..4.9,
    sequential: 43.0,
};
const LIGHT: Table = Table {
    name: "light",
    reads: 372_630,
    writes: 459_709,
    read_gib: 17.97,
    written_gib: 23.25,
    sizes: [6.2, 27.6, 2.4, 8.0, 6.5, 4.8, 26.4],
    depths: [73.4, 16.8, 2.6, 2.3, 3.1, 1.5, 0.2, 0.2],
    depth_mean: 1.70..2.00,
    sequential: 70.0,
};

fn synth(name: &str, scale: f64, seed: u64) -> Synth {
    let profile = Profile::parse(Profile::text(name).expect("known")).expect("allowed");
    Synth::new(profile, scale, seed).unwrap_or_else(|error| panic!("{error}"))
}

fn info(mut synth: Synth) -> Info {
    let mut stats = Stats::default();
    while let Some(block) = synth.next_block() {
        stats.add(block).expect("one device");
    }
    stats.info()
}

fn near(what: &str, got: f64, wanted: f64, within: f64) {
    assert!((got - wanted).abs() <= within, "{what}: {got:.4}, must be {wanted} +- {within}");
}

fn check(table: &Table, scale: f64, seed: u64) {
    let got = info(synth(table.name, scale, seed));
    let count = |n: u64| (n as f64 * scale).round() as u64;
    assert_eq!((got.reads, got.writes), (count(table.reads), count(table.writes)));
    let volume = |what, bytes: u64, gib: f64| {
        near(what, bytes as f64 / (gib * GIB * scale), 1.0, 0.005);
    };
    volume("read", got.read_bytes, table.read_gib);
    volume("written", got.written_bytes, table.written_gib);
    let sizes = got.size_share.expect("there are I/Os").values;
    for (i, (share, percent)) in sizes.iter().zip(table.sizes).enumerate() {
        near(&format!("{} size {i}", table.name), share * 100.0, percent, 0.2);
    }
    let depths = got.queue_depth_share.expect("every I/O has a response").values;
    for (i, (share, percent)) in depths.iter().zip(table.depths).enumerate() {
        near(&format!("{} depth {i}", table.name), share * 100.0, percent, 0.5);
    }
    let mean = got.queue_depth_mean.expect("every I/O has a response");
    if scale >= 1.0 {
        assert!(table.depth_mean.contains(&mean), "{} depth {mean}", table.name);
    }
    let sequential = got.sequential_share.expect("there are I/Os") * 100.0;
    near(table.name, sequential, table.sequential, 1.0);
}

#[test]
fn light_has_the_published_statistics() {
    for seed in [1, 2] {
        check(&LIGHT, 1.0, seed);
    }
    check(&LIGHT, 0.1, 3);
}

#[test]
fn heavy_has_the_published_statistics() {
    check(&HEAVY, 1.0, 1);
    check(&HEAVY, 0.02, 2);
}

/// A fiftieth of the trace; the whole takes half a minute, most of it for the statistics: `cargo
/// run --release -p drivebay-trace --example synth destroyer`.
#[test]
fn the_destroyer_has_the_published_statistics() {
    check(&DESTROYER, 0.02, 1);
}

#[test]
fn idle_time_is_cut_and_times_go_forward() {
    for name in Profile::names() {
        let mut synth = synth(name, 0.002, 1);
        let (mut before, mut busy_until, mut longest) = (0, 0, 0);
        while let Some(block) = synth.next_block() {
            for request in block {
                let end = request.at.0 + request.response.expect("synthesized").0;
                assert!(request.at.0 >= before);
                longest = longest.max(request.at.0.saturating_sub(busy_until));
                (before, busy_until) = (request.at.0, busy_until.max(end));
            }
        }
        assert_eq!(longest, 25_000_000, "{name}: pauses reach 25 ms and no more");
    }
}

#[test]
fn requests_lie_within_the_extent_and_heavy_does_not_overwrite_a_drive() {
    for name in Profile::names() {
        let mut synth = synth(name, 0.01, 1);
        let extent = synth.extent_bytes();
        while let Some(block) = synth.next_block() {
            assert!(block.iter().all(|r| r.offset_bytes % 512 == 0 && r.bytes % 512 == 0));
            assert!(block.iter().all(|r| r.offset_bytes + r.bytes <= extent));
        }
    }
    // "Does not overwrite the drive once": it must also fit the smallest drive of its time.
    let got = info(synth("heavy", 1.0, 1));
    assert!(got.footprint_bytes.expect("small enough to count") < 120_000_000_000);
}

fn first(name: &str, seed: u64) -> Vec<Request> {
    let mut synth = synth(name, 0.01, seed);
    synth.next_block().expect("there are I/Os").to_vec()
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for name in Profile::names() {
        assert_eq!(first(name, 7), first(name, 7));
        assert_ne!(first(name, 7), first(name, 8));
    }
}

#[test]
fn a_smaller_trace_is_as_dense() {
    let (small, large) = (info(synth("light", 0.05, 1)), info(synth("light", 0.5, 1)));
    let per_io = |i: &Info| i.duration_s / (i.reads + i.writes) as f64;
    near("duration", per_io(&small) / per_io(&large), 1.0, 0.1);
    near("overwrites", small.overwrite_share.unwrap(), large.overwrite_share.unwrap(), 0.15);
}

#[test]
fn scales_and_profiles_that_make_no_sense_are_refused() {
    let text = Profile::text("light").expect("known");
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 11.0] {
        let profile = Profile::parse(text).expect("allowed");
        let error = Synth::new(profile, scale, 1).err().expect("refused").to_string();
        assert!(error.contains("--scale") && error.contains("hint: "), "{error}");
    }
    for (from, to) in [
        ("read_gib = 17.97", "read_gib = 170.97"),
        ("reads = 372_630", "reads = 0"),
        ("sequential_percent = 70.0", "sequential_percent = 120.0"),
        ("deep_mean = 50.0", "deep_mean = 2.0"),
        ("depth_percent = [73.4, 16.8", "depth_percent = [16.8, 73.4"),
        ("other_kib = [12, 20", "other_kib = [12, 4"),
        ("file_kib = 32", "file_kib = 99999999"),
        ("streams = 3", "streams = 30"),
        ("title =", "titel ="),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        let made =
            Profile::parse(&changed).and_then(|profile| Synth::new(profile, 1.0, 1).map(|_| ()));
        let error = made.expect_err(to).to_string();
        assert!(error.contains("\nhint: "), "{error}");
    }
}
