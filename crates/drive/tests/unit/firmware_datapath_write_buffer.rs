//! Unit tests of `firmware/datapath/write_buffer.rs` with access to its private parts.

use super::*;
use crate::profile::Spec;
use crate::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_units::Rng;

#[test]
fn a_page_waits_for_the_one_a_full_ring_before_it() {
    let spec = Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512);
    let mut spec = spec.expect("the catalog's profile is good");
    spec.nand.spread = None; // all pages take the same time
    let mut nand = Nand::new(&spec.nand, &spec.geometry, 8, &Rng::new(1));
    let mut buffer = WriteBuffer::new(4, None);
    let mut ends = Vec::new();
    for page in 0..4 {
        let free_at = buffer.next_free_at(&nand);
        buffer.take(free_at);
        let program = nand.program(Nanos::ZERO, Nanos(100 * page), page as u32);
        buffer.give_back(page, program);
        ends.push(nand.end_of(program));
    }
    assert_eq!(buffer.ready(), Nanos::ZERO);
    assert!(buffer.holds(0, Nanos(ends[0].0 - 1), &nand));
    assert!(!buffer.holds(0, ends[0], &nand));
    assert_eq!(buffer.next_free_at(&nand), ends[0]);
    // A read that suspends the program delays the release of its slot.
    let read = nand.read(Nanos::ZERO, Nanos(ends[0].0 - 200_000), 0, 4096);
    let later = ends[0].after(read.sensed.since(read.begin));
    assert_eq!(buffer.next_free_at(&nand), later);
    let free_at = buffer.next_free_at(&nand);
    buffer.take(free_at);
    assert_eq!(buffer.ready(), later);
    assert!(!buffer.holds(0, Nanos(50), &nand), "its place has been given away");
    assert!(buffer.holds(4, Nanos(1_000_000_000), &nand), "not yet programmed");
}
