//! Steady state of garbage collection under its control loop, compared with closed forms and mean
//! fields.
//!
//! Write amplification follows from policy, load, and the spare space really in use: the physical
//! pages less those that stay free on average. No key of the profile sets it. Forms: greedy
//! Desnoyers (SYSTOR 2012), FIFO Xiang and Kurkoski (2012) with classes of pages as in Desnoyers
//! (TOS 2014), d-choices the mean field of Van Houdt (SIGMETRICS 2013). The last tests cover the
//! bottleneck, firmware or flash: program times matter only when the dies are busy.

use crate::formula::{assert_within, fifo_formula, greedy_formula};
use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Io, Op};
use drivebay_units::{Nanos, Rng};

const BLOCKS: u32 = 2048;
const PAGES: u32 = 64;
const USER: u64 = 122_096;

/// A drive without time, paced only by the control loop, with one frontier as in the closed forms.
fn paced(policy: &str, choices: i64) -> Device {
    profile(policy, choices).device()
}

fn profile(policy: &str, choices: i64) -> Profile {
    let megabytes = |pages: u32| f64::from(pages) * 4096.0 / 1e6;
    Profile::sm951()
        .one_die(BLOCKS, PAGES, USER as u32)
        .timeless()
        .set("gc.duty_limit_us", 10_000.0)
        .set("nand.channel_mb_per_s", 10_000.0)
        .set("gc.frontiers", "single")
        .set("gc.victim_policy", policy)
        .set("gc.choices", choices)
        .set("gc.threshold_mb", 0.0)
        .set("gc.target_mb", megabytes(16 * PAGES))
}

/// Writes every page once, in order.
fn fill(device: &mut Device) {
    one_by_one(device, (0..USER).map(|lpn| page(Op::Write, lpn)));
}

/// Amplification of `count` requests from `draw`, and the mean of free pages meanwhile.
fn measured(device: &mut Device, count: u64, mut draw: impl FnMut() -> Io) -> (f64, f64) {
    let before = device.counters();
    let (mut free, mut samples) = (0, 0);
    for _ in 0..count / 100 {
        one_by_one(device, (0..100).map(|_| draw()));
        (free, samples) = (free + device.ftl().free_pages(), samples + 1);
    }
    let after = device.counters();
    let placed = (after.placed_pages - before.placed_pages) as f64;
    (placed / (after.host_pages - before.host_pages) as f64, free as f64 / f64::from(samples))
}

/// Amplification in steady state under such requests, and physical over logical pages in use.
fn steady(policy: (&str, i64), pages: u64, draw: impl FnMut() -> Io) -> (f64, f64) {
    steady_of(paced(policy.0, policy.1), pages, draw)
}

fn steady_of(mut device: Device, pages: u64, mut draw: impl FnMut() -> Io) -> (f64, f64) {
    fill(&mut device);
    measured(&mut device, 4 * USER / pages, &mut draw);
    let (a, free) = measured(&mut device, 2 * USER / pages, &mut draw);
    (a, (f64::from(BLOCKS * PAGES) - free) / USER as f64)
}

/// Uniform random requests of `pages` aligned pages within the first `span` pages.
fn uniform(pages: u64, span: u64) -> impl FnMut() -> Io {
    let mut rng = Rng::new(5);
    move || Io::new(Op::Write, rng.below(span / pages) * pages * 8, pages as u32 * 8)
}

/// FIFO with classes of pages: (share of the pages, share of the writes). A page of a class is
/// still valid after a pass over the log with probability exp(-alpha r / (f A)).
fn fifo_of_classes(alpha: f64, classes: &[(f64, f64)]) -> f64 {
    let mut a = 2.0;
    for _ in 0..1000 {
        let appended = |&(f, r): &(f64, f64)| r / (1.0 - (-alpha * r / (f * a)).exp());
        a = 0.5 * (a + classes.iter().map(appended).sum::<f64>());
    }
    a
}

/// Mean field of d-choices (Van Houdt 2013), relaxed until it converges.
fn mean_field(alpha: f64, b: usize, d: i32) -> f64 {
    let mut pi = vec![0.0; b + 1];
    let filled = b as f64 / alpha;
    (pi[filled as usize], pi[filled as usize + 1]) = (1.0 - filled.fract(), filled.fract());
    let mut a = 0.0;
    for _ in 0..400_000 {
        let mut tail = vec![0.0; b + 2];
        for i in (0..=b).rev() {
            tail[i] = tail[i + 1] + pi[i];
        }
        let p = |i: usize| tail[i].powi(d) - tail[i + 1].powi(d);
        let kept: f64 = (0..=b).map(|j| j as f64 * p(j)).sum();
        let lambda = (b as f64 - kept) / (b as f64 / alpha);
        let change: Vec<f64> = (0..=b)
            .map(|i| {
                let above = if i < b { (i + 1) as f64 * pi[i + 1] } else { 0.0 };
                let full = if i == b { 1.0 } else { 0.0 };
                lambda * (above - i as f64 * pi[i]) - p(i) + full
            })
            .collect();
        pi.iter_mut().zip(change).for_each(|(pi, change)| *pi += 0.005 * change);
        a = b as f64 / (b as f64 - kept);
    }
    a
}

#[test]
fn uniform_random_writes_meet_the_closed_forms() {
    let (a, alpha) = steady(("greedy", 1), 1, uniform(1, USER));
    assert_within(a, greedy_formula(alpha, f64::from(PAGES)), 3.0);
    let (a, alpha) = steady(("fifo", 1), 1, uniform(1, USER));
    assert_within(a, fifo_formula(alpha), 3.0);
}

#[test]
fn two_choices_meet_the_mean_field_at_the_default_spare() {
    let (a, alpha) = steady(("d-choices", 2), 1, uniform(1, USER));
    assert_within(a, mean_field(alpha, PAGES as usize, 2), 3.0);
}

/// A circular log also moves data that nobody writes: such a class costs as much as any other page.
#[test]
fn data_that_is_never_written_again_costs_a_circular_log_its_copies() {
    for written in [0.8, 0.4] {
        let span = (USER as f64 * written) as u64;
        let mut rng = Rng::new(11);
        let first = USER - span;
        let (a, alpha) = steady(("fifo", 1), 1, || page(Op::Write, first + rng.below(span)));
        assert_within(a, fifo_of_classes(alpha, &[(written, 1.0), (1.0 - written, 1e-9)]), 3.0);
    }
}

#[test]
fn hot_and_cold_pages_meet_the_form_of_their_classes() {
    let mut rng = Rng::new(9);
    let (a, alpha) = steady(("fifo", 1), 1, || {
        let (hot, cold) = (USER / 5, USER - USER / 5);
        let lpn = if rng.below(100) < 80 { rng.below(hot) } else { hot + rng.below(cold) };
        page(Op::Write, lpn)
    });
    assert_within(a, fifo_of_classes(alpha, &[(0.2, 0.8), (0.8, 0.2)]), 3.0);
}

#[test]
fn zipf_writes_meet_the_form_of_their_classes() {
    // Ranks in 64 classes of equal size, of weights 1 / rank.
    const CLASSES: usize = 64;
    let total: f64 = (1..=CLASSES).map(|rank| 1.0 / rank as f64).sum();
    let weights: Vec<f64> = (1..=CLASSES).map(|rank| 1.0 / rank as f64 / total).collect();
    let classes: Vec<(f64, f64)> = weights.iter().map(|&r| (1.0 / CLASSES as f64, r)).collect();
    let size = USER / CLASSES as u64;
    let mut rng = Rng::new(13);
    let (a, alpha) = steady(("fifo", 1), 1, || {
        let mut left = rng.below(1 << 32) as f64 / 2f64.powi(32);
        let class = weights.iter().position(|w| {
            left -= w;
            left < 0.0
        });
        page(Op::Write, class.unwrap_or(CLASSES - 1) as u64 * size + rng.below(size))
    });
    assert_within(a, fifo_of_classes(alpha, &classes), 3.0);
}

/// Data that is never overwritten is in full blocks that greedy never takes.
#[test]
fn a_smaller_span_has_more_spare_space() {
    let span = USER * 3 / 4;
    let (a, alpha) = steady(("greedy", 1), 1, uniform(1, span));
    let alpha = (alpha * USER as f64 - (USER - span) as f64) / span as f64;
    assert_within(a, greedy_formula(alpha, f64::from(PAGES)), 3.0);
}

/// Blocks of 32 requests and more: with fewer, many blocks are still full when they are the oldest,
/// and are skipped.
#[test]
fn the_size_of_requests_does_not_matter_to_fifo() {
    for pages in [4, 8] {
        let larger = profile("fifo", 1)
            .set("nand.blocks_per_plane", i64::from(BLOCKS / 4))
            .set("nand.pages_per_block", i64::from(PAGES * 4));
        let (a, alpha) = steady_of(larger.device(), pages, uniform(pages, USER));
        assert_within(a, fifo_formula(alpha), 3.0);
    }
}

/// Sequential writes empty the blocks that random writes have mixed: little is left to copy.
#[test]
fn amplification_falls_when_writes_turn_sequential() {
    let mut device = profile("greedy", 1).set("gc.frontiers", "separate").device();
    fill(&mut device);
    let random = measured(&mut device, 4 * USER, uniform(1, USER)).0;
    let mut next = 0;
    let mut quarter = || {
        measured(&mut device, USER / 4, || {
            next += 1;
            page(Op::Write, next - 1)
        })
        .0
    };
    let quarters: Vec<f64> = (0..4).map(|_| quarter()).collect();
    assert!(quarters[0] < random && quarters.is_sorted_by(|a, b| a > b), "{random}, {quarters:?}");
    assert!(quarters[3] < 0.5 * random, "{random}, {quarters:?}");
}

/// An empty victim pays the debt; the one after it, half overwritten now, is empty when its turn
/// comes.
#[test]
fn sequential_overwrites_copy_nothing_once_random_ones_are_gone() {
    let eight = f64::from(8 * PAGES) * 4096.0 / 1e6;
    let profile = profile("greedy", 1).set("gc.frontiers", "separate");
    let mut device = profile.set("gc.threshold_mb", eight).device();
    let mut next = 0;
    let mut pass = || {
        let sequential = || {
            next = (next + 1) % USER;
            page(Op::Write, next)
        };
        measured(&mut device, USER, sequential).0
    };
    let passes = [pass(), pass(), pass(), pass()];
    assert!(passes[3] < 1.001, "{passes:?}");
}

/// Results of random writes in steady state.
struct Steady {
    per_s: f64,
    amplification: f64,
    /// Busy shares of the time: host, link, flash core, channels, dies.
    busy: [f64; 5],
}

/// Random writes on 16 dies whose programs take `program_times` as long.
fn random_writes(program_times: f64) -> Steady {
    let profile = Profile::sm951()
        .cool()
        .set("nand.dies_per_channel", 2)
        .set("nand.blocks_per_plane", 64)
        .set("nand.pages_per_block", 16)
        .set("nand.bad_superblocks", 0)
        .set("nand.program_us", vec![420.0 * program_times, 1244.0 * program_times])
        .set("nand.erase_us", 300.0)
        .set("drive.capacity_sectors", 960_000)
        .set("gc.threshold_mb", 5.0)
        .set("gc.target_mb", 20.0);
    let (mut device, spec) = (profile.device(), profile.spec());
    let user = 960_000 / 8;
    one_by_one(&mut device, (0..user).map(|lpn| page(Op::Write, lpn)));
    let mut rng = Rng::new(11);
    let mut random = |device: &mut Device, count| {
        at_depth(device, 32, (0..count).map(|_| page(Op::Write, rng.below(user))))
    };
    let begin = random(&mut device, 4 * user);
    let before = device.counters();
    device.idle_until(begin);
    let ns = random(&mut device, 2 * user).since(begin).0 as f64;
    let after = device.counters();
    let [placed, hosted, copied, reads, erases, core] = [
        after.placed_pages - before.placed_pages,
        after.host_pages - before.host_pages,
        after.copied_pages - before.copied_pages,
        after.page_reads - before.page_reads,
        after.erases - before.erases,
        after.core_busy_ns - before.core_busy_ns,
    ]
    .map(|count| count as f64);
    let (n, g) = (&spec.nand, &spec.geometry);
    let dies = f64::from(g.dies());
    let program = (n.program[0].0 + n.program[1].0) as f64 / 2.0;
    let array = reads * n.read.0 as f64
        + placed / f64::from(1u32 << (g.page_shift + g.plane_shift)) * program
        + erases * dies * n.erase.0 as f64;
    let bytes_ns = |pages: f64, fs_per_byte: u64| pages * 4096.0 * fs_per_byte as f64 / 1e6;
    let channels = f64::from(g.channel_mask + 1);
    let busy = [
        hosted * spec.host.serial.0 as f64,
        bytes_ns(hosted, spec.link.down_fs_per_byte),
        core,
        bytes_ns(placed + copied, n.channel_fs_per_byte) / channels,
        array / dies,
    ];
    Steady {
        per_s: hosted / ns * 1e9,
        amplification: placed / hosted,
        busy: busy.map(|busy| busy / ns),
    }
}

/// With programs of four times the length, the dies are the limit and slow the host. Free space is
/// a little lower, and so is amplification. `--nocapture` prints the busy share of each resource.
#[test]
fn program_times_decide_when_the_dies_are_busy_and_only_then() {
    println!("tPROG    IOPS   amplification   host   link   core   channels   dies, % busy");
    let [usual, fast, slow] = [1.0, 0.5, 4.0].map(|times| {
        let steady = random_writes(times);
        let [host, link, core, channels, dies] = steady.busy.map(|share| 100.0 * share);
        println!(
            "x{times:<5} {:6.0}   {:13.2}   {host:4.1}   {link:4.1}   {core:4.1}   {channels:8.1}   {dies:4.1}",
            steady.per_s, steady.amplification
        );
        steady
    });
    let [core, dies] = [2, 4];
    assert_within(fast.per_s, usual.per_s, 1.0);
    assert!(usual.busy[core] > 0.98 && fast.busy[core] > 0.98, "{:?}", usual.busy);
    assert!(usual.busy[dies] < 0.8 && fast.busy[dies] < 0.5, "{:?}", usual.busy);
    assert!(slow.per_s < 0.6 * usual.per_s, "{} of {}", slow.per_s, usual.per_s);
    assert!(slow.busy[dies] > 0.7 && slow.busy[dies] < 1.01, "{:?}", slow.busy);
    assert_within(slow.amplification, usual.amplification, 15.0);
}

/// Times differ between places: percentiles have a tail, and the mean stays.
#[test]
fn read_times_differ_from_page_to_page() {
    let mut device = Profile::sm951()
        .with("nand.variation.block_percent", 2.0)
        .with("nand.variation.page_percent", 4.0)
        .with("nand.variation.erase_percent", 8.0)
        .device();
    one_by_one(&mut device, (0..65_536).map(|lpn| page(Op::Write, lpn)));
    device.idle_until(device.now().after(Nanos::secs(1)));
    let mut times: Vec<u64> = (0..20_000)
        .map(|i| {
            let now = device.now().after(Nanos::micros(200));
            device
                .submit(now, page(Op::Read, i * 3 % 65_536))
                .expect("on the drive")
                .done
                .since(now)
                .0
        })
        .collect();
    times.sort_unstable();
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
    assert_within(mean, 87_743.0, 0.5);
    let (median, tail) = (times[10_000], times[19_998]);
    assert!(tail > median + 6_000 && tail < median + 15_000, "{median} and {tail} ns");
}

/// After word lines, garbage collection runs once for all pages of a word line of all planes of a
/// die, and write amplification is that of collection after each command.
#[test]
fn collection_behind_word_lines_comes_in_batches_of_the_same_sum() {
    let (page_types, planes) = (3, 4);
    let of = |behind: &str| {
        let profile = profile("greedy", 1)
            .set("nand.planes", planes)
            .set("nand.blocks_per_plane", i64::from(BLOCKS) / planes)
            .set("nand.pages_per_block", i64::from(PAGES) - 1)
            .set("nand.program_us", vec![1.0; page_types])
            .with("gc.runs_behind", behind);
        let mut device = profile.device();
        let mut rng = Rng::new(5);
        fill(&mut device);
        one_by_one(&mut device, (0..3 * USER).map(|_| page(Op::Write, rng.below(USER))));
        let copied = std::iter::repeat_with(|| {
            let before = device.counters().copied_pages;
            one_by_one(&mut device, [page(Op::Write, rng.below(USER))]);
            device.counters().copied_pages - before
        });
        (copied.take(100_000).collect::<Vec<u64>>(), page_types * planes as usize)
    };
    let [(each, _), (batches, word_line)] = ["commands", "word-lines"].map(of);
    let sum = |copied: &[u64]| copied.iter().sum::<u64>() as f64;
    assert_within(sum(&batches), sum(&each), 1.0);
    let at: Vec<usize> = (0..batches.len()).filter(|&i| batches[i] > 0).collect();
    let apart = at.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(apart.clone().all(|writes| writes % word_line == 0), "{word_line}");
    let mean = apart.sum::<usize>() as f64 / (at.len() - 1) as f64;
    assert!(mean < 1.1 * word_line as f64, "{mean}");
    let most = each.iter().max().expect("some");
    assert!(batches.iter().max().expect("some") > &(5 * most), "{most}");
}
