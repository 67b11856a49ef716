//! Unit tests of `ublk/control.rs`, with access to its private items.

use super::*;
use drivebay_drive::samples::{SM951_AHCI_512, SM951_NVME_256, WINDOWS_8_1_Z97};
use drivebay_drive::whole_profile;

use crate::namespace::{NamespaceOptions, NamespaceTable};

#[test]
fn a_device_is_as_the_drive_is() {
    let base = whole_profile(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("a profile").to_string();
    let spec = Spec::from_family(&base, SM951_NVME_256).expect("a profile");
    let shape = Shape::new(&spec, 4, true);
    let info = shape.info();
    assert_eq!((info.nr_hw_queues, info.queue_depth), (4, 128), "a queue for each processor");
    assert_eq!(info.max_io_buf_bytes, 128 << 10);
    let one = NamespaceOptions { bytes: 1 << 20, start_bytes: None, is_read_only: true };
    let parts = NamespaceTable::new(&[one], 1 << 20).expect("room");
    let params = shape.params(parts.get(1).expect("the first"));
    assert_eq!(params.attrs, ATTR_VOLATILE_CACHE | ATTR_FUA | ATTR_READ_ONLY);
    assert_eq!((params.len, params.dev_sectors, params.max_sectors), (60, 2048, 256));
    assert_eq!((params.logical_bs_shift, params.physical_bs_shift), (9, 12));
    let whole = NamespaceTable::whole(2048, false);
    let attrs = |shape: &Shape| shape.params(whole.get(1).expect("the first")).attrs;
    let [safe, usual] = [false, true].map(|has_cache| Shape::new(&spec, 1, has_cache));
    assert_eq!((attrs(&safe), attrs(&usual)), (0, ATTR_VOLATILE_CACHE | ATTR_FUA));
    assert_eq!(safe.queues, 1);
}

#[test]
fn only_what_a_dead_server_of_ours_has_left_is_removed() {
    let mine = MARK | u64::from(std::process::id());
    // Larger than any process number that Linux gives.
    let gone = MARK | u64::from(u32::MAX);
    let of = |state, ublksrv_flags| DeviceInfo { state, ublksrv_flags, ..DeviceInfo::default() };
    assert!(is_left_over(&of(STATE_DEAD, gone)));
    assert!(!is_left_over(&of(STATE_DEAD, mine)), "it is being made");
    assert!(!is_left_over(&of(1, gone)), "it is live");
    assert!(!is_left_over(&of(STATE_DEAD, u64::from(u32::MAX))), "another program's");
}

#[test]
fn a_kernel_that_does_not_answer_is_named() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let error = failed("adding a device", io::ErrorKind::TimedOut.into());
    assert!(error.is_machine());
    let start =
        format!("--ublk: adding a device: Linux {} does not answer within 10 s\n", release.trim());
    assert!(error.to_string().starts_with(&start), "{error}");
}
