//! Unit tests of `ublk.rs`, with its private items in reach.

use super::*;

#[test]
fn commands_have_the_numbers_that_the_kernels_header_makes() {
    // Numbers computed by a C compiler: UBLK_U_CMD_ADD_DEV, UBLK_U_CMD_GET_FEATURES,
    // UBLK_U_IO_FETCH_REQ.
    assert_eq!(ControlOp::AddDevice as u32, 0xc020_7504);
    assert_eq!(ControlOp::GetFeatures as u32, 0x8020_7513);
    assert_eq!(FETCH, 0xc010_7520);
}

#[test]
fn a_descriptor_says_what_the_kernel_asks_for() {
    let of = |op_flags| IoDescriptor { op_flags, ..IoDescriptor::default() }.op();
    assert_eq!(of(1 << 8), Some(IoOp::Read), "fail fast is nothing to us");
    assert_eq!(of(1 | 1 << 13), Some(IoOp::Write { fua: true }));
    assert_eq!(of(2), Some(IoOp::Flush));
    assert_eq!(of(3), Some(IoOp::Discard));
    assert_eq!(of(5 | 1 << 15), Some(IoOp::WriteZeroes { fua: false, no_unmap: true }));
    assert_eq!(of(4), None, "Write Same is gone from Linux");
}

#[test]
fn each_queue_and_tag_has_a_place_of_its_own_in_the_character_device() {
    assert_eq!(descriptors(0, 128, 4096), (0, 4096));
    assert_eq!(descriptors(2, 4096, 4096), (2 * 98_304, 98_304));
    assert_eq!(descriptors(1, 128, 65_536), (131_072, 65_536));
    assert_eq!(data_offset(0, 0), 1 << 31);
    assert_eq!(data_offset(1, 3), (1 << 31) + (1 << 41) + (3 << 25));
}
