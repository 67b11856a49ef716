//! Unit tests of `queues.rs`, with access to its private items.

use drivebay_drive::Op;

use super::*;

/// Returns the queues of the first `count` fetched commands, for queues with these depths.
fn fetched(depths: &[usize], count: usize) -> Vec<usize> {
    fetched_of(SubmissionQueues::weighted(vec![1; depths.len()]), depths, count)
}

fn fetched_of(mut queues: SubmissionQueues, depths: &[usize], count: usize) -> Vec<usize> {
    for (slot, &depth) in depths.iter().enumerate() {
        for _ in 0..depth {
            let io = Io::new(Op::Read, 0, 8);
            let posted = Posted { at: Nanos::ZERO, ready: Nanos::ZERO };
            queues.submit(QueuedCommand { posted, io, queue: slot, slot });
        }
    }
    (0..count).map(|_| queues.fetch(Nanos::ZERO).slot).collect()
}

#[test]
fn round_robin_takes_one_command_from_each_queue() {
    assert_eq!(fetched(&[2, 2, 2], 6), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_queue_gives_as_many_in_a_row_as_its_weight() {
    let queues = SubmissionQueues::weighted(vec![3, 1]);
    assert_eq!(fetched_of(queues, &[4, 4], 8), [0, 0, 0, 1, 0, 1, 1, 1]);
}

#[test]
fn empty_queues_are_passed_over() {
    assert_eq!(fetched(&[0, 2, 0, 2], 4), [1, 3, 1, 3]);
}

/// Places for `commands_max` commands, for a host with 5 slots.
fn places(commands_max: u32) -> CommandPlaces {
    let (commands_max, none) = (Some(commands_max), Nanos::ZERO);
    CommandPlaces::new(
        Interface { queues_max: 1, commands_max, fetch: none, completion: none },
        5,
        none,
    )
}

#[test]
fn a_command_waits_for_the_place_that_is_free_first() {
    let mut places = places(2);
    places.take();
    assert_eq!(places.free_at(), Nanos::ZERO);
    places.take();
    assert_eq!(places.free_at(), NEVER);
    places.release(Nanos(70));
    places.release(Nanos(50));
    assert_eq!(places.free_at(), Nanos(50));
    places.take();
    assert_eq!(places.free_at(), Nanos(70));
}

#[test]
fn places_for_all_commands_are_no_limit() {
    assert!(places(5).are_unlimited());
    assert_eq!(places(5).free_at(), Nanos::ZERO);
}
