//! The timelines compared with an exact event simulation of the same drive (`oracle/`).
//!
//! Both get the same profile and the same requests in a closed loop. The simulation has a queue of
//! events; links, channels and cores that serve in order of arrival; dies on which reads suspend
//! programs; a write buffer, garbage collection after writes and a map of dictionaries. It shares
//! the `Spec`, the control loop's parameters and the variation of times with the model, nothing
//! else. Drives and loads are random, from fixed seeds.
//!
//! The aim is 1 % in the mean and 2 % at the 99th percentile; 215 of the 240 cases of the long test
//! meet both. Where the timelines miss it, the test has its own bound. The differences are:
//! - Reads: means within 0.3 %; 99th percentile within 2 % in 13 of 16 cases, else 2.5, 8 and 10 %
//!   too low. A saturated link or channel serves in the order of calls, not of arrival.
//! - Planes that read independently: means within 0.9 %, 99th percentile within 2 % in 14 of 16
//!   cases, else 4 and 19 % too low, the second on saturated channels. With writes of all sizes and
//!   garbage collection: 13 of 16, means within 1.7 %, 99th percentile within 4 %.
//! - Random writes during garbage collection: 14 of 16, means within 2.1 %, 99th percentile within
//!   3 % except one of 22 %. 4 KiB reads and writes mixed: all of 32.
//! - Mixed requests of all sizes during garbage collection: 14 of 16, means within 1.7 %, 99th
//!   percentile within 5 % except one of 8 %. A later read moves the end of a program that a write
//!   has already been given.
//! - The same with a circular log: 14 of 16, means within 1.8 %, 99th percentile within 5 % except
//!   one of 18 %.
//! - A half-duplex controller: 14 of 16, means within 1.6 %, 99th percentile within 2 % except one
//!   of 4 %.
//! - Sequential writes: within 0.5 %.
//! - An SLC cache, on new and on filled drives, with folding of 0, 25 and 100 % in parallel with
//!   writes or blocking them: 15 of 16, means within 1.0 %, 99th percentile within 3 %.
//! - Both orders of pages, collection after commands or word lines: 43 of 48, means within 1.7 %,
//!   99th percentile within 4 % except three of 6, 15 and 19 %.
//! - Programs that restart alongside 4 KiB reads, half of the requests: 13 of 16, means within 2.1
//!   %, 99th percentile within 2.4 % except one of 19 %.
//!
//! Not covered by the cases, with differences seen before dies were asked in time order (not
//! measured again since):
//! - Garbage collection while the dies, not the cores, are the bottleneck, and garbage collection
//!   in the foreground.
//! - The first requests after garbage collection begins or before it ends (fresh drives under
//!   random writes, worn ones under reads only): p99 up to 20 % off, means mostly within 2 %, at
//!   worst 5 %.
//! - A slow link (PCIe 2, two lanes) that reads saturate: means exact, p99 up to 24 % too low.
//! - Channels below 300 MB/s or a buffer of two rows under writes: 2 of 32 cases, p99 up to 8 %
//!   off. On a half-duplex controller, waits of reads for program transfers delay writes in turn: a
//!   saturated channel of 308 MB/s made the mean of one case 13 % too long, so there channels have
//!   500 MB/s and more.
//! - Folding at one to one on channels that it saturates: on one of 308 MB/s the mean was 3.6 % too
//!   short, so there channels have 500 MB/s and more.
//! - Error correction on a half-duplex controller: a batch ends a command earlier or later, and one
//!   of eight cases was 3.1 % off in the mean, 0.2 % without it.
//! - `cache_program = false` under writes: loading is reserved too early when reads delay programs.
//! - Not compared: partial pages, trim, flush, heat, sleep, several queues, a map cache, errors, a
//!   shared frontier, other policies than greedy and FIFO.

mod flash;
mod host;
mod map;
mod sim;

use std::fmt::Write as _;

use crate::support::{Profile, closed_loop, repeated};
use drivebay_drive::{Device, Io, Op};
use drivebay_units::Rng;
use sim::Oracle;

/// Range of quantiles in thousandths below and above the 99th percentile in which it counts as met,
/// because on a step of the distribution it is on one side or the other by chance. Four times the
/// sampling error.
const RANK: usize = 2;
/// Number of seeds per kind of load in `make test-long`; otherwise one.
const SEEDS: u32 = 16;
/// Number of cases of which one may be outside its kind's bounds, but none farther than
/// [`FARTHEST`].
const OUTSIDE_ONE_IN: usize = 8;
/// Maximum difference of any case in percent: in the mean (or twice that of the other cases of its
/// kind) and at the 99th percentile.
const FARTHEST: (f64, f64) = (2.5, 25.0);

/// Seed of the drives.
pub const SEED: u64 = 1;
/// Maximum number of outstanding pages.
const OUTSTANDING_MAX: u64 = 256;
/// Number of measured requests per case.
const MEASURED: usize = 40_000;

/// A kind of load.
#[derive(Clone, Copy, Debug)]
struct Kind {
    read_percent: u64,
    /// Sizes of requests in pages.
    blocks: [u64; 6],
    sequential: bool,
    /// True if garbage collection is at work.
    worn: bool,
    /// True if reads and writes are served in turns.
    half_duplex: bool,
    /// True if victims are taken in the order of a circular log, and only the first pages of a
    /// command count for the duty limit.
    log: bool,
    /// True if each plane of a die reads independently.
    independent_planes: bool,
    /// True if the drive has an SLC cache; it is then new or filled.
    slc_cache: bool,
    /// True if pages may be ordered by word lines first.
    orders: bool,
    /// Behaviour of a program that a host read meets.
    resumed: &'static str,
    /// Allowed differences of mean and 99th percentile, in percent.
    allowed: (f64, f64),
}

/// A random small drive and a load for it.
struct Case {
    seed: u64,
    kind: Kind,
    profile: Profile,
    block_pages: u64,
    depth: usize,
    /// True if all pages are written beforehand.
    filled: bool,
    text: String,
}

impl Case {
    fn new(seed: u64, kind: Kind) -> Case {
        let mut draw = Draw { rng: Rng::new(seed).fork("oracle"), text: String::new() };
        let block_pages = draw.one_of("block_pages", kind.blocks);
        let ahci = draw.between("ahci", 0, 1) == 1;
        let depth = draw.one_of("depth", [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        let depth = if ahci { depth.min(32) } else { depth }.min(OUTSTANDING_MAX / block_pages);
        let profile = firmware(Profile::sm951().cool(), &mut draw, ahci);
        let mut profile = flash(profile, &mut draw, kind, depth * block_pages);
        if kind.half_duplex {
            let turnaround = draw.between("turnaround", 0, 200) as f64;
            let wait = draw.one_of("batch_wait", [100, 1000, 10_000]) as f64;
            profile = profile
                .with("controller.half_duplex.turnaround_us", turnaround)
                .with("controller.half_duplex.batch_wait_us", wait)
                .with("controller.half_duplex.batch_commands", draw.between("batch", 1, 64) as i64);
        }
        profile = host(profile, &mut draw);
        profile = profile.with("nand.resumed_program", kind.resumed);
        if kind.orders {
            profile = row_order(profile, &mut draw);
        }
        if kind.log {
            let most = draw.one_of("duty_pages_max", [4, 8, 16, 32]) as i64;
            profile = profile.set("gc.victim_policy", "fifo").with("gc.duty_pages_max", most);
        }
        if kind.independent_planes {
            profile = profile.with("nand.read_planes", "independent");
        }
        let mut filled = true;
        if kind.slc_cache {
            profile = add_slc_cache(profile, &mut draw);
            filled = draw.between("filled", 0, 1) == 1;
        }
        Case { seed, kind, profile, block_pages, depth: depth as usize, filled, text: draw.text }
    }

    /// Loads that prepare the drive, followed by the measured one: depth and requests.
    fn loads(&self) -> Vec<(usize, Vec<Io>)> {
        let mut rng = Rng::new(self.seed).fork("requests");
        let spec = self.profile.spec();
        let pages = u64::from(spec.geometry.user_pages);
        let io = |op, page, count| Io::new(op, page * 8, count as u32 * 8);
        let fill = (0..if self.filled { pages } else { 0 })
            .step_by(32)
            .map(|page| io(Op::Write, page, 32.min(pages - page)))
            .collect();
        let sequential = self.kind.sequential;
        let mut random = |read_percent, block: u64, count| {
            let mut written = 0;
            let mut draw = || {
                let place = rng.below(pages / block) * block;
                if rng.below(100) < read_percent {
                    return io(Op::Read, place, block);
                }
                written = (written + block) % (pages / block * block);
                io(Op::Write, if sequential { written } else { place }, block)
            };
            (0..count).map(|_| draw()).collect()
        };
        let spare = spec.geometry.usable_pages() - pages;
        let wear = if self.kind.worn { spare as usize } else { 0 };
        let measured = if self.block_pages > 8 { MEASURED / 2 } else { MEASURED };
        vec![
            (2, fill),
            (8, random(0, 1, wear)),
            (self.depth, random(self.kind.read_percent, self.block_pages, measured)),
        ]
    }
}

/// Interface, link, cores and garbage collection.
fn firmware(profile: Profile, draw: &mut Draw, ahci: bool) -> Profile {
    let driver = if ahci { "host.ahci" } else { "host.nvme" };
    profile
        .set("host_interface.protocol", if ahci { "ahci" } else { "nvme" })
        .set(
            &format!("{driver}.serial_us"),
            draw.tenths("serial", if ahci { (25, 60) } else { (0, 5) }),
        )
        .set(&format!("{driver}.register_reads"), 0)
        .set("host_interface.queue_depth_max", if ahci { 32 } else { 256 })
        .set(&format!("{driver}.software_us"), draw.tenths("software", (1, 30)))
        .set("link.generation", 3)
        .set("link.lanes", 4)
        .set("controller.host_core_us", draw.tenths("host_core", (10, 40)))
        .set("controller.read_command_us", draw.tenths("read_command", (10, 40)))
        .set("controller.read_page_us", draw.tenths("read_page", (1, 10)))
        .set("controller.write_command_us", draw.tenths("write_command", (20, 100)))
        .set("controller.write_page_us", draw.tenths("write_page", (2, 25)))
        .set("controller.write_path_mb_per_s", draw.between("path", 800, 3000) as f64)
        .set("gc.frontiers", "separate")
        .set("gc.duty_limit_us", draw.between("duty_limit", 60, 150) as f64)
        .with("nand.variation.block_percent", draw.between("block_percent", 0, 3) as f64)
        .with("nand.variation.page_percent", draw.between("page_percent", 0, 6) as f64)
}

/// Interrupts and packets of the host, drawn after all else.
fn host(profile: Profile, draw: &mut Draw) -> Profile {
    let profile = ["host.ahci", "host.nvme"].into_iter().fold(profile, |profile, driver| {
        profile
            .set(&format!("{driver}.interrupt_us"), draw.tenths("interrupt", (0, 20)))
            .set(&format!("{driver}.register_writes"), draw.between("register_writes", 0, 4) as i64)
    });
    profile
        .set("host.slot.payload_bytes", draw.one_of("payload", [128, 256]) as i64)
        .set("host.slot.read_request_bytes", draw.one_of("read_request", [128, 512, 4096]) as i64)
        .set("host.slot.read_completion_bytes", draw.one_of("completion", [64, 128]) as i64)
        .set("host.slot.round_trip_us", draw.tenths("round_trip", (3, 12)))
        .with("link.read_tags", draw.one_of("read_tags", [8, 32]) as i64)
}

/// Draws the other order of pages, and collection after word lines, each on every other drive.
fn row_order(profile: Profile, draw: &mut Draw) -> Profile {
    let orders = ["dies-first", "word-lines-first"];
    let profile =
        profile.with("nand.page_order", orders[draw.between("page_order", 0, 1) as usize]);
    let behind = ["commands", "word-lines"];
    profile.with("gc.runs_behind", behind[draw.between("gc_runs_behind", 0, 1) as usize])
}

/// Adds an SLC cache: static superblocks with their own space, dynamic ones from flash that is
/// spare or not yet written.
fn add_slc_cache(profile: Profile, draw: &mut Draw) -> Profile {
    let (nand, geometry) = (profile.spec().raw.nand, profile.spec().geometry);
    let types = nand.program_us.value.len() as u64;
    let rows = nand.pages_per_block.value;
    let mb = |pages: u64| pages as f64 * 4096.0 / 1e6;
    let native = u64::from(geometry.superblock_pages);
    let own = draw.between("static_superblocks", 0, 3);
    let dynamic = draw.between("dynamic_superblocks", 0, 12).max(1 - own.min(1));
    let kept = draw.between("kept_superblocks", 2, 6);
    let sizes = [own, dynamic].map(|count| mb(count * native / rows * (rows / types)));
    let when_full = ["direct", "fold"][draw.between("waits_when_full", 0, 1) as usize];
    let ratio = draw.one_of("fold_percent", [0, 25, 100]) as f64 / 100.0;
    profile
        .set("nand.blocks_per_plane", (nand.blocks_per_plane.value + own) as i64)
        .slc_cache([sizes[0], sizes[1], mb(kept * native)], when_full, ratio)
        .with("slc_cache.program_us", draw.between("slc_program", 50, 100) as f64)
        .with("slc_cache.read_us", draw.between("slc_read", 15, 40) as f64)
}

/// Draws geometry, flash timing, buffer and spare space for `outstanding` pages.
fn flash(profile: Profile, draw: &mut Draw, kind: Kind, outstanding: u64) -> Profile {
    let reads = kind.read_percent == 100;
    let slowest_channel = if reads {
        150
    } else if kind.half_duplex || kind.slc_cache {
        500
    } else {
        300
    };
    let page_kib = draw.one_of("page_kib", [4, 8, 16]);
    let channels = draw.one_of("channels", if reads { [1, 2, 4] } else { [4, 4, 8] });
    let dies = draw.one_of("dies_per_channel", if reads { [1, 2, 4] } else { [2, 4, 4] });
    let planes = draw.one_of("planes", if kind.independent_planes { [2, 4] } else { [1, 2] });
    let row = channels * dies * planes * page_kib;
    let pages = 16_384 / row;
    let superblock_pages = pages * row / 4;
    let blocks = draw.between("blocks", 24, 40);
    let spare = draw.between("spare_superblocks", 9, 13);
    let rows = draw.between("buffer_rows", 3, 8).max((2 * outstanding).div_ceil(row / 4));
    let mb = |pages: u64| pages as f64 * 4096.0 / 1e6;
    let latencies = if kind.half_duplex { [0, 0, 0] } else { [0, 5, 20] };
    profile
        .set("nand.channels", channels as i64)
        .set("nand.dies_per_channel", dies as i64)
        .set("nand.planes", planes as i64)
        .set("nand.page_kib", page_kib as i64)
        .set("nand.blocks_per_plane", blocks as i64)
        .set("nand.pages_per_block", pages as i64)
        .set("nand.bad_superblocks", 0)
        .set("nand.read_us", draw.between("read", 20, 90) as f64)
        .set("nand.program_us", draw.programs(1 + u64::from(kind.slc_cache)))
        .set("nand.erase_us", draw.between("erase", 1000, 5000) as f64)
        .set("nand.suspend_us", draw.between("suspend", 5, 100) as f64)
        .set("nand.channel_mb_per_s", draw.between("channel", slowest_channel, 800) as f64)
        .set("nand.cache_program", true)
        .with("nand.variation.erase_percent", draw.between("erase_percent", 0, 10) as f64)
        .with("controller.decode_us", draw.one_of("decode", latencies) as f64)
        .set("write_buffer.size_kib", (rows * row) as i64)
        .set("drive.capacity_sectors", ((blocks - spare) * superblock_pages * 8) as i64)
        .set("gc.threshold_mb", mb(spare * superblock_pages / 10))
        .set("gc.target_mb", mb(11 * superblock_pages / 2))
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

    fn programs(&mut self, fewest_types: u64) -> Vec<f64> {
        let types = self.between("page_types", fewest_types, 3);
        (0..types).map(|i| (self.between("program", 100, 250) * (i + 1)) as f64).collect()
    }
}

/// Latencies of the last load on the model.
fn by_timelines(case: &Case) -> Vec<u64> {
    let mut device = Device::new(case.profile.spec(), SEED).expect("memory for a small drive");
    let mut latencies = Vec::new();
    for (depth, ios) in case.loads() {
        latencies = vec![0; ios.len()];
        let mut end = device.now();
        closed_loop(&mut device, depth, ios, |served| {
            let done = served.done;
            latencies[served.tag as usize] = done.since(served.submitted).0;
            end = end.max(done);
        });
        device.idle_until(end);
    }
    latencies
}

/// Latencies of the last load on the oracle.
fn by_events(case: &Case) -> Vec<u64> {
    let mut oracle = Oracle::new(case.profile.spec());
    let mut latencies = Vec::new();
    for (depth, ios) in case.loads() {
        latencies = oracle.run(depth, &ios);
    }
    latencies
}

/// Latencies sorted by size, without the first tenth of the requests.
fn sorted(latencies: &[u64]) -> Vec<u64> {
    let mut sorted = latencies[latencies.len() / 10..].to_vec();
    sorted.sort_unstable();
    sorted
}

fn mean(sorted: &[u64]) -> f64 {
    sorted.iter().map(|&ns| ns as f64).sum::<f64>() / sorted.len() as f64
}

/// Quantile in thousandths.
fn quantile(sorted: &[u64], thousandth: usize) -> f64 {
    sorted[sorted.len() * thousandth / 1000] as f64
}

/// Percent by which `got` is above `high` or below `low`.
fn off(got: f64, low: f64, high: f64) -> f64 {
    100.0 * (got / got.clamp(low, high) - 1.0)
}

/// Position of a case relative to its bounds.
enum Verdict {
    Within,
    /// Outside the bounds of its kind, with a command that reproduces it.
    Outside(String),
    /// Beyond [`FARTHEST`], with a command that reproduces it.
    Beyond(String),
}

/// Compares one case.
fn compare(case: &Case, name: &str) -> Verdict {
    let [model, exact] = [by_timelines(case), by_events(case)].map(|latencies| sorted(&latencies));
    let (exact_mean, exact_p99) = (mean(&exact), quantile(&exact, 990));
    let off_mean = off(mean(&model), exact_mean, exact_mean);
    let near = [990 - RANK, 990 + RANK].map(|rank| quantile(&exact, rank));
    let off_p99 = off(quantile(&model, 990), near[0], near[1]);
    let seed = case.seed;
    let line = format!(
        "{name} seed {seed}: mean {:.1} us, off {off_mean:+.2} %; p99 {:.1} us, off {off_p99:+.2} %",
        exact_mean / 1e3,
        exact_p99 / 1e3
    );
    println!("{line}");
    let within = |(mean, p99): (f64, f64)| off_mean.abs() <= mean && off_p99.abs() <= p99;
    let again =
        format!("ORACLE_SEED={seed} cargo test -p drivebay-drive --test all oracle::{name}");
    let words = format!("{line}\n ({})\n  replay: {again}\n", case.text);
    match () {
        () if within(case.kind.allowed) => Verdict::Within,
        () if within((FARTHEST.0.max(2.0 * case.kind.allowed.0), FARTHEST.1)) => {
            Verdict::Outside(words)
        }
        () => Verdict::Beyond(words),
    }
}

/// Checks all seeds of a kind, or the one in the environment.
#[track_caller]
fn check(name: &str, kind: Kind) {
    let one = std::env::var("ORACLE_SEED").ok().map(|s| s.parse().expect("ORACLE_SEED: a number"));
    let number = if repeated(SEEDS) < SEEDS { 1 } else { u64::from(SEEDS) };
    let seeds = one.map_or(0..number, |seed: u64| seed..seed + 1);
    let (mut outside, mut beyond, mut cases) = (Vec::new(), String::new(), 0);
    for seed in seeds {
        cases += 1;
        match compare(&Case::new(seed, kind), name) {
            Verdict::Within => {}
            Verdict::Outside(words) => outside.push(words),
            Verdict::Beyond(words) => beyond.push_str(&words),
        }
    }
    let (mean, p99) = kind.allowed;
    assert!(beyond.is_empty(), "allowed at the most: {FARTHEST:?} %\n{beyond}");
    let most = cases / OUTSIDE_ONE_IN;
    let words = outside.concat();
    assert!(outside.len() <= most, "allowed: mean {mean} %, p99 {p99} %, {most} outside\n{words}");
}

const SMALL: [u64; 6] = [1, 1, 1, 2, 2, 4];

const LARGE_TOO: [u64; 6] = [1, 2, 4, 8, 16, 32];
const WORN: Kind = Kind {
    read_percent: 0,
    blocks: [1; 6],
    sequential: false,
    worn: true,
    half_duplex: false,
    log: false,
    independent_planes: false,
    slc_cache: false,
    orders: false,
    resumed: "goes-on",
    allowed: (1.5, 8.0),
};
const FRESH: Kind =
    Kind { blocks: LARGE_TOO, sequential: true, worn: false, allowed: (1.0, 2.0), ..WORN };

#[test]
fn reads() {
    let allowed = (1.0, 8.0);
    check("reads", Kind { read_percent: 100, sequential: false, allowed, ..FRESH });
}

#[test]
fn independent_planes() {
    let kind = Kind { read_percent: 100, sequential: false, allowed: (1.0, 8.0), ..FRESH };
    check("independent_planes", Kind { independent_planes: true, ..kind });
}

#[test]
fn independent_planes_mixed() {
    let kind = Kind { read_percent: 50, blocks: LARGE_TOO, ..WORN };
    check("independent_planes_mixed", Kind { independent_planes: true, ..kind });
}

#[test]
fn mixed_70() {
    check("mixed_70", Kind { read_percent: 70, ..WORN });
}

#[test]
fn mixed_30() {
    check("mixed_30", Kind { read_percent: 30, ..WORN });
}

#[test]
fn mixed_large() {
    check("mixed_large", Kind { read_percent: 50, blocks: LARGE_TOO, ..WORN });
}

#[test]
fn circular_log() {
    let allowed = (1.5, 20.0);
    let kind = Kind { read_percent: 50, blocks: LARGE_TOO, log: true, allowed, ..WORN };
    check("circular_log", kind);
}

#[test]
fn half_duplex() {
    let allowed = (1.0, 5.0);
    let kind = Kind { read_percent: 50, blocks: LARGE_TOO, half_duplex: true, allowed, ..WORN };
    check("half_duplex", kind);
}

#[test]
fn random_writes() {
    check("random_writes", Kind { blocks: SMALL, allowed: (2.5, 4.0), ..WORN });
}

#[test]
fn sequential_writes() {
    check("sequential_writes", Kind { allowed: (1.0, 2.4), ..FRESH });
}

#[test]
fn orders() {
    check("orders", Kind { read_percent: 50, orders: true, ..WORN });
}

#[test]
fn orders_large() {
    check("orders_large", Kind { read_percent: 50, blocks: LARGE_TOO, orders: true, ..WORN });
}

#[test]
fn orders_reads() {
    let kind = Kind { read_percent: 100, sequential: false, allowed: (1.0, 8.0), ..FRESH };
    check("orders_reads", Kind { orders: true, independent_planes: true, ..kind });
}

#[test]
fn restarts() {
    check("restarts", Kind { read_percent: 50, resumed: "restarts", ..WORN });
}

#[test]
fn not_suspended() {
    check("not_suspended", Kind { read_percent: 50, resumed: "not-suspended", ..WORN });
}

#[test]
fn slc_cache() {
    let kind = Kind { read_percent: 30, blocks: LARGE_TOO, slc_cache: true, ..WORN };
    check("slc_cache", Kind { worn: false, allowed: (1.0, 2.0), ..kind });
}
