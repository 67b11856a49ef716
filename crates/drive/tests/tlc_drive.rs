//! A TLC drive of 2019 compared with its data sheet: `profiles/970-evo-plus-1tb.toml` (sources are
//! there).
//!
//! The data sheet's depth of 32 is that of each of four workers.

use crate::support::{at_depth, page};
use drivebay_drive::samples::WINDOWS_8_1_Z97;
use drivebay_drive::{Device, Io, Op, Spec};
use drivebay_units::{Nanos, Rng};

const PROFILE: &str = include_str!("profiles/970-evo-plus-1tb.toml");
const HOST: &str = include_str!("profiles/windows-10-z270.toml");

/// GB, and blocks of 128 KiB in it.
const GB: f64 = 1e9;
const BLOCKS_PER_GB: u64 = 7629;

fn drive() -> Device {
    let host = drivebay_drive::whole_profile(WINDOWS_8_1_Z97, HOST).expect("the host is TOML");
    let spec = Spec::from_family(&host.to_string(), PROFILE).unwrap_or_else(|e| panic!("{e}"));
    Device::new(spec, 1).expect("memory for what is written")
}

#[track_caller]
fn assert_near(what: &str, got: f64, expected: f64, percent: f64) {
    let error = (got / expected - 1.0) * 100.0;
    println!("{what}: {got:.0} against {expected:.0}, {error:+.1} %");
    assert!(error.abs() <= percent, "{what}: {got} against {expected}: {error:.2} %");
}

/// Writes a GB in order; returns MB/s.
fn write_gb(device: &mut Device, number: u64) -> f64 {
    let begin = device.now();
    let block = |i: u64| Io::new(Op::Write, i * 256, 256);
    let ios = (number * BLOCKS_PER_GB..(number + 1) * BLOCKS_PER_GB).map(block);
    let end = at_depth(device, 32, ios);
    device.idle_until(end);
    BLOCKS_PER_GB as f64 * 131_072.0 / end.since(begin).as_secs_f64() / 1e6
}

/// Thousands of random requests per second within the first 30 GB.
fn random(device: &mut Device, op: Op, depth: usize, count: u64) -> f64 {
    let mut rng = Rng::new(5).fork("random");
    let begin = device.now();
    let pages = (30.0 * GB / 4096.0) as u64;
    let end = at_depth(device, depth, (0..count).map(|_| page(op, rng.below(pages))));
    device.idle_until(end);
    count as f64 / end.since(begin).as_secs_f64() / 1e3
}

#[test]
fn the_data_sheet_comes_out() {
    let mut device = drive();
    let rates: Vec<f64> = (0..60).map(|number| write_gb(&mut device, number)).collect();
    assert_near("GB 0 to 41, MB/s", rates[..41].iter().sum::<f64>() / 41.0, 3300.0, 3.0);
    assert_near("GB 44 to 59, MB/s", rates[44..].iter().sum::<f64>() / 16.0, 1700.0, 3.0);
    let cliff = rates.iter().position(|&rate| rate < 2500.0).expect("a cliff");
    assert_near("cliff after GB", cliff as f64, 42.0, 3.0);
    // The cache is folded within a minute of rest, and writes are fast again.
    device.idle_until(device.now().after(Nanos::secs(60)));
    let again: Vec<f64> = (60..102).map(|number| write_gb(&mut device, number)).collect();
    assert_near("after a rest, MB/s", again[..40].iter().sum::<f64>() / 40.0, 3300.0, 3.0);
    device.idle_until(device.now().after(Nanos::secs(120)));

    // Reads of the data sheet are of newly written data in the cache.
    (0..30).for_each(|number| _ = write_gb(&mut device, number));
    assert_near("random reads at 1, K", random(&mut device, Op::Read, 1, 20_000), 19.0, 5.0);
    assert_near("random reads at 128, K", random(&mut device, Op::Read, 128, 100_000), 600.0, 5.0);
    assert_near("random writes at 1, K", random(&mut device, Op::Write, 1, 20_000), 60.0, 5.0);
    device.idle_until(device.now().after(Nanos::secs(120)));
    let writes = random(&mut device, Op::Write, 128, 200_000);
    assert_near("random writes at 128, K", writes, 550.0, 5.0);
    device.idle_until(device.now().after(Nanos::secs(120)));
    let begin = device.now();
    let block = |i: u64| Io::new(Op::Read, (230_000 + i) * 256, 256);
    let end = at_depth(&mut device, 32, (0..20_000).map(block));
    let read = 20_000.0 * 131_072.0 / end.since(begin).as_secs_f64() / 1e6;
    device.idle_until(end);
    assert_near("sequential reads, MB/s", read, 3500.0, 3.0);
    device.ftl().look_up(drivebay_units::Lpn(0)).expect("written");
}

/// Mean power of the data sheet: 6.0 W of writes, 5.5 W of reads.
#[test]
fn power_is_the_data_sheets() {
    let mut device = drive();
    let watt = |device: &Device, before: (u64, Nanos)| {
        let joule = (device.counters().energy_nj - before.0) as f64 / 1e9;
        joule / device.now().since(before.1).as_secs_f64()
    };
    let before = (device.counters().energy_nj, device.now());
    for number in 0..20 {
        write_gb(&mut device, number);
    }
    assert_near("writing, mW", watt(&device, before) * 1e3, 6000.0, 5.0);
    device.idle_until(device.now().after(Nanos::secs(60)));
    let before = (device.counters().energy_nj, device.now());
    let block = |i: u64| Io::new(Op::Read, i * 256, 256);
    let end = at_depth(&mut device, 32, (0..18 * BLOCKS_PER_GB).map(block));
    device.idle_until(end);
    assert_near("reading, mW", watt(&device, before) * 1e3, 5500.0, 5.0);
}
