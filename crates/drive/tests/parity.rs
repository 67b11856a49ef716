//! Parity across dies compared with values that can be computed, and a failing die: its costs, and
//! the remaining data.

use crate::support::{Profile, at_depth, closed_loop, one_by_one, page};
use drivebay_drive::{Device, Op};
use drivebay_units::{Nanos, Rng};

const USER: u64 = 40_960;
const DIES: u64 = 16;
const STRIPE: u64 = 8;
/// 4 KiB in MB.
const PAGE_MB: f64 = 4096e-6;

fn plain() -> Profile {
    Profile::sm951()
        .cool()
        .set("nand.channels", 4)
        .set("nand.dies_per_channel", 4)
        .set("nand.planes", 2)
        .set("nand.page_kib", 16)
        .set("nand.blocks_per_plane", 64)
        .set("nand.pages_per_block", 8)
        .set("nand.bad_superblocks", 0)
        .set("drive.capacity_sectors", USER as i64 * 8)
        .set("write_buffer.size_kib", 2048)
}

/// Stripes across `dies` dies, and a rebuild at `rate` MB/s.
fn striped(dies: u64, rate: f64) -> Profile {
    plain().with("nand.parity.dies", dies as i64).with("nand.parity.rebuild_mb_per_s", rate)
}

fn filled(profile: &Profile) -> Device {
    let mut device = profile.device();
    at_depth(&mut device, 8, (0..USER).map(|lpn| page(Op::Write, lpn)));
    one_by_one(&mut device, [page(Op::Flush, 0)]);
    device.idle_until(device.now().after(Nanos::secs(10)));
    device
}

fn random(op: Op, count: u64, seed: u64) -> impl Iterator<Item = drivebay_drive::Io> {
    let mut rng = Rng::new(seed);
    (0..count).map(move |_| page(op, rng.below(USER)))
}

/// Flash pages read per page when all pages of the drive are read one by one, and number of lost
/// pages.
fn read_all(device: &mut Device) -> (f64, u64) {
    let (before, mut lost) = (device.counters().page_reads, 0);
    let reads = (0..USER).map(|lpn| page(Op::Read, lpn));
    closed_loop(device, 1, reads, |served| lost += u64::from(served.media_error));
    ((device.counters().page_reads - before) as f64 / USER as f64, lost)
}

#[track_caller]
fn near(found: f64, expected: f64, percent: f64) {
    let error = 100.0 * (found / expected - 1.0);
    assert!(error.abs() <= percent, "{found} for {expected}: {error:+.2} %");
}

/// One page in a stripe of n dies is parity: n / (n - 1) pages are programmed per page of the host,
/// for any page order.
#[test]
fn parity_is_programmed_beside_data() {
    for order in ["dies-first", "word-lines-first"] {
        for stripe in [4, 5, STRIPE, DIES] {
            let profile = striped(stripe, 100.0).with("nand.page_order", order);
            let device = filled(&profile.set("nand.program_us", vec![400.0, 900.0]));
            let Counts { host, programmed } = Counts::of(&device);
            near(programmed / host, stripe as f64 / (stripe - 1) as f64, 2.0);
            device.ftl().check_invariants();
        }
    }
    let Counts { host, programmed } = Counts::of(&filled(&plain()));
    assert_eq!(host, programmed);
}

struct Counts {
    host: f64,
    programmed: f64,
}

impl Counts {
    fn of(device: &Device) -> Counts {
        let counters = device.counters();
        Counts { host: counters.host_pages as f64, programmed: counters.placed_pages as f64 }
    }
}

/// Parity reduces the spare flash of garbage collection: as on a drive with fewer superblocks by
/// that share, each programmed page takes n / (n - 1).
#[test]
fn garbage_collection_has_less_spare() {
    let amplification = |profile: &Profile| {
        let mut device = filled(profile);
        at_depth(&mut device, 8, random(Op::Write, 4 * USER, 1));
        let before = Counts::of(&device);
        at_depth(&mut device, 8, random(Op::Write, 2 * USER, 2));
        let after = Counts::of(&device);
        device.ftl().check_invariants();
        (after.programmed - before.programmed) / (after.host - before.host)
    };
    let found = amplification(&striped(STRIPE, 100.0));
    // 64 superblocks of 1,024 pages, one eighth of them parity.
    let same_spare = amplification(&plain().set("nand.blocks_per_plane", 56));
    near(found, same_spare * STRIPE as f64 / (STRIPE - 1) as f64, 5.0);
}

/// One read in as many as there are dies reads a page of each other die of its stripe.
#[test]
fn a_lost_page_is_read_from_the_others() {
    let mut device = filled(&striped(STRIPE, 0.1));
    assert_eq!(read_all(&mut device), (1.0, 0));
    assert!(device.fail_die(5) && !device.fail_die(5) && !device.fail_die(DIES as u32));
    let (reads, lost) = read_all(&mut device);
    // A stripe across the end of a superblock is shorter.
    near(reads, 1.0 + (STRIPE - 2) as f64 / DIES as f64, 3.0);
    assert_eq!((lost, device.counters().reliability.media_errors), (0, 0));
    // On an idle drive, such a read waits for the slowest of them.
    let mut times = Vec::new();
    let reads = (0..2000).map(|lpn| page(Op::Read, lpn));
    closed_loop(&mut device, 1, reads, |served| times.push(served.done.since(served.submitted)));
    times.sort_unstable();
    let (usual, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    let read = device.spec().nand.read;
    assert!(slowest < usual.after(read), "at once, not in turn: {slowest:?} for {usual:?}");
}

/// Dies share the load: with many reads under way, the rate falls by the additional reads.
#[test]
fn the_rate_of_a_degraded_drive_falls_as_reads_grow() {
    let rate = |device: &mut Device| {
        let begin = device.now();
        let end = at_depth(device, 128, random(Op::Read, 40_000, 3));
        device.idle_until(end);
        40_000.0 / end.since(begin).as_secs_f64()
    };
    // Dies are the bottleneck, because their reads are long.
    let slow = striped(DIES, 0.1).set("nand.read_us", 900.0).set("nand.suspend_us", 0.0);
    let mut device = filled(&slow);
    let whole = rate(&mut device);
    device.fail_die(3);
    // 1 / 16 of the reads take 15 page reads instead of one, on 15 dies instead of 16: 15 + 15 page
    // reads instead of 16.
    let of_a_die = (DIES - 1) as f64 / DIES as f64 / (DIES - 1) as f64 * 2.0 * DIES as f64;
    near(rate(&mut device), whole / of_a_die, 6.0);
}

/// A rebuild takes the time of the die's data at its rate. Afterwards all data reads as before, and
/// the health log reports the failure.
#[test]
fn what_lay_on_a_die_is_rebuilt_at_the_rate() {
    let mut device = filled(&striped(STRIPE, 10.0));
    assert_eq!(device.health().available_spare_percent, 100);
    let programmed = Counts::of(&device).programmed;
    device.fail_die(9);
    let begin = device.now();
    while device.failed_dies().1 {
        device.idle_until(device.now().after(Nanos::millis(1)));
    }
    let seconds = device.now().since(begin).as_secs_f64();
    // One sixteenth of the data.
    let data = USER as f64 / DIES as f64;
    near(seconds, data * PAGE_MB / 10.0, 3.0);
    // Pages of the die, and their parity.
    let copied = Counts::of(&device).programmed - programmed;
    near(copied, data * STRIPE as f64 / (STRIPE - 1) as f64, 8.0);
    assert_eq!(device.failed_dies(), (vec![9], false));
    // The newest copies are still in the buffer.
    let (reads, lost) = read_all(&mut device);
    assert!(reads <= 1.0 && lost == 0, "{reads} reads, {lost} lost");
    assert!(device.health().available_spare_percent < 100);
    device.ftl().check_invariants();
    // No data is on the failed die any more, and none is placed there.
    at_depth(&mut device, 8, random(Op::Write, 2 * USER, 4));
    let geometry = device.spec().geometry;
    let die_of = |lpn: u64| {
        let ppa = device.ftl().look_up(drivebay_units::Lpn(lpn as u32)).expect("written");
        geometry.die_of(ppa.0 >> geometry.page_shift)
    };
    assert!((0..USER).all(|lpn| die_of(lpn) != 9));
    device.ftl().check_invariants();
    // Therefore a second die may fail.
    device.fail_die(8);
    assert_eq!(read_all(&mut device).1, 0);
}

/// Under load the rebuild keeps its rate, and commands wait for it.
#[test]
fn a_rebuild_goes_on_beside_a_load() {
    let latency = |device: &mut Device, seed| {
        let (mut sum, count) = (0, 20_000);
        closed_loop(device, 4, random(Op::Read, count, seed), |served| {
            sum += served.done.since(served.submitted).0;
        });
        sum / count
    };
    let mut device = filled(&striped(STRIPE, 20.0));
    let alone = latency(&mut device, 5);
    device.fail_die(2);
    let (begin, mut beside) = (device.now(), Vec::new());
    while device.failed_dies().1 {
        beside.push(latency(&mut device, 6));
    }
    let seconds = device.now().since(begin).as_secs_f64();
    let expected = USER as f64 / DIES as f64 * PAGE_MB / 20.0;
    assert!(beside[0] > alone, "{} us for {alone}", beside[0]);
    // The test checks for the end only after this many reads.
    let looks = seconds / beside.len() as f64;
    assert!(seconds > 0.97 * expected && seconds < 1.05 * expected + looks, "{seconds} {expected}");
}

/// Without parity the die's data is lost until it is rewritten, wherever garbage collection moves
/// it.
#[test]
fn without_parity_the_data_is_lost() {
    let mut device = filled(&plain());
    device.fail_die(0);
    let lost = read_all(&mut device).1;
    near(lost as f64, USER as f64 / DIES as f64, 1.0);
    assert_eq!(device.counters().reliability.media_errors, lost);
    at_depth(&mut device, 8, (0..USER / 2).map(|lpn| page(Op::Write, 2 * lpn)));
    at_depth(
        &mut device,
        8,
        random(Op::Write, 2 * USER, 7).map(|io| page(Op::Write, io.lba / 16 * 2)),
    );
    near(read_all(&mut device).1 as f64, lost as f64 / 2.0, 5.0);
    at_depth(&mut device, 8, (0..USER).map(|lpn| page(Op::Write, lpn)));
    assert_eq!(read_all(&mut device).1, 0);
    device.ftl().check_invariants();
}

/// Two failed dies of a stripe at once lose data; two of different stripes do not. The share is
/// that of stripes with both dies.
#[test]
fn two_dies_of_a_stripe_lose_what_both_hold() {
    let mut device = filled(&striped(STRIPE, 0.1));
    device.fail_die(4);
    device.fail_die(5);
    // Neighbours are in one stripe, except where a stripe ends between them.
    let neighbours = read_all(&mut device).1;
    near(neighbours as f64, 2.0 * USER as f64 / DIES as f64 * 7.0 / 8.0, 8.0);
    let mut device = filled(&striped(STRIPE, 0.1));
    device.fail_die(4);
    device.fail_die(12);
    assert_eq!(read_all(&mut device).1, 0, "half of the dies apart");
}

/// Power cuts in a rebuild lose no existing data, and the rebuild continues after them.
#[test]
fn a_rebuild_survives_power_cuts() {
    // The amount copied between two cuts must be more than a row over all dies, which a cut may
    // lose.
    let mut device = filled(&striped(STRIPE, 1.0));
    device.fail_die(11);
    let mut rng = Rng::new(8);
    let mut cuts = 0;
    loop {
        at_depth(&mut device, 4, random(Op::Write, 50, cuts));
        device.idle_until(device.now().after(Nanos::micros(rng.below(1_500_000))));
        if !device.failed_dies().1 {
            break;
        }
        device.power_cut(device.now());
        cuts += 1;
        device.ftl().check_invariants();
    }
    assert!(cuts > 10, "{cuts}");
    let (reads, lost) = read_all(&mut device);
    assert!(reads <= 1.0 && lost == 0, "{reads} reads, {lost} lost");
}

/// A drive that is saved and restored at any time during a rebuild continues as the original.
#[test]
fn a_rebuild_is_part_of_the_state() {
    let mut device = filled(&striped(STRIPE, 10.0));
    device.fail_die(1);
    device.idle_until(device.now().after(Nanos::millis(200)));
    let mut bytes = Vec::new();
    device.save(&mut bytes).expect("memory");
    let spec = device.spec().clone();
    let mut restored = Device::restore(spec, None, &mut &bytes[..]).expect("its own state");
    let mut copy = device.duplicate().expect("memory");
    let after = |device: &mut Device| {
        at_depth(device, 4, random(Op::Write, 5000, 9));
        device.idle_until(device.now().after(Nanos::secs(3)));
        (read_all(device), device.counters(), device.failed_dies(), device.now())
    };
    let expected = after(&mut device);
    assert_eq!(after(&mut restored), expected);
    assert_eq!(after(&mut copy), expected);
}

/// With less space than all data needs, the drive can still be read but not written.
#[test]
fn too_little_is_left_to_write_to() {
    let tight = striped(STRIPE, 10.0).set("nand.blocks_per_plane", 51);
    let mut device = filled(&tight);
    device.fail_die(0);
    assert!(device.submit(device.now(), page(Op::Write, 0)).is_err());
    assert_eq!(device.health().available_spare_percent, 0);
    assert_eq!(read_all(&mut device).1, 0);
}

/// Impossible stripes are refused with the name of the key.
#[test]
fn a_profile_with_impossible_stripes_is_refused() {
    let refused = |profile: Profile| profile.checked().expect_err("refused").to_string();
    assert!(refused(striped(DIES + 1, 10.0)).contains("nand.parity.dies"));
    let cached = striped(4, 10.0).slc_cache([8.0, 0.0, 0.0], "direct", 0.0);
    assert!(refused(cached).contains("with an SLC cache"));
    assert!(refused(striped(4, 10.0).placed(2, "initial")).contains("nand.parity.dies"));
}
