//! Unit tests of `memory_limit.rs`, with its private items in reach.

use super::*;

#[test]
fn a_share_never_exceeds_its_part_and_gives_it_back() {
    let limit = MemoryLimit::new(100, 10, 10);
    let (mut first, mut second) = (limit.share(Use::Requests), limit.share(Use::Requests));
    assert!(first.resize(6) && !second.resize(5) && second.resize(4) && !first.resize(7));
    assert_eq!((limit.used(Use::Requests), limit.used(Use::Data)), (10, 0));
    assert!(first.resize(1) && second.resize(9));
    drop((first, second));
    assert_eq!(limit.used(Use::Requests), 0);
    assert!(!limit.take(Use::Data, u64::MAX) && limit.take(Use::Data, 100));
}

#[test]
fn the_total_that_data_needs_is_the_least_with_which_it_fits() {
    for data in [1, 200 << 20, 900 << 20, 3 << 30, 7 << 30, 500 << 30] {
        let total = MemoryLimit::new(0, 0, 0).total_for_data(data);
        let fits =
            |total| MemoryLimit::of_all(total).is_some_and(|limit| limit.take(Use::Data, data));
        assert!(fits(total) && (total == MemoryLimit::LEAST || !fits(total - 8)), "{data}");
    }
}

#[test]
fn all_memory_is_divided_and_too_little_of_it_refused() {
    assert!(MemoryLimit::of_all(MemoryLimit::LEAST - 1).is_none());
    for bytes in [MemoryLimit::LEAST, 1 << 30, 100 << 30] {
        let limit = MemoryLimit::of_all(bytes).expect("enough");
        assert_eq!(limit.max(), bytes);
        assert!(limit.take(Use::Requests, 64 << 20), "two of the longest writes");
    }
}
