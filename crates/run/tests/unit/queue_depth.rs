//! Unit tests of `queue_depth.rs`, with access to its private items.

use super::*;
use proptest::prelude::*;

proptest! {
    /// The result equals counting at every nanosecond.
    #[test]
    fn equals_counting_each_nanosecond(requests in prop::collection::vec((0u64..20, 1u64..60), 1..40)) {
        let mut at = 0;
        let spans: Vec<(u64, u64)> = requests
            .iter()
            .map(|&(gap, len)| {
                at += gap;
                (at, at + len)
            })
            .collect();
        let mut outstanding = DepthTracker::new(Nanos(0));
        for &(from, to) in &spans {
            outstanding.released(Nanos(from));
            outstanding.completed(Nanos(to));
        }
        let got = outstanding.finish();
        let end = spans.iter().map(|span| span.1).max().expect("at least one");
        let at = |t: u64| spans.iter().filter(|&&(from, to)| from <= t && t < to).count() as u64;
        let counts: Vec<u64> = (0..end).map(at).collect();
        let busy = counts.iter().filter(|&&count| count > 0).count() as u64;
        prop_assert_eq!(got.busy, Nanos(busy));
        let mean = counts.iter().sum::<u64>() as f64 / busy as f64;
        prop_assert!((got.mean - mean).abs() < 1e-9);
        prop_assert_eq!(got.max, counts.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(got.by_depth.iter().sum::<u64>(), spans.len() as u64);
    }
}
