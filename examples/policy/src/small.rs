//! A small drive and the loads that the policies are compared under.
//!
//! The drive is the catalog's SM951 with two dies in place of 64 and a quarter of the blocks: 256
//! superblocks of 16.8 MB, of which the host fills 84 %. Unlike the SM951 it keeps next to nothing of its
//! spare flash free, so that the policy, not the pace of garbage collection, decides what is copied.

use drivebay_drive::{Device, Spec, whole_profile};
use drivebay_run::{Control, Outcome, Pattern, Stop, Workload, run};

const HOST: &str = include_str!("../../../hosts/windows-8.1-z97.toml");
const PROFILE: &str = include_str!("../../../drives/sm951-ahci-512.toml");

/// The small drive, with the profile's own policy replaced by its name.
///
/// # Panics
/// If the catalog's profile has lost a value that is set here.
#[must_use]
pub fn spec(policy: &str) -> Spec {
    let mut profile = whole_profile(HOST, PROFILE).expect("the catalog's profile is TOML");
    let mut set = |section: &str, key: &str, value: toml::Value| {
        let leaf = profile[section][key].as_table_mut().expect("a value with its source");
        leaf.insert("value".to_owned(), value);
        leaf.remove("range");
    };
    set("nand", "channels", 1.into());
    set("nand", "dies_per_channel", 2.into());
    set("nand", "blocks_per_plane", 256.into());
    set("drive", "capacity_sectors", 7_000_000.into());
    for (key, mb) in [("threshold_mb", 550.0), ("target_mb", 70.0)] {
        set("gc", key, mb.into());
    }
    set("gc", "victim_policy", policy.into());
    let to_air = &mut profile["thermal"]["network"]["module_to_air_k_per_w"];
    *to_air = toml::toml! { value = 0.01
    source = "guess: cool" }
    .into();
    profile["gc"].as_table_mut().expect("a section").remove("idle");
    Spec::from_toml(&profile.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

fn load(pattern: Pattern, block_bytes: u64, start: u64, span_bytes: u64, bytes: u64) -> Workload {
    Workload {
        pattern,
        read_percent: 0.0,
        block_bytes,
        span_start_bytes: start,
        span_bytes: span_bytes / block_bytes * block_bytes,
        stop: Stop::after_bytes(bytes),
        ..Workload::default()
    }
}

fn go(device: &mut Device, load: &Workload) -> Outcome {
    let seed = device.counters().commands;
    run(device, load, seed, &Control::default()).expect("a possible load")
}

/// The drive filled once by large sequential writes.
///
/// # Panics
/// If the machine has no memory for it.
#[must_use]
pub fn filled(spec: Spec) -> Device {
    let capacity = spec.capacity_bytes();
    let mut device = Device::new(spec, 1).expect("memory");
    go(&mut device, &load(Pattern::Sequential, 131_072, 0, capacity, capacity));
    device
}

/// 4 KiB random writes over the whole drive, as much as `passes` times its size.
pub fn uniform(device: &mut Device, passes: f64) -> Outcome {
    let capacity = device.spec().capacity_bytes();
    let bytes = (capacity as f64 * passes) as u64;
    go(device, &load(Pattern::Random, 4096, 0, capacity, bytes))
}

/// As [`uniform`], but nine in ten writes go to the first tenth of the drive.
pub fn hot_and_cold(device: &mut Device, passes: f64) {
    const TURNS: u32 = 200;
    let capacity = device.spec().capacity_bytes();
    let tenth = capacity / 10 / 4096 * 4096;
    let turn = capacity as f64 * passes / f64::from(TURNS);
    for _ in 0..TURNS {
        go(device, &load(Pattern::Random, 4096, 0, tenth, (turn * 0.9) as u64));
        go(device, &load(Pattern::Random, 4096, tenth, capacity - tenth, (turn * 0.1) as u64));
    }
}

/// Pages written to flash for each page that the host writes, while `load` runs.
pub fn write_amplification(device: &mut Device, load: impl FnOnce(&mut Device)) -> f64 {
    let before = device.counters();
    load(device);
    let after = device.counters();
    let host = after.host_pages - before.host_pages;
    (after.placed_pages - before.placed_pages) as f64 / host as f64
}
