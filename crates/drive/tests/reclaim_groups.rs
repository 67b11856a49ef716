//! Reclaim groups (Flexible Data Placement): each behaves as a separate drive in its copies and in
//! the waits of its reads.

use crate::support::{Profile, one_by_one};
use drivebay_drive::{Device, HandleUse, Io, Op};
use drivebay_units::{Lpn, Nanos, Rng};

/// Pages of the host for each group: 12 % of its flash is spare.
const USER: u64 = 14_400;

/// A drive of `dies` dies, each on its own channel, without time.
fn timeless(dies: i64, more: &[(&str, i64)]) -> Profile {
    let pages = USER * dies as u64;
    let profile = Profile::sm951()
        .one_die(256, 64, pages as u32)
        .set("nand.channels", dies)
        .timeless()
        .set("gc.duty_limit_us", 10_000.0)
        .set("nand.channel_mb_per_s", 10_000.0)
        .set("gc.reserve_superblocks", 1)
        .set("gc.threshold_mb", 0.0)
        .set("gc.target_mb", 2.0 * dies as f64)
        .set("write_buffer.size_kib", 1024 * dies);
    more.iter().fold(profile, |profile, (key, value)| profile.with(key, *value))
}

/// Random writes in a share of the drive: half of them in a tenth of it, through the group's second
/// handle.
fn random(group: u64, seed: u64) -> impl FnMut() -> Io {
    let mut rng = Rng::new(seed);
    move || {
        let is_hot = rng.below(2) == 1;
        let page = if is_hot { rng.below(USER / 10) } else { USER / 10 + rng.below(USER * 9 / 10) };
        let handle = (2 * group) as u8 + u8::from(is_hot);
        Io { handle, ..Io::new(Op::Write, (group * USER + page) * 8, 8) }
    }
}

/// Two groups with separate loads each copy exactly the pages that two drives of half the size
/// copy.
#[test]
fn a_group_copies_what_a_drive_of_its_size_copies() {
    for isolation in ["initial", "persistent"] {
        for policy in ["greedy", "fifo", "cost-benefit"] {
            let with =
                |profile: Profile| profile.placed(2, isolation).set("gc.victim_policy", policy);
            let mut both = with(timeless(2, &[("fdp.reclaim_groups", 2)])).device();
            let mut loads = [random(0, 3), random(1, 4)];
            // The second group writes three pages for each page of the first.
            one_by_one(&mut both, (0..16 * USER).map(|i| loads[usize::from(i % 4 > 0)]()));
            both.ftl().check_invariants();
            for (group, seed, count) in [(0, 3, 4 * USER), (1, 4, 12 * USER)] {
                let mut one = with(timeless(1, &[])).device();
                let mut load = random(group, seed);
                let home = |io: Io| Io {
                    lba: io.lba - group * USER * 8,
                    handle: io.handle - 2 * group as u8,
                    ..io
                };
                one_by_one(&mut one, (0..count).map(|_| home(load())));
                let of_group = |used: &HandleUse| u64::from(used.group) == group;
                let found: Vec<_> = both.placement().into_iter().filter(of_group).collect();
                let same = |used: HandleUse| HandleUse { group: group as u8, ..used };
                let alone: Vec<_> = one.placement().into_iter().map(same).collect();
                assert_eq!(found, alone, "{isolation} {policy}");
                assert!(alone.iter().map(|used| used.copied_4k).sum::<u64>() > count / 2);
            }
        }
    }
}

#[test]
fn data_stays_on_the_dies_of_its_group() {
    for (channels, dies) in [(2, 2), (1, 4), (4, 1)] {
        let mut device = timeless(4, &[("fdp.reclaim_groups", 2)])
            .set("nand.channels", channels)
            .set("nand.dies_per_channel", dies)
            .placed(2, "persistent")
            .device();
        let mut loads = [random(0, 3), random(1, 4)];
        one_by_one(&mut device, (0..40 * USER).map(|i| loads[(i % 2) as usize]()));
        assert!(device.counters().copied_pages > USER, "{}", device.counters().copied_pages);
        let geometry = device.spec().geometry;
        for group in 0..2 {
            let mut found = std::collections::BTreeSet::new();
            for page in group * USER..(group + 1) * USER {
                let ppa = device.ftl().look_up(Lpn(page as u32)).expect("written");
                let page = ppa.0 >> geometry.page_shift;
                found.insert((geometry.die_of(page), geometry.channel_of(page)));
            }
            assert_eq!(found.len(), 2, "all its dies");
            assert!(found.iter().all(|(die, _)| u64::from(*die) % 2 == group));
            let mut channels = found.iter().map(|(_, channel)| *channel as u64);
            assert!(channels.all(|channel| geometry.channel_mask == 0 || channel % 2 == group));
        }
    }
}

/// All data goes through the first group's handle: data without space there goes to the other
/// group.
#[test]
fn a_group_that_is_full_leaves_the_rest_to_the_other() {
    let mut device = timeless(2, &[("fdp.reclaim_groups", 2)]).placed(2, "initial").device();
    let mut rng = Rng::new(5);
    one_by_one(&mut device, (0..2 * USER).map(|page| Io::new(Op::Write, page * 8, 8)));
    let random = (0..10 * USER).map(|_| Io::new(Op::Write, rng.below(2 * USER) * 8, 8));
    one_by_one(&mut device, random);
    device.ftl().check_invariants();
    let all = (0..2 * USER).all(|page| device.ftl().look_up(Lpn(page as u32)).is_some());
    assert!(all && device.counters().copied_pages > USER);
}

#[test]
fn a_saved_drive_goes_on_with_its_groups() {
    let profile = timeless(2, &[("fdp.reclaim_groups", 2)]).placed(2, "persistent");
    let mut device = profile.device();
    let mut loads = [random(0, 3), random(1, 4)];
    one_by_one(&mut device, (0..9 * USER).map(|i| loads[(i % 2) as usize]()));
    let mut saved = Vec::new();
    device.save(&mut saved).expect("memory");
    let restored = Device::restore(profile.spec(), None, &mut saved.as_slice());
    let mut others = [restored.expect("the same profile"), device.duplicate().expect("memory")];
    let more: Vec<_> = (0..3 * USER).map(|i| loads[(i % 2) as usize]()).collect();
    one_by_one(&mut device, more.iter().copied());
    for other in &mut others {
        one_by_one(other, more.iter().copied());
        assert_eq!((other.counters(), other.placement()), (device.counters(), device.placement()));
    }
}

/// Reads of one half while the other is overwritten until it copies: the 99.9th percentile of
/// latency, in microseconds.
fn read_tail(groups: i64, noisy: bool) -> f64 {
    // A fifth of the flash is spare.
    let pages = 4 * 40 * 64 * 4 * 2 * 8 / 10_u64;
    let half = pages / 2;
    let mut device = Profile::sm951()
        .four_dies(pages)
        .set("gc.reserve_superblocks", 2)
        .set("gc.threshold_mb", 0.0)
        .set("gc.target_mb", 20.0)
        .cool()
        .placed(1, "initial")
        .with("fdp.reclaim_groups", groups)
        .device();
    let second = u8::from(groups > 1);
    let mut rng = Rng::new(11);
    let write = |page: u64, handle| Io { handle, ..Io::new(Op::Write, page * 8, 8) };
    one_by_one(&mut device, (0..half).map(|page| write(page, 0)));
    let noise = (0..4 * half).map(|_| write(half + rng.below(half), second));
    one_by_one(&mut device, noise.collect::<Vec<_>>());
    let mut now = device.now().after(Nanos::millis(500));
    device.idle_until(now);
    let mut latencies = Vec::new();
    for i in 0..20_000 {
        now = now.after(Nanos::micros(200));
        if noisy && i % 4 == 0 {
            device.submit(now, write(half + rng.below(half), second)).expect("room");
        }
        let read = Io::new(Op::Read, rng.below(half) * 8, 8);
        let done = device.submit(now.after(Nanos::micros(20)), read).expect("room").done;
        latencies.push(done.since(now).0);
        now = now.after(Nanos::micros(20));
    }
    assert!(!noisy || device.counters().copied_pages > half, "it copies");
    latencies.sort_unstable();
    latencies[latencies.len() * 999 / 1000] as f64 / 1e3
}

#[test]
fn a_noisy_neighbour_is_heard_in_its_own_group_only() {
    let [quiet, noisy] = [false, true].map(|noisy| read_tail(1, noisy));
    let [quiet_apart, noisy_apart] = [false, true].map(|noisy| read_tail(2, noisy));
    eprintln!("{quiet} {noisy} {quiet_apart} {noisy_apart}");
    assert!(noisy > 3.0 * quiet, "one group: {noisy} of {quiet}");
    assert!(noisy_apart < 1.1 * quiet_apart, "two groups: {noisy_apart} of {quiet_apart}");
}

#[test]
fn groups_that_cannot_be_are_refused() {
    let refused = |more: &[(&str, i64)], handles, field: &str, part: &str| {
        let error = timeless(4, more).placed(handles, "initial").checked().expect_err("refused");
        let text = error.to_string();
        assert!(text.starts_with(field) && text.contains(part), "{text}");
    };
    let groups = "fdp.reclaim_groups";
    refused(&[(groups, 3)], 2, groups, "a power of two, at most 4");
    refused(&[(groups, 8)], 2, groups, "4");
    refused(&[(groups, 0)], 2, groups, "1 to 64");
    refused(&[(groups, 4)], 32, groups, "now 132, are at most 128");
    refused(&[(groups, 4)], 28, "fdp.handles", "superblocks");
}
