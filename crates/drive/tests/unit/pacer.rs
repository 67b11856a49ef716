//! Unit tests of `pacer.rs`, with its private items in reach.

use super::*;

#[test]
fn what_is_drawn_ahead_is_made_up_for_and_what_is_not_drawn_is_kept_as_far_as_said() {
    let mut pacer = Pacer::default();
    pacer.feed(10);
    pacer.draw(25);
    assert!(!pacer.allows() && pacer.tokens() == -15);
    pacer.feed(20);
    assert!(pacer.allows());
    pacer.keep(3);
    assert_eq!(pacer.tokens(), 3);
    assert_eq!([4, 3].map(|quantum| pacer.draw_quantum(quantum)), [None, Some(3)]);
    assert_eq!(pacer.tokens(), 0);
}

#[test]
fn time_feeds_once() {
    let mut pacer = Pacer::default();
    assert_eq!([5, 3, 9].map(|at| pacer.feed_time(Nanos(at), 7).0), [5, 0, 4]);
    assert_eq!(pacer.tokens(), 7);
    pacer.feed(2);
    pacer.feed_time(Nanos(20), 7);
    assert_eq!(pacer.tokens(), 9, "what else fed it stays");
}

#[test]
fn what_cannot_be_held_is_no_state() {
    let pacer = |tokens| Pacer { tokens, fed_until: Nanos::ZERO };
    assert!(pacer(7).check(7).is_ok() && pacer(-7).check(0).is_ok());
    assert!(pacer(8).check(7).is_err() && pacer(i64::MIN).check(0).is_err());
}
