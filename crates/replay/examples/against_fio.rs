//! Compares the engine with fio in alternating runs: 4 KiB random reads at queue depth 32, and
//! thirty reads 100 ms apart at depth 4.
//!
//! `cargo run --release -p drivebay-replay --example against_fio -- FILE [SECONDS [ROUNDS]]` FILE
//! must exist, be filled with data, and support O_DIRECT; it is only read. Needs fio.

use std::path::Path;
use std::process::Command;

use drivebay_replay::{Control, Outcome, ReplayOptions, Target, replay};
use drivebay_trace::{Op, Placement, Request, Rule, TraceError};
use drivebay_units::{Nanos, Rng};

type Any = Box<dyn std::error::Error>;

const DEPTH: u32 = 32;

fn main() -> Result<(), Any> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: against_fio FILE [SECONDS [ROUNDS]]")?;
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let rounds = arguments.next().map_or(Ok(5), |text| text.parse())?.max(1);
    let bytes = std::fs::metadata(&path)?.len();
    println!("4 KiB random reads, queue depth {DEPTH}, {seconds} s each, reads per second:");
    println!("{:>8} {:>8} {:>6}", "ours", "fio", "ratio");
    let mut sums = (0.0, 0.0);
    let mut ratios = Vec::new();
    for round in 0..rounds {
        // The second one may profit from the first, so the order alternates.
        let (ours, fios) = if round % 2 == 0 {
            let ours = ours(&path, bytes, seconds)?;
            (ours, fio(&path, seconds)?)
        } else {
            let fios = fio(&path, seconds)?;
            (ours(&path, bytes, seconds)?, fios)
        };
        println!("{ours:8.0} {fios:8.0} {:6.3}", ours / fios);
        sums = (sums.0 + ours, sums.1 + fios);
        ratios.push(ours / fios);
    }
    ratios.sort_by(f64::total_cmp);
    println!("together {:.3}, median {:.3}", sums.0 / sums.1, ratios[rounds / 2]);
    thirty_reads(&path, bytes)?;
    thirty_reads_by_fio(&path)
}

fn ours(path: &str, bytes: u64, seconds: u64) -> Result<f64, Any> {
    let mut rng = Rng::new(1);
    // All requests are due at once, so the depth limits the outstanding ones.
    let mut block = move || {
        let offset = |_| rng.below(bytes / 4096) * 4096;
        (0..4096).map(offset).map(|offset| read(Nanos::ZERO, offset)).collect::<Vec<_>>()
    };
    let options =
        ReplayOptions { depth: DEPTH, length_max_s: Some(seconds as f64), ..only_reads() };
    let outcome = play(path, bytes, options, move || Some(Ok(block())))?;
    Ok(outcome.record.completed as f64 / outcome.length.as_secs_f64())
}

fn read(at: Nanos, offset_bytes: u64) -> Request {
    Request { at, offset_bytes, bytes: 4096, response: None, device: 0, op: Op::Read }
}

fn only_reads() -> ReplayOptions {
    ReplayOptions { only_reads: true, ..ReplayOptions::default() }
}

fn play(
    path: &str,
    bytes: u64,
    options: ReplayOptions,
    blocks: impl FnMut() -> Option<Result<Vec<Request>, TraceError>> + Send,
) -> Result<Outcome, Any> {
    let placement = Placement::new(Rule::Fold, bytes, 512, 0)?;
    let target = Target::open(Path::new(path), bytes, true, false)?;
    Ok(replay(blocks, target, &options, placement, &Control::default())?)
}

fn fio(path: &str, seconds: u64) -> Result<f64, Any> {
    let job = ["--rw=randread", "--bs=4k", "--time_based=1", "--norandommap=1", "--fixedbufs=1"];
    let runtime = format!("--runtime={seconds}");
    let depth = format!("--iodepth={DEPTH}");
    let out = run_fio(path, &[&job[..], &["--registerfiles=1", &runtime, &depth]].concat())?;
    number(&out, "iops")
}

fn run_fio(path: &str, options: &[&str]) -> Result<String, Any> {
    let done = Command::new("fio")
        .args(["--name=beside", "--ioengine=io_uring", "--direct=1", "--readonly"])
        .args(["--output-format=json", &format!("--filename={path}")])
        .args(options)
        .output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// Returns the first number with this name in the "read" section; enough for one job.
fn number(json: &str, name: &str) -> Result<f64, Any> {
    let section = json.split("\"read\" : {").nth(1).ok_or("fio gave no figures")?;
    let value = section.split(&format!("\"{name}\" : ")).nth(1).ok_or("fio gave no such figure")?;
    Ok(value.split([',', '\n']).next().unwrap_or_default().trim().parse()?)
}

const READS: u64 = 30;
const APART: Nanos = Nanos::millis(100);

fn place(n: u64) -> u64 {
    n * 7_919 % 1024 * 4096
}

fn thirty_reads(path: &str, bytes: u64) -> Result<(), Any> {
    for depth in [1, 4] {
        let reads: Vec<_> = (0..READS).map(|n| read(APART.times(n), place(n))).collect();
        let mut blocks = vec![Ok(reads)].into_iter();
        let options = ReplayOptions { depth, ..only_reads() };
        let outcome = play(path, bytes, options, move || blocks.next())?;
        let record = &outcome.record;
        println!(
            "30 reads 100 ms apart, depth {depth}: ours {:.0} us mean, {} late, at most {:.0} us, in {:.3} s",
            record.latency_ns_sum[0] as f64 / READS as f64 / 1e3,
            record.late,
            record.lateness_max.0 as f64 / 1e3,
            outcome.length.as_secs_f64()
        );
    }
    Ok(())
}

fn thirty_reads_by_fio(path: &str) -> Result<(), Any> {
    let log = std::env::temp_dir().join(format!("against_fio.{}.log", std::process::id()));
    let mut text = format!("fio version 3 iolog\n1 {path} add\n1 {path} open\n");
    for n in 0..READS {
        text += &format!("{} {path} read {} 4096\n", APART.times(n).0 / 1000 + 1, place(n));
    }
    std::fs::write(&log, text + &format!("{} {path} close\n", APART.times(READS).0 / 1000))?;
    for depth in [1, 4] {
        let read_log = format!("--read_iolog={}", log.display());
        let out = run_fio(path, &[&read_log, &format!("--iodepth={depth}")])?;
        let mean = out.split("\"lat_ns\" : {").nth(1).and_then(|s| s.split("\"mean\" : ").nth(1));
        let mean: f64 = mean.and_then(|s| s.split(',').next()).ok_or("no mean")?.trim().parse()?;
        println!("30 reads 100 ms apart, depth {depth}: fio {:.0} us mean", mean / 1e3);
    }
    Ok(std::fs::remove_file(log)?)
}
