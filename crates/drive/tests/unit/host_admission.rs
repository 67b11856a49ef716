//! Unit tests of `host/admission.rs` with access to its private parts.

use super::*;

const FREE: AdmissionSpec =
    AdmissionSpec { interval: Nanos(14), together: 0, fed_by_reads: false, sample_pages: None };

/// Times at which the write after each of these may pass; there is space from 5 on.
fn open_at(together: u64, admitted: &[u64]) -> Vec<u64> {
    let mut admission = Admission::new(AdmissionSpec { together, ..FREE });
    let follow = |&at: &u64| {
        admission.admit(Nanos(at), Nanos(5), true, 0);
        admission.open_at().0
    };
    admitted.iter().map(follow).collect()
}

#[test]
fn the_next_write_waits_for_its_interval() {
    assert_eq!(open_at(0, &[100, 114, 200]), [114, 128, 214]);
}

#[test]
fn a_few_come_together_and_are_made_up_for() {
    assert_eq!(open_at(2, &[100, 100, 100, 114, 128]), [86, 100, 114, 128, 142]);
}

#[test]
fn a_read_releases_a_write_that_the_pace_holds() {
    let mut admission = Admission::new(AdmissionSpec { fed_by_reads: true, ..FREE });
    let admit = |admission: &mut Admission, at, room| {
        admission.admit(Nanos(at), Nanos(room), true, 0);
        admission.open_at().0
    };
    admission.follow_read(Nanos(90)); // nothing is held
    assert_eq!(admit(&mut admission, 100, 5), 114);
    admission.follow_read(Nanos(104));
    assert_eq!(admission.open_at().0, 104);
    assert_eq!(admit(&mut admission, 104, 5), 114, "it takes nothing of the pace");
    admission.follow_read(Nanos(105));
    assert_eq!(admit(&mut admission, 105, 120), 120, "a second one, once there is room");
    assert_eq!(admit(&mut admission, 120, 5), 134, "none came before its turn");
    admission.follow_read(Nanos(134));
    assert_eq!(admission.open_at().0, 134);
}

#[test]
fn a_full_buffer_holds_writes_up_until_it_is_near_empty() {
    let mut admission = Admission::new(AdmissionSpec { sample_pages: Some(1), ..FREE });
    let full = [16, 55, 56, 32, 8, 7, 8, 55, 64].map(|taken_64| {
        admission.sample(admission.sampled + 1, taken_64);
        admission.has_backpressure()
    });
    assert_eq!(full, [false, false, true, true, true, false, false, false, true]);
}

#[test]
fn without_collection_the_next_write_waits_for_room_alone() {
    let mut admission = Admission::new(FREE);
    admission.admit(Nanos(100), Nanos(105), false, 0);
    assert_eq!(admission.open_at(), Nanos(105));
}

/// Makes writes of 4 pages, `ns` apart, until the next sample at this buffer level; returns the
/// interval of the next write.
fn interval_after(admission: &mut Admission, clock: &mut u64, ns: u64, taken_64: u32) -> u64 {
    let mut written = admission.sampled;
    while !admission.sample_due(written) {
        *clock += ns;
        written += 4;
        admission.admit(Nanos(*clock), Nanos::ZERO, true, written);
    }
    admission.sample(written, taken_64);
    // Long after all due times.
    *clock += 1_000_000_000_000;
    admission.admit(Nanos(*clock), Nanos::ZERO, true, written + 4);
    admission.open_at().0 - *clock
}

#[test]
fn the_interval_is_that_of_the_pages_before_and_grows_with_the_buffer() {
    let mut admission = Admission::new(AdmissionSpec { sample_pages: Some(4096), ..FREE });
    let mut clock = 0;
    let mut after = |ns, taken_64| interval_after(&mut admission, &mut clock, ns, taken_64);
    assert_eq!(after(40_000, 32), 14, "it was not full so far");
    let close = |got: u64, expected: f64| {
        assert!((got as f64 / expected - 1.0).abs() < 0.005, "{got} against {expected}");
    };
    // A pause of a thousand seconds counts as 10 ms in addition to the 41 ms of 1,024 writes.
    let first = 40_000.0 * 51.0 / 41.0;
    close(after(40_000, 56), first * (1.0 + 24.0 / 256.0));
    close(after(40_000, 32), first);
    // A sixty-fourth of the way to 90 us.
    close(after(80_000, 40), (first + 40_000.0 / 64.0) * (1.0 + 8.0 / 256.0));
    assert_eq!(after(80_000, 15), 14, "an empty buffer sets no pace");
    close(after(80_000, 16), (first + 40_000.0 / 64.0 + 39_400.0 / 64.0) * (1.0 - 16.0 / 256.0));
}
