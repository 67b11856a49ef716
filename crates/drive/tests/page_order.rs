//! Order of pages across dies, planes and word lines; release of slots of the write buffer; erases
//! of scaled drives.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Events, Io, Op};
use drivebay_units::{Nanos, Rng};

const DIES: usize = 4;
const TYPES: usize = 3;
const SUPERBLOCKS: u64 = 40;
const BLOCK_PAGES: u64 = 96;
const ERASE: Nanos = Nanos::millis(4);

/// Four dies on separate channels, two planes, three page types of 1 ms, with protection.
fn profile() -> Profile {
    Profile::sm951()
        .cool()
        .set("nand.channels", DIES as i64)
        .set("nand.dies_per_channel", 1)
        .set("nand.planes", 2)
        .set("nand.blocks_per_plane", SUPERBLOCKS as i64)
        .set("nand.pages_per_block", BLOCK_PAGES as i64)
        .set("nand.bad_superblocks", 0)
        .set("nand.program_us", vec![1000.0; TYPES])
        .set("nand.erase_us", 4000.0)
        .set("nand.channel_mb_per_s", 1000.0)
        .set("drive.capacity_sectors", 700_000)
        .set("write_buffer.size_kib", 2048)
        .with("write_buffer.power_loss_protection", true)
}

/// Total busy time of a die or channel.
fn busy(events: &Events, column: usize) -> Nanos {
    let intervals = drivebay_drive::Activity::INTERVALS_MAX;
    Nanos(events.flash.busy.of(column, intervals).sum())
}

/// Flash pages that each channel transfers for a read of 96 KiB at the drive's beginning.
fn pages_by_channel(profile: &Profile) -> Vec<u64> {
    let mut device = profile.device();
    let fill = (0..200).map(|i| Io::new(Op::Write, i * 192, 192));
    let end = at_depth(&mut device, 4, fill);
    device.idle_until(end.after(Nanos::millis(100)));
    device.keep_events(0);
    one_by_one(&mut device, [Io::new(Op::Read, 0, 192)]);
    let events = device.take_events().expect("they were kept");
    let flash_page = 16_384; // nanoseconds at 1 GB/s
    (0..DIES).map(|channel| busy(&events, 3 * DIES + channel).0 / flash_page).collect()
}

#[test]
fn consecutive_pages_lie_where_the_order_says() {
    let by = |order: &str| pages_by_channel(&profile().with("nand.page_order", order));
    assert_eq!(
        pages_by_channel(&profile()),
        [2, 2, 1, 1],
        "a page on each die, then the next plane"
    );
    assert_eq!(by("dies-first"), [2, 2, 1, 1]);
    assert_eq!(by("word-lines-first"), [6, 0, 0, 0], "two planes of three page types");
}

/// Sizes of the groups in which writes of a full buffer are acknowledged, in 4 KiB, smallest and
/// largest.
fn groups(profile: &Profile) -> (usize, usize) {
    let mut device = profile.device();
    let depth = 64;
    at_depth(&mut device, depth, (0..1200).map(|lpn| page(Op::Write, lpn)));
    let mut ends = Vec::new();
    crate::support::closed_loop(
        &mut device,
        depth,
        (1200..6000).map(|lpn| page(Op::Write, lpn)),
        |served| ends.push(served.done),
    );
    ends.sort();
    let mut sizes = vec![1];
    for pair in ends[600..4200].windows(2) {
        match pair[1].since(pair[0]) > Nanos(100_000) {
            true => sizes.push(1),
            false => *sizes.last_mut().expect("not empty") += 1,
        }
    }
    let inner = &sizes[1..sizes.len() - 1];
    (*inner.iter().min().expect("some"), *inner.iter().max().expect("some"))
}

/// A word line of two planes frees 24 x 4 KiB; dies of equal times that are filled one after
/// another end one after another.
#[test]
fn places_come_free_by_word_lines() {
    let profile = profile().with("nand.page_order", "word-lines-first");
    let (least, most) = groups(&profile.with("write_buffer.release", "word-lines"));
    assert!(least.is_multiple_of(24) && most.is_multiple_of(24), "{least} to {most}");
}

/// Times that each die erased under random overwrites, and number of erased superblocks.
fn erased(profile: &Profile) -> (Vec<Nanos>, u64) {
    let mut device = profile.device();
    let pages = 700_000 / 8;
    let mut rng = Rng::new(7);
    at_depth(&mut device, 8, (0..pages).map(|lpn| page(Op::Write, lpn)));
    let random = std::iter::repeat_with(|| page(Op::Write, rng.below(pages)));
    let before = device.counters().erases;
    device.keep_events(0);
    at_depth(&mut device, 8, random.take(100_000));
    let erases = device.counters().erases - before;
    let events = device.take_events().expect("they were kept");
    ((0..DIES).map(|die| busy(&events, 2 * DIES + die)).collect(), erases)
}

/// In a scaled drive only one erase in many takes time.
#[test]
fn one_erase_stands_for_as_many() {
    let (busy, erases) = erased(&profile().with("nand.erase_one_in", 7.5));
    assert!(erases > 50, "{erases}");
    for die in &busy {
        let expected = ERASE.times(erases * 2 / 15);
        assert!(die.0.abs_diff(expected.0) <= ERASE.times(2).0, "{die:?} of {expected:?}");
    }
}

#[test]
fn other_words_and_no_protection_are_refused() {
    let refused = |profile: Profile| {
        let text = profile.0.to_string();
        drivebay_drive::Spec::from_toml(&text).err().map(|e| e.to_string())
    };
    let order = refused(profile().with("nand.page_order", "sideways")).expect("refused");
    assert!(order.contains("nand.page_order"), "{order}");
    let without = profile().without("write_buffer.power_loss_protection");
    let release = refused(without.with("write_buffer.release", "word-lines")).expect("refused");
    assert!(release.contains("write_buffer.release"), "{release}");
    let one_in = profile().with("nand.erase_one_in", 0.5);
    assert!(refused(one_in).expect("refused").contains("nand.erase_one_in"));
    let erases = refused(profile().with("nand.erases", "sometimes")).expect("refused");
    assert!(erases.contains("nand.erases"), "{erases}");
}

/// The smallest buffer that is allowed is enough, whatever the order and the release.
#[test]
fn the_smallest_buffer_allowed_is_enough() {
    for (order, release, channels, pages) in [
        ("dies-first", "word-lines", 1, 96),
        ("word-lines-first", "in-order", 1, 96),
        ("word-lines-first", "word-lines", 1, 96),
        ("word-lines-first", "word-lines", 2, 95),
        ("dies-first", "word-lines", 4, 94),
        ("word-lines-first", "word-lines", 4, 96),
    ] {
        let profile = profile()
            .set("nand.channels", channels)
            .set("nand.pages_per_block", pages)
            .set("drive.capacity_sectors", 150_000 * channels)
            .with("nand.page_order", order)
            .with("write_buffer.release", release);
        let fits = |kib: i64| {
            let text = profile.clone().set("write_buffer.size_kib", kib).0.to_string();
            drivebay_drive::Spec::from_toml(&text).is_ok()
        };
        // Halves the interval: each check reads a whole profile.
        let (mut refused, mut least) = (0, 4096);
        while least - refused > 1 {
            let middle = (refused + least) / 2;
            *if fits(middle) { &mut least } else { &mut refused } = middle;
        }
        let mut device = profile.set("write_buffer.size_kib", least).device();
        let user = 150_000 * channels as u64 / 8;
        let mut rng = Rng::new(1);
        at_depth(&mut device, 8, (0..user).map(|lpn| page(Op::Write, lpn)));
        let random = std::iter::repeat_with(|| page(Op::Write, rng.below(user)));
        at_depth(&mut device, 8, random.take(20_000));
    }
}
