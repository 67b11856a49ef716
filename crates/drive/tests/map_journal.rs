//! The map's journal: how writes fill it, its costs, and checkpoints.

use crate::support::{Profile, page};
use drivebay_drive::{Device, Io, Op};
use drivebay_units::Nanos;

const USER: u64 = 100_000;
/// Time per program of journal or map, in us.
const PROGRAM_US: u64 = 100;
/// Entries of 8 bytes that fill a page of 4 KiB.
const ENTRIES: u64 = 512;
/// Programs for a map of 4 bytes per page.
const MAP_PROGRAMS: u64 = (USER * 4).div_ceil(4096);

/// One die with 4 KiB programs, no garbage collection within the test, and a checkpoint after
/// `checkpoint_mb` of journal.
fn device(checkpoint_mb: Option<f64>) -> Device {
    let profile = Profile::sm951()
        .one_die(2048, 64, USER as u32)
        .timeless()
        .set("gc.threshold_mb", 1e9)
        .with("map_journal.entry_bytes", 8)
        .with("map_journal.program_us", PROGRAM_US as f64);
    match checkpoint_mb {
        Some(mb) => profile.with("map_journal.checkpoint_mb", mb).device(),
        None => profile.device(),
    }
}

/// Latencies of writes, each submitted when the previous one is done.
fn latencies(device: &mut Device, ios: impl Iterator<Item = Io>) -> Vec<Nanos> {
    let mut now = device.now();
    ios.map(|io| {
        let begin = now;
        now = device.submit(now, io).expect("the request lies on the drive").done;
        now.since(begin)
    })
    .collect()
}

/// Single pages, none directly after the previous one.
fn scattered(count: u64) -> impl Iterator<Item = Io> {
    (0..count).map(|i| page(Op::Write, i * 7 % USER))
}

#[test]
fn the_host_waits_while_the_whole_map_is_written() {
    // 0.04 MB are 5,000 entries, and they count when a program of them is full.
    let every = 5_000_u64.div_ceil(ENTRIES) * ENTRIES;
    let mut device = device(Some(0.04));
    let latencies = latencies(&mut device, scattered(4 * every));
    let stall = Nanos::micros(PROGRAM_US * MAP_PROGRAMS);
    let stalled: Vec<usize> = (0..latencies.len()).filter(|&i| latencies[i] >= stall).collect();
    let expected: Vec<usize> = (1..4).map(|n| (n * every) as usize).collect();
    assert_eq!(stalled, expected, "the command behind each checkpoint waits for it");
}

#[test]
fn without_checkpoints_nobody_waits_for_more_than_a_program() {
    let mut device = device(None);
    let longest = latencies(&mut device, scattered(20_000)).into_iter().max();
    assert!(longest < Some(Nanos::micros(3 * PROGRAM_US)), "{longest:?}");
}

/// An entry describes an extent: a command of 32 consecutive pages costs as much journal as a
/// command of one page.
#[test]
fn sequential_writes_fill_the_journal_more_slowly() {
    let mut device = device(Some(0.04));
    let large = (0..3_000).map(|i| Io::new(Op::Write, i * 32 * 8, 32 * 8));
    let longest = latencies(&mut device, large).into_iter().max();
    assert!(longest < Some(Nanos::micros(PROGRAM_US * MAP_PROGRAMS)), "{longest:?}");
}
