//! Ailments of a drive: slow dies, outages, wear at the beginning, and the end of its life. Each is
//! compared with values computed here from the profile.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Completion, Device, DeviceError, Op, Spec, Stage};
use drivebay_units::Nanos;

const PAGES: u64 = 4_000;

fn small() -> Profile {
    Profile::sm951().four_dies(PAGES).cool().without("power")
}

/// A drive with all its pages written, at rest.
fn written(profile: &Profile) -> Device {
    let mut device = profile.device();
    let end = at_depth(&mut device, 8, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
    device.idle_until(end.after(Nanos::secs(1)));
    device
}

/// Completions of reads of all pages, one after another, each after a rest of the drive.
fn read_all(device: &mut Device, rest: Nanos) -> Vec<Completion> {
    let read = |lpn| {
        let now = device.now().after(rest);
        device.idle_until(now);
        let served = device.submit(now, page(Op::Read, lpn)).expect("on the drive");
        device.idle_until(served.done);
        served
    };
    (0..PAGES).map(read).collect()
}

fn latency(served: &Completion) -> u64 {
    served.done.since(served.submitted).0
}

#[test]
fn reads_of_a_slow_die_take_so_much_longer_and_those_of_others_as_long_as_before() {
    let small = small().without("nand.variation").without("nand.read_by_type_us");
    let sick =
        small.clone().with("nand.slow_dies.dies", 1).with("nand.slow_dies.time_percent", 500.0);
    let [well, ill] =
        [&small, &sick].map(|profile| read_all(&mut written(profile), Nanos::millis(1)));
    let read_ns = 1000.0 * 4.0 * small.spec().raw.nand.read_us.value;
    let (mut slow, mut same) = (0u64, 0u64);
    for (before, after) in well.iter().zip(&ill) {
        match latency(after) as f64 - latency(before) as f64 {
            0.0 => same += 1,
            more => {
                assert!((more - read_ns).abs() <= 1000.0, "{more} ns more, not {read_ns}");
                slow += 1;
            }
        }
    }
    // A quarter of the pages, on one of four dies; the last rows may be padded.
    assert!(slow.abs_diff(PAGES / 4) < 70 && slow + same == PAGES, "{slow} of {PAGES}");
}

#[test]
fn what_meets_a_stall_of_the_firmware_goes_on_at_its_end() {
    let sick = small().with("controller.stall.every_s", 1.0).with("controller.stall.for_ms", 300.0);
    let served = read_all(&mut written(&sick), Nanos::millis(10));
    let (mut met, second) = (0, Nanos::secs(1).0);
    for one in &served {
        let from_begin = one.submitted.0 % second;
        if one.submitted.0 > second && from_begin < Nanos::millis(300).0 {
            let left = Nanos::millis(300).0 - from_begin;
            assert!(latency(one) > left && latency(one) < left + Nanos::millis(2).0, "{one:?}");
            assert!(
                one.stages.0[Stage::Firmware as usize] >= left - Nanos::micros(100).0,
                "{one:?}"
            );
            met += 1;
        } else if from_begin < second - Nanos::millis(1).0 {
            assert!(latency(one) < Nanos::millis(2).0, "{one:?}");
        }
    }
    assert!(met > 20, "{met} met one");
}

#[test]
fn a_link_that_is_down_holds_commands_up_and_is_counted() {
    let sick = small().with("link.outage.every_s", 2.0).with("link.outage.for_ms", 500.0);
    let mut device = written(&sick);
    let served = read_all(&mut device, Nanos::millis(10));
    let waited = |one: &&Completion| one.stages.0[Stage::Link as usize] > 1_000_000;
    let met = served.iter().filter(waited).count() as u64;
    let begun = device.now().0 / Nanos::secs(2).0;
    assert!(begun > 10 && (begun - 1..=begun).contains(&met), "{met} waits, {begun} outages");
    assert_eq!(device.health().link_outages, begun);
    assert_eq!(written(&small()).health().link_outages, 0);
}

#[test]
fn a_worn_drive_begins_with_its_wear_its_history_and_blocks_that_have_failed() {
    let rated = small().with("health.rated_cycles", 1000.0).wearing();
    let fresh = rated
        .clone()
        .set("reliability.block_life_cycles", 2000.0)
        .set("reliability.spare_blocks", 1000);
    let aged = fresh.clone().with("health.worn_percent", 80.0);
    let health = |profile: &Profile| profile.device().health();
    assert_eq!(health(&fresh).percentage_used, Some(0));
    let (old, spec) = (aged.device(), aged.spec());
    let told = old.health();
    assert_eq!(told.percentage_used, Some(80));
    // 800 times the flash, half of it the host's own.
    let flash = spec.geometry.usable_pages() as f64 * 4096.0;
    let units = told.data_units_written as f64;
    assert!((units - 400.0 * flash / 512e3).abs() <= 1.0, "{units}");
    assert!(told.power_on > Nanos::secs(3 * 365 * 86_400) && told.power_cycles > 10);
    // Weibull's distribution: 1 - exp(-(800/2000)^6) of all blocks, here half a per cent of them.
    let blocks = f64::from(spec.geometry.superblocks * spec.geometry.superblock_blocks);
    let wanted = blocks * (1.0 - (-(0.4f64).powi(6)).exp());
    let failed = old.counters().reliability.failed_blocks as f64;
    assert!((failed - wanted).abs() <= 4.0 * wanted.sqrt(), "{failed} failed, not {wanted}");
    let spares = old.counters().reliability.spare_blocks as f64;
    assert_eq!(spares, 1000.0 - failed);
    assert!(told.available_spare_percent < 100 || failed == 0.0);
}

#[test]
fn reads_of_a_worn_drive_need_retries_by_its_cycles() {
    let rated = small().with("health.rated_cycles", 3000.0).wearing();
    let retried = |worn: f64| {
        let mut device = written(&rated.clone().with("health.worn_percent", worn));
        read_all(&mut device, Nanos::millis(1));
        device.counters().reliability.retried_reads
    };
    let [new, half, old] = [0.0, 50.0, 100.0].map(retried);
    assert!(new <= half && half < old, "{new}, {half}, {old}");
    // The drive also matches one that has been erased as often: the superblock's cycles determine
    // the rate.
    let mut plain = rated.clone();
    let worn_rate = 1.48e-3 + 3.90e-10 * 3000f64.powf(2.05);
    plain = plain.set("reliability.fresh_rber", worn_rate).set("reliability.wear_factor", 0.0);
    plain = plain.set("reliability.age_factor", 0.0).set("reliability.disturb_factor", 0.0);
    let mut device = written(&plain);
    read_all(&mut device, Nanos::millis(1));
    let same = device.counters().reliability.retried_reads;
    let near = 0.5 * same as f64..=2.0 * same as f64;
    assert!(near.contains(&(old as f64)), "{old} retried, {same} at that rate");
}

#[test]
fn firmware_at_the_end_of_its_life_counts_the_spare_down_and_then_only_reads() {
    let mb = PAGES as f64 * 4096.0 / 1e6;
    let sick = small()
        .with("health.end_of_life.spare_percent", 8)
        .with("health.end_of_life.writes_mb", 2.0 * mb);
    let mut device = sick.device();
    assert_eq!(device.health().available_spare_percent, 8);
    one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
    assert_eq!(device.health().available_spare_percent, 4);
    assert!(!device.counters().reliability.read_only);
    one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
    assert_eq!(device.health().available_spare_percent, 0);
    assert!(device.counters().reliability.read_only);
    let refused = device.submit(device.now(), page(Op::Write, 0));
    assert!(matches!(refused, Err(DeviceError::ReadOnly { .. })), "{refused:?}");
    one_by_one(&mut device, (0..PAGES).map(|lpn| page(Op::Read, lpn)));
}

#[test]
fn an_ailment_that_is_not_possible_names_its_key() {
    let refused = |profile: Profile| {
        let found = Spec::from_toml(&profile.0.to_string());
        found.expect_err("it is not possible").to_string()
    };
    for (profile, field) in [
        (
            small().with("controller.stall.every_s", 1.0).with("controller.stall.for_ms", 1000.0),
            "controller.stall.for_ms",
        ),
        (
            small().with("nand.slow_dies.dies", 5).with("nand.slow_dies.time_percent", 200.0),
            "nand.slow_dies.dies",
        ),
        (small().without("health").with("health.worn_percent", 10.0), "health.worn_percent"),
    ] {
        assert!(refused(profile).contains(field), "{field}");
    }
}
