//! SLC, MLC, TLC and QLC: every page type has its own time, in programming order.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Io, Op, Stage};
use drivebay_units::Nanos;

/// tPROG in microseconds, pages in programming order. Figures of the literature, rounded: SLC 200
/// (data sheets of 34 nm SLC), MLC as the SM951's profile, TLC and QLC `guess:` with means near 660
/// and 2,000.
const CELLS: [(&str, &[f64]); 4] = [
    ("SLC", &[200.0]),
    ("MLC", &[420.0, 1244.0]),
    ("TLC", &[300.0, 600.0, 1100.0]),
    ("QLC", &[700.0, 1500.0, 2400.0, 3400.0]),
];

/// One die, and a buffer of two pages: a write ends when the program before the previous one has
/// ended.
fn one_die(program_us: &[f64]) -> Profile {
    Profile::sm951()
        .one_die(40, 96, 1024)
        .cool()
        .set("nand.program_us", program_us.to_vec())
        .set("write_buffer.size_kib", 8)
}

/// The intervals between the ends of writes are the program times, one page type after the other.
#[test]
fn programs_take_their_times_in_order() {
    for (cell, times) in CELLS {
        let mut device = one_die(times).device();
        let mut ends = Vec::new();
        for lpn in 0..60 {
            let end = one_by_one(&mut device, [page(Op::Write, lpn)]);
            device.idle_until(end);
            ends.push(end);
        }
        // The write of page i waits for the program of page i - 2.
        for i in 10..60 {
            let expected = (times[(i - 2) % times.len()] * 1000.0) as u64;
            assert_eq!(ends[i].since(ends[i - 1]), Nanos(expected), "{cell}, page {i}");
        }
    }
}

/// Megabytes per second of sequential writes, dies being the bottleneck.
fn sequential_write(profile: &Profile) -> f64 {
    let mut device = profile.device();
    let block = |i: u64| Io::new(Op::Write, i * 256, 256);
    let warm = at_depth(&mut device, 8, (0..600).map(block));
    device.idle_until(warm);
    let end = at_depth(&mut device, 8, (600..3600).map(block));
    3000.0 * 131_072.0 / end.since(warm).as_secs_f64() / 1e6
}

/// Two dies with these program times, which are the bottleneck.
fn two_dies(times: &[f64], planes: u32) -> Profile {
    Profile::sm951()
        .set("nand.channels", 2)
        .set("nand.dies_per_channel", 1)
        .set("nand.planes", i64::from(planes))
        .set("nand.blocks_per_plane", 600)
        .set("nand.pages_per_block", 192)
        .set("drive.capacity_sectors", 4_000_000)
        .set("nand.program_us", times.to_vec())
        .set("nand.channel_mb_per_s", 1200.0)
        .set("write_buffer.size_kib", 1024)
        .cool()
}

/// Dies x planes x page / mean program time; without cache programs the mean and the loading.
#[test]
fn sequential_writes_run_at_the_mean_program_time() {
    for (cell, times) in CELLS {
        for (planes, cached) in [(1u32, true), (2, true), (4, true), (2, false)] {
            let mut profile = two_dies(times, planes);
            let cache = profile.0["nand"]["cache_program"].as_table_mut().expect("a leaf");
            cache.insert("value".to_owned(), cached.into());
            let bytes = f64::from(planes) * 16_384.0;
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let load = if cached { 0.0 } else { bytes / 1200.0 };
            let expected = 2.0 * bytes / (mean + load);
            let got = sequential_write(&profile);
            let error = (got / expected - 1.0).abs();
            assert!(error < 0.01, "{cell}, {planes} planes, {cached}: {got} against {expected}");
        }
    }
}

fn read_times(device: &mut Device, count: u64) -> Vec<u64> {
    let read = |lpn| {
        let now = device.now().after(Nanos::millis(50));
        device.idle_until(now);
        device.submit(now, page(Op::Read, lpn)).expect("on the drive").stages.of(Stage::Nand).0
    };
    (0..count).map(read).collect()
}

/// Reads take the time of their page's type if the profile specifies it, otherwise one time for
/// all; their mean is `read_us`.
#[test]
fn reads_take_the_time_of_their_page_type() {
    let program = CELLS[2].1;
    let by_type = |mean: f64| {
        let mut profile = one_die(program).set("nand.read_us", mean);
        let leaf: toml::Table =
            "value = [50, 70, 90]\nsource = \"guess: a test's\"".parse().expect("TOML");
        let nand = profile.0["nand"].as_table_mut().expect("a section");
        nand.insert("read_by_type_us".to_owned(), toml::Value::Table(leaf));
        profile
    };
    for (profile, expected) in [
        (by_type(70.0), [50_000, 70_000, 90_000]),
        (by_type(35.0), [25_000, 35_000, 45_000]),
        (one_die(program), [61_700; 3]),
    ] {
        let mut device = profile.device();
        one_by_one(&mut device, (0..30).map(|lpn| page(Op::Write, lpn)));
        let times = read_times(&mut device, 30);
        for (lpn, time) in times.into_iter().enumerate() {
            assert_eq!(time, expected[lpn % 3], "page {lpn}");
        }
    }
}

/// Error correction is in the latency of each read, also of one that is only a part of a command,
/// and does not reduce the rate of a die that always has another read to do.
#[test]
fn error_correction_delays_reads_and_holds_up_none() {
    let measured = |decode_us: f64| {
        let mut device = one_die(CELLS[2].1).with("controller.decode_us", decode_us).device();
        one_by_one(&mut device, (0..512).map(|lpn| page(Op::Write, lpn)));
        let begin = device.now().after(Nanos::millis(100));
        device.idle_until(begin);
        let alone = device.submit(begin, page(Op::Read, 7)).expect("on the drive").done;
        device.idle_until(alone.after(Nanos::millis(100)));
        let deep = device.now();
        let reads = (0..4000).map(|i| page(Op::Read, i * 37 % 500));
        let end = at_depth(&mut device, 16, reads);
        (alone.since(begin).0, end.since(deep).0)
    };
    let ((alone, deep), (alone_decoded, deep_decoded)) = (measured(0.0), measured(12.5));
    assert_eq!(alone_decoded - alone, 12_500);
    let longer = deep_decoded as f64 / deep as f64;
    assert!((1.0..1.001).contains(&longer), "4,000 reads took {longer} of the time");
}
