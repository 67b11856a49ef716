//! Unit tests of `pacing/auto_scale.rs`, with access to its private items.

use drivebay_units::Nanos;

use super::*;

fn lately(modelled_us: u64, more_us: u64, late_p99_us: u64) -> Lately {
    let [modelled, more, late_p99] = [modelled_us, more_us, late_p99_us].map(Nanos::micros);
    Lately { kept_up_percent: 100.0, modelled, more, late_p99 }
}

#[test]
fn it_finds_what_the_machine_keeps_and_stays_there() {
    for (modelled, more, late) in [(100, 0, 0), (100, 1, 90), (20, 15, 90), (100, 1, 4_000)] {
        let (mut scale, mut changes) = (1.0, 0);
        for _ in 0..60 {
            if let Some(next) = judge(scale, &lately(modelled, more, late)) {
                (scale, changes) = (next, changes + 1);
            }
        }
        let kept = more as f64 / (modelled as f64 / scale);
        let in_time = late <= 100 || late as f64 <= 0.28 * modelled as f64 / scale;
        assert!(kept <= 0.02 && in_time, "{scale}: {kept}");
        assert!(scale == 1.0 || kept > 0.015 || late > 100, "{scale}: no faster one: {kept}");
        assert!(changes < 12, "{changes}");
    }
}

#[test]
fn a_bad_second_costs_seconds_and_no_more() {
    let (good, bad) = (lately(100, 0, 50), lately(100, 900, 90_000));
    let mut scale = judge(1.0, &bad).expect("slower");
    assert_eq!(scale, 0.5);
    let back = (0..10).position(|_| match judge(scale, &good) {
        Some(next) => std::mem::replace(&mut scale, next) == 1.0,
        None => true,
    });
    assert_eq!(back, Some(4));
    let mut scale = 1.0;
    for _ in 0..100 {
        scale = judge(scale, &bad).unwrap_or(scale);
    }
    assert_eq!(scale, SLOWEST);
}
