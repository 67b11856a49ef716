//! A machine with arbitrary accesses to its AHCI controller: registers, command lists and tables,
//! nonexistent memory, resets and power cuts at any time. The device must survive, become idle, and
//! serve the next machine.
//!
//! Each piece of input is a step. Run: `scripts/fuzz.sh 60 ahci_machine`.

#![no_main]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../crates/serve/tests/support/mod.rs"]
mod support;

use std::sync::OnceLock;

use drivebay_drive::Spec;
use drivebay_wire::ata::Command;
use libfuzzer_sys::fuzz_target;
use support::ahci::Guest;

/// Bytes per step.
const STEP: usize = 32;
/// Each turn fetches at least one command, even if it needs the drive exclusively.
const TURNS: usize = 33;

static SPEC: OnceLock<Spec> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let mut machine = Guest::new(SPEC.get_or_init(|| support::spec(4096, false)).clone());
    machine.start();
    for step in data.chunks_exact(STEP) {
        let step: &[u8; STEP] = step.try_into().expect("so long");
        let word = |at: usize| u32::from_le_bytes(step[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(step[at..at + 8].try_into().expect("eight"));
        match step[0] & 15 {
            0 => machine.write(u64::from(step[1]) * 4, word(4)),
            1 => machine.put(long(4), &step[12..]),
            2 => machine.power_cut(),
            3 => machine.reset(),
            4 => machine.start(),
            5 | 6 => machine.iterate(),
            kind => {
                let slot = u64::from(step[1] & 31);
                let command = Command {
                    is_command: step[2] != 0,
                    code: step[3],
                    features: u16::from_le_bytes([step[4], step[5]]),
                    // Mostly within the drive.
                    lba: if step[6] < 240 { u64::from(word(7) & 0xfff) } else { long(7) >> 16 },
                    device: 0x40,
                    count: if kind < 11 { (slot << 3) as u16 } else { u16::from(step[15]) },
                    control: step[16],
                };
                let (place, room) = Guest::DATA;
                let region = (place + u64::from(word(17)) % room, word(21) & 0xffff);
                let wild = (long(24), word(20));
                let regions = &[region, wild][..usize::from(step[23] % 3)];
                let flags = if step[31] == 0xff { word(27) } else { 0 };
                machine.prepare(slot, &command, regions, flags);
                machine.issue(slot, kind & 1 == 0);
            }
        }
    }
    for _ in 0..TURNS {
        machine.iterate();
    }
    assert_eq!(machine.outstanding(), 0);
    machine.serves_the_next_guest();
});
