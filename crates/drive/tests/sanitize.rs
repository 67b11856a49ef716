//! Sanitize and Format: their times, their effects on map, wear and queue, and zeros after them.

use crate::support::{Profile, at_depth, page};
use drivebay_drive::{Device, Io, Op, Sanitize};
use drivebay_units::{Lpn, Nanos};

const USER: u64 = 1024;

fn full() -> Device {
    let mut device = Profile::sm951().cool().one_die(24, 64, USER as u32).device();
    at_depth(&mut device, 4, (0..USER).map(|lpn| page(Op::Write, lpn)));
    device
}

fn erases(device: &Device) -> Vec<u32> {
    let all = 0..device.spec().geometry.superblocks;
    all.map(|index| device.ftl().superblock(index).erases).collect()
}

/// Checks that every page is unmapped and reads as zeros without a flash read.
fn assert_zeros(device: &mut Device) {
    device.ftl().check_invariants();
    let reads = device.counters().page_reads;
    for lpn in 0..USER {
        assert_eq!(device.ftl().look_up(Lpn(lpn as u32)), None);
        device.submit(device.now(), page(Op::Read, lpn)).expect("on the drive");
    }
    assert_eq!(device.counters().page_reads, reads);
}

#[test]
fn a_block_erase_takes_an_erase_for_each_superblock_in_use() {
    let mut device = full();
    let at = device.now().after(Nanos::secs(1));
    let used = device.ftl().superblocks_to_erase().count() as u64;
    assert_eq!(used, USER / 64, "the frontier's superblock is full");
    let before = erases(&device);
    let done = device.sanitize(at, Sanitize::Block);
    assert_eq!(done, at.after(device.spec().nand.erase.times(used)));
    assert_eq!(device.now(), done);
    let wear: u32 = erases(&device).iter().zip(&before).map(|(after, before)| after - before).sum();
    assert_eq!(u64::from(wear), used);
    assert_eq!(device.counters().erases, used);
    assert!(device.health().busy >= done.since(at), "an erase is work");
    assert_zeros(&mut device);
    // A second one finds nothing to erase.
    let again = device.now().after(Nanos::secs(1));
    assert_eq!(device.sanitize(again, Sanitize::Block).since_or_zero(again), Nanos::ZERO);
}

#[test]
fn a_crypto_erase_is_quick_and_flash_is_erased_when_it_is_used() {
    let mut device = full();
    let (at, before) = (device.now().after(Nanos::secs(1)), erases(&device));
    let done = device.sanitize(at, Sanitize::Crypto);
    assert!(done.since(at) < Nanos::secs(1));
    assert_eq!(erases(&device), before);
    assert_zeros(&mut device);
    // After the drive was filled twice, every superblock has been erased.
    at_depth(&mut device, 4, (0..2 * USER).map(|i| page(Op::Write, i % USER)));
    let erased = device.counters().erases;
    assert!(erased >= USER / 64, "{erased} superblocks erased");
    assert_eq!(device.ftl().mapped(), USER);
}

/// Data from the write buffer does not come back, whatever happens next.
#[test]
fn a_format_is_an_erase_only_where_it_is_asked_to_be() {
    for (secure, erased) in [(None, 0), (Some(Sanitize::Crypto), 0), (Some(Sanitize::Block), 16)] {
        let mut device = full();
        let at = device.now().after(Nanos::secs(1));
        let done = device.format(at, secure);
        assert!(done > at);
        assert_eq!(device.counters().erases, erased);
        assert_zeros(&mut device);
    }
}

#[test]
fn nothing_comes_back_after_a_power_cut() {
    for how in [Sanitize::Block, Sanitize::Crypto] {
        let mut device = full();
        device.submit(device.now(), page(Op::Write, 7)).expect("room");
        let done = device.sanitize(device.now(), how);
        let write = Io::new(Op::Write, 0, 8);
        let written = device.submit(done, write).expect("room").done;
        device.power_cut(written);
        device.ftl().check_invariants();
        assert_eq!(device.ftl().mapped(), 0, "{how:?}");
    }
}

#[test]
fn an_overwrite_programs_all_flash_in_each_pass() {
    let run = |passes| {
        let mut device = full();
        let at = device.now().after(Nanos::secs(1));
        let (before, counted) = (erases(&device), device.counters());
        let used = device.ftl().superblocks_to_erase().count() as u32;
        let done = device.sanitize(at, Sanitize::Overwrite(passes));
        let g = &device.spec().geometry;
        // The first pass finds erased superblocks; spare ones are also written.
        let superblocks = g.superblocks - g.bad_superblocks;
        let wear: u32 =
            erases(&device).iter().zip(&before).map(|(after, before)| after - before).sum();
        assert_eq!(wear, superblocks * (passes - 1) + used);
        let programmed = device.counters().placed_pages - counted.placed_pages;
        assert_eq!(programmed, u64::from(superblocks * passes * g.superblock_pages));
        assert_zeros(&mut device);
        // Every superblock must be erased again before it is used.
        assert_eq!(device.ftl().superblocks_to_erase().count() as u32, superblocks);
        done.since(at)
    };
    let (one, three) = (run(1), run(3));
    let device = full();
    let (spec, used) = (device.spec(), USER / 64);
    let superblocks = u64::from(spec.geometry.superblocks - spec.geometry.bad_superblocks);
    let erase = spec.nand.erase;
    let program = one.since(erase.times(used)).0 / superblocks;
    assert_eq!(
        three,
        one.after(erase.times(2 * superblocks)).after(Nanos(2 * program * superblocks))
    );
    // tPROG of each page of the die, with its data transfer before it: no channel is shared.
    let rows = u64::from(
        spec.geometry.superblock_pages >> spec.geometry.page_shift >> spec.geometry.plane_shift,
    );
    let mean =
        spec.nand.program.iter().take(spec.nand.page_types as usize).map(|one| one.0).sum::<u64>()
            / u64::from(spec.nand.page_types);
    assert!(program >= mean * rows, "{program} for {rows} rows of {mean} ns");
    assert!(program < 2 * mean * rows, "{program} for {rows} rows of {mean} ns");
}

#[test]
fn what_is_kept_stays_mapped_and_the_drive_goes_on() {
    for how in [Sanitize::Block, Sanitize::Crypto, Sanitize::Overwrite(2)] {
        let mut device = full();
        let done = device.sanitize_kept(device.now(), how);
        assert_eq!(device.ftl().mapped(), USER, "{how:?}");
        device.ftl().check_invariants();
        let read = device.submit(done, page(Op::Read, 7)).expect("on the drive");
        assert!(read.done > done);
        at_depth(&mut device, 4, (0..3 * USER).map(|i| page(Op::Write, i * 7 % USER)));
        device.ftl().check_invariants();
    }
}

/// The passes over a whole drive take as long as sequential writes without the link.
#[test]
fn an_overwrite_heats_the_drive_and_is_as_fast_as_its_flash() {
    let mut device = Profile::sm951().device();
    let (at, cold) = (device.now(), device.counters());
    let done = device.sanitize(at, Sanitize::Overwrite(1));
    let counted = device.counters();
    let bytes = (counted.placed_pages - cold.placed_pages) * 4096;
    let rate = bytes as f64 / done.since(at).as_secs_f64() / 1e6;
    assert!((1000.0..2500.0).contains(&rate), "{rate} MB/s");
    assert!(counted.temperature_c > cold.temperature_c + 5.0, "{} C", counted.temperature_c);
    assert!(counted.energy_nj > cold.energy_nj);
}
