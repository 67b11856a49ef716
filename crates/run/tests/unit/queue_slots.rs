//! Unit tests of `queue_slots.rs`, with its private items in reach.

use super::*;
use drivebay_units::Rng;

#[test]
fn always_gives_the_minimum() {
    for depth in [1, 2, 3, 32, 33, 1024] {
        let mut rng = Rng::new(depth as u64);
        // Longer than any run.
        let start = 1u64 << 58;
        let mut slots = QueueSlots::new(depth, Nanos(start));
        let mut naive = vec![start; depth];
        for _ in 0..2000 {
            let (slot, at) = slots.first();
            assert_eq!(slots.first_at(), at);
            assert_eq!(at.0, *naive.iter().min().expect("a queue has slots"));
            assert_eq!(naive[slot], at.0);
            slots.take(slot);
            let others = (0..depth).filter(|&other| other != slot).map(|other| naive[other]);
            assert_eq!(slots.first().1.0, others.min().unwrap_or(NEVER.0));
            naive[slot] = at.0 + rng.below(100);
            slots.set(slot, Nanos(naive[slot]));
        }
    }
}
