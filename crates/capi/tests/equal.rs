//! The same requests at the same times complete as in `drivebay_run`, to the nanosecond.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::null;

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Op, Spec, whole_profile};
use drivebay_run::{Control, Keep, Pattern, Sample, Stop, Workload, run, run_keeping, snapshot};

use crate::capi::*;

/// Profile of a small drive, as text: a sixteenth of the flash.
pub fn profile() -> String {
    let small = SM951_AHCI_512
        .replace("blocks_per_plane = { value = 1024", "blocks_per_plane = { value = 64")
        .replace("free_mb = { value = 33000, range = [10000, 35500]", "free_mb = { value = 1000")
        .replace("value = 1000215216", "value = 56000000");
    whole_profile(WINDOWS_8_1_Z97, &small).expect("a valid profile").to_string()
}

pub fn c(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("no zero bytes")
}

/// A drive of [`profile`] in a saved state, by the C interface.
pub fn create(state: Option<&PathBuf>) -> *mut Drive {
    let profile = c(profile());
    let state = state.map(|path| c(path.to_str().expect("UTF-8")));
    let state = state.as_ref().map_or(null(), |state| state.as_ptr());
    // SAFETY: texts.
    let drive = unsafe { drivebay_create(profile.as_ptr(), state, 1) };
    assert!(!drive.is_null());
    drive
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn load(stop_bytes: u64) -> Workload {
    let span_bytes = 56_000_000 * 512;
    Workload { span_bytes, stop: Stop::after_bytes(stop_bytes), ..Workload::default() }
}

/// A drive that collects garbage.
fn worn() -> Device {
    let spec = Spec::from_toml(&profile()).expect("a valid profile");
    let mut device = Device::new(spec, 1).expect("memory");
    let fill = Workload { pattern: Pattern::Sequential, block_bytes: 131_072, ..load(0) };
    let fill = Workload { stop: Stop::after_bytes(fill.span_bytes), ..fill };
    for load in [fill, load(4 << 30)] {
        run(&mut device, &load, 1, &Control::default()).expect("a valid load");
    }
    device
}

/// Requests with their times in a run, in the order of submission.
fn requests_of_a_run(device: &mut Device) -> Vec<Sample> {
    let load = Workload { read_percent: 60.0, queue_depth: 16, ..load(400 << 20) };
    let samples_of = |device: &mut Device, load: &Workload| {
        let keep = Keep { sample_every: 1, ..Keep::default() };
        run_keeping(device, load, 7, &Control::default(), keep).expect("a valid load").1.samples
    };
    // One at a time they complete in the order in which they are drawn.
    let mut other = device.duplicate().expect("memory");
    let drawn = samples_of(&mut other, &Workload { queue_depth: 1, ..load.clone() });
    let mut numbers: HashMap<_, VecDeque<usize>> = HashMap::new();
    for (number, sample) in drawn.iter().enumerate() {
        numbers.entry((sample.io.lba, sample.io.op as u8)).or_default().push_back(number);
    }
    let mut samples = samples_of(device, &load);
    samples.sort_by_key(|sample| sample.requested);
    samples.sort_by_cached_key(|sample| {
        let number = numbers.get_mut(&(sample.io.lba, sample.io.op as u8));
        number.and_then(VecDeque::pop_front).expect("the same requests")
    });
    assert!(samples.is_sorted_by_key(|sample| sample.requested));
    samples
}

fn request(tag: usize, sample: &Sample) -> Request {
    let op = if sample.io.op == Op::Read { Kind::Read } else { Kind::Write };
    Request {
        at_ns: sample.requested.0,
        lba: sample.io.lba,
        sectors: sample.io.sectors,
        op: op as u32,
        tag: tag as u32,
        handle: 0,
    }
}

/// Takes the completions up to a time; checks each against its request in the run.
unsafe fn take(drive: *mut Drive, until_ns: u64, samples: &[Sample]) -> usize {
    let mut completion = Done::default();
    let mut taken = 0;
    // SAFETY: a drive and a place for the completion.
    while unsafe { drivebay_next_completion(drive, until_ns, &mut completion) } == 1 {
        let sample = samples[completion.tag as usize];
        assert_eq!(completion.done_ns, sample.completed.0, "{sample:?}");
        assert_eq!(completion.status, 0);
        let stages: u64 = completion.stage_ns.iter().sum();
        assert_eq!(stages, completion.done_ns - sample.requested.0);
        taken += 1;
    }
    taken
}

#[test]
fn requests_complete_as_in_a_run_by_the_nanosecond() {
    let folder = folder();
    let before = folder.path().join("before");
    let mut device = worn();
    snapshot::save(&device, &before).expect("a file");
    let samples = requests_of_a_run(&mut device);
    // As a simulator with events calls it, and as a host that only submits.
    for has_events in [false, true] {
        let drive = create(Some(&before));
        let mut taken = 0;
        // SAFETY: a drive, a request, counters.
        unsafe {
            for (tag, sample) in samples.iter().enumerate() {
                while has_events && drivebay_next_event(drive) < sample.requested.0 {
                    taken += take(drive, drivebay_next_event(drive), &samples);
                }
                taken += take(drive, sample.requested.0, &samples);
                assert_eq!(drivebay_submit(drive, &request(tag, sample)), 0);
            }
            taken += take(drive, u64::MAX, &samples);
            assert_eq!((taken, drivebay_next_event(drive)), (samples.len(), u64::MAX));
            let mut counters = Totals::default();
            assert_eq!(drivebay_read_counters(drive, &mut counters), 0);
            let run = device.counters();
            assert_eq!(counters.host_pages, run.host_pages);
            assert_eq!(counters.placed_pages, run.placed_pages);
            assert_eq!(counters.energy_nj, run.energy_nj);
            assert!(run.copied_pages > 0 && counters.temperature_c == run.temperature_c);
            drivebay_destroy(drive);
        }
    }
}

#[test]
fn a_state_goes_both_ways_and_idle_time_is_the_devices() {
    let folder = folder();
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
    let mut device = worn();
    snapshot::save(&device, &before).expect("a file");
    let drive = create(Some(&before));
    let until = device.now().0 + 60_000_000_000;
    // SAFETY: a drive and a text.
    unsafe {
        assert_eq!(drivebay_now(drive), device.now().0);
        assert_eq!(drivebay_capacity(drive), 56_000_000);
        assert_eq!(drivebay_advance(drive, until), 0);
        assert_eq!(drivebay_save(drive, c(after.to_str().expect("UTF-8")).as_ptr()), 0);
        drivebay_destroy(drive);
    }
    device.idle_until(drivebay_units::Nanos(until));
    let restored = snapshot::restore(device.spec().clone(), None, &after).expect("a state");
    assert_eq!(restored.counters(), device.counters());
}
