//! Figures of a served drive and of the server itself.

use std::collections::BTreeMap;

use drivebay_drive::Health;
use drivebay_wire::nvme::CriticalWarning;
use serde::Serialize;
use serde_json::{Value, json};

use super::latency_histogram::LatencyFigures;
use crate::faults::power_cut::PowerCut;
use crate::namespace::{AccessState, NamespaceFigures};
use crate::pacing::lateness::LatenessFigures;

/// Figures since the server started.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The drive's name.
    pub drive: String,
    /// Title of the drive; says so if the drive is scaled.
    pub title: String,
    /// Capacity, bytes.
    pub capacity_bytes: u64,
    /// Namespaces, as hosts see them.
    pub namespaces: Vec<NamespaceFigures>,
    /// State of the access through each portal of NVMe/TCP, if there are several.
    pub ana_states: Vec<AccessState>,
    /// Wall time, seconds.
    pub elapsed_s: f64,
    /// The drive's time, seconds.
    pub drive_s: f64,
    /// Seconds of the drive's clock per second of the host's clock.
    pub time_scale: f64,
    /// Requests of all hosts.
    pub requests: u64,
    /// Memory that all drives of the server use for data, snapshots and buffers, bytes.
    pub memory_bytes: u64,
    /// Part of it that is buffers of connections.
    pub buffer_bytes: u64,
    /// Memory limit, bytes.
    pub memory_max_bytes: u64,
    /// Number of requests that had to wait for memory.
    pub memory_waits: u64,
    /// Connections that were refused, or ended for a violation or a timeout.
    pub refused: u64,
    /// Commands in flight.
    pub outstanding: usize,
    /// Bytes that hosts read.
    pub bytes_read: u64,
    /// Bytes that hosts wrote.
    pub bytes_written: u64,
    /// Write amplification so far; zero before the first write.
    pub waf: f64,
    /// Temperature of the drive's sensor, degrees Celsius.
    pub temperature_c: f64,
    /// Throttle stage, 0 for none.
    pub throttle_stage: usize,
    /// Most bytes that a power cut could lose now.
    pub losable_bytes: u64,
    /// True if the power is off since the last power cut.
    pub is_off: bool,
    /// Number of power cuts.
    pub power_cuts: u64,
    /// Last power cut.
    pub last_power_cut: Option<PowerCut>,
    /// Lateness of the answers.
    pub lateness: LatenessFigures,
    /// Health log, with the names that Prometheus' exporters of NVMe drives use.
    pub health: Value,
    /// Latency of the completed requests by operation.
    pub latency: BTreeMap<&'static str, LatencyFigures>,
}

/// Health log of a report. `nvme_errors`: number of failed NVMe commands.
pub(crate) fn health_figures(health: &Health, critical_warning: u8, nvme_errors: u64) -> Value {
    let ratio = |percent: u8| f64::from(percent) / 100.0;
    let nodes = health.node_temperatures_c.iter().copied();
    let sensors = std::iter::once(("composite", health.temperature_c)).chain(nodes);
    json!({
        "critical_warning": critical_warning,
        "available_spare_ratio": ratio(health.available_spare_percent),
        "available_spare_threshold_ratio": ratio(SPARE_THRESHOLD),
        "percentage_used_ratio": ratio(health.percentage_used.unwrap_or(0)),
        "data_units_read": health.data_units_read,
        "data_units_written": health.data_units_written,
        "host_read_commands": health.host_reads,
        "host_write_commands": health.host_writes,
        "controller_busy_time_seconds": health.busy.as_secs_f64(),
        "power_cycles": health.power_cycles,
        "power_on_hours": health.power_on.0 / 3_600_000_000_000,
        "unsafe_shutdowns": health.unsafe_shutdowns,
        "media_errors": health.media_errors,
        "num_err_log_entries": nvme_errors,
        "temperature_celsius": sensors.collect::<BTreeMap<_, _>>(),
    })
}

/// Spare blocks below which the drive warns, percent. guess: usual.
pub(crate) const SPARE_THRESHOLD: u8 = 10;
/// Warning temperature of a profile without one, degrees Celsius: NVMe requires a value from
/// version 2.0 on. guess: client drives are specified to work up to it.
pub(crate) const WARNING_C: f64 = 70.0;

/// Critical warning of NVMe's SMART / Health Information.
pub(crate) fn critical_warning(health: &Health, is_hot: bool, is_read_only: bool) -> u8 {
    let bits = [
        (is_hot, CriticalWarning::TEMPERATURE),
        (health.available_spare_percent < SPARE_THRESHOLD, CriticalWarning::SPARE),
        (is_read_only, CriticalWarning::READ_ONLY),
    ];
    bits.into_iter().filter(|&(is_set, _)| is_set).fold(0, |all, (_, bit)| all | bit)
}
