//! The Storage Bench on a catalog drive: `storage_bench NAME [SCALE] [full] [heatsink]`.
//!
//! For measurements and `perf`; the actual program is `drivebay replay`. The drive is the SM951 512
//! GB (AHCI).

use std::time::Instant;

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Spec};
use drivebay_run::{Control, Pattern, ReplayOptions, Stop, Workload, replay, run};
use drivebay_trace::{Pace, Profile, Rule, Synth};
use drivebay_units::Nanos;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = words.first().map_or("light", String::as_str);
    let scale = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1.0);
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let text = if has("heatsink") {
        SM951_AHCI_512.replace(
            "module_to_air_k_per_w = { value = 10, range = [9, 12]",
            "module_to_air_k_per_w = { value = 3",
        )
    } else {
        SM951_AHCI_512.to_string()
    };
    let spec = Spec::from_family(WINDOWS_8_1_Z97, &text).unwrap_or_else(|e| panic!("{e}"));
    let span_bytes = spec.capacity_bytes();
    let mut device = Device::new(spec, 1).expect("memory");
    if has("full") {
        let fill = Workload {
            pattern: Pattern::Sequential,
            block_bytes: 131_072,
            span_bytes: span_bytes / 131_072 * 131_072,
            stop: Stop::after_bytes(span_bytes / 131_072 * 131_072),
            ..Workload::default()
        };
        run(&mut device, &fill, 1, &Control::default()).expect("a possible load");
        device.idle_until(device.now().after(Nanos::secs(1800)));
    }
    let text = match words.iter().find(|word| word.ends_with(".toml")) {
        Some(path) => std::fs::read_to_string(path).expect("a profile"),
        None => Profile::text(name).expect("a name").to_string(),
    };
    let profile = Profile::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut source = Synth::new(profile, scale, 1).unwrap_or_else(|e| panic!("{e}"));
    let plan = ReplayOptions {
        pace: Pace::idle_capped(Nanos::millis(25)),
        rule: Rule::Fold,
        recorded_bytes: source.extent_bytes(),
        trim: false,
        handle_by_device: false,
        events: 0,
    };
    let begin = Instant::now();
    let done = replay(&mut device, &mut source, &plan, &Control::default()).expect("a replay");
    let took = begin.elapsed().as_secs_f64();
    let out = &done.outcome;
    let rows = &out.recorder.rows;
    let sum =
        |of: fn(&drivebay_run::Row) -> u64| rows.iter().map(|row| of(row) as f64).sum::<f64>();
    let ios = sum(|r| r.io.ios());
    let bytes = sum(|r| r.io.bytes());
    let mean_us = sum(|r| r.io.latency_ns_sum) / ios / 1e3;
    let busy = done.depths.busy.as_secs_f64();
    println!(
        "{ios} I/Os in {took:.2} s; drive time {:.0} s",
        out.end.since(out.start).as_secs_f64()
    );
    println!(
        "{:.1} MB/s busy ({busy:.0} s), {mean_us:.1} us, outstanding {:.2} (Little {:.2}), max {}",
        bytes / busy / 1e6,
        done.depths.mean,
        ios / busy * mean_us / 1e6,
        done.depths.max
    );
    println!(
        "over 10 ms {:.3} %, over 100 ms {:.4} %; hottest {:.1} C, throttled {:.0} s; waf {:.2}",
        done.long[0] as f64 / ios * 100.0,
        done.long[1] as f64 / ios * 100.0,
        out.recorder.sensors.iter().map(|s| s.temperature_c).fold(0.0, f64::max),
        (out.after.throttled_ns - out.before.throttled_ns) as f64 / 1e9,
        (out.after.placed_pages - out.before.placed_pages) as f64
            / (out.after.host_pages - out.before.host_pages) as f64,
    );
    for (write, histogram) in out.recorder.histograms.iter().enumerate() {
        let (mut n, mut t) = (0, 0.0);
        for bin in histogram.bins() {
            n += bin.count;
            t += bin.count as f64 * (bin.low + bin.high) as f64 / 2e3;
        }
        println!("{}: {n}, mean {:.1} us", ["reads", "writes"][write], t / n as f64);
    }
}
