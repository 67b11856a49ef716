//! One workload on a filled drive, as `drivebay.run` runs it from Python: `scripts/library_cost.py`
//! compares the two.
//!
//! Usage: one_load PROFILE.json READ_PERCENT IOS [EVENTS]: random 4 KiB at queue depth 32; keeps up
//! to EVENTS events. Prints the number of I/Os and the processor time in nanoseconds (Linux:
//! /proc/self/schedstat), so that other programs on the machine have little effect.

use drivebay_drive::{Device, Spec};
use drivebay_run::{Control, Keep, Pattern, Stop, Workload, run, run_keeping};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [profile, read_percent, ios, more @ ..] = &arguments[..] else {
        panic!("PROFILE.json READ_PERCENT IOS [EVENTS]")
    };
    let events = more.first().map_or(0, |events| events.parse().expect("a number"));
    let text = std::fs::read_to_string(profile).unwrap_or_else(|error| panic!("{error}"));
    let spec = Spec::from_json(&text).unwrap_or_else(|error| panic!("{error}"));
    let capacity = spec.capacity_bytes();
    let load = Workload {
        read_percent: read_percent.parse().expect("a share"),
        span_bytes: capacity,
        stop: Stop::after_bytes(ios.parse::<u64>().expect("a number") * 4096),
        ..Workload::default()
    };
    let mut fill = load.clone();
    fill.pattern = Pattern::Sequential;
    (fill.read_percent, fill.block_bytes, fill.stop.bytes) = (0.0, 131_072, Some(capacity));
    let mut device = Device::new(spec, 1).expect("memory");
    run(&mut device, &fill, 1, &Control::default()).expect("a possible load");
    let begin = on_processor();
    let keep = Keep { events, ..Keep::default() };
    let kept = run_keeping(&mut device, &load, 1, &Control::default(), keep);
    let outcome = kept.expect("a possible load").0;
    let ns = on_processor() - begin;
    println!("{} {ns}", outcome.after.commands - outcome.before.commands);
}

/// Processor time of this thread in nanoseconds.
fn on_processor() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}
