//! The map's journal: what fills it, what it costs, and checkpoints.

use crate::support::{Profile, page};
use drivebay_drive::{Device, Io, Op};
use drivebay_units::Nanos;

const USER: u64 = 100_000;
/// Per program, of journal or map.
const PROGRAM_US: u64 = 100;
/// Entries of 8 bytes that fill a page of 4 KiB.
const ENTRIES: u64 = 512;
/// Programs for a map of 4 bytes per page.
const MAP_PROGRAMS: u64 = (USER * 4).div_ceil(4096);

/// One die with 4 KiB programs, no garbage collection within the test, checkpoints after so much journal.
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

/// Latencies of writes, each submitted when the one before is done.
fn latencies(device: &mut Device, ios: impl Iterator<Item = Io>) -> Vec<Nanos> {
    let mut now = device.now();
    ios.map(|io| {
        let begin = now;
        now = device.submit(now, io).expect("the request lies on the drive").done;
        now.since(begin)
    })
    .collect()
}

/// Single pages, none behind the one before.
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

/// An entry tells of an extent: a command of 32 pages that lie together costs as much journal as one of a page.
#[test]
fn sequential_writes_fill_the_journal_more_slowly() {
    let mut device = device(Some(0.04));
    let large = (0..3_000).map(|i| Io { op: Op::Write, lba: i * 32 * 8, sectors: 32 * 8 });
    let longest = latencies(&mut device, large).into_iter().max();
    assert!(longest < Some(Nanos::micros(PROGRAM_US * MAP_PROGRAMS)), "{longest:?}");
}

/// A drive whose commands wait until each 4 KiB of journal are on flash, which takes its die 300 us.
fn synchronous(change: impl Fn(Profile) -> Profile) -> Device {
    let profile = Profile::sm951()
        .one_die(48, 4096, USER as u32)
        .timeless()
        .set("gc.threshold_mb", 1e9)
        .with("map_journal.entry_bytes", 8)
        .with("map_journal.program_us", 1.0)
        .with("map_journal.program_kib", 4)
        .with("map_journal.die_program_us", 300.0)
        .with("map_journal.synchronous", true);
    change(profile).device()
}

/// Of one write in 512 the next waits, and only that.
#[test]
fn commands_wait_for_a_synchronous_journal() {
    let latencies = latencies(&mut synchronous(|profile| profile), scattered(5 * ENTRIES));
    let stalled: Vec<u64> =
        (0..).zip(&latencies).filter(|(_, l)| **l > Nanos::micros(200)).map(|(i, _)| i).collect();
    let first = 1; // behind the summary for the first superblock that is opened
    assert_eq!(stalled, [first, 512, 1024, 1536, 2048], "the command behind each");
    assert!(stalled[1..].iter().all(|&i| latencies[i as usize] < Nanos::micros(400)));
    let sixteen = |profile: Profile| profile.with("map_journal.program_kib", 16);
    let rarer = self::latencies(&mut synchronous(sixteen), scattered(5 * ENTRIES));
    let stalls = rarer.iter().filter(|l| **l > Nanos::micros(200)).count();
    assert_eq!(stalls, 2, "four times as many entries fill 16 KiB");
}

/// The journal's program comes behind those of data that the die has been asked for.
#[test]
fn a_synchronous_journal_waits_behind_the_programs_of_its_die() {
    let slow = |profile: Profile| profile.set("nand.program_us", vec![2000.0]);
    let mut device = synchronous(slow);
    let longest = latencies(&mut device, scattered(2 * ENTRIES)).into_iter().max();
    assert!(longest > Some(Nanos::micros(2300)), "{longest:?}");
}
