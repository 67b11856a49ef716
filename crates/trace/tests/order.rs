//! Tests of both orders against the standard library's stable sort, and of their limits.

use crate::support::{drain, reader, request};
use drivebay_trace::{
    Given, Order, Request, TextFormat, Trace, TraceError, TraceFile, TraceSource, Writer,
};
use proptest::prelude::*;

fn csv(requests: &[Request]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), TextFormat::Csv).expect("in memory");
    writer.write(requests).expect("in memory");
    writer.finish().expect("in memory")
}

/// Requests at these times, distinguished by their offsets.
fn at_times(times: &[u64]) -> Vec<Request> {
    let op = drivebay_trace::Op::Read;
    (0..).zip(times).map(|(i, at)| request((*at, op, i * 512, 512, 0, Some(i)))).collect()
}

fn sorted(requests: &[Request]) -> Vec<Request> {
    let mut sorted = requests.to_vec();
    sorted.sort_by_key(|request| request.at);
    let origin = sorted[0].at;
    sorted.iter().map(|r| Request { at: r.at.since(origin), ..*r }).collect()
}

fn through(
    requests: &[Request],
    order: Order,
    window: usize,
    run: usize,
) -> Result<Vec<Request>, TraceError> {
    let reader = reader(&csv(requests), Some("csv"))?;
    drain(Trace::sized(reader, order, window, run))
}

proptest! {
    #[test]
    fn the_external_sort_equals_the_standard_library(
        times in prop::collection::vec(0..500u64, 1..400), window in 1..50usize, run in 1..50usize,
    ) {
        let requests = at_times(&times);
        let ordered = through(&requests, Order::Sort, window, run).expect("sorted");
        prop_assert_eq!(ordered, sorted(&requests));
    }

    #[test]
    fn the_window_sorts_requests_that_are_late_by_up_to_its_size(
        moves in prop::collection::vec(0..20u64, 1..400), window in 20..60usize,
    ) {
        // Shifted by fewer than 20 places from sorted order.
        let times: Vec<u64> = (0..).zip(&moves).map(|(i, shift)| i + shift).collect();
        let requests = at_times(&times);
        prop_assert_eq!(
            through(&requests, Order::Window, window, 1).expect("sorted"), sorted(&requests)
        );
    }

    #[test]
    fn the_window_never_gives_a_wrong_order(
        times in prop::collection::vec(0..500u64, 1..400), window in 1..50usize,
    ) {
        let requests = at_times(&times);
        match through(&requests, Order::Window, window, 1) {
            Ok(ordered) => prop_assert_eq!(ordered, sorted(&requests)),
            Err(TraceError::TooFarBack { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn every_field_survives_the_temporary_file() {
    use drivebay_trace::Op;
    let last = i64::MAX as u64;
    let requests = [
        request((9, Op::Trim, 0, last, u32::MAX, None)),
        request((8, Op::Flush, 0, 0, 7, Some(1 << 61))),
        request((7, Op::Write, last - 512, 512, 0, Some(0))),
        request((6, Op::Read, 1, 1, 1, Some(1))),
    ];
    assert_eq!(through(&requests, Order::Sort, 2, 1).expect("sorted"), sorted(&requests));
}

#[test]
fn a_file_out_of_order_beyond_the_window_is_sorted_when_it_is_read_from_a_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, out) = (folder.path().join("t.csv"), folder.path().join("out.csv"));
    let mut times: Vec<u64> = (1..=600_000).collect();
    times.push(0);
    let requests = at_times(&times);
    std::fs::write(&path, csv(&requests)).expect("written");
    let source = TraceSource::File {
        file: TraceFile { path, given: Given::default(), unpacked: None },
        sort: false,
    };
    let (info, summary) = drivebay_trace::info(&source, &mut || true).expect("sorted");
    assert_eq!((info.reads, summary.requests), (600_001, 600_001));
    drivebay_trace::convert(&source, &out, TextFormat::Csv, &mut || true).expect("sorted");
    assert_eq!(std::fs::read(&out).expect("there"), csv(&sorted(&requests)));
}

#[test]
fn a_job_stops_when_cancelled() {
    let text = csv(&at_times(&[1, 2, 3]));
    for order in [Order::Window, Order::Sort] {
        let mut trace = Trace::new(reader(&text, None).expect("csv"), order);
        assert!(matches!(trace.next_block(&mut || false), Err(TraceError::Cancelled)));
    }
}
