//! Host, interface and link compared with values that can be computed by hand.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Io, Op, Spec, Stage};
use drivebay_units::Nanos;

const BLOCK: u64 = 131_072;
const BLOCKS: u64 = 2048;

/// A drive in which only the link takes time.
fn only_link() -> Profile {
    Profile::sm951()
        .timeless()
        .set("host.ahci.software_us", 0.0)
        .set("host.ahci.serial_us", 0.0)
        .set("host.ahci.register_reads", 0)
        .set("host.ahci.register_writes", 0)
        .set("host.ahci.interrupt_us", 0.0)
        .set("controller.write_path_mb_per_s", 100_000.0)
        .set("nand.channel_mb_per_s", 10_000.0)
        .set("nand.program_us", vec![1.0])
        .set("host.slot.generation", 5)
        .set("host.slot.lanes", 16)
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
    Io::new(op, i * 256, 256)
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

/// Gigabytes per second of a PCIe link's wire, by the base specifications.
fn wire(generation: usize, lanes: i64) -> f64 {
    let lane =
        [2.5 * 0.8, 5.0 * 0.8, 8.0 * 128.0 / 130.0, 16.0 * 128.0 / 130.0, 32.0 * 128.0 / 130.0];
    lane[generation - 1] / 8.0 * lanes as f64
}

/// To the host: 24 bytes around every 128.
fn up(generation: usize, lanes: i64) -> f64 {
    wire(generation, lanes) * 128.0 / 152.0
}

/// From the host: 20 bytes around every completion of 64.
fn down(generation: usize, lanes: i64) -> f64 {
    wire(generation, lanes) * 64.0 / 84.0
}

/// Megabytes per second computed by hand: 5 GT/s with 8b/10b is 500 a lane, 8 GT/s with 128b/130b
/// 984.6, 16 GT/s 1,969.2; of this 128 of 152 bytes to the host, 64 of 84 from it.
#[test]
fn each_direction_has_the_rate_of_its_packets() {
    for (generation, lanes, read, write) in [
        (2, 2, 842.1, 761.9),
        (2, 4, 1684.2, 1523.8),
        (3, 4, 3316.6, 3000.7),
        (4, 4, 6633.2, 6001.5),
    ] {
        let slot = only_link()
            .set("link.generation", 5)
            .set("link.lanes", 16)
            .set("host.slot.generation", generation)
            .set("host.slot.lanes", lanes);
        assert_within(rate(&slot, |_| Op::Read) * 1e3, read, 0.3);
        assert_within(rate(&slot, |_| Op::Write) * 1e3, write, 0.3);
    }
}

#[test]
fn larger_packets_carry_more() {
    let slot = |payload: i64, completion: i64| {
        only_link()
            .set("link.payload_bytes", 512)
            .set("host.slot.payload_bytes", payload)
            .set("host.slot.read_completion_bytes", completion)
    };
    // 3.938 GB/s: 256 of 280 bytes up, 128 of 148 down; a completion is no larger than the payload.
    assert_within(rate(&slot(256, 128), |_| Op::Read), 3.601, 0.3);
    assert_within(rate(&slot(256, 128), |_| Op::Write), 3.406, 0.3);
    assert_within(rate(&slot(256, 512), |_| Op::Write), 3.938 * 256.0 / 276.0, 0.3);
}

/// Each read request of 512 bytes holds its tag for the round trip and its own 8 completions of 84
/// bytes.
#[test]
fn few_tags_and_a_long_round_trip_hold_writes_back_and_no_reads() {
    for (tags, round_trip_us) in [(1, 0.4), (4, 2.0), (32, 20.0)] {
        let narrow =
            only_link().with("link.read_tags", tags).set("host.slot.round_trip_us", round_trip_us);
        let held = round_trip_us * 1e3 + 8.0 * 84.0 / wire(3, 4);
        assert_within(rate(&narrow, |_| Op::Write), tags as f64 * 512.0 / held, 0.5);
        assert_within(rate(&narrow, |_| Op::Read), up(3, 4), 0.5);
    }
    // With enough tags, the wire is the limit.
    let enough = only_link().with("link.read_tags", 64).set("host.slot.round_trip_us", 4.0);
    assert_within(rate(&enough, |_| Op::Write), down(3, 4), 0.5);
}

#[test]
fn every_pcie_link_and_slot_carries_its_rate() {
    for generation in 1..=5i64 {
        for lanes in [1, 2, 4, 8, 16] {
            let own = only_link().set("link.generation", generation).set("link.lanes", lanes);
            assert_within(rate(&own, |_| Op::Read), up(generation as usize, lanes), 0.3);
            // A faster drive in such a slot has the same rate.
            let plugged = only_link()
                .set("link.generation", 5)
                .set("link.lanes", 16)
                .set("host.slot.generation", generation)
                .set("host.slot.lanes", lanes);
            let (own, plugged) = (own.spec().link, plugged.spec().link);
            assert_eq!(own.up_fs_per_byte, plugged.up_fs_per_byte);
            assert_eq!(own.down_fs_per_byte, plugged.down_fs_per_byte);
        }
    }
    // Generation and lanes are negotiated separately.
    let crossed = only_link()
        .set("link.generation", 4)
        .set("link.lanes", 1)
        .set("host.slot.generation", 2)
        .set("host.slot.lanes", 16);
    assert_within(rate(&crossed, |_| Op::Read), up(2, 1), 0.3);
}

/// PCIe moves data both ways at once: half reads and half writes take as long as the writes alone.
#[test]
fn pcie_moves_both_ways_at_once() {
    let profile = only_link().set("link.generation", 1).set("link.lanes", 1);
    let mixed = rate(&profile, |i| if i % 2 == 0 { Op::Read } else { Op::Write });
    assert_within(mixed, 2.0 * down(1, 1), 3.0);
}

/// Time of a block on a SATA link in byte times: its frames, each with `overhead`, and its data. A
/// read comes in parts, one for each flash page of 16 KiB, each with its own DMA Setup.
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
    let slower = sata(3, 16).set("host.sata_port.generation", 1);
    assert_eq!(slower.spec().link.up_fs_per_byte, sata(1, 16).spec().link.up_fs_per_byte);
}

#[test]
fn a_sata_read_at_depth_one_takes_the_sum_of_its_parts() {
    let profile = Profile::sm951()
        .set("host_interface.protocol", "sata")
        .set("link.lanes", 1)
        .set("link.payload_bytes", 8192)
        .set("link.packet_overhead_bytes", 52);
    let mut device = profile.device();
    let read = device.submit(Nanos::ZERO, page(Op::Read, 7)).expect("on the drive");
    // Frames of 72, 80, 56 and 60 bytes at 600 MB/s, and the data; the page is not mapped, so there
    // is no flash read. The host's controller has the command after 2.5 round trips of 0.4 us, and
    // the completion is in memory half a round trip later.
    let link = 1000 + 2 * 120 + 133 + 93 + 6827 + 100 + 200;
    let s = &read.stages;
    assert_eq!(s.of(Stage::Link), Nanos(link));
    assert_eq!(s.of(Stage::Host), Nanos(100 + 5500 + 200));
    assert_eq!(s.of(Stage::Firmware), Nanos(3090 + 2940));
    assert_eq!(read.done, Nanos(5800 + 6030 + link));
}

/// A host that moves 1,628 MB/s caps the rate, both ways together, and adds nothing at depth one.
#[test]
fn a_slow_host_caps_the_rate() {
    let slow = only_link().with("host.ahci.mb_per_s", 1628.0);
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
    assert_eq!(read(Profile::sm951()), read(Profile::sm951().with("host.ahci.mb_per_s", 1628.0)));
}

/// Nanoseconds per unmapped 4 KiB read at queue depth 32.
fn read_ns(profile: &Profile) -> f64 {
    let count = 50_000;
    let end = at_depth(&mut profile.device(), 32, (0..count).map(|i| page(Op::Read, i)));
    end.0 as f64 / count as f64
}

/// The work of a command under the lock of AHCI's queue is the sum of its register accesses and the
/// lock's own time.
#[test]
fn registers_and_lock_bound_the_rate_over_ahci() {
    let four_reads = 4.0 * 625.0 + 4.0 * 150.0;
    assert_within(read_ns(&Profile::sm951()), four_reads + 2400.0, 0.1);
    let slow = Profile::sm951().set("host.ahci.register_read_us", 1.0);
    assert_within(read_ns(&slow), four_reads + 1500.0 + 2400.0, 0.1);
    let busy = Profile::sm951().set("host.ahci.serial_us", 4.4);
    assert_within(read_ns(&busy), four_reads + 4400.0, 0.1);
}

/// Two doorbells do not bound NVMe: the controller's host core does, until the processor is slower.
#[test]
fn doorbells_do_not_bound_the_rate_over_nvme() {
    assert_within(read_ns(&Profile::sm951_nvme()), 3090.0, 0.1);
    let busy = Profile::sm951_nvme().set("host.nvme.serial_us", 5.0);
    assert_within(read_ns(&busy), 5000.0 + 2.0 * 150.0, 0.1);
}

/// The difference in latency between the protocols of one drive: software, registers and lock,
/// fetches.
#[test]
fn ahci_costs_more_than_nvme_by_its_parts() {
    let read = |protocol: &str| {
        let profile = Profile::sm951().set("host_interface.protocol", protocol);
        let mut device = profile.device();
        device.submit(Nanos::ZERO, page(Op::Read, 7)).expect("on the drive").done.0
    };
    let ahci = 100 + 2400 + 4 * (625 + 150) + 200 + 2 * 400;
    let nvme = 1700 + 2 * 150 + 1000 + 400;
    assert_eq!(read("ahci") - read("nvme"), ahci - nvme);
}

#[test]
fn a_host_without_a_driver_or_port_refuses_the_drive() {
    assert_refused(&Profile::sm951().without("host.ahci"), &["host.ahci: missing"]);
    assert_refused(&Profile::sm951_nvme().without("host.nvme"), &["host.nvme: missing"]);
    assert_refused(&sata(3, 16).without("host.sata_port"), &["host.sata_port: missing"]);
    Profile::sm951().without("host.nvme").without("host.sata_port").spec();
}

/// Identify data is only reported; the model cuts requests at a key of its own.
#[test]
fn requests_are_cut_at_what_the_profile_says() {
    let nvme = Profile::sm951_nvme();
    let kib = |profile: &Profile| profile.spec().host.transfer_max / 2;
    assert_eq!(kib(&nvme), 128);
    assert_eq!(kib(&nvme.clone().with("identify.transfer_max_log2", 1)), 128);
    assert_eq!(kib(&nvme.without("host_interface.transfer_max_kib")), 1280);
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
    assert_refused(&sm951().set("host.slot.generation", 6), &["host.slot.generation: 6", "1 to 5"]);
    assert_refused(&sm951().set("host.slot.lanes", 3), &["host.slot.lanes: 3", "use 2 or 4"]);
    for (field, value) in [
        ("host.processors", 0),
        ("host.ahci.mb_per_s", 0),
        ("host.ahci.register_reads", 101),
        ("host.ahci.register_read_us", -1),
        ("host.ahci.register_write_us", -1),
        ("host.ahci.interrupt_us", -1),
        ("host.ahci.serial_us", -1),
        ("host.slot.payload_bytes", 64),
        ("host.slot.read_request_bytes", 64),
        ("host.slot.read_completion_bytes", 32),
        ("host.slot.read_completion_bytes", 96),
        ("host.slot.round_trip_us", 101),
        ("link.payload_bytes", 64),
        ("link.read_tags", 0),
    ] {
        assert_refused(&sm951().with(field, value), &[&format!("{field}: {value}")]);
    }
    assert_refused(
        &sm951().with("host_interface.queues_max", 2),
        &["host_interface.queues_max: 2", "1 to 1"],
    );
    assert_refused(
        &sm951().with("host_interface.commands_max", 64),
        &["host_interface.commands_max: ahci", "left out unless the protocol is nvme"],
    );
    assert_refused(
        &Profile::sm951_nvme().with("host_interface.commands_max", 7),
        &["host_interface.commands_max: 7", "8 to 1024"],
    );
    assert_refused(
        &Profile::sm951_nvme().with("host_interface.transfer_max_kib", 2048),
        &["host_interface.transfer_max_kib: 2048", "8 to 1280"],
    );
    let port = sata(3, 16).set("host.sata_port.generation", 4);
    assert_refused(&port, &["host.sata_port.generation: 4", "1 to 3"]);
    assert_refused(&sata(4, 16), &["link.generation: 4", "1 to 3"]);
    assert_refused(&sata(3, 16).set("link.lanes", 2), &["link.lanes: 2"]);
    assert_refused(&sata(3, 16).set("link.payload_bytes", 256), &["link.payload_bytes: 256"]);
}

/// Device::post, Device::fetch and Device::serve in sequence are equal to Device::submit.
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
        parts.fetch(posted, Nanos::ZERO, io, 0).expect("on the drive");
        now = parts.serve().expect("room").expect("one step").done;
    }
    assert_eq!(now, end);
}
