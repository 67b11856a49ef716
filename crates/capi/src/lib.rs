//! A virtual drive behind a C interface, for simulators with a clock of their own.
//!
//! `include/drivebay.h` is generated from this file by cbindgen; doc comments here are the comments
//! there. Requests are served in the order of `drivebay_run`: a request is served when
//! nothing can be submitted any more before it reaches the flash core. So the same requests at the
//! same times complete at the same times as in a run, to the nanosecond. A panic ends at this
//! boundary: it becomes an error, and later calls with that drive fail.
//!
//! Left out: the commands of zones, several submission queues, dies that fail.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // all functions: pointers are null or valid, as in the header

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use drivebay_drive::{Completion, Counters, Device, DeviceError, Io, Op, STAGE_COUNT, Spec};
use drivebay_run::snapshot;
use drivebay_units::Nanos;

/// Number of stages of a completion.
pub const DRIVEBAY_STAGES: usize = 10;
const _: () = assert!(DRIVEBAY_STAGES == STAGE_COUNT);

/// Latest time of a drive: 30 years.
const LATEST: Nanos = Nanos(1_000_000_000_000_000_000);

/// Kind of a request.
#[repr(C)]
pub enum Kind {
    /// Read.
    Read,
    /// Write; complete when the data is in the write buffer.
    Write,
    /// Write with Force Unit Access; complete when the data is on flash.
    WriteFua,
    /// Dataset Management, Deallocate (TRIM).
    Trim,
    /// Write Zeroes.
    WriteZeroes,
    /// Flush; `lba` and `sectors` are ignored.
    Flush,
}

const OPS: [Op; 6] = [Op::Read, Op::Write, Op::WriteFua, Op::Trim, Op::WriteZeroes, Op::Flush];

/// Status of a completion: data could not be read after all retries.
pub const DRIVEBAY_MEDIA_ERROR: u32 = 1;
/// Status of a completion: too many blocks have failed, so the drive is read-only.
pub const DRIVEBAY_READ_ONLY: u32 = 2;
/// Status of a completion: the drive has no free flash left.
pub const DRIVEBAY_NO_SPACE: u32 = 3;

/// Request of the host.
#[repr(C)]
#[derive(Default)]
pub struct Request {
    /// Time of submission in ns, not before `drivebay_now`.
    pub at_ns: u64,
    /// First sector of 512 bytes.
    pub lba: u64,
    /// Number of sectors: 1 to 2097152; more for a trim.
    pub sectors: u32,
    /// Kind: a `drivebay_op`.
    pub op: u32,
    /// Identifier of the request, for its completion.
    pub tag: u32,
    /// Placement handle of a write (Flexible Data Placement); 0 without.
    pub handle: u32,
}

/// Completion of a request.
#[repr(C)]
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Done {
    /// Time in ns at which the host sees the completion.
    pub done_ns: u64,
    /// Identifier of the request.
    pub tag: u32,
    /// 0 if the request succeeded; else the reason.
    pub status: u32,
    /// Parts of the latency in ns: host, link, firmware, buffer, map, die, channel, nand, gc,
    /// throttle. Their sum is the latency.
    pub stage_ns: [u64; DRIVEBAY_STAGES],
}

/// Counters since the drive was new.
#[repr(C)]
#[derive(Default)]
pub struct Totals {
    /// Pages of 4 KiB that the host wrote.
    pub host_pages: u64,
    /// Pages of 4 KiB programmed, including copies of garbage collection. Write amplification is
    /// `placed_pages / host_pages`.
    pub placed_pages: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Energy in nJ.
    pub energy_nj: u64,
    /// Temperature in degrees Celsius.
    pub temperature_c: f64,
}

/// A virtual drive. One thread at a time may use it; several drives are independent.
pub struct Drive {
    device: Device,
    /// Completions that the host has not taken, by time.
    served: BinaryHeap<Reverse<Done>>,
    /// Requests that the host has submitted and not taken.
    outstanding: u32,
    /// Time before which the host submits nothing more.
    now: Nanos,
    /// True during a call, and after a panic in one.
    is_broken: bool,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Returns the result of `call`; if it fails, keeps its error and returns `failed`.
fn guarded<T>(failed: T, call: impl FnOnce() -> Outcome<T>) -> T {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => return result,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the model failed; its message is on standard error".to_owned(),
    };
    ERROR.set(CString::new(error.replace('\0', " ")).unwrap_or_default());
    failed
}

/// As [`guarded`], with the drive.
fn with_drive<T>(drive: *mut Drive, failed: T, call: impl FnOnce(&mut Drive) -> Outcome<T>) -> T {
    guarded(failed, || {
        // SAFETY: null or valid, and used by one thread, as the header requires.
        let drive = unsafe { drive.as_mut() }.ok_or("the drive is NULL")?;
        let was_broken = std::mem::replace(&mut drive.is_broken, true);
        check(!was_broken, "an earlier call failed inside the model: destroy the drive")?;
        let result = call(drive);
        drive.is_broken = false;
        result
    })
}

fn check(is_allowed: bool, problem: &str) -> Outcome<()> {
    if is_allowed { Ok(()) } else { Err(problem.into()) }
}

/// Text of the host; empty for NULL.
fn text(from: *const c_char) -> String {
    // SAFETY: null, or a text that ends with a zero byte, as the header requires.
    let text = (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) });
    text.map_or_else(String::new, |text| text.to_string_lossy().into_owned())
}

impl Drive {
    /// Converts a time of the host, which must not go back.
    fn time(&self, ns: u64) -> Outcome<Nanos> {
        check((self.now..=LATEST).contains(&Nanos(ns)), "a time is from drivebay_now to 10^18 ns")?;
        Ok(Nanos(ns))
    }

    fn submit(&mut self, request: &Request) -> Outcome<c_int> {
        let Request { at_ns, lba, sectors, op, tag, handle } = *request;
        let (at, spec) = (self.time(at_ns)?, self.device.spec());
        let op = *OPS.get(op as usize).ok_or("no such drivebay_op")?;
        let has_handle = (handle as usize) < spec.streams.handles.max(1);
        check(has_handle, "the drive has no such placement handle")?;
        check(self.outstanding < spec.queue_depth_max, "the queue is full: take completions")?;
        self.serve_until(at);
        let io = Io { handle: handle as u8, ..Io::new(op, lba, sectors) };
        let done = self.device.accept(at, io, tag, Nanos::ZERO)?;
        done.into_iter().for_each(|done| self.keep(&done));
        self.outstanding += 1;
        Ok(0)
    }

    /// Serves all requests that reach the flash core by `until`, before which the host submits
    /// nothing more.
    fn serve_until(&mut self, until: Nanos) {
        self.now = until;
        while self.device.next_arrival() <= until {
            self.serve();
        }
    }

    /// Serves the next request.
    fn serve(&mut self) {
        let next = self.device.next_command().expect("a request is on its way");
        let status = match self.device.serve() {
            Ok(done) => return done.into_iter().for_each(|done| self.keep(&done)),
            Err(DeviceError::ReadOnly { .. }) => DRIVEBAY_READ_ONLY,
            Err(_) => DRIVEBAY_NO_SPACE,
        };
        self.add(next.at, next.tag, status, [0; DRIVEBAY_STAGES]);
    }

    fn keep(&mut self, done: &Completion) {
        let status = if done.media_error { DRIVEBAY_MEDIA_ERROR } else { 0 };
        self.add(done.done, done.tag, status, done.stages.0);
    }

    fn add(&mut self, at: Nanos, tag: u32, status: u32, stage_ns: [u64; DRIVEBAY_STAGES]) {
        self.served.push(Reverse(Done { done_ns: at.0, tag, status, stage_ns }));
    }

    /// Time of the first completion that is known.
    fn first_done(&self) -> Nanos {
        self.served.peek().map_or(Nanos(u64::MAX), |Reverse(first)| Nanos(first.done_ns))
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Done> {
        // A request that reaches the flash core later cannot complete before this completion.
        while self.device.next_arrival() <= self.first_done().min(until).min(LATEST) {
            self.serve();
        }
        if self.first_done() > until || self.outstanding == 0 {
            self.now = if until <= LATEST { self.now.max(until) } else { self.now };
            return None;
        }
        let Reverse(first) = self.served.pop()?;
        self.outstanding -= 1;
        self.now = self.now.max(Nanos(first.done_ns));
        Some(first)
    }
}

/// Creates a drive, or returns NULL: see `drivebay_error`.
///
/// `profile` is the path of a whole profile, or its text in TOML. `state` is the path of a state of
/// such a drive, by `drivebay_save` or by Python's `drivebay.Device.save`; NULL for a new, empty
/// drive, whose random values come from `seed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_create(
    profile: *const c_char,
    state: *const c_char,
    seed: u64,
) -> *mut Drive {
    guarded(null_mut(), || {
        let profile = text(profile);
        let profile = match profile.contains('\n') {
            true => profile,
            false => std::fs::read_to_string(&profile).map_err(|e| format!("{profile}: {e}"))?,
        };
        let spec = Spec::from_toml(&profile)?;
        let device = match state.is_null() {
            true => Device::new(spec, seed)?,
            false => snapshot::restore(spec, None, text(state).as_ref())?,
        };
        let (now, served) = (device.now(), BinaryHeap::new());
        let drive = Drive { device, served, outstanding: 0, now, is_broken: false };
        Ok(Box::into_raw(Box::new(drive)))
    })
}

/// Destroys a drive. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_destroy(drive: *mut Drive) {
    // SAFETY: `drivebay_create` made it, and nobody uses it any more.
    drop((!drive.is_null()).then(|| unsafe { Box::from_raw(drive) }));
}

/// Saves the state to a file, for `drivebay_create`. All completions must have been taken. Returns
/// 0, or -1 on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_save(drive: *mut Drive, path: *const c_char) -> c_int {
    with_drive(drive, -1, |drive| {
        check(drive.outstanding == 0, "requests are outstanding: take completions")?;
        snapshot::save(&drive.device, text(path).as_ref())?;
        Ok(0)
    })
}

/// Number of sectors of 512 bytes; 0 on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_capacity(drive: *mut Drive) -> u64 {
    with_drive(drive, 0, |drive| Ok(drive.device.spec().geometry.user_sectors))
}

/// Time in ns before which nothing can be submitted any more: that of the last call, or of the
/// last completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_now(drive: *mut Drive) -> u64 {
    with_drive(drive, 0, |drive| Ok(drive.now.0))
}

/// Submits a request. Returns 0, or -1 on an error: then the request does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_submit(drive: *mut Drive, request: *const Request) -> c_int {
    // SAFETY: valid, as the header requires; this holds for all structures.
    with_drive(drive, -1, |drive| drive.submit(unsafe { &*request }))
}

/// Takes the next completion up to `until_ns`, before which the host submits nothing more unless a
/// completion comes first; UINT64_MAX waits for it. Returns 1 and the completion; 0 if there is
/// none; -1 on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_next_completion(
    drive: *mut Drive,
    until_ns: u64,
    completion: *mut Done,
) -> c_int {
    with_drive(drive, -1, |drive| {
        let Some(next) = drive.next_completion(Nanos(until_ns)) else { return Ok(0) };
        // SAFETY: as above.
        unsafe { completion.write(next) };
        Ok(1)
    })
}

/// Time in ns at which to call `drivebay_next_completion` next if nothing is submitted before it:
/// a completion is due, or one becomes known. UINT64_MAX if nothing is outstanding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_next_event(drive: *mut Drive) -> u64 {
    with_drive(drive, u64::MAX, |drive| Ok(drive.device.next_arrival().min(drive.first_done()).0))
}

/// Advances the drive to a time before which the host submits nothing more. A drive without
/// requests is idle until then: it cools, and may collect garbage. Returns 0, or -1 on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_advance(drive: *mut Drive, until_ns: u64) -> c_int {
    with_drive(drive, -1, |drive| {
        let until = drive.time(until_ns)?;
        drive.serve_until(until);
        if drive.device.next_command().is_none() {
            drive.device.idle_until(until);
        }
        Ok(0)
    })
}

/// Reads the counters. Returns 0, or -1 on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drivebay_read_counters(drive: *mut Drive, counters: *mut Totals) -> c_int {
    with_drive(drive, -1, |drive| {
        let Counters { host_pages, placed_pages, erases, energy_nj, temperature_c, .. } =
            drive.device.counters();
        let read = Totals { host_pages, placed_pages, erases, energy_nj, temperature_c };
        // SAFETY: as above.
        unsafe { counters.write(read) };
        Ok(0)
    })
}

/// Text of this thread's last error, with a hint on a second line; valid until its next one.
#[unsafe(no_mangle)]
pub extern "C" fn drivebay_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}

#[cfg(test)]
#[path = "../tests/unit/lib.rs"]
mod tests;
