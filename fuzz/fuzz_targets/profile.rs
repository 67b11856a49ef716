//! Arbitrary text as a profile: it is rejected, or its trace ends and has the promised properties.
//!
//! Run: `scripts/fuzz.sh 60 profile`.

#![no_main]

use drivebay_trace::{Profile, Synth};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(profile) = Profile::parse(text) else { return };
    let ios = (profile.published.reads + profile.published.writes) as f64;
    let scale = (10_000.0 / ios).clamp(1e-4, 1.0);
    if ios * scale > 1e6 {
        return;
    }
    let Ok(mut synth) = Synth::new(profile, scale, 1) else { return };
    let (wanted, extent) = (synth.requests(), synth.extent_bytes());
    let mut got = 0;
    while let Some(block) = synth.next_block() {
        assert!(block.iter().all(|r| r.bytes > 0 && r.offset_bytes + r.bytes <= extent));
        got += block.len() as u64;
    }
    assert_eq!(got, wanted);
});
