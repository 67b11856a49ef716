//! The heat network, its throttling and its sensor compared with closed forms.

use crate::support::{Profile, at_depth, closed_loop, page, repeated};
use drivebay_drive::{Device, Io, Op, Spec, Stage};
use drivebay_units::Nanos;
use proptest::prelude::*;

/// Three nodes: controller and flash on the module.
fn network() -> Profile {
    let leaves = [
        ("controller_j_per_k", 1.5),
        ("nand_j_per_k", 2.0),
        ("module_j_per_k", 5.0),
        ("controller_to_module_k_per_w", 3.0),
        ("nand_to_module_k_per_w", 2.0),
        ("module_to_air_k_per_w", 8.0),
    ];
    leaves.iter().fold(Profile::sm951().without("thermal.sensor"), |profile, (name, value)| {
        profile.with(&format!("thermal.network.{name}"), *value)
    })
}

fn with_heatsink(profile: Profile) -> Profile {
    profile
        .with("thermal.network.heatsink.capacity_j_per_k", 20.0)
        .with("thermal.network.heatsink.from_controller_k_per_w", 1.0)
        .with("thermal.network.heatsink.from_nand_k_per_w", 1.5)
        .with("thermal.network.heatsink.to_air_k_per_w", 4.0)
}

/// A drive at rest as a heater of this power: idle power heats only the controller's node.
fn heater(profile: Profile, milliwatt: f64) -> Device {
    profile.set("energy.idle_mw", milliwatt).cool().device()
}

fn nodes(device: &Device) -> Vec<f64> {
    device.health().node_temperatures_c.into_iter().map(|(_, celsius)| celsius).collect()
}

#[track_caller]
fn assert_near(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= tolerance, "{got} against {expected}");
    }
}

/// T = Ta + P R (1 - exp(-t / RC)), to rounding: the step is exact.
#[test]
fn one_node_follows_its_exponential_exactly() {
    for (resistance, capacity) in [(10.0, 8.5), (0.01, 0.1), (0.5, 0.1), (1000.0, 1e6)] {
        let profile = Profile::sm951()
            .one_node()
            .set("thermal.resistance_k_per_w", resistance)
            .set("thermal.capacity_j_per_k", capacity);
        let mut device = heater(profile, 5000.0);
        for seconds in [1u64, 60, 85, 200, 1000] {
            device.idle_until(Nanos::secs(seconds));
            let decay = (-(seconds as f64) / (resistance * capacity)).exp();
            let expected = 25.0 + 5.0 * resistance * (1.0 - decay);
            assert_near(&nodes(&device), &[expected], 1e-8);
        }
    }
}

/// With all power into the controller, the module rises by P x R(module-air), the controller by P x
/// R(controller-module) more, and the flash, which conducts no heat away, is as warm as the module.
#[test]
fn a_network_comes_to_its_steady_state() {
    let mut device = heater(network(), 3000.0);
    device.idle_until(Nanos::secs(3600));
    assert_near(&nodes(&device), &[25.0 + 24.0 + 9.0, 25.0 + 24.0, 25.0 + 24.0], 1e-6);
}

/// Kirchhoff's laws by hand. Unknown rises above ambient: controller c, flash n, module m, sink s;
/// (c-m)/3 + (c-s)/1 = P, (n-m)/2 + (n-s)/1.5 = 0, m/8 = (c-m)/3 + (n-m)/2, s/4 = (c-s)/1 +
/// (n-s)/1.5. All heat leaves through module and sink.
#[test]
fn a_heatsink_takes_its_share() {
    let mut device = heater(with_heatsink(network()), 3000.0);
    device.idle_until(Nanos::secs(36_000));
    let [c, n, m, s] = nodes(&device).try_into().expect("four nodes");
    let [c, n, m, s] = [c, n, m, s].map(|celsius| celsius - 25.0);
    let balances = [
        (c - m) / 3.0 + (c - s) - 3.0,
        (n - m) / 2.0 + (n - s) / 1.5,
        (c - m) / 3.0 + (n - m) / 2.0 - m / 8.0,
        (c - s) + (n - s) / 1.5 - s / 4.0,
        m / 8.0 + s / 4.0 - 3.0,
    ];
    assert_near(&balances, &[0.0; 5], 1e-6);
}

/// Two nodes in closed form: flash with almost no capacity is attached to the module without a
/// flow. C1 T1' = P - (T1-T2)/R1, C2 T2' = (T1-T2)/R1 - T2/R2. After some seconds only the slower
/// of two exponentials is left, so logarithms of the distance to steady state fall by its rate.
#[test]
fn a_network_settles_with_its_slowest_time_constant() {
    let (c1, c2, r1, r2) = (1.5, 5.1, 3.0, 8.0f64);
    let profile = network()
        .with("thermal.network.nand_j_per_k", 0.1)
        .with("thermal.network.nand_to_module_k_per_w", 0.01);
    let mut device = heater(profile, 3000.0);
    // Eigenvalues of [[1/(R1 C1), -1/(R1 C1)], [-1/(R1 C2), 1/(R1 C2) + 1/(R2 C2)]].
    let (a, b) = (1.0 / (r1 * c1), 1.0 / (r1 * c2) + 1.0 / (r2 * c2));
    let det = a * b - 1.0 / (r1 * c1) / (r1 * c2);
    let root = ((a + b) * (a + b) - 4.0 * det).sqrt();
    let [slow, fast] = [(a + b - root) / 2.0, (a + b + root) / 2.0];
    // Whole solution of the controller: rises 33, starts at 0 with slope P / C1.
    let steady = 3.0 * (r1 + r2);
    let k_fast = (3.0 / c1 - slow * steady) / (slow - fast);
    let k_slow = -steady - k_fast;
    for seconds in [1u64, 3, 10, 30, 100, 300] {
        device.idle_until(Nanos::secs(seconds));
        let t = seconds as f64;
        let expected = 25.0 + steady + k_slow * (-slow * t).exp() + k_fast * (-fast * t).exp();
        assert_near(&nodes(&device)[..1], &[expected], 0.02);
    }
}

/// The sensor: whole degrees, read every 2 s.
#[test]
fn a_sensor_is_read_at_intervals_and_rounds() {
    let profile = Profile::sm951()
        .one_node()
        .with("thermal.sensor.node", "drive")
        .with("thermal.sensor.interval_ms", 2000)
        .set("thermal.resistance_k_per_w", 10.0)
        .set("thermal.capacity_j_per_k", 0.1);
    // The node itself is at 75 C within seconds (RC = 1 s).
    let mut device = heater(profile, 5000.0);
    for seconds in [1u64, 2, 3, 9, 10, 60] {
        device.idle_until(Nanos::secs(seconds));
        let t = (seconds / 2 * 2) as f64;
        let rise = 1.0 - (-t).exp();
        let got = device.health().temperature_c;
        assert_eq!(got, got.round());
        assert!((got - (25.0 + 50.0 * rise)).abs() <= 1.1, "{got} at {seconds} s, {rise}");
    }
    assert_eq!(device.health().temperature_c, 75.0);
}

/// The clock falls from `on_c` to `full_c` in equal steps, each with the stage's hysteresis.
#[test]
fn a_stage_with_full_c_takes_hold_step_by_step() {
    let spec = Profile::sm951().spec();
    let steps: Vec<_> = spec.throttle.iter().filter(|step| step.number == 1).collect();
    let (first, last) = (steps[0], steps[steps.len() - 1]);
    assert_eq!((first.on_c, last.on_c), (55.0, 86.0));
    let nominal = spec.throttle[0].costs.write_command.0 as f64;
    assert_near(&[last.costs.write_command.0 as f64 / nominal], &[2.0], 1e-3);
    let slower = |step: f64| 1.0 / (1.0 - 0.5 * step / steps.len() as f64);
    for (i, step) in steps.iter().enumerate() {
        let got = step.costs.write_command.0 as f64 / nominal;
        assert_near(&[got, step.on_c - step.off_c], &[slower(i as f64 + 1.0), 0.5], 1e-3);
    }
}

/// A change of a threshold by a tenth of a degree changes the rate of a throttled load by less than
/// half a percent.
#[test]
fn no_rate_hangs_on_a_tenth_of_a_degree() {
    let rate = |on_c: f64| {
        // Light parts reach their steady state within seconds.
        let mut profile =
            ["controller", "nand", "module"].iter().fold(Profile::sm951(), |profile, node| {
                profile.set(&format!("thermal.network.{node}_j_per_k"), 0.2)
            });
        profile.0["thermal"]["throttle"][0]["on_c"]["value"] = on_c.into();
        let mut device = profile.device();
        let write = |i: u64| Io::new(Op::Write, i * 7919 % 100_000 * 8, 8);
        at_depth(&mut device, 32, (0..1_000_000).map(write));
        assert_eq!(device.counters().throttle_stage, 1);
        1e6 / device.now().as_secs_f64()
    };
    let (one, other): (f64, f64) = (rate(55.0), rate(55.1));
    assert!((one / other - 1.0).abs() < 0.005, "{one} against {other} a second");
}

/// If the cores set the rate, the time that a slower clock adds to an I/O, including waits for
/// others and for garbage collection, counts as throttling: it equals the gain of the drive at full
/// clock.
#[test]
fn the_share_of_throttling_is_what_full_clock_would_save() {
    let run = |clock_percent: Option<f64>| {
        let flash = Profile::sm951().four_dies(30_000).set("nand.erase_us", 1.0);
        let mut profile = flash.set("nand.program_us", vec![1.0]);
        match clock_percent {
            None => profile = profile.cool(),
            Some(clock) => {
                let stage = &mut profile.0["thermal"]["throttle"][0];
                stage.as_table_mut().expect("a stage").remove("full_c");
                for (key, value) in [("on_c", 1.0), ("off_c", 0.0), ("clock_percent", clock)] {
                    stage[key] = toml::toml! { value = 0.0  source = "test" }.into();
                    stage[key]["value"] = value.into();
                }
            }
        }
        let mut device = profile.device();
        let mut sum = (0, 0);
        let begun = device.now();
        let writes = (0..200_000).map(|i: u64| page(Op::Write, i * 7919 % 30_000));
        closed_loop(&mut device, 32, writes, |served| {
            assert_eq!(served.stages.total(), served.done.since(served.submitted));
            sum.0 += served.stages.of(Stage::Throttle).0;
            sum.1 += served.stages.total().0;
        });
        (device.now().since(begun).as_secs_f64(), sum.0 as f64 / sum.1 as f64)
    };
    let ((cool, none), (hot, share)) = (run(None), run(Some(60.0)));
    assert_eq!(none, 0.0);
    assert_near(&[share], &[1.0 - cool / hot], 0.02);
}

/// Time above the limits: time above the warning temperature up to the critical one, and time above
/// the critical one.
#[test]
fn time_above_the_limits_is_counted() {
    let profile =
        Profile::sm951().one_node().with("health.warning_c", 50.0).with("health.critical_c", 70.0);
    let mut device = heater(profile, 5000.0);
    device.idle_until(Nanos::secs(1000));
    // 25 + 50 (1 - exp(-t / 85)) rounds to 50 from 49.5, to 70 from 69.5.
    let reaches = |celsius: f64| -85.0 * (1.0 - (celsius - 25.0) / 50.0).ln();
    let health = device.health();
    let near = |got: Nanos, expected: f64| {
        assert!((got.as_secs_f64() - expected).abs() < 0.2, "{got:?} against {expected} s");
    };
    near(health.warning_time, reaches(69.5) - reaches(49.5));
    near(health.critical_time, 1000.0 - reaches(69.5));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: repeated(200), ..ProptestConfig::default() })]

    /// For any allowed resistances and capacities, no node ever leaves the range of steady power.
    #[test]
    fn no_network_is_unstable(
        capacities in prop::collection::vec(-1.0..6.0f64, 4),
        resistances in prop::collection::vec(-2.0..3.0f64, 6),
        sink: bool,
    ) {
        let c = |i: usize| 10f64.powf(capacities[i]).clamp(0.1, 1e6);
        let r = |i: usize| 10f64.powf(resistances[i]).clamp(0.01, 1000.0);
        let mut profile = network()
            .with("thermal.network.controller_j_per_k", c(0))
            .with("thermal.network.nand_j_per_k", c(1))
            .with("thermal.network.module_j_per_k", c(2))
            .with("thermal.network.controller_to_module_k_per_w", r(0))
            .with("thermal.network.nand_to_module_k_per_w", r(1))
            .with("thermal.network.module_to_air_k_per_w", r(2));
        if sink {
            profile = profile
                .with("thermal.network.heatsink.capacity_j_per_k", c(3))
                .with("thermal.network.heatsink.from_controller_k_per_w", r(3))
                .with("thermal.network.heatsink.from_nand_k_per_w", r(4))
                .with("thermal.network.heatsink.to_air_k_per_w", r(5));
        }
        let mut device = heater(profile, 1000.0);
        // One watt through at most controller-module-air.
        let most = 25.0 + (r(0) + r(2)) * (1.0 + 1e-9);
        let mut before = vec![25.0; 4];
        for step in 1..=50u64 {
            device.idle_until(Nanos::millis(step * 100));
            for (now, before) in nodes(&device).iter().zip(&before) {
                prop_assert!(*now >= before - 1e-9 * most, "heating never cools: {now} {before}");
                prop_assert!(*now <= most);
            }
            before = nodes(&device);
        }
    }
}

#[test]
fn impossible_networks_are_refused_by_name() {
    let refused = |profile: Profile, says: &str| {
        let error = Spec::from_toml(&profile.0.to_string()).map(|_| ()).expect_err("refused");
        assert!(error.to_string().starts_with(says), "{error}");
        assert!(error.to_string().contains("\nhint: "), "{error}");
    };
    refused(network().with("thermal.capacity_j_per_k", 8.0), "thermal: this combination");
    refused(Profile::sm951().without("thermal.network"), "thermal: this combination");
    refused(network().with("thermal.network.nand_j_per_k", 0.0), "thermal.network.nand_j_per_k: 0");
    let sensor = |node: &str, interval: i64| {
        network().with("thermal.sensor.node", node).with("thermal.sensor.interval_ms", interval)
    };
    refused(sensor("drive", 100), "thermal.sensor.node: \"drive\"");
    refused(sensor("heatsink", 100), "thermal.sensor.node: \"heatsink\"");
    refused(sensor("nand", 250), "thermal.sensor.interval_ms: 250");
}

/// A rest that ends within a step keeps the information that a command came in it.
#[test]
fn a_step_with_a_command_is_awake_however_often_it_is_looked_at() {
    let energy = |looks: u64| {
        let profile = Profile::sm951().without("power").cool();
        let mut device =
            profile.set("energy.active_mw", 2000.0).set("energy.idle_mw", 50.0).device();
        let read = Io::new(Op::Read, 0, 8);
        device.submit(Nanos::ZERO, read).expect("on the drive");
        for look in 0..looks {
            device.idle_until(Nanos::millis(10 + 80 * look / looks));
        }
        device.idle_until(Nanos::millis(500));
        device.counters().energy_nj
    };
    assert_eq!([energy(1), energy(7)], [energy(0); 2]);
    assert!(energy(0) > 200_000_000 + 20_000_000, "a tenth awake, four asleep");
}
