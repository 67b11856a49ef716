//! Unit tests of `histogram.rs`, with its private items in reach.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_value_lies_in_a_narrow_bin(value in any::<u64>()) {
        let mut histogram = Histogram::default();
        histogram.record(value);
        let bin = histogram.bins().next().expect("one value was counted");
        prop_assert!(bin.low <= value && (value < bin.high || bin.high == u64::MAX));
        prop_assert!((bin.high - bin.low) as f64 <= 1.0f64.max(bin.low as f64 / 64.0));
    }
}

#[test]
fn edges_are_contiguous() {
    for i in 0..BINS - 1 {
        assert_eq!(index(edge(i)), i);
        assert_eq!(index(edge(i + 1) - 1), i);
    }
}
