//! Steady random writes or reads on a small drive, for `valgrind --tool=callgrind` and `perf`.
//!
//! Usage: steady [SECONDS] [READ_PERCENT] [full]. A drive with one die has the same code path per
//! I/O as one with 64; the cost of memory accesses shows only on the full one (1 GB).

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Spec};
use drivebay_run::{Control, Pattern, Stop, Workload, run};

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(100.0);
    let read_percent: f64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(0.0);
    let full = std::env::args().nth(3).is_some_and(|word| word == "full");
    let small = SM951_AHCI_512
        .replace("channels = { value = 8", "channels = { value = 1")
        .replace("dies_per_channel = { value = 8", "dies_per_channel = { value = 1")
        .replace("value = 1000215216", "value = 15628360")
        .replace(
            "threshold_mb = { value = 4900, range = [1000, 36000]",
            "threshold_mb = { value = 77",
        )
        .replace("target_mb = { value = 3000, range = [1000, 6000]", "target_mb = { value = 47")
        .replace("free_mb = { value = 33000, range = [10000, 35500]", "free_mb = { value = 5")
        .replace("program_us = { value = [420, 1244]", "program_us = { value = [13]")
        .replace("read_us = { value = 61.7, range = [40, 90]", "read_us = { value = 1")
        .replace(
            "read_by_type_us = { value = [52.9, 70.5], range = [35, 100]",
            "read_by_type_us = { value = [1]",
        )
        .replace(
            "channel_mb_per_s = { value = 360, range = [281, 400]",
            "channel_mb_per_s = { value = 9000",
        )
        .replace("erase_us = { value = 5000, range = [3000, 10000]", "erase_us = { value = 80")
        .replace(
            "module_to_air_k_per_w = { value = 10, range = [9, 12]",
            "module_to_air_k_per_w = { value = 0.01",
        );
    let text = if full { SM951_AHCI_512 } else { small.as_str() };
    let spec = Spec::from_family(WINDOWS_8_1_Z97, text).unwrap_or_else(|e| panic!("{e}"));
    let span_bytes = spec.capacity_bytes();
    let mut device = Device::new(spec, 1).expect("memory");
    let mut go = |pattern, read_percent, block_bytes, stop| {
        let load = Workload {
            pattern,
            read_percent,
            block_bytes,
            span_bytes,
            stop,
            ..Workload::default()
        };
        let begin = std::time::Instant::now();
        let outcome = run(&mut device, &load, 1, &Control::default()).expect("a possible load");
        let commands = outcome.after.commands - outcome.before.commands;
        let ns = begin.elapsed().as_nanos() as f64 / commands as f64;
        println!("{commands} I/Os, {ns:.0} ns each");
    };
    go(Pattern::Sequential, 0.0, 131_072, Stop::after_bytes(span_bytes));
    go(Pattern::Random, 0.0, 4096, Stop::after_s(if full { 3600.0 } else { 30.0 }));
    go(Pattern::Random, read_percent, 4096, Stop::after_s(seconds));
}
