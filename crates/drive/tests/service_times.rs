//! Varying times of the flash core (`controller.service_cv`) compared with queueing theory: exact
//! mean value analysis of a closed network (Reiser and Lavenberg, JACM 1980), and the
//! Pollaczek-Khinchine formula of an open queue.
//!
//! Flushes of a drive with power-loss protection pass the flash core and wait for nothing else.
//! Together with the fixed times around it, that is a queue and a delay.

use crate::support::{Profile, closed_loop};
use drivebay_drive::{Device, Io, Op};
use drivebay_units::{Nanos, Rng};

/// Time of a command in the flash core, in microseconds.
const SERVICE: f64 = 20.0;

fn device(cv: f64) -> Device {
    let profile = Profile::sm951_nvme()
        .cool()
        .with("write_buffer.power_loss_protection", true)
        .set("controller.host_core_us", 0.0)
        .set("controller.write_command_us", SERVICE);
    let profile = if cv > 0.0 { profile.with("controller.service_cv", cv) } else { profile };
    profile.device()
}

fn flushes(count: usize) -> impl Iterator<Item = Io> {
    std::iter::repeat_n(Io::new(Op::Flush, 0, 0), count)
}

/// Latencies in microseconds with this number of customers, and the rate per microsecond.
fn closed(cv: f64, customers: usize, count: usize) -> (Vec<f64>, f64) {
    let mut device = device(cv);
    let (mut latencies, mut last) = (Vec::new(), Nanos::ZERO);
    closed_loop(&mut device, customers, flushes(count), |served| {
        latencies.push(served.done.since(served.submitted).0 as f64 / 1e3);
        last = last.max(served.done);
    });
    (latencies, count as f64 / (last.0 as f64 / 1e3))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Time of a command outside the flash core, in microseconds.
fn delay() -> f64 {
    mean(&closed(0.0, 1, 100).0) - SERVICE
}

/// The rate of a queue of exponential times and a delay by mean value analysis.
fn mean_value_analysis(customers: usize, delay: f64) -> f64 {
    let (mut queued, mut rate) = (0.0, 0.0);
    for n in 1..=customers {
        let response = SERVICE * (1.0 + queued);
        rate = n as f64 / (delay + response);
        queued = rate * response;
    }
    rate
}

#[test]
fn a_closed_loop_has_the_rate_of_mean_value_analysis() {
    let delay = delay();
    assert!((2.0..SERVICE).contains(&delay), "{delay}");
    for customers in [1, 2, 4, 8] {
        let expected = mean_value_analysis(customers, delay);
        let (_, rate) = closed(1.0, customers, 200_000);
        assert!((rate / expected - 1.0).abs() < 0.01, "{customers}: {rate}, {expected} expected");
        // Constant times interleave without waits.
        let fitting = (customers as f64 / (delay + SERVICE)).min(1.0 / SERVICE);
        let (_, rate) = closed(0.0, customers, 10_000);
        assert!((rate / fitting - 1.0).abs() < 0.01, "{customers}: {rate}, {fitting} expected");
    }
}

#[test]
fn one_at_a_time_has_the_mean_and_the_variation() {
    let delay = delay();
    for cv in [0.3, 1.0] {
        let (latencies, _) = closed(cv, 1, 200_000);
        let service: Vec<f64> = latencies.iter().map(|latency| latency - delay).collect();
        let mean_us = mean(&service);
        let squares: Vec<f64> = service.iter().map(|us| (us - mean_us).powi(2)).collect();
        let deviation = mean(&squares).sqrt();
        assert!((mean_us / SERVICE - 1.0).abs() < 0.01, "{mean_us}");
        assert!((deviation / (cv * SERVICE) - 1.0).abs() < 0.02, "{cv}: {deviation}");
        // One in a thousand takes 6.9 deviations more than the least.
        let mut sorted = service;
        sorted.sort_by(f64::total_cmp);
        let tail = (sorted[sorted.len() * 999 / 1000] - sorted[0]) / (cv * SERVICE);
        assert!((tail / 1000f64.ln() - 1.0).abs() < 0.1, "{tail}");
    }
}

/// Commands with random arrivals: the wait is rho / (1 - rho) times half of a service time, times
/// one plus the squared coefficient of variation.
#[test]
fn an_open_queue_waits_by_pollaczek_and_khinchine() {
    let delay = delay();
    for (cv, rho) in [(0.0, 0.5), (0.5, 0.5), (1.0, 0.5), (1.0, 0.8)] {
        let mut device = device(cv);
        let mut rng = Rng::new(7).fork("arrivals");
        let (mut clock, mut waits) = (0.0, Vec::new());
        for tag in 0..300_000 {
            let uniform = (rng.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
            clock -= uniform.ln() * SERVICE * 1e3 / rho;
            let now = Nanos(clock as u64);
            let mut served = Vec::new();
            while device.next_arrival() <= now {
                served.extend(device.serve().expect("a flush"));
            }
            served.extend(device.accept(now, Io::new(Op::Flush, 0, 0), tag, now).expect("a flush"));
            let wait = |us: f64| us - delay - SERVICE;
            waits.extend(served.iter().map(|c| wait(c.done.since(c.submitted).0 as f64 / 1e3)));
        }
        let expected = rho / (1.0 - rho) * SERVICE * (1.0 + cv * cv) / 2.0;
        let got = mean(&waits);
        assert!((got / expected - 1.0).abs() < 0.03, "{cv} {rho}: {got}, {expected} expected");
    }
}
