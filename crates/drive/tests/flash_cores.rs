//! One flash core for everything, or one of reads and one of all else.

use crate::support::{Profile, at_depth, page};
use drivebay_drive::{Io, Op, Spec};
use drivebay_units::Nanos;

/// A drive whose flash cores take 4 us for a read of what is not mapped, and 8 us for a write.
fn profile(cores: i64) -> Profile {
    Profile::sm951()
        .cool()
        .set("host_interface.protocol", "nvme")
        .set("host_interface.queue_depth_max", 256)
        .set("host.nvme.serial_us", 0.1)
        .set("controller.host_core_us", 0.5)
        .set("controller.read_command_us", 4.0)
        .set("controller.write_command_us", 8.0)
        .set("controller.write_page_us", 0)
        .with("controller.flash_cores", cores)
}

/// Time for each of these requests, 16 at a time.
fn each(cores: i64, ios: impl Fn(u64) -> Io) -> f64 {
    let mut device = profile(cores).device();
    let count = 8000;
    let end = at_depth(&mut device, 16, (0..count).map(ios));
    end.0 as f64 / 1000.0 / count as f64
}

/// In a mix of halves one core takes 12 us for a pair, two 8 us: as long as the write.
#[test]
fn a_second_core_serves_reads_beside_writes() {
    let read = |i| page(Op::Read, 10_000 + i);
    let mix = |i| if i % 2 == 0 { read(i) } else { page(Op::Write, i) };
    let cases = [(1, 6.0), (2, 4.0)].map(|(cores, expected)| (each(cores, mix), expected));
    for (got, expected) in cases {
        assert!((got / expected - 1.0).abs() < 0.02, "{got} us for {expected}");
    }
    assert_eq!(each(1, read), each(2, read), "reads alone have one core");
    let write = |i| page(Op::Write, i);
    assert_eq!(each(1, write), each(2, write), "so have writes");
}

/// A flush waits for the writes whose data came before it.
#[test]
fn a_flush_goes_to_the_core_of_writes() {
    let mut device = profile(2).device();
    for tag in 0..64 {
        device.accept(Nanos::ZERO, page(Op::Write, tag), tag as u32).expect("accepted");
    }
    let flush = Io { op: Op::Flush, lba: 0, sectors: 0 };
    device.accept(Nanos::micros(300), flush, 64).expect("accepted");
    let mut last = None;
    for _ in 0..65 {
        last = Some(device.serve().expect("served"));
    }
    let flush = last.expect("the last one");
    assert_eq!(flush.tag, 64, "behind all writes");
    assert!(flush.done > Nanos::micros(64 * 8), "{:?}", flush.done);
}

#[test]
fn other_counts_and_a_half_duplex_path_are_refused() {
    let refused = |profile: Profile| {
        Spec::from_toml(&profile.0.to_string()).err().map(|error| error.to_string())
    };
    assert_eq!(refused(profile(1)), None);
    let three = refused(profile(3)).expect("refused");
    assert!(three.contains("controller.flash_cores"), "{three}");
    let turns = profile(2)
        .with("controller.half_duplex.turnaround_us", 100.0)
        .with("controller.half_duplex.batch_commands", 3)
        .with("controller.half_duplex.batch_wait_us", 300.0);
    let turns = refused(turns).expect("refused");
    assert!(turns.contains("half-duplex"), "{turns}");
}

/// Random writes alone, with garbage collection at work and writes that are admitted, take as long with either.
#[test]
fn writes_alone_are_served_alike() {
    let time = |cores: i64| {
        let profile = Profile::sm951()
            .cool()
            .set("nand.channels", 2)
            .set("nand.dies_per_channel", 2)
            .set("nand.blocks_per_plane", 40)
            .set("nand.pages_per_block", 64)
            .set("nand.bad_superblocks", 0)
            .set("drive.capacity_sectors", 8 * 32 * 2048)
            .set("write_buffer.size_kib", 1024)
            .set("gc.threshold_mb", 40)
            .set("gc.target_mb", 20)
            .with("controller.admission.interval_us", 10.0)
            .with("controller.flash_cores", cores);
        let mut device = profile.device();
        let mut rng = drivebay_units::Rng::new(3);
        let pages = 32 * 2048;
        at_depth(&mut device, 16, (0..pages).map(|lpn| page(Op::Write, lpn)));
        let random = std::iter::repeat_with(|| page(Op::Write, rng.below(pages)));
        let end = at_depth(&mut device, 16, random.take(60_000));
        (end, device.counters().copied_pages)
    };
    let (one, two) = (time(1), time(2));
    assert!(one.1 > 60_000, "{} copies", one.1);
    assert_eq!(one, two);
}
