//! The timelines against an exact event simulation of the same drive.

#[path = "oracle/flash.rs"]
mod flash;
#[path = "oracle/map.rs"]
mod map;
#[path = "oracle/sim.rs"]
mod sim;
mod support;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

use drivebay_drive::{Device, Io, Op};
use drivebay_units::{Nanos, Rng};
use sim::Oracle;
use support::Profile;

/// Most pages outstanding.
const OUTSTANDING_MAX: u64 = 256;
/// Requests measured per case.
const MEASURED: usize = 40_000;

/// A random small drive and a load for it.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    text: String,
    profile: Profile,
    read_percent: u64,
    block_pages: u64,
    depth: usize,
    worn: bool,
}

impl Case {
    fn new(seed: u64, read_percent: u64) -> Case {
        let mut draw = Draw { rng: Rng::new(seed).fork("oracle"), text: String::new() };
        let page_kib = draw.one_of("page_kib", [4, 8, 16]);
        let channels = draw.one_of("channels", [1, 2, 4]);
        let dies = draw.one_of("dies_per_channel", [1, 2, 4]);
        let planes = draw.one_of("planes", [1, 2]);
        let row = channels * dies * planes * page_kib;
        let pages = 16384 / row;
        let superblock_slots = pages * row / 4;
        let blocks = draw.between("blocks", 24, 40);
        let spare = draw.between("spare_superblocks", 6, 10);
        let user_slots = (blocks - spare) * superblock_slots;
        let ahci = draw.between("ahci", 0, 1) == 1;
        let depth = draw.one_of("depth", [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        let block_pages = draw.one_of("block_pages", [1, 1, 2, 4, 8, 16, 32]);
        let depth = if ahci { depth.min(32) } else { depth }.min(OUTSTANDING_MAX / block_pages);
        let least = (2 * depth * block_pages).div_ceil(row / 4);
        let rows = draw.between("buffer_rows", 2, 8).max(least);
        let mb = |slots: u64| slots as f64 * 4096.0 / 1e6;
        let spare_slots = spare * superblock_slots;
        let low = 7 * superblock_slots / 2;
        let profile = Profile::sm951()
            .set("interface.protocol", if ahci { "ahci" } else { "nvme" })
            .set("interface.serial_us", draw.tenths("serial", if ahci { (25, 60) } else { (0, 5) }))
            .set("interface.queue_depth_max", if ahci { 32 } else { 256 })
            .set("host.software_us", draw.tenths("software", (1, 30)))
            .set("link.generation", draw.between("generation", 2, 3) as i64)
            .set("link.lanes", draw.one_of("lanes", [2, 4]) as i64)
            .set("controller.host_core_us", draw.tenths("host_core", (10, 40)))
            .set("controller.read_command_us", draw.tenths("read_command", (10, 40)))
            .set("controller.read_page_us", draw.tenths("read_page", (1, 10)))
            .set("controller.write_command_us", draw.tenths("write_command", (20, 100)))
            .set("controller.write_page_us", draw.tenths("write_page", (2, 25)))
            .set("controller.write_path_mb_per_s", draw.between("path", 800, 3000) as f64)
            .set("buffer.size_kib", (rows * row) as i64)
            .set("nand.channels", channels as i64)
            .set("nand.dies_per_channel", dies as i64)
            .set("nand.planes", planes as i64)
            .set("nand.page_kib", page_kib as i64)
            .set("nand.blocks_per_plane", blocks as i64)
            .set("nand.pages_per_block", pages as i64)
            .set("nand.bad_superblocks", 0)
            .set("nand.read_us", draw.between("read", 20, 90) as f64)
            .set("nand.program_us", draw.programs())
            .set("nand.erase_us", draw.between("erase", 1000, 5000) as f64)
            .set("nand.suspend_us", draw.between("suspend", 5, 100) as f64)
            .set("nand.channel_mb_per_s", draw.between("channel", 150, 800) as f64)
            .set("nand.cache_program", draw.between("cache_program", 0, 1) == 1)
            .set("drive.capacity_sectors", (user_slots * 8) as i64)
            .set("collection.frontiers", "separate")
            .set("collection.pool_mb", mb(spare_slots / 10))
            .set("collection.ramp_mb", mb(spare_slots / 10))
            .set("collection.low_mb", mb(low))
            .set("collection.critical_mb", mb(low / 2))
            .set("collection.slot_us", draw.between("slot", 20, 100) as f64)
            .set("collection.slot_pages", (block_pages * draw.between("slot_pages", 8, 16)) as f64)
            .set("collection.slot_after_reads", draw.between("after_reads", 0, 1) == 1)
            .cool();
        let worn = draw.between("worn", 0, 1) == 1;
        Case {
            seed,
            profile,
            read_percent,
            block_pages,
            depth: depth as usize,
            worn,
            text: draw.text,
        }
    }

    /// Loads to bring the drive into its state, and the one that is measured last: depth and requests.
    fn loads(&self) -> Vec<(usize, Vec<Io>)> {
        let mut rng = Rng::new(self.seed).fork("requests");
        let spec = self.profile.spec();
        let pages = u64::from(spec.geometry.user_pages);
        let io = |op, page, count| Io { op, lba: page * 8, sectors: count as u32 * 8 };
        let fill =
            (0..pages).step_by(32).map(|page| io(Op::Write, page, 32.min(pages - page))).collect();
        let mut random = |read_percent, block: u64, count| {
            let mut written = 0;
            let mut draw = || {
                let place = rng.below(pages / block) * block;
                if rng.below(100) < read_percent {
                    return io(Op::Read, place, block);
                }
                written = (written + block) % (pages / block * block);
                io(Op::Write, if block >= 8 { written } else { place }, block)
            };
            (0..count).map(|_| draw()).collect()
        };
        let spare = spec.geometry.usable_slots() - pages;
        let wear = if self.worn { spare as usize } else { 0 };
        let measured = if self.block_pages > 8 { MEASURED / 2 } else { MEASURED };
        vec![
            (2, fill),
            (8, random(0, 1, wear)),
            (self.depth, random(self.read_percent, self.block_pages, measured)),
        ]
    }
}

struct Draw {
    rng: Rng,
    text: String,
}

impl Draw {
    fn between(&mut self, name: &str, low: u64, high: u64) -> u64 {
        let value = low + self.rng.below(high - low + 1);
        write!(self.text, " {name}={value}").expect("a string takes all");
        value
    }

    fn one_of<const N: usize>(&mut self, name: &str, values: [u64; N]) -> u64 {
        let value = values[self.rng.below(N as u64) as usize];
        write!(self.text, " {name}={value}").expect("a string takes all");
        value
    }

    fn tenths(&mut self, name: &str, (low, high): (u64, u64)) -> f64 {
        self.between(name, low, high) as f64 / 10.0
    }

    fn programs(&mut self) -> Vec<f64> {
        let types = self.between("page_types", 1, 3);
        (0..types).map(|i| (self.between("program", 200, 700) * (i + 1)) as f64).collect()
    }
}

/// Latencies of the last load on the model.
fn by_timelines(case: &Case) -> (Vec<u64>, Device) {
    let mut device = Device::new(case.profile.spec(), 1).expect("memory for a small drive");
    let mut start = 0;
    let mut latencies = Vec::new();
    for (depth, ios) in case.loads() {
        latencies.clear();
        let mut slots: BinaryHeap<Reverse<u64>> = (0..depth).map(|_| Reverse(start)).collect();
        for io in ios {
            let Reverse(now) = slots.pop().expect("a queue has slots");
            let done = device.submit(Nanos(now), io).expect("the drive has room").done.0;
            latencies.push(done - now);
            slots.push(Reverse(done));
        }
        start = slots.into_iter().map(|Reverse(at)| at).max().expect("a queue has slots");
    }
    (latencies, device)
}

/// Latencies of the last load on the oracle.
fn by_events(case: &Case) -> (Vec<u64>, Oracle) {
    let mut oracle = Oracle::new(case.profile.spec());
    let mut latencies = Vec::new();
    for (depth, ios) in case.loads() {
        latencies = oracle.run(depth, &ios);
    }
    (latencies, oracle)
}

fn mean_and_p99(latencies: &[u64]) -> (f64, f64) {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let mean = sorted.iter().map(|&ns| ns as f64).sum::<f64>() / sorted.len() as f64;
    (mean, sorted[sorted.len() * 99 / 100] as f64)
}

fn compare(case: &Case) -> bool {
    let begin = std::time::Instant::now();
    let (model, device) = by_timelines(case);
    let t1 = begin.elapsed().as_millis();
    let (exact, oracle) = by_events(case);
    let t2 = begin.elapsed().as_millis() - t1;
    let loads = case.loads();
    let ios = &loads[2].1;
    let mut line = format!(
        "{:3} r{:3} b{:2} q{:3} w{}",
        case.seed,
        case.read_percent,
        case.block_pages,
        case.depth,
        u8::from(case.worn)
    );
    for kind in [None, Some(Op::Read), Some(Op::Write)] {
        let of = |l: &[u64]| -> Vec<u64> {
            l.iter()
                .zip(ios)
                .skip(ios.len() / 10)
                .filter(|(_, io)| kind.is_none_or(|k| k == io.op))
                .map(|(l, _)| *l)
                .collect()
        };
        let (m, e) = (of(&model), of(&exact));
        if m.len() < 100 {
            continue;
        }
        let ((mm, mp), (em, ep)) = (mean_and_p99(&m), mean_and_p99(&e));
        write!(
            line,
            " | {:5} {:9.1} {:+6.2}% {:9.1} {:+6.2}%",
            kind.map_or("all".into(), |k| format!("{k:?}")),
            em / 1e3,
            (mm / em - 1.0) * 100.0,
            ep / 1e3,
            (mp / ep - 1.0) * 100.0
        )
        .unwrap();
    }
    println!(
        "{line} cp {} {} fg {} {t1}/{t2}ms",
        device.counters().copied_pages,
        oracle.copied,
        oracle.foreground
    );
    true
}

#[test]
fn scan() {
    let one: Option<u64> = std::env::var("ORACLE_CASE").ok().and_then(|s| s.parse().ok());
    let wanted: Option<u64> = std::env::var("ORACLE_MIX").ok().and_then(|s| s.parse().ok());
    for mix in [100, 70, 30, 0] {
        if wanted.is_some_and(|w| w != mix) {
            continue;
        }
        for seed in one.map_or(0..12, |s| s..s + 1) {
            let case = Case::new(seed, mix);
            if one.is_some() {
                println!("{}", case.text);
            }
            compare(&case);
        }
    }
}
