//! Unit tests of `nvme/zones.rs`, with access to its private items.

use std::sync::Arc;

use drivebay_units::Nanos;
use drivebay_wire::nvme::CHANGED_ZONES_MAX;
use zerocopy::FromBytes;

use super::*;
use crate::namespace::NamespaceTable;

const COUNT: u32 = 600;

/// A namespace of 600 zones of 6 MiB in 8 MiB.
fn namespace() -> Arc<Namespace> {
    let sectors = 6 << 11;
    let none = Nanos(0);
    let zones = ZoneSpec {
        count: COUNT,
        pages: 1536,
        sectors,
        size_sectors: 8 << 11,
        active: 14,
        open: 14,
        append: none,
        write_latency: none,
        append_latency: none,
        reset: none,
        reset_ps_per_sector: 0,
        close: none,
        slice: none,
        zrwa: None,
    };
    let table = NamespaceTable::whole(u64::from(COUNT) * sectors, false);
    let mut namespace = table.get(1).cloned().expect("the only one");
    drop(table);
    Arc::get_mut(&mut namespace).expect("nobody else has it").zones = Some(zones);
    namespace
}

#[test]
fn a_list_of_changed_zones_that_do_not_fit_is_empty() {
    let whole = namespace();
    let log = |zones: usize| {
        let page = changed(&(0..zones).collect(), &whole);
        ChangedZones::read_from_bytes(&page).expect("a page")
    };
    let full = log(CHANGED_ZONES_MAX);
    assert_eq!((full.count.get(), full.starts[1].get()), (511, 2048));
    assert_eq!(full.starts[510].get(), 510 * 2048);
    let over = log(CHANGED_ZONES_MAX + 1);
    assert_eq!(over.count.get(), 0xffff);
    assert!(over.starts.iter().all(|start| start.get() == 0));
}
