//! Dynamic wear levelling: it evens out chance, and does not move flash with static data.

use crate::support::{Profile, one_by_one, page};
use drivebay_drive::{Device, Op};
use drivebay_units::Rng;

const BLOCKS: u32 = 120;
const PAGES: u32 = 32;
const USER: u64 = 3_072;

fn profile(dynamic: bool) -> Profile {
    Profile::sm951()
        .one_die(BLOCKS, PAGES, USER as u32)
        .timeless()
        .set("gc.duty_limit_us", 0.0)
        .with("wear_leveling.dynamic", dynamic)
}

/// A drive with everything written once, then `rounds` times as many writes as there are pages, all
/// to the first half.
fn worn(profile: &Profile, rounds: u64) -> Device {
    let mut device = profile.device();
    let mut rng = Rng::new(11).fork("wear");
    one_by_one(&mut device, (0..USER).map(|lpn| page(Op::Write, lpn)));
    let hot = (0..rounds * USER).map(|_| page(Op::Write, rng.below(USER / 2)));
    one_by_one(&mut device, hot);
    device.ftl().check_invariants();
    device
}

/// Fewest and most erases of a superblock.
fn erases(device: &Device) -> (u32, u32) {
    let all = (0..BLOCKS).map(|index| device.ftl().superblock(index).erases);
    all.fold((u32::MAX, 0), |(least, most), erases| (least.min(erases), most.max(erases)))
}

#[test]
fn cold_data_keeps_its_flash_fresh() {
    let (least, most) = erases(&worn(&profile(true), 60));
    assert!(least == 0 && most > 80, "{least} to {most}");
}

/// Uniform writes wear evenly by themselves: levelling then has next to nothing to do.
#[test]
fn dynamic_levelling_evens_out_chance() {
    let spread = |dynamic| {
        let mut device = profile(dynamic).device();
        let mut rng = Rng::new(5).fork("wear");
        one_by_one(&mut device, (0..40 * USER).map(|_| page(Op::Write, rng.below(USER))));
        let (least, most) = erases(&device);
        most - least
    };
    let (chance, leveled) = (spread(false), spread(true));
    assert!(leveled <= chance && chance < 20, "{leveled} against {chance}");
}
