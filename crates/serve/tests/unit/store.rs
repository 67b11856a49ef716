//! Unit tests of `store/mod.rs`, with its private items in reach.

use super::*;

#[test]
fn a_flush_waits_for_the_host_only_where_that_is_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    for (durability, waits) in [(HostDurability::Flush, true), (HostDurability::None, false)] {
        let path = folder.path().join(format!("{durability:?}"));
        let waker = Waker::new().expect("an eventfd");
        let mut store =
            Store::open(&path, 8, durability, waker, &MemoryLimit::new(0, 0, 0)).expect("a file");
        let sync = store.apply(1, &Request::flush(1), &[]).expect("nothing fails");
        assert_eq!(sync.is_some(), waits);
    }
}
