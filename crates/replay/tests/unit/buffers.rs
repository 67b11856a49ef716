//! Unit tests of `buffers.rs`, with its private items in reach.

use super::*;

#[test]
fn no_two_requests_share_a_page() {
    let mut area = BufferPool::to_read().expect("32 MiB");
    let big = area.take(POOL_BYTES - PAGE_BYTES).expect("all but one page");
    let small = area.take(1).expect("the last page");
    assert_eq!((small.first as usize, small.pages), (PAGES - 1, 1));
    assert_eq!(area.take(1), None);
    area.release(big);
    let again = area.take(2 * PAGE_BYTES).expect("room again");
    assert_eq!((again.first, again.pages), (0, 2));
    // The free pages before and after the allocated ones are not adjacent.
    assert_eq!(area.take(POOL_BYTES - 2 * PAGE_BYTES), None);
}

#[test]
fn written_pages_never_repeat_and_do_not_compress() {
    let mut area = BufferPool::to_write(Some(7)).expect("32 MiB");
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2 * PAGES {
        let extent = area.take(PAGE_BYTES).expect("all are given back");
        let start = extent.first as usize * PAGE_BYTES;
        assert!(seen.insert(area.memory[start..start + 16].to_vec()));
        area.release(extent);
    }
    let mut counts = [0u32; 256];
    area.memory.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let mean = POOL_BYTES as f64 / 256.0;
    assert!(counts.iter().all(|&n| (f64::from(n) / mean - 1.0).abs() < 0.05));
    assert!(BufferPool::to_write(None).expect("32 MiB").memory.iter().all(|b| *b == 0));
}
