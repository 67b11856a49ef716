//! What an NVMe drive says of itself; its fields are checked, the model does not use them.
//!
//! Source of the fields: NVM Express base specification, Identify Controller.

use super::checker::{Checker, SpecError};
use crate::raw::RawSpec;

/// Most power states of a drive (NPSS).
const POWER_STATES_MAX: usize = 32;

/// A power state as Identify Controller gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerState {
    /// Most power, milliwatt.
    pub max_mw: u32,
    /// Time to enter, microseconds.
    pub entry_us: u32,
    /// Time to leave, microseconds.
    pub exit_us: u32,
    /// Whether it serves I/O.
    pub operational: bool,
}

/// The drive's own identify data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identify {
    /// Model number.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// PCI vendor and device.
    pub pci: [u16; 2],
    /// The maker's IEEE OUI.
    pub oui: u32,
    /// RAB.
    pub arbitration_burst_log2: u8,
    /// MDTS, in units of 4 KiB.
    pub transfer_max_log2: u8,
    /// AWUN and AWUPF.
    pub atomic_write: [u16; 2],
    /// ACL.
    pub aborts_max: u8,
    /// AERL.
    pub events_max: u8,
    /// ELPE.
    pub error_entries: u8,
    /// PS0 first.
    pub power_states: Vec<PowerState>,
}

pub(super) fn check_identify(raw: &RawSpec) -> Result<Option<Identify>, SpecError> {
    let Some(raw) = &raw.identify else { return Ok(None) };
    let firmware = raw.firmware.value.clone();
    Checker::source("identify.firmware", &raw.firmware)?;
    if firmware.is_empty() || firmware.len() > 8 || !firmware.is_ascii() {
        let given = format!("\"{firmware}\"");
        let hint = "a revision like BXW74H0Q";
        return Err(Checker::out("identify.firmware", given, "1 to 8 ASCII characters", hint));
    }
    let model = raw.model.value.clone();
    Checker::source("identify.model", &raw.model)?;
    if model.is_empty() || model.len() > 40 || !model.is_ascii() {
        let given = format!("\"{model}\"");
        let hint = "a number like SAMSUNG MZVPV512HDGL";
        return Err(Checker::out("identify.model", given, "1 to 40 ASCII characters", hint));
    }
    Checker::source("identify.oui", &raw.oui)?;
    let oui = (raw.oui.value.len() == 6).then(|| u32::from_str_radix(&raw.oui.value, 16));
    let Some(Ok(oui)) = oui else {
        let given = format!("\"{}\"", raw.oui.value);
        return Err(Checker::out("identify.oui", given, "6 hexadecimal digits", "like 002538"));
    };
    Checker::source("identify.vendor", &raw.vendor)?;
    Checker::source("identify.device", &raw.device)?;
    Checker::source("identify.atomic_write", &raw.atomic_write)?;
    Checker::source("identify.atomic_write_power_fail", &raw.atomic_write_power_fail)?;
    Checker::source("identify.arbitration_burst_log2", &raw.arbitration_burst_log2)?;
    Checker::source("identify.transfer_max_log2", &raw.transfer_max_log2)?;
    if !(1..=8).contains(&raw.transfer_max_log2.value) {
        let (given, hint) = (raw.transfer_max_log2.value, "5 is 128 KiB");
        return Err(Checker::out("identify.transfer_max_log2", given, "from 1 to 8", hint));
    }
    Checker::source("identify.aborts_max", &raw.aborts_max)?;
    Checker::source("identify.events_max", &raw.events_max)?;
    Checker::source("identify.error_entries", &raw.error_entries)?;
    if raw.power_states.len() > POWER_STATES_MAX {
        let given = raw.power_states.len();
        return Err(Checker::out("identify.power_states", given, "at most 32", "leave some out"));
    }
    let mut power_states = Vec::new();
    for (i, state) in raw.power_states.iter().enumerate() {
        let whole = |key: &str, number, high| {
            let field = format!("identify.power_states.{i}.{key}");
            Checker::float(&field, number, 0.0, high).map(|value| value.round() as u32)
        };
        Checker::source(&format!("identify.power_states.{i}.operational"), &state.operational)?;
        power_states.push(PowerState {
            max_mw: whole("max_mw", &state.max_mw, 655_350.0)?,
            entry_us: whole("entry_us", &state.entry_us, 4e9)?,
            exit_us: whole("exit_us", &state.exit_us, 4e9)?,
            operational: state.operational.value,
        });
    }
    Ok(Some(Identify {
        model,
        firmware,
        pci: [raw.vendor.value, raw.device.value],
        oui,
        arbitration_burst_log2: raw.arbitration_burst_log2.value,
        transfer_max_log2: raw.transfer_max_log2.value,
        atomic_write: [raw.atomic_write.value, raw.atomic_write_power_fail.value],
        aborts_max: raw.aborts_max.value,
        events_max: raw.events_max.value,
        error_entries: raw.error_entries.value,
        power_states,
    }))
}
