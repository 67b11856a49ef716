//! Events inside a drive: they add up to the drive's counters, and recording them changes nothing.

use crate::support::{Profile, at_depth, page};
use drivebay_drive::{Activity, Device, Event, EventKind, Events, Io, Op, Trigger};
use drivebay_units::{Nanos, Rng};

const USER_PAGES: u64 = 40 * NATIVE;
/// Pages of a superblock: two dies, two planes, 16 flash pages of four.
const NATIVE: u64 = 2 * 2 * 16 * 4;
const ERASE_US: f64 = 2000.0;

/// Two channels with one die each, 48 superblocks; reads, programs and erases take the same time
/// everywhere.
fn profile() -> Profile {
    Profile::sm951()
        .cool()
        .set("nand.channels", 2)
        .set("nand.dies_per_channel", 1)
        .set("nand.planes", 2)
        .set("nand.blocks_per_plane", 48)
        .set("nand.pages_per_block", 16)
        .set("nand.bad_superblocks", 0)
        .set("nand.program_us", vec![1000.0])
        .set("nand.erase_us", ERASE_US)
        .set("gc.threshold_mb", 5.0)
        .set("gc.target_mb", 2.0)
        .set("drive.capacity_sectors", USER_PAGES as i64 * 8)
        .set("write_buffer.size_kib", 512)
}

/// Random writes of a page, with every fourth request a read, at queue depth 4.
fn load(device: &mut Device, count: u64) {
    let mut rng = Rng::new(7);
    let ios: Vec<Io> = (0..count)
        .map(|i| page(if i % 4 == 0 { Op::Read } else { Op::Write }, rng.below(USER_PAGES)))
        .collect();
    let end = at_depth(device, 4, ios);
    device.idle_until(end);
}

fn filled(profile: &Profile) -> Device {
    let mut device = profile.device();
    let end = at_depth(&mut device, 4, (0..USER_PAGES).map(|lpn| page(Op::Write, lpn)));
    device.idle_until(end);
    device
}

fn watched(device: &mut Device, limit: usize, count: u64) -> Events {
    device.keep_events(limit);
    load(device, count);
    device.take_events().expect("they were kept")
}

fn of(events: &[Event], kind: EventKind) -> Vec<&Event> {
    events.iter().filter(|event| event.kind == kind).collect()
}

#[test]
fn events_add_up_to_what_the_drive_counts() {
    let mut device = filled(&profile());
    let before = device.counters();
    let Events { events, dropped, superblocks, .. } = watched(&mut device, 1 << 20, 20_000);
    let after = device.counters();
    let victims = of(&events, EventKind::Collection);
    assert!(victims.len() > 50 && dropped == 0);
    let copied: u64 = victims.iter().map(|victim| u64::from(victim.copied_pages)).sum();
    assert_eq!(copied, after.copied_pages - before.copied_pages);
    let erased = of(&events, EventKind::Erase);
    assert_eq!(erased.len() as u64, after.erases - before.erases);
    for victim in victims {
        assert!(victim.copied_pages <= victim.valid_pages && victim.trigger.is_some());
        assert!(victim.end.is_none_or(|end| end >= victim.begin));
    }
    for event in &erased {
        assert!(event.end.expect("known").since(event.begin).0 as f64 >= ERASE_US * 1e3);
        assert_eq!((event.valid_pages, event.trigger), (0, None));
    }
    let wear: u64 = superblocks.iter().map(|superblock| u64::from(superblock.erases)).sum();
    assert_eq!(wear, after.erases);
    let valid: u64 = superblocks.iter().map(|superblock| u64::from(superblock.valid_pages)).sum();
    assert_eq!(valid, device.ftl().mapped());
    let last = erased.last().expect("some");
    assert!(last.erases <= superblocks[last.superblock as usize].erases);
}

#[test]
fn dies_and_channels_are_busy_for_as_long_as_their_work_takes() {
    let mut device = filled(&profile());
    let before = device.counters();
    let flash = watched(&mut device, 1, 20_000).flash;
    let after = device.counters();
    let sum = |columns: std::ops::Range<usize>| -> f64 {
        let ns = columns.map(|i| flash.busy.of(i, Activity::INTERVALS_MAX).sum::<u64>());
        ns.sum::<u64>() as f64 / 1e3
    };
    let (dies, channels) = (flash.dies, flash.channels);
    assert_eq!((dies, channels), (2, 2));
    let read_us = device.spec().nand.read.0 as f64 / 1e3;
    let close =
        |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 1e-6, "{got} {expected}");
    close(sum(0..dies), (after.page_reads - before.page_reads) as f64 * read_us);
    close(sum(2 * dies..3 * dies), (after.erases - before.erases) as f64 * ERASE_US * dies as f64);
    // Pages that wait in the buffer at the end are placed but not yet programmed.
    let programs = sum(dies..2 * dies) / 1000.0;
    let placed = (after.placed_pages - before.placed_pages) as f64 / 8.0;
    assert!((programs / placed - 1.0).abs() < 0.01, "{programs} of {placed}");
    let spec = device.spec();
    let moved = (after.read_bytes - before.read_bytes) as f64 + programs * 32_768.0;
    let moved_us = moved * spec.nand.channel_fs_per_byte as f64 / 1e9;
    assert!((sum(3 * dies..3 * dies + channels) / moved_us - 1.0).abs() < 1e-3);
}

#[test]
fn a_drive_that_is_watched_goes_on_as_one_that_is_not() {
    for profile in [profile(), profile().with("nand.read_planes", "independent")] {
        let (mut plain, mut told) = (filled(&profile), filled(&profile));
        let events = watched(&mut told, 1 << 20, 5_000);
        load(&mut plain, 5_000);
        assert_eq!((plain.now(), plain.counters()), (told.now(), told.counters()));
        assert!(!events.events.is_empty() && told.take_events().is_none());
        load(&mut plain, 500);
        load(&mut told, 500);
        assert_eq!((plain.now(), plain.counters()), (told.now(), told.counters()));
    }
}

#[test]
fn events_beyond_the_limit_are_counted() {
    let all = watched(&mut filled(&profile()), 1 << 20, 10_000);
    let few = watched(&mut filled(&profile()), 10, 10_000);
    assert_eq!(few.events.len(), 10);
    assert_eq!(few.dropped, all.events.len() as u64 - 10);
    assert!(few.events.iter().all(|event| all.events.contains(event)));
}

/// Idle folding of data in the cache; it takes time of the drive, not of the host.
#[test]
fn folds_are_told_with_their_trigger() {
    let cache = [0.0, 10.0, 2.0];
    let three_bits = profile()
        .set("nand.program_us", vec![300.0, 500.0, 1000.0])
        .set("nand.pages_per_block", 18);
    let mut device = three_bits.slc_cache(cache, "direct", 0.0).device();
    device.keep_events(1 << 20);
    let end = at_depth(&mut device, 4, (0..4 * NATIVE).map(|lpn| page(Op::Write, lpn)));
    device.idle_until(end.after(Nanos::secs(5)));
    let events = device.take_events().expect("kept").events;
    let folds = of(&events, EventKind::Fold);
    assert!(!folds.is_empty());
    assert!(folds.iter().all(|fold| fold.slc && fold.trigger == Some(Trigger::Idle)));
    let copied: u64 = folds.iter().map(|fold| u64::from(fold.copied_pages)).sum();
    assert_eq!(copied, device.counters().copied_pages);
    let opened = of(&events, EventKind::Open);
    assert!(opened.iter().any(|open| open.slc) && opened.iter().any(|open| !open.slc));
}

#[test]
fn intervals_grow_and_lose_nothing() {
    let mut activity = Activity::new(Nanos::secs(1), 2);
    let ms = |ms: u64| Nanos::secs(1).after(Nanos::millis(ms));
    activity.add(1, Nanos::ZERO, ms(1));
    activity.add(0, ms(1), ms(3));
    activity.add(1, ms(2).after(Nanos(500_000)), ms(4));
    let rows = |activity: &Activity, column| activity.of(column, 5).collect::<Vec<_>>();
    assert_eq!(rows(&activity, 0), [0, 1_000_000, 1_000_000, 0, 0]);
    assert_eq!(rows(&activity, 1), [1_000_000, 0, 500_000, 1_000_000, 0]);
    activity.add(0, ms(4999), ms(5000));
    assert_eq!(activity.interval(), Nanos::millis(2));
    assert_eq!(rows(&activity, 0), [1_000_000, 1_000_000, 0, 0, 0]);
    assert_eq!(rows(&activity, 1), [1_000_000, 1_500_000, 0, 0, 0]);
    assert_eq!(activity.of(0, Activity::INTERVALS_MAX).sum::<u64>(), 3_000_000);
}
