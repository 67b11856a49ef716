//! Wrong calls are errors with a text; a panic stays inside.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use crate::capi::*;
use crate::equal::{c, create};

fn error() -> String {
    // SAFETY: valid until the next error of this thread.
    unsafe { CStr::from_ptr(drivebay_error()) }.to_str().expect("UTF-8").to_owned()
}

fn read(at_ns: u64) -> Request {
    Request { at_ns, sectors: 8, ..Request::default() }
}

#[test]
fn a_wrong_profile_or_state_is_named() {
    // SAFETY: texts, or null.
    let create = |profile: &str, state: &str| unsafe {
        let state = c(state);
        let state = if state.is_empty() { null() } else { state.as_ptr() };
        assert!(drivebay_create(c(profile).as_ptr(), state, 1).is_null());
        error()
    };
    assert!(create("none.toml", "").starts_with("none.toml: "));
    assert!(create("a = \n", "").contains("profile"));
    let state = create(&crate::equal::profile(), "none.state");
    assert!(state.contains("cannot read a drive's state from none.state"), "{state}");
    assert!(unsafe { drivebay_create(null(), null(), 1) }.is_null());
    unsafe { drivebay_destroy(null_mut()) };
}

#[test]
fn a_wrong_request_is_refused_and_the_drive_goes_on() {
    let drive = create(None);
    // SAFETY: a drive and requests; null where it is refused.
    unsafe {
        let refused = |request: &Request| {
            assert_eq!(drivebay_submit(drive, request), -1);
            error()
        };
        assert_eq!(drivebay_advance(drive, 1000), 0);
        assert!(refused(&read(999)).contains("from drivebay_now to"));
        assert!(refused(&read(u64::MAX)).contains("from drivebay_now to"));
        assert_eq!(drivebay_advance(drive, u64::MAX), -1);
        assert!(refused(&Request { op: 6, ..read(1000) }).contains("no such drivebay_op"));
        assert!(refused(&Request { handle: 1, ..read(1000) }).contains("no such placement handle"));
        let beyond = Request { lba: 56_000_000, ..read(1000) };
        assert!(refused(&beyond).contains("does not fit a drive of 56000000 sectors"));
        assert!(refused(&Request { sectors: 0, ..read(1000) }).contains("0 sectors"));
        for _ in 0..32 {
            assert_eq!(drivebay_submit(drive, &read(1000)), 0);
        }
        assert!(refused(&read(1000)).contains("the queue is full"));
        assert_eq!(drivebay_save(drive, c("never").as_ptr()), -1);
        let mut completion = Done::default();
        for _ in 0..32 {
            assert_eq!(drivebay_next_completion(drive, u64::MAX, &mut completion), 1);
        }
        assert_eq!(drivebay_next_completion(drive, u64::MAX, &mut completion), 0);
        assert_eq!(drivebay_now(drive), completion.done_ns);
        assert_eq!(drivebay_submit(null_mut(), &read(0)), -1);
        assert_eq!(
            (drivebay_next_event(null_mut()), error().as_str()),
            (u64::MAX, "the drive is NULL")
        );
        drivebay_destroy(drive);
    }
}
