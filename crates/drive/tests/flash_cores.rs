//! One flash core for everything, or one of reads and one of all else.

use crate::support::{Profile, at_depth, page};
use drivebay_drive::{Device, Io, Op, Spec};
use drivebay_units::{Nanos, Rng};

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
        let profile = small().with("controller.admission.interval_us", 10.0);
        let mut device = profile.with("controller.flash_cores", cores).device();
        let mut rng = Rng::new(3);
        at_depth(&mut device, 16, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
        let random = std::iter::repeat_with(|| page(Op::Write, rng.below(PAGES)));
        let end = at_depth(&mut device, 16, random.take(60_000));
        (end, device.counters().copied_pages)
    };
    let (one, two) = (time(1), time(2));
    assert!(one.1 > 60_000, "{} copies", one.1);
    assert_eq!(one, two);
}

const PAGES: u64 = 32 * 2048;

/// Four dies, on which garbage collection is soon at work.
fn small() -> Profile {
    Profile::sm951().cool().four_dies(PAGES).set("gc.threshold_mb", 40).set("gc.target_mb", 20)
}

/// Serves what is due by `until`; each time the request that was announced.
fn serve_until(device: &mut Device, until: Nanos) -> usize {
    let mut count = 0;
    while device.next_arrival_by(until) <= until {
        let next = device.next_command().expect("one is due");
        assert_eq!(device.serve().expect("served").tag, next.tag);
        count += 1;
    }
    count
}

/// Reads, writes, trims and flushes at random: what is announced is served, and at any moment the drive can be saved and
/// goes on from there.
#[test]
fn what_is_announced_is_served_next() {
    let limited = small().with("controller.read_path_mb_per_s", 400.0);
    for (seed, profile) in
        [small(), limited.with("controller.admission.interval_us", 20.0)].iter().enumerate()
    {
        let profile = profile.clone().with("controller.flash_cores", 2);
        let mut device = profile.device();
        let mut rng = Rng::new(seed as u64);
        let end = at_depth(&mut device, 16, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
        device.idle_until(end);
        let (mut now, mut served) = (device.now(), 0);
        let count = 60_000;
        for tag in 0..count {
            now = now.after(Nanos(rng.below(60_000)));
            served += serve_until(&mut device, now);
            let lba = rng.below(PAGES - 16) * 8;
            let io = |op, sectors| Io { op, lba, sectors };
            let io = match rng.below(100) {
                0 => Io { op: Op::Flush, lba: 0, sectors: 0 },
                1 => io(Op::Trim, 64),
                2..50 => io(Op::Write, 8),
                _ => io(Op::Read, 8),
            };
            device.accept(now, io, tag).expect("accepted");
            if rng.below(600) == 0 {
                let mut bytes = Vec::new();
                device.save(&mut bytes).expect("saved");
                device = Device::restore(profile.spec(), None, &mut &bytes[..]).expect("restored");
            }
        }
        served += serve_until(&mut device, Nanos(u64::MAX - 1));
        assert_eq!(served, count as usize);
        assert!(device.counters().copied_pages > 10_000, "{}", device.counters().copied_pages);
    }
}

/// Superblocks that many reads have worn are moved while only reads come, none of it before it was found out.
#[test]
fn refreshing_begins_when_a_read_finds_that_it_must() {
    let profile =
        small().wearing().with("reliability.refresh_reads", 5.0).with("controller.flash_cores", 2);
    let mut device = profile.device();
    let mut rng = Rng::new(5);
    let end = at_depth(&mut device, 16, (0..PAGES).map(|lpn| page(Op::Write, lpn)));
    let rested = end.after(Nanos::secs(10));
    device.idle_until(rested);
    let before = device.counters();
    let reads = std::iter::repeat_with(|| page(Op::Read, rng.below(PAGES / 8)));
    let end = at_depth(&mut device, 16, reads.take(100_000));
    let after = device.counters();
    assert!(after.copied_pages > before.copied_pages, "something was moved");
    let busy = after.core_busy_ns - before.core_busy_ns;
    assert!(busy <= end.since(rested).0, "{busy} ns of work in {:?}", end.since(rested));
}
