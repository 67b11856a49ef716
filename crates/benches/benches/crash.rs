//! Benchmarks of enumerating crash states, and of showing them one after the other.
#![allow(missing_docs)]

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use drivebay_crash::{Header, Op, Recorder, Recording, Rules, States, View};
use drivebay_units::Rng;

const WRITES: u64 = 100_000;
const SECTORS: u64 = 1 << 21;
const SHOWN: usize = 1000;

/// A database's writes: random pages, two thirds of them single blocks, and a flush after every
/// `each` writes.
fn recording(folder: &Path, each: u64) -> PathBuf {
    let path = folder.join(format!("recording-{each}"));
    std::fs::remove_file(&path).ok();
    let rules = Rules {
        buffer_bytes: 8 << 20,
        atomic_bytes: 4096,
        protected: false,
        ignores_flush: false,
        standard: None,
    };
    let header = Header { sectors: SECTORS, rules: Some(rules), ..Header::default() };
    let mut recorder = Recorder::create(&path, &header).expect("a new file");
    let mut rng = Rng::new(1);
    let mut number = 0;
    let mut command = |op, lba, data: &[u8]| {
        recorder.submitted(number, number, (op, false), (lba, data.len() as u64 / 512), data);
        recorder.completed(number, number, true);
        number += 1;
    };
    for write in 0..WRITES {
        let blocks = [1, 1, 4][rng.below(3) as usize];
        let mut data = vec![0; blocks * 4096];
        data.chunks_mut(8).for_each(|word| word.copy_from_slice(&rng.next_u64().to_le_bytes()));
        command(Op::Write, rng.below(SECTORS / 8 - 4) * 8, &data);
        if write % each == each - 1 {
            command(Op::Flush, 0, &[]);
        }
    }
    recorder.end().expect("written");
    path
}

fn bench(c: &mut Criterion) {
    let folder = std::env::temp_dir().join(format!("drivebay-crash-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut group = c.benchmark_group("crash");
    group.sample_size(10).throughput(Throughput::Elements(WRITES));
    let open = |path: &Path| {
        States::new(Recording::open(path).expect("a recording"), None, None).expect("rules")
    };
    for each in [5, 1000] {
        let path = recording(&folder, each);
        group.bench_function(format!("enumerate, a flush behind {each} writes"), |b| {
            b.iter(|| black_box(open(&path).enumerate(100_000, 1).expect("readable").0.len()));
        });
    }
    let states = open(&recording(&folder, 5));
    let (names, _) = states.enumerate(100_000, 1).expect("readable");
    let names = &names[names.len() / 2..][..SHOWN];
    group.throughput(Throughput::Elements(SHOWN as u64));
    group.bench_function("show", |b| {
        let file = folder.join("state");
        let mut view = View::create(&file).expect("a new file");
        view.show(&states, &names[0]).expect("a state");
        b.iter(|| {
            let shown = names.iter().map(|name| view.show(&states, name).expect("a state"));
            black_box(shown.sum::<usize>())
        });
        std::fs::remove_file(&file).ok();
    });
    group.finish();
    std::fs::remove_dir_all(&folder).ok();
}

criterion_group!(benches, bench);
criterion_main!(benches);
