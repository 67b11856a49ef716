//! Benchmarks of parsing text to requests, and of computing statistics.
#![allow(missing_docs)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Cursor;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use drivebay_trace::{Format, Given, Order, Reader, Stats, Trace};
use drivebay_units::Rng;

const LINES: u64 = 1_000_000;

/// A trace like those of MSR Cambridge: four streams and random writes.
fn msr() -> &'static [u8] {
    let mut rng = Rng::new(1);
    let mut text = String::new();
    let mut time = 128_166_372_003_061_629;
    let mut ends = [1 << 30, 5 << 30, 9 << 30, 13 << 30_u64];
    for _ in 0..LINES {
        time += rng.below(20_000);
        let stream = rng.below(8) as usize;
        let bytes = 4096 << rng.below(5);
        let offset = match ends.get_mut(stream) {
            Some(end) => {
                *end += bytes;
                *end - bytes
            }
            None => rng.below(1 << 25) * 4096,
        };
        let kind = if stream < 6 { "Read" } else { "Write" };
        let response = 300 + rng.below(50_000);
        writeln!(text, "{time},src1,1,{kind},{offset},{bytes},{response}").expect("in memory");
    }
    text.leak().as_bytes()
}

fn bench(c: &mut Criterion) {
    let text = msr();
    let mut group = c.benchmark_group("trace/parse");
    group.sample_size(10).throughput(Throughput::Elements(LINES));
    group.bench_function("msr", |b| {
        let mut requests = Vec::with_capacity(1 << 16);
        let given = Given { format: Some(Format::Msr), ..Given::default() };
        b.iter(|| {
            let mut reader = Reader::new(Cursor::new(text), "bench", &given).expect("readable");
            while reader.read(&mut requests, 1 << 16).expect("readable") {
                black_box(&requests);
                requests.clear();
            }
        });
    });
    group.finish();
    let mut group = c.benchmark_group("trace/info");
    group.sample_size(10).throughput(Throughput::Elements(LINES));
    group.bench_function("msr", |b| {
        b.iter(|| {
            let reader =
                Reader::new(Cursor::new(text), "bench", &Given::default()).expect("readable");
            let mut trace = Trace::new(reader, Order::Window);
            let mut stats = Stats::default();
            while let Some(block) = trace.next_block(&mut || true).expect("readable") {
                stats.add(block).expect("one device");
            }
            black_box(stats.info())
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
