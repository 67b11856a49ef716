//! Namespace Management and Attachment: hosts create and delete namespaces, and attach them to
//! controllers.
//!
//! Source: NVM Express base specification 1.4, sections 5.19, 5.20 and 6.1. A new namespace is not
//! attached to any controller. Controllers of fabrics come and go with their connections: a new one
//! gets the namespaces of existing ones, and those attached before; it gets a private namespace
//! (NMIC 0) only if no other controller has it. On a drive with placement the host chooses the
//! reclaim unit handles. Left out: NVM sets, ANA groups and thin provisioning, which are refused. A
//! namespace is contiguous, so the total free capacity may be larger than the largest possible
//! namespace.

use drivebay_wire::nvme::{CONTROLLER_LIST_MAX, IdentifyNamespace, NAMESPACE_CREATE, Sqe, Status};
use zerocopy::FromBytes;

use super::admin::{Answer, Outcome, done};
use super::identity::NSID_ALL;
use super::io::is_valid;
use super::placement::{GROUP, numbers, wanted_handles};
use super::refuse::refuse_if;
use super::subsystem::{Subsystem, status_of};
use super::zones;
use crate::interface::drive::{Drive, Namespaces};
use crate::namespace::{NewNamespace, SECTOR_SHIFT};

/// Namespace Management, Select (bits 3:0 of command dword 10), besides [`NAMESPACE_CREATE`].
const DELETE: u32 = 1;
/// Namespace Attachment, Select.
const ATTACH: u32 = 0;
const DETACH: u32 = 1;
impl Subsystem {
    /// Creates a namespace, or deletes one or all.
    pub(super) fn manage_namespaces(
        &mut self,
        drive: &mut dyn Drive,
        sqe: &Sqe,
        data: &[u8],
    ) -> Answer {
        refuse_if(drive.is_read_only(), Status::NAMESPACE_WRITE_PROTECTED)?;
        match sqe.cdw10.get() & 0xf {
            NAMESPACE_CREATE if sqe.command_set() != self.identity.command_set() => {
                Err(Status::COMMAND_SET_NOT_SUPPORTED.dnr())
            }
            NAMESPACE_CREATE => self.create(drive, data),
            DELETE => self.delete(drive, sqe.nsid.get()),
            _ => Err(Status::INVALID_FIELD.dnr()),
        }
    }

    /// Creates a namespace from the fields that a host may set; returns its number.
    fn create(&mut self, drive: &mut dyn Drive, data: &[u8]) -> Answer {
        /// Bytes of ANA Group Identifier and NVM Set Identifier.
        const GROUPS: std::ops::Range<usize> = 92..102;
        let wanted = IdentifyNamespace::read_from_bytes(data);
        let wanted = wanted.map_err(|_| Status::SGL_LENGTH_INVALID.dnr())?;
        let (blocks, capacity) = (wanted.nsze.get(), wanted.ncap.get());
        let shift = self.identity.block_shifts().get(usize::from(wanted.flbas)).copied();
        let shift = shift.ok_or(Status::INVALID_FORMAT.dnr())?;
        let is_plain =
            wanted.dps == 0 && wanted.nmic & !1 == 0 && data[GROUPS].iter().all(|&b| b == 0);
        // The only endurance group, or 0.
        let group_max = self.identity.placement.map_or(0, |_| GROUP);
        if blocks == 0 || capacity > blocks || !is_plain || wanted.endgid.get() > group_max {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let sectors = match &self.identity.zones {
            Some(zones) => zones::sectors_of(zones, blocks, capacity)?,
            None if capacity < blocks => {
                return Err(Status::THIN_PROVISIONING_NOT_SUPPORTED.dnr());
            }
            // A number beyond the maximum is larger than the drive in any case.
            None => blocks.saturating_mul(1 << (shift - SECTOR_SHIFT)),
        };
        let handles = wanted_handles(data, self.identity.placement, drive.is_placed())?;
        let is_shared = wanted.nmic & 1 != 0;
        let new = NewNamespace { sectors, block_shift: shift, is_shared, handles };
        let made = drive.create_namespace(new);
        let nsid = made.map_err(|why| status_of(&why))?;
        if !is_shared {
            self.private.insert(nsid);
        }
        Ok(Outcome::Success(nsid, Vec::new()))
    }

    fn delete(&mut self, drive: &mut dyn Drive, nsid: u32) -> Answer {
        let doomed: Vec<u32> = match nsid {
            // All namespaces are deleted, or none.
            NSID_ALL if drive.any_is_read_only() => {
                return Err(Status::NAMESPACE_WRITE_PROTECTED.dnr());
            }
            NSID_ALL => drive.namespace_ids(),
            nsid => {
                check_allocated(nsid, drive)?;
                vec![nsid]
            }
        };
        for nsid in doomed {
            drive.delete_namespace(nsid).map_err(|why| status_of(&why))?;
            self.detach_from_all(nsid);
            self.private.remove(&nsid);
        }
        done()
    }

    /// Attaches a namespace to controllers, or detaches it.
    pub(super) fn attach_namespace(
        &mut self,
        namespaces: &dyn Namespaces,
        sqe: &Sqe,
        data: &[u8],
    ) -> Answer {
        let nsid = sqe.nsid.get();
        refuse_if(nsid == NSID_ALL, Status::INVALID_FIELD)?;
        check_allocated(nsid, namespaces)?;
        let ids = self.listed(data).ok_or(Status::CONTROLLER_LIST_INVALID.dnr())?;
        let have_it =
            self.controllers_from(0).filter(|(_, controller)| controller.flags.is_attached(nsid));
        let have_it: Vec<u16> = have_it.map(|(id, _)| id).collect();
        let is_shared = namespaces.namespace(nsid).is_some_and(|namespace| namespace.is_shared);
        match sqe.cdw10.get() & 0xf {
            ATTACH if ids.iter().any(|id| have_it.contains(id)) => {
                Err(Status::NAMESPACE_ALREADY_ATTACHED.dnr())
            }
            ATTACH if !is_shared && have_it.len() + ids.len() > 1 => {
                Err(Status::NAMESPACE_IS_PRIVATE.dnr())
            }
            ATTACH => {
                self.attach(nsid, &ids, true);
                done()
            }
            DETACH if ids.iter().any(|id| !have_it.contains(id)) => {
                Err(Status::NAMESPACE_NOT_ATTACHED.dnr())
            }
            DETACH => {
                self.attach(nsid, &ids, false);
                done()
            }
            _ => Err(Status::INVALID_FIELD.dnr()),
        }
    }

    /// Controllers of a list: at least one, in order, and all existing.
    fn listed(&self, data: &[u8]) -> Option<Vec<u16>> {
        let mut list = numbers(data);
        let count = usize::from(list.next()?);
        let ids: Vec<u16> = list.take(count).collect();
        let is_there =
            |id: &u16| self.controllers_from(*id).next().is_some_and(|(first, _)| first == *id);
        let is_right = (1..=CONTROLLER_LIST_MAX).contains(&count)
            && ids.len() == count
            && ids.is_sorted_by(|previous, next| previous < next)
            && ids.iter().all(is_there);
        is_right.then_some(ids)
    }
}

/// Checks that a namespace with this number exists, attached or not.
fn check_allocated(nsid: u32, namespaces: &dyn Namespaces) -> Result<(), Status> {
    match namespaces.namespace(nsid) {
        Some(_) => Ok(()),
        None if is_valid(nsid) => Err(Status::INVALID_FIELD.dnr()),
        None => Err(Status::INVALID_NAMESPACE.dnr()),
    }
}
