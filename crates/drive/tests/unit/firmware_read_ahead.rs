//! Unit tests of `firmware/read_ahead.rs`, with its private items in reach.

use super::*;

#[test]
fn a_stream_is_known_by_where_it_goes_on() {
    let mut ahead = ReadAhead::new(ReadAheadSpec { window_pages: 32, streams: 2 });
    assert_eq!(ahead.continued(100, 131), None);
    let stream = ahead.continued(132, 163).expect("it goes on");
    assert_eq!(ahead.fetched(stream, 132, 163), None);
    assert_eq!(ahead.wanted(stream, 163, 1000), 164..196);
    ahead.put(stream, 164..168, Nanos(7));
    ahead.put(stream, 168..196, Nanos(9));
    assert_eq!(ahead.continued(500, 500), None);
    assert_eq!(ahead.continued(164, 171), Some(stream));
    assert_eq!(ahead.fetched(stream, 164, 171), Some((4, Nanos(7))));
    assert_eq!(ahead.fetched(stream, 168, 171), Some((4, Nanos(9))));
    assert!(ahead.wanted(stream, 171, 1000).is_empty(), "three quarters are still there");
    // Two other streams push it out.
    ahead.continued(600, 600);
    ahead.continued(700, 700);
    assert_eq!(ahead.continued(172, 172), None);
}

#[test]
fn nothing_is_fetched_behind_the_end_of_the_drive() {
    let mut ahead = ReadAhead::new(ReadAheadSpec { window_pages: 8, streams: 1 });
    ahead.continued(0, 0);
    let stream = ahead.continued(1, 1).expect("it goes on");
    assert_eq!(ahead.wanted(stream, 1, 6), 2..6);
    assert!(ahead.wanted(stream, 5, 6).is_empty());
}
