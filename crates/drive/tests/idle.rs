//! Garbage collection in idle time: it reclaims space while there are no commands, and the next
//! burst is fast.

use crate::support::{Profile, at_depth, page};
use drivebay_drive::{Device, Op, Spec, Stage};
use drivebay_units::{Nanos, Rng};

const USER: u64 = 14_000;

/// Four dies, garbage collection after writes, 16 MB of spare flash.
fn profile() -> Profile {
    Profile::sm951()
        .cool()
        .set("nand.channels", 2)
        .set("nand.dies_per_channel", 2)
        .set("nand.blocks_per_plane", 36)
        .set("nand.pages_per_block", 16)
        .set("nand.bad_superblocks", 0)
        .set("drive.capacity_sectors", USER as i64 * 8)
        .set("write_buffer.size_kib", 512)
        .set("gc.threshold_mb", 6.0)
        .set("gc.target_mb", 4.0)
}

fn with_idle(after_ms: f64, free_mb: f64) -> Profile {
    profile().with("gc.idle.after_ms", after_ms).with("gc.idle.free_mb", free_mb)
}

/// Filled, and written at random until garbage collection keeps up.
fn worn(profile: &Profile) -> Device {
    let mut device = profile.device();
    let mut rng = Rng::new(3).fork("wear");
    at_depth(&mut device, 8, (0..USER).map(|lpn| page(Op::Write, lpn)));
    let end = at_depth(&mut device, 8, (0..3 * USER).map(|_| page(Op::Write, rng.below(USER))));
    device.idle_until(end);
    device
}

fn pages(mb: f64) -> u64 {
    (mb * 1e6 / 4096.0).round() as u64
}

#[test]
fn a_rest_brings_free_space_back() {
    let mut idle = worn(&with_idle(10.0, 12.0));
    let before = idle.ftl().free_pages();
    assert!(before < pages(12.0), "worn: {before}");
    // Too short for collection to begin.
    idle.idle_until(idle.now().after(Nanos::millis(9)));
    assert_eq!(idle.ftl().free_pages(), before);
    idle.idle_until(idle.now().after(Nanos::secs(5)));
    assert!(idle.ftl().free_pages() >= pages(12.0));
    let copied = idle.counters().copied_pages;
    idle.idle_until(idle.now().after(Nanos::secs(5)));
    assert_eq!(idle.counters().copied_pages, copied, "enough is enough");
    idle.ftl().check_invariants();

    let mut without = worn(&profile());
    let free = without.ftl().free_pages();
    without.idle_until(without.now().after(Nanos::secs(10)));
    assert_eq!(without.ftl().free_pages(), free);
}

/// Dividing a rest into parts makes no difference, nor does the command that ends it.
#[test]
fn a_rest_in_parts_is_a_rest() {
    let profile = with_idle(10.0, 12.0);
    let (mut whole, mut parts, mut none) = (worn(&profile), worn(&profile), worn(&profile));
    let end = whole.now().after(Nanos::millis(300));
    whole.idle_until(end);
    for i in 1..=7 {
        parts.idle_until(Nanos(parts.now().0 + (end.0 - parts.now().0) * i / 7));
    }
    parts.idle_until(end);
    let [a, b, c] = [&mut whole, &mut parts, &mut none].map(|device| {
        let done = device.submit(end, page(Op::Write, 5)).expect("room").done;
        (done, device.counters().copied_pages, device.ftl().free_pages())
    });
    assert_eq!(a, b);
    assert_eq!(a, c);
}

#[test]
fn the_burst_after_a_rest_is_as_long_as_the_space_that_came_back() {
    let burst = |mut device: Device| {
        device.idle_until(device.now().after(Nanos::secs(5)));
        let mut count = 0;
        loop {
            let at = device.now();
            let done = device.submit(at, page(Op::Write, count * 7919 % USER)).expect("room");
            device.idle_until(done.done);
            count += 1;
            let waited = done.stages.of(Stage::Gc);
            if waited > Nanos::ZERO || count > 5000 {
                return count;
            }
        }
    };
    let spec: Spec = profile().spec();
    let (rested, tired) = (burst(worn(&with_idle(10.0, 15.0))), burst(worn(&profile())));
    assert!(tired < 100, "a worn drive copies behind its writes: {tired}");
    let expected = pages(15.0) - spec.pacing.start_free;
    assert!(rested >= expected && rested < expected + 600, "{rested} of {expected}");
}

#[test]
fn a_command_waits_for_one_copy_at_most() {
    let profile = with_idle(1.0, 14.0);
    let costs = profile.spec().throttle[0].costs;
    // Four pages of a flash page, each a separate run.
    let longest = costs.copy_extent.times(4).after(costs.copy_page.times(4));
    for ms in [2, 5, 17, 40] {
        let mut device = worn(&profile);
        let at = device.now().after(Nanos(ms * 1_000_000 + 12_345));
        let read = device.submit(at, page(Op::Read, 9)).expect("on the drive");
        assert!(read.stages.of(Stage::Gc) <= longest, "{ms} ms: {:?}", read.stages);
    }
}

#[test]
fn more_than_the_spare_flash_is_refused() {
    let text = with_idle(10.0, 1e6).0.to_string();
    let error = Spec::from_toml(&text).map(|_| ()).expect_err("too much").to_string();
    assert!(error.starts_with("gc.idle.free_mb") && error.contains("hint: "), "{error}");
}

/// Greedy collection in idle time on a drive that is worn by a circular log.
fn two_policies() -> Profile {
    with_idle(10.0, 12.0).set("gc.victim_policy", "fifo").with("gc.idle.policy", "greedy")
}

#[test]
fn a_policy_of_its_own_has_a_victim_of_its_own() {
    let mut device = worn(&two_policies());
    let mut rng = Rng::new(8).fork("pauses");
    let mut in_hand = 0;
    for _ in 0..200 {
        device.idle_until(device.now().after(Nanos::micros(10_400)));
        for _ in 0..8 {
            let done = device.submit(device.now(), page(Op::Write, rng.below(USER))).expect("room");
            device.idle_until(done.done);
        }
        device.ftl().check_invariants();
        in_hand += usize::from(device.ftl().victims_in_hand() == 2);
    }
    assert!(in_hand > 20, "both were at work on one of their own {in_hand} times");
    device.power_cut(device.now());
    device.ftl().check_invariants();
    assert_eq!(device.ftl().victims_in_hand(), 0);
}

#[test]
fn what_a_pause_copies_is_what_its_policy_says() {
    let copied = |profile: Profile| {
        let mut device = worn(&profile);
        let mut rng = Rng::new(9).fork("hot");
        let hot = (0..3 * USER).map(|_| page(Op::Write, rng.below(USER / 5)));
        let end = at_depth(&mut device, 8, hot);
        device.idle_until(end);
        let (before, free) = (device.counters().copied_pages, device.ftl().free_pages());
        device.idle_until(device.now().after(Nanos::millis(200)));
        let won = device.ftl().free_pages() - free;
        (device.counters().copied_pages - before) as f64 / won as f64
    };
    let (oldest, emptiest) =
        (copied(two_policies().without("gc.idle.policy")), copied(two_policies()));
    assert!(emptiest < 0.9 * oldest, "copies per page won: {emptiest:.2} of {oldest:.2}");
}
