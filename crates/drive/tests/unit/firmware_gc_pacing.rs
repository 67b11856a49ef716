//! Unit tests of `firmware/gc/pacing.rs` with access to its private parts.

use super::*;

fn spec(duty_pages: u64) -> PacingSpec {
    PacingSpec::new(1000, 200, (0.5, 3.0), 20.0, duty_pages)
}

fn ledger(duty_pages: u64) -> Ledger {
    Ledger::new(spec(duty_pages), None)
}

#[test]
fn it_runs_each_time_that_so_many_pages_were_written_and_for_all_of_them() {
    let mut ledger = ledger(1);
    assert_eq!([1, 32].map(|pages| ledger.due(pages)), [Some(1), Some(32)]);
    ledger.spec.every_pages = 48;
    let due = [40, 7, 3, 47, 1, 200].map(|pages| ledger.due(pages));
    assert_eq!(due, [None, None, Some(50), None, Some(48), Some(200)]);
}

#[test]
fn the_duty_limit_counts_the_first_pages_of_a_command_and_all_are_owed() {
    let spent = |most, pages| {
        let mut ledger = ledger(most);
        ledger.add_debt(pages, Nanos(100), ledger.own(200));
        (ledger.core_time.tokens(), ledger.debt.tokens())
    };
    assert_eq!([spent(7, 2), spent(7, 32)], [(200, 2 << 16), (700, 32 << 16)]);
    assert_eq!(spent(PAGES_MAX, 32), (3200, 32 << 16));
}

#[test]
fn what_is_not_used_is_not_kept() {
    let mut ledger = ledger(7);
    ledger.add_debt(2, Nanos(100), ledger.own(200));
    ledger.spend(Nanos(250), 1 << 16);
    assert!(!ledger.allows());
    ledger.settle();
    assert_eq!((ledger.core_time.tokens(), ledger.debt.tokens()), (-50, 0));
    assert!(ledger.check().is_ok());
    ledger.debt.feed(1);
    assert!(ledger.check().is_err());
}

fn deferring() -> Ledger {
    Ledger::new(spec(7), Some(BackgroundSpec { interval: Nanos(100), round_pages: 10 }))
}

#[test]
fn so_many_pages_are_copied_in_a_second_while_some_are_owed() {
    let mut ledger = deferring();
    ledger.defer(false, Nanos(1000));
    ledger.debt.feed(7 << 16);
    let mut times = Vec::new();
    for at in (1000..3000).map(Nanos) {
        ledger.defer(ledger.has_debt(), at);
        let mut goes_on = ledger.copies_in_background(0, 0);
        while goes_on {
            goes_on = ledger.copies_in_background(2, 1 << 16);
            times.push(at.0);
        }
    }
    assert_eq!(times, [1000, 1200, 1400, 1600, 1800, 2000, 2200]);
    ledger.defer(false, Nanos(9000));
    ledger.debt.feed(1 << 16);
    assert!(ledger.copies_in_background(0, 0));
    ledger.copies_in_background(1, 0);
    ledger.defer(true, Nanos(9099));
    assert!(!ledger.copies_in_background(0, 0), "what was not due then is not made up for");
}

#[test]
fn a_round_is_due_when_more_is_owed_than_it_gives() {
    let mut ledger = deferring();
    ledger.debt.feed(5 << 16);
    assert_eq!(ledger.round_due(1 << 15), None);
    ledger.debt.feed(1);
    assert_eq!(ledger.round_due(1 << 15), Some(10));
    assert_eq!(ledger.round_due(0), None, "no victim");
    ledger.spend_in_round(1 << 15);
    assert_eq!(ledger.round_due(1 << 15), None);
}
