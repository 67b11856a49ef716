//! Data that is compressed before it is stored, against what can be computed by hand.
//!
//! With data that shrinks to a share r of its size, n pages of user capacity fill r n pages of flash, and
//! every page written takes r of a page: write amplification is r A(alpha / r), A being the closed form
//! of `formula.rs` for pages of flash over user pages alpha.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Io, Op, Stage};
use drivebay_units::{Nanos, Rng};

fn compressing(profile: Profile, unit_bytes: f64) -> Profile {
    profile.section("compression", &[("unit_bytes", unit_bytes)])
}

/// A = alpha / (alpha + W(-alpha e^-alpha)), W by fixed-point iteration of w = x e^-w.
fn fifo_formula(alpha: f64) -> f64 {
    let x = -alpha * (-alpha).exp();
    let w = (0..1000).fold(0.0, |w: f64, _| x * (-w).exp());
    alpha / (alpha + w)
}

/// Write amplification of uniform random writes of data that can be compressed by `percent`, on flash
/// of `alpha` pages per user page, the oldest superblock reclaimed first.
fn amplification(alpha: f64, percent: u32) -> f64 {
    let (blocks, pages) = (1_500, 64);
    let user = (f64::from(blocks * pages) / alpha).round() as u32;
    let profile = Profile::sm951()
        .one_die(blocks, pages, user)
        .timeless()
        .set("gc.frontiers", "shared")
        .set("gc.victim_policy", "fifo");
    let mut device = compressing(profile, 512.0).device();
    device.set_compressible(percent);
    one_by_one(&mut device, (0..u64::from(user)).map(|lpn| page(Op::Write, lpn)));
    let mut rng = Rng::new(7);
    let mut random = |device: &mut Device, times: u64| {
        let count = times * u64::from(user);
        one_by_one(device, (0..count).map(|_| page(Op::Write, rng.below(u64::from(user)))));
    };
    random(&mut device, 6);
    let before = device.counters();
    random(&mut device, 4);
    let after = device.counters();
    device.ftl().check_invariants();
    assert_eq!(device.ftl().mapped(), u64::from(user), "every page is mapped");
    (after.placed_pages - before.placed_pages) as f64
        / (after.host_pages - before.host_pages) as f64
}

#[test]
fn spare_space_and_amplification_are_those_of_the_reduced_data() {
    // 15 % of 4,096 bytes away is 3,482, in units of 512 bytes 3,584: seven eighths. 50 %: a half.
    for (percent, share) in [(0, 1.0), (15, 7.0 / 8.0), (50, 0.5)] {
        let expected = share * fifo_formula(1.15 / share);
        let got = amplification(1.15, percent);
        let error = (got / expected - 1.0) * 100.0;
        assert!(error.abs() < 3.0, "{percent} %: {got} against {expected}, {error:.2} %");
    }
    assert!(amplification(1.15, 75) < 0.3, "below one");
}

/// What is written in sequence takes exactly its share of pages, whatever is written how.
#[test]
fn sequential_data_takes_its_share_of_flash() {
    let profile = Profile::sm951().one_die(40, 128, 3_000).timeless();
    for (percent, of_4096) in [(0, 4096), (10, 4096), (15, 3584), (50, 2048), (99, 512), (100, 512)]
    {
        let mut device = compressing(profile.clone(), 512.0).device();
        device.set_compressible(percent);
        let long = (0..93).map(|n| Io { op: Op::Write, lba: n * 256, sectors: 256 });
        one_by_one(&mut device, long);
        let counters = device.counters();
        assert_eq!(counters.host_pages, 93 * 32);
        assert_eq!(counters.placed_pages, 93 * 32 * of_4096 / 4096, "{percent} %");
        device.ftl().check_invariants();
    }
}

/// Times behind the compressor shrink, times on the link and in the cores do not.
#[test]
fn transfers_are_those_of_the_reduced_data() {
    let stages = |percent: u32| {
        let mut device = compressing(Profile::sm951().cool(), 512.0).device();
        device.set_compressible(percent);
        let some = (0..2048).map(|n| Io { op: Op::Write, lba: n * 256, sectors: 256 });
        at_depth(&mut device, 32, some);
        device.idle_until(device.now().after(Nanos::secs(10)));
        device.submit(device.now(), page(Op::Read, 0)).expect("on the drive").stages
    };
    let (whole, half) = (stages(0), stages(50));
    for stage in [Stage::Host, Stage::Link, Stage::Firmware, Stage::Nand] {
        assert_eq!(whole.of(stage), half.of(stage), "{stage:?}");
    }
    // The channel moves 360 MB/s.
    let channel = |bytes: f64| Nanos((bytes / 360e6 * 1e9f64).round() as u64);
    assert_eq!(
        (whole.of(Stage::Channel), half.of(Stage::Channel)),
        (channel(4096.0), channel(2048.0))
    );
}

/// A drive without the section gives the same for all contents.
#[test]
fn content_makes_no_difference_without_compression() {
    let run = |percent: u32| {
        let mut device = Profile::sm951().one_die(200, 128, 24_000).device();
        device.set_compressible(percent);
        let mut rng = Rng::new(3);
        let mixed = (0..60_000).map(|_| {
            let op = if rng.below(3) == 0 { Op::Read } else { Op::Write };
            page(op, rng.below(24_000))
        });
        let end = at_depth(&mut device, 8, mixed);
        (end, device.counters())
    };
    assert_eq!(run(0), run(100));
}

/// Flash for a map of that size is refused, and so is a unit that is no power of two.
#[test]
fn units_are_checked() {
    let refused = |unit: f64| {
        let text = compressing(Profile::sm951(), unit).0.to_string();
        drivebay_drive::Spec::from_toml(&text).expect_err("must be refused").to_string()
    };
    assert!(refused(768.0).contains("compression.unit_bytes: 768"), "{}", refused(768.0));
    assert!(refused(8192.0).contains("compression.unit_bytes"));
}
