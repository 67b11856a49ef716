//! A stateful NBD client that sends arbitrary bytes, in pieces of any size, to a connection with a
//! drive.
//!
//! The first byte tells whether the handshake is already done, so that requests are reached at
//! once. Run: `scripts/fuzz.sh 60 nbd_session`.

#![no_main]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../crates/serve/tests/support/mod.rs"]
mod support;

use std::sync::OnceLock;

use drivebay_drive::Spec;
use libfuzzer_sys::fuzz_target;
use support::nbd::NbdClient;

static SPEC: OnceLock<Spec> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let spec = SPEC.get_or_init(|| support::spec(4096, false)).clone();
    NbdClient::new(spec, first & 1 == 1).feed(bytes, usize::from(first >> 1) + 1);
});
