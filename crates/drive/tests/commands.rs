//! Commands at and beyond the edges of a drive: refused with an error that names the problem, and
//! without effect.

use crate::support::Profile;
use drivebay_drive::{DeviceError, Io, Op};
use drivebay_units::{Lpn, Nanos};

const SECTORS: u64 = 1_000_215_216;
const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Trim];

#[test]
fn commands_that_do_not_lie_on_the_drive_are_out_of_range() {
    let mut device = Profile::sm951().device();
    let commands = [
        (SECTORS, 1),
        (SECTORS - 7, 8),
        (SECTORS - 1, u32::MAX),
        (0, u32::MAX),
        (u64::MAX, 1),
        (u64::MAX - 7, 8),
        (u64::MAX, u32::MAX),
        (0, 0),
        (SECTORS, 0),
        (u64::MAX, 0),
    ];
    for (op, (lba, sectors)) in OPS.iter().flat_map(|&op| commands.map(|c| (op, c))) {
        let error = device.submit(Nanos::ZERO, Io::new(op, lba, sectors)).map(|io| io.done);
        let expected = DeviceError::OutOfRange { op, lba, sectors, capacity: SECTORS };
        assert_eq!(error, Err(expected));
    }
    assert_eq!((device.counters().commands, device.ftl().mapped()), (0, 0));
}

/// Reads and writes carry at most 1 GiB; a trim can cover the whole drive.
#[test]
fn commands_longer_than_any_protocol_allows_are_too_long() {
    let mut device = Profile::sm951().device();
    for op in [Op::Read, Op::Write] {
        let sectors = (1 << 21) + 1;
        let error = device.submit(Nanos::ZERO, Io::new(op, 3, sectors)).map(|io| io.done);
        assert_eq!(error, Err(DeviceError::TooLong { op, sectors }));
    }
    assert_eq!((device.counters().commands, device.ftl().mapped()), (0, 0));
    let io = Io::new(Op::Write, SECTORS - (1 << 21), 1 << 21);
    let now = device.submit(Nanos::ZERO, io).expect("1 GiB, up to the last sector").done;
    assert_eq!(device.ftl().mapped(), 1 << 18);
    let all = Io::new(Op::Trim, 0, SECTORS as u32);
    device.submit(now, all).expect("the whole drive");
    assert_eq!(device.ftl().mapped(), 0);
}

#[test]
fn the_last_sector_can_be_used() {
    let mut device = Profile::sm951().device();
    let mut now = Nanos::ZERO;
    for op in OPS {
        let io = device.submit(now, Io::new(op, SECTORS - 1, 1));
        now = io.expect("the last sector").done;
    }
    let last = Lpn((SECTORS / 8 - 1) as u32);
    assert!(device.ftl().look_up(last).is_some(), "a trim of less than a page keeps it");
}
