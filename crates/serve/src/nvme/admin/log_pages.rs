//! Get Log Page: checks, and the content of each page (`nvme/logs.rs`, `nvme/placement_logs.rs`,
//! `nvme/ocp.rs`).

use drivebay_wire::nvme::{
    COMMAND_SET_NVM, COMMAND_SET_ZONED, LogPage, PersistentKind, Sqe, Status, bytes_of, ocp_trailer,
};
use zerocopy::IntoBytes;

use super::answer::{Answer, Outcome, done, namespace_list, part_of_page};
use super::monitoring::telemetry;
use crate::interface::drive::Drive;
use crate::lock::lock;
use crate::nvme::identity::{Kind, NSID_ALL};
use crate::nvme::records::telemetry_page;
use crate::nvme::refuse::refuse_if;
use crate::nvme::reservations::Reservations;
use crate::nvme::subsystem::Subsystem;
use crate::nvme::{logs, ocp, placement, placement_logs, zones};

impl Subsystem {
    pub(super) fn log_page(
        &mut self,
        id: u16,
        kind: Kind,
        drive: &mut dyn Drive,
        sqe: &Sqe,
    ) -> Answer {
        let (bytes, offset) = (sqe.log_bytes(), sqe.log_offset());
        let is_too_long = bytes > u64::from(self.identity.transfer_bytes_max());
        refuse_if(is_too_long || !offset.is_multiple_of(4), Status::INVALID_FIELD)?;
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
        refuse_if(!uuids.contains(&sqe.uuid_index()) || !is_of_set, Status::INVALID_FIELD)?;
        if log == LogPage::Discovery {
            return Ok(Outcome::Transport);
        }
        let retain = sqe.cdw10.get() & 1 << 15 != 0;
        let Some(page) = self.page(log, id, kind, drive, sqe)? else { return done() };
        if !retain {
            self.mark_read(log, id, drive, sqe);
        }
        part_of_page(page, offset, bytes)
    }

    /// Content of a log page; `None` for a command that only ends the reading of one.
    fn page(
        &mut self,
        log: LogPage,
        id: u16,
        kind: Kind,
        drive: &mut dyn Drive,
        sqe: &Sqe,
    ) -> Result<Option<Vec<u8>>, Status> {
        let controller = self.get(id).ok_or(Status::INTERNAL_ERROR)?;
        let (now, retain) = (drive.now(), sqe.cdw10.get() & 1 << 15 != 0);
        Ok(Some(match log {
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
                bytes_of(&log)
            }
            LogPage::FirmwareSlots => logs::firmware(&self.records.firmware),
            LogPage::ChangedNamespaces => namespace_list(controller.changed.iter().copied()),
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
            LogPage::AsymmetricAccess => {
                let seen = controller.access.clone().unwrap_or_default();
                seen.log(controller.access_changes, sqe.log_specific() & 1 != 0)
            }
            LogPage::PersistentEvents => return self.persistent_events(id, drive, sqe),
            LogPage::Features => logs::features(kind, &self.identity),
            // No commands are supported over this interface.
            LogPage::ManagementCommands => vec![0; 1024],
            _ if placement::is_of_group(log) => {
                let events = &mut lock(&self.shared.placement);
                let kept = (&mut **events, self.records.error_count, &self.records.timestamp);
                placement_logs::page(log, sqe, drive, &self.identity, kept)?
            }
            LogPage::Sanitize => logs::sanitize(self.records.sanitize, &self.identity, drive),
            LogPage::ReservationNotification => {
                let notice = |all: &mut Reservations| all.notification(id, !retain);
                self.shared.reservations.with(drive.power_cuts(), notice).as_bytes().to_vec()
            }
            _ if ocp_trailer(log).is_some() => ocp::page(log, drive, &self.identity),
            LogPage::Pace => logs::pace(&drive.report()),
            _ => return Err(Status::INVALID_LOG_PAGE.dnr()),
        }))
    }

    /// Records that the host has read a page and need not be notified of its content again.
    fn mark_read(&mut self, log: LogPage, id: u16, drive: &dyn Drive, sqe: &Sqe) {
        if log == LogPage::TelemetryController {
            self.records.telemetry[1].is_new = false;
        }
        if let Some(controller) = self.get_mut(id) {
            if log == LogPage::ChangedNamespaces {
                controller.changed.clear();
            }
            if let (LogPage::ChangedZones, Some(namespace)) = (log, drive.namespace(sqe.nsid.get()))
            {
                controller.changed_zones.retain(|&zone| !zones::is_of(zone, namespace));
            }
            controller.events.page_read(log as u8);
        }
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
}
