//! Overwriting data in the write buffer: what waits there is replaced, what a program has taken is not.

use crate::support::{Profile, at_depth, one_by_one, page};
use drivebay_drive::{Device, Op, Spec};
use drivebay_units::Rng;

fn device(coalesces: bool) -> Device {
    protected().with("write_buffer.coalesces", coalesces).device()
}

fn protected() -> Profile {
    Profile::sm951().with("write_buffer.power_loss_protection", true)
}

#[test]
fn without_protection_it_is_refused() {
    let text = Profile::sm951().with("write_buffer.coalesces", true).0.to_string();
    let error = Spec::from_toml(&text).map(|_| ()).expect_err("flushes could lie").to_string();
    assert!(error.starts_with("write_buffer.coalesces") && error.contains("hint: "), "{error}");
}

#[test]
fn a_page_written_again_and_again_is_programmed_a_few_times_only() {
    let hot = |coalesces| {
        let mut device = device(coalesces);
        one_by_one(&mut device, (0..10_000).map(|_| page(Op::Write, 7)));
        let counters = device.counters();
        assert_eq!(counters.host_pages, 10_000);
        device.ftl().check_invariants();
        counters.placed_pages
    };
    assert_eq!(hot(false), 10_000);
    // It waits until the planes of its die are full, which nothing else fills.
    assert_eq!(hot(true), 1);
}

#[test]
fn pages_that_come_back_after_their_program_take_a_new_place() {
    let mut device = device(true);
    let pages = 200_000; // far more than the buffer holds
    for _ in 0..2 {
        one_by_one(&mut device, (0..pages).map(|lpn| page(Op::Write, lpn)));
    }
    assert_eq!(device.counters().placed_pages, 2 * pages);
    device.ftl().check_invariants();
}

/// As many hot pages as the buffer holds a part of: the share that is absorbed lies between none and all.
#[test]
fn a_deep_queue_of_hot_pages_is_absorbed_in_part() {
    let mut device = device(true);
    let mut rng = Rng::new(3);
    let draw = std::iter::repeat_with(|| page(Op::Write, rng.below(2048)));
    at_depth(&mut device, 32, draw.take(100_000));
    let counters = device.counters();
    assert!(counters.placed_pages < counters.host_pages, "{counters:?}");
    assert!(counters.placed_pages > counters.host_pages / 20, "{counters:?}");
}
