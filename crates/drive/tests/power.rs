//! Sleep, energy and the health log compared with values that can be computed by hand.

use crate::support::{Profile, one_by_one, page, repeated};
use drivebay_drive::{Device, Io, Op, Spec, Stage};
use drivebay_units::Nanos;
use proptest::prelude::*;

/// The SM951 with NVMe firmware in a computer that lets it sleep.
fn laptop() -> Profile {
    Profile::sm951_nvme().set("host.power_saving", true)
}

/// Latency of an unmapped read after `idle_us` of idle time, by stage: total, link, firmware.
fn read_after(profile: &Profile, idle_us: u64) -> [u64; 3] {
    let mut device = profile.device();
    let end = one_by_one(&mut device, [page(Op::Read, 1)]);
    let now = end.after(Nanos::micros(idle_us));
    let read = device.submit(now, page(Op::Read, 2)).expect("on the drive");
    assert_eq!(read.stages.total(), read.done.since(now));
    [read.done.since(now).0, read.stages.of(Stage::Link).0, read.stages.of(Stage::Firmware).0]
}

/// PS3: 275 ms of idle time, 0.5 ms in, 5 ms out; PS4: 1,200 ms, 2 ms, 22 ms; L1.2: 1 ms, 10 us, 70
/// us.
#[test]
fn the_first_command_after_sleep_waits_for_the_exits() {
    let profile = laptop();
    let [awake, link, firmware] = read_after(&profile, 0);
    for (idle_us, link_us, device_us) in [
        (999, 0, 0),
        (1000, 80, 0),
        (1004, 76, 0),
        (2000, 70, 0),
        (275_000, 70, 5500),
        (275_200, 70, 5300),
        (300_000, 70, 5000),
        (1_200_500, 70, 23_500),
        (10_000_000, 70, 22_000),
    ] {
        let [all, on_link, in_firmware] = read_after(&profile, idle_us);
        assert_eq!(all - awake, (link_us + device_us) * 1000, "after {idle_us} us");
        assert_eq!(on_link - link, link_us * 1000, "after {idle_us} us");
        assert_eq!(in_firmware - firmware, device_us * 1000, "after {idle_us} us");
    }
    let desktop = profile.set("host.power_saving", false);
    assert_eq!(read_after(&desktop, 10_000_000), [awake, link, firmware]);
}

/// Commands after the one that wakes the drive also wait for it, and have no additional delay.
#[test]
fn followers_wait_behind_the_wake_up() {
    let mut device = laptop().device();
    let now = Nanos::secs(10);
    let first = device.submit(now, page(Op::Read, 1)).expect("on the drive");
    let second = device.submit(now.after(Nanos(10)), page(Op::Read, 2)).expect("on the drive");
    assert!(first.done.since(now) > Nanos::micros(22_070));
    assert!(second.done > first.done);
    assert!(second.done.since(first.done) < Nanos::micros(5));
    assert_eq!(device.health().wakes, 1);
    assert_eq!(device.health().asleep, Nanos(now.0 - 1_000_000), "asleep, or falling asleep");
}

/// Awake 1,600 mW, of which the link 48; L1.2 takes nothing from 1.01 ms on, PS3 22 mW from 275.5
/// ms, PS4 5 mW from 1,202 ms.
#[test]
fn idle_energy_is_the_sum_over_states() {
    let mut device = laptop().cool().device();
    device.idle_until(Nanos::secs(10));
    let uj = 1010 * 48 + 275_500 * 1552 + (1_202_000 - 275_500) * 22 + (10_000_000 - 1_202_000) * 5;
    assert_eq!(device.counters().energy_nj, uj);
    // Pieces of any length give the same energy.
    let mut pieces = laptop().cool().device();
    for i in 1..=1000u64 {
        pieces.idle_until(Nanos(i * 10_000_000));
    }
    assert_eq!(pieces.counters().energy_nj / 1000, uj / 1000);
    // An hour, most of it settled and skipped at once.
    device.idle_until(Nanos::secs(3610));
    assert_eq!(device.counters().energy_nj, uj + 3600 * 5_000_000);
}

/// A command every 2 s: each wakes the drive, which sleeps in between; awake until it is done.
#[test]
fn energy_of_a_drive_that_is_woken_again_and_again() {
    let profile = laptop().cool().set("energy.core_busy_mw", 0.0).set("energy.link_4k_uj", 0.0);
    let mut device = profile.device();
    let (mut busy_ns, mut idle_ns, mut end) = (0, 0, 0);
    let per_sleep = |idle_ns: u64| {
        1_010_000 * 48 + 275_500_000 * 1552 + 926_500_000 * 22 + (idle_ns - 1_202_000_000) * 5
    };
    let mut picojoule = 0;
    for i in 1..=50u64 {
        let at = i * 2_000_000_000;
        let read = device.submit(Nanos(at), page(Op::Read, i)).expect("on the drive");
        idle_ns += at - end;
        picojoule += per_sleep(at - end) + (read.done.0 - at) * 1600;
        busy_ns += read.done.0 - at;
        end = read.done.0;
    }
    device.idle_until(Nanos::secs(102));
    picojoule += per_sleep(102_000_000_000 - end);
    let got = device.counters().energy_nj as f64;
    assert!((got / (picojoule as f64 / 1e3) - 1.0).abs() < 1e-6, "{got} nJ");
    assert_eq!(device.health().wakes, 50);
    assert_eq!(device.health().busy, Nanos(busy_ns));
    assert_eq!(idle_ns + busy_ns, end);
}

#[test]
fn peak_power_is_that_of_the_busiest_step() {
    let mut device = Profile::sm951().cool().device();
    device.idle_until(Nanos::secs(1));
    assert!((device.take_peak_power_w() - 0.05).abs() < 1e-9, "idle");
    // One read of a page that is not mapped: awake for a step, 3 uJ on the link, 2.94 us of the
    // core.
    one_by_one(&mut device, [page(Op::Read, 1)]);
    device.idle_until(Nanos::secs(2));
    let joule = 0.16 + 3e-6 + 2.94e-6 * 0.8;
    assert!((device.take_peak_power_w() - joule / 0.1).abs() < 1e-6);
    device.idle_until(Nanos::secs(3));
    assert!((device.take_peak_power_w() - 0.05).abs() < 1e-9, "the peak was taken");
}

#[test]
fn the_health_log_counts_in_its_units() {
    let mut device = Profile::sm951().device();
    one_by_one(&mut device, (0..1000).map(|i| page(Op::Write, i)));
    let written = device.now();
    one_by_one(&mut device, (0..126).map(|i| page(Op::Read, i)));
    one_by_one(&mut device, [page(Op::Trim, 3)]);
    let health = device.health();
    assert_eq!((health.host_writes, health.host_reads), (1000, 126));
    assert_eq!(health.data_units_written, 8, "4,096,000 bytes");
    assert_eq!(health.data_units_read, 2, "516,096 bytes, rounded up");
    assert_eq!((health.power_cycles, health.unsafe_shutdowns), (1, 0));
    assert_eq!(health.percentage_used, Some(0));
    assert_eq!(health.waf, Some(1.0));
    assert!(health.busy > written);
    let busy = health.busy;
    device.idle_until(Nanos::secs(5000));
    assert_eq!(device.health().busy, busy, "idle time is not busy time");
    assert_eq!(device.health().power_on, Nanos::secs(5000));
    device.count_power_cycle(true);
    device.count_power_cycle(false);
    assert_eq!((device.health().power_cycles, device.health().unsafe_shutdowns), (3, 1));
}

/// Cycles are erases of superblocks divided by the number of superblocks.
#[test]
fn wear_is_measured_against_the_rating() {
    let mut device = Profile::sm951()
        .one_die(64, 64, 3000)
        .timeless()
        .with("health.rated_cycles", 10.0)
        .device();
    for pass in 0..5u64 {
        one_by_one(&mut device, (0..3000).map(|i| page(Op::Write, (i * 7 + pass) % 3000)));
    }
    let cycles = device.counters().erases as f64 / 64.0;
    assert!(cycles > 2.0);
    assert_eq!(device.health().percentage_used, Some((cycles * 10.0) as u8));
}

#[test]
fn impossible_states_are_refused_by_name() {
    let refused = |change: fn(&mut toml::Table), says: &str| {
        let mut profile = laptop();
        change(&mut profile.0);
        let error = Spec::from_toml(&profile.0.to_string()).map(|_| ()).expect_err("refused");
        assert!(error.to_string().starts_with(says), "{error}");
        assert!(error.to_string().contains("\nhint: "), "{error}");
    };
    refused(
        |t| t["power"]["device"][1]["after_us"]["value"] = 275_400.0.into(),
        "power.device[1].after_us: 275400",
    );
    refused(
        |t| t["power"]["device"][1]["power_mw"]["value"] = 23.0.into(),
        "power.device[1].power_mw: 23",
    );
    refused(
        |t| t["power"]["link"][0]["exit_us"]["value"] = (-1.0).into(),
        "power.link[0].exit_us: -1",
    );
    refused(|t| t["power"]["link"][0]["name"] = "".into(), "power.link[0].name");
    refused(|t| t["power"]["link_awake_mw"]["value"] = 1601.0.into(), "power.link_awake_mw: 1601");
    refused(|t| t["health"]["rated_cycles"]["value"] = 0.0.into(), "health.rated_cycles: 0");
}

/// Numbers that only some profiles have.
const OPTIONAL: &[&str] = &[
    "host.processors",
    "host.nvme.serial_us",
    "host.nvme.register_reads",
    "host.nvme.register_read_us",
    "host.nvme.mb_per_s",
    "host.slot.generation",
    "host.slot.lanes",
    "host.slot.payload_bytes",
    "host.slot.read_request_bytes",
    "host.slot.read_completion_bytes",
    "host.slot.round_trip_us",
    "host.sata_port.generation",
    "host_interface.queues_max",
    "host_interface.commands_max",
    "controller.admission.pace",
    "link.read_tags",
    "link.generation",
    "link.lanes",
    "link.payload_bytes",
    "link.packet_overhead_bytes",
    "power.link_awake_mw",
    "health.rated_cycles",
    "health.warning_c",
    "health.critical_c",
    "thermal.sensor.interval_ms",
    "thermal.ambient_c",
    "energy.active_mw",
    "energy.core_busy_mw",
    "controller.read_command_us",
];

fn number() -> impl Strategy<Value = toml::Value> {
    prop_oneof![
        any::<i64>().prop_map(toml::Value::from),
        any::<f64>().prop_map(toml::Value::from),
        (0i64..10_000).prop_map(toml::Value::from),
        (0.0..1e6f64).prop_map(toml::Value::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: repeated(400), ..ProptestConfig::default() })]

    /// Any number in any place is refused by name, or gives a drive that works, sleeps and wakes
    /// without a panic.
    #[test]
    fn no_optional_number_breaks_the_drive(
        picks in prop::collection::vec((any::<prop::sample::Index>(), number()), 1..4),
        states in prop::collection::vec(prop::option::of(0.0..3.7e9f64), 12),
        sata: bool,
    ) {
        let mut profile = laptop()
            .set("nand.blocks_per_plane", 40)
            .set("nand.pages_per_block", 16)
            .set("nand.bad_superblocks", 0)
            .set("drive.capacity_sectors", 262_144);
        if sata {
            profile = profile
                .set("host_interface.protocol", "sata")
                .set("host_interface.queue_depth_max", 32)
                .without("host_interface.queues_max")
                .set("link.lanes", 1)
                .set("link.payload_bytes", 8192);
        }
        for (index, value) in picks {
            profile = profile.with(OPTIONAL[index.index(OPTIONAL.len())], value);
        }
        let mut states = states.into_iter();
        for (ladder, i) in [("device", 0), ("device", 1), ("link", 0)] {
            for key in ["after_us", "entry_us", "exit_us", "power_mw"] {
                if let Some(value) = states.next().flatten() {
                    let leaf = &mut profile.0["power"][ladder][i][key];
                    leaf["value"] = value.into();
                    leaf.as_table_mut().expect("a leaf").remove("range");
                }
            }
        }
        let Ok(spec) = Spec::from_toml(&profile.0.to_string()) else { return Ok(()) };
        let mut device = Device::new(spec, 1).expect("memory for a small drive");
        let mut now = Nanos::ZERO;
        for i in 0..300u64 {
            let op = if i % 3 == 0 { Op::Read } else { Op::Write };
            let io = Io::new(op, i * 7919 % 262_000, 9);
            now = device.submit(now, io).expect("on the drive").done;
            if i % 50 == 0 {
                now = now.after(Nanos::micros(1 << (i / 10)));
                device.idle_until(now);
            }
        }
        let health = device.health();
        prop_assert!(health.node_temperatures_c.iter().all(|(_, celsius)| celsius.is_finite()));
        prop_assert!(health.busy <= device.now().max(now));
    }
}
