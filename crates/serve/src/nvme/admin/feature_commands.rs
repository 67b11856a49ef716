//! Get Features and Set Features: values of the controller (`nvme/features.rs`), of the drive and
//! of the subsystem.

use drivebay_wire::nvme::{Feature, PersistentKind, Select, Sqe, Status};

use super::answer::{Answer, Outcome};
use crate::faults::FailureMode;
use crate::interface::drive::Drive;
use crate::lock::lock;
use crate::nvme::features::select_of;
use crate::nvme::identity::Kind;
use crate::nvme::reservations::Reservations;
use crate::nvme::subsystem::Subsystem;
use crate::nvme::{features, logs, ocp, placement, placement_logs};

impl Subsystem {
    pub(super) fn get_feature(&self, id: u16, kind: Kind, drive: &dyn Drive, sqe: &Sqe) -> Answer {
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
                value = self.shared.reservations.with(drive.power_cuts(), persists).into();
            }
            Feature::OcpFailureMode if select_of(sqe) != Some(Select::Capabilities) => {
                let is_default = select_of(sqe) == Some(Select::Default);
                let mode = if is_default { FailureMode::default() } else { drive.failure_mode() };
                value = mode as u32;
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

    pub(super) fn set_feature(
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
            Feature::OcpFailureMode => ocp::set_failure_mode(drive, sqe.cdw11.get()),
            Feature::Placement => placement_logs::switch(sqe, drive)?,
            Feature::ReservationPersistence => {
                let nsid = self.reserved_namespace(drive, sqe)?;
                let persists = sqe.cdw11.get() & 1 != 0;
                let cuts = drive.power_cuts();
                self.shared.reservations.with(cuts, |all| all.set_persist(nsid, persists));
            }
            Feature::ReservationMask => {
                let mask = sqe.cdw11.get();
                self.shared.reservations.with(drive.power_cuts(), |all| all.set_mask(id, mask));
            }
            Feature::PlacementEvents => {
                let handle = placement::handle_of_feature(sqe, drive)?;
                lock(&self.shared.placement).set(sqe, handle, data)?;
            }
            _ => {}
        }
        let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
        let result = controller.features.set(sqe, data)?;
        if controller.publish_features() {
            controller.note_write_cache(drive);
        }
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

    /// Feature of a command, if a controller of this kind has it.
    fn feature_of(&self, kind: Kind, sqe: &Sqe) -> Result<Feature, Status> {
        let feature = Feature::from_code(sqe.cdw10.get() as u8);
        let feature = feature.filter(|&feature| logs::has_feature(kind, feature, &self.identity));
        feature.ok_or(Status::INVALID_FIELD.dnr())
    }
}
