//! Unit tests of `interface/events.rs`, with access to its private items.

use super::*;

#[test]
fn the_last_events_are_kept_and_numbered() {
    let mut events = Events::default();
    assert_eq!(events.since(0).count(), 0);
    for _ in 0..3 * KEPT {
        events.note("one", 0.0, What::PowerOn);
    }
    let numbers = |events: &Events, from| {
        let found: Vec<u64> = events.since(from).map(|event| event.number).collect();
        (found.first().copied(), found.len())
    };
    let next = 3 * KEPT as u64;
    assert_eq!(numbers(&events, 0), (Some(next - KEPT as u64), KEPT));
    assert_eq!(numbers(&events, next - 2), (Some(next - 2), 2));
    assert_eq!(numbers(&events, next), (None, 0));
    assert_eq!(numbers(&events, u64::MAX), (None, 0));
}

#[test]
fn an_event_is_one_flat_object() {
    let mut events = Events::default();
    let cut = PowerCut { at_ns: 1, ready_after_ns: 2, lost_bytes: 3 };
    events.note("one", 1.5, What::PowerCut(cut));
    events.note("one", 2.5, What::FaultBegins { kind: Kind::ReadError });
    let found: Vec<_> = events.since(0).map(|e| serde_json::to_value(e).expect("JSON")).collect();
    assert_eq!(found[0]["event"], "power-cut");
    assert_eq!((&found[0]["lost_bytes"], &found[0]["drive_s"]), (&3.into(), &1.5.into()));
    assert_eq!(
        (&found[1]["event"], &found[1]["kind"]),
        (&"fault-begins".into(), &"read-error".into())
    );
}
