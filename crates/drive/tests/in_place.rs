//! Media that is written in place: its times compared with their sums and limits, and the features
//! that it lacks.

use crate::support::{Profile, at_depth, closed_loop, one_by_one, page};
use drivebay_drive::{Device, Io, Op, Spec, Stage};
use drivebay_units::{Nanos, Rng};

const PAGES: u64 = 100_000;
const DIES: u64 = 28;

/// Seven channels of four dies, 7 us to read 4 KiB and 9 us to write them, and a controller that is
/// never the limit.
fn profile() -> Profile {
    Profile::sm951_nvme()
        .cool()
        .without("gc")
        .without("write_buffer")
        .with("nand.in_place", true)
        .set("nand.channels", 7)
        .set("nand.dies_per_channel", 4)
        .set("nand.planes", 1)
        .set("nand.page_kib", 4)
        .set("nand.blocks_per_plane", 64)
        .set("nand.pages_per_block", 64)
        .set("nand.bad_superblocks", 0)
        .set("nand.read_us", 7.0)
        .set("nand.program_us", vec![9.0])
        .set("nand.channel_mb_per_s", 1000.0)
        .set("controller.host_core_us", 0.1)
        .set("controller.read_command_us", 0.1)
        .set("controller.read_page_us", 0.0)
        .set("controller.write_command_us", 0.1)
        .set("controller.write_page_us", 0.0)
        .set("drive.capacity_sectors", PAGES as i64 * 8)
}

fn random(op: Op, seed: u64) -> impl Iterator<Item = Io> {
    let mut rng = Rng::new(seed);
    std::iter::repeat_with(move || page(op, rng.below(PAGES)))
}

#[test]
fn one_access_takes_the_arrays_time_and_the_channels() {
    let mut device = profile().device();
    for (op, array) in [(Op::Read, 7_000), (Op::Write, 9_000), (Op::WriteFua, 9_000)] {
        let served = device.submit(device.now().after(Nanos(50_000)), page(op, 5)).expect("served");
        assert_eq!(served.stages.of(Stage::Nand), Nanos(array));
        assert_eq!(served.stages.of(Stage::Channel), Nanos(4096));
        assert_eq!(served.stages.of(Stage::Die), Nanos::ZERO);
        assert_eq!(served.stages.total(), served.done.since(served.submitted));
        device.idle_until(served.done);
    }
}

/// Rate of the drive in I/Os per second.
fn rate(device: &mut Device, depth: usize, ios: impl Iterator<Item = Io>) -> f64 {
    let (begin, count) = (device.now(), 50_000);
    let end = at_depth(device, depth, ios.take(count));
    count as f64 / end.since(begin).as_secs_f64()
}

/// With enough outstanding requests that every die has work, 28 dies do 28 accesses at a time,
/// whatever was written before.
#[test]
fn dies_are_the_limit_and_nothing_is_collected() {
    for (op, array) in [(Op::Read, 7e-6), (Op::Write, 9e-6)] {
        let profile = profile()
            .set("nand.channel_mb_per_s", 9000.0)
            .set("controller.write_path_mb_per_s", 90_000.0);
        let profile = profile.set("link.generation", 5).set("host.slot.generation", 5);
        let mut device = profile.device();
        let dies = DIES as f64 / array;
        let first = rate(&mut device, 1024, random(op, 1));
        assert!(first < dies && first > 0.8 * dies, "{first} of {dies}");
        let later = rate(&mut device, 1024, random(op, 2));
        assert!((later / first - 1.0).abs() < 0.03, "{later} after {first}");
        let counters = device.counters();
        assert_eq!((counters.placed_pages, counters.erases), (counters.host_pages, 0));
    }
}

/// Spread over all channels, 4 KiB take a seventh of the transfer time, and four accesses run at a
/// time.
#[test]
fn pieces_can_be_spread_over_channels() {
    let spread = profile().with("nand.spread_dies", 7);
    let served = spread.device().submit(Nanos(50_000), page(Op::Read, 5)).expect("served");
    assert_eq!(served.stages.of(Stage::Nand), Nanos(7_000));
    assert_eq!(served.stages.of(Stage::Channel), Nanos(585));
    let most = rate(&mut spread.device(), 64, random(Op::Read, 1));
    assert!((most / (4.0 / 7e-6) - 1.0).abs() < 0.05, "{most}");
}

/// A part of 4 KiB is read before it is written: one read time and one transfer more.
#[test]
fn a_part_is_read_before_it_is_written() {
    let mut device = profile().device();
    let latency = |device: &mut Device, io| {
        let served = device.submit(device.now().after(Nanos(50_000)), io).expect("served");
        device.idle_until(served.done);
        served.stages.of(Stage::Nand).after(served.stages.of(Stage::Channel))
    };
    let whole = latency(&mut device, page(Op::Write, 9));
    let part = latency(&mut device, Io::new(Op::Write, 73, 4));
    assert_eq!(part.since(whole), Nanos(7_000 + 4096));
    assert_eq!(device.counters().page_reads, 1);
}

#[test]
fn what_was_acknowledged_outlives_a_cut() {
    let mut device = profile().device();
    one_by_one(&mut device, random(Op::Write, 3).take(100));
    let flush = device.submit(device.now(), Io::new(Op::Flush, 0, 0)).expect("served");
    let waits = [Stage::Buffer, Stage::Nand, Stage::Die].map(|stage| flush.stages.of(stage));
    assert_eq!(waits, [Nanos::ZERO; 3], "a flush waits for nothing");
    let at = flush.done;
    device.idle_until(at);
    assert!(device.is_programmed(device.stream_page(40).expect("all holds data"), at));
    assert_eq!(device.power_cut(at).lost_pages, 0);
    assert_eq!(device.mapped_sectors(), PAGES * 8);
}

#[test]
fn a_state_goes_on_as_the_drive_it_was_of() {
    let mut device = profile().device();
    at_depth(&mut device, 16, random(Op::Write, 4).take(1000));
    let mut bytes = Vec::new();
    device.save(&mut bytes).expect("memory");
    let mut back = Device::restore(profile().spec(), None, &mut bytes.as_slice()).expect("a state");
    let ends = |device: &mut Device| {
        let mut ends = Vec::new();
        closed_loop(device, 16, random(Op::Read, 5).take(1000), |served| ends.push(served.done));
        ends
    };
    assert_eq!(ends(&mut device), ends(&mut back));
}

#[test]
fn dies_and_channels_are_watched() {
    let mut device = profile().device();
    device.keep_events(10);
    let begin = device.now();
    let end = at_depth(&mut device, 4, random(Op::Read, 6).take(5000));
    let activity = device.take_events().expect("kept").flash;
    assert_eq!((activity.dies, activity.channels), (28, 7));
    let intervals = end.since(begin).0.div_ceil(activity.busy.interval().0) as usize;
    let busy: u64 = (0..28).flat_map(|die| activity.busy.of(die, intervals)).sum();
    assert_eq!(busy, 5000 * 7_000);
}

#[test]
fn what_such_media_has_not_is_refused() {
    let refused = [
        (profile().set("nand.planes", 2), "nand.planes"),
        (profile().set("nand.page_kib", 16), "nand.page_kib"),
        (profile().map_cache(64, 0, 0.0), "map_cache"),
        (profile().set("drive.capacity_sectors", 1_i64 << 32), "drive.capacity_sectors"),
        (profile().with("nand.spread_dies", 2), "nand.spread_dies"),
        (Profile::sm951().without("gc"), "gc"),
        (Profile::sm951().without("write_buffer"), "write_buffer"),
        (Profile::sm951().set("nand.channels", 7), "nand.channels"),
    ];
    for (profile, field) in refused {
        let error = Spec::from_toml(&profile.0.to_string()).map(|_| ()).expect_err(field);
        assert!(error.to_string().starts_with(field), "{error}");
    }
}
