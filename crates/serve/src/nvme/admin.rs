//! Admin command set.
//!
//! Source: NVM Express base specification 2.0, section 5. The caller of [`Subsystem::admin`] adds a
//! failed command to the error log; `pci/` creates the queues of PCIe.

use std::ops::Range;
use std::sync::atomic::Ordering;

use drivebay_drive::Sanitize;
use drivebay_units::Nanos;
use drivebay_wire::nvme::{
    AdminOpcode, COMMAND_SET_NVM, COMMAND_SET_ZONED, CONTROLLER_LIST_MAX, Cns, CriticalWarning,
    FabricsType, Feature, LogPage, NAMESPACE_CREATE, OPCODE_FABRICS, PersistentKind, Sqe, Status,
    ocp_trailer,
};
use zerocopy::IntoBytes;

use super::controller::Controller;
use super::events::{Event, TELEMETRY_NOTICES};
use super::identity::{Kind, NSID_ALL, SELF_TEST_MINUTES, kelvin};
use super::io::{Transfer, active, is_valid};
use super::placement::GROUP;
use super::records::{
    ABORTED_BY_COMMAND, ABORTED_BY_FORMAT, ABORTED_BY_RESET, ABORTED_BY_SANITIZE, EXTENDED,
    Firmware, SHORT, SLOTS, Sanitization, telemetry_page,
};
use super::reservations::{Access, Reservations};
use super::subsystem::{Subsystem, status_of};
use super::{features, logs, ocp, placement, placement_logs, zones};
use crate::interface::drive::Drive;
use crate::lock::lock;

/// Time of the short self-test. guess: the specification allows two minutes.
const SHORT_SELF_TEST: Nanos = Nanos::secs(60);
/// Largest firmware image, bytes. guess: the size of real ones.
const IMAGE_MAX: usize = 4 << 20;

/// Outcome of an admin command.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Success: dword 0 of the completion, and data for the host.
    Success(u32, Vec<u8>),
    /// The command waits for an event, or for the end of its operation.
    Held,
    /// A command of an I/O queue must be aborted.
    Abort {
        /// Submission queue of the command.
        queue: u16,
        /// Command identifier.
        cid: u16,
    },
    /// A fabrics or queue command, which the transport executes.
    Transport,
}

pub(super) type Answer = Result<Outcome, Status>;

/// Dword 0 of an Abort command's completion: the command was not aborted.
pub(super) const NOT_ABORTED: u32 = 1;

/// Bytes that an admin command transfers, according to its own fields.
pub(super) fn transfer(sqe: &Sqe) -> Transfer {
    let to_host = |bytes: u64| Transfer::ToHost(u32::try_from(bytes).unwrap_or(u32::MAX));
    if sqe.opcode == OPCODE_FABRICS {
        return match FabricsType::from_sqe(sqe) {
            FabricsType::Connect { .. } => Transfer::FromHost(1024),
            FabricsType::AuthenticationSend { bytes, .. } => Transfer::FromHost(bytes),
            FabricsType::AuthenticationReceive { bytes, .. } => to_host(bytes.into()),
            _ => Transfer::None,
        };
    }
    match AdminOpcode::from_code(sqe.opcode) {
        Some(AdminOpcode::Identify) => to_host(4096),
        Some(AdminOpcode::GetLogPage) => to_host(sqe.log_bytes()),
        Some(AdminOpcode::GetFeatures) => match features::data_bytes(sqe) {
            0 => Transfer::None,
            bytes => to_host(bytes.into()),
        },
        Some(AdminOpcode::SetFeatures) => match features::data_bytes(sqe) {
            0 => Transfer::None,
            bytes => Transfer::FromHost(bytes),
        },
        Some(AdminOpcode::NamespaceManagement) if sqe.cdw10.get() & 0xf == NAMESPACE_CREATE => {
            Transfer::FromHost(4096)
        }
        Some(AdminOpcode::NamespaceAttachment) => Transfer::FromHost(4096),
        // Number of dwords minus one.
        Some(AdminOpcode::DirectiveReceive) => to_host((u64::from(sqe.cdw10.get()) + 1) * 4),
        // Number of dwords minus one.
        Some(AdminOpcode::FirmwareDownload) => {
            Transfer::FromHost(sqe.cdw10.get().saturating_add(1).saturating_mul(4))
        }
        _ => Transfer::None,
    }
}

impl Subsystem {
    /// Executes an admin command of controller `id`, with `data` from the host.
    pub(super) fn admin(
        &mut self,
        id: u16,
        drive: &mut dyn Drive,
        sqe: &Sqe,
        data: &[u8],
    ) -> Answer {
        let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
        let kind = controller.kind;
        if kind != Kind::Discovery {
            controller.check_namespaces(drive);
        }
        let Some(opcode) = AdminOpcode::from_code(sqe.opcode) else {
            let fabrics = sqe.opcode == OPCODE_FABRICS && kind != Kind::Pci;
            return if fabrics { Ok(Outcome::Transport) } else { invalid_opcode() };
        };
        use AdminOpcode as A;
        let now = drive.now();
        if self.is_sanitizing(now) && !goes_on_beside_sanitize(opcode) {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        self.refuse_reserved(id, drive, opcode, sqe)?;
        match (opcode, kind) {
            (A::CreateSq | A::DeleteSq | A::CreateCq | A::DeleteCq, Kind::Pci) => {
                Ok(Outcome::Transport)
            }
            (A::GetLogPage, _) => self.log_page(id, kind, drive, sqe),
            (A::Identify, _) => self.identify(id, kind, drive, sqe),
            (A::GetFeatures, _) => self.get_feature(id, kind, drive, sqe),
            (A::SetFeatures, _) => self.set_feature(id, kind, drive, sqe, data),
            (A::AsyncEvent, _) => {
                let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
                controller.events.request(sqe.cid.get())?;
                Ok(Outcome::Held)
            }
            (A::KeepAlive, Kind::Tcp | Kind::Discovery) => done(),
            (_, Kind::Discovery) => invalid_opcode(),
            (A::Abort, _) => self.abort(id, sqe),
            (A::DirectiveSend | A::DirectiveReceive, _) if self.identity.placement.is_some() => {
                let controller = self.get(id).ok_or(Status::INTERNAL_ERROR)?;
                active(sqe.nsid.get(), drive, &controller.flags)?;
                let most = u64::from(self.identity.transfer_bytes_max());
                let bytes = (u64::from(sqe.cdw10.get()) + 1) * 4;
                let page = placement::directive(sqe, drive, bytes.min(most) as usize)?;
                Ok(Outcome::Success(0, page))
            }
            (A::NamespaceManagement, _) => {
                let answer = self.manage_namespaces(drive, sqe, data);
                if let Ok(Outcome::Success(nsid, _)) = &answer {
                    let changed = namespace_change(sqe, data, *nsid);
                    self.note(id, PersistentKind::NamespaceChange, now, &changed);
                }
                answer
            }
            (A::NamespaceAttachment, _) => self.attach_namespace(drive, sqe, data),
            (A::Format, _) => self.format(id, drive, sqe),
            (A::Sanitize, _) => self.sanitize(id, drive, sqe),
            (A::DeviceSelfTest, _) => self.self_test(drive, sqe),
            (A::FirmwareDownload, _) => self.download(sqe, data),
            (A::FirmwareCommit, _) => self.commit(id, now, sqe),
            _ => invalid_opcode(),
        }
    }

    /// Raises the events caused by the drive's health, its namespaces and its running operations.
    pub(super) fn poll_events(&mut self, id: u16, drive: &mut dyn Drive) {
        let (now, is_healthy) = (drive.now(), !drive.is_read_only());
        self.records.self_tests.settle(now, is_healthy);
        self.end_sanitize(id, drive);
        let Some(controller) = self.get_mut(id) else { return };
        if controller.kind == Kind::Discovery {
            return;
        }
        controller.complete_slow(now);
        controller.check_namespaces(drive);
        controller.check_zones(drive.zones());
        let reservations = &controller.flags.reservations;
        if reservations.with(drive.power_cuts(), |all| all.has_news(id)) {
            controller.events.raise(Event::Reservations);
        }
        let warning = logs::warning(drive, &controller.features);
        let enabled = controller.features[Feature::AsyncEvents];
        let changed = controller.events.warn(warning, enabled as u8);
        let threshold = controller.features.threshold_k();
        if changed & warning & CriticalWarning::READ_ONLY != 0 {
            if enabled & TELEMETRY_NOTICES != 0 {
                controller.events.raise(Event::Telemetry);
            }
            let data = telemetry(drive);
            self.records.telemetry[1].take("The drive refuses to be written", data);
        }
        let celsius = drive.health().temperature_c;
        if changed & CriticalWarning::TEMPERATURE != 0 {
            // Excess over the threshold, and the kind of threshold.
            let over = kelvin(celsius).saturating_sub(threshold).min(255) as u8;
            self.note(id, PersistentKind::Thermal, now, &[over, 1]);
        }
        lock(&self.placement).look_at(&drive.handle_use(), now);
        let most = &mut self.records.temperature_max_c;
        *most = most.max(celsius);
    }

    /// Adds an event to the persistent event log.
    fn note(&mut self, id: u16, kind: PersistentKind, now: Nanos, data: &[u8]) {
        let timestamp = self.records.timestamp.value(now);
        self.records.events.add(kind, id, timestamp, data);
    }

    /// Records that a controller is enabled.
    pub(super) fn note_reset(&mut self, id: u16, drive: &mut dyn Drive) {
        let (now, health) = (drive.now(), drive.health());
        self.records.self_tests.end(&[SHORT], ABORTED_BY_RESET, now);
        self.activate_firmware();
        let mut data = self.records.firmware.revision().to_vec();
        let mut reset = [0; 36];
        reset[..2].copy_from_slice(&id.to_le_bytes());
        reset[16..20].copy_from_slice(&(health.power_cycles as u32).to_le_bytes());
        reset[20..28].copy_from_slice(&(health.power_on.0 / 1_000_000).to_le_bytes());
        reset[28..].copy_from_slice(&self.records.timestamp.value(now).to_le_bytes());
        data.extend_from_slice(&reset);
        self.note(id, PersistentKind::Reset, now, &data);
    }

    fn get_feature(&self, id: u16, kind: Kind, drive: &dyn Drive, sqe: &Sqe) -> Answer {
        let controller = self.get(id).ok_or(Status::INTERNAL_ERROR)?;
        let feature = self.feature_of(kind, sqe)?;
        let (mut value, mut data) = controller.features.get(sqe, &self.identity)?;
        match feature {
            Feature::Timestamp if !data.is_empty() => {
                data = self.records.timestamp.value(drive.now()).to_le_bytes().to_vec();
            }
            Feature::Placement if !placement::names_group(sqe) => {
                return Err(Status::INVALID_FIELD.dnr());
            }
            Feature::ReservationPersistence => {
                let nsid = self.reserved_namespace(drive, sqe)?;
                let persists = |all: &mut Reservations| all.persist(nsid);
                value = self.reservations.with(drive.power_cuts(), persists).into();
            }
            // This feature has only a current value, which is also saved.
            Feature::Placement if value == 0 => value = drive.is_placed().into(),
            Feature::PlacementEvents if !data.is_empty() => {
                let handle = placement::handle_of_feature(sqe, drive)?;
                let kinds = controller.flags.placement().get(handle, data.len() / 2);
                data[..kinds.len()].copy_from_slice(&kinds);
                value = kinds.len() as u32 / 2;
            }
            _ => {}
        }
        Ok(Outcome::Success(value, data))
    }

    fn set_feature(
        &mut self,
        id: u16,
        kind: Kind,
        drive: &mut dyn Drive,
        sqe: &Sqe,
        data: &[u8],
    ) -> Answer {
        let (feature, now) = (self.feature_of(kind, sqe)?, drive.now());
        let data = data.get(..features::data_bytes(sqe) as usize);
        let data = data.ok_or(Status::SGL_LENGTH_INVALID.dnr())?;
        match feature {
            Feature::OcpLatencyMonitor => ocp::set_latency_monitor(drive, data)?,
            Feature::OcpErrorInjection => ocp::inject(drive, data)?,
            Feature::Placement => placement_logs::switch(sqe, drive)?,
            Feature::ReservationPersistence => {
                let nsid = self.reserved_namespace(drive, sqe)?;
                let persists = sqe.cdw11.get() & 1 != 0;
                let cuts = drive.power_cuts();
                self.reservations.with(cuts, |all| all.set_persist(nsid, persists));
            }
            Feature::ReservationMask => {
                let mask = sqe.cdw11.get();
                self.reservations.with(drive.power_cuts(), |all| all.set_mask(id, mask));
            }
            Feature::PlacementEvents => {
                let handle = placement::handle_of_feature(sqe, drive)?;
                lock(&self.placement).set(sqe, handle, data)?;
            }
            _ => {}
        }
        let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
        let result = controller.features.set(sqe, data)?;
        controller.publish_features();
        if let (Feature::Timestamp, Some(ms)) = (feature, data.first_chunk()) {
            let before = self.records.timestamp.value(now);
            self.records.timestamp.set(u64::from_le_bytes(*ms), now);
            let change = [before, now.0 / 1_000_000].map(u64::to_le_bytes).concat();
            self.note(id, PersistentKind::TimestampChange, now, &change);
        }
        // Dwords 10 to 12, and dword 0 of the completion.
        let dwords = [sqe.cdw10, sqe.cdw11, sqe.cdw12].map(|dword| dword.get());
        let layout = dwords.len() as u32 | 1 << 3;
        let event = [&[layout], &dwords[..], &[result]].concat();
        let event: Vec<u8> = event.into_iter().flat_map(u32::to_le_bytes).collect();
        self.note(id, PersistentKind::SetFeature, now, &event);
        Ok(Outcome::Success(result, Vec::new()))
    }

    /// Namespace of a reservation feature.
    fn reserved_namespace(&self, drive: &dyn Drive, sqe: &Sqe) -> Result<u32, Status> {
        let nsid = sqe.nsid.get();
        drive.namespace(nsid).map(|_| nsid).ok_or(Status::INVALID_NAMESPACE.dnr())
    }

    /// Refuses commands that would change data that another host has reserved.
    fn refuse_reserved(
        &self,
        id: u16,
        drive: &dyn Drive,
        opcode: AdminOpcode,
        sqe: &Sqe,
    ) -> Result<(), Status> {
        let changed = match opcode {
            AdminOpcode::Sanitize => drive.namespace_ids(),
            AdminOpcode::Format | AdminOpcode::NamespaceManagement => match sqe.nsid.get() {
                NSID_ALL => drive.namespace_ids(),
                nsid => vec![nsid],
            },
            _ => return Ok(()),
        };
        let cuts = drive.power_cuts();
        let is_kept = |nsid: u32| self.reservations.exclude(id, nsid, Access::Write, cuts);
        match changed.into_iter().any(is_kept) {
            true => Err(Status::RESERVATION_CONFLICT.dnr()),
            false => Ok(()),
        }
    }

    /// Feature of a command, if a controller of this kind has it.
    fn feature_of(&self, kind: Kind, sqe: &Sqe) -> Result<Feature, Status> {
        let feature = Feature::from_code(sqe.cdw10.get() as u8);
        let feature = feature.filter(|&feature| logs::has_feature(kind, feature, &self.identity));
        feature.ok_or(Status::INVALID_FIELD.dnr())
    }

    fn identify(&self, id: u16, kind: Kind, drive: &dyn Drive, sqe: &Sqe) -> Answer {
        let nsid = sqe.nsid.get();
        let invalid_field = Status::INVALID_FIELD.dnr();
        let from = (sqe.cdw10.get() >> 16) as u16;
        let cns = Cns::from_code(sqe.cdw10.get() as u8).ok_or(invalid_field)?;
        let zones = self.identity.zones.as_ref().filter(|_| sqe.command_set() == COMMAND_SET_ZONED);
        if sqe.command_set() != COMMAND_SET_NVM && (zones.is_none() || !is_of_command_set(cns)) {
            return Err(invalid_field);
        }
        let page = match cns {
            Cns::Controller => self.identity.controller(id, kind, drive),
            _ if kind == Kind::Discovery => return Err(invalid_field),
            Cns::Namespace if nsid == NSID_ALL => self.identity.any_namespace(kind),
            // Appends can be as long as other writes: a power of two of 4 KiB.
            Cns::CommandSetController if zones.is_some() => {
                page_of(&[self.identity.own.transfer_max_log2])
            }
            Cns::CommandSetController => self.identity.nvm_controller(),
            // Number of endurance groups, and their list.
            Cns::EnduranceGroups if self.identity.placement.is_some() => {
                let listed = (sqe.cdw11.get() as u16) <= GROUP;
                page_of(&[u8::from(listed), 0, GROUP as u8 * u8::from(listed), 0])
            }
            Cns::EnduranceGroups => return Err(invalid_field),
            // Combinations of command sets, one bit per set: there is one combination.
            Cns::CommandSets => page_of(&[1 << COMMAND_SET_NVM | 1 << self.identity.command_set()]),
            // The first entry is empty.
            Cns::Uuids => {
                let mut page = vec![0; 48];
                page.extend_from_slice(&ocp::UUID.to_be_bytes());
                page_of(&page)
            }
            cns @ (Cns::Namespace
            | Cns::NamespaceNames
            | Cns::AllocatedNamespace
            | Cns::CommandSetNamespace
            | Cns::CommandSetAllocatedNamespace
            | Cns::IndependentNamespace) => {
                if !is_valid(nsid) {
                    return Err(Status::INVALID_NAMESPACE.dnr());
                }
                let is_allocated =
                    matches!(cns, Cns::AllocatedNamespace | Cns::CommandSetAllocatedNamespace);
                let is_there = is_allocated || self.is_attached(id, nsid);
                match drive.namespace(nsid).filter(|_| is_there) {
                    Some(_) if cns == Cns::NamespaceNames => self.identity.namespace_names(nsid),
                    Some(_) if is_of_command_set(cns) => match zones {
                        Some(zones) => zones::identify(zones),
                        // Metadata and its protection, which are not supported.
                        None => vec![0; 4096],
                    },
                    Some(namespace) if cns == Cns::IndependentNamespace => {
                        self.identity.independent(kind, namespace)
                    }
                    Some(namespace) => self.identity.namespace(kind, drive, nsid, namespace),
                    None if cns == Cns::NamespaceNames => return Err(invalid_field),
                    // A missing namespace has no fields.
                    None => vec![0; 4096],
                }
            }
            cns @ (Cns::ActiveNamespaces
            | Cns::AllocatedNamespaces
            | Cns::CommandSetNamespaces
            | Cns::CommandSetAllocatedNamespaces) => {
                if nsid >= 0xffff_fffe {
                    return Err(Status::INVALID_NAMESPACE.dnr());
                }
                let all = drive.namespace_ids().into_iter();
                let is_any =
                    matches!(cns, Cns::AllocatedNamespaces | Cns::CommandSetAllocatedNamespaces);
                let is_wanted =
                    !is_of_command_set(cns) || sqe.command_set() == self.identity.command_set();
                let is_listed = |number: u32| is_wanted && (is_any || self.is_attached(id, number));
                list(all.filter(|&number| number > nsid && is_listed(number)))
            }
            Cns::Controllers => controller_list(self.controllers_from(from)),
            Cns::AttachedControllers if !is_valid(nsid) => {
                return Err(Status::INVALID_NAMESPACE.dnr());
            }
            Cns::AttachedControllers => {
                let have_it = self.controllers_from(from);
                controller_list(
                    have_it.filter(|(_, controller)| controller.flags.is_attached(nsid)),
                )
            }
        };
        Ok(Outcome::Success(0, page))
    }

    fn is_attached(&self, id: u16, nsid: u32) -> bool {
        self.get(id).is_some_and(|controller| controller.flags.is_attached(nsid))
    }

    fn log_page(&mut self, id: u16, kind: Kind, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        let (bytes, offset) = (sqe.log_bytes(), sqe.log_offset());
        if bytes > u64::from(self.identity.transfer_bytes_max()) || !offset.is_multiple_of(4) {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let controller = self.get(id).ok_or(Status::INTERNAL_ERROR)?;
        let log = LogPage::from_code(sqe.cdw10.get() as u8)
            .filter(|&log| logs::is_of(log, kind, &self.identity));
        let log = log.ok_or(Status::INVALID_LOG_PAGE.dnr())?;
        let uuids = if ocp_trailer(log).is_some() { 0..=1 } else { 0..=0 };
        let is_of_set = match sqe.command_set() {
            COMMAND_SET_NVM => log != LogPage::ChangedZones,
            // Tools ask for its commands wherever a host may enable several command sets.
            COMMAND_SET_ZONED => matches!(log, LogPage::Commands | LogPage::ChangedZones),
            _ => false,
        };
        if !uuids.contains(&sqe.uuid_index()) || !is_of_set {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let now = drive.now();
        let retain = sqe.cdw10.get() & 1 << 15 != 0;
        let page = match log {
            LogPage::Supported => logs::supported(kind, &self.identity),
            LogPage::Errors => logs::errors(self),
            LogPage::Smart => {
                let nsid = sqe.nsid.get();
                let warning = logs::warning(drive, &controller.features);
                let all = logs::smart(&drive.health(), warning, self.records.error_count);
                let log = match drive.namespace(nsid) {
                    _ if [0, NSID_ALL].contains(&nsid) => all,
                    Some(namespace) => logs::smart_of(namespace, all),
                    None => return Err(Status::INVALID_NAMESPACE.dnr()),
                };
                log.as_bytes().to_vec()
            }
            LogPage::FirmwareSlots => logs::firmware(&self.records.firmware),
            LogPage::ChangedNamespaces => list(controller.changed.iter().copied()),
            LogPage::Commands => logs::commands(kind, &self.identity, sqe.command_set()),
            LogPage::ChangedZones => {
                let namespace = drive.namespace(sqe.nsid.get());
                let namespace = namespace.ok_or(Status::INVALID_NAMESPACE.dnr())?;
                zones::changed(&controller.changed_zones, namespace)
            }
            LogPage::SelfTest => {
                let is_healthy = !drive.is_read_only();
                self.records.self_tests.settle(now, is_healthy);
                self.records.self_tests.page(now)
            }
            LogPage::TelemetryHost | LogPage::TelemetryController => {
                // Create: the host wants a new capture of the current state.
                if log == LogPage::TelemetryHost && sqe.log_specific() & 1 != 0 {
                    self.records.telemetry[0].take("A host asked", telemetry(drive));
                    let event = telemetry_page(&self.records.telemetry, log, self.identity.own.oui);
                    self.note(id, PersistentKind::Telemetry, now, &event[..512]);
                }
                telemetry_page(&self.records.telemetry, log, self.identity.own.oui)
            }
            LogPage::PersistentEvents => match self.persistent_events(id, drive, sqe)? {
                Some(page) => page,
                None => return done(),
            },
            LogPage::Features => logs::features(kind, &self.identity),
            // No commands are supported over this interface.
            LogPage::ManagementCommands => vec![0; 1024],
            LogPage::EnduranceGroup
            | LogPage::PlacementConfigurations
            | LogPage::PlacementUsage
            | LogPage::PlacementStatistics
            | LogPage::PlacementEvents => {
                let events = &mut lock(&self.placement);
                let kept = (&mut **events, self.records.error_count, &self.records.timestamp);
                placement_logs::page(log, sqe, drive, &self.identity, kept)?
            }
            LogPage::Sanitize => logs::sanitize(self.records.sanitize, &self.identity, drive),
            LogPage::ReservationNotification => {
                let notice = |all: &mut Reservations| all.notification(id, !retain);
                self.reservations.with(drive.power_cuts(), notice).as_bytes().to_vec()
            }
            LogPage::OcpSmart
            | LogPage::OcpErrorRecovery
            | LogPage::OcpLatency
            | LogPage::OcpCapabilities
            | LogPage::OcpUnsupported => {
                let most = self.records.temperature_max_c.max(drive.health().temperature_c);
                ocp::page(log, drive, &self.identity, most)
            }
            LogPage::Pace => logs::pace(&drive.report()),
            LogPage::Discovery => return Ok(Outcome::Transport),
        };
        if !retain {
            if log == LogPage::TelemetryController {
                self.records.telemetry[1].is_new = false;
            }
            if let Some(controller) = self.get_mut(id) {
                if log == LogPage::ChangedNamespaces {
                    controller.changed.clear();
                }
                if let (LogPage::ChangedZones, Some(namespace)) =
                    (log, drive.namespace(sqe.nsid.get()))
                {
                    controller.changed_zones.retain(|&zone| !zones::is_of(zone, namespace));
                }
                controller.events.page_read(log as u8);
            }
        }
        part_of_page(page, offset, bytes)
    }

    /// Returns the page as it was when the host began to read it; `None` if the host ends the
    /// reading.
    fn persistent_events(
        &mut self,
        id: u16,
        drive: &mut dyn Drive,
        sqe: &Sqe,
    ) -> Result<Option<Vec<u8>>, Status> {
        /// Action on the host's read context, in the lowest bits of LSP.
        const READ: u8 = 0;
        const BEGIN: u8 = 1;
        const END: u8 = 2;
        let is_begun = self.records.events.context.is_some();
        match sqe.log_specific() & 3 {
            READ if is_begun => {}
            BEGIN if !is_begun => {
                let (now, health) = (drive.now(), drive.health());
                let smart = logs::smart(&health, 0, self.records.error_count);
                self.note(id, PersistentKind::Health, now, smart.as_bytes());
                self.records.events.generation = self.records.events.generation.wrapping_add(1);
                let timestamp = self.records.timestamp.value(now);
                let page = logs::persistent(self, &health, timestamp);
                self.records.events.context = Some(page);
            }
            END => {
                self.records.events.context = None;
                return Ok(None);
            }
            READ | BEGIN => return Err(Status::COMMAND_SEQUENCE.dnr()),
            _ => return Err(Status::INVALID_FIELD.dnr()),
        }
        Ok(self.records.events.context.clone())
    }

    /// Aborts a command. In the admin queue only Asynchronous Event Requests can be aborted: others
    /// have completed.
    fn abort(&mut self, id: u16, sqe: &Sqe) -> Answer {
        let (queue, cid) = (sqe.cdw10.get() as u16, (sqe.cdw10.get() >> 16) as u16);
        if queue != 0 {
            return Ok(Outcome::Abort { queue, cid });
        }
        let aborted = self.get_mut(id).is_some_and(|c| c.events.abort(cid));
        Ok(Outcome::Success(NOT_ABORTED * u32::from(!aborted), Vec::new()))
    }

    fn format(&mut self, id: u16, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        let nsid = sqe.nsid.get();
        let (doomed, sectors, is_protected) = match nsid {
            NSID_ALL => (drive.namespace_ids(), 0..drive.sectors(), drive.any_is_read_only()),
            nsid => {
                let namespace = drive.namespace(nsid).ok_or(Status::INVALID_NAMESPACE.dnr())?;
                (vec![nsid], namespace.range(), namespace.is_read_only())
            }
        };
        let cdw10 = sqe.cdw10.get();
        let (format, protection, erase) = (cdw10 & 0xf, cdw10 >> 5 & 7, cdw10 >> 9 & 7);
        let shift = self.identity.block_shifts().get(format as usize);
        let shift = shift.ok_or(Status::INVALID_FORMAT.dnr())?;
        // Without a secure erase the blocks are deallocated, which this model treats as a
        // cryptographic erase.
        let how = match erase {
            0 | 2 => Sanitize::Crypto,
            1 => Sanitize::Block,
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        // Protection information and metadata are not supported.
        if protection != 0 || cdw10 & 1 << 4 != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let now = drive.now();
        let until = erase_part(drive, sectors, is_protected, how)?;
        self.records.self_tests.end(&[SHORT, EXTENDED], ABORTED_BY_FORMAT, now);
        for nsid in doomed {
            drive.format_namespace(nsid, *shift).map_err(|why| status_of(&why))?;
        }
        let bytes_of = |numbers: [u32; 3]| numbers.map(u32::to_le_bytes).concat();
        self.note(id, PersistentKind::FormatStart, now, &bytes_of([nsid, 1 << 2, cdw10]));
        self.note(id, PersistentKind::FormatCompletion, until, &bytes_of([nsid, 0, 0]));
        self.answer_at(id, until, drive, sqe)
    }

    /// Answers a command at `until`, at the earliest now.
    fn answer_at(&mut self, id: u16, until: Nanos, drive: &dyn Drive, sqe: &Sqe) -> Answer {
        if until <= drive.now() {
            return done();
        }
        let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
        controller.slow.push((until, sqe.cid.get()));
        Ok(Outcome::Held)
    }

    /// Sanitize. The last pass of an overwrite writes the pattern itself, even if it is inverted
    /// between passes.
    fn sanitize(&mut self, id: u16, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        const EXIT_FAILURE: u32 = 1;
        const BLOCK_ERASE: u32 = 2;
        const CRYPTO_ERASE: u32 = 4;
        /// The blocks stay allocated afterwards.
        const NO_DEALLOCATE: u32 = 1 << 9;
        let cdw10 = sqe.cdw10.get();
        let (how, pattern) = match (cdw10 & 7, Sanitization::passes(cdw10)) {
            (EXIT_FAILURE, _) => return done(),
            (BLOCK_ERASE, _) => (Sanitize::Block, 0),
            (CRYPTO_ERASE, _) => (Sanitize::Crypto, 0),
            (_, Some(passes)) if self.identity.overwrites => {
                (Sanitize::Overwrite(passes), sqe.cdw11.get())
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        let keeps = cdw10 & NO_DEALLOCATE != 0;
        if keeps && !self.identity.may_keep_blocks() {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let from = drive.now();
        let before = drive.handle_use();
        let (all, is_protected) = (0..drive.sectors(), drive.any_is_read_only());
        let (until, is_kept) = if keeps {
            refuse_protected(drive, is_protected)?;
            drive.overwrite(how, pattern).map_err(|_| Status::INTERNAL_ERROR)?
        } else {
            (erase_part(drive, all, is_protected, how)?, false)
        };
        let until = until.max(from);
        lock(&self.placement).note_modified(&before, &drive.handle_use(), until);
        self.records.self_tests.end(&[SHORT, EXTENDED], ABORTED_BY_SANITIZE, from);
        let cuts = drive.report().power_cuts;
        let is_deallocated = keeps && !is_kept;
        self.records.sanitize =
            Some(Sanitization { cdw10, from, until, is_told: false, is_deallocated, cuts });
        self.sanitizing_until.store(until.0, Ordering::Relaxed);
        let capabilities = self.identity.sanicap().to_le_bytes();
        let event = [capabilities, cdw10.to_le_bytes(), sqe.cdw11.get().to_le_bytes()].concat();
        self.note(id, PersistentKind::SanitizeStart, from, &event);
        self.end_sanitize(id, drive);
        done()
    }

    fn is_sanitizing(&self, now: Nanos) -> bool {
        self.records.sanitize.is_some_and(|operation| operation.goes_on(now))
    }

    /// Reports the end of a sanitize operation. An operation that a power cut has interrupted
    /// continues when the drive is ready again.
    fn end_sanitize(&mut self, id: u16, drive: &mut dyn Drive) {
        let Some(operation) = self.records.sanitize.as_mut().filter(|operation| !operation.is_told)
        else {
            return;
        };
        let (now, report) = (drive.now(), drive.report());
        if report.power_cuts > operation.cuts && operation.goes_on(now) {
            let paused = report.last_power_cut.map_or(0, |cut| cut.ready_after_ns);
            (operation.cuts, operation.until) =
                (report.power_cuts, operation.until.after(Nanos(paused)));
            self.sanitizing_until.store(operation.until.0, Ordering::Relaxed);
        }
        if operation.goes_on(now) {
            return;
        }
        operation.is_told = true;
        self.sanitizing_until.store(0, Ordering::Relaxed);
        let [low, high] = operation.status(now).to_le_bytes();
        let event = if operation.is_deallocated { Event::Deallocated } else { Event::Sanitized };
        // Progress of all, status, and no further information.
        self.note(
            id,
            PersistentKind::SanitizeCompletion,
            now,
            &[0xff, 0xff, low, high, 0, 0, 0, 0],
        );
        self.controllers_mut().for_each(|controller| controller.events.raise(event));
    }

    fn self_test(&mut self, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        const ABORT: u32 = 0xf;
        let (nsid, now, is_healthy) = (sqe.nsid.get(), drive.now(), !drive.is_read_only());
        let is_known = [0, NSID_ALL].contains(&nsid) || drive.namespace(nsid).is_some();
        if !is_known {
            return Err(Status::INVALID_NAMESPACE.dnr());
        }
        let tests = &mut self.records.self_tests;
        tests.settle(now, is_healthy);
        let takes = match sqe.cdw10.get() & 0xf {
            1 => SHORT_SELF_TEST,
            2 => Nanos::secs(60 * u64::from(SELF_TEST_MINUTES)),
            ABORT => {
                tests.end(&[SHORT, EXTENDED], ABORTED_BY_COMMAND, now);
                return done();
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        if tests.is_running() {
            return Err(Status::SELF_TEST_IN_PROGRESS.dnr());
        }
        tests.begin(sqe.cdw10.get() as u8 & 0xf, nsid, now, takes);
        done()
    }

    /// Firmware Image Download: the parts must come in order.
    fn download(&mut self, sqe: &Sqe, data: &[u8]) -> Answer {
        let image = &mut self.records.firmware.image;
        let offset = sqe.cdw11.get() as usize * 4;
        if offset == 0 {
            image.clear();
        }
        if offset != image.len() {
            return Err(Status::OVERLAPPING_RANGE.dnr());
        }
        if offset + data.len() > IMAGE_MAX {
            return Err(Status::INVALID_FIRMWARE_IMAGE.dnr());
        }
        image.extend_from_slice(data);
        done()
    }

    /// Firmware Commit. Any data that begins with a revision of eight printable characters is a
    /// valid image.
    fn commit(&mut self, id: u16, now: Nanos, sqe: &Sqe) -> Answer {
        let cdw10 = sqe.cdw10.get();
        let (slot, action) = (cdw10 as u8 & 7, cdw10 >> 3 & 7);
        let firmware = &mut self.records.firmware;
        let before = firmware.revision();
        let place = match slot {
            // The controller chooses the last writable slot.
            0 => SLOTS,
            slot if usize::from(slot) <= SLOTS => slot.into(),
            _ => return Err(Status::INVALID_FIRMWARE_SLOT.dnr()),
        };
        if action <= 1 || (action == 3 && !firmware.image.is_empty()) {
            let revision = firmware.image.first_chunk().copied();
            let is_printable = |text: &[u8; 8]| text.iter().all(u8::is_ascii_graphic);
            let revision = revision.filter(is_printable);
            let revision = revision.ok_or(Status::INVALID_FIRMWARE_IMAGE.dnr())?;
            if place == 1 {
                return Err(Status::INVALID_FIRMWARE_SLOT.dnr());
            }
            firmware.slots[place - 1] = Some(revision);
            firmware.image.clear();
        }
        if firmware.slots[place - 1].is_none() {
            return Err(Status::INVALID_FIRMWARE_SLOT.dnr());
        }
        let answer = match action {
            0 => done(),
            1 | 2 => {
                firmware.next = place as u8;
                Err(Status::FIRMWARE_NEEDS_RESET)
            }
            3 => {
                (firmware.active, firmware.next) = (place as u8, 0);
                done()
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        let after = firmware.slots[place - 1].unwrap_or_default();
        let mut event = [before, after].concat();
        event.extend_from_slice(&[action as u8, place as u8, 0, 0, 0, 0]);
        self.publish_firmware();
        self.note(id, PersistentKind::FirmwareCommit, now, &event);
        answer
    }

    /// Activates the image that waits for a reset, if there is one.
    pub(super) fn activate_firmware(&mut self) {
        let Firmware { next, active, .. } = &mut self.records.firmware;
        if *next != 0 {
            *active = std::mem::take(next);
        }
        self.publish_firmware();
    }

    fn publish_firmware(&mut self) {
        let revision = self.records.firmware.revision();
        self.identity.own.firmware = String::from_utf8_lossy(&revision).trim_end().to_owned();
    }
}

/// True for admin commands that are executed during a sanitize operation.
fn goes_on_beside_sanitize(opcode: AdminOpcode) -> bool {
    use AdminOpcode as A;
    !matches!(
        opcode,
        A::Format
            | A::Sanitize
            | A::DeviceSelfTest
            | A::NamespaceManagement
            | A::NamespaceAttachment
            | A::FirmwareCommit
            | A::FirmwareDownload
    )
}

/// Returns the data of a namespace change for the persistent event log.
fn namespace_change(sqe: &Sqe, data: &[u8], nsid: u32) -> [u8; 48] {
    let mut event = [0; 48];
    event[..4].copy_from_slice(&sqe.cdw10.get().to_le_bytes());
    if let Some(wanted) = data.first_chunk::<32>() {
        event[8..16].copy_from_slice(&wanted[..8]);
        event[24..32].copy_from_slice(&wanted[8..16]);
        event[32..35].copy_from_slice(&[wanted[26], wanted[29], wanted[30]]);
    }
    let nsid = if nsid == 0 { sqe.nsid.get() } else { nsid };
    event[44..].copy_from_slice(&nsid.to_le_bytes());
    event
}

/// Data of a telemetry capture: the figures of `drivebay ctl SOCKET status`, as JSON.
fn telemetry(drive: &mut dyn Drive) -> Vec<u8> {
    serde_json::to_vec(&drive.report()).unwrap_or_default()
}

fn erase_part(
    drive: &mut dyn Drive,
    sectors: Range<u64>,
    is_protected: bool,
    how: Sanitize,
) -> Result<Nanos, Status> {
    refuse_protected(drive, is_protected)?;
    drive.erase(sectors, how).map_err(|_| Status::INTERNAL_ERROR)
}

/// Refuses a change of data if the drive or a part of it is write-protected.
fn refuse_protected(drive: &mut dyn Drive, is_protected: bool) -> Result<(), Status> {
    if drive.is_read_only() || is_protected {
        return Err(Status::NAMESPACE_WRITE_PROTECTED.dnr());
    }
    Ok(())
}

/// True if an Identify page belongs to the command set that the command names.
fn is_of_command_set(cns: Cns) -> bool {
    matches!(
        cns,
        Cns::CommandSetNamespace
            | Cns::CommandSetController
            | Cns::CommandSetNamespaces
            | Cns::CommandSetAllocatedNamespaces
            | Cns::CommandSetAllocatedNamespace
    )
}

/// Returns an Identify page that begins with these bytes.
fn page_of(begin: &[u8]) -> Vec<u8> {
    let mut page = begin.to_vec();
    page.resize(4096, 0);
    page
}

/// Returns a list of namespaces, in order, for Identify and logs.
fn list(namespaces: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut page: Vec<u8> = namespaces.take(1024).flat_map(u32::to_le_bytes).collect();
    page.resize(4096, 0);
    page
}

/// Returns a list of controllers for Identify: their number, and their identifiers.
fn controller_list<'a>(controllers: impl Iterator<Item = (u16, &'a Controller)>) -> Vec<u8> {
    let ids: Vec<u16> = controllers.map(|(id, _)| id).take(CONTROLLER_LIST_MAX).collect();
    let numbers = std::iter::once(ids.len() as u16).chain(ids.iter().copied());
    let mut page: Vec<u8> = numbers.flat_map(u16::to_le_bytes).collect();
    page.resize(4096, 0);
    page
}

/// Returns the requested part of a page, with zeros beyond its end.
pub(super) fn part_of_page(page: Vec<u8>, offset: u64, bytes: u64) -> Answer {
    let from = usize::try_from(offset).ok().filter(|&from| from <= page.len());
    let from = from.ok_or(Status::INVALID_FIELD.dnr())?;
    let mut part = page[from..].to_vec();
    part.resize(bytes as usize, 0);
    Ok(Outcome::Success(0, part))
}

pub(super) fn done() -> Answer {
    Ok(Outcome::Success(0, Vec::new()))
}

fn invalid_opcode() -> Answer {
    Err(Status::INVALID_OPCODE.dnr())
}
