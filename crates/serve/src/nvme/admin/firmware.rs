//! Firmware Image Download and Firmware Commit.

use drivebay_units::Nanos;
use drivebay_wire::nvme::{PersistentKind, Sqe, Status};

use super::answer::{Answer, done};
use crate::nvme::records::{Firmware, SLOTS};
use crate::nvme::refuse::refuse_if;
use crate::nvme::subsystem::Subsystem;

/// Largest firmware image, bytes. guess: the size of real ones.
const IMAGE_MAX: usize = 4 << 20;

impl Subsystem {
    /// Firmware Image Download: the parts must come in order.
    pub(super) fn download(&mut self, sqe: &Sqe, data: &[u8]) -> Answer {
        let image = &mut self.records.firmware.image;
        let offset = sqe.cdw11.get() as usize * 4;
        if offset == 0 {
            image.clear();
        }
        refuse_if(offset != image.len(), Status::OVERLAPPING_RANGE)?;
        refuse_if(offset + data.len() > IMAGE_MAX, Status::INVALID_FIRMWARE_IMAGE)?;
        image.extend_from_slice(data);
        done()
    }

    /// Firmware Commit. Any data that begins with a revision of eight printable characters is a
    /// valid image.
    pub(super) fn commit(&mut self, id: u16, now: Nanos, sqe: &Sqe) -> Answer {
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
            refuse_if(place == 1, Status::INVALID_FIRMWARE_SLOT)?;
            firmware.slots[place - 1] = Some(revision);
            firmware.image.clear();
        }
        refuse_if(firmware.slots[place - 1].is_none(), Status::INVALID_FIRMWARE_SLOT)?;
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
    pub(in crate::nvme) fn activate_firmware(&mut self) {
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
