//! Unit tests of `engine/follow_ups.rs`, with access to its private items.

use super::*;

/// Follow-ups of a client that has followed `count` answers, each after `gap`; one answer has none
/// yet. Also returns the time of that answer.
fn after(count: u64, gap: Nanos) -> (FollowUps, Nanos) {
    let mut follow_ups = FollowUps { is_on: true, ..FollowUps::default() };
    let (client, mut host) = (SessionId::numbered(1), Nanos::ZERO);
    follow_ups.arrival(client, Nanos::ZERO);
    for _ in 0..count {
        follow_ups.answer(client, host, host);
        host = host.after(gap);
        follow_ups.expire(host);
        follow_ups.arrival(client, host);
    }
    follow_ups.answer(client, host, host);
    (follow_ups, host)
}

#[test]
fn a_client_is_waited_for_as_long_as_it_has_followed_within_bounds() {
    for (gap_us, patience_ms) in [(10, 100), (1_000, 300), (50_000, 1_000)] {
        let (mut follow_ups, host) = after(300, Nanos::micros(gap_us));
        assert_eq!(follow_ups.horizon(), host);
        let patience = Nanos::millis(patience_ms);
        assert_eq!(follow_ups.expire(host), Some(patience));
        let last = Nanos(patience.0 - 1);
        assert_eq!(follow_ups.expire(host.after(last)), Some(Nanos(1)));
        assert_eq!(follow_ups.expire(host.after(patience)), None);
        assert_eq!(follow_ups.horizon(), NEVER, "{gap_us}: given up");
    }
}

#[test]
fn a_client_that_has_followed_few_answers_is_not_waited_for() {
    let (mut follow_ups, host) = after(u64::from(STREAK) - 1, Nanos::millis(50));
    assert_eq!((follow_ups.horizon(), follow_ups.expire(host)), (NEVER, None));
}
