//! Unit tests of `interface/latency_histogram.rs`, with access to its private items.

use super::*;

#[test]
fn a_bucket_ends_at_its_power_of_two_of_a_microsecond() {
    let mut histogram = LatencyHistogram::default();
    for ns in [0, 1000, 1001, 2000, 8000, 8001, 1 << 40, u64::MAX / 2] {
        histogram.record(Op::Read, Nanos(ns));
    }
    histogram.record(Op::Zone(drivebay_drive::Op::Flush), Nanos(5));
    let figures = histogram.figures();
    let expected = [(0, 2), (1, 2), (3, 1), (4, 1), (BUCKETS - 1, 2)];
    for (bucket, count) in figures["read"].buckets.into_iter().enumerate() {
        let wanted = expected.iter().find(|(place, _)| *place == bucket);
        assert_eq!(count, wanted.map_or(0, |(_, count)| *count), "bucket {bucket}");
    }
    let others: u64 = figures.values().flat_map(|figures| figures.buckets).sum();
    assert_eq!(others, 8);
}

#[test]
fn each_operation_has_its_sum() {
    let mut histogram = LatencyHistogram::default();
    histogram.record(Op::Write { fua: true }, Nanos::millis(3));
    histogram.record(Op::Append { fua: false }, Nanos::millis(1));
    histogram.record(Op::Flush, Nanos::millis(7));
    let sums = histogram.figures().into_iter().map(|(name, one)| (name, one.sum_seconds));
    let found: Vec<_> = sums.filter(|(_, sum)| *sum > 0.0).collect();
    assert_eq!(found, [("flush", 0.007), ("write", 0.004)]);
}
