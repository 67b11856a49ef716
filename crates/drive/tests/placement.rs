//! Flexible Data Placement compared with its definitions: sharing of superblocks, counters, and
//! gains.
//!
//! Loads are those of studies of FDP (three streams, one of them in sequence; NVMe 2.1 for
//! isolation): a gain if lifetimes differ by handle, none if they do not.

use crate::support::{Profile, one_by_one};
use drivebay_drive::{Device, HandleUse, Io, Op};
use drivebay_units::{Lpn, Rng};

const BLOCKS: u32 = 256;
const PAGES: u32 = 64;
/// 12 % of the flash is spare.
const USER: u64 = 14_400;
/// The first handle's part of the drive; the second has the rest.
const COLD_PAGES: u64 = USER * 9 / 10;

fn profile() -> Profile {
    Profile::sm951()
        .one_die(BLOCKS, PAGES, USER as u32)
        .timeless()
        .set("gc.duty_limit_us", 10_000.0)
        .set("nand.channel_mb_per_s", 10_000.0)
        .set("gc.victim_policy", "greedy")
        .set("gc.reserve_superblocks", 1)
        .set("gc.threshold_mb", 0.0)
        .set("gc.target_mb", 2.0)
}

fn write(lpn: u64, handle: u8) -> Io {
    Io { handle, ..Io::new(Op::Write, lpn * 8, 8) }
}

/// Writes nine tenths in circles through handle 0, and one tenth at random through `hot`.
fn cold_and_hot(device: &mut Device, passes: u64, hot: u8) {
    let mut rng = Rng::new(4);
    let mut next = 0;
    let loads = (0..passes * USER).map(|i| {
        if i % 2 == 0 {
            next = (next + 1) % COLD_PAGES;
            write(next, 0)
        } else {
            write(COLD_PAGES + rng.below(USER - COLD_PAGES), hot)
        }
    });
    one_by_one(device, loads);
}

fn amplification(device: &Device) -> f64 {
    let counters = device.counters();
    counters.placed_pages as f64 / counters.host_pages as f64
}

fn of_handle(used: HandleUse) -> f64 {
    (used.written_4k + used.copied_4k) as f64 / used.written_4k as f64
}

/// Streams whose superblocks hold the pages of each handle.
fn streams_of(device: &Device, hot: u8) -> [Vec<u8>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for lpn in 0..USER {
        let Some(ppa) = device.ftl().look_up(Lpn(lpn as u32)) else { continue };
        let stream = device.ftl().superblock(device.ftl().locate(ppa).0).stream;
        let which = &mut found[usize::from(lpn >= COLD_PAGES && hot != 0)];
        if !which.contains(&stream) {
            which.push(stream);
        }
    }
    found.iter_mut().for_each(|streams| streams.sort_unstable());
    found
}

#[test]
fn a_handle_shares_superblocks_with_none_before_copies_and_with_isolation_never() {
    let mut initial = profile().placed(3, "initial").device();
    let mut persistent = profile().placed(3, "persistent").device();
    for device in [&mut initial, &mut persistent] {
        cold_and_hot(device, 6, 2);
        device.ftl().check_invariants();
        assert!(device.counters().copied_pages > 10_000);
    }
    // Three handles, then the frontiers of copies.
    let [cold, hot] = streams_of(&initial, 2);
    assert!(cold.iter().all(|s| [0, 3].contains(s)) && hot.iter().all(|s| [2, 3].contains(s)));
    assert!(hot == [2, 3]);
    let [cold, hot] = streams_of(&persistent, 2);
    assert!(cold.iter().all(|s| [0, 3].contains(s)) && hot == [2, 5]);
}

#[test]
fn every_page_is_counted_for_its_handle() {
    for isolation in ["initial", "persistent"] {
        let mut device = profile().placed(2, isolation).device();
        cold_and_hot(&mut device, 4, 1);
        let (used, counters) = (device.placement(), device.counters());
        let of = |part: fn(&HandleUse) -> u64, of: &[HandleUse]| of.iter().map(part).sum::<u64>();
        assert_eq!(of(|u| u.written_4k, &used[..2]), counters.host_pages);
        assert_eq!(of(|u| u.copied_4k, &used), counters.copied_pages);
        if isolation == "initial" {
            let [.., shared] = used[..] else { unreachable!() };
            assert_eq!(shared.written_4k, used[0].copied_4k + used[1].copied_4k);
        }
        assert_eq!(used.len(), if isolation == "initial" { 3 } else { 2 });
    }
}

#[test]
fn placement_gains_where_lifetimes_differ_and_only_there() {
    let of_loads = |isolation: Option<&str>, hot| {
        let plain = profile().with("gc.frontiers", "separate");
        let placed = isolation.map(|isolation| plain.clone().placed(2, isolation));
        let mut device = placed.unwrap_or(plain).device();
        cold_and_hot(&mut device, 8, hot);
        (amplification(&device), device.placement())
    };
    let (mixed, nothing) = of_loads(None, 1);
    assert!(nothing.is_empty());
    let (apart, used) = of_loads(Some("persistent"), 1);
    let (initial, _) = of_loads(Some("initial"), 1);
    assert!(mixed > 1.3 * apart && mixed > 1.3 * initial, "{mixed} {apart} {initial}");
    // Data that is written in circles becomes invalid superblock by superblock, but is collected
    // before that if the other handle's superblocks hold more valid pages.
    assert!(of_handle(used[0]) < of_handle(used[1]), "{used:?}");
    let (one_handle, _) = of_loads(Some("persistent"), 0);
    assert!((one_handle / mixed - 1.0).abs() < 0.05, "sharing a handle: {one_handle} {mixed}");

    // Uniform writes that alternate between two handles gain nothing, and keep one more frontier
    // open.
    let uniform = |profile: Profile| {
        let mut device = profile.device();
        let mut rng = Rng::new(9);
        let loads = (0..12 * USER).map(|i| write(rng.below(USER), (i % 2) as u8));
        one_by_one(&mut device, loads);
        amplification(&device)
    };
    let plain = uniform(profile().with("gc.frontiers", "separate"));
    for isolation in ["initial", "persistent"] {
        let placed = uniform(profile().placed(2, isolation));
        assert!((0.99..1.15).contains(&(placed / plain)), "{isolation}: {placed} {plain}");
    }
}

/// An update closes the reclaim unit: the rest is padded, and the next write has a whole unit.
#[test]
fn an_update_fills_the_reclaim_unit() {
    let mut device = profile().placed(2, "initial").device();
    let unit = u64::from(PAGES);
    one_by_one(&mut device, (0..10).map(|lpn| write(lpn, 1)));
    let left =
        |device: &Device| device.placement().iter().map(|u| u.unit_left_4k).collect::<Vec<_>>();
    assert_eq!(left(&device), [unit, unit - 10, unit]);
    one_by_one(&mut device, [Io { handle: 1, ..Io::new(Op::HandleUpdate, 0, 0) }]);
    assert_eq!(left(&device), [unit; 3]);
    assert_eq!(device.counters().placed_pages, unit, "media bytes count what was not written");
    assert_eq!(device.placement()[1].written_4k, 10);
    one_by_one(&mut device, [write(3, 1), write(4, 9)]);
    // A handle that the drive does not have counts as the first.
    assert_eq!(left(&device), [unit - 1, unit - 1, unit]);
    device.ftl().check_invariants();
}

#[test]
fn a_saved_drive_goes_on_with_its_handles() {
    let profile = profile().placed(3, "persistent");
    let mut device = profile.device();
    cold_and_hot(&mut device, 3, 2);
    let mut saved = Vec::new();
    device.save(&mut saved).expect("memory");
    let mut other =
        Device::restore(profile.spec(), None, &mut saved.as_slice()).expect("the same profile");
    assert_eq!(other.placement(), device.placement());
    cold_and_hot(&mut device, 1, 2);
    cold_and_hot(&mut other, 1, 2);
    assert_eq!((other.counters(), other.placement()), (device.counters(), device.placement()));
}

#[test]
fn what_cannot_be_placed_is_refused() {
    let refused = |profile: Profile, part: &str| {
        let error = profile.checked().expect_err("refused");
        assert!(
            error.to_string().starts_with("fdp.handles") && error.to_string().contains(part),
            "{error}"
        );
    };
    refused(profile().placed(60, "persistent"), "superblocks");
    refused(profile().placed(0, "initial"), "1 to 64");
    refused(profile().placed(2, "initial").with("gc.host_frontiers", "by-lifespan"), "lifespan");
    let cached = Profile::sm951().slc_cache([0.0, 10_000.0, 1_000.0], "direct", 0.5);
    refused(cached.placed(2, "initial"), "SLC cache");
}
