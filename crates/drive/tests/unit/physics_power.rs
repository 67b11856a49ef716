//! Unit tests of `physics/power.rs` with access to its private parts.

use super::*;

fn power() -> Power {
    let state = |after, entry, exit, power_uw| Sleep {
        after: Nanos::micros(after),
        entry: Nanos::micros(entry),
        exit: Nanos::micros(exit),
        power_uw,
    };
    Power {
        awake_uw: 1_500_000,
        link_awake_uw: 50_000,
        device: vec![state(1000, 500, 5000, 20_000), state(10_000, 2000, 22_000, 5000)],
        link: vec![state(100, 10, 70, 0)],
    }
}

#[test]
fn waking_costs_the_exit_and_what_is_left_of_the_entry() {
    let at = |us| {
        let wake = power().wake(Nanos::micros(us));
        (wake.link.0 / 1000, wake.device.0 / 1000)
    };
    assert_eq!(at(99), (0, 0));
    assert_eq!(at(100), (80, 0));
    assert_eq!(at(110), (70, 0));
    assert_eq!(at(1200), (70, 5300));
    assert_eq!(at(9999), (70, 5000));
    assert_eq!(at(11_000), (70, 23_000));
    assert_eq!(at(1_000_000), (70, 22_000));
}

#[test]
fn energy_is_the_sum_over_states() {
    let nj = |from, to| power().idle_energy_nj(Nanos::micros(from), Nanos::micros(to));
    // 110 us of the link's 50 mW, 1,500 us of 1,500 mW, 10,500 us of 20 mW, 8,000 us of 5 mW.
    let whole = 110 * 50 + 1500 * 1500 + 10_500 * 20 + 8000 * 5;
    assert_eq!(nj(0, 20_000), whole);
    assert_eq!(nj(0, 777) + nj(777, 20_000), whole);
    assert_eq!(nj(20_000, 21_000), 5000);
}
