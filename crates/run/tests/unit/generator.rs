//! Unit tests of `generator.rs`, with access to its private items.

use super::*;
use crate::workload::Stop;

const BLOCKS: u64 = 1_000;

fn blocks(load: &Workload, count: u64) -> Vec<(Op, u64)> {
    let mut generator = Generator::new(load, 1);
    let drawn = (0..count).map(|_| generator.next_io());
    drawn.map(|io| (io.op, (io.lba - 8) / u64::from(io.sectors))).collect()
}

fn load(pattern: Pattern) -> Workload {
    Workload {
        pattern,
        read_percent: 60.0,
        queue_depth: 1,
        span_start_bytes: 4096,
        span_bytes: BLOCKS * 4096,
        stop: Stop::after_s(1.0),
        ..Workload::default()
    }
}

#[test]
fn reads_and_writes_have_separate_streams_or_share_a_stream() {
    let round = |count: u64| (0..count).map(|n| n % BLOCKS).collect::<Vec<_>>();
    let addresses = |drawn: &[(Op, u64)], op| {
        drawn.iter().filter(|io| io.0 == op).map(|io| io.1).collect::<Vec<_>>()
    };
    let each = blocks(&load(Pattern::Sequential), 5_000);
    for op in [Op::Read, Op::Write] {
        let stream = addresses(&each, op);
        assert!(stream.len() > 1_900, "both wrap");
        assert_eq!(stream, round(stream.len() as u64));
    }
    let shared = Workload { streams: Streams::Shared, ..load(Pattern::Sequential) };
    let drawn = blocks(&shared, 5_000);
    assert_eq!(drawn.iter().map(|io| io.1).collect::<Vec<_>>(), round(5_000));
    let reads = addresses(&drawn, Op::Read).len() as f64;
    assert!((reads / 5_000.0 - 0.6).abs() < 0.03, "{reads}");
}

#[test]
fn a_flush_follows_so_many_writes_and_changes_no_other_request() {
    let plain = Workload { trim_percent: 10.0, ..load(Pattern::Random) };
    let mut with_flushes = Generator::new(&Workload { fsync: Some(3), ..plain.clone() }, 1);
    let drawn: Vec<Io> = (0..5_000).map(|_| with_flushes.next_io()).collect();
    let count = |part: &[Io], op| part.iter().filter(|io| io.op == op).count();
    let mut parts: Vec<_> = drawn.split_inclusive(|io| io.op == Op::Flush).collect();
    let last = parts.pop().expect("not empty");
    assert!(parts.len() > 400 && count(last, Op::Write) <= 3);
    for part in parts {
        assert_eq!(count(part, Op::Write), 3);
        assert_eq!(part[part.len() - 2].op, Op::Write, "right behind the third");
    }
    let mut without = Generator::new(&plain, 1);
    let others = drawn.into_iter().filter(|io| io.op != Op::Flush);
    others.for_each(|io| assert_eq!(io, without.next_io()));
}

#[test]
fn open_zones_are_trimmed_and_then_written_in_order() {
    const OPEN: usize = 3;
    const ZONE: u64 = 100;
    let offsets: Offsets = "open-zones:3/10".parse().expect("allowed");
    let load = Workload { offsets, read_percent: 0.0, ..load(Pattern::Random) };
    let mut generator = Generator::new(&load, 1);
    let mut written = [ZONE; 10];
    let (mut trims, mut turns) = ([0; 10], [0; 10]);
    for _ in 0..40_000 {
        let io = generator.next_io();
        let block = (io.lba - 8) / 8;
        let zone = (block / ZONE) as usize;
        match io.op {
            Op::Trim => {
                assert_eq!((block % ZONE, u64::from(io.sectors)), (0, ZONE * 8));
                assert_eq!(written[zone], ZONE, "a zone that is open is not drawn again");
                (written[zone], trims[zone]) = (0, trims[zone] + 1);
            }
            _ => {
                assert_eq!((io.op, block % ZONE), (Op::Write, written[zone]));
                (written[zone], turns[zone]) = (written[zone] + 1, turns[zone] + 1);
            }
        }
        let open = written.iter().filter(|&&blocks| blocks < ZONE).count();
        assert!(open <= OPEN, "{open}");
    }
    // 396 trims, spread evenly over the zones.
    assert!(trims.iter().all(|&count| (25..=55).contains(&count)), "{trims:?}");
    assert_eq!(turns.iter().sum::<u64>() + trims.iter().sum::<u64>(), 40_000);
}

#[test]
fn passes_of_a_permutation_are_whole_and_repeat_only_if_asked() {
    let passes = |offsets| {
        let load = Workload { offsets, ..load(Pattern::Random) };
        let drawn = blocks(&load, 3 * BLOCKS);
        let order: Vec<u64> = drawn.iter().map(|io| io.1).collect();
        for pass in order.chunks(BLOCKS as usize) {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..BLOCKS));
        }
        order
    };
    let n = BLOCKS as usize;
    let fresh = passes(Offsets::Permutation);
    assert!(fresh[..n] != fresh[n..2 * n] && fresh[n..2 * n] != fresh[2 * n..]);
    let repeated = passes(Offsets::PermutationRepeated);
    assert!(repeated[..n] == repeated[n..2 * n] && repeated[n..2 * n] == repeated[2 * n..]);
}
