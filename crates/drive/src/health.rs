//! The health log, as SMART reports it.
//!
//! Source: NVM Express base specification, SMART / Health Information log (page 02h): its fields,
//! units and roundings. Where the log rounds to minutes or hours, whole nanoseconds are given here too.
//! `waf` and the throttle stages beyond the second are not in the log; vendors report them elsewhere.
//! Left out: errors of commands (the model's hosts make none that the drive would log).

use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::persist::persist;
use crate::spec::NODES_MAX;

/// Sectors of one data unit: 512,000 bytes.
const UNIT_BYTES: u64 = 1000 * SECTOR_BYTES;

/// The drive's health.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Composite temperature as the sensor reads it, whole degrees Celsius.
    pub temperature_c: f64,
    /// Exact temperature of each heat node, degrees Celsius, with its name.
    pub node_temperatures_c: Vec<(&'static str, f64)>,
    /// Flash left that may fail, per cent of what it was at the beginning; 100 where failing is not modelled.
    pub available_spare_percent: u8,
    /// Wear against the rated cycles, per cent, up to 255; none where the profile gives no rating.
    pub percentage_used: Option<u8>,
    /// Units of 512,000 bytes read by the host, rounded up.
    pub data_units_read: u64,
    /// Units written.
    pub data_units_written: u64,
    /// Read commands of the host.
    pub host_reads: u64,
    /// Write commands.
    pub host_writes: u64,
    /// Time with a command outstanding.
    pub busy: Nanos,
    /// How often the drive was switched on.
    pub power_cycles: u64,
    /// Time switched on.
    pub power_on: Nanos,
    /// Power lost without warning.
    pub unsafe_shutdowns: u64,
    /// Reads that no error correction could save.
    pub media_errors: u64,
    /// Time at or above the warning temperature, below the critical one.
    pub warning_time: Nanos,
    /// Time at or above the critical temperature.
    pub critical_time: Nanos,
    /// By throttle stage, mildest first: how often it was entered, and time spent in it.
    pub throttling: Vec<(u64, Nanos)>,
    /// How often drive or link were woken from sleep.
    pub wakes: u64,
    /// Time in which drive or link slept, or fell asleep.
    pub asleep: Nanos,
    /// 4 KiB pages programmed per page written by the host, so far; none before the first.
    pub waf: Option<f64>,
}

/// Commands and times that only the health log needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log {
    /// Latest completion so far: the drive is idle from then on.
    pub busy_until: Nanos,
    /// Time without a command.
    pub idle: Nanos,
    /// Wake-ups.
    pub wakes: u64,
    /// Time asleep.
    pub asleep: Nanos,
    /// Switched on.
    pub power_cycles: u64,
    /// Switched off by surprise.
    pub unsafe_shutdowns: u64,
}

persist!(Log: busy_until, idle, wakes, asleep, power_cycles, unsafe_shutdowns);

/// So many bytes in the log's units.
pub fn data_units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT_BYTES)
}

/// Cycles against their rating, as the log gives it.
pub fn percentage_used(cycles: f64, rated: f64) -> u8 {
    (cycles / rated * 100.0).floor().clamp(0.0, 255.0) as u8
}

/// The nodes' names beside their temperatures.
pub fn named(names: &[&'static str], celsius: [f64; NODES_MAX]) -> Vec<(&'static str, f64)> {
    names.iter().copied().zip(celsius).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_round_as_the_log_does() {
        assert_eq!([0, 1, 512_000, 512_001].map(data_units), [0, 1, 1, 2]);
        assert_eq!(percentage_used(29.99, 3000.0), 0);
        assert_eq!(percentage_used(30.0, 3000.0), 1);
        assert_eq!(percentage_used(1e9, 3000.0), 255);
    }
}
