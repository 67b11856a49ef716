//! Figures of a served drive and of the server itself.

use serde::Serialize;

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
}
