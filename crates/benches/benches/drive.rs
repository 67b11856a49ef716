//! Benchmarks of the hot paths, separately and end to end: `cargo bench -p drivebay-benches`.
//!
//! Machines are noisy: compare only numbers of the same run.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Calendar, Device, Spec};
use drivebay_run::{Control, Histogram, Pattern, Stop, Workload, run};
use drivebay_units::{Nanos, Rng};

const SEED: u64 = 1;
const IOS: u64 = 100_000;

/// The catalog's SM951, cooled, with a share of its blocks.
fn spec(blocks_per_plane: u64) -> Spec {
    let sectors = 1_000_215_216 * blocks_per_plane / 1024 / 8 * 8 - 4_000_000;
    let share = blocks_per_plane as f64 / 1024.0;
    let text = SM951_AHCI_512
        .replace(
            "blocks_per_plane = { value = 1024",
            &format!("blocks_per_plane = {{ value = {blocks_per_plane}"),
        )
        .replace("value = 1000215216", &format!("value = {sectors}"))
        .replace(
            "threshold_mb = { value = 4900, range = [1000, 36000]",
            &format!("threshold_mb = {{ value = {}", 4900.0 * share),
        )
        .replace(
            "module_to_air_k_per_w = { value = 10, range = [9, 12]",
            "module_to_air_k_per_w = { value = 0.01",
        );
    Spec::from_family(WINDOWS_8_1_Z97, &text).unwrap_or_else(|e| panic!("{e}"))
}

fn load(
    pattern: Pattern,
    read_percent: f64,
    block_bytes: u64,
    span_bytes: u64,
    ios: u64,
) -> Workload {
    Workload {
        pattern,
        read_percent,
        block_bytes,
        span_bytes: span_bytes / block_bytes * block_bytes,
        stop: Stop::after_bytes(ios * block_bytes),
        ..Workload::default()
    }
}

/// Runs a workload with new addresses each time: repeated addresses would be a hot spot instead of
/// a steady state.
fn go(device: &mut Device, workload: &Workload) {
    let seed = SEED + device.counters().commands;
    run(device, workload, seed, &Control::default()).expect("a possible load");
}

/// Creates a filled drive.
fn filled(blocks_per_plane: u64) -> Device {
    let spec = spec(blocks_per_plane);
    let capacity = spec.capacity_bytes();
    let mut device = Device::new(spec, SEED).expect("memory");
    go(&mut device, &load(Pattern::Sequential, 0.0, 131_072, capacity, capacity / 131_072));
    device
}

fn resources(c: &mut Criterion) {
    let mut group = c.benchmark_group("drive/calendar");
    group.throughput(Throughput::Elements(1000));
    group.bench_function("1000_transfers", |b| {
        b.iter_batched(
            || (Calendar::default(), Rng::new(SEED)),
            |(mut calendar, mut rng)| {
                for i in 0..1000u64 {
                    let now = Nanos(i * 20_000);
                    calendar.reserve(now, now.after(Nanos(rng.below(100_000))), Nanos(14_576));
                }
                calendar
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
    let mut group = c.benchmark_group("run/histogram");
    group.throughput(Throughput::Elements(1000));
    let mut histogram = Histogram::default();
    group.bench_function("1000_values", |b| {
        b.iter(|| (0..1000u64).for_each(|i| histogram.record(80_000 + i * 37)));
    });
    group.finish();
}

fn drives(c: &mut Criterion) {
    for (size, blocks) in [("32GB", 64), ("512GB", 1024)] {
        let mut device = filled(blocks);
        let capacity = device.spec().capacity_bytes();
        let mut group = c.benchmark_group("drive");
        group.sample_size(20);
        group.throughput(Throughput::Elements(IOS));
        let random = |reads| load(Pattern::Random, reads, 4096, capacity, IOS);
        group.bench_function(format!("randread_4k/{size}"), |b| {
            b.iter(|| go(&mut device, &random(100.0)))
        });
        let sequential = load(Pattern::Sequential, 0.0, 131_072, capacity, IOS);
        group.bench_function(format!("seqwrite_128k/{size}"), |b| {
            b.iter(|| go(&mut device, &sequential))
        });
        // Up to steady state: as many random writes as in an hour of the consistency test.
        let age = load(Pattern::Random, 0.0, 4096, capacity, 30_000_000 * blocks / 1024);
        go(&mut device, &age);
        group.bench_function(format!("randwrite_4k_steady/{size}"), |b| {
            b.iter(|| go(&mut device, &random(0.0)));
        });
        group.finish();
    }
}

criterion_group!(benches, resources, drives);
criterion_main!(benches);
