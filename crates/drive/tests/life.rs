//! Life that is not simulated: counters, wear, age of data and blocks that fail.

use crate::support::{Profile, one_by_one, page};
use drivebay_drive::{Device, Op};
use drivebay_units::{Nanos, Rng};

const PAGES: u64 = 20_000;

fn small(life_cycles: u32) -> Device {
    let profile = Profile::sm951()
        .one_die(200, 128, PAGES as u32)
        .cool()
        .wearing()
        .set("reliability.block_life_cycles", life_cycles);
    let mut device = profile.device();
    one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
    device
}

fn overwrite(device: &mut Device, count: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    one_by_one(device, (0..count).map(|_| page(Op::Write, rng.next_u64() % PAGES)));
    device.idle_until(device.now().after(Nanos::secs(1)));
}

#[test]
fn what_a_window_did_happens_again_in_all_counters() {
    let mut device = small(1_000_000);
    // Warm-up until every superblock has been used.
    overwrite(&mut device, 2 * PAGES, 6);
    let mark = device.mark();
    let before = device.counters();
    overwrite(&mut device, 2 * PAGES, 1);
    let (counters, health, now) = (device.counters(), device.health(), device.now());
    device.live(&mark, &mark, 99.0, Nanos::secs(1_000_000));
    let (after, later) = (device.counters(), device.health());
    assert_eq!(after.host_pages - before.host_pages, 200 * PAGES);
    let programmed = counters.placed_pages - before.placed_pages;
    assert_eq!(after.placed_pages - before.placed_pages, 100 * programmed);
    assert_eq!(later.data_units_written, (4096 * PAGES * 203).div_ceil(512_000));
    assert_eq!(later.host_writes, health.host_writes + 198 * PAGES);
    assert_eq!(later.power_on, health.power_on.after(Nanos::secs(1_000_000)));
    assert_eq!(device.now(), now, "the clock stands still");
    // Each erase frees one superblock, so wear follows from the programmed pages.
    let pages_of_superblock = 128.0;
    let good =
        f64::from(device.spec().geometry.superblocks - device.spec().geometry.bad_superblocks);
    let expected = after.placed_pages as f64 / pages_of_superblock / good;
    let [fewest, most, mean] = later.erases.map(f64::from);
    assert!((mean / expected - 1.0).abs() < 0.02, "{mean} against {expected}");
    assert!(fewest <= mean && mean <= most);
}

#[test]
fn blocks_fail_in_it_as_weibulls_law_has_it() {
    let mut device = small(300);
    let blocks = f64::from(device.spec().geometry.superblock_blocks) * 200.0;
    let mark = device.mark();
    overwrite(&mut device, 3 * PAGES, 2);
    let done = device.health().erases[2];
    let times = 150.0 / f64::from(done);
    device.live(&mark, &mark, times, Nanos::secs(3600));
    let cycles = f64::from(device.health().erases[2]);
    let shape = device.spec().reliability.expect("it wears").life_shape;
    let p = 1.0 - (-(cycles / 300.0).powf(shape)).exp();
    let failed = device.counters().reliability.failed_blocks as f64;
    let deviation = (blocks * p * (1.0 - p)).sqrt();
    assert!(
        (failed - blocks * p).abs() < 5.0 * deviation + 0.1 * blocks * p,
        "{failed} of {}",
        blocks * p
    );
}

#[test]
fn data_that_is_left_alone_ages_and_data_that_is_rewritten_does_not() {
    let mut retried = [0; 2];
    for (rewritten, retried) in retried.iter_mut().enumerate() {
        let mut device = small(1_000_000);
        // Data on flash that was never erased stays.
        let mark = device.mark();
        overwrite(&mut device, 3 * PAGES, 7);
        device.live(&mark, &mark, 50.0, Nanos::secs(1));
        let later = device.mark();
        // Without a write nothing is erased.
        overwrite(&mut device, 3 * PAGES * rewritten as u64, 3);
        device.live(&mark, &later, 1.0, Nanos::secs(20 * 365 * 86_400));
        let before = device.counters().reliability.retried_reads;
        one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Read, lpn)));
        *retried = device.counters().reliability.retried_reads - before;
    }
    assert!(retried[0] > 2 * retried[1], "{retried:?}");
}

#[test]
fn a_drive_lives_on_from_a_saved_state_as_it_would_have() {
    let mut device = small(200);
    let mark = device.mark();
    overwrite(&mut device, PAGES, 4);
    device.live(&mark, &mark, 20.0, Nanos::secs(86_400));
    let mut state = Vec::new();
    device.save(&mut state).expect("memory takes it");
    let spec = device.spec().clone();
    let mut other = Device::restore(spec, None, &mut state.as_slice()).expect("the same profile");
    for one in [&mut device, &mut other] {
        overwrite(one, PAGES, 5);
    }
    assert_eq!(device.counters(), other.counters());
    assert_eq!(device.health(), other.health());
}

/// Number of programs of random writes until the drive refuses writes. `times` is the multiple of
/// each window, of twice the drive's programs, that is not simulated. Blocks are small, because
/// their number matters.
fn life(seed: u64, times: f64) -> f64 {
    const PAGES: u64 = 1_250;
    let profile = Profile::sm951()
        .one_die(200, 8, PAGES as u32)
        .set("write_buffer.size_kib", 256)
        .cool()
        .wearing()
        .set("reliability.block_life_cycles", 400)
        .set("reliability.spare_blocks", 4);
    let mut device = Device::new(profile.spec(), seed).expect("memory");
    one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
    let mut rng = Rng::new(seed);
    loop {
        let mark = device.mark();
        let until = device.counters().placed_pages + 2 * PAGES;
        while device.counters().placed_pages < until {
            let (now, io) = (device.now(), page(Op::Write, rng.next_u64() % PAGES));
            match device.submit(now, io) {
                Ok(done) => device.idle_until(done.done),
                Err(_) => return device.counters().placed_pages as f64,
            }
        }
        // Shorter steps once blocks fail, as the spare is small.
        let fails = device.health().available_spare_percent < 100;
        device.live(&mark, &mark, if fails { times / 4.0 } else { times }, Nanos::secs(1));
    }
}

/// Error of the method, where everything can also be simulated: lives of the same drive, with and
/// without leaps.
#[test]
fn a_life_with_leaps_is_as_long_as_one_that_was_simulated() {
    let mean = |times| (1..=8).map(|seed| life(seed, times)).sum::<f64>() / 8.0;
    let (whole, sampled) = (mean(0.0), mean(4.0));
    assert!((sampled / whole - 1.0).abs() < 0.05, "{sampled} against {whole}");
}

/// The window is a choice of the method: data is as old, and wear as even, after a leap from a
/// short window as after one from a long window of the same steady load.
#[test]
fn a_leap_from_a_short_window_is_like_one_from_a_long_window() {
    let year = 365 * 86_400;
    let results = [0.1, 4.0].map(|window| {
        let mut device = small(1_000_000);
        let began = device.mark();
        overwrite(&mut device, 8 * PAGES, 8);
        for round in 0..3 {
            let since = device.mark();
            let pages = window * PAGES as f64;
            overwrite(&mut device, pages as u64, 9 + round);
            let times = 400.0 / window - 1.0;
            device.live(&began, &since, times, Nanos::secs(year));
        }
        let before = device.counters().reliability.retried_reads;
        one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Read, lpn)));
        let [_, most, mean] = device.health().erases.map(f64::from);
        (device.counters().reliability.retried_reads - before, most / mean)
    });
    let [(short, uneven), (long, even)] = results;
    assert!((uneven / even - 1.0).abs() < 0.02, "{results:?}");
    assert!((short as f64 / long as f64 - 1.0).abs() < 0.2, "{results:?}");
}
