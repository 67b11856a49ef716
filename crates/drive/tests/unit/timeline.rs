//! Unit tests of `timeline.rs` with access to its private parts.

use super::*;
use drivebay_units::Rng;

#[test]
fn a_fifo_waits_for_its_turn() {
    let mut fifo = Fifo::default();
    assert_eq!(fifo.reserve(Nanos(10), Nanos(5)), (Nanos(10), Nanos(15)));
    assert_eq!(fifo.reserve(Nanos(11), Nanos(5)), (Nanos(15), Nanos(20)));
}

#[test]
fn a_calendar_lets_early_requests_use_early_gaps() {
    let mut calendar = Calendar::default();
    assert_eq!(calendar.reserve(Nanos(0), Nanos(1000), Nanos(10)), Nanos(1010));
    assert_eq!(calendar.reserve(Nanos(0), Nanos(100), Nanos(10)), Nanos(110));
    // Split around the interval at 1000.
    assert_eq!(calendar.reserve(Nanos(0), Nanos(995), Nanos(10)), Nanos(1015));
    assert_eq!(calendar.reserve(Nanos(0), Nanos(995), Nanos(10)), Nanos(1025));
}

/// The reference: one flag per nanosecond.
#[test]
fn equals_a_bitmap_of_nanoseconds() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut calendar = Calendar::default();
        let mut busy = vec![false; 20_000];
        let mut floor = 0;
        for _ in 0..150 {
            floor += rng.below(20);
            let from = floor + rng.below(200);
            let len = 1 + rng.below(30);
            let mut need = len;
            let mut t = from as usize;
            while need > 0 {
                if !busy[t] {
                    busy[t] = true;
                    need -= 1;
                }
                t += 1;
            }
            let got = calendar.reserve(Nanos(floor), Nanos(from), Nanos(len));
            assert_eq!(got, Nanos(t as u64), "seed {seed}");
        }
    }
}

#[test]
fn a_full_ring_never_forgets_the_bound() {
    let mut calendar = Calendar::default();
    for i in (0..500u64).rev() {
        let end = calendar.reserve(Nanos(0), Nanos(i * 100), Nanos(10));
        assert!(end >= Nanos(i * 100 + 10));
        assert!(calendar.len <= INTERVALS_MAX);
    }
}
