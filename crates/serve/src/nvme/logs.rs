//! Log pages, from the model's health and the subsystem's records.

use drivebay_drive::{Health, Sanitize};
use drivebay_units::Nanos;
use drivebay_wire::nvme::{
    AdminOpcode, COMMAND_SET_ZONED, CommandEffects, EFFECT_CHANGES_CAPABILITY, EFFECT_CHANGES_DATA,
    EFFECT_CHANGES_NAMESPACES, EFFECT_EXCLUSIVE, EFFECT_SUPPORTED, Feature, FirmwareSlots, LogPage,
    NvmOpcode, PaceLog, PersistentHeader, PersistentKind, SCOPE_CONTROLLER, SCOPE_NAMESPACE,
    SCOPE_SUBSYSTEM, SanitizeStatus, SmartLog, bytes_of, ocp_trailer, padded, padded_nqn,
};
use zerocopy::IntoBytes;

use super::features::Features;
use super::identity::{Identity, Kind, kelvin};
use super::records::{Firmware, Sanitization, hours};
use super::reservations::{Access, is_reservation};
use super::subsystem::Subsystem;
use super::{placement, zones};
use crate::interface::drive::Drive;
use crate::interface::report::{Report, SPARE_THRESHOLD, critical_warning};
use crate::namespace::Namespace;

const MINUTE_NS: u64 = 60_000_000_000;

/// Critical warning of SMART / Health Information.
pub(super) fn warning(drive: &mut dyn Drive, features: &Features) -> u8 {
    let health = drive.health();
    let is_hot = features.is_beyond(kelvin(health.temperature_c));
    critical_warning(&health, is_hot, drive.is_read_only())
}

/// SMART / Health Information. Without rated cycles in the profile the percentage used is 0.
pub(super) fn smart(health: &Health, warning: u8, errors: u64) -> SmartLog {
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
    log
}

/// SMART / Health Information of a namespace: its own traffic, and the drive's values for all other
/// fields.
pub(super) fn smart_of(namespace: &Namespace, of_drive: SmartLog) -> SmartLog {
    let [reads, writes, sectors_read, sectors_written] = namespace.traffic();
    // Units of a thousand sectors, rounded up.
    let units = |sectors: u64| u128::from(sectors.div_ceil(1000)).into();
    SmartLog {
        data_units_read: units(sectors_read),
        data_units_written: units(sectors_written),
        host_reads: u128::from(reads).into(),
        host_writes: u128::from(writes).into(),
        ..of_drive
    }
}

/// Error Information: all entries, empty ones as zeros.
pub(super) fn errors(subsystem: &Subsystem) -> Vec<u8> {
    let places = usize::from(subsystem.identity.own.error_entries) + 1;
    let mut page: Vec<u8> = Vec::with_capacity(64 * places);
    for entry in &subsystem.records.errors {
        page.extend_from_slice(entry.as_bytes());
    }
    page.resize(64 * places, 0);
    page
}

/// Firmware Slot Information.
pub(super) fn firmware(firmware: &Firmware) -> Vec<u8> {
    let active = firmware.active | firmware.next << 4;
    let mut log = FirmwareSlots { active, ..FirmwareSlots::default() };
    for (revision, slot) in log.revisions.iter_mut().zip(&firmware.slots) {
        *revision = slot.unwrap_or_default();
    }
    bytes_of(&log)
}

/// Supported Log Pages of this kind of controller; any offset may be used.
pub(super) fn supported(kind: Kind, identity: &Identity) -> Vec<u8> {
    let mut page = vec![0; 1024];
    for &log in LogPage::ALL.iter().filter(|&&log| is_of(log, kind, identity)) {
        page[4 * log as usize] = 1;
    }
    page
}

/// True if a kind of controller has this page.
pub(super) fn is_of(page: LogPage, kind: Kind, identity: &Identity) -> bool {
    match page {
        LogPage::Supported | LogPage::Errors | LogPage::Commands | LogPage::Features => true,
        LogPage::Discovery => kind == Kind::Discovery,
        _ if kind == Kind::Discovery => false,
        LogPage::ReservationNotification => kind == Kind::Tcp,
        LogPage::AsymmetricAccess => identity.has_paths(kind),
        LogPage::ChangedZones => identity.zones.is_some(),
        _ if ocp_trailer(page).is_some() => identity.own.ocp,
        _ if placement::is_of_group(page) => identity.placement.is_some(),
        _ => true,
    }
}

/// Feature Identifiers Supported and Effects.
pub(super) fn features(kind: Kind, identity: &Identity) -> Vec<u8> {
    let mut page = vec![0; 1024];
    for &feature in Feature::ALL.iter().filter(|&&feature| has_feature(kind, feature, identity)) {
        let at = 4 * feature as usize;
        let effects = feature.shape().effects | EFFECT_SUPPORTED;
        page[at..at + 4].copy_from_slice(&effects.to_le_bytes());
    }
    page
}

/// True if a kind of controller has this feature. Those of interrupts have no meaning over TCP, but
/// tools ask for all features that are mandatory over PCIe.
pub(super) fn has_feature(kind: Kind, feature: Feature, identity: &Identity) -> bool {
    use Feature as F;
    match kind {
        Kind::Discovery => {
            matches!(feature, F::KeepAliveTimer | F::AsyncEvents | F::HostIdentifier)
        }
        _ if matches!(feature, F::Placement | F::PlacementEvents) => identity.placement.is_some(),
        _ if feature as u8 >= F::OcpErrorInjection as u8 => identity.own.ocp,
        Kind::Tcp => true,
        Kind::Pci => {
            !matches!(feature, F::KeepAliveTimer | F::ReservationMask | F::ReservationPersistence)
        }
    }
}

/// Header of the persistent event log, and its events, newest first.
pub(super) fn persistent(subsystem: &Subsystem, health: &Health, timestamp: u64) -> Vec<u8> {
    let Identity { own, drive, .. } = &subsystem.identity;
    let (events, bytes) = subsystem.records.events.bytes();
    let mut header = PersistentHeader {
        page: LogPage::PersistentEvents as u8,
        events: events.into(),
        bytes: ((size_of::<PersistentHeader>() + bytes.len()) as u64).into(),
        revision: 3,
        header_bytes: (size_of::<PersistentHeader>() as u16 - 20).into(),
        timestamp: timestamp.into(),
        power_on_hours: u128::from(hours(health.power_on)).into(),
        power_cycles: health.power_cycles.into(),
        vid: own.pci[0].into(),
        ssvid: own.pci[0].into(),
        sn: padded(&drive.serial),
        mn: padded(&own.model),
        subnqn: padded_nqn(&drive.nqn),
        generation: subsystem.records.events.generation.into(),
        ..PersistentHeader::default()
    };
    for &kind in PersistentKind::ALL {
        header.supported[kind as usize / 8] |= 1 << (kind as usize % 8);
    }
    [header.as_bytes(), &bytes].concat()
}

/// True if a kind of controller has this admin command.
pub(super) fn has_admin_command(kind: Kind, opcode: AdminOpcode, identity: &Identity) -> bool {
    use AdminOpcode as A;
    match opcode {
        A::GetLogPage | A::Identify | A::GetFeatures | A::SetFeatures | A::AsyncEvent => true,
        A::CreateSq | A::DeleteSq | A::CreateCq | A::DeleteCq => kind == Kind::Pci,
        A::KeepAlive => kind != Kind::Pci,
        A::DirectiveSend | A::DirectiveReceive if identity.placement.is_none() => false,
        _ => kind != Kind::Discovery,
    }
}

/// True if a kind of controller has this I/O command, in this command set.
fn has_io_command(kind: Kind, opcode: NvmOpcode, identity: &Identity, command_set: u8) -> bool {
    use NvmOpcode as N;
    let is_zoned = command_set == COMMAND_SET_ZONED;
    let has_set = kind != Kind::Discovery && (!is_zoned || identity.zones.is_some());
    has_set
        && zones::has_command(opcode, is_zoned)
        && match opcode {
            N::IoManagementReceive | N::IoManagementSend => identity.placement.is_some(),
            _ => kind == Kind::Tcp || !is_reservation(opcode),
        }
}

/// Commands Supported and Effects, with the I/O commands of this command set.
pub(super) fn commands(kind: Kind, identity: &Identity, command_set: u8) -> Vec<u8> {
    let mut log = CommandEffects::default();
    let admin = AdminOpcode::ALL.iter().filter(|&&one| has_admin_command(kind, one, identity));
    for &opcode in admin {
        use AdminOpcode as A;
        let effects = match opcode {
            A::Format => {
                let capability = EFFECT_CHANGES_CAPABILITY | EFFECT_EXCLUSIVE;
                SCOPE_NAMESPACE | EFFECT_CHANGES_DATA | capability
            }
            A::Sanitize => SCOPE_SUBSYSTEM | EFFECT_CHANGES_DATA | EFFECT_EXCLUSIVE,
            A::NamespaceManagement => SCOPE_SUBSYSTEM | EFFECT_CHANGES_NAMESPACES,
            A::NamespaceAttachment => SCOPE_NAMESPACE | EFFECT_CHANGES_NAMESPACES,
            A::DirectiveSend | A::DirectiveReceive => SCOPE_NAMESPACE,
            A::FirmwareDownload | A::FirmwareCommit => SCOPE_SUBSYSTEM,
            _ => SCOPE_CONTROLLER,
        };
        log.admin[opcode as usize] = (EFFECT_SUPPORTED | effects).into();
    }
    let has = |opcode| has_io_command(kind, opcode, identity, command_set);
    for &opcode in NvmOpcode::ALL.iter().filter(|&&opcode| has(opcode)) {
        use NvmOpcode as N;
        let changes = Access::from_opcode(opcode) == Some(Access::Write)
            && !matches!(opcode, N::Flush | N::IoManagementSend);
        let effects = if changes { EFFECT_CHANGES_DATA } else { 0 };
        log.io[opcode as usize] = (EFFECT_SUPPORTED | SCOPE_NAMESPACE | effects).into();
    }
    bytes_of(&log)
}

/// Vendor-specific log: the drive's clock, and how well the host keeps up with it.
pub(super) fn pace(report: &Report) -> Vec<u8> {
    bytes_of(&PaceLog {
        clock_ns: ((report.drive_s * 1e9) as u64).into(),
        rate_ppm: ((report.time_scale * 1e6).round() as u64).into(),
        kept_up: ((report.lateness.kept_up_percent.unwrap_or(0.0) * 100.0) as u16).into(),
        ..PaceLog::default()
    })
}

/// Sanitize Status.
pub(super) fn sanitize(
    last: Option<Sanitization>,
    identity: &Identity,
    drive: &dyn Drive,
) -> Vec<u8> {
    let now = drive.now();
    let seconds = |how| match drive.erase_time(how) {
        Some(time) => u32::try_from(time.0.div_ceil(1_000_000_000)).unwrap_or(u32::MAX),
        None => u32::MAX,
    };
    let overwrite = if identity.overwrites { seconds(Sanitize::Overwrite(16)) } else { u32::MAX };
    let estimated = [overwrite, seconds(Sanitize::Block), seconds(Sanitize::Crypto)];
    let kept = if identity.may_keep_blocks() { estimated } else { [u32::MAX; 3] };
    bytes_of(&SanitizeStatus {
        progress: last.map_or(u16::MAX, |operation| operation.progress(now)).into(),
        status: last.map_or(0, |operation| operation.status(now)).into(),
        cdw10: last.map_or(0, |operation| operation.cdw10).into(),
        estimated_seconds: estimated.map(Into::into),
        estimated_seconds_kept: kept.map(Into::into),
        ..SanitizeStatus::default()
    })
}
