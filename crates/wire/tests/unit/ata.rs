//! Unit tests of `ata.rs`, with access to its private items.

use super::*;

#[test]
fn frames_are_read_as_they_are_written() {
    let command = Command {
        is_command: true,
        code: Opcode::ReadQueued as u8,
        features: 0x1234,
        lba: 0x8765_4321_0fed,
        device: 0xc0,
        count: 17 << 3,
        control: 0,
    };
    assert_eq!(Command::parse(&command.frame()), Some(command));
    assert_eq!((command.tag(), command.sectors_queued(), command.is_fua()), (17, 0x1234, true));
    let short = Command { lba: 0x12_3456, device: 0xe7, ..Command::default() };
    assert_eq!((short.lba28(), short.sectors28(), short.sectors48()), (0x0712_3456, 256, 65_536));
    assert_eq!(Command::parse(&[0; FRAME_BYTES]), None);
    assert_eq!(Answer::signature().signature_register(), 0x0000_0101);
    let refused = Answer::to(&command, Some(Fault::Aborted)).frame();
    assert_eq!((refused[2], refused[3]), (0x51, 0x04));
}

#[test]
fn ranges_of_trim_are_48_and_16_bits() {
    let mut data = [0; 512];
    data[..8].copy_from_slice(&(0xfedc_ba98_7654 | 0xffff_u64 << 48).to_le_bytes());
    data[16..24].copy_from_slice(&(9 | 1_u64 << 48).to_le_bytes());
    let found: Vec<_> = trim_ranges(&data).collect();
    assert_eq!(found, [(0xfedc_ba98_7654, 0xffff), (9, 1)]);
}

#[test]
fn the_bytes_of_the_error_log_add_up_to_0() {
    let answer = Answer { status: 0x51, error: 0x40, lba: 0x1234_5678, device: 0x40, count: 0 };
    let page = queued_error_log(9, &answer);
    assert_eq!((page[0], page[2], page[3], page[4], page[8]), (9, 0x51, 0x40, 0x78, 0x12));
    assert_eq!(page.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)), 0);
}
