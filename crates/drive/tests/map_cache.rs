//! The map's cache compared with values that can be computed by hand: hit rates, latencies, write
//! amplification.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Io, MapTraffic, Op, Stage};
use drivebay_units::{Nanos, Rng};

/// Pages of the part of the drive that the tests use: 1,024 translation pages.
const PAGES: u64 = 1 << 20;
const MAP_PAGES: f64 = 1024.0;

/// A drive whose first 4 GiB are written in order, and that is at rest.
fn written(profile: Profile) -> Device {
    let mut device = profile.cool().device();
    let block = |i: u64| Io::new(Op::Write, i * 256, 256);
    let end = at_depth(&mut device, 8, (0..PAGES / 32).map(block));
    device.idle_until(end.after(Nanos::secs(10)));
    device
}

fn since(after: MapTraffic, before: MapTraffic) -> MapTraffic {
    MapTraffic {
        look_ups: after.look_ups - before.look_ups,
        sram_hits: after.sram_hits - before.sram_hits,
        host_hits: after.host_hits - before.host_hits,
        loads: after.loads - before.loads,
        write_backs: after.write_backs - before.write_backs,
    }
}

/// Does `count` uniform requests one by one; returns the traffic of the second half.
fn uniform(device: &mut Device, op: Op, count: u64) -> MapTraffic {
    let mut rng = Rng::new(5);
    let mut half = |device: &mut Device| {
        let draws = (0..count / 2).map(|_| page(op, rng.below(PAGES)));
        let end = one_by_one(device, draws);
        device.idle_until(end);
    };
    half(device);
    let before = device.counters().map;
    half(device);
    since(device.counters().map, before)
}

/// Checks that `got` of `count` trials of probability `p` is within four standard deviations.
#[track_caller]
fn assert_binomial(got: u64, count: u64, p: f64) {
    let deviation = (p * (1.0 - p) / count as f64).sqrt();
    let share = got as f64 / count as f64;
    assert!((share - p).abs() <= 4.0 * deviation, "{share} against {p} +- {deviation}");
}

/// Uniform reads hit with the share of the map that is cached, whatever the replacement.
#[test]
fn uniform_reads_hit_by_the_share_that_is_cached() {
    for (sram_kib, host_mib) in [(512, 0), (2048, 0), (256, 1), (1024, 2)] {
        let mut device = written(Profile::sm951().map_cache(sram_kib, host_mib, 3.0));
        let got = uniform(&mut device, Op::Read, 80_000);
        let (sram, host) = (f64::from(sram_kib) / 4.0, f64::from(host_mib) * 256.0);
        assert_eq!(got.look_ups, 40_000);
        assert_binomial(got.sram_hits, 40_000, sram / MAP_PAGES);
        assert_binomial(got.host_hits, 40_000, host / MAP_PAGES);
        assert_binomial(got.loads, 40_000, 1.0 - (sram + host) / MAP_PAGES);
    }
}

/// One page after another finds its translation page 1,023 times of 1,024.
#[test]
fn sequential_reads_miss_once_per_translation_page() {
    let mut device = written(Profile::sm951().map_cache(64, 0, 0.0));
    let before = device.counters().map;
    one_by_one(&mut device, (0..100 * 1024).map(|lpn| page(Op::Read, lpn)));
    let got = since(device.counters().map, before);
    assert_eq!((got.look_ups, got.loads, got.sram_hits), (102_400, 100, 100 * 1023));
}

/// At queue depth 1, a miss costs a sensing and 4 KiB on the channel more than a hit, and a look-up
/// in the host's memory costs the time in the profile. All of it belongs to the map's stage.
#[test]
fn a_miss_costs_a_flash_read_and_a_look_up_in_the_host_its_time() {
    let mut device = written(Profile::sm951().map_cache(8, 1, 3.0));
    let mut read = |lpn: u64| {
        let now = device.now().after(Nanos::millis(50));
        device.idle_until(now);
        let io = device.submit(now, page(Op::Read, lpn)).expect("on the drive");
        (io.done.since(now), io.stages.of(Stage::Map))
    };
    // Pages far enough apart to be in different translation pages, and to evict changed ones.
    let far = |i: u64| i * 1024 + 5;
    for i in 0..1024 {
        read(far(i));
    }
    let (hit, none) = read(far(1023));
    assert_eq!(none, Nanos::ZERO);
    // There are 2 pages in the controller and 256 in the host's memory; the 10th before the last is
    // in the host's memory.
    let (host, in_host) = read(far(1013));
    assert_eq!((host.since(hit), in_host), (Nanos(3000), Nanos(3000)));
    let flash = 61_700 + (4096.0f64 * 1e3 / 360.0).round() as u64;
    let (miss, in_flash) = read(far(3));
    assert_eq!((miss.since(hit), in_flash), (Nanos(flash), Nanos(flash)));
}

/// Each uniform write that misses evicts a translation page that an earlier write has changed: map
/// writes per host write equal the share of misses.
#[test]
fn uniform_writes_write_the_map_by_the_share_of_misses() {
    for sram_kib in [1024, 3072] {
        let mut device = written(Profile::sm951().map_cache(sram_kib, 0, 0.0));
        let before = device.counters();
        let got = uniform(&mut device, Op::Write, 40_000);
        let after = device.counters();
        let misses = 1.0 - f64::from(sram_kib) / 4.0 / MAP_PAGES;
        assert_binomial(got.write_backs, 20_000, misses);
        assert_eq!(after.copied_pages, before.copied_pages, "no garbage collection yet");
        let written = after.map.write_backs - before.map.write_backs;
        let placed = after.placed_pages - before.placed_pages;
        assert_eq!(placed, after.host_pages - before.host_pages + written);
    }
}

/// Pages that were never written, or were erased, need no look-up; a cache as large as the map
/// costs nothing.
#[test]
fn a_map_that_is_nowhere_or_wholly_cached_costs_nothing() {
    let mut device = Profile::sm951().map_cache(4, 0, 0.0).device();
    one_by_one(&mut device, (0..1000).map(|i| page(Op::Read, i * 1024)));
    assert_eq!(device.counters().map.loads, 0);
    one_by_one(&mut device, (0..1000).map(|i| page(Op::Write, i * 1024)));
    assert_eq!(device.counters().map.loads, 0, "pages of zeros need no load");
    assert_eq!(device.counters().map.write_backs, 999);
    device.secure_erase();
    one_by_one(&mut device, (0..1000).map(|i| page(Op::Read, i * 1024)));
    assert_eq!(device.counters().map.loads, 0);

    let mut whole = written(Profile::sm951().map_cache(1 << 20, 0, 0.0));
    let mut plain = written(Profile::sm951());
    uniform(&mut whole, Op::Read, 4000);
    uniform(&mut plain, Op::Read, 4000);
    assert_eq!(whole.now(), plain.now());
    assert_eq!(whole.counters().map.loads, 0);
}

/// Random writes with garbage collection on a small cache: all pages stay mapped, stages add up,
/// and the garbage collection's own look-ups are counted.
#[test]
fn garbage_collection_looks_up_and_changes_the_map_as_well() {
    let mut device = Profile::sm951()
        .one_die(200, 128, 16_384)
        .set("gc.reserve_superblocks", 1)
        .map_cache(8, 0, 0.0)
        .cool()
        .device();
    let mut rng = Rng::new(2);
    one_by_one(&mut device, (0..16_384).map(|lpn| page(Op::Write, lpn)));
    let before = device.counters();
    one_by_one(&mut device, (0..40_000).map(|_| page(Op::Write, rng.below(16_384))));
    let after = device.counters();
    let copied = after.copied_pages - before.copied_pages;
    assert!(copied > 10_000);
    assert_eq!(after.map.look_ups - before.map.look_ups, 40_000 + copied);
    assert_eq!(device.ftl().mapped(), 16_384);
    device.ftl().check_invariants();
}
