//! A host that sends arbitrary commands and bytes at any time, on connected admin and I/O queues.
//! The server must survive, become idle, and serve the next host.
//!
//! Each piece of input is a step: a command on one of the queues, raw bytes, or elapsed time. Run:
//! `scripts/fuzz.sh 60 nvme_session`.

#![no_main]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../crates/serve/tests/nvme_host/mod.rs"]
mod nvme_host;

use drivebay_wire::nvme::{Cns, Digests, Sqe};
use libfuzzer_sys::fuzz_target;
use nvme_host::Rig;
use zerocopy::FromBytes;

fuzz_target!(|data: &[u8]| {
    // Some drives have placement, others zones, with random write areas or without, and some can
    // overwrite.
    let mut rig = match data.first().map_or(0, |first| first >> 1 & 7) {
        2 => Rig::placed(4, "initial"),
        3 => Rig::zoned(),
        4 => Rig::with_areas(),
        5 => Rig::overwriting(),
        _ => Rig::new(),
    };
    let mut hosts = [rig.connect(0, Digests::default()), rig.connect(1, Digests::default())];
    for step in data.chunks(68) {
        let host = &mut hosts[usize::from(step[0] & 1)];
        if host.is_over() {
            break;
        }
        match (step[0] >> 1 & 7, Sqe::read_from_prefix(&step[1..])) {
            (0, _) => rig.bytes(host, &step[1..]),
            (1, _) => rig.tick(host),
            (2, _) => {
                let [admin, io] = &mut hosts;
                rig.settle(&mut [admin, io]);
            }
            (kind, Ok((sqe, rest))) => {
                // Mostly an existing command.
                let sqe = match step[0] >> 4 {
                    0..=3 => sqe,
                    _ => nvme_host::known(sqe, step[0] & 1 == 0, sqe.opcode),
                };
                let length = u32::from(rest.first().copied().unwrap_or(0)) * 512;
                let data = vec![step[0]; length as usize];
                rig.post_loose(host, sqe, length, if kind & 1 == 0 { &data } else { &[] });
            }
            _ => {}
        }
    }
    let [admin, io] = &mut hosts;
    rig.settle(&mut [admin, io]);
    drop(hosts);
    let mut next = rig.connect(0, Digests::default());
    assert_eq!(rig.identify(&mut next, Cns::Controller).len(), 4096);
    assert_eq!(rig.subsystem.lock().controllers(), 1);
});
