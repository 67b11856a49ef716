//! A stateful client: any bytes, in any pieces, to a connection with a drive behind it.
//!
//! The first byte says whether the handshake is done already, so that requests are reached at once.
//! Run: `cargo +nightly fuzz run nbd_session -- -max_total_time=60`.

#![no_main]

#[path = "../../crates/serve/tests/support/mod.rs"]
mod support;

use drivebay_serve::probe::Probe;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    Probe::new(support::spec(4096, false), first & 1 == 1).feed(bytes, usize::from(first >> 1) + 1);
});
