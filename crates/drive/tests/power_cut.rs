//! Power cuts at random moments: no flushed data is lost, and no data is invented.
//!
//! The drive keeps no data, so the test does: the contents of each physical page until its
//! superblock is erased. After a cut, each page must read as a version that was written to it, and
//! not an older one than the last that was flushed, written with FUA, or read back after an earlier
//! cut.

use std::collections::HashMap;

use crate::support::Profile;
use drivebay_drive::{Counters, Device, Io, Op, Stage, VICTIM_POLICIES};
use drivebay_units::{Lpn, Nanos, Ppa, Rng};

const USER: u64 = 1024;
const CUTS: u64 = 3000;

/// Four dies of two planes and pages of 16 KiB: programs of different dies end in any order.
fn profile() -> Profile {
    Profile::sm951()
        .cool()
        .set("nand.channels", 2)
        .set("nand.dies_per_channel", 2)
        .set("nand.planes", 2)
        .set("nand.page_kib", 16)
        .set("nand.blocks_per_plane", 24)
        .set("nand.pages_per_block", 4)
        .set("nand.bad_superblocks", 0)
        .set("drive.capacity_sectors", USER as i64 * 8)
        .set("write_buffer.size_kib", 512)
        .set("gc.reserve_superblocks", 4)
        .set("gc.threshold_mb", 2.0)
        // Padding and lost copies take space: garbage collection keeps as much space free as
        // possible.
        .set("gc.target_mb", 100.0)
        // No page is copied twice after one command, because the test would not see the first copy.
        .set("gc.duty_growth", 2.0)
        // Cuts take space: rows that are begun and not continued.
        .set("gc.gain_min", 1.0)
        .set("gc.gain_max", 40.0)
        .set("gc.duty_limit_us", 250.0)
}

/// Contents of the flash, and allowed versions of its pages.
struct Shadow {
    device: Device,
    /// Page and version, by PPA. Version 0 is a page without data.
    flash: HashMap<u32, (u32, u64)>,
    /// Newest version, and oldest allowed version, by page.
    newest: Vec<u64>,
    oldest: Vec<u64>,
    /// Versions that are TRIMs, by page.
    unmapped: Vec<Vec<u64>>,
    version: u64,
    /// Erases and written pages at the last look, by superblock.
    seen: Vec<(u32, u32)>,
}

impl Shadow {
    fn new(device: Device) -> Shadow {
        let pages = USER as usize;
        let superblocks = device.spec().geometry.superblocks as usize;
        Shadow {
            seen: vec![(0, 0); superblocks],
            device,
            flash: HashMap::new(),
            newest: vec![0; pages],
            oldest: vec![0; pages],
            unmapped: vec![vec![0]; pages],
            version: 0,
        }
    }

    fn submit(&mut self, now: Nanos, io: Io) -> Nanos {
        // Idle copies may be copied again after the command: look before it.
        self.device.idle_until(now);
        self.look();
        let done = self.device.submit(now, io).expect("the drive has room").done;
        let pages = io.lba / 8..io.lba / 8 + u64::from(io.sectors) / 8;
        for page in pages.clone().map(|page| page as usize) {
            match io.op {
                Op::Write | Op::WriteFua => {
                    self.version += 1;
                    self.newest[page] = self.version;
                }
                Op::Trim => {
                    self.version += 1;
                    self.newest[page] = self.version;
                    self.unmapped[page].push(self.version);
                }
                _ => {}
            }
        }
        self.look();
        done
    }

    /// Records placed and copied pages; removes erased ones.
    ///
    /// A page that is copied twice after one command leaves its first copy where the map has
    /// pointed in between: in a physical page that has been written since the last look.
    fn look(&mut self) {
        let ftl = self.device.ftl();
        let geometry = &self.device.spec().geometry;
        for index in 0..geometry.superblocks {
            let first = index * geometry.superblock_pages;
            let s = ftl.superblock(index);
            let written = ftl.written(index);
            let seen = &mut self.seen[index as usize];
            if s.erased || s.erases != seen.0 {
                self.flash.retain(|&ppa, _| ftl.locate(Ppa(ppa)).0 != index);
                *seen = (s.erases, 0);
            }
            for ppa in first + seen.1..first + written {
                let page = ftl.page_at(Ppa(ppa)).0;
                self.flash.insert(ppa, (page, self.newest[page as usize]));
            }
            seen.1 = written;
        }
        for page in 0..USER as u32 {
            if let Some(ppa) = ftl.look_up(Lpn(page)) {
                self.flash.insert(ppa.0, (page, self.newest[page as usize]));
                assert!(!ftl.superblock(ftl.locate(ppa).0).erased, "an erased page is mapped");
            }
        }
    }

    fn durable(&mut self, pages: std::ops::Range<u64>) {
        for page in pages.map(|page| page as usize) {
            self.oldest[page] = self.newest[page];
        }
    }

    /// Cuts the power and checks every page; returns how many lost their newest version.
    fn cut(&mut self, at: Nanos) -> u64 {
        let recovery = self.device.power_cut(at);
        let mut fallen = 0;
        for page in 0..USER as usize {
            let version = match self.device.ftl().look_up(Lpn(page as u32)) {
                Some(ppa) => {
                    let held = self.flash.get(&ppa.0);
                    let &(of, version) =
                        held.unwrap_or_else(|| panic!("page {page}: data is gone"));
                    assert_eq!(of as usize, page, "another page's data");
                    version
                }
                None => {
                    let trims = self.unmapped[page].iter().rev();
                    *trims.max().filter(|&&v| v >= self.oldest[page]).unwrap_or_else(|| {
                        panic!("page {page} reads as zeros, version {} was safe", self.oldest[page])
                    })
                }
            };
            assert!(version >= self.oldest[page], "page {page}: safe data is lost");
            fallen += u64::from(version < self.newest[page]);
            (self.newest[page], self.oldest[page]) = (version, version);
        }
        self.device.ftl().check_invariants();
        self.look();
        assert!(recovery.ready >= at);
        assert!(
            fallen <= recovery.lost_pages || fallen == 0,
            "{fallen} of {}",
            recovery.lost_pages
        );
        fallen
    }
}

#[test]
fn nothing_flushed_is_lost_in_thousands_of_cuts() {
    cut_often(profile(), CUTS, 7);
}

/// The same with a static and a dynamic SLC cache, folded in parallel with writes, in idle time and
/// for lack of space.
#[test]
fn nothing_flushed_is_lost_while_the_slc_cache_is_folded() {
    for (mb, when_full, ratio) in [
        ([0.6, 1.0, 0.6], "fold", 0.5),
        ([0.0, 1.6, 0.0], "direct", 1.0),
        ([0.6, 0.0, 0.0], "direct", 0.0),
    ] {
        let cached = profile().slc_cache(mb, when_full, ratio).set("slc_cache.fold_after_ms", 0.02);
        let counters = cut_often(cached, CUTS / 4, 7);
        assert!(counters.slc_pages > 1000 && counters.copied_pages > 1000);
    }
}

/// The same with the host's writes in two streams.
#[test]
fn nothing_flushed_is_lost_out_of_two_streams() {
    cut_often(profile().with("gc.host_frontiers", "by-lifespan"), CUTS / 4, 7);
}

/// The same with placement handles, whose copies go together or apart.
#[test]
fn nothing_flushed_is_lost_with_placement_handles() {
    for isolation in ["initial", "persistent"] {
        let counters = cut_often(profile().placed(3, isolation), CUTS / 4, 7);
        assert!(counters.copied_pages > 1000, "{}", counters.copied_pages);
    }
}

/// The same with reclaim groups, between which the host moves its data.
#[test]
fn nothing_flushed_is_lost_with_reclaim_groups() {
    for (isolation, groups) in [("initial", 2), ("persistent", 2), ("initial", 4)] {
        let placed = profile().placed(2, isolation).with("fdp.reclaim_groups", groups);
        let placed = placed.set("nand.blocks_per_plane", 32).set("gc.reserve_superblocks", 2);
        let counters = cut_often(placed, CUTS / 4, 7);
        assert!(counters.copied_pages > 1000, "{}", counters.copied_pages);
    }
}

/// The same on small drives of many kinds, with the minimum reserve of a profile.
///
/// Includes seeds that once left garbage collection without a superblock to copy into.
#[test]
fn nothing_flushed_is_lost_on_any_small_drive() {
    for seed in [10, 15, 21] {
        let mut rng = Rng::new(seed).fork("small drives");
        for _ in 0..12 {
            cut_often(any_small_drive(&mut rng), 100, seed);
        }
    }
}

fn any_small_drive(rng: &mut Rng) -> Profile {
    let mut one_of = |values: &[i64]| values[rng.below(values.len() as u64) as usize];
    let (planes, page_kib) = (one_of(&[1, 2]), one_of(&[4, 8, 16]));
    let rows_kib = page_kib * 2 * 4 * planes;
    let numbers: Vec<i64> = (0..VICTIM_POLICIES.len() as i64).collect();
    let policy = VICTIM_POLICIES[one_of(&numbers) as usize];
    let shared = one_of(&[0, 1]) == 1;
    let mut small = profile()
        .with("gc.frontiers", if shared { "shared" } else { "separate" })
        .victims(policy, one_of(&[1, 2, 10]))
        .set("gc.reserve_superblocks", one_of(&[1, 2, 3, 4]))
        .set("gc.duty_growth", one_of(&[2, 8, 20]) as f64)
        .set("gc.threshold_mb", 1.5)
        .set("gc.target_mb", 100.0)
        .set("nand.planes", planes)
        .set("nand.page_kib", page_kib)
        .set("nand.blocks_per_plane", 24 * 2 / planes * 16 / page_kib)
        .set("write_buffer.size_kib", one_of(&[128, 256, 512]).max(rows_kib));
    if one_of(&[0, 1]) == 1 {
        small = small.with("gc.idle.after_ms", 0.01).with("gc.idle.free_mb", 1.4);
    }
    if !shared && one_of(&[0, 1, 2]) == 0 {
        small = small.with("gc.host_frontiers", "by-lifespan");
    }
    small
}

fn cut_often(profile: Profile, count: u64, seed: u64) -> Counters {
    let mut shadow = Shadow::new(profile.device());
    let mut rng = Rng::new(seed).fork("power cuts");
    let (mut lost, mut cuts, mut now) = (0, 0, Nanos::ZERO);
    while cuts < count {
        let page = rng.below(USER);
        let count = 1 + rng.below(12).min(USER - page - 1);
        // A page goes to another handle, and perhaps another reclaim group, from time to time.
        let handle = ((page + cuts) % 4) as u8;
        let io = |op| Io { handle, ..Io::new(op, page * 8, count as u32 * 8) };
        let dice = rng.below(100);
        now = now.after(Nanos(rng.below(20_000)));
        match dice {
            0..=69 => {
                shadow.submit(now, io(Op::Write));
            }
            70..=79 => {
                let done = shadow.submit(now, io(Op::WriteFua));
                now = done;
                shadow.durable(page..page + count);
            }
            80..=84 => {
                shadow.submit(now, io(Op::Trim));
            }
            85..=89 => {
                now = shadow.submit(now, Io::new(Op::Flush, 0, 0));
                shadow.durable(0..USER);
            }
            _ => {
                lost += shadow.cut(now.after(Nanos(rng.below(2_000_000))));
                now = shadow.device.now();
                cuts += 1;
            }
        }
    }
    assert!(lost > count / 2, "cuts without a flush lose data: {lost}");
    shadow.device.counters()
}

#[test]
fn what_is_not_flushed_is_lost_and_what_is_old_comes_back() {
    let mut device = profile().device();
    let write = |page: u64| Io::new(Op::Write, page * 8, 8);
    let first = device.submit(Nanos::ZERO, write(5)).expect("room").done;
    let old = device.ftl().look_up(Lpn(5));
    let safe = device.submit(first, Io::new(Op::Flush, 0, 0)).expect("room").done;
    // The flush waits for one program of the first page type.
    let program = device.spec().nand.program[0];
    assert!(safe.since(first) > program && safe.since(first) < program.after(Nanos::micros(200)));
    let again = device.submit(safe, write(5)).expect("room").done;
    device.submit(again, write(6)).expect("room");
    let recovery = device.power_cut(again.after(Nanos::micros(50)));
    assert_eq!(recovery.lost_pages, 2);
    assert_eq!(device.ftl().look_up(Lpn(5)), old, "the flushed version");
    assert_eq!(device.ftl().look_up(Lpn(6)), None, "never safe");
    // The drive is back and serves, but not before it is ready.
    let read = device.submit(device.now(), write(7)).expect("room").done;
    assert!(read > recovery.ready);
}

#[test]
fn a_forced_write_is_safe_when_it_is_done() {
    let mut device = profile().device();
    let fua = Io::new(Op::WriteFua, 80, 16);
    let done = device.submit(Nanos::ZERO, fua).expect("room").done;
    assert!(done > device.spec().nand.program[0], "it waits for its program");
    assert_eq!(device.power_cut(done).lost_pages, 0);
    assert!(device.ftl().look_up(Lpn(10)).is_some() && device.ftl().look_up(Lpn(11)).is_some());
}

/// A drive that lies about flushes is detected: the same cut that an honest drive survives loses
/// data.
#[test]
fn a_lying_drive_loses_what_it_called_safe() {
    let lost_by = |ignores: bool| {
        let mut device = profile().with("write_buffer.ignore_flush", ignores).device();
        let mut now = Nanos::ZERO;
        let mut lost = 0;
        for round in 0..50u64 {
            let write = Io::new(Op::Write, round * 16 % USER * 8, 64);
            now = device.submit(now, write).expect("room").done;
            let fua = Io::new(Op::WriteFua, (round * 16 + 8) % USER * 8, 8);
            now = device.submit(now, fua).expect("room").done;
            now = device.submit(now, Io::new(Op::Flush, 0, 0)).expect("room").done;
            device.power_cut(now);
            let written = (round * 16..round * 16 + 9).map(|page| Lpn(page as u32));
            lost += written.filter(|&page| device.ftl().look_up(page).is_none()).count();
            now = device.now();
        }
        device.ftl().check_invariants();
        lost
    };
    assert_eq!(lost_by(false), 0);
    assert_eq!(lost_by(true), 50 * 9, "all of it was in the buffer");
}

#[test]
fn a_protected_drive_loses_nothing_that_it_acknowledged_and_flushes_at_once() {
    let mut device = profile().with("write_buffer.power_loss_protection", true).device();
    let mut rng = Rng::new(17).fork("protected");
    let mut written = Vec::new();
    for _ in 0..100 {
        for _ in 0..rng.below(2000) {
            let page = rng.below(USER);
            let write = Io::new(Op::Write, page * 8, 8);
            device.submit(device.now(), write).expect("room");
            written.push(Lpn(page as u32));
        }
        let flush = Io::new(Op::Flush, 0, 0);
        let flushed = device.submit(device.now(), flush).expect("room");
        assert_eq!(flushed.stages.of(Stage::Buffer), Nanos::ZERO, "nothing to wait for");
        assert_eq!(device.power_cut(flushed.done).lost_pages, 0);
        assert!(written.iter().all(|&page| device.ftl().look_up(page).is_some()));
        device.ftl().check_invariants();
    }
}

/// An erase that waits for the write buffer must not erase a superblock that a secure erase has
/// freed.
#[test]
fn a_secure_erase_leaves_no_erase_behind() {
    let mut device = profile().device();
    let mut rng = Rng::new(3).fork("secure erase");
    let write = |page: u64| Io::new(Op::Write, page * 8, 8);
    let erases = |device: &Device| -> u32 {
        let all = 0..device.spec().geometry.superblocks;
        all.map(|index| device.ftl().superblock(index).erases).sum()
    };
    for _ in 0..300 {
        for _ in 0..2500 + rng.below(400) {
            device.submit(device.now(), write(rng.below(USER))).expect("room");
        }
        device.secure_erase();
        let after = erases(&device);
        let done = device.submit(device.now(), write(5)).expect("room").done;
        device.submit(done.after(Nanos::secs(1)), write(6)).expect("room");
        assert_eq!(erases(&device), after);
    }
}
