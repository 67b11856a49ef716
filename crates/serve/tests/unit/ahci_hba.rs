//! Unit tests of `ahci/hba.rs`, with access to its private items.

use super::*;

fn register(hba: &Hba, offset: usize) -> u32 {
    u32::from_le_bytes(hba.image()[offset..offset + 4].try_into().expect("four bytes"))
}

fn started() -> Hba {
    let mut hba = Hba::new();
    hba.write(0x04, GHC_AHCI | GHC_INTERRUPTS);
    hba.write(0x114, u32::MAX);
    hba.write(0x118, CMD_FRAMES);
    assert_eq!(hba.take_signature(), Some(Answer::signature()));
    hba.write(0x118, CMD_FRAMES | CMD_START);
    hba
}

#[test]
fn a_port_is_found_reset_and_started() {
    let mut hba = Hba::new();
    assert_eq!((register(&hba, 0x0c), register(&hba, 0x10)), (1, VERSION));
    assert_eq!(register(&hba, 0x00) >> 8 & 31, 31);
    assert_eq!(hba.take_signature(), None, "the host receives no frames");
    let mut hba2 = started();
    assert_eq!((register(&hba2, 0x120), register(&hba2, 0x124)), (0x150, 0x101));
    assert_eq!(register(&hba2, 0x118) >> 14 & 3, 3, "both engines run");
    // A reset of the link.
    hba2.write(0x118, CMD_FRAMES);
    hba2.write(0x12c, 0x301);
    assert_eq!(register(&hba2, 0x128) & 0xf, 0);
    assert!(hba2.write(0x12c, 0x300).work);
    assert_eq!((register(&hba2, 0x128), register(&hba2, 0x120)), (LINK_UP, 0x80));
    assert!(hba2.take_signature().is_some() && hba2.take_signature().is_none());
    let epoch = hba.epoch();
    hba.write(0x04, GHC_RESET);
    assert_eq!((register(&hba, 0x04), hba.epoch()), (GHC_AHCI, epoch + 1));
}

#[test]
fn slots_are_taken_in_turn_and_interrupts_latch() {
    let mut hba = started();
    hba.write(0x138, 1 << 3 | 1 << 30);
    assert_eq!(hba.next_slot(), Some(3));
    hba.occupy(3);
    assert_eq!(hba.next_slot(), None, "the drive is busy");
    let fine = Answer { status: 0x50, error: 0, lba: 0, device: 0, count: 0 };
    assert!(hba.complete(3, &fine, IS_REGISTERS));
    assert_eq!((register(&hba, 0x138), register(&hba, 0x110), register(&hba, 8)), (1 << 30, 1, 1));
    assert_eq!(hba.next_slot(), Some(30));
    hba.write(0x138, 1);
    hba.release(30);
    assert_eq!(hba.next_slot(), Some(0), "round robin");
    // Cleared at the controller but not at the port: it latches again.
    assert!(hba.write(0x08, 1).interrupt);
    hba.write(0x110, 1);
    assert!(!hba.write(0x08, 1).interrupt);
    assert_eq!(register(&hba, 0x08), 0);
}

#[test]
fn an_error_halts_the_port_until_it_is_stopped() {
    let mut hba = started();
    hba.write(0x138, 1 << 5 | 1 << 6);
    let slot = hba.next_slot().expect("a command");
    hba.occupy(slot);
    let bad = Answer { status: 0x51, error: 4, lba: 0, device: 0, count: 0 };
    assert!(hba.complete(slot, &bad, IS_REGISTERS));
    assert_eq!((hba.next_slot(), register(&hba, 0x120)), (None, 0x451));
    assert_eq!(register(&hba, 0x138), 1 << 5 | 1 << 6, "both still issued");
    hba.write(0x118, CMD_FRAMES);
    assert_eq!(register(&hba, 0x138), 0);
    hba.write(0x118, CMD_FRAMES | CMD_START);
    hba.write(0x138, 1);
    assert_eq!(hba.next_slot(), Some(0));
}
