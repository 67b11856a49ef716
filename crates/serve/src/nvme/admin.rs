//! The admin command set.
//!
//! Source: NVM Express base specification 1.4, section 5. A command that fails is entered into the
//! error log by [`Subsystem::admin`]'s caller; queues of PCIe are made in `pci/`.

use std::ops::Range;

use drivebay_wire::nvme::{
    AdminOpcode, CONTROLLER_LIST_MAX, Cns, Feature, LogPage, NAMESPACE_CREATE, OPCODE_FABRICS,
    Select, Sqe, Status,
};

use super::controller::Controller;
use super::events::Event;
use super::identity::{Kind, NSID_ALL};
use super::io::{Transfer, is_valid};
use super::logs;
use super::subsystem::Subsystem;
use crate::drive::Drive;

/// The outcome of an admin command.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The completion's dword 0, and data for the host.
    Success(u32, Vec<u8>),
    /// Waits for an event, or for a command's end.
    Held,
    /// A command of an I/O queue is to be aborted.
    Abort {
        /// Its submission queue.
        queue: u16,
        /// Its identifier.
        cid: u16,
    },
    /// A fabrics command, or one about queues: the transport's.
    Transport,
}

pub(super) type Answer = Result<Outcome, Status>;

/// Dword 0 of an Abort command's completion: the command was not aborted.
pub(super) const NOT_ABORTED: u32 = 1;

/// Bytes that an admin command moves, by its own fields.
pub(super) fn transfer(sqe: &Sqe) -> Transfer {
    let to_host = |bytes: u64| Transfer::ToHost(u32::try_from(bytes).unwrap_or(u32::MAX));
    if sqe.opcode == OPCODE_FABRICS {
        // Connect alone has data.
        return if sqe.nsid.get() as u8 == 1 { Transfer::FromHost(1024) } else { Transfer::None };
    }
    let host_id = if sqe.cdw11.get() & 1 != 0 { 16 } else { 8 };
    let is_host_id = Feature::of(sqe.cdw10.get() as u8) == Some(Feature::HostIdentifier);
    match AdminOpcode::of(sqe.opcode) {
        Some(AdminOpcode::Identify) => to_host(4096),
        Some(AdminOpcode::GetLogPage) => to_host(sqe.log_bytes()),
        Some(AdminOpcode::GetFeatures)
            if is_host_id
                && Select::of((sqe.cdw10.get() >> 8 & 7) as u8) != Some(Select::Capabilities) =>
        {
            to_host(host_id)
        }
        Some(AdminOpcode::SetFeatures) if is_host_id => Transfer::FromHost(host_id as u32),
        Some(AdminOpcode::NamespaceManagement) if sqe.cdw10.get() & 0xf == NAMESPACE_CREATE => {
            Transfer::FromHost(4096)
        }
        Some(AdminOpcode::NamespaceAttachment) => Transfer::FromHost(4096),
        _ => Transfer::None,
    }
}

impl Subsystem {
    /// Carries out an admin command of controller `id`, with `data` from the host.
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
        let Some(opcode) = AdminOpcode::of(sqe.opcode) else {
            let fabrics = sqe.opcode == OPCODE_FABRICS && kind != Kind::Pci;
            return if fabrics { Ok(Outcome::Transport) } else { invalid_opcode() };
        };
        use AdminOpcode as A;
        match (opcode, kind) {
            (A::CreateSq | A::DeleteSq | A::CreateCq | A::DeleteCq, Kind::Pci) => {
                Ok(Outcome::Transport)
            }
            (A::GetLogPage, _) => self.log_page(id, kind, drive, sqe),
            (A::Identify, _) => self.identify(id, kind, drive, sqe),
            (A::GetFeatures, _) => {
                let controller = self.get(id).ok_or(Status::INTERNAL_ERROR)?;
                check_scope(kind, sqe)?;
                let (value, data) = controller.features.get(sqe, &self.identity)?;
                Ok(Outcome::Success(value, data))
            }
            (A::SetFeatures, _) => {
                check_scope(kind, sqe)?;
                let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
                let result = controller.features.set(sqe)?;
                controller.publish_features();
                Ok(Outcome::Success(result, Vec::new()))
            }
            (A::AsyncEvent, _) => {
                let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
                controller.events.request(sqe.cid.get())?;
                Ok(Outcome::Held)
            }
            (A::KeepAlive, Kind::Tcp | Kind::Discovery) => done(),
            (A::Abort, Kind::Tcp | Kind::Pci) => self.abort(id, sqe),
            (A::NamespaceManagement, Kind::Tcp | Kind::Pci) => {
                self.manage_namespaces(drive, sqe, data)
            }
            (A::NamespaceAttachment, Kind::Tcp | Kind::Pci) => {
                self.attach_namespace(drive, sqe, data)
            }
            (A::Format, Kind::Tcp | Kind::Pci) => self.format(drive, sqe),
            (A::Sanitize, Kind::Tcp | Kind::Pci) => self.sanitize(id, drive, sqe),
            _ => invalid_opcode(),
        }
    }

    /// Raises the events that the drive's health and its namespaces give rise to.
    pub(super) fn poll_events(&mut self, id: u16, drive: &mut dyn Drive) {
        let Some(controller) = self.get_mut(id) else { return };
        if controller.kind == Kind::Discovery {
            return;
        }
        controller.check_namespaces(drive);
        let warning = logs::warning(drive, &controller.features);
        let enabled = controller.features[Feature::AsyncEvents] as u8;
        controller.events.warn(warning, enabled);
    }

    fn identify(&self, id: u16, kind: Kind, drive: &dyn Drive, sqe: &Sqe) -> Answer {
        let nsid = sqe.nsid.get();
        let invalid_field = Status::INVALID_FIELD.dnr();
        let from = (sqe.cdw10.get() >> 16) as u16;
        let page = match Cns::of(sqe.cdw10.get() as u8).ok_or(invalid_field)? {
            Cns::Controller => self.identity.controller(id, kind, drive),
            _ if kind == Kind::Discovery => return Err(invalid_field),
            Cns::Namespace if nsid == NSID_ALL => self.identity.any_namespace(),
            Cns::Namespace | Cns::NamespaceNames | Cns::AllocatedNamespace if !is_valid(nsid) => {
                return Err(Status::INVALID_NAMESPACE.dnr());
            }
            cns @ (Cns::Namespace | Cns::NamespaceNames | Cns::AllocatedNamespace) => {
                let is_there = cns == Cns::AllocatedNamespace || self.is_attached(id, nsid);
                match drive.namespace(nsid).filter(|_| is_there) {
                    Some(_) if cns == Cns::NamespaceNames => self.identity.namespace_names(nsid),
                    Some(namespace) => self.identity.namespace(drive, nsid, namespace),
                    None if cns == Cns::NamespaceNames => return Err(invalid_field),
                    // One that is not there has no fields.
                    None => vec![0; 4096],
                }
            }
            Cns::ActiveNamespaces | Cns::AllocatedNamespaces if nsid >= 0xffff_fffe => {
                return Err(Status::INVALID_NAMESPACE.dnr());
            }
            cns @ (Cns::ActiveNamespaces | Cns::AllocatedNamespaces) => {
                let all = drive.namespace_ids().into_iter();
                let is_listed =
                    |one: u32| cns == Cns::AllocatedNamespaces || self.is_attached(id, one);
                list(all.filter(|&one| one > nsid && is_listed(one)))
            }
            Cns::Controllers => controller_list(self.controllers_from(from)),
            Cns::AttachedControllers if !is_valid(nsid) => {
                return Err(Status::INVALID_NAMESPACE.dnr());
            }
            Cns::AttachedControllers => {
                let have_it = self.controllers_from(from);
                controller_list(have_it.filter(|(_, one)| one.flags.is_attached(nsid)))
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
        let on_drive = kind != Kind::Discovery;
        let invalid_page = Status::INVALID_LOG_PAGE.dnr();
        let page = match LogPage::of(sqe.cdw10.get() as u8).ok_or(invalid_page)? {
            LogPage::Smart if on_drive => {
                let nsid = sqe.nsid.get();
                if ![0, NSID_ALL].contains(&nsid) && drive.namespace(nsid).is_none() {
                    return Err(Status::INVALID_NAMESPACE.dnr());
                }
                let warning = logs::warning(drive, &controller.features);
                logs::smart(&drive.health(), warning, self.error_count)
            }
            LogPage::Errors => logs::errors(self),
            LogPage::FirmwareSlots if on_drive => logs::firmware(&self.identity.own.firmware),
            LogPage::ChangedNamespaces if on_drive => list(controller.changed.iter().copied()),
            LogPage::Commands if on_drive => logs::commands(kind),
            LogPage::Sanitize if on_drive => logs::sanitize(self.sanitized),
            LogPage::Pace if on_drive => logs::pace(&drive.report()),
            LogPage::Discovery if !on_drive => return Ok(Outcome::Transport),
            _ => return Err(invalid_page),
        };
        let retain = sqe.cdw10.get() & 1 << 15 != 0;
        if !retain && let Some(controller) = self.get_mut(id) {
            let page = sqe.cdw10.get() as u8;
            if LogPage::of(page) == Some(LogPage::ChangedNamespaces) {
                controller.changed.clear();
            }
            controller.events.page_read(page);
        }
        part_of_page(page, offset, bytes)
    }

    /// Of the admin queue only Asynchronous Event Requests can be aborted: others have completed.
    fn abort(&mut self, id: u16, sqe: &Sqe) -> Answer {
        let (queue, cid) = (sqe.cdw10.get() as u16, (sqe.cdw10.get() >> 16) as u16);
        if queue != 0 {
            return Ok(Outcome::Abort { queue, cid });
        }
        let aborted = self.get_mut(id).is_some_and(|c| c.events.abort(cid));
        Ok(Outcome::Success(NOT_ABORTED * u32::from(!aborted), Vec::new()))
    }

    fn format(&mut self, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        let (sectors, is_read_only) = match sqe.nsid.get() {
            NSID_ALL => (0..drive.sectors(), drive.any_is_read_only()),
            nsid => {
                let namespace = drive.namespace(nsid).ok_or(Status::INVALID_NAMESPACE.dnr())?;
                (namespace.range(), namespace.is_read_only())
            }
        };
        let cdw10 = sqe.cdw10.get();
        let (format, protection, erase) = (cdw10 & 0xf, cdw10 >> 5 & 7, cdw10 >> 9 & 7);
        if format != 0 {
            return Err(Status::INVALID_FORMAT.dnr());
        }
        // No protection information, no cryptographic erase.
        if protection != 0 || erase > 1 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        erase_part(drive, sectors, is_read_only)?;
        done()
    }

    fn sanitize(&mut self, id: u16, drive: &mut dyn Drive, sqe: &Sqe) -> Answer {
        const EXIT_FAILURE: u32 = 1;
        const BLOCK_ERASE: u32 = 2;
        match sqe.cdw10.get() & 7 {
            EXIT_FAILURE => done(),
            BLOCK_ERASE => {
                let (all, is_protected) = (0..drive.sectors(), drive.any_is_read_only());
                erase_part(drive, all, is_protected)?;
                self.sanitized = Some(sqe.cdw10.get());
                if let Some(controller) = self.get_mut(id) {
                    controller.events.raise(Event::Sanitized);
                }
                done()
            }
            _ => Err(Status::INVALID_FIELD.dnr()),
        }
    }
}

fn erase_part(
    drive: &mut dyn Drive,
    sectors: Range<u64>,
    is_protected: bool,
) -> Result<(), Status> {
    if drive.is_read_only() || is_protected {
        return Err(Status::NAMESPACE_WRITE_PROTECTED.dnr());
    }
    drive.erase(sectors).map_err(|_| Status::INTERNAL_ERROR)
}

/// Namespaces, in order, as Identify and a log list them.
fn list(namespaces: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut page: Vec<u8> = namespaces.take(1024).flat_map(u32::to_le_bytes).collect();
    page.resize(4096, 0);
    page
}

/// Controllers, as Identify lists them: how many, and their identifiers.
fn controller_list<'a>(controllers: impl Iterator<Item = (u16, &'a Controller)>) -> Vec<u8> {
    let found: Vec<u16> = controllers.map(|(id, _)| id).take(CONTROLLER_LIST_MAX).collect();
    let numbers = std::iter::once(found.len() as u16).chain(found.iter().copied());
    let mut page: Vec<u8> = numbers.flat_map(u16::to_le_bytes).collect();
    page.resize(4096, 0);
    page
}

/// What is asked for of a page, with zeros behind its end.
pub(super) fn part_of_page(page: Vec<u8>, offset: u64, bytes: u64) -> Answer {
    let from = usize::try_from(offset).ok().filter(|&from| from <= page.len());
    let from = from.ok_or(Status::INVALID_FIELD.dnr())?;
    let mut part = page[from..].to_vec();
    part.resize(bytes as usize, 0);
    Ok(Outcome::Success(0, part))
}

fn check_scope(kind: Kind, sqe: &Sqe) -> Result<(), Status> {
    let feature = Feature::of(sqe.cdw10.get() as u8).ok_or(Status::INVALID_FIELD.dnr())?;
    use Feature as F;
    let fits = match kind {
        Kind::Discovery => {
            matches!(feature, F::KeepAliveTimer | F::AsyncEvents | F::HostIdentifier)
        }
        Kind::Tcp => !matches!(feature, F::InterruptCoalescing | F::InterruptVector),
        Kind::Pci => !matches!(feature, F::KeepAliveTimer),
    };
    if fits { Ok(()) } else { Err(Status::INVALID_FIELD.dnr()) }
}

pub(super) fn done() -> Answer {
    Ok(Outcome::Success(0, Vec::new()))
}

fn invalid_opcode() -> Answer {
    Err(Status::INVALID_OPCODE.dnr())
}
