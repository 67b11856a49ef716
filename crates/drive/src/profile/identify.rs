//! Identify data of an NVMe drive. Its fields are checked; the model does not use them.
//!
//! Source of the fields: NVM Express base specification, Identify Controller.

use super::key::{Number, SpecError, Word};
use super::schema::{RawPowerState, RawSpec};

/// Maximum number of power states of a drive (NPSS).
const POWER_STATES_MAX: usize = 32;

/// A power state as reported by Identify Controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerState {
    /// Maximum power, in milliwatts.
    pub max_mw: u32,
    /// Entry latency, in microseconds.
    pub entry_us: u32,
    /// Exit latency, in microseconds.
    pub exit_us: u32,
    /// True if the drive serves I/O in this state.
    pub operational: bool,
}

/// Identify data of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identify {
    /// Model number.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// PCI vendor and device ID.
    pub pci: [u16; 2],
    /// IEEE OUI of the maker.
    pub oui: u32,
    /// Recommended arbitration burst (RAB), log2 of commands.
    pub arbitration_burst_log2: u8,
    /// Maximum data transfer size (MDTS), log2 of units of 4 KiB.
    pub transfer_max_log2: u8,
    /// Atomic write unit in normal operation and at a power failure (AWUN, AWUPF).
    pub atomic_write: [u16; 2],
    /// Abort command limit (ACL), counted from 0.
    pub aborts_max: u8,
    /// Asynchronous event request limit (AERL), counted from 0.
    pub events_max: u8,
    /// Entries of the error log (ELPE), counted from 0.
    pub error_entries: u8,
    /// True if the drive has the log pages and features of OCP's Datacenter NVMe SSD
    /// specification.
    pub ocp: bool,
    /// Power state descriptors, PS0 first.
    pub power_states: Vec<PowerState>,
}

pub(super) fn check_identify(raw: &RawSpec) -> Result<Option<Identify>, SpecError> {
    let Some(raw) = &raw.identify else { return Ok(None) };
    let oui = &raw.oui.value;
    let Some(Ok(oui)) = (oui.len() == 6).then(|| u32::from_str_radix(oui, 16)) else {
        let given = format!("\"{oui}\"");
        return Err(SpecError::out("identify.oui", given, "6 hexadecimal digits", "like 002538"));
    };
    if raw.power_states.len() > POWER_STATES_MAX {
        let given = raw.power_states.len();
        let hint = "leave out some states";
        return Err(SpecError::out("identify.power_states", given, "at most 32", hint));
    }
    let rounded = |number: &Number| number.value.round() as u32;
    let power_state = |state: &RawPowerState| PowerState {
        max_mw: rounded(&state.max_mw),
        entry_us: rounded(&state.entry_us),
        exit_us: rounded(&state.exit_us),
        operational: state.operational.value,
    };
    Ok(Some(Identify {
        model: ascii("model", &raw.model, 40, "a number like SAMSUNG MZVPV512HDGL")?,
        firmware: ascii("firmware", &raw.firmware, 8, "a revision like BXW74H0Q")?,
        pci: [raw.vendor.value, raw.device.value],
        oui,
        arbitration_burst_log2: raw.arbitration_burst_log2.value,
        transfer_max_log2: raw.transfer_max_log2.value as u8,
        atomic_write: [raw.atomic_write.value, raw.atomic_write_power_fail.value],
        aborts_max: raw.aborts_max.value,
        events_max: raw.events_max.value,
        error_entries: raw.error_entries.value,
        ocp: raw.ocp.as_ref().is_some_and(|flag| flag.value),
        power_states: raw.power_states.iter().map(power_state).collect(),
    }))
}

fn ascii(key: &str, word: &Word, most: usize, hint: &str) -> Result<String, SpecError> {
    let text = &word.value;
    if (1..=most).contains(&text.len()) && text.is_ascii() {
        return Ok(text.clone());
    }
    let allowed = format!("1 to {most} ASCII characters");
    Err(SpecError::out(&format!("identify.{key}"), format!("\"{text}\""), allowed, hint))
}
