//! Unit tests of `faults/power_cut.rs`, with access to its private items.

use super::*;

#[test]
fn plans_are_read_and_nonsense_is_refused() {
    assert_eq!("after=1.5".parse(), Ok(PowerCutPlan::After(Nanos::millis(1500))));
    assert_eq!("ios=100".parse(), Ok(PowerCutPlan::Requests(100)));
    assert_eq!("at-random".parse(), Ok(PowerCutPlan::Random(MEAN)));
    assert_eq!("at-random=2".parse(), Ok(PowerCutPlan::Random(Nanos::secs(2))));
    for wrong in ["", "after", "after=", "after=-1", "after=nan", "ios=0", "ios=x", "never=1"] {
        assert!(wrong.parse::<PowerCutPlan>().is_err(), "{wrong}");
    }
}

#[test]
fn after_a_cut_the_drive_returns_at_once_later_or_when_it_is_told() {
    let cut = PowerCut { at_ns: 0, ready_after_ns: 0, lost_bytes: 0 };
    for (after, off_at) in
        [("return", [false; 2]), ("hold=2", [true, false]), ("refuse", [true; 2])]
    {
        let mut cuts = PowerCuts::new(Rng::new(1));
        cuts.after = after.parse().expect(after);
        assert!(!cuts.is_off(Nanos::secs(1)), "{after}");
        cuts.record(cut, Nanos::secs(1));
        let found = [2, 3].map(|second| cuts.is_off(Nanos::secs(second)));
        assert_eq!(found, off_at, "{after}");
        cuts.power_on();
        assert!(!cuts.is_off(Nanos::secs(2)), "{after}");
    }
    for wrong in ["", "hold", "hold=", "hold=0", "hold=-1", "hold=nan", "refuse=1", "never"] {
        assert!(wrong.parse::<AfterCut>().is_err(), "{wrong}");
    }
}

fn planned(plan: PowerCutPlan) -> PowerCuts {
    let mut cuts = PowerCuts::new(Rng::new(1));
    cuts.set_plan(Some(plan));
    cuts
}

#[test]
fn one_cut_or_many() {
    let mut once = planned(PowerCutPlan::Requests(3));
    let due: Vec<bool> = (1..6).map(|n| once.is_due(Nanos::ZERO, n)).collect();
    assert_eq!(due, [false, false, true, false, false]);
    let mut often = planned(PowerCutPlan::Random(Nanos::secs(1)));
    let seconds = (0..10_000).map(|n| Nanos::millis(10 * n));
    let cuts = seconds.filter(|&at| often.is_due(at, 0)).count();
    assert!((70..130).contains(&cuts), "{cuts} cuts in 100 s");
}
