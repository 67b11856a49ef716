//! Unit tests of `pci/memory.rs`, with access to its private items.

use super::*;

/// Two adjacent regions of one file.
pub fn memory() -> GuestMemory {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let mut memory = GuestMemory::default();
    memory.map(0x10_0000, 0x8000, 0, Some(file.try_clone().unwrap()), true).unwrap();
    memory.map(0x10_8000, 0x8000, 0x4_0000, Some(file), true).unwrap();
    memory
}

#[test]
fn a_range_may_span_regions_but_not_leave_them() {
    let memory = memory();
    memory.write(0x10_7ff0, &[7; 32]).unwrap();
    let mut bytes = [0; 32];
    memory.read(0x10_7ff0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 32]);
    assert!(memory.read(0x10_fff0, &mut bytes).is_err());
    assert!(memory.read(u64::MAX - 3, &mut bytes).is_err());
    assert!(memory.write(0, &[]).is_ok());
}
