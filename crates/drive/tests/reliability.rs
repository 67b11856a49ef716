//! Errors and wear compared with values that can be computed by hand.
//!
//! The expected shares are computed here from the profile's numbers with the standard library and
//! plain sums; nothing is shared with the model. Counts must be within four standard deviations.

use crate::support::{Profile, one_by_one, page, repeated};
use drivebay_drive::{Completion, Device, DeviceError, Io, Op, Stage, VICTIM_POLICIES};
use drivebay_units::{Lpn, Nanos, Rng};
use proptest::prelude::*;

/// Probability that one of the codewords of 4 KiB has more wrong bits than can be corrected: exact
/// binomial sums, mean over pages whose rates have a lognormal spread (trapezoids).
fn fails(rate: f64, codeword_bytes: u32, correctable: u32, spread: f64) -> f64 {
    let bits = f64::from(codeword_bytes * 8);
    let above = |p: f64| {
        let mut term = (bits * (1.0 - p).ln()).exp();
        let mut sum = term;
        for n in 0..correctable {
            term *= (bits - f64::from(n)) / f64::from(n + 1) * p / (1.0 - p);
            sum += term;
        }
        1.0 - (sum.min(1.0)).powi((4096 / codeword_bytes) as i32)
    };
    let (mut sum, mut whole) = (0.0, 0.0);
    for i in -600..=600 {
        let z = f64::from(i) / 100.0;
        let weight = (-z * z / 2.0).exp();
        sum += weight * above((rate * (spread * z).exp()).min(0.5));
        whole += weight;
    }
    sum / whole
}

/// Checks that `got` of `count` trials of probability `p` is within four standard deviations, and
/// the 1 % by which Poisson's distribution differs from the binomial.
#[track_caller]
fn assert_share(got: u64, count: u64, p: f64) {
    let deviation = (p * (1.0 - p) / count as f64).sqrt();
    let share = got as f64 / count as f64;
    assert!((share - p).abs() <= 4.0 * deviation + 0.01 * p, "{share} against {p} +- {deviation}");
}

const PAGES: u64 = 20_000;

/// A small drive with all its pages written in order, at rest.
fn written(profile: &Profile) -> Device {
    let mut device = profile.device();
    let end = one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
    device.idle_until(end.after(Nanos::secs(1)));
    device
}

fn small() -> Profile {
    Profile::sm951().one_die(200, 128, PAGES as u32).cool().wearing()
}

fn read(device: &mut Device, lpn: u64) -> Completion {
    let now = device.now().after(Nanos::millis(20));
    device.idle_until(now);
    device.submit(now, page(Op::Read, lpn)).expect("on the drive")
}

/// Each page of the drive is read once: number of pages that needed a retry, number of retries, and
/// number of lost pages.
#[test]
fn the_share_of_reads_retried_and_lost_follows_from_the_error_rate() {
    for (rate, spread, correctable, codeword) in [
        (6e-3, 0.2, 72, 1024),
        (8e-3, 0.0, 72, 1024),
        (3e-3, 0.5, 40, 1024),
        (8e-3, 0.1, 300, 4096),
    ] {
        let profile = small()
            .set("reliability.fresh_rber", rate)
            .set("reliability.page_spread", spread)
            .set("reliability.correctable_bits", correctable)
            .set("reliability.codeword_bytes", codeword)
            .set("reliability.disturb_factor", 0)
            .set("reliability.age_factor", 0)
            .set("reliability.retries_max", 3)
            .set("reliability.retry_gain", 0.9);
        let mut device = written(&profile);
        let errors = (0..PAGES).filter(|&lpn| read(&mut device, lpn).media_error).count() as u64;
        let got = device.counters().reliability;
        let share = |retry: i32| {
            let rate = rate * 0.9f64.powi(retry);
            fails(rate, codeword as u32, correctable as u32, spread)
        };
        assert_share(got.retried_reads, PAGES, share(0));
        assert_share(got.media_errors, PAGES, share(3));
        assert_eq!(got.media_errors, errors, "each is reported by its command");
        let retries = share(0) + share(1) + share(2);
        let mean = got.retries as f64 / PAGES as f64;
        assert!((mean - retries).abs() < 0.03, "{mean} retries a read against {retries}");
    }
}

/// At depth 1 each retry adds its sensing and its transfer over the channel, and nothing else.
#[test]
fn a_retry_takes_its_sensing_and_its_transfer() {
    let profile = small().set("reliability.fresh_rber", 7e-3).set("reliability.age_factor", 0);
    let mut device = written(&profile);
    let transfer = (4096.0f64 * 1e3 / 360.0).round() as u64;
    let mut seen = [0u32; 9];
    let mut first = None;
    for lpn in 0..4000 {
        let (before, start) = (device.counters(), device.now().after(Nanos::millis(20)));
        let io = read(&mut device, lpn);
        let after = device.counters();
        let retries = after.reliability.retries - before.reliability.retries;
        seen[retries as usize] += 1;
        let alone = io.done.since(start).0 - retries * (90_000 + transfer);
        assert_eq!(*first.get_or_insert(alone), alone, "{retries} retries");
        assert_eq!(io.stages.of(Stage::Nand).0, 61_700 + retries * 90_000);
        assert_eq!(io.stages.of(Stage::Channel).0, (1 + retries) * transfer);
        assert_eq!(after.page_reads - before.page_reads, 1 + retries);
    }
    assert!(seen[0] > 500 && seen[1] > 100 && seen[2] > 20, "{seen:?}");
}

/// The same page needs the same retries until it is rewritten or its superblock changes.
#[test]
fn a_bad_page_stays_bad() {
    let profile = small().set("reliability.fresh_rber", 7e-3).set("reliability.age_factor", 0);
    let mut device = written(&profile.set("reliability.disturb_factor", 0));
    let retries = |device: &mut Device, lpn| {
        let before = device.counters().reliability.retries;
        read(device, lpn);
        device.counters().reliability.retries - before
    };
    let first: Vec<u64> = (0..200).map(|lpn| retries(&mut device, lpn)).collect();
    let again: Vec<u64> = (0..200).map(|lpn| retries(&mut device, lpn)).collect();
    assert_eq!(first, again);
    let end = one_by_one(&mut device, (0..200).map(|lpn| page(Op::Write, lpn)));
    device.idle_until(end.after(Nanos::secs(1)));
    let moved: Vec<u64> = (0..200).map(|lpn| retries(&mut device, lpn)).collect();
    assert_ne!(first, moved);
}

/// Share of all pages that need a retry now.
fn share_retried(device: &mut Device) -> f64 {
    let before = device.counters().reliability.retried_reads;
    for lpn in (0..PAGES).step_by(4) {
        read(device, lpn);
    }
    (device.counters().reliability.retried_reads - before) as f64 / (PAGES / 4) as f64
}

/// Reads of one superblock raise its own rate by the read disturb term, and not the rate of others.
#[test]
fn reads_disturb_their_superblock() {
    let profile = small()
        .set("reliability.fresh_rber", 4e-3)
        .set("reliability.disturb_factor", 2e-6)
        .set("reliability.disturb_cycle_exponent", 0)
        .set("reliability.disturb_read_exponent", 1)
        .set("reliability.age_factor", 0)
        .set("reliability.page_spread", 0.3);
    let mut device = written(&profile);
    assert!((share_retried(&mut device) - fails(4e-3, 1024, 72, 0.3)).abs() < 0.01);
    // 1,500 reads of each page of the first superblock.
    one_by_one(&mut device, (0..1500 * 128).map(|_| page(Op::Read, 3)));
    let before = device.counters().reliability.retried_reads;
    for lpn in 0..128 {
        read(&mut device, lpn);
    }
    let got = device.counters().reliability.retried_reads - before;
    assert_share(got, 128, fails(4e-3 + 2e-6 * 1500.0, 1024, 72, 0.3));
    assert!((share_retried(&mut device) - fails(4e-3, 1024, 72, 0.3)).abs() < 0.01);
}

/// Data gains errors with time by the retention term.
#[test]
fn age_raises_the_rate() {
    let profile = small()
        .set("reliability.fresh_rber", 2e-3)
        .set("reliability.disturb_factor", 0)
        .set("reliability.age_cycle_exponent", 0)
        .set("reliability.age_factor", 1e-3)
        .set("reliability.age_exponent", 0.5);
    let mut device = written(&profile);
    assert!(share_retried(&mut device) < 0.001);
    let month = device.now().after(Nanos::secs(30 * 86_400));
    device.idle_until(month);
    let expected = fails(2e-3 + 1e-3 * 30f64.sqrt(), 1024, 72, 0.2);
    assert!((0.1..0.9).contains(&expected), "{expected}");
    let got = share_retried(&mut device);
    assert!((got - expected).abs() < 0.03, "{got} against {expected}");
}

/// Cycles raise the rate by the wear term: overwriting in order erases all superblocks equally
/// often.
#[test]
fn cycles_raise_the_rate() {
    let profile = small()
        .timeless()
        .set("reliability.fresh_rber", 4e-3)
        .set("reliability.wear_factor", 1e-5)
        .set("reliability.wear_exponent", 1.5)
        .set("reliability.disturb_factor", 0)
        .set("reliability.age_factor", 0);
    let mut device = written(&profile);
    let rounds = 60u64;
    one_by_one(&mut device, (0..rounds * PAGES).map(|i| page(Op::Write, i % PAGES)));
    let cycles: Vec<f64> = (0..200).map(|i| f64::from(device.ftl().superblock(i).erases)).collect();
    let share = |c: f64| fails(4e-3 + 1e-5 * c.powf(1.5), 1024, 72, 0.2);
    let (low, high) = cycles.iter().fold((f64::MAX, 0f64), |(l, h), &c| (l.min(c), h.max(c)));
    let got = share_retried(&mut device);
    assert!(high - low <= 2.0 && share(high) > 0.1, "{low} to {high} cycles");
    assert!((share(low) - 0.02..share(high) + 0.02).contains(&got), "{got} at {low} to {high}");
}

/// A superblock that is read too often is moved after the reads, a few pages at a time, and starts
/// anew.
#[test]
fn data_that_is_read_too_often_is_moved() {
    let profile = small().set("reliability.refresh_reads", 100);
    let mut device = written(&profile);
    let place = |device: &Device| device.ftl().look_up(Lpn(3)).expect("mapped");
    let before = place(&device);
    one_by_one(&mut device, (0..100 * 128 - 1).map(|_| page(Op::Read, 3)));
    let counters = device.counters();
    assert_eq!((counters.reliability.refreshes, counters.copied_pages), (0, 0));
    one_by_one(&mut device, (0..500).map(|_| page(Op::Read, 3)));
    let counters = device.counters();
    assert_eq!((counters.reliability.refreshes, counters.copied_pages), (1, 128));
    assert_ne!(place(&device), before);
    one_by_one(&mut device, (0..50 * 128).map(|_| page(Op::Read, 3)));
    assert_eq!(device.counters().copied_pages, 128, "nothing else was touched");
    device.ftl().check_invariants();
}

/// Blocks fail by Weibull's distribution: with replacement, a superblock of B blocks has lost B (N
/// / scale)^shape blocks after N erases.
#[test]
fn blocks_fail_by_their_distribution() {
    let profile = Profile::sm951()
        .one_die(100, 64, 4096)
        .set("nand.planes", 4)
        .set("drive.capacity_sectors", 4 * 4096 * 8)
        .timeless()
        .wearing()
        .set("reliability.block_life_cycles", 150)
        .set("reliability.block_life_shape", 3)
        .set("reliability.spare_blocks", 1_000_000);
    let mut device = profile.device();
    let pages = 4 * 4096u64;
    one_by_one(&mut device, (0..200 * pages).map(|i| page(Op::Write, i % pages)));
    let expected: f64 = (0..100)
        .map(|i| 4.0 * (f64::from(device.ftl().superblock(i).erases) / 150.0).powi(3))
        .sum();
    let got = device.counters().reliability.failed_blocks as f64;
    assert!(expected > 20.0, "{expected} failures expected");
    assert!((got - expected).abs() < 4.0 * expected.sqrt(), "{got} against {expected}");
    assert_eq!(device.counters().reliability.retired_superblocks, 0);
}

/// Writes repeatedly until the drive refuses; checks the map, and that no other request is refused;
/// returns the drive.
fn wear_out(profile: &Profile, pages: u64, rounds_max: u64, random: bool) -> Device {
    let mut device = profile.device();
    let mut rng = Rng::new(9);
    let mut now = Nanos::ZERO;
    let mut spare = 100;
    for i in 0..rounds_max * pages {
        if i % (pages / 8) == 0 {
            let left = device.health().available_spare_percent;
            assert!(left <= spare && (left == 100 || i > 0));
            spare = left;
        }
        let lpn = if random && i >= pages { rng.below(pages) } else { i % pages };
        match device.submit(now, page(Op::Write, lpn)) {
            Ok(io) => now = io.done,
            Err(DeviceError::ReadOnly { failed_blocks }) => {
                assert_eq!(failed_blocks, device.counters().reliability.failed_blocks);
                assert!(device.counters().reliability.read_only);
                assert_eq!(device.health().available_spare_percent, 0);
                assert!(spare < 50, "{spare} % of the spare flash left, and worn out");
                return device;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("still writable after {rounds_max} rounds");
}

/// With one block per superblock and a sharp end, superblocks are retired one after another, and
/// the drive ends when the spare ones are used up, at the cycles that the distribution predicts.
#[test]
fn the_end_comes_when_the_spare_superblocks_are_gone() {
    let (blocks, user) = (100u32, 80 * 32u32);
    let profile = Profile::sm951()
        .one_die(blocks, 32, user)
        .timeless()
        .wearing()
        .set("reliability.block_life_cycles", 100)
        .set("reliability.block_life_shape", 8);
    let device = wear_out(&profile, u64::from(user), 400, false);
    let counters = device.counters();
    // 100 superblocks, 80 of data, 4 needed to continue: 16 may be retired.
    assert_eq!(counters.reliability.retired_superblocks, 16);
    // 16 to 17 of 100 failed: 1 - exp(-(n/100)^8) = 0.165 at n = 80.7.
    let cycles: Vec<f64> =
        (0..blocks).map(|i| f64::from(device.ftl().superblock(i).erases)).collect();
    let most = cycles.iter().copied().fold(0.0, f64::max);
    let expected = 100.0 * (-(1.0f64 - 0.165).ln()).powf(1.0 / 8.0);
    assert!((most / expected - 1.0).abs() < 0.12, "{most} against {expected} cycles");
    device.ftl().check_invariants();
}

/// Spare blocks postpone the end.
#[test]
fn spare_blocks_put_the_end_off() {
    let profile = |spares: i64| {
        Profile::sm951()
            .one_die(60, 16, 40 * 16)
            .timeless()
            .wearing()
            .set("reliability.block_life_cycles", 60)
            .set("reliability.block_life_shape", 5)
            .set("reliability.spare_blocks", spares)
    };
    let life = |spares| wear_out(&profile(spares), 640, 400, true).counters().host_pages;
    let lives: Vec<u64> = [0, 20, 100].into_iter().map(life).collect();
    assert!(lives[0] < lives[1] && lives[1] < lives[2], "{lives:?}");
}

/// All counters of a run.
fn trace(profile: &Profile) -> Vec<(u64, u64)> {
    let mut device = profile.device();
    let mut rng = Rng::new(4);
    let mut now = Nanos::ZERO;
    (0..30_000)
        .map(|i| {
            let op = if i % 3 == 0 { Op::Read } else { Op::Write };
            let io = device.submit(now, page(op, rng.below(PAGES))).expect("on the drive");
            now = io.done;
            (now.0, io.stages.of(Stage::Nand).0)
        })
        .collect()
}

/// The same seed gives the same run, and flash without errors equals flash without modelled errors.
#[test]
fn runs_repeat_and_harmless_flash_changes_nothing() {
    let worn = small().set("reliability.fresh_rber", 7e-3).set("reliability.block_life_cycles", 30);
    let worn = worn.set("reliability.spare_blocks", 100_000);
    assert_eq!(trace(&worn), trace(&worn));
    let plain = Profile::sm951().one_die(200, 128, PAGES as u32).cool();
    let harmless = plain.clone().wearing().set("reliability.fresh_rber", 1e-6);
    let harmless = harmless.set("reliability.age_factor", 0).set("reliability.disturb_factor", 0);
    assert_eq!(trace(&plain), trace(&harmless));
    assert_ne!(trace(&plain), trace(&worn));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: repeated(120), ..ProptestConfig::default() })]

    /// Small drives of all policies with short-lived blocks: until the end no page is lost or
    /// misplaced, and at the end the drive can only be read. There is never a panic or a hang.
    #[test]
    fn a_dying_drive_keeps_its_map_and_ends_read_only(
        seed in any::<u64>(),
        policy in prop::sample::select(VICTIM_POLICIES),
        frontiers in prop::sample::select(vec!["separate", "shared"]),
        planes in prop::sample::select(vec![1i64, 2, 4]),
        reserve in 1i64..3,
        spares in 0i64..60,
        life in 5i64..30,
        shape in prop::sample::select(vec![0.5, 1.0, 3.0, 20.0]),
        paced in any::<bool>(),
        refresh in prop::sample::select(vec![0.0, 0.5, 3.0]),
    ) {
        let user = 8 * 16 * planes as u64;
        let mut profile = Profile::sm951()
            .one_die(24, 16, user as u32)
            .set("drive.capacity_sectors", (user * 8).max(2048) as i64)
            .timeless()
            .set("nand.planes", planes)
            .victims(policy, 2)
            .set("gc.frontiers", frontiers)
            .set("gc.reserve_superblocks", reserve)
            .wearing()
            .set("reliability.spare_blocks", spares)
            .set("reliability.block_life_cycles", life)
            .set("reliability.block_life_shape", shape)
            .set("reliability.refresh_reads", refresh);
        if paced {
            profile = profile
                .set("gc.duty_limit_us", 50)
                .set("gc.copy_page_us", 10)
                .set("gc.threshold_mb", 0)
                .set("gc.target_mb", 0.3);
        }
        let mut device = profile.device();
        let pages = device.spec().capacity_bytes() / 4096;
        let mut rng = Rng::new(seed);
        let mut written = vec![false; pages as usize];
        let mut now = Nanos::ZERO;
        let mut ended = false;
        for i in 0..pages * 3000 {
            let lpn = rng.below(pages);
            let op = [Op::Write, Op::Write, Op::Write, Op::Read, Op::Trim][rng.below(5) as usize];
            match device.submit(now, page(op, lpn)) {
                Ok(io) => {
                    prop_assert_eq!(io.stages.total(), io.done.since(now));
                    prop_assert!(!ended || op == Op::Read);
                    now = io.done;
                    if op != Op::Read {
                        written[lpn as usize] = op == Op::Write;
                    }
                }
                Err(DeviceError::ReadOnly { .. }) => ended = true,
                Err(other) => prop_assert!(false, "{}", other),
            }
            if i % 1000 == 0 || ended {
                device.ftl().check_invariants();
                for (lpn, &written) in written.iter().enumerate() {
                    prop_assert_eq!(device.ftl().look_up(Lpn(lpn as u32)).is_some(), written);
                }
            }
            if ended && i % 500 == 0 {
                break;
            }
        }
        prop_assert!(ended, "{:?}", device.counters());
        let refused = device.submit(now, Io::new(Op::Trim, 0, 8));
        let is_refused = matches!(refused, Err(DeviceError::ReadOnly { .. }));
        prop_assert!(is_refused);
        device.secure_erase();
        device.ftl().check_invariants();
    }
}

/// A page that could not be read becomes readable only by new data, not by a copy of garbage
/// collection.
#[test]
fn a_page_lost_in_a_copy_stays_lost_until_it_is_written() {
    // About 12 wrong bits in a codeword, 2 after the last retry: three can be corrected.
    let profile = Profile::sm951()
        .timeless()
        .one_die(24, 64, 1024)
        .wearing()
        .with("reliability.correctable_bits", 3);
    let mut device = profile.device();
    let pages = device.spec().capacity_bytes() / 4096;
    let mut rng = Rng::new(11);
    let mut unreadable = vec![false; pages as usize];
    let (mut now, mut found, mut again) = (Nanos::ZERO, 0, 0);
    for i in 0..40_000 {
        let lpn = rng.below(pages);
        // A quarter of the pages is written all the time; the others are only moved.
        let op = if i < 4000 || rng.below(2) == 0 { Op::Write } else { Op::Read };
        let lpn = if op == Op::Write && i >= 4000 { lpn / 4 } else { lpn };
        let io = device.submit(now, page(op, lpn)).expect("the drive has room");
        now = io.done;
        let before = std::mem::replace(&mut unreadable[lpn as usize], io.media_error);
        if op == Op::Write {
            unreadable[lpn as usize] = false;
        } else {
            assert!(io.media_error || !before, "page {lpn} came back");
            found += u32::from(io.media_error);
            again += u32::from(before);
        }
    }
    assert!(found > 500 && again > 300, "{found} found, {again} again");
    assert!(device.counters().copied_pages > 1000);
    let errors = device.health().media_errors;
    assert!(errors >= u64::from(found));
    // Trimmed, written or erased pages are as new.
    for lpn in 0..pages {
        now = device.submit(now, page(Op::Trim, lpn)).expect("room").done;
        assert!(!device.submit(now, page(Op::Read, lpn)).expect("room").media_error);
    }
}

/// Reads of copies, including retries, suspend programs without that cost; reads of the host do
/// not.
#[test]
fn retries_of_copies_do_not_make_programs_restart() {
    let profile = small()
        .set("reliability.fresh_rber", 8e-3)
        .set("reliability.retries_max", 3)
        .set("reliability.retry_gain", 0.9);
    let last = |resumed: &str, reads: bool| {
        let mut device = written(&profile.clone().with("nand.resumed_program", resumed));
        let mut rng = Rng::new(7);
        let ios = (0..3 * PAGES).map(|i| {
            let op = if reads && i % 4 == 0 { Op::Read } else { Op::Write };
            page(op, rng.below(PAGES))
        });
        let end = one_by_one(&mut device, ios);
        let counters = device.counters();
        assert!(counters.copied_pages > PAGES && counters.reliability.retried_reads > PAGES / 10);
        end
    };
    assert_eq!(last("goes-on", false), last("restarts", false));
    assert!(last("goes-on", true) < last("restarts", true), "the host's do");
}
