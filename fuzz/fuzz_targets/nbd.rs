//! Arbitrary bytes as messages of an NBD client: each parser accepts or rejects them, without a
//! panic.
//!
//! Run: `scripts/fuzz.sh 60 nbd`.

#![no_main]

use drivebay_wire::nbd::{ClientFlags, Go, MetaQuery, OptionHeader, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(&bytes) = data.first_chunk() {
        let _ = ClientFlags::parse(bytes);
    }
    if let Some(bytes) = data.first_chunk() {
        let _ = OptionHeader::parse(bytes);
    }
    if let Some(bytes) = data.first_chunk() {
        let _ = Request::parse(bytes);
    }
    let _ = Go::parse(data);
    if let Ok(query) = MetaQuery::parse(data) {
        assert!(query.queries.len() * 4 <= data.len(), "bounded by what came");
    }
});
