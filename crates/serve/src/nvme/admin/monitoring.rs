//! Events, telemetry and self-tests of a controller.

use drivebay_units::Nanos;
use drivebay_wire::nvme::{CriticalWarning, Feature, PersistentKind, Sqe, Status};

use super::answer::{Answer, done};
use crate::interface::drive::Drive;
use crate::lock::lock;
use crate::nvme::events::{Event, TELEMETRY_NOTICES};
use crate::nvme::identity::{Kind, NSID_ALL, SELF_TEST_MINUTES, kelvin};
use crate::nvme::logs;
use crate::nvme::records::{ABORTED_BY_COMMAND, ABORTED_BY_RESET, EXTENDED, SHORT};
use crate::nvme::refuse::refuse_if;
use crate::nvme::subsystem::Subsystem;

/// Time of the short self-test. guess: the specification allows two minutes.
const SHORT_SELF_TEST: Nanos = Nanos::secs(60);

impl Subsystem {
    /// Raises the events caused by the drive's health, its namespaces and its running operations.
    pub(in crate::nvme) fn poll_events(&mut self, id: u16, drive: &mut dyn Drive) {
        let (now, is_healthy) = (drive.now(), !drive.is_read_only());
        self.records.self_tests.settle(now, is_healthy);
        self.end_sanitize(id, drive);
        let Some(controller) = self.get_mut(id) else { return };
        if controller.kind == Kind::Discovery {
            return;
        }
        controller.complete_slow(now);
        controller.check_namespaces(drive);
        controller.check_access(drive);
        controller.check_zones(drive);
        let reservations = &controller.flags.shared.reservations;
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
        lock(&self.shared.placement).look_at(&drive.handle_use(), now);
    }

    /// Adds an event to the persistent event log.
    pub(super) fn note(&mut self, id: u16, kind: PersistentKind, now: Nanos, data: &[u8]) {
        let timestamp = self.records.timestamp.value(now);
        self.records.events.add(kind, id, timestamp, data);
    }

    /// Records that a controller is enabled.
    pub(in crate::nvme) fn note_reset(&mut self, id: u16, drive: &mut dyn Drive) {
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

    pub(super) fn self_test(&mut self, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        const ABORT: u32 = 0xf;
        let (nsid, now, is_healthy) = (sqe.nsid.get(), drive.now(), !drive.is_read_only());
        let is_known = [0, NSID_ALL].contains(&nsid) || drive.namespace(nsid).is_some();
        refuse_if(!is_known, Status::INVALID_NAMESPACE)?;
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
        refuse_if(tests.is_running(), Status::SELF_TEST_IN_PROGRESS)?;
        tests.begin(sqe.cdw10.get() as u8 & 0xf, nsid, now, takes);
        done()
    }
}

/// Data of a telemetry capture: the figures of `drivebay ctl SOCKET status`, as JSON.
pub(super) fn telemetry(drive: &mut dyn Drive) -> Vec<u8> {
    serde_json::to_vec(&drive.report()).unwrap_or_default()
}
