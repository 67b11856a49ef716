//! Host, interface and link against what can be computed by hand.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Io, Op, Spec, Stage};
use drivebay_units::Nanos;

const BLOCK: u64 = 131_072;
const BLOCKS: u64 = 2048;

/// A drive of which only the link takes time.
fn only_link() -> Profile {
    Profile::sm951()
        .timeless()
        .set("host.software_us", 0.0)
        .set("host_interface.serial_us", 0.0)
        .set("link.completion_us", 0.0)
        .set("controller.write_path_mb_per_s", 100_000.0)
        .set("nand.channel_mb_per_s", 10_000.0)
        .set("nand.program_us", vec![1.0])
        .without("host.slot")
}

fn sata(generation: i64, overhead: i64) -> Profile {
    only_link()
        .set("host_interface.protocol", "sata")
        .set("link.generation", generation)
        .set("link.lanes", 1)
        .set("link.payload_bytes", 8192)
        .set("link.packet_overhead_bytes", overhead)
}

fn block(op: Op, i: u64) -> Io {
    Io { op, lba: i * 256, sectors: 256 }
}

/// Bytes per nanosecond of 128 KiB requests at queue depth 32, on a drive that holds their data.
fn rate(profile: &Profile, op: impl Fn(u64) -> Op) -> f64 {
    let mut device = profile.device();
    at_depth(&mut device, 32, (0..BLOCKS).map(|i| block(Op::Write, i)));
    device.idle_until(device.now().after(Nanos::secs(10)));
    let start = device.now();
    let end = at_depth(&mut device, 32, (0..BLOCKS).map(|i| block(op(i), i)));
    (BLOCKS * BLOCK) as f64 / end.since(start).0 as f64
}

#[track_caller]
fn assert_within(got: f64, expected: f64, percent: f64) {
    let error = (got / expected - 1.0) * 100.0;
    assert!(error.abs() <= percent, "{got} against {expected}: {error:.2} %, allowed {percent} %");
}

/// Gigabytes per second by the PCIe base specifications, 24 bytes around every 128.
fn pcie(generation: usize, lanes: i64) -> f64 {
    let lane =
        [2.5 * 0.8, 5.0 * 0.8, 8.0 * 128.0 / 130.0, 16.0 * 128.0 / 130.0, 32.0 * 128.0 / 130.0];
    lane[generation - 1] / 8.0 * lanes as f64 * 128.0 / 152.0
}

#[test]
fn every_pcie_link_and_slot_carries_its_rate() {
    for generation in 1..=5 {
        for lanes in [1, 2, 4, 8, 16] {
            let own = only_link().set("link.generation", generation).set("link.lanes", lanes);
            let expected = pcie(generation as usize, lanes);
            assert_within(rate(&own, |_| Op::Read), expected, 0.3);
            // The same rate for a faster drive in such a slot, and for the drive in a faster slot.
            let spec = own.spec();
            for (drive, slot) in [((5, 16), (generation, lanes)), ((generation, lanes), (5, 16))] {
                let plugged = only_link()
                    .set("link.generation", drive.0)
                    .set("link.lanes", drive.1)
                    .with("host.slot.generation", slot.0)
                    .with("host.slot.lanes", slot.1)
                    .spec();
                assert_eq!(plugged.link_fs_per_byte, spec.link_fs_per_byte);
            }
        }
    }
    // Generation and lanes are agreed on one by one.
    let crossed = only_link()
        .set("link.generation", 4)
        .set("link.lanes", 1)
        .with("host.slot.generation", 2)
        .with("host.slot.lanes", 16);
    assert_within(rate(&crossed, |_| Op::Read), pcie(2, 1), 0.3);
}

/// PCIe moves both ways at once: half reads, half writes come to twice the rate of one way.
#[test]
fn pcie_moves_both_ways_at_once() {
    let profile = only_link().set("link.generation", 1).set("link.lanes", 1);
    let mixed = rate(&profile, |i| if i % 2 == 0 { Op::Read } else { Op::Write });
    assert_within(mixed, 2.0 * pcie(1, 1), 3.0);
}

/// A block's time on a SATA link in byte times: its frames, each with `overhead`, and its data. A read
/// comes in parts, one for each flash page of 16 KiB, with a DMA Setup of its own.
fn sata_block(overhead: f64, read: bool) -> f64 {
    let frame = |bytes: f64| bytes + overhead;
    let around = 2.0 * frame(20.0) + frame(8.0);
    let data = 16.0 * frame(4.0) + BLOCK as f64;
    let rest = if read { 8.0 * frame(28.0) } else { frame(28.0) + 15.0 * frame(4.0) };
    around + data + rest
}

#[test]
fn sata_carries_one_frame_at_a_time() {
    for (generation, bytes_per_ns) in [(1, 0.15), (2, 0.3), (3, 0.6)] {
        for overhead in [16, 500] {
            let profile = sata(generation, overhead);
            let [read, write] = [true, false].map(|read| sata_block(overhead as f64, read));
            let expected = |bytes: f64| BLOCK as f64 / bytes * bytes_per_ns;
            assert_within(rate(&profile, |_| Op::Read), expected(read), 0.3);
            assert_within(rate(&profile, |_| Op::Write), expected(write), 0.3);
            // Half duplex: a mixture takes the sum of the times.
            let mixed = rate(&profile, |i| if i % 2 == 0 { Op::Read } else { Op::Write });
            assert_within(mixed, expected((read + write) / 2.0), 0.3);
        }
    }
    let slower = sata(3, 16).with("host.slot.generation", 1).with("host.slot.lanes", 1);
    assert_eq!(slower.spec().link_fs_per_byte, sata(1, 16).spec().link_fs_per_byte);
}

#[test]
fn a_sata_read_at_depth_one_takes_the_sum_of_its_parts() {
    let profile = Profile::sm951()
        .without("host.slot")
        .set("host_interface.protocol", "sata")
        .set("link.lanes", 1)
        .set("link.payload_bytes", 8192)
        .set("link.packet_overhead_bytes", 52)
        .with("host_interface.fetch_us", 0.4);
    let mut device = profile.device();
    let read = device.submit(Nanos::ZERO, page(Op::Read, 7)).expect("on the drive");
    // 72, 80, 56 and 60 bytes at 600 MB/s, and the data; the page is not mapped: no flash.
    let link = 2 * 120 + 400 + 133 + 93 + 6827 + 100 + 1000;
    let s = &read.stages;
    assert_eq!(s.of(Stage::Link), Nanos(link));
    assert_eq!(s.of(Stage::Host), Nanos(500 + 5500));
    assert_eq!(s.of(Stage::Firmware), Nanos(3090 + 2940));
    assert_eq!(read.done, Nanos(6000 + 6030 + link));
}

/// A host that moves 1,628 MB/s caps the rate, both ways together, and adds nothing at depth one.
#[test]
fn a_slow_host_caps_the_rate() {
    let slow = only_link().with("host.mb_per_s", 1628.0);
    assert_within(rate(&slow, |_| Op::Read), 1.628, 0.3);
    assert_within(rate(&slow, |_| Op::Write), 1.628, 0.3);
    assert_within(rate(&slow, |i| if i % 2 == 0 { Op::Read } else { Op::Write }), 1.628, 0.3);
    let read = |profile: Profile| {
        let mut device = profile.device();
        one_by_one(&mut device, (0..4096).map(|lpn| page(Op::Write, lpn)));
        device.idle_until(device.now().after(Nanos::secs(1)));
        let now = device.now();
        device.submit(now, page(Op::Read, 17)).expect("on the drive").done.since(now)
    };
    assert_eq!(read(Profile::sm951()), read(Profile::sm951().with("host.mb_per_s", 1628.0)));
}

/// A processor's work per command is serial: 5.5 us of interface and 2 us of work bound unmapped reads.
#[test]
fn processor_time_per_command_bounds_the_rate() {
    let mut device = Profile::sm951().with("host.cpu_us", 2.0).device();
    let count = 50_000;
    let end = at_depth(&mut device, 32, (0..count).map(|i| page(Op::Read, i)));
    assert_within(end.0 as f64 / count as f64, 7500.0, 0.1);
}

#[track_caller]
fn assert_refused(profile: &Profile, says: &[&str]) {
    let error = Spec::from_toml(&profile.0.to_string()).map(|_| ()).expect_err("must be refused");
    for part in says.iter().chain(&["\nhint: "]) {
        assert!(error.to_string().contains(part), "says '{part}': {error}");
    }
}

#[test]
fn impossible_hosts_and_links_are_refused_by_name() {
    let sm951 = Profile::sm951;
    assert_refused(
        &sm951().with("host.slot.generation", 6),
        &["host.slot.generation: 6", "1 to 5"],
    );
    assert_refused(&sm951().with("host.slot.lanes", 3), &["host.slot.lanes: 3", "use 2 or 4"]);
    assert_refused(&sm951().with("host.mb_per_s", 0.0), &["host.mb_per_s: 0"]);
    assert_refused(&sm951().with("host.outstanding_max", 0), &["host.outstanding_max: 0"]);
    assert_refused(
        &sm951().with("host_interface.queues_max", 2),
        &["host_interface.queues_max: 2", "1 to 1"],
    );
    let weighted = sm951().with("host_interface.weighted_round_robin", true);
    assert_refused(&weighted, &["host_interface.weighted_round_robin: true"]);
    assert_refused(&sata(4, 16), &["link.generation: 4", "1 to 3"]);
    assert_refused(&sata(3, 16).set("link.lanes", 2), &["link.lanes: 2"]);
    assert_refused(&sata(3, 16).set("link.payload_bytes", 256), &["link.payload_bytes: 256"]);
}

/// Device::post and Device::take, one after the other, are Device::submit.
#[test]
fn post_and_take_are_submit() {
    let ios =
        || (0..500u64).map(|i| page(if i % 3 == 0 { Op::Read } else { Op::Write }, i * 37 % 900));
    let mut whole = Profile::sm951().device();
    let mut parts = Profile::sm951().device();
    let end = one_by_one(&mut whole, ios());
    let mut now = Nanos::ZERO;
    for io in ios() {
        let posted = Device::post(&mut parts, 0, now);
        parts.fetch(posted, io, 0).expect("on the drive");
        now = parts.serve().expect("room").done;
    }
    assert_eq!(now, end);
}
