//! Unit tests of `nvme/pci/prp.rs`, with its private items in reach.

use super::*;
use crate::pci::memory::tests::memory;

#[test]
fn lists_are_followed_over_page_ends() {
    let memory = memory();
    // The list begins with the last two entries of its page: one page, then the link.
    let list = [0x10_9000_u64, 0x10_2000];
    let more = [0x10_a000_u64, 0x10_b000];
    for (at, entries) in [(0x10_1ff0, list), (0x10_2000, more)] {
        let bytes: Vec<u8> = entries.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(at, &bytes).unwrap();
    }
    let regions = data_regions(&memory, 0x10_3e00, 0x10_1ff0, 512 + 3 * 4096).unwrap();
    let expected = [(0x10_3e00, 512), (0x10_9000, 4096), (0x10_a000, 4096), (0x10_b000, 4096)];
    assert_eq!(regions, expected);
    let two = data_regions(&memory, 0x10_3e00, 0x10_4000, 4096).unwrap();
    assert_eq!(two, [(0x10_3e00, 512), (0x10_4000, 3584)]);
    assert!(data_regions(&memory, 0x10_3e00, 0x10_4001, 4096).is_err());
    // A list that links to itself for ever.
    memory.write(0x10_5ff8, &0x10_5ff8_u64.to_le_bytes()).unwrap();
    assert!(data_regions(&memory, 0x10_3000, 0x10_5ff8, 4 * 4096).is_err());
}
