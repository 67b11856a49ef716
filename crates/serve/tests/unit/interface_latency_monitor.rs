//! Unit tests of `interface/latency_monitor.rs`, with its private items in reach.

use super::*;

#[test]
fn each_latency_is_in_one_bucket_and_the_timer_freezes_them() {
    let mut monitor = LatencyMonitor::new(Nanos::ZERO);
    let settings = LatencySettings {
        timer_threshold: 1,
        thresholds: [0, 1, 3, 9],
        ..LatencySettings::default()
    };
    monitor.set(settings, Nanos::ZERO);
    let now = Nanos::secs(1);
    for (ms, times) in [(4, 3), (5, 1), (9, 1), (10, 4), (19, 1), (20, 2), (49, 1), (50, 7)] {
        for _ in 0..times {
            monitor.record(Op::Read, Nanos::millis(ms), now);
        }
    }
    monitor.record(Op::Write { fua: false }, Nanos::millis(60), now);
    monitor.record(Op::Trim { fua: false }, Nanos::millis(12), now);
    monitor.record(Op::Flush, Nanos::millis(60), now);
    let expected = [[2, 0, 0], [5, 0, 1], [3, 0, 0], [7, 1, 0]];
    let (timer, active, _) = monitor.counts(now);
    assert_eq!((timer, active.commands), (0, expected));
    assert_eq!(active.longest[1][0], Some((Nanos::millis(19), now)));
    let (timer, active, frozen) = monitor.counts(Nanos::secs(300));
    assert_eq!((timer, active.commands, frozen.commands), (0, [[0; 3]; 4], expected));
    monitor.set(LatencySettings { is_on: false, ..settings }, now);
    monitor.record(Op::Read, Nanos::secs(1), now);
    assert_eq!(monitor.counts(now).1.commands, [[0; 3]; 4]);
}
