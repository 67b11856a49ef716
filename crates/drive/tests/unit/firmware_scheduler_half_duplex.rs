//! Unit tests of `firmware/scheduler/half_duplex.rs` with access to its private parts.

use super::*;

const READ: usize = 0;
const WRITE: usize = 1;

fn path(batch_commands: u32, batch_wait: u64) -> HalfDuplex {
    let batch_wait = Nanos(batch_wait);
    HalfDuplex::new(HalfDuplexSpec { turnaround: Nanos(10), batch_commands, batch_wait })
}

fn heads(read: u64, write: u64) -> [Head; 2] {
    [read, write].map(|at| Head { arrival: Nanos(at), has_data: true })
}

/// Admits the request that is due first; returns its queue and its time.
fn next(path: &mut HalfDuplex, heads: [Head; 2]) -> (usize, u64) {
    let due = path.due(heads);
    let queue = usize::from(due[1] < due[0]);
    (queue, path.grant(queue, heads[queue].has_data, due[queue]).0)
}

const NONE: u64 = u64::MAX;

#[test]
fn the_other_direction_waits_for_all_before_and_the_turnaround() {
    let mut path = path(9, 1000);
    assert_eq!(next(&mut path, heads(NONE, 5)), (WRITE, 5), "nothing came before");
    path.release(Nanos(100));
    assert_eq!(next(&mut path, heads(NONE, 6)), (WRITE, 6), "the same direction");
    path.release(Nanos(80));
    assert_eq!(next(&mut path, heads(7, NONE)), (READ, 110));
    path.release(Nanos(200));
    assert_eq!(next(&mut path, heads(8, NONE)), (READ, 110), "not before reads had the path");
    path.release(Nanos(150));
    assert_eq!(next(&mut path, heads(NONE, 205)), (WRITE, 210));
    path.release(Nanos(300));
    assert_eq!(next(&mut path, heads(400, NONE)), (READ, 400), "the turnaround was over");
}

#[test]
fn a_batch_goes_on_until_it_is_drained() {
    let mut path = path(9, 1000);
    next(&mut path, heads(0, NONE));
    path.release(Nanos(100));
    assert_eq!(next(&mut path, heads(50, 20)), (READ, 50), "reads are under way");
    path.release(Nanos(150));
    assert_eq!(next(&mut path, heads(160, 20)), (WRITE, 160), "the path was drained at 150");
}

#[test]
fn a_batch_is_closed_by_its_commands_and_by_the_wait_of_the_others() {
    for (commands, wait) in [(2, 1000), (9, 20)] {
        let mut path = path(commands, wait);
        assert_eq!(next(&mut path, heads(0, NONE)).0, READ);
        path.release(Nanos(100));
        assert_eq!(next(&mut path, heads(30, 20)).0, READ);
        path.release(Nanos(150));
        assert_eq!(next(&mut path, heads(50, 20)), (WRITE, 160), "{commands}, {wait}");
        path.release(Nanos(170));
        assert_eq!(next(&mut path, heads(50, 155)), (WRITE, 160), "{commands}, {wait}");
    }
    let mut path = path(1, 0);
    next(&mut path, heads(0, NONE));
    assert_eq!(next(&mut path, heads(30, NONE)), (READ, 30), "nobody else waits");
}

#[test]
fn commands_without_data_do_not_wait_for_the_path() {
    let mut path = path(9, 1000);
    next(&mut path, heads(NONE, 5));
    path.release(Nanos(100));
    let flush = Head { arrival: Nanos(7), has_data: false };
    assert_eq!(next(&mut path, [flush, heads(NONE, 9)[1]]), (READ, 7));
    assert_eq!(next(&mut path, heads(NONE, 9)), (WRITE, 9), "the batch goes on");
}
