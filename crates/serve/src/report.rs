//! How a server is doing: figures of the drive and of the server itself, as data.

use serde::Serialize;

use crate::engine::{Cut, Engine};
use crate::lateness::LATE;

/// Lateness of answers, microseconds; zeros if the server is not paced.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatenessFigures {
    /// Answers counted.
    pub answers: u64,
    /// Half were at most so late.
    pub us_p50: f64,
    /// 99 of 100.
    pub us_p99: f64,
    /// 999 of 1000.
    pub us_p999: f64,
    /// The longest.
    pub us_max: f64,
    /// Answers not served in time: later than `late_from_us`.
    pub late: u64,
    /// From when on an answer counts as late.
    pub late_from_us: f64,
}

/// Figures since the server began.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Wall time, seconds.
    pub elapsed_s: f64,
    /// The drive's time, seconds.
    pub drive_s: f64,
    /// Requests of all hosts.
    pub requests: u64,
    /// Under way.
    pub outstanding: usize,
    /// Bytes read and written by hosts.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Write amplification of the drive so far; zero before the first write.
    pub waf: f64,
    /// The drive's sensor, degrees Celsius.
    pub temperature_c: f64,
    /// Throttle stage, 0 for none.
    pub throttle_stage: usize,
    /// Bytes that a power cut would take now, at most.
    pub losable_bytes: u64,
    /// Power cuts so far.
    pub power_cuts: u64,
    /// The last of them.
    pub last_power_cut: Option<Cut>,
    /// How late the server was.
    pub lateness: LatenessFigures,
}

impl Report {
    /// The figures at this moment.
    pub fn of(engine: &mut Engine) -> Report {
        let counters = engine.counters();
        let health = engine.health();
        let us = |per_mille| engine.lateness().percentile(per_mille).0 as f64 / 1e3;
        let lateness = LatenessFigures {
            answers: engine.lateness().count(),
            us_p50: us(500),
            us_p99: us(990),
            us_p999: us(999),
            us_max: engine.lateness().longest().0 as f64 / 1e3,
            late: engine.lateness().late(),
            late_from_us: LATE.0 as f64 / 1e3,
        };
        let (power_cuts, last_power_cut) = engine.cuts();
        let traffic = engine.traffic();
        Report {
            elapsed_s: engine.clock().elapsed().as_secs_f64(),
            drive_s: engine.now().as_secs_f64(),
            requests: engine.requests(),
            outstanding: engine.outstanding(),
            bytes_read: traffic.read,
            bytes_written: traffic.written,
            waf: health.waf.unwrap_or(0.0),
            temperature_c: counters.temperature_c,
            throttle_stage: counters.throttle_stage,
            losable_bytes: engine.losable_bytes(),
            power_cuts,
            last_power_cut,
            lateness,
        }
    }
}
