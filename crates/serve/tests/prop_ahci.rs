//! For any use of its AHCI controller by a guest, the device answers, halts its port or waits: no
//! panic, nothing left in flight. This is the quick form of the fuzz target `ahci_machine`.

use crate::support::ahci::Guest;
use drivebay_drive::Spec;
use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_units::Rng;
use drivebay_wire::ata::Command;

/// Half valid commands in partly missing memory, registers written at any moment. The device
/// survives, and serves the next guest.
#[test]
fn no_guest_breaks_it() {
    let spec = Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512);
    let mut guest = Guest::new(spec.unwrap_or_else(|why| panic!("{why}")));
    let mut rng = Rng::new(1).fork("machine");
    let (mut answered, codes) = (0, [0x25, 0x35, 0x60, 0x61, 0xec, 0xea, 0x06, 0xb0, 0x2f, 0xef]);
    let (data, room) = Guest::DATA;
    for round in 0..2000 {
        if round % 3 == 0 {
            guest.start();
        }
        let slot = rng.below(32);
        let command = Command {
            is_command: rng.below(20) > 0,
            code: codes[rng.below(codes.len() as u64) as usize],
            features: rng.below(10) as u16,
            lba: if rng.below(8) == 0 { rng.next_u64() >> 16 } else { rng.below(1000) },
            device: 0x40,
            count: if rng.below(2) == 0 { (slot << 3) as u16 } else { rng.below(9) as u16 },
            control: rng.below(8) as u8,
        };
        let regions: Vec<(u64, u32)> = (0..rng.below(4))
            .map(|_| {
                let far = u64::from(rng.below(10) == 0) * rng.next_u64();
                ((data + rng.below(room)).wrapping_add(far), rng.below(1 << 14) as u32)
            })
            .collect();
        let wild = u64::from(rng.below(30) == 0) * rng.next_u64();
        guest.prepare(slot, &command, &regions, wild as u32);
        let before = guest.read(0x110);
        guest.issue(slot, true);
        if rng.below(15) == 0 {
            guest.write(4 * rng.below(0x60), rng.next_u64() as u32);
        }
        for _ in 0..40 {
            guest.iterate();
        }
        answered += u64::from(before == 0 && guest.read(0x110) & 3 != 0);
        assert_eq!(guest.outstanding(), 0, "nothing is left over");
        guest.write(0x110, !0);
    }
    assert!(answered > 300, "{answered} were answered");
    guest.power_cut();
    assert_eq!(guest.outstanding(), 0);
    guest.serves_the_next_guest();
}
