//! The SLC cache compared with values that can be computed by hand: its size, the rates before and
//! after the cliff, the time until the cliff with concurrent folding, idle folding, reads, TRIM,
//! wear.
//!
//! Times of the drive here, per program of a die (two planes, 32 KiB): 200 us with one bit per
//! cell, 600 us on average with three. Folding 32 KiB takes a die 2 x 25 us of reads and 600 us of
//! programs.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Io, Op, Spec, Stage};
use drivebay_units::Nanos;

/// Bytes that the four dies program at once.
const ROW: f64 = 4.0 * 2.0 * 16_384.0;
const SLC_US: f64 = 200.0;
const TLC_US: f64 = 600.0;
const FOLD_US: f64 = TLC_US + 2.0 * 25.0;
/// Pages of a superblock: four dies, two planes, 96 flash pages of four; a third of them with one
/// bit per cell.
const NATIVE: u64 = 4 * 2 * 96 * 4;
const SLC: u64 = NATIVE / 3;
const SUPERBLOCKS: u64 = 220;
const USER: u64 = 180 * NATIVE;
/// MB of one superblock of the cache.
const SLC_MB: f64 = SLC as f64 * 4096.0 / 1e6;

fn profile() -> Profile {
    Profile::sm951()
        .cool()
        .set("nand.channels", 2)
        .set("nand.dies_per_channel", 2)
        .set("nand.planes", 2)
        .set("nand.blocks_per_plane", SUPERBLOCKS as i64)
        .set("nand.pages_per_block", 96)
        .set("nand.bad_superblocks", 0)
        .set("nand.program_us", vec![300.0, 500.0, 1000.0])
        .set("nand.channel_mb_per_s", 1200.0)
        .set("controller.write_command_us", 1.0)
        .set("controller.write_page_us", 0.1)
        .set("gc.copy_extent_us", 0.1)
        .set("gc.copy_page_us", 0.1)
        .set("gc.threshold_mb", 450.0)
        .set("gc.target_mb", 40.0)
        .set("nand.erase_us", 100.0)
        .set("drive.capacity_sectors", USER as i64 * 8)
        .set("write_buffer.size_kib", 2048)
}

/// Superblocks of static and dynamic cache, and free superblocks that it keeps.
fn cached(fixed: u64, dynamic: u64, keep: u64, when_full: &str, ratio: f64) -> Profile {
    let keep_mb = (keep * NATIVE) as f64 * 4096.0 / 1e6;
    let mb = [fixed as f64 * SLC_MB, dynamic as f64 * SLC_MB, keep_mb];
    profile().slc_cache(mb, when_full, ratio)
}

fn block(number: u64) -> Io {
    Io::new(Op::Write, number * 256, 256)
}

/// Writes `count` blocks of 128 KiB from block `from` on; returns MB/s.
fn write(device: &mut Device, from: u64, count: u64) -> f64 {
    let begin = device.now();
    let end = at_depth(device, 8, (from..from + count).map(block));
    device.idle_until(end);
    count as f64 * 131_072.0 / end.since(begin).as_secs_f64() / 1e6
}

#[track_caller]
fn assert_near(got: f64, expected: f64, percent: f64) {
    let error = (got / expected - 1.0) * 100.0;
    assert!(error.abs() <= percent, "{got} against {expected}: {error:.2} %");
}

/// Data of whole superblocks of the cache, in blocks of 128 KiB.
fn blocks(superblocks: u64) -> u64 {
    superblocks * SLC / 32
}

#[test]
fn a_burst_runs_at_the_narrower_of_link_and_slc_programs() {
    let fast = cached(0, 60, 20, "direct", 0.0);
    assert_near(write(&mut fast.device(), 0, blocks(50)), ROW / SLC_US, 1.0);
    let narrow = fast.set("link.generation", 1).set("link.lanes", 1);
    let link = 250.0 * 64.0 / 84.0; // completions of 64 bytes, 20 around each
    assert_near(write(&mut narrow.device(), 0, blocks(50)), link, 1.0);
}

/// After the cliff with `direct`, the rate is dies x planes x page / tPROG. The buffer's pages are
/// still under way.
#[test]
fn the_cliff_comes_when_the_cache_is_full() {
    for (fixed, dynamic) in [(20, 0), (0, 20), (5, 15)] {
        let mut device = cached(fixed, dynamic, 20, "direct", 0.0).device();
        // The last 2 MB of 84 are still under way.
        assert_near(write(&mut device, 0, blocks(20)), ROW / SLC_US, 3.0);
        assert_eq!(device.counters().slc_pages, 20 * SLC);
        write(&mut device, blocks(20), 100);
        assert_near(write(&mut device, blocks(20) + 100, 1000), ROW / TLC_US, 1.0);
        let counters = device.counters();
        assert_eq!((counters.slc_pages, counters.copied_pages), (20 * SLC, 0));
        assert_eq!(counters.placed_pages, counters.host_pages);
        device.ftl().check_invariants();
    }
}

/// Each written page is followed by `r` folded pages: the cache lasts for 1 / (1 - r) of its size,
/// and each page takes the dies SLC + r x fold.
#[test]
fn folding_beside_writes_puts_the_cliff_off() {
    for (ratio, dynamic) in [(0.25, 40), (0.5, 30)] {
        let mut device = cached(0, dynamic, 20, "direct", ratio).device();
        let held = dynamic as f64 / (1.0 - ratio);
        let (mut number, step) = (0, blocks(1) / 2);
        while device.counters().slc_pages == device.counters().host_pages {
            write(&mut device, number, step);
            number += step;
            assert!(number < blocks(200), "a cliff");
        }
        assert_near(number as f64 / blocks(1) as f64, held, 5.0);
        // The same amount again, in one go, as far as the cache lasts.
        let mut device = cached(0, dynamic, 20, "direct", ratio).device();
        write(&mut device, 0, blocks(4));
        let rate = write(&mut device, blocks(4), (number as f64 * 0.75) as u64);
        assert_near(rate, ROW / (SLC_US + ratio * FOLD_US), 3.0);
        device.ftl().check_invariants();
    }
}

/// With `fold`, every page waits for a page to be folded, which is slower than the native flash.
#[test]
fn a_drive_that_waits_for_folding_falls_below_native_speed() {
    for (fixed, dynamic) in [(12, 0), (0, 12), (4, 8)] {
        let mut device = cached(fixed, dynamic, 20, "fold", 0.0).device();
        write(&mut device, 0, blocks(14));
        let before = device.counters();
        let rate = write(&mut device, blocks(14), blocks(60));
        assert_near(rate, ROW / (SLC_US + FOLD_US), 3.0);
        let after = device.counters();
        let written = (after.host_pages - before.host_pages) as f64;
        assert_near((after.copied_pages - before.copied_pages) as f64, written, 2.0);
        assert_near((after.placed_pages - before.placed_pages) as f64, 2.0 * written, 2.0);
        device.ftl().check_invariants();
    }
}

/// A page of dynamic cache needs three free pages beyond `keep`.
#[test]
fn the_dynamic_cache_shrinks_as_the_drive_fills() {
    for (full, keep) in [(0, 20), (90, 20), (165, 20), (172, 20), (190, 20), (150, 55)] {
        let mut device = cached(0, 30, keep, "direct", 0.0).device();
        // Filled and folded.
        let pages = (full * NATIVE).min(USER);
        at_depth(&mut device, 8, (0..pages / 32).map(block));
        device.idle_until(device.now().after(Nanos::secs(200)));
        let free = SUPERBLOCKS.saturating_sub(full.min(180) + 1 + keep);
        let expected = free.min(30);
        let (size, held) = device.cache_pages();
        assert!(held < SLC, "{full}: no more than an open superblock: {held}");
        assert!(size / SLC + 1 >= expected && size / SLC <= expected + 1, "{full}: {}", size / SLC);
        // This amount is indeed written at full speed.
        let before = device.counters().slc_pages;
        at_depth(&mut device, 8, (0..blocks(40)).map(block));
        let cached = (device.counters().slc_pages - before) / SLC;
        assert!(cached + 1 >= expected && cached <= expected + 1, "{full}: {cached} of {expected}");
        device.ftl().check_invariants();
    }
}

/// Idle folding begins in time, runs at the dies' speed, and the next burst is a full one.
#[test]
fn a_rest_empties_the_cache() {
    let mut device = cached(5, 25, 20, "direct", 0.0).device();
    write(&mut device, 0, blocks(30));
    let begin = device.now();
    device.idle_until(begin.after(Nanos::millis(90)));
    assert_eq!(device.counters().copied_pages, 0, "not yet");
    // Half of the time that folding takes.
    let whole = blocks(30) as f64 * 131_072.0 / (ROW / FOLD_US * 1e6) * 1e9;
    device.idle_until(begin.after(Nanos::millis(100)).after(Nanos((whole * 0.5) as u64)));
    assert_near(device.counters().copied_pages as f64, 15.0 * SLC as f64, 5.0);
    device.ftl().check_invariants();
    device.idle_until(begin.after(Nanos::millis(100)).after(Nanos((whole * 1.1) as u64)));
    // The open superblock stays: it is full, but no other has been opened yet.
    assert_eq!(device.counters().copied_pages, 29 * SLC);
    assert_eq!(device.counters().placed_pages, 59 * SLC);
    assert_near(write(&mut device, 4000, blocks(29)), ROW / SLC_US, 2.0);
    device.ftl().check_invariants();
}

/// Dividing a rest into parts makes no difference, also with garbage collection alongside folding,
/// and with a map whose pages the copies load and write back in the rest.
#[test]
fn a_rest_in_parts_is_a_rest() {
    let idle = cached(3, 20, 10, "direct", 0.0)
        .with("gc.idle.after_ms", 10.0)
        .with("gc.idle.free_mb", 150.0);
    for profile in [idle.clone(), idle.map_cache(64, 0, 0.0)] {
        let worn = || {
            let mut device = profile.device();
            write(&mut device, 0, USER / 32);
            at_depth(&mut device, 8, (0..3000).map(|i| page(Op::Write, i * 7919 % USER)));
            device
        };
        let (mut whole, mut parts, mut none) = (worn(), worn(), worn());
        let end = whole.now().after(Nanos::millis(400));
        whole.idle_until(end);
        for i in 1..=7 {
            parts.idle_until(Nanos(parts.now().0 + (end.0 - parts.now().0) * i / 7));
        }
        let [a, b, c] = [&mut whole, &mut parts, &mut none].map(|device| {
            let done = device.submit(end, page(Op::Write, 5)).expect("room").done;
            (done, device.counters().copied_pages, device.ftl().free_pages())
        });
        assert!(a.1 > 0 && a == b && a == c, "{a:?} {b:?} {c:?}");
    }
}

#[test]
fn reads_of_cached_data_take_the_time_of_one_bit_per_cell() {
    let mut device = cached(0, 20, 20, "direct", 0.0).device();
    write(&mut device, 0, blocks(3));
    let sense = |device: &mut Device| {
        let at = device.now().after(Nanos::millis(1));
        let read = device.submit(at, page(Op::Read, 9)).expect("on the drive");
        assert_eq!(read.stages.total(), read.done.since(at));
        device.idle_until(read.done);
        read.stages.of(Stage::Nand)
    };
    assert_eq!(sense(&mut device), Nanos::micros(25));
    device.idle_until(device.now().after(Nanos::secs(5)));
    assert_eq!(sense(&mut device), Nanos(61_700), "folded");
}

/// Trimmed data is not folded, and its superblocks are free at once.
#[test]
fn a_trimmed_cache_is_an_empty_cache() {
    for fixed in [0, 10, 20] {
        let mut device = cached(fixed, 20 - fixed, 20, "direct", 0.0).device();
        write(&mut device, 0, blocks(20));
        let trim = Io::new(Op::Trim, 0, 20 * SLC as u32 * 8);
        one_by_one(&mut device, [trim]);
        write(&mut device, 0, blocks(20));
        let counters = device.counters();
        assert_eq!((counters.slc_pages, counters.copied_pages), (40 * SLC, 0));
        device.ftl().check_invariants();
    }
}

/// Erases of the cache cause less wear: here an eighth, for static and dynamic superblocks alike.
#[test]
fn the_cache_wears_its_flash_less() {
    for fixed in [0, 4] {
        let profile = cached(fixed, 4 - fixed, 20, "direct", 0.0).with("health.rated_cycles", 1.0);
        let mut device = profile.device();
        // Repeated writes and trims use only the cache.
        for _ in 0..1000 {
            at_depth(&mut device, 8, (0..blocks(4)).map(block));
            let trim = Io::new(Op::Trim, 0, 4 * SLC as u32 * 8);
            one_by_one(&mut device, [trim]);
        }
        let counters = device.counters();
        assert_eq!(counters.slc_pages, counters.host_pages);
        // Superblocks are erased one ahead of their use; fresh ones are never erased.
        assert_eq!(counters.slc_erases, counters.erases);
        assert!(counters.erases > 4000 - SUPERBLOCKS - 2, "{}", counters.erases);
        let worn = (0..SUPERBLOCKS as u32).map(|i| device.ftl().cycles(i)).max().expect("some");
        let mean = counters.slc_erases as f64 / 8.0 / SUPERBLOCKS as f64;
        assert_eq!(device.health().percentage_used, Some((mean * 100.0) as u8));
        // Static superblocks take all erases, dynamic ones share them.
        let expected = if fixed > 0 { 1000 / 8 } else { 4000 / 220 / 8 };
        assert!(worn.abs_diff(expected) <= 2, "{worn} against {expected}");
    }
}

/// Programs with one bit per cell have a separate energy.
#[test]
fn energy_counts_by_bits_per_cell() {
    let energy = |slc_uj: f64| {
        let mut profile = cached(0, 10, 20, "direct", 0.0);
        profile = profile.set("slc_cache.program_4k_uj", slc_uj);
        let mut device = profile.device();
        write(&mut device, 0, blocks(20));
        device.idle_until(device.now().after(Nanos::millis(90)));
        device.counters().energy_nj
    };
    assert_eq!(energy(5.0) - energy(2.0), 10 * SLC * 3000);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |profile: &Profile, field: &str, allowed: &str| {
        let text = profile.0.to_string();
        let error = Spec::from_toml(&text).map(|_| ()).expect_err(field).to_string();
        let good =
            error.starts_with(field) && error.contains(allowed) && error.contains("\nhint: ");
        assert!(good, "{error}");
    };
    let some = || cached(0, 10, 20, "direct", 0.0);
    refused(&cached(41, 0, 0, "direct", 0.0), "slc_cache.static_mb", "at most 40 superblocks");
    refused(&cached(37, 0, 0, "direct", 0.0), "drive.capacity_sectors", "at least 5 superblocks");
    refused(&cached(0, 221, 0, "direct", 0.0), "slc_cache.dynamic_mb", "one superblock");
    refused(&some().set("slc_cache.dynamic_mb", 0.1), "slc_cache.dynamic_mb", "0, or ");
    refused(&some().set("slc_cache.when_full", "wait"), "slc_cache.when_full", "direct, fold");
    refused(&some().set("slc_cache.fold_ratio", -0.1), "slc_cache.fold_ratio", "from 0 to 16");
    refused(&some().set("slc_cache.cycle_weight", 1.1), "slc_cache.cycle_weight", "from 0 to 1");
    refused(&some().set("nand.program_us", vec![200.0]), "slc_cache", "two to four page types");
}

/// A fill is fast at first, then slower with a third of a page folded per page, then at the rate of
/// TLC once the cache is empty. The cache stays closed until a rest.
#[test]
fn folding_that_begins_when_the_cache_is_full_ends_before_the_drive_is() {
    let mut device =
        cached(0, 30, 20, "direct", 1.0 / 3.0).with("slc_cache.fold_from", "full").device();
    assert_near(write(&mut device, 0, blocks(29)), ROW / SLC_US, 2.0);
    write(&mut device, blocks(29), blocks(4));
    let folding = write(&mut device, blocks(33), blocks(60));
    assert_near(folding, ROW / (TLC_US + FOLD_US / 3.0), 2.0);
    write(&mut device, blocks(93), blocks(60));
    assert_near(write(&mut device, blocks(153), blocks(90)), ROW / TLC_US, 1.0);
    device.idle_until(device.now().after(Nanos::secs(20)));
    assert_near(write(&mut device, blocks(243), blocks(20)), ROW / SLC_US, 3.0);
}

#[test]
fn folding_from_full_on_is_refused_where_writes_wait_for_it() {
    let profile = cached(0, 30, 20, "fold", 0.5).with("slc_cache.fold_from", "full");
    let error = Spec::from_toml(&profile.0.to_string()).expect_err("refused").to_string();
    assert!(error.contains("slc_cache.fold_from"), "{error}");
}
