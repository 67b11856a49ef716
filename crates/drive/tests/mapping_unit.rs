//! Mapping units above 4 KiB: whole units cost as much as 4 KiB pages in the same places; parts are
//! read-modify-write.

use crate::support::{Profile, at_depth, closed_loop, one_by_one};
use drivebay_drive::{Device, Io, Op, Spec, Stage};
use drivebay_units::{Nanos, Rng};

const UNIT_SECTORS: u64 = 32;
/// The last unit is half a unit.
const SECTORS: u64 = 6000 * UNIT_SECTORS + 16;

/// Eight dies of two planes with flash pages of 16 KiB, and firmware that works by commands and
/// extents, not by pages.
fn profile(unit_kib: i64) -> Profile {
    Profile::sm951()
        .cool()
        .set("nand.channels", 4)
        .set("nand.dies_per_channel", 2)
        .set("nand.planes", 2)
        .set("nand.page_kib", 16)
        .set("nand.blocks_per_plane", 32)
        .set("nand.pages_per_block", 16)
        .set("nand.bad_superblocks", 0)
        .set("drive.capacity_sectors", SECTORS as i64)
        .set("write_buffer.size_kib", 2048)
        // Whole units.
        .set("gc.threshold_mb", 640.0 * 0.016384)
        .set("gc.target_mb", 640.0 * 0.016384)
        .set("controller.read_page_us", 0.0)
        .set("controller.write_page_us", 0.0)
        .set("gc.copy_page_us", 0.0)
        // Limits by pages of a command would count other pages. The flash is so fast that they do
        // not matter.
        .set("gc.duty_limit_us", 10_000.0)
        .set("nand.program_us", vec![100.0, 300.0])
        .set("nand.erase_us", 300.0)
        // A gain that changes page by page would also differ.
        .set("gc.gain_min", 1.0)
        .set("gc.gain_max", 1.0)
        .with("controller.mapping_unit_kib", unit_kib)
}

fn unit(op: Op, number: u64) -> Io {
    Io::new(op, number * UNIT_SECTORS, UNIT_SECTORS as u32)
}

/// Fills all whole units, and the part of the last.
fn filled(profile: &Profile) -> Device {
    let mut device = profile.device();
    one_by_one(&mut device, (0..SECTORS / UNIT_SECTORS).map(|number| unit(Op::Write, number)));
    let rest = Io::new(Op::Write, SECTORS - 16, 16);
    one_by_one(&mut device, [rest]);
    device
}

#[test]
fn whole_units_are_served_as_their_4_kib_pages_would_be() {
    let served = |unit_kib| {
        let whole = (SECTORS / UNIT_SECTORS * UNIT_SECTORS) as i64;
        let mut device = profile(unit_kib).set("drive.capacity_sectors", whole).device();
        one_by_one(&mut device, (0..SECTORS / UNIT_SECTORS).map(|number| unit(Op::Write, number)));
        let mut rng = Rng::new(7);
        let draw = || {
            let op = if rng.below(3) == 0 { Op::Read } else { Op::Write };
            unit(op, rng.below(SECTORS / UNIT_SECTORS))
        };
        let mut latencies = Vec::new();
        closed_loop(&mut device, 8, std::iter::repeat_with(draw).take(20_000), |served| {
            latencies.push((served.tag, served.done.since(served.submitted)));
        });
        let counters = device.counters();
        assert!(counters.copied_pages > 20_000, "garbage is collected: {counters:?}");
        device.ftl().check_invariants();
        (latencies, counters)
    };
    let (by_page, by_unit) = (served(4), served(16));
    let first = by_page.0.iter().zip(&by_unit.0).position(|(a, b)| a != b);
    assert_eq!(first, None, "the same latencies");
    assert_eq!(by_page.1, by_unit.1);
}

#[test]
fn a_write_of_a_part_reads_the_unit_and_programs_all_of_it() {
    let mut device = filled(&profile(16));
    let rest = device.now().after(Nanos::millis(100));
    device.idle_until(rest); // reads do not come from the buffer
    let before = device.counters();
    let mut rng = Rng::new(1);
    let writes = 200;
    let parts = (0..writes).map(|i| {
        let within = rng.below(4) * 8;
        Io::new(Op::Write, i * 29 * UNIT_SECTORS + within, 8)
    });
    one_by_one(&mut device, parts);
    let after = device.counters();
    assert_eq!(after.host_pages - before.host_pages, writes);
    let own = after.placed_pages - before.placed_pages - (after.copied_pages - before.copied_pages);
    assert_eq!(own, 4 * writes);
    assert!(after.page_reads - before.page_reads >= writes);
    // A read of 16 KiB that crosses two units, and the drive's last, smaller unit.
    let (reads, placed) = (after.page_reads, after.placed_pages);
    let across = Io::new(Op::Write, 5555 * UNIT_SECTORS + 8, 32);
    let last = Io::new(Op::Write, SECTORS - 16, 16);
    one_by_one(&mut device, [across, last]);
    let end = device.counters();
    let copied = end.copied_pages - after.copied_pages;
    assert_eq!(end.placed_pages - placed - copied, 12);
    assert!(end.page_reads - reads >= 2 && end.page_reads - reads <= 2 + copied);
    assert_eq!(end.host_pages - after.host_pages, 4 + 2);
}

#[test]
fn a_read_of_a_part_moves_that_part_over_the_channel() {
    let mut device = filled(&profile(16));
    device.idle_until(device.now().after(Nanos::millis(100)));
    let before = device.counters();
    let of = |sectors, within| Io::new(Op::Read, 100 * UNIT_SECTORS + within, sectors);
    one_by_one(&mut device, [of(8, 0), of(8, 24), of(1, 9), of(16, 4), of(32, 0), of(64, 8)]);
    let after = device.counters();
    assert_eq!(after.page_reads - before.page_reads, 5 + 3);
    let pieces = 1 + 1 + 1 + 3 + 4 + (3 + 4 + 1);
    assert_eq!(after.read_bytes - before.read_bytes, pieces * 4096);
}

#[test]
fn trim_unmaps_whole_units_and_the_drives_end() {
    let mut device = filled(&profile(16));
    let trim = |lba, sectors| Io::new(Op::Trim, lba, sectors);
    one_by_one(&mut device, [trim(8, 24), trim(UNIT_SECTORS, 40), trim(SECTORS - 16, 16)]);
    let mapped = |unit: u64| device.is_mapped(unit * UNIT_SECTORS);
    assert!(mapped(0) && !mapped(1) && mapped(2), "only unit 1 was trimmed whole");
    assert!(!device.is_mapped(SECTORS - 1));
    assert_eq!(device.mapped_sectors(), (6000 - 1) * UNIT_SECTORS);
    device.ftl().check_invariants();
}

/// Random writes of a quarter of a unit cost four times as much as those of whole units, however
/// many pages the policy leaves valid: the map cannot distinguish them.
#[test]
fn small_random_writes_multiply_write_amplification() {
    let steady = |sectors: u64| {
        let mut device = filled(&profile(16));
        let mut rng = Rng::new(5);
        let draw = || {
            let lba = rng.below(SECTORS / UNIT_SECTORS) * UNIT_SECTORS;
            Io::new(Op::Write, lba, sectors as u32)
        };
        let mut draws = std::iter::repeat_with(draw);
        at_depth(&mut device, 4, draws.by_ref().take(20_000));
        let before = device.counters();
        at_depth(&mut device, 4, draws.take(20_000));
        let after = device.counters();
        (after.placed_pages - before.placed_pages) as f64
            / (after.host_pages - before.host_pages) as f64
    };
    let (parts, whole) = (steady(8), steady(UNIT_SECTORS));
    assert!(whole > 1.5, "{whole}");
    assert!((parts / whole / 4.0 - 1.0).abs() < 0.02, "{parts} against {whole}");
}

#[test]
fn a_cut_loses_whole_units_and_a_state_comes_back() {
    let mut device = filled(&profile(16));
    one_by_one(&mut device, (0..100).map(|i| Io::new(Op::Write, i * 997, 8)));
    let mut bytes = Vec::new();
    device.save(&mut bytes).expect("memory");
    let mut back =
        Device::restore(profile(16).spec(), None, &mut bytes.as_slice()).expect("a state");
    assert_eq!(back.counters(), device.counters());
    let at = device.now();
    let lost = device.power_cut(at).lost_pages;
    assert!(lost > 0 && lost.is_multiple_of(4), "{lost}");
    assert_eq!(back.power_cut(at).lost_pages, lost);
    device.ftl().check_invariants();
}

/// A unit of 32 KiB lies on both planes, which read together: one array time, twice the transfer.
#[test]
fn a_unit_larger_than_a_flash_page_lies_on_planes_that_work_together() {
    let mut device = profile(32).set("nand.channel_mb_per_s", 400.0).device();
    let wide = |op, number: u64| Io::new(op, number * 64, 64);
    one_by_one(&mut device, (0..3000).map(|number| wide(Op::Write, number)));
    device.idle_until(device.now().after(Nanos::millis(100)));
    let before = device.counters();
    let served = device.submit(device.now(), wide(Op::Read, 40)).expect("served");
    assert_eq!(device.counters().page_reads - before.page_reads, 1);
    assert_eq!(served.stages.of(Stage::Nand), device.spec().nand.read);
    assert_eq!(served.stages.of(Stage::Channel), Nanos(32_768 * 1000 / 400));
    device.idle_until(served.done.after(Nanos::millis(10)));
    let before = device.counters();
    one_by_one(&mut device, [Io::new(Op::Write, 64, 8)]);
    let after = device.counters();
    assert_eq!(after.placed_pages - before.placed_pages, 8);
    device.ftl().check_invariants();
}

#[test]
fn units_that_cannot_be_are_refused() {
    for unit_kib in [2, 12, 64, 128] {
        let text = profile(unit_kib).0.to_string();
        let error = Spec::from_toml(&text).map(|_| ()).expect_err("no unit");
        assert!(error.to_string().starts_with("controller.mapping_unit_kib"), "{error}");
    }
}
