//! Arbitrary bytes as a trace: each parser, the order, the statistics and the placement must accept
//! or reject them, without a panic, in bounded time and memory.
//!
//! The first byte selects the format, or detection; the rest is the file, compressed or not. Run:
//! `scripts/fuzz.sh 60 trace`.

#![no_main]

use std::io::Cursor;

use drivebay_trace::{Format, Given, Order, Placement, Reader, Rule, Stats, Trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let format = Format::ALL.get(usize::from(choice)).copied();
    let given = Given { format, ..Given::default() };
    let Ok(reader) = Reader::new(Cursor::new(bytes.to_vec()), "fuzzed", &given) else { return };
    let mut trace = Trace::new(reader, Order::Window);
    let mut stats = Stats::default();
    let placement = Placement::new(Rule::Fold, 64 << 20, 512, 0).expect("large enough");
    let mut last = 0;
    while let Ok(Some(block)) = trace.next_block(&mut || true) {
        for request in block {
            assert!(request.at.0 >= last, "requests come in order of time");
            last = request.at.0;
            if let Ok((start, len)) = placement.place(request) {
                assert!(start + len <= 64 << 20, "a place is on the drive");
            }
        }
        if stats.add(block).is_err() {
            return;
        }
    }
    let _ = stats.info();
});
