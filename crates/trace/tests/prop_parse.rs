//! Property tests: no input makes a parser panic, loop or use much memory; written traces are read
//! back unchanged.

use crate::support::{ordered, survives};
use drivebay_trace::{Format, Op, Request, TextFormat, Writer};
use drivebay_units::Nanos;
use proptest::prelude::*;

/// Pieces of all formats, so that random lines resemble real ones.
const PIECES: &[&str] = &[
    "1",
    "0",
    "8",
    "4096",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "1.5",
    "0.000001",
    ".",
    "R",
    "W",
    "Read",
    "Write",
    "read",
    "trim",
    "flush",
    "sync",
    "28",
    "2a",
    "0x10",
    "8,0",
    "D",
    "C",
    "FF",
    "N",
    "+",
    "[x]",
    "()",
    "(",
    ")",
    "block_rq_issue: ",
    "block_rq_complete: ",
    "block_rq_requeue: ",
    "obj_id",
    "obj_size",
    "getChunkData",
    "op_time",
    "io_size",
    "io_offset",
    "block_id",
    "[LOST 5 EVENTS]",
    ":",
    "DiskRead",
    "DiskWrite",
    "System ( 4)",
    "TimeStamp",
    "TIME(s)",
    "QUE(ms)",
    "fio version 3 iolog",
    "add",
    "open",
    "hm",
    "Timestamp",
    "at_ns",
    "version",
    "#",
    "é",
    "\u{0}",
];

const MAGIC: &[&[u8]] = &[
    b"\x1f\x8b\x08\x00",
    b"BZh9\x31\x41\x59\x26\x53\x59",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\x00\x00\x04",
];

fn dirty_line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES);
    let gap = prop::sample::select(&[",", " ", ", ", "\t", ""][..]);
    prop::collection::vec((piece, gap), 0..12)
        .prop_map(|parts| parts.iter().flat_map(|(piece, gap)| [*piece, *gap]).collect())
}

fn dirty_text() -> impl Strategy<Value = Vec<u8>> {
    let end = prop::sample::select(&["\n", "\r\n", "\r", "\n\n"][..]);
    prop::collection::vec((dirty_line(), end), 0..20).prop_map(|lines| {
        lines.into_iter().flat_map(|(line, end)| (line + end).into_bytes()).collect()
    })
}

/// Reads the bytes in every format, and in the detected one.
fn survives_all(bytes: &[u8]) {
    let formats = Format::ALL.into_iter().map(|format| Some(format.name())).chain([None]);
    formats.for_each(|format| survives(bytes, format));
}

fn any_request() -> impl Strategy<Value = Request> {
    let op = prop::sample::select(&Op::ALL[..]);
    let response = prop::option::of(0..1u64 << 61);
    (op, 0..1u64 << 62, 1..1u64 << 32, 0..4u32, response, 0..1u64 << 40).prop_map(
        |(op, offset, bytes, device, response, at)| {
            let (offset_bytes, bytes) = if op == Op::Flush { (0, 0) } else { (offset, bytes) };
            Request {
                at: Nanos(at),
                offset_bytes,
                bytes,
                response: response.map(Nanos),
                device,
                op,
            }
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives_all(&bytes);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in dirty_text()) {
        survives_all(&text);
    }

    #[test]
    fn no_damage_to_compressed_data_makes_a_reader_panic(
        magic in prop::sample::select(MAGIC),
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        survives_all(&[magic, &rest].concat());
    }

    #[test]
    fn csv_is_read_back_the_same(mut requests in prop::collection::vec(any_request(), 1..60)) {
        requests.sort_by_key(|request| request.at);
        let origin = requests[0].at;
        for request in &mut requests {
            request.at = request.at.since(origin);
        }
        let mut writer = Writer::new(Vec::new(), TextFormat::Csv).expect("in memory");
        writer.write(&requests).expect("in memory");
        let text = writer.finish().expect("in memory");
        prop_assert_eq!(ordered(&text, None).expect("readable"), requests);
    }

    #[test]
    fn an_iolog_is_read_back_except_for_unsupported_fields(
        mut requests in prop::collection::vec(any_request(), 1..60),
    ) {
        requests.sort_by_key(|request| request.at);
        let mut writer = Writer::new(Vec::new(), TextFormat::Iolog).expect("in memory");
        writer.write(&requests).expect("in memory");
        let text = writer.finish().expect("in memory");
        prop_assert!(text.starts_with(b"fio version 3 iolog\n"));
        let mut seen: Vec<u32> = Vec::new();
        let origin_us = requests[0].at.0 / 1_000;
        let expected: Vec<Request> = requests
            .iter()
            .map(|request| {
                let device = seen.iter().position(|d| *d == request.device).unwrap_or_else(|| {
                    seen.push(request.device);
                    seen.len() - 1
                }) as u32;
                let at = Nanos((request.at.0 / 1_000 - origin_us) * 1_000);
                // An iolog has no FUA.
                let op = if request.op == Op::WriteFua { Op::Write } else { request.op };
                Request { at, response: None, device, op, ..*request }
            })
            .collect();
        prop_assert_eq!(ordered(&text, None).expect("readable"), expected);
    }
}
