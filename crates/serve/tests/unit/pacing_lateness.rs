//! Unit tests of `pacing/lateness.rs`, with access to its private items.

use super::*;

#[test]
fn the_send_time_converges_to_the_median() {
    let mut lateness = Lateness::default();
    for iteration in 0..1000 {
        lateness.learn_send_time(Nanos::micros(if iteration % 3 == 0 { 4000 } else { 8 }));
    }
    assert!((7_800..=8_400).contains(&lateness.send_time().0), "{:?}", lateness.send_time());
    for _ in 0..1000 {
        lateness.learn_send_time(Nanos::micros(500));
    }
    assert_eq!(lateness.send_time(), SEND_TIME_MAX);
    for _ in 0..1000 {
        lateness.learn_send_time(Nanos::ZERO);
    }
    assert!(lateness.send_time() <= SEND_TIME_STEP);
}

/// Records an answer after a gap: gap, latency of the model and actual latency in microseconds.
fn answered(lateness: &mut Lateness, now: &mut Nanos, [gap, modelled, took]: [u64; 3]) {
    let arrived = now.after(Nanos::micros(gap));
    lateness.request(arrived);
    let modelled = Nanos::micros(modelled);
    *now = arrived.after(Nanos::micros(took));
    lateness.begin_answer(Nanos::ZERO, arrived, [modelled; 2], *now);
    assert_eq!(lateness.end_iteration(|| *now), Some((*now, Nanos::ZERO)));
}

#[test]
fn a_host_keeps_up_by_what_answers_took_beside_the_modelled_times() {
    let (mut lateness, mut now) = (Lateness::default(), Nanos::ZERO);
    assert_eq!(lateness.figures().kept_up_percent, None);
    assert_eq!(lateness.end_iteration(|| unreachable!()), None);
    // The first gap does not count, and the last one is the client's pause.
    for times in [[7, 60, 58], [20, 60, 60], [20, 60, 92], [100_000, 60, 60]] {
        answered(&mut lateness, &mut now, times);
    }
    let figures = lateness.figures();
    let near = |found: Option<f64>, wanted: f64| (found.expect("answers") - wanted).abs() < 0.01;
    assert!(near(figures.kept_up_percent, 100.0 * 240.0 / 270.0), "{figures:?}");
    assert!(near(figures.kept_up_least_percent, 100.0 * 240.0 / 310.0), "{figures:?}");
    assert_eq!((figures.answers, figures.modelled_us_mean), (4, 60.0));
    assert_eq!(lateness.lately(), None, "four answers say nothing");
    for took in 0..LATELY_MIN {
        answered(&mut lateness, &mut now, [0, 600, if took < 2 { 4600 } else { 600 }]);
    }
    let lately = lateness.lately().expect("answers");
    assert!(lately.late_p99 < LATE, "one in a hundred was late");
    assert!((lately.modelled.0.abs_diff(600_000) < 12_000) && lately.more > Nanos::micros(35));
    for took in 0..LATELY_MIN {
        answered(&mut lateness, &mut now, [0, 600, if took < 3 { 4600 } else { 600 }]);
    }
    let late = lateness.lately().expect("answers").late_p99;
    assert!(late.0.abs_diff(4_000_000) < 64_000, "{late:?}");
    assert_eq!(lateness.lately(), None);
    // A client that asks again after 15 us asks at once, and one that does after 500 us works.
    for gap in [15, 500] {
        for _ in 0..LATELY_MIN {
            answered(&mut lateness, &mut now, [gap, 60, 60]);
        }
        let lately = lateness.lately().expect("answers");
        assert_eq!(lately.more, Nanos::micros(if gap == 15 { 15 } else { 0 }));
    }
}

#[test]
fn a_client_that_keeps_two_in_flight_waits_for_each_of_its_own_requests() {
    let mut lateness = Lateness::default();
    let at = Nanos::micros;
    let answer = |lateness: &mut Lateness, arrived: u64, sent: u64| {
        lateness.begin_answer(Nanos::ZERO, at(arrived), [at(50); 2], at(sent));
        lateness.end_iteration(|| at(sent));
    };
    lateness.request(at(0));
    lateness.request(at(0));
    // Each is answered after 50 us, and the client takes 30 us to ask again in parallel with the
    // other one.
    for round in 0..100 {
        for _ in 0..2 {
            answer(&mut lateness, 80 * round, 80 * round + 50);
        }
        lateness.request(at(80 * (round + 1)));
        lateness.request(at(80 * (round + 1)));
    }
    let figures = lateness.figures();
    assert_eq!(figures.kept_up_percent, Some(100.0));
    let least = figures.kept_up_least_percent.expect("answers");
    assert!((least - 100.0 * 50.0 / 80.0).abs() < 0.01, "{least}");
    // Answers without a following request are dropped.
    answer(&mut lateness, 9_000, 9_050);
    lateness.request(at(1_000_000));
    assert_eq!(lateness.figures().kept_up_least_percent.map(|now| now > least), Some(true));
}

#[test]
fn early_answers_make_up_for_late_ones() {
    let (mut lateness, mut now) = (Lateness::default(), Nanos::ZERO);
    for times in [[0, 500, 900], [0, 500, 250], [0, 500, 350]] {
        answered(&mut lateness, &mut now, times);
    }
    let figures = lateness.figures();
    assert_eq!((figures.kept_up_percent, figures.late), (Some(100.0), 1));
}

#[test]
fn percentiles_are_nearest_rank() {
    let mut lateness = Lateness::default();
    let of = |lateness: &Lateness, per_mille| {
        percentile(&lateness.histogram, per_mille, lateness.longest)
    };
    assert_eq!(of(&lateness, 500), Nanos::ZERO);
    let mut answer = |took| {
        lateness.record(&Answer { arrived: Nanos::ZERO, modelled: Nanos::ZERO }, Nanos(took));
    };
    (1..=60).for_each(&mut answer);
    answer(LATE.0 + 1);
    assert_eq!(of(&lateness, 500), Nanos(31));
    assert_eq!(of(&lateness, 0), Nanos(1));
    assert_eq!(of(&lateness, 1000), LATE.after(Nanos(1)));
    assert_eq!((lateness.sums.answers, lateness.late), (61, 1));
}
