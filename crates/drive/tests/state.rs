//! The state of a drive as a value: a copy, and a drive read back, continue exactly as the
//! original.
//!
//! At a random moment of a random load (requests under way, erases waiting, garbage collection half
//! done) the drive is copied, saved and restored; then all continue with the same requests. Wrong
//! states are refused or harmless.

use crate::support::Profile;
use drivebay_drive::{Completion, Device, DeviceError, Health, Io, Op, StateError};
use drivebay_units::{Nanos, Rng};

const USER: u64 = 1024;

fn base() -> Profile {
    Profile::sm951()
        .set("nand.channels", 2)
        .set("nand.dies_per_channel", 2)
        .set("nand.planes", 2)
        .set("nand.blocks_per_plane", 24)
        .set("nand.pages_per_block", 4)
        .set("nand.page_kib", 16)
        .set("nand.bad_superblocks", 0)
        .set("drive.capacity_sectors", USER as i64 * 8)
        .set("write_buffer.size_kib", 512)
        .set("gc.reserve_superblocks", 8)
        .set("gc.threshold_mb", 2.0)
        .set("gc.target_mb", 2.5)
}

/// Drives with every optional part of a profile.
fn profiles() -> Vec<Profile> {
    let wears = base()
        .wearing()
        .with("reliability.block_life_cycles", 60.0)
        .with("reliability.spare_blocks", 40)
        .with("reliability.refresh_reads", 3.0)
        .with("reliability.page_spread", 0.0)
        .with("reliability.correctable_bits", 20);
    vec![
        base(),
        wears.map_cache(8, 0, 2.0),
        base()
            .map_cache(4, 1, 2.0)
            .set("gc.victim_policy", "d-choices")
            .with("gc.idle.after_ms", 1.0)
            .with("gc.idle.free_mb", 3.0),
        base()
            .set("gc.frontiers", "shared")
            .with("wear_leveling.dynamic", true)
            .with("controller.admission.interval_us", 50.0)
            .with("controller.admission.together", 2)
            .with("controller.admission.pace", "balanced")
            .with("gc.runs_behind", "word-lines")
            .with("gc.background_pages_per_s", 5000.0)
            .with("nand.resumed_program", "restarts")
            .with("nand.suspend_mean_us", 15.0)
            .with("nand.erase_suspend_us", 200.0),
        base()
            .slc_cache([0.6, 1.0, 0.6], "fold", 0.5)
            .set("slc_cache.fold_after_ms", 1.0)
            .wearing(),
        base()
            .slc_cache([0.6, 1.0, 0.6], "direct", 0.5)
            .with("slc_cache.fold_from", "full")
            .set("slc_cache.fold_after_ms", 1.0),
        base()
            .with("gc.host_frontiers", "by-lifespan")
            .with("nand.page_order", "word-lines-first")
            .with("nand.read_planes", "independent")
            .set("nand.blocks_per_plane", 26)
            .with("controller.half_duplex.turnaround_us", 100.0)
            .with("controller.half_duplex.batch_commands", 3)
            .with("controller.half_duplex.batch_wait_us", 300.0),
        base()
            .with("write_buffer.power_loss_protection", true)
            .with("write_buffer.release", "word-lines"),
        base()
            .set("nand.blocks_per_plane", 40)
            .with("nand.parity.dies", 4)
            .with("nand.parity.rebuild_mb_per_s", 5.0),
    ]
}

/// Result of a step as seen by a host.
#[derive(Debug, PartialEq)]
enum Seen {
    Done(u32, Nanos, [u64; 10], bool),
    Refused(DeviceError),
    Lost(u64),
    Rested(Health),
}

fn see(result: Result<(u32, Completion), DeviceError>) -> Seen {
    match result {
        Ok((tag, c)) => Seen::Done(tag, c.done, c.stages.0, c.media_error),
        Err(error) => Seen::Refused(error),
    }
}

fn serve_until(device: &mut Device, until: Nanos, seen: &mut Vec<Seen>) {
    while device.next_arrival() <= until && device.next_arrival() < Nanos(u64::MAX) {
        let whole = |served: Option<Completion>| served.expect("without zones none has steps");
        seen.push(see(device.serve().map(whole).map(|served| (served.tag, served))));
    }
}

/// One step of a host that uses all functions of the drive.
fn step(device: &mut Device, rng: &mut Rng, tag: u32, seen: &mut Vec<Seen>) {
    let now = device.now().after(Nanos(rng.below(30_000)));
    let lba = rng.below(USER * 8);
    let dice = rng.below(1000);
    let apart = dice >= 989;
    serve_until(device, if apart { Nanos(u64::MAX) } else { now }, seen);
    let sectors = (1 + rng.below(100)).min(USER * 8 - lba) as u32;
    let has_parity = device.spec().geometry.parity_dies.is_some();
    let mut ask = |op| {
        let io = Io::new(op, lba, sectors);
        if let Err(error) = device.accept(now, io, tag, Nanos::ZERO) {
            seen.push(Seen::Refused(error));
        }
    };
    match dice {
        0..=599 => ask(Op::Write),
        600..=899 => ask(Op::Read),
        900..=929 => ask(Op::WriteFua),
        930..=949 => ask(Op::Flush),
        950..=979 => ask(Op::Trim),
        980..=988 => ask(Op::WriteZeroes),
        989 if !has_parity => ask(Op::WriteZeroes),
        989..=995 => {
            if dice == 989 && device.next_arrival() == Nanos(u64::MAX) {
                device.fail_die(rng.below(4) as u32 & !1);
            }
            device.idle_until(now.after(Nanos::millis(rng.below(3000))));
            seen.push(Seen::Rested(device.health()));
        }
        996..=998 if !device.spec().streams.share() => {
            seen.push(Seen::Lost(device.power_cut(now).lost_pages))
        }
        999 => device.secure_erase(),
        _ => {}
    }
}

fn steps(device: &mut Device, rng: &mut Rng, count: u32) -> Vec<Seen> {
    let mut seen = Vec::new();
    (0..count).for_each(|tag| step(device, rng, tag, &mut seen));
    seen
}

fn serve_at_once(device: &mut Device, io: Io) {
    serve_until(device, Nanos(u64::MAX), &mut Vec::new());
    let refused = device.submit(device.now(), io).err();
    let can_happen = matches!(refused, None | Some(DeviceError::ReadOnly { .. }));
    assert!(can_happen, "{refused:?}");
}

fn saved(device: &Device) -> Vec<u8> {
    let mut bytes = Vec::new();
    device.save(&mut bytes).expect("memory is a stream");
    bytes
}

#[test]
fn a_copy_and_a_restored_drive_go_on_as_the_original() {
    for (which, profile) in profiles().into_iter().enumerate() {
        let mut rng = Rng::new(which as u64).fork("state");
        let spec = profile.spec();
        let mut used = profile.device();
        for round in 0..12 {
            let mut device = Device::new(spec.clone(), round).expect("memory");
            let count = rng.below(4000) as u32;
            steps(&mut device, &mut rng, count);
            device.ftl().check_invariants();
            let bytes = saved(&device);
            // In memory that another run has used, and in fresh memory.
            let copy = device.duplicate_into(used).expect("memory");
            let others = [
                device.duplicate().expect("memory"),
                Device::restore(spec.clone(), None, &mut &bytes[..]).expect("what was saved"),
                Device::restore(spec.clone(), Some(copy), &mut &bytes[..]).expect("saved"),
            ];
            let mut twin = rng.clone();
            let expected = steps(&mut device, &mut twin, 1500);
            for mut other in others {
                assert_eq!(saved(&other), bytes, "drive {which}, round {round}");
                let mut twin = rng.clone();
                assert_eq!(steps(&mut other, &mut twin, 1500), expected, "drive {which}");
                assert_eq!(other.counters(), device.counters());
                assert_eq!(other.health(), device.health());
                assert_eq!(saved(&other), saved(&device));
            }
            used = device;
        }
        assert!(used.counters().erases > 0 && used.counters().copied_pages > 0, "drive {which}");
    }
}

#[test]
fn a_state_cut_short_too_long_or_of_another_drive_is_refused() {
    let mut device = base().device();
    steps(&mut device, &mut Rng::new(5), 2000);
    let bytes = saved(&device);
    let spec = base().spec();
    let restore = |bytes: &[u8]| Device::restore(spec.clone(), None, &mut &bytes[..]).err();
    for len in (0..bytes.len()).step_by(97) {
        assert!(matches!(restore(&bytes[..len]), Some(StateError::Stream(_))), "{len} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(restore(&longer), Some(StateError::Wrong(_))));
    let other = base().set("nand.pages_per_block", 8).spec();
    assert!(Device::restore(other, None, &mut &bytes[..]).is_err());
    assert!(restore(&vec![0xFF; bytes.len()]).is_some());
}

/// Bytes changed at random, without a checksum: an error, or a drive that serves.
#[test]
fn a_wrong_state_is_refused_or_serves() {
    let (mut refused, mut serves) = (0, 0);
    for (which, profile) in profiles().into_iter().enumerate() {
        let mut device = profile.device();
        let mut rng = Rng::new(which as u64).fork("wrong states");
        steps(&mut device, &mut rng, 3000);
        let (bytes, spec) = (saved(&device), profile.spec());
        for _ in 0..250 {
            let mut wrong = bytes.clone();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(wrong.len() as u64) as usize;
                wrong[at] ^= 1 << rng.below(8);
            }
            match Device::restore(spec.clone(), None, &mut &wrong[..]) {
                Err(error) => {
                    assert!(matches!(error, StateError::Wrong(_) | StateError::Stream(_)));
                    refused += 1;
                }
                Ok(mut device) => {
                    // Data for power cuts is not checked: errors in it are harmless in releases.
                    let ios = (0..50).map(|_| {
                        let lba = rng.below(USER * 8 - 64);
                        let op = [Op::Write, Op::Read, Op::WriteFua, Op::Trim][lba as usize % 4];
                        Io::new(op, lba, 1 + rng.below(64) as u32)
                    });
                    ios.for_each(|io| serve_at_once(&mut device, io));
                    serves += 1;
                }
            }
        }
    }
    assert!(refused > 300 && serves > 100, "{refused} refused, {serves} serve");
}

/// If this fails, the format has changed: raise `STATE_VERSION`, then update the size here.
#[test]
fn the_size_of_a_saved_drive_tells_of_changes() {
    let sizes: Vec<usize> = profiles().iter().map(|p| saved(&p.device()).len()).collect();
    assert_eq!(
        (drivebay_drive::STATE_VERSION, sizes),
        (34, vec![45269, 47459, 45338, 45866, 47431, 45310, 49881, 46901, 54485])
    );
}
