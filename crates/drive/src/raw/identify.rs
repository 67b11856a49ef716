//! What an NVMe drive says of itself, as far as its timing does not follow from it.

use serde::{Deserialize, Serialize};

use super::sourced::{Number, Sourced, Word};

/// The drive's own identify data.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawIdentify {
    /// Model number, at most 40 characters.
    pub model: Word,
    /// Firmware revision, at most 8 characters.
    pub firmware: Word,
    /// PCI vendor.
    pub vendor: Sourced<u16>,
    /// PCI device.
    pub device: Sourced<u16>,
    /// The maker's IEEE OUI, 6 hexadecimal digits.
    pub oui: Word,
    /// Recommended arbitration burst, as a power of two (RAB).
    pub arbitration_burst_log2: Sourced<u8>,
    /// Most data of a command, as a power of two in units of 4 KiB (MDTS).
    pub transfer_max_log2: Sourced<u8>,
    /// Blocks written atomically, less one (AWUN).
    pub atomic_write: Sourced<u16>,
    /// The same when the power goes (AWUPF).
    pub atomic_write_power_fail: Sourced<u16>,
    /// Outstanding aborts, less one (ACL).
    pub aborts_max: Sourced<u8>,
    /// Outstanding asynchronous event requests, less one (AERL).
    pub events_max: Sourced<u8>,
    /// Entries of the error log, less one (ELPE).
    pub error_entries: Sourced<u8>,
    /// Power states, PS0 first.
    #[serde(default)]
    pub power_states: Vec<RawPowerState>,
}

/// One power state.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawPowerState {
    /// Most power.
    pub max_mw: Number,
    /// Time to enter.
    pub entry_us: Number,
    /// Time to leave.
    pub exit_us: Number,
    /// Whether it serves I/O.
    pub operational: Sourced<bool>,
}
