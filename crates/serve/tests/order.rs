//! The model gets commands in the order of its own time.
//!
//! A fuzzer found this case: a command waited for its turn at the flash core while the next one was
//! accepted at a later time. It was then served with the link's time before the drive's, which the
//! model does not allow.

use std::thread;
use std::time::Duration;

use crate::support::{request, spec, submit};
use drivebay_drive::Device;
use drivebay_serve::{Engine, MemoryLimit, Op, Pace, Status, Store};

#[test]
fn a_turn_that_has_passed_is_served_before_the_next_request_is_accepted() {
    let device = Device::new(spec(4096, false), 1).expect("memory");
    let mut engine = Engine::new(
        device,
        Store::memory(4096, &MemoryLimit::new(1 << 20, 1 << 30, 1 << 30)),
        Pace::Spin,
        1,
    );
    let mut done = Vec::new();
    for token in 0..3 {
        engine.begin_iteration();
        submit(&mut engine, request(Op::Read, 8 * token, 8, token), &[]);
        // Longer than the way to the flash core.
        thread::sleep(Duration::from_millis(2));
    }
    while done.len() < 3 {
        engine.begin_iteration();
        while let Some(next) = engine.next_completion() {
            assert_eq!(next.status, Status::Ok);
            done.push(next.request.token);
        }
        engine.end_iteration();
    }
    assert_eq!(done, [0, 1, 2]);
}
