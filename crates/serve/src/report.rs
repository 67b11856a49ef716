//! The figures of a served drive and of the server itself.

use serde::Serialize;

use crate::lateness::LatenessFigures;
use crate::namespace::NamespaceFigures;
use crate::power_cut::PowerCut;

/// Figures since the server started.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The drive's name.
    pub drive: String,
    /// What it is; a scaled drive's says so.
    pub title: String,
    /// Its capacity, bytes.
    pub capacity_bytes: u64,
    /// Its parts, as hosts see them.
    pub namespaces: Vec<NamespaceFigures>,
    /// Wall time, seconds.
    pub elapsed_s: f64,
    /// The drive's time, seconds.
    pub drive_s: f64,
    /// Seconds of the drive's clock in a second of the host's.
    pub time_scale: f64,
    /// Requests of all hosts.
    pub requests: u64,
    /// Memory that all drives of the server take for data, snapshots and buffers, bytes.
    pub memory_bytes: u64,
    /// What of it is buffers of connections.
    pub buffer_bytes: u64,
    /// The most that they may take.
    pub memory_max_bytes: u64,
    /// How often a request had to wait until there was memory for it.
    pub memory_waits: u64,
    /// Connections that were refused, or ended for what they did or did not do.
    pub refused: u64,
    /// Commands in flight.
    pub outstanding: usize,
    /// Bytes that hosts read.
    pub bytes_read: u64,
    /// Bytes that hosts wrote.
    pub bytes_written: u64,
    /// Write amplification so far; zero before the first write.
    pub waf: f64,
    /// The drive's sensor, degrees Celsius.
    pub temperature_c: f64,
    /// Throttle stage, 0 for none.
    pub throttle_stage: usize,
    /// Bytes that a power cut would take now, at most.
    pub losable_bytes: u64,
    /// Whether the power is off since the last of them.
    pub is_off: bool,
    /// Number of power cuts.
    pub power_cuts: u64,
    /// The last of them.
    pub last_power_cut: Option<PowerCut>,
    /// How late the answers were.
    pub lateness: LatenessFigures,
}
