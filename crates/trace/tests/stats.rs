//! Tests of the statistics against a naive reference, and against figures computed by hand.

use std::collections::HashSet;

use crate::support::request;
use drivebay_trace::Op::{Flush, Read, Trim, Write};
use drivebay_trace::{Info, Op, Request, STREAMS, Stats};
use proptest::prelude::*;

fn info(requests: &[Request]) -> Info {
    let mut stats = Stats::default();
    for block in requests.chunks(3) {
        stats.add(block).expect("few devices");
    }
    stats.info()
}

/// Naive reference: scans all earlier requests again for each request.
fn naive(requests: &[Request]) -> Info {
    let data: Vec<_> = requests.iter().filter(|r| r.op.moves_data()).collect();
    let ios = data.len() as f64;
    let end = |r: &Request| r.at.0 + r.response.map_or(0, |t| t.0);
    let count = |op| data.iter().filter(|r| r.op == op).count() as u64;
    let sum = |op| data.iter().filter(|r| r.op == op).map(|r| r.bytes).sum();
    let sizes = [4096, 8192, 16384, 32768, 65536, 131_072];
    let mut of_size = [0.0; 8];
    let (mut depths, mut depth_sum, mut sequential) = ([0.0; 8], 0, 0);
    for (i, r) in data.iter().enumerate() {
        let bucket = match sizes.iter().position(|size| r.bytes == *size) {
            Some(at) => at + 1,
            None if r.bytes < 4096 => 0,
            None => 7,
        };
        of_size[bucket] += 1.0 / ios;
        let open = data[..i].iter().filter(|e| e.response.is_some() && end(e) > r.at.0).count() + 1;
        let last = [1, 2, 3, 5, 10, 20, 32, usize::MAX];
        depths[last.iter().position(|most| open <= *most).expect("the last takes all")] +=
            1.0 / ios;
        depth_sum += open;
        let mut alike = data[..i].iter().rev().filter(|e| e.op == r.op && e.device == r.device);
        sequential += usize::from(
            alike.by_ref().take(STREAMS).any(|e| e.offset_bytes + e.bytes == r.offset_bytes),
        );
    }
    let (mut touched, mut written) = (HashSet::new(), HashSet::new());
    let (mut page_writes, mut again, mut page_reads, mut unwritten) = (0, 0, 0, 0);
    for r in &data {
        for page in r.offset_bytes / 4096..(r.offset_bytes + r.bytes).div_ceil(4096) {
            touched.insert((r.device, page));
            if r.op == Write {
                page_writes += 1;
                again += u64::from(!written.insert((r.device, page)));
            } else {
                page_reads += 1;
                unwritten += u64::from(!written.contains(&(r.device, page)));
            }
        }
    }
    let mut idle = 0;
    for (i, r) in requests.iter().enumerate() {
        let busy = requests[..i].iter().map(end).max().unwrap_or(r.at.0);
        idle += r.at.0.saturating_sub(busy);
    }
    let answered = data.iter().filter(|r| r.response.is_some()).count();
    let known = !data.is_empty() && answered * 10 >= data.len() * 9;
    let part = |n: f64, total: f64| (total > 0.0).then(|| n / total);
    // The names are private to the type, so they are taken from it; only the values are computed
    // here.
    let shares = |values: [f64; 8], measured: Option<drivebay_trace::Shares>| {
        measured.map(|mut shares| {
            shares.values = values;
            shares
        })
    };
    let measured = info(requests);
    assert_eq!(measured.size_share.is_some(), !data.is_empty());
    assert_eq!(measured.queue_depth_share.is_some(), known);
    Info {
        reads: count(Read),
        writes: count(Write),
        read_bytes: sum(Read),
        written_bytes: sum(Write),
        trims: requests.iter().filter(|r| r.op == Trim).count() as u64,
        flushes: requests.iter().filter(|r| r.op == Flush).count() as u64,
        size_share: shares(of_size, measured.size_share),
        queue_depth_share: shares(depths, measured.queue_depth_share),
        queue_depth_mean: part(depth_sum as f64, ios).filter(|_| known),
        sequential_share: part(sequential as f64, ios),
        idle_s: known.then_some(idle as f64 / 1e9),
        duration_s: (requests.iter().map(end).max().unwrap_or(0) - requests[0].at.0) as f64 / 1e9,
        footprint_bytes: Some(touched.len() as u64 * 4096),
        overwrite_share: part(again as f64, page_writes as f64),
        unwritten_read_share: part(unwritten as f64, f64::from(page_reads)),
        devices: data.iter().map(|r| r.device).collect::<HashSet<_>>().len() as u64,
        address_start_bytes: data.iter().map(|r| r.offset_bytes).min(),
        address_end_bytes: data.iter().map(|r| r.offset_bytes + r.bytes).max(),
    }
}

fn rounded(info: &Info) -> String {
    // Sums of shares differ in their last bits.
    let mut value = serde_json::to_value(info).expect("plain");
    for key in ["size_share", "queue_depth_share"] {
        if let Some(map) = value[key].as_object_mut() {
            for share in map.values_mut() {
                *share = format!("{:.9}", share.as_f64().expect("a number")).into();
            }
        }
    }
    value.to_string()
}

fn some_request() -> impl Strategy<Value = Request> {
    let op = prop::sample::select(&[Read, Read, Read, Write, Write, Write, Trim, Flush][..]);
    let bytes =
        prop::sample::select(&[1u64, 512, 4096, 8192, 16384, 65536, 131_072, 300_000, 3 << 20][..]);
    // Mostly with response times, so that both sides of the nine-in-ten bound occur.
    let response = prop::option::weighted(0.93, 0..3_000u64);
    (op, 0..2_000u64, bytes, 0..3u32, response, 0..200u64).prop_map(
        |(op, place, bytes, device, response, gap)| {
            let bytes = if op == Flush { 0 } else { bytes };
            request((gap, op, place * 2048, bytes, device, response))
        },
    )
}

proptest! {
    #[test]
    fn one_pass_equals_the_naive_reference(mut requests in prop::collection::vec(some_request(), 1..200)) {
        let mut at = 0;
        let mut streams = [0u64; 3];
        for (i, request) in requests.iter_mut().enumerate() {
            at += request.at.0;
            request.at.0 = at;
            if i % 3 == 0 && request.op.moves_data() {
                request.offset_bytes = streams[request.device as usize];
            }
            streams[request.device as usize] = request.offset_bytes + request.bytes;
        }
        prop_assert_eq!(rounded(&info(&requests)), rounded(&naive(&requests)));
    }
}

#[test]
fn figures_by_hand() {
    // A write of two pages, a read that continues a stream of reads, a rewrite of one page.
    let requests = [
        request((0, Write, 0, 8192, 0, Some(100))),
        request((50, Read, 65536, 4096, 0, Some(100))),
        request((150, Read, 69632, 4096, 0, Some(50))),
        request((1_000_000_200, Write, 4096, 512, 0, Some(100))),
    ];
    let text = serde_json::to_string(&info(&requests)).expect("plain");
    let expected = concat!(
        r#"{"reads":2,"writes":2,"read_bytes":8192,"written_bytes":8704,"trims":0,"flushes":0,"#,
        r#""size_share":{"<4KB":0.25,"4KB":0.5,"8KB":0.25,"16KB":0.0,"32KB":0.0,"64KB":0.0,"128KB":0.0,"other":0.0},"#,
        r#""queue_depth_share":{"1":0.75,"2":0.25,"3":0.0,"4-5":0.0,"6-10":0.0,"11-20":0.0,"21-32":0.0,">32":0.0},"#,
        r#""queue_depth_mean":1.25,"sequential_share":0.25,"idle_s":1.0,"duration_s":1.0000003,"#,
        r#""footprint_bytes":16384,"overwrite_share":0.3333333333333333,"#,
        r#""unwritten_read_share":1.0,"devices":1,"address_start_bytes":0,"address_end_bytes":73728}"#
    );
    assert_eq!(text, expected);
}

#[test]
fn missing_information_is_null() {
    let plain = |op: Op| request((0, op, 0, 4096, 0, None));
    let measured = info(&[plain(Read)]);
    assert_eq!(
        (measured.queue_depth_mean, measured.idle_s, measured.overwrite_share),
        (None, None, None)
    );
    assert!(measured.queue_depth_share.is_none() && measured.sequential_share == Some(0.0));
    let measured = info(&[plain(Trim)]);
    assert_eq!((measured.sequential_share, measured.footprint_bytes), (None, Some(0)));
    assert!(measured.size_share.is_none());
}

#[test]
fn as_many_streams_as_remembered_are_sequential_and_one_more_is_not() {
    let streams = |count: u64| {
        let at =
            |i: u64| request((i, Read, ((i % count) << 30) + (i / count) * 4096, 4096, 0, None));
        info(&(0..count * 10).map(at).collect::<Vec<_>>()).sequential_share
    };
    assert_eq!(streams(STREAMS as u64), Some(0.9));
    assert_eq!(streams(STREAMS as u64 + 1), Some(0.0));
}

#[test]
fn too_many_devices_are_refused_and_the_most_are_not() {
    let mut stats = Stats::default();
    let request_of = |device| [request((0, Read, 0, 512, device, None))];
    for device in 0..65_536 {
        stats.add(&request_of(device)).expect("within the bound");
    }
    assert!(stats.add(&request_of(65_536)).is_err());
}

#[test]
fn a_footprint_too_scattered_to_remember_is_null_and_the_rest_is_kept() {
    let mut stats = Stats::default();
    for i in 0..(1u64 << 22) + 1 {
        stats.add(&[request((i, Write, i << 21, 512, 0, Some(1)))]).expect("one device");
    }
    let measured = stats.info();
    assert_eq!((measured.footprint_bytes, measured.overwrite_share), (None, None));
    assert_eq!(measured.writes, (1 << 22) + 1);
}
