//! Unit tests of `ublk/device.rs`, with access to its private items.

use super::*;
use crate::namespace::{NamespaceOptions, NamespaceTable};

const WRITE: u32 = 1;

fn parts() -> NamespaceTable {
    let one = NamespaceOptions { bytes: 1 << 20, start_bytes: None, is_read_only: false };
    NamespaceTable::new(&[one, NamespaceOptions { is_read_only: true, ..one }], 8192).expect("room")
}

fn asked(nsid: u32, op_flags: u32, start_sector: u64) -> Result<(Request, usize), Errno> {
    let descriptor =
        IoDescriptor { op_flags, nr_sectors: 8, start_sector, ..IoDescriptor::default() };
    request(&descriptor, parts().get(nsid).expect("there"), 7)
}

#[test]
fn a_command_is_of_its_namespace_and_ends_there() {
    let write = Request::new(Op::Write { fua: false }, 40, 8, 7);
    assert_eq!(asked(1, WRITE, 40), Ok((write, 4096)));
    let read = Request::new(Op::Read, 2088, 8, 7);
    assert_eq!(asked(2, 0, 40), Ok((read, 0)));
    assert_eq!(asked(1, 0, 2041), Err(Errno::IO));
    assert_eq!(asked(1, 0, u64::MAX), Err(Errno::IO));
    assert_eq!(asked(1, 2, u64::MAX), Ok((Request::flush(7), 0)));
}

#[test]
fn what_changes_the_data_of_a_read_only_namespace_is_refused() {
    for op in [WRITE, 3, 5] {
        assert_eq!(asked(2, op, 0), Err(Errno::PERM));
    }
    assert_eq!(asked(1, 4, 0), Err(Errno::OPNOTSUPP));
}

#[test]
fn errors_are_those_that_linux_has_for_a_disk() {
    // "critical medium error", "critical space allocation error" and "I/O error" in the
    // kernel's log.
    let of = [Status::MediaError, Status::NoSpace, Status::ReadOnly].map(errno_of);
    assert_eq!(of, [Errno::NODATA, Errno::NOSPC, Errno::IO]);
}
