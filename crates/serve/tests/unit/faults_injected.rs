//! Unit tests of `faults/injected.rs`, with access to its private items.

use super::*;

fn request(op: Op, lba: u64) -> Request {
    Request::new(op, lba, 8, 0)
}

#[test]
fn a_read_error_strikes_its_sectors_in_its_time() {
    let mut faults = Faults::new(Rng::new(1), 1 << 20);
    let (after_ios, for_s) = (5, Some(1.0));
    let (lba, sectors) = (Some(100), Some(2));
    faults
        .add(Fault { after_ios, for_s, lba, sectors, ..Fault::new(Kind::ReadError) })
        .expect("ok");
    let mut status = |at, requests, op, lba| {
        faults.begin(at, requests);
        faults.effect(at, &request(op, lba)).status
    };
    let second = Nanos::secs(1);
    assert_eq!(status(Nanos::ZERO, 4, Op::Read, 100), None);
    assert_eq!(status(second, 5, Op::Read, 100), Some(Status::MediaError));
    assert_eq!(status(second, 6, Op::Read, 93), Some(Status::MediaError));
    assert_eq!(status(second, 6, Op::Read, 92), None);
    assert_eq!(status(second, 6, Op::Read, 102), None);
    assert_eq!(status(second, 6, Op::Write { fua: false }, 100), None);
    assert_eq!(status(Nanos::secs(2), 7, Op::Read, 100), None);
}

#[test]
fn what_is_written_can_be_read_again() {
    let mut faults = Faults::new(Rng::new(1), 1 << 20);
    let (lba, sectors) = (Some(100), Some(8));
    faults.add(Fault { lba, sectors, after_ios: 1, ..Fault::new(Kind::ReadError) }).expect("ok");
    faults.heal(Nanos::ZERO, 100, 8);
    faults.begin(Nanos::ZERO, 1);
    let bad = |faults: &mut Faults| {
        let read = |lba| Request::new(Op::Read, lba, 1, 0);
        let mut fails = |lba| faults.effect(Nanos::ZERO, &read(lba)).status.is_some();
        (98..110).filter(|&lba| fails(lba)).collect::<Vec<u64>>()
    };
    assert_eq!(bad(&mut faults), Vec::from_iter(100..108), "it had not begun");
    for (lba, sectors, left) in [
        (104, 1, vec![100, 101, 102, 103, 105, 106, 107]),
        (90, 11, vec![101, 102, 103, 105, 106, 107]),
        (102, 4, vec![101, 106, 107]),
        (107, 9, vec![101, 106]),
        (0, 1000, vec![]),
    ] {
        faults.heal(Nanos::ZERO, lba, sectors);
        assert_eq!(bad(&mut faults), left, "after {lba} + {sectors}");
    }
    assert_eq!(faults.media_errors, 8 + 7 + 6 + 3 + 2);
}

#[test]
fn pieces_are_bounded() {
    let mut faults = Faults::new(Rng::new(1), 1 << 20);
    let sectors = Some(1 << 20);
    faults.add(Fault { lba: Some(0), sectors, ..Fault::new(Kind::ReadError) }).expect("ok");
    faults.begin(Nanos::ZERO, 0);
    (0..1 << 19).for_each(|i| faults.heal(Nanos::ZERO, 2 * i, 1));
    assert!(faults.running[0].bad.0.len() <= PIECES_MAX + 1);
}

#[test]
fn a_hang_ends_and_an_ambient_temperature_is_applied_once() {
    let mut faults = Faults::new(Rng::new(1), 1 << 20);
    faults.add(Fault { after_s: 2.0, for_s: Some(3.0), ..Fault::new(Kind::Hang) }).expect("ok");
    faults.add(Fault { celsius: Some(70.0), ..Fault::new(Kind::Ambient) }).expect("ok");
    assert_eq!(faults.begin(Nanos::ZERO, 0), Some(70.0));
    assert_eq!(faults.changes(Nanos::ZERO), [(Kind::Ambient, true)]);
    assert_eq!(faults.begin(Nanos::secs(2), 0), None);
    assert_eq!(faults.hangs_until(Nanos::secs(2)), Some(Nanos::secs(5)));
    assert_eq!(faults.changes(Nanos::secs(2)), [(Kind::Hang, true)]);
    assert_eq!(faults.changes(Nanos::secs(3)), []);
    assert_eq!(faults.hangs_until(Nanos::secs(5)), None);
    assert_eq!(faults.changes(Nanos::secs(5)), [(Kind::Hang, false)]);
    assert_eq!(faults.clear(), [Kind::Ambient]);
}

#[test]
fn the_failure_mode_decides_what_a_worn_out_drive_does_with_writes() {
    let mut faults = Faults::new(Rng::new(1), 1 << 20);
    faults.add(Fault::new(Kind::ReadOnly)).expect("ok");
    faults.begin(Nanos::ZERO, 0);
    for (mode, status, is_write_through) in [
        (FailureMode::ReadOnly, Some(Status::ReadOnly), false),
        (FailureMode::WriteThrough, None, true),
        (FailureMode::Normal, None, false),
    ] {
        faults.failure_mode = mode;
        let effect = faults.effect(Nanos::ZERO, &request(Op::Write { fua: false }, 0));
        assert_eq!(effect, Effect { status, is_write_through, ..Effect::default() });
        assert_eq!(faults.effect(Nanos::ZERO, &request(Op::Read, 0)), Effect::default());
        assert_eq!(faults.is_read_only(Nanos::ZERO), mode == FailureMode::ReadOnly);
    }
}

#[test]
fn a_field_of_another_kind_is_refused() {
    let mut faults = Faults::new(Rng::new(1), 1 << 20);
    assert!(faults.add(Fault::new(Kind::ReadError)).is_err());
    let last = |lba| Fault { lba: Some(lba), sectors: Some(2), ..Fault::new(Kind::ReadError) };
    assert!(faults.add(last((1 << 20) - 1)).is_err());
    assert!(faults.add(last((1 << 20) - 2)).is_ok());
    assert!(faults.add(Fault { lba: Some(1), ..Fault::new(Kind::Hang) }).is_err());
    assert!(faults.add(Fault { celsius: Some(101.0), ..Fault::new(Kind::Ambient) }).is_err());
    assert!(faults.add(Fault { after_s: -1.0, ..Fault::new(Kind::Hang) }).is_err());
}
