//! Tests of the pacer against its definition, on small recordings.

use proptest::prelude::*;

use super::*;

fn ms(ms: u64) -> Nanos {
    Nanos::millis(ms)
}

/// Issue times of a schedule, which do not depend on completions.
fn due(pace: Pace, recording: &[(Nanos, Option<Nanos>)]) -> Vec<Nanos> {
    let mut pacer = Pacer::new(pace).expect("an allowed pace");
    let issue = |&(at, response): &(Nanos, Option<Nanos>)| {
        pacer.admit(at, response);
        let due = pacer.release().expect("a schedule waits for nothing");
        let ticket = pacer.issue();
        pacer.completed(ticket, due);
        due
    };
    recording.iter().map(issue).collect()
}

#[test]
fn idle_counts_from_the_last_completion() {
    // Busy from 0 to 50 ms, although the second request is short; then idle for 100 ms.
    let recording =
        [(ms(0), Some(ms(50))), (ms(10), Some(ms(1))), (ms(150), None), (ms(160), None)];
    let capped = Pace::idle_capped(ms(25));
    assert_eq!(due(capped, &recording), [ms(0), ms(10), ms(75), ms(85)]);
    assert_eq!(due(Pace::AS_RECORDED, &recording), [ms(0), ms(10), ms(150), ms(160)]);
}

#[test]
fn the_cap_is_in_the_time_of_the_replay() {
    let half = Pace::Recorded { idle_max_ns: Some(ms(25).0), time_percent: 50 };
    // 60 ms of idle time are 30 ms in the replay, cut to 25; 40 ms are 20 and stay.
    let recording = [(ms(0), None), (ms(60), None), (ms(100), None)];
    assert_eq!(due(half, &recording), [ms(0), ms(25), ms(45)]);
}

#[test]
fn a_scale_of_nothing_is_refused() {
    for time_percent in [0, TIME_PERCENT_MAX + 1] {
        let pace = Pace::Recorded { idle_max_ns: None, time_percent };
        assert_eq!(Pacer::new(pace).err(), Some(PaceError(time_percent)));
    }
}

#[test]
fn the_last_time_there_is_does_not_overflow() {
    let slow = Pace::Recorded { idle_max_ns: None, time_percent: TIME_PERCENT_MAX };
    let last = Nanos(u64::MAX);
    assert_eq!(due(slow, &[(last, Some(last))]), [last]);
}

#[test]
fn a_deep_recording_is_replayed_at_the_bound() {
    let mut dependencies = Dependencies::new(2);
    let mut tickets = Vec::new();
    for _ in 0..2 {
        dependencies.admit(Nanos(0), Some(ms(5)));
        tickets.push(dependencies.issue());
    }
    dependencies.admit(Nanos(0), Some(ms(5)));
    assert_eq!(dependencies.missing, 1, "a third at a bound of two waits for the first to end");
    dependencies.completed(tickets[0], ms(7));
    assert_eq!((dependencies.missing, dependencies.gate), (0, ms(7)));
}

/// A recording in time order: gap, response time, and service time in the replay.
fn recording() -> impl Strategy<Value = Vec<(u64, Option<u64>, u64)>> {
    let request = (0u64..30, prop::option::weighted(0.9, 0u64..60), 0u64..100);
    prop::collection::vec(request, 1..60).prop_map(|requests| {
        let mut at = 0;
        let absolute = requests.into_iter().map(|(gap, response, takes)| {
            at += gap;
            (at, response, takes)
        });
        absolute.collect()
    })
}

proptest! {
    /// A request is issued when the last of the requests that ended before it in the recording has
    /// completed, but not before the previous request; checked by the definition, without heap or
    /// tags.
    #[test]
    fn dependencies_are_the_definition(recording in recording(), real_time in any::<bool>()) {
        let mut pacer = Pacer::new(Pace::Dependencies).expect("an allowed pace");
        let mut done = Vec::<u64>::new();
        let mut before = 0;
        let mut out = Vec::new();
        for (i, &(at, response, takes)) in recording.iter().enumerate() {
            pacer.admit(Nanos(at), response.map(Nanos));
            if real_time {
                // Completions are reported only when a request waits for them, the latest first.
                while pacer.release().is_none() {
                    let (ticket, at) = out.pop().expect("what is awaited is out");
                    pacer.completed(ticket, at);
                }
            }
            let ended = |j: &usize| {
                let (at_j, response_j, _) = recording[*j];
                response_j.map_or(at_j < at, |response| at_j + response <= at)
            };
            let expected = (0..i).filter(ended).map(|j| done[j]).fold(before, u64::max);
            let released = pacer.release().expect("all is told").0;
            // The release time is the latest dependency; the engine issues in order, never before
            // the previous request.
            prop_assert_eq!(released.max(before), expected);
            before = expected;
            done.push(expected + takes);
            let ticket = pacer.issue();
            if real_time {
                out.push((ticket, Nanos(expected + takes)));
            } else {
                pacer.completed(ticket, Nanos(expected + takes));
            }
        }
    }

    /// The order is kept, busy intervals keep their length, and no idle interval exceeds the cap.
    #[test]
    fn a_cap_cuts_idle_time_and_nothing_else(recording in recording(), cap in 0u64..40) {
        let requests: Vec<_> =
            recording.iter().map(|&(at, r, _)| (Nanos(at), r.map(Nanos))).collect();
        let due = due(Pace::idle_capped(Nanos(cap)), &requests);
        let mut busy_until = 0;
        let mut before = (0, 0);
        for (&(at, response), due) in requests.iter().zip(due) {
            let idle = at.0.saturating_sub(busy_until);
            prop_assert_eq!(due.0 - before.1, at.0 - before.0 - idle + idle.min(cap));
            busy_until = busy_until.max(at.0 + response.map_or(0, |r| r.0));
            before = (at.0, due.0);
        }
    }
}
