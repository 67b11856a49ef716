//! Admin command set.
//!
//! Source: NVM Express base specification 2.0, section 5. The caller of [`Subsystem::admin`] adds a
//! failed command to the error log; `pci/` creates the queues of PCIe.

mod answer;
mod erase;
mod feature_commands;
mod firmware;
mod identify;
mod log_pages;
mod monitoring;

use drivebay_wire::nvme::{
    AdminOpcode, FabricsType, NAMESPACE_CREATE, OPCODE_FABRICS, PersistentKind, Sqe, Status,
};

pub(super) use self::answer::{Answer, NOT_ABORTED, Outcome, done, part_of_page};
use super::identity::{Identity, Kind, NSID_ALL};
use super::io::{Transfer, active};
use super::refuse::refuse_if;
use super::reservations::Access;
use super::subsystem::Subsystem;
use super::{access, features, logs, placement};
use crate::interface::drive::Drive;

/// Data transfer of a fabrics command, according to its own fields; `None` for an unknown command,
/// and for Connect on a connected queue.
pub(super) fn fabrics_transfer(sqe: &Sqe, is_connected: bool) -> Option<Transfer> {
    Some(match FabricsType::from_sqe(sqe) {
        FabricsType::Connect { .. } if !is_connected => Transfer::FromHost(1024),
        FabricsType::AuthenticationSend { bytes, .. } => Transfer::FromHost(bytes),
        FabricsType::AuthenticationReceive { bytes, .. } => Transfer::ToHost(bytes),
        FabricsType::Connect { .. } | FabricsType::Other(_) => return None,
        _ => Transfer::None,
    })
}

/// Data transfer of an admin command, according to its own fields; `None` if a controller of this
/// kind does not support it.
pub(super) fn transfer(sqe: &Sqe, kind: Kind, identity: &Identity) -> Option<Transfer> {
    let to_host = |bytes: u64| Transfer::ToHost(u32::try_from(bytes).unwrap_or(u32::MAX));
    Some(match supported(sqe, kind, identity)? {
        AdminOpcode::Identify => to_host(4096),
        AdminOpcode::GetLogPage => to_host(sqe.log_bytes()),
        AdminOpcode::GetFeatures => match features::data_bytes(sqe) {
            0 => Transfer::None,
            bytes => to_host(bytes.into()),
        },
        AdminOpcode::SetFeatures => match features::data_bytes(sqe) {
            0 => Transfer::None,
            bytes => Transfer::FromHost(bytes),
        },
        AdminOpcode::NamespaceManagement if sqe.cdw10.get() & 0xf == NAMESPACE_CREATE => {
            Transfer::FromHost(4096)
        }
        AdminOpcode::NamespaceAttachment => Transfer::FromHost(4096),
        // Number of dwords minus one.
        AdminOpcode::DirectiveReceive => to_host((u64::from(sqe.cdw10.get()) + 1) * 4),
        // Number of dwords minus one.
        AdminOpcode::FirmwareDownload => {
            Transfer::FromHost(sqe.cdw10.get().saturating_add(1).saturating_mul(4))
        }
        _ => Transfer::None,
    })
}

fn supported(sqe: &Sqe, kind: Kind, identity: &Identity) -> Option<AdminOpcode> {
    AdminOpcode::from_code(sqe.opcode).filter(|&one| logs::has_admin_command(kind, one, identity))
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
            controller.check_access(drive);
        }
        let path = access::state(drive, controller.flags.portal);
        if sqe.opcode == OPCODE_FABRICS && kind != Kind::Pci {
            return Ok(Outcome::Transport);
        }
        let opcode = supported(sqe, kind, &self.identity).ok_or(Status::INVALID_OPCODE.dnr())?;
        use AdminOpcode as A;
        let now = drive.now();
        if self.is_sanitizing(now) && !is_allowed_during_sanitize(opcode) {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        access::check_admin(path, opcode, sqe)?;
        self.refuse_reserved(id, drive, opcode, sqe)?;
        match opcode {
            A::CreateSq | A::DeleteSq | A::CreateCq | A::DeleteCq => Ok(Outcome::Transport),
            A::GetLogPage => self.log_page(id, kind, drive, sqe),
            A::Identify => self.identify(id, kind, drive, sqe),
            A::GetFeatures => self.get_feature(id, kind, drive, sqe),
            A::SetFeatures => self.set_feature(id, kind, drive, sqe, data),
            A::AsyncEvent => {
                let controller = self.get_mut(id).ok_or(Status::INTERNAL_ERROR)?;
                controller.events.request(sqe.cid.get())?;
                Ok(Outcome::Held)
            }
            A::KeepAlive => done(),
            A::Abort => self.abort(id, sqe),
            A::DirectiveSend | A::DirectiveReceive => {
                let controller = self.get(id).ok_or(Status::INTERNAL_ERROR)?;
                active(sqe.nsid.get(), drive, &controller.flags)?;
                let most = u64::from(self.identity.transfer_bytes_max());
                let bytes = (u64::from(sqe.cdw10.get()) + 1) * 4;
                let page = placement::directive(sqe, drive, bytes.min(most) as usize)?;
                Ok(Outcome::Success(0, page))
            }
            A::NamespaceManagement => {
                let answer = self.manage_namespaces(drive, sqe, data);
                if let Ok(Outcome::Success(nsid, _)) = &answer {
                    let changed = namespace_change(sqe, data, *nsid);
                    self.note(id, PersistentKind::NamespaceChange, now, &changed);
                }
                answer
            }
            A::NamespaceAttachment => self.attach_namespace(drive, sqe, data),
            A::Format => self.format(id, drive, sqe),
            A::Sanitize => self.sanitize(id, drive, sqe),
            A::DeviceSelfTest => self.self_test(drive, sqe),
            A::FirmwareDownload => self.download(sqe, data),
            A::FirmwareCommit => self.commit(id, now, sqe),
        }
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
        let is_kept = |nsid: u32| self.shared.reservations.exclude(id, nsid, Access::Write, cuts);
        refuse_if(changed.into_iter().any(is_kept), Status::RESERVATION_CONFLICT)
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
}

/// True for admin commands that are executed during a sanitize operation.
fn is_allowed_during_sanitize(opcode: AdminOpcode) -> bool {
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
