//! One load on one filled drive, as `drivebay.run` does it from Python: `scripts/library_cost.py`
//! compares the two.
//!
//! Usage: one_load PROFILE.json WORKLOAD.json. Prints the load's I/Os and the nanoseconds of processor
//! time that it took (Linux: /proc/self/schedstat), so that other programs on the machine matter little.

use drivebay_drive::{Device, Spec};
use drivebay_run::{Control, Workload, run};

fn main() {
    let read = |place: usize| {
        let path = std::env::args().nth(place).expect("PROFILE.json WORKLOAD.json");
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let spec = Spec::from_json(&read(1)).unwrap_or_else(|error| panic!("{error}"));
    let load: Workload = serde_json::from_str(&read(2)).expect("a workload");
    let mut fill = load.clone();
    fill.pattern = drivebay_run::Pattern::Sequential;
    (fill.read_percent, fill.block_bytes) = (0, 131_072);
    (fill.stop.bytes, fill.stop.duration_s) = (Some(spec.capacity_bytes()), None);
    let mut device = Device::new(spec, 1).expect("memory");
    run(&mut device, &fill, 1, &Control::default()).expect("a possible load");
    let begin = on_processor();
    let outcome = run(&mut device, &load, 1, &Control::default()).expect("a possible load");
    let ns = on_processor() - begin;
    println!("{} {ns}", outcome.after.commands - outcome.before.commands);
}

/// Nanoseconds that this thread has run.
fn on_processor() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}
