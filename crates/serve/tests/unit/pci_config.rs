//! Unit tests of `pci/config.rs`, with access to its private items.

use super::*;

fn read(config: &Config, offset: u64) -> u32 {
    let word = config.bytes().get(offset as usize..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(*word.expect("within the configuration space"))
}

#[test]
fn a_guest_finds_class_size_and_capabilities() {
    let nvme = Layout {
        ids: [0x144d, 0xa802],
        class: [2, 8, 1],
        bar: 0,
        bar_bytes: 0x4000,
        is_wide: true,
        interrupts: Interrupts::MsiX { vectors: 9, table: 0x2000, pending: 0x3000 },
    };
    let ahci =
        Layout { class: [1, 6, 1], bar: 5, is_wide: false, interrupts: Interrupts::Msi, ..nvme };
    for (layout, bar, ids) in [(nvme, 0x10, [1, 0x10, 0x11]), (ahci, 0x24, [1, 0x10, 5])] {
        let mut config = Config::new(&layout);
        assert_eq!(read(&config, 0), 0xa802_144d);
        assert_eq!(read(&config, 8).to_le_bytes()[1..], layout.class);
        assert!(!config.write(bar, &[0xff; 8]));
        let kind = if layout.is_wide { 4 } else { 0 };
        assert_eq!(read(&config, bar), !(0x4000 - 1) | kind);
        // The list of capabilities ends, with the interrupts in it.
        let (mut at, mut found) = (read(&config, 0x34) as u8, Vec::new());
        while at != 0 && found.len() < 10 {
            let [id, next, ..] = read(&config, u64::from(at)).to_le_bytes();
            found.push(id);
            at = next;
        }
        assert_eq!(found, ids);
        // Function level reset, in the upper byte of Device Control.
        assert!(read(&config, 0x64) & 1 << 28 != 0);
        assert!(!config.write(0x68, &[0xff, 0x7f]) && config.write(0x68, &[0, 0x80]));
        assert!(config.write(0x69, &[0x80]) && read(&config, 0x68) & 0x8000 == 0);
    }
}
