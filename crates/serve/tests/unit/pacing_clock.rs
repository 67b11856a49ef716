//! Unit tests of `pacing/clock.rs`, with access to its private items.

use super::*;

#[test]
fn scales_are_numbers_or_fractions_within_bounds() {
    for (text, ratio) in
        [("1", 1.0), ("0.05", 0.05), ("1/20", 0.05), (" 3 / 4 ", 0.75), ("1e2", 100.0)]
    {
        assert_eq!(text.parse::<TimeScale>().map(TimeScale::ratio), Ok(ratio), "{text}");
    }
    let auto: TimeScale = "auto".parse().expect("a scale");
    assert!(auto.is_auto() && auto.ratio() == 1.0 && !TimeScale::default().is_auto());
    assert_eq!("1".parse(), Ok(TimeScale::default()));
    for wrong in
        ["", "0", "-1", "1/0", "0/1", "1/10001", "101", "nan", "inf", "1/inf", "x", "1/2/3"]
    {
        assert!(wrong.parse::<TimeScale>().is_err(), "{wrong}");
    }
}

#[test]
fn durations_are_there_and_back_the_same() {
    for text in ["1/10000", "1/20", "1/3", "1", "7", "100"] {
        let scale: TimeScale = text.parse().expect(text);
        for host in [0, 1000, 123_456_789, 86_400_000_000_000_u64] {
            let there = scale.to_drive(Nanos(host));
            assert!(
                (there.0 as f64 - host as f64 * scale.ratio()).abs() <= 1.0 + host as f64 * 1e-6,
                "{text}"
            );
            let back = scale.to_host(there);
            let resolution = 2.0 + 1.0 / scale.ratio() + host as f64 * 1e-6;
            assert!((back.0 as f64 - host as f64).abs() <= resolution, "{text} {host} {back:?}");
        }
    }
    let fastest: TimeScale = "1/10000".parse().expect("a scale");
    assert_eq!(fastest.to_host(Nanos(u64::MAX)), Nanos(u64::MAX));
}

#[test]
fn a_clock_stands_still_for_a_late_answer_and_makes_it_up() {
    let mut clock = Clock::new(Pace::Sleep, "1/2".parse().expect("a scale"), Nanos::ZERO);
    let at = |clock: &Clock, ms| clock.read_at(Nanos::millis(ms)).0 / 1_000_000;
    assert_eq!(at(&clock, 20), 10);
    // Due at 10 ms of the drive's time, sent 8 ms late by the host's clock.
    clock.hold(Nanos::millis(10), Nanos::millis(28));
    assert_eq!((at(&clock, 28), at(&clock, 40)), (10, 16), "nothing is in flight");
    clock.catches_up = true;
    assert_eq!([28, 32, 36, 40].map(|ms| at(&clock, ms)), [10, 14, 18, 20]);
    clock.settle(Nanos::millis(32));
    assert_eq!([32, 36, 40].map(|ms| at(&clock, ms)), [14, 18, 20]);
    assert_eq!(clock.debt, Nanos::millis(2));
    // An early answer leaves the clock unchanged, and the debt is limited.
    clock.hold(Nanos::millis(20), Nanos::millis(36));
    assert_eq!(clock.debt, Nanos::ZERO);
    clock.hold(Nanos::millis(20), Nanos::secs(100));
    assert_eq!(clock.debt, Nanos::millis(50));
}

#[test]
fn the_wait_for_an_answer_is_shorter_while_the_clock_makes_up() {
    let mut clock = Clock::new(Pace::Sleep, "1/100".parse().expect("a scale"), Nanos::ZERO);
    clock.debt = Nanos::secs(2);
    let wait = |clock: &Clock, s| clock.until(Nanos::secs(s)).as_secs_f64().round();
    assert_eq!([2, 4, 6].map(|s| wait(&clock, s)), [200.0, 400.0, 600.0]);
    clock.catches_up = true;
    assert_eq!([2, 4, 6].map(|s| wait(&clock, s)), [100.0, 200.0, 400.0]);
}

#[test]
fn a_slow_clock_makes_the_host_wait_longer() {
    let slow = Clock::new(Pace::Sleep, "1/1000".parse().expect("a scale"), Nanos::ZERO);
    let wait = slow.sleep(Some(Nanos::secs(1)), Nanos::ZERO).expect("a time");
    assert!((900.0..=1000.0).contains(&wait.as_secs_f64()), "{wait:?}");
    assert!(slow.read() < Nanos::millis(100));
}
