//! The model gets commands in the order of its own time.
//!
//! A fuzzer found this case: a command waited for its turn at the flash core while the next one was
//! accepted at a later time. It was then served with the link's time before the drive's, which the
//! model does not allow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::thread;
use std::time::Duration;

use crate::support::{request, spec, submit};
use drivebay_drive::Device;
use drivebay_serve::{Engine, MemoryLimit, Op, Pace, SessionId, Status, Store};
use drivebay_units::{Nanos, Rng};

const SECTORS: u64 = 1 << 16;
/// Requests before and in the measured part.
const WARM_UP: u64 = 1000;
const REQUESTS: u64 = 30_000;

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

/// Reads, and every third time a write, at random addresses.
fn mixed(rng: &mut Rng) -> (u64, bool) {
    (8 * rng.below(SECTORS / 8), rng.below(3) == 0)
}

fn filled() -> Device {
    let mut device = Device::new(spec(SECTORS as i64, false), 1).expect("memory");
    for lba in (0..SECTORS).step_by(256) {
        let at = device.now();
        let io = drivebay_drive::Io::new(drivebay_drive::Op::Write, lba, 256);
        let early = device.accept(at, io, 0, Nanos::ZERO).expect("space");
        let done = early.or_else(|| device.serve().expect("space")).expect("a completion").done;
        device.idle_until(done);
    }
    device
}

/// Mean time between completions of a closed loop on the device itself, nanoseconds.
fn of_the_model(depth: usize) -> f64 {
    let (mut device, mut rng) = (filled(), Rng::new(7));
    let mut done = BinaryHeap::new();
    let mut began = device.now();
    let mut at = began;
    for number in 0..WARM_UP + REQUESTS {
        if number >= depth as u64 {
            while let Some(next) = device.next_command() {
                if done.peek().is_some_and(|&Reverse(first)| first <= next.at) {
                    break;
                }
                done.extend(device.serve().expect("space").map(|served| Reverse(served.done)));
            }
            at = at.max(done.pop().expect("a full queue").0);
        }
        if number == WARM_UP {
            began = at;
        }
        let (lba, is_write) = mixed(&mut rng);
        let op = if is_write { drivebay_drive::Op::Write } else { drivebay_drive::Op::Read };
        let served = device.accept(at, drivebay_drive::Io::new(op, lba, 8), 0, Nanos::ZERO);
        done.extend(served.expect("space").map(|served| Reverse(served.done)));
    }
    at.since(began).0 as f64 / REQUESTS as f64
}

/// The same time for the clients of an engine whose clock stands still. The server reads the
/// clients' requests in random parts.
fn of_the_engine(clients: u32, depth: u32) -> f64 {
    let limit = MemoryLimit::new(1 << 30, 1 << 30, 1 << 30);
    let mut engine = Engine::new(filled(), Store::memory(SECTORS, &limit), Pace::None, 1);
    engine.expect_follow_ups();
    let (mut rng, mut parts) = (Rng::new(7), Rng::new(8));
    let mut ready: Vec<u32> = (0..depth).flat_map(|_| 0..clients).collect();
    let (mut submitted, mut began) = (0, Nanos::ZERO);
    while submitted < WARM_UP + REQUESTS {
        engine.begin_iteration();
        let part = if parts.below(2) == 0 { ready.len() } else { ready.len().div_ceil(3) };
        for client in ready.drain(..part) {
            let (lba, is_write) = mixed(&mut rng);
            let op = if is_write { Op::Write { fua: false } } else { Op::Read };
            let data = [0; 4096];
            let data = if is_write { &data[..] } else { &[] };
            let drive = engine.drive_of(SessionId::numbered(client));
            drive.submit(request(op, lba, 8, u64::from(client)), data);
            submitted += 1;
            if submitted == WARM_UP {
                began = drive.now();
            }
        }
        while let Some(done) = engine.next_completion() {
            assert_eq!(done.status, Status::Ok);
            ready.push(done.request.token as u32);
        }
        engine.end_iteration();
    }
    let now = engine.drive_of(SessionId::numbered(0)).now();
    now.since(began).0 as f64 / REQUESTS as f64
}

#[test]
fn clients_of_a_clock_that_stands_still_see_the_closed_loop_of_the_model() {
    for (clients, depth) in [(1, 1), (1, 4), (1, 31), (4, 1), (4, 8)] {
        let model = of_the_model((clients * depth) as usize);
        let served = of_the_engine(clients, depth);
        let off = served / model - 1.0;
        assert!(off.abs() < 0.02, "{clients} clients with {depth} requests: {off:+.3}");
    }
}
