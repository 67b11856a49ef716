//! Identify: pages of controllers (`nvme/identity.rs`), namespaces and lists.

use drivebay_drive::ZoneSpec;
use drivebay_wire::nvme::{
    COMMAND_SET_NVM, COMMAND_SET_ZONED, CONTROLLER_LIST_MAX, Cns, Sqe, Status,
};

use super::answer::{Answer, Outcome, namespace_list};
use crate::interface::drive::Drive;
use crate::nvme::controller::Controller;
use crate::nvme::identity::{Kind, NSID_ALL};
use crate::nvme::io::is_valid;
use crate::nvme::placement::GROUP;
use crate::nvme::refuse::refuse_if;
use crate::nvme::subsystem::Subsystem;
use crate::nvme::{access, ocp, zones};

impl Subsystem {
    pub(super) fn identify(&self, id: u16, kind: Kind, drive: &dyn Drive, sqe: &Sqe) -> Answer {
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
                page_of(&[self.identity.transfer_max_log2(kind)])
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
            Cns::Uuids if self.identity.own.ocp => {
                let mut page = vec![0; 48];
                page.extend_from_slice(&ocp::UUID.to_be_bytes());
                page_of(&page)
            }
            Cns::Uuids => return Err(invalid_field),
            cns @ (Cns::Namespace
            | Cns::NamespaceNames
            | Cns::AllocatedNamespace
            | Cns::CommandSetNamespace
            | Cns::CommandSetAllocatedNamespace
            | Cns::IndependentNamespace) => {
                self.identify_namespace(id, kind, drive, (cns, nsid), zones)?
            }
            cns @ (Cns::ActiveNamespaces
            | Cns::AllocatedNamespaces
            | Cns::CommandSetNamespaces
            | Cns::CommandSetAllocatedNamespaces) => self.identify_list(id, drive, cns, sqe)?,
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

    /// Page of one namespace.
    fn identify_namespace(
        &self,
        id: u16,
        kind: Kind,
        drive: &dyn Drive,
        (cns, nsid): (Cns, u32),
        zones: Option<&ZoneSpec>,
    ) -> Result<Vec<u8>, Status> {
        refuse_if(!is_valid(nsid), Status::INVALID_NAMESPACE)?;
        let is_allocated =
            matches!(cns, Cns::AllocatedNamespace | Cns::CommandSetAllocatedNamespace);
        let is_there = is_allocated || self.is_attached(id, nsid);
        Ok(match drive.namespace(nsid).filter(|_| is_there) {
            Some(_) if cns == Cns::NamespaceNames => self.identity.namespace_names(nsid),
            Some(_) if is_of_command_set(cns) => match zones {
                Some(zones) => zones::identify(zones),
                // Metadata and its protection, which are not supported.
                None => vec![0; 4096],
            },
            Some(namespace) if cns == Cns::IndependentNamespace => {
                let controller = self.get(id).ok_or(Status::INTERNAL_ERROR)?;
                self.identity.independent(kind, namespace, controller.features.write_cache())
            }
            Some(namespace) => {
                let portal = self.get(id).map_or(0, |controller| controller.flags.portal);
                let hides_capacity = access::hides_capacity(access::state(drive, portal));
                self.identity.namespace(kind, drive, (nsid, namespace), hides_capacity)
            }
            None if cns == Cns::NamespaceNames => return Err(Status::INVALID_FIELD.dnr()),
            // A missing namespace has no fields.
            None => vec![0; 4096],
        })
    }

    /// List of namespaces.
    fn identify_list(
        &self,
        id: u16,
        drive: &dyn Drive,
        cns: Cns,
        sqe: &Sqe,
    ) -> Result<Vec<u8>, Status> {
        let nsid = sqe.nsid.get();
        refuse_if(nsid >= 0xffff_fffe, Status::INVALID_NAMESPACE)?;
        let all = drive.namespace_ids().into_iter();
        let is_any = matches!(cns, Cns::AllocatedNamespaces | Cns::CommandSetAllocatedNamespaces);
        let is_wanted = !is_of_command_set(cns) || sqe.command_set() == self.identity.command_set();
        let is_listed = |number: u32| is_wanted && (is_any || self.is_attached(id, number));
        Ok(namespace_list(all.filter(|&number| number > nsid && is_listed(number))))
    }

    fn is_attached(&self, id: u16, nsid: u32) -> bool {
        self.get(id).is_some_and(|controller| controller.flags.is_attached(nsid))
    }
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

/// Returns a list of controllers for Identify: their number, and their identifiers.
fn controller_list<'a>(controllers: impl Iterator<Item = (u16, &'a Controller)>) -> Vec<u8> {
    let ids: Vec<u16> = controllers.map(|(id, _)| id).take(CONTROLLER_LIST_MAX).collect();
    let numbers = std::iter::once(ids.len() as u16).chain(ids.iter().copied());
    let mut page: Vec<u8> = numbers.flat_map(u16::to_le_bytes).collect();
    page.resize(4096, 0);
    page
}
