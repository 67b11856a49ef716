//! Unit tests of `placement.rs`, with access to its private items.

use drivebay_units::Nanos;
use proptest::prelude::*;

use super::*;
use crate::request::Op;

fn request(device: u32, offset_bytes: u64, bytes: u64) -> Request {
    Request { at: Nanos(0), offset_bytes, bytes, response: None, device, op: Op::Read }
}

#[test]
fn what_fits_stays() {
    for rule in [Rule::Fold, Rule::Scale] {
        let placement = Placement::new(rule, (1 << 30) + 512, 512, (1 << 30) + 512).unwrap();
        let last = request(0, 1 << 30, 512);
        assert_eq!(placement.place(&last), Ok((1 << 30, 512)));
    }
}

#[test]
fn scaling_keeps_order_and_fills_the_drive() {
    let recorded = 1 << 40;
    let placement = Placement::new(Rule::Scale, 1 << 36, 512, recorded).unwrap();
    let at = |offset| placement.place(&request(0, offset, 4096)).unwrap().0;
    assert_eq!(at(0), 0);
    assert!(at(recorded - 4096) >= (1 << 36) - GRANULE_BYTES);
    let places: Vec<u64> = (0..1000).map(|i| at((i * (recorded / 1000)) & !4095)).collect();
    let granules = places.iter().map(|place| place / GRANULE_BYTES);
    assert!(granules.is_sorted());
}

#[test]
fn a_run_stays_a_run() {
    for rule in [Rule::Fold, Rule::Scale] {
        let placement = Placement::new(rule, 1 << 36, 512, 1 << 40).unwrap();
        let at = |i: u64| placement.place(&request(0, (1 << 39) + i * 131_072, 131_072)).unwrap();
        let joined = (0..127).filter(|&i| at(i).0 + 131_072 == at(i + 1).0).count();
        assert_eq!(joined, 127, "within a granule every I/O continues the one before");
    }
}

#[test]
fn requests_longer_than_the_drive_are_refused() {
    let placement = Placement::new(Rule::Fold, 64 << 20, 512, 0).unwrap();
    let long = request(0, 0, (64 << 20) + 1);
    assert!(matches!(placement.place(&long), Err(PlaceError::TooLong { .. })));
    assert_eq!(
        Placement::new(Rule::Fold, 1 << 20, 512, 0).err(),
        Some(PlaceError::TooSmall(1 << 20))
    );
}

proptest! {
    #[test]
    fn a_place_is_on_the_drive_and_aligned(
        scale in any::<bool>(),
        capacity in (64u64 << 20)..1 << 42,
        block_shift in 9u32..17,
        device in any::<u32>(),
        offset in 0u64..(1 << 62),
        bytes in 1u64..(32 << 20),
        recorded in 0u64..(1 << 62),
    ) {
        let rule = if scale { Rule::Scale } else { Rule::Fold };
        let block = 1 << block_shift;
        let placement = Placement::new(rule, capacity, block, recorded).unwrap();
        let (start, len) = placement.place(&request(device, offset, bytes)).unwrap();
        prop_assert!(start % block == 0 && len % block == 0);
        prop_assert!(start + len <= capacity);
        prop_assert!(len >= bytes && len < bytes + 2 * block);
        // Alignment to 4 KiB pages is that of the recorded request's first block.
        if block <= SMALL_BYTES && device == 0 && bytes < SMALL_BYTES {
            prop_assert_eq!(start % SMALL_BYTES, (offset & !(block - 1)) % SMALL_BYTES);
        }
    }
}
