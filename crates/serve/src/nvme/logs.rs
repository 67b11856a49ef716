//! Log pages, from the model's health and the subsystem's records.

use drivebay_drive::Health;
use drivebay_units::Nanos;
use drivebay_wire::nvme::{
    AdminOpcode, CommandEffects, CriticalWarning, EFFECT_CHANGES_DATA, EFFECT_CHANGES_NAMESPACES,
    EFFECT_EXCLUSIVE, EFFECT_SUPPORTED, FirmwareSlots, NvmOpcode, PaceLog, SanitizeStatus,
    SmartLog, padded,
};
use zerocopy::IntoBytes;

use super::features::Features;
use super::identity::{Kind, kelvin};
use super::subsystem::Subsystem;
use crate::drive::Drive;
use crate::report::Report;

/// Spare blocks below which the drive warns, per cent. guess: usual.
const SPARE_THRESHOLD: u8 = 10;
const MINUTE_NS: u64 = 60_000_000_000;

/// The critical warning of SMART / Health Information.
pub(super) fn warning(drive: &mut dyn Drive, features: &Features) -> u8 {
    let health = drive.health();
    let bits = [
        (features.is_beyond(kelvin(health.temperature_c)), CriticalWarning::TEMPERATURE),
        (health.available_spare_percent < SPARE_THRESHOLD, CriticalWarning::SPARE),
        (drive.is_read_only(), CriticalWarning::READ_ONLY),
    ];
    bits.into_iter().filter(|&(is_set, _)| is_set).fold(0, |all, (_, bit)| all | bit)
}

/// SMART / Health Information. Where the profile rates no cycles, none are used.
pub(super) fn smart(health: &Health, warning: u8, errors: u64) -> Vec<u8> {
    let temperature_k = kelvin(health.temperature_c);
    let minutes = |time: Nanos| u32::try_from(time.0 / MINUTE_NS).unwrap_or(u32::MAX);
    let throttling = |stage: usize| health.throttling.get(stage).copied().unwrap_or_default();
    let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX).into();
    let wide = |count: u64| u128::from(count).into();
    let mut log = SmartLog {
        critical_warning: warning,
        temperature_k: temperature_k.into(),
        available_spare: health.available_spare_percent,
        spare_threshold: SPARE_THRESHOLD,
        percentage_used: health.percentage_used.unwrap_or(0),
        data_units_read: wide(health.data_units_read),
        data_units_written: wide(health.data_units_written),
        host_reads: wide(health.host_reads),
        host_writes: wide(health.host_writes),
        busy_minutes: wide(health.busy.0 / MINUTE_NS),
        power_cycles: wide(health.power_cycles),
        power_on_hours: wide(health.power_on.0 / (60 * MINUTE_NS)),
        unsafe_shutdowns: wide(health.unsafe_shutdowns),
        media_errors: wide(health.media_errors),
        error_entries: wide(errors),
        warning_minutes: minutes(health.warning_time).into(),
        critical_minutes: minutes(health.critical_time).into(),
        throttle_count: [0, 1].map(|stage| narrow(throttling(stage).0)),
        throttle_seconds: [0, 1].map(|stage| narrow(throttling(stage).1.0 / 1_000_000_000)),
        ..SmartLog::default()
    };
    if health.node_temperatures_c.len() > 1 {
        for ((_, celsius), place) in health.node_temperatures_c.iter().zip(&mut log.sensors_k) {
            *place = kelvin(*celsius).into();
        }
    }
    log.as_bytes().to_vec()
}

/// Error Information: all entries, empty ones as zeros.
pub(super) fn errors(subsystem: &Subsystem) -> Vec<u8> {
    let places = usize::from(subsystem.identity.own.error_entries) + 1;
    let mut page: Vec<u8> = Vec::with_capacity(64 * places);
    for entry in &subsystem.errors {
        page.extend_from_slice(entry.as_bytes());
    }
    page.resize(64 * places, 0);
    page
}

/// Firmware Slot Information: one slot.
pub(super) fn firmware(revision: &str) -> Vec<u8> {
    let mut log = FirmwareSlots { active: 1, ..FirmwareSlots::default() };
    log.revisions[0] = padded(revision);
    log.as_bytes().to_vec()
}

/// Commands Supported and Effects.
pub(super) fn commands(kind: Kind) -> Vec<u8> {
    let mut log = CommandEffects::default();
    for &opcode in AdminOpcode::ALL {
        use AdminOpcode as A;
        let is_pci = matches!(opcode, A::CreateSq | A::DeleteSq | A::CreateCq | A::DeleteCq);
        let is_fabrics = opcode == A::KeepAlive;
        if (is_pci && kind != Kind::Pci) || (is_fabrics && kind == Kind::Pci) {
            continue;
        }
        let effects = match opcode {
            A::Format | A::Sanitize => EFFECT_CHANGES_DATA | EFFECT_EXCLUSIVE,
            A::NamespaceManagement | A::NamespaceAttachment => EFFECT_CHANGES_NAMESPACES,
            _ => 0,
        };
        log.admin[opcode as usize] = (EFFECT_SUPPORTED | effects).into();
    }
    for &opcode in NvmOpcode::ALL {
        use NvmOpcode as N;
        let changes = matches!(opcode, N::Write | N::WriteZeroes | N::DatasetManagement);
        let effects = if changes { EFFECT_CHANGES_DATA } else { 0 };
        log.io[opcode as usize] = (EFFECT_SUPPORTED | effects).into();
    }
    log.as_bytes().to_vec()
}

/// The drive's clock, and whether the host keeps up with it: vendor specific.
pub(super) fn pace(report: &Report) -> Vec<u8> {
    let log = PaceLog {
        clock_ns: ((report.drive_s * 1e9) as u64).into(),
        rate_ppm: ((report.time_scale * 1e6).round() as u64).into(),
        kept_up: ((report.lateness.kept_up_percent.unwrap_or(0.0) * 100.0) as u16).into(),
        ..PaceLog::default()
    };
    log.as_bytes().to_vec()
}

/// Sanitize Status: never, or done.
pub(super) fn sanitize(last: Option<u32>) -> Vec<u8> {
    let log = SanitizeStatus {
        progress: 0xffff.into(),
        status: u16::from(last.is_some()).into(),
        cdw10: last.unwrap_or(0).into(),
        estimated_seconds: [u32::MAX.into(); 3],
        estimated_seconds_kept: [u32::MAX.into(); 3],
        ..SanitizeStatus::default()
    };
    log.as_bytes().to_vec()
}
