//! Tests of the engine on real files through the real kernel. On file systems without O_DIRECT
//! (tmpfs), the tests use the page cache; the checks are the same.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use drivebay_replay::{
    Control, EndReason, Mode, Outcome, ReplayError, ReplayOptions, Skipped, Target, replay,
};
use drivebay_trace::{Op, Placement, Request, Rule, TraceError};
use drivebay_units::{Nanos, Rng};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;

/// Opens with direct I/O if possible.
fn target(path: &Path, capacity_bytes: u64, write: bool) -> Target {
    match Target::open(path, capacity_bytes, true, write) {
        Err(ReplayError::NoDirect { .. }) => {
            Target::open(path, capacity_bytes, false, write).expect("a file of ours")
        }
        opened => opened.expect("a file of ours"),
    }
}

fn file(bytes: u64) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&vec![0x5a; bytes as usize]).expect("room for it");
    file.as_file().sync_all().expect("a disk");
    file
}

fn options() -> ReplayOptions {
    ReplayOptions { mode: Mode::Dependencies, depth: 16, ..ReplayOptions::default() }
}

fn placement() -> Placement {
    Placement::new(Rule::Fold, SIZE, 512, 0).expect("64 MiB")
}

fn request(op: Op, offset_bytes: u64, bytes: u64) -> Request {
    Request { at: Nanos::ZERO, offset_bytes, bytes, response: None, device: 0, op }
}

fn play(requests: Vec<Request>, target: Target, options: &ReplayOptions) -> Outcome {
    let mut blocks = vec![Ok::<_, TraceError>(requests)].into_iter();
    replay(move || blocks.next(), target, options, placement(), &Control::default())
        .expect("io_uring")
}

#[test]
fn reads_writes_flushes_and_trims_reach_the_file_and_nothing_else() {
    let file = file(SIZE);
    let requests = vec![
        request(Op::Write, MIB, 8192),
        request(Op::Write, SIZE - 512, 512),
        request(Op::Read, 5 * MIB, 128 * 1024),
        request(Op::Flush, 0, 0),
        request(Op::Trim, 8 * MIB, MIB),
        // Beyond the end: folded to 3 MiB.
        request(Op::Write, SIZE + 3 * MIB, 4096),
    ];
    let options = ReplayOptions { trim: true, ..options() };
    let outcome = play(requests, target(file.path(), SIZE, true), &options);
    let record = &outcome.record;
    assert_eq!(outcome.ended, EndReason::Complete);
    assert_eq!((record.completed, record.failed()), (6, 0), "{:?}", record.listed);
    let row = record.rows.iter().fold((0, 0, 0, 0), |sum, row| {
        (sum.0 + row.reads, sum.1 + row.writes, sum.2 + row.read_bytes, sum.3 + row.write_bytes)
    });
    assert_eq!(row, (1, 3, 128 * 1024, 8192 + 512 + 4096));
    let mut now = Vec::new();
    std::io::Read::read_to_end(&mut file.reopen().expect("ours"), &mut now).expect("readable");
    assert_eq!(now.len() as u64, SIZE);
    let changed = |at: u64, bytes: u64| {
        now[at as usize..(at + bytes) as usize].iter().filter(|byte| **byte != 0x5a).count() as u64
    };
    for (at, bytes) in [(MIB, 8192), (SIZE - 512, 512), (3 * MIB, 4096)] {
        assert!(changed(at, bytes) > bytes * 9 / 10, "random bytes at {at}");
    }
    assert_eq!(changed(8 * MIB, MIB), MIB);
    let all = changed(0, SIZE);
    assert!(all <= MIB + 8192 + 512 + 4096, "{all} bytes have changed");
}

#[test]
fn a_replay_of_reads_only_changes_nothing() {
    let file = file(SIZE);
    let requests = vec![
        request(Op::Write, 0, 4096),
        request(Op::Read, 0, 4096),
        request(Op::Flush, 0, 0),
        request(Op::Trim, 0, MIB),
    ];
    let options = ReplayOptions { only_reads: true, trim: true, ..options() };
    // Opened for reading only: a write would fail.
    let outcome = play(requests, target(file.path(), SIZE, false), &options);
    assert_eq!((outcome.record.completed, outcome.record.failed()), (1, 0));
    assert_eq!(outcome.skipped, Skipped { writes: 1, trims: 1, flushes: 1 });
    let mut now = [0; 4096];
    file.as_file().read_exact_at(&mut now, 0).expect("readable");
    assert_eq!(now, [0x5a; 4096]);
}

#[test]
fn a_read_beyond_the_end_of_a_shrunken_file_is_a_failure_with_its_place() {
    let file = file(SIZE);
    let opened = target(file.path(), SIZE, false);
    file.as_file().set_len(SIZE / 2).expect("ours");
    let requests = vec![
        request(Op::Read, 0, 4096),
        request(Op::Read, SIZE / 2 - 4096, 8192),
        request(Op::Read, SIZE - 4096, 4096),
    ];
    let outcome = play(requests, opened, &options());
    assert_eq!(outcome.ended, EndReason::Complete);
    assert_eq!(outcome.record.failures.get(&(Op::Read, 0)), Some(&2));
    let places: Vec<_> =
        outcome.record.listed.iter().map(|f| (f.number, f.command.offset_bytes)).collect();
    assert_eq!(places.len(), 2);
    assert!(places.contains(&(1, SIZE / 2 - 4096)) && places.contains(&(2, SIZE - 4096)));
    assert_eq!(outcome.record.latency[0].bins().map(|bin| bin.count).sum::<u64>(), 1);
}

#[test]
fn requests_longer_than_the_memory_fail_unsent() {
    let file = file(SIZE);
    let requests = vec![request(Op::Read, 0, 48 * MIB), request(Op::Read, 0, 32 * MIB)];
    let outcome = play(requests, target(file.path(), SIZE, false), &options());
    assert_eq!(outcome.record.failures.get(&(Op::Read, libc::EFBIG)), Some(&1));
    assert_eq!((outcome.record.issued, outcome.record.completed), (1, 1));
}

#[test]
fn every_request_comes_back_from_a_busy_queue() {
    let file = file(SIZE);
    let mut requests = Vec::new();
    for n in 0..20_000u64 {
        let op = if n % 3 == 0 { Op::Write } else { Op::Read };
        let bytes = 512 << (n % 9);
        requests.push(request(op, n * 104_729 * 512 % (SIZE - bytes) / 512 * 512, bytes));
    }
    let bytes: u64 = requests.iter().map(|request| request.bytes).sum();
    let options = ReplayOptions { depth: 64, ..options() };
    let outcome = play(requests, target(file.path(), SIZE, true), &options);
    let record = &outcome.record;
    assert_eq!((record.completed, record.failed(), outcome.unanswered), (20_000, 0, 0));
    assert_eq!(record.rows.iter().map(|row| row.bytes()).sum::<u64>(), bytes);
    assert!(record.outstanding_max <= 64 && record.outstanding_max > 8);
    assert_eq!(file.as_file().metadata().expect("ours").len(), SIZE);
}

#[test]
fn requests_that_are_all_due_keep_the_queue_full() {
    let file = file(SIZE);
    let mut rng = Rng::new(1);
    let mut block = move || {
        let offsets = (0..1024).map(|_| rng.below(SIZE / 4096) * 4096);
        offsets.map(|offset| request(Op::Read, offset, 4096)).collect::<Vec<_>>()
    };
    let options = ReplayOptions { depth: 8, length_max_s: Some(0.2), ..ReplayOptions::default() };
    let opened = target(file.path(), SIZE, false);
    let outcome =
        replay(move || Some(Ok(block())), opened, &options, placement(), &Control::default());
    let outcome = outcome.expect("io_uring");
    assert_eq!(outcome.ended, EndReason::TimeUp);
    assert_eq!(outcome.record.outstanding_max, 8);
    assert!(outcome.record.completed > 8 && outcome.record.failed() == 0);
}

#[test]
fn a_broken_trace_leaves_what_was_played() {
    let file = file(SIZE);
    let broken = TraceError::UnknownFormat("'made' is unknown".to_string());
    let mut blocks = vec![Ok(vec![request(Op::Read, 0, 4096)]), Err(broken)].into_iter();
    let opened = target(file.path(), SIZE, false);
    let outcome =
        replay(move || blocks.next(), opened, &options(), placement(), &Control::default());
    let outcome = outcome.expect("io_uring");
    assert!(
        matches!(&outcome.ended, EndReason::Broken(text) if text.contains("'made' is unknown"))
    );
    assert_eq!(outcome.record.completed, 1);
}

#[test]
fn a_target_that_cannot_be_opened_is_reported() {
    let missing = Target::open(Path::new("/nowhere/at/all"), SIZE, true, false);
    let text = missing.expect_err("is not there").to_string();
    assert!(text.contains("/nowhere/at/all: cannot be opened") && text.contains("\nhint: "));
    // procfs has no direct I/O.
    let refused = Target::open(Path::new("/proc/self/status"), 4096, true, false);
    let text = refused.expect_err("has no O_DIRECT").to_string();
    assert!(text.contains("O_DIRECT is refused") && text.contains("--buffered"));
}
