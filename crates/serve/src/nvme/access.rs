//! Asymmetric Namespace Access: the portals of a drive are paths to it, each with its own state.
//!
//! Source: NVM Express base specification 2.1, sections 5.1.12.1.13 and 8.1.1. Hosts see it if the
//! drive has several portals. All namespaces form one group, so a portal has the same state for
//! all of them; `drivebay ctl SOCKET ana-state` sets it. Commands in flight complete as usual. A
//! PCIe device is always optimized. Unlike a real drive, a portal may leave the state Persistent
//! Loss, and a non-optimized one is as fast as others. Set Features without a namespace is executed
//! in the state Persistent Loss, too: a host could not connect otherwise.

use drivebay_wire::nvme::{AccessGroup, AccessLog, AdminOpcode, Feature, Sqe, Status, bytes_of};
use zerocopy::IntoBytes;

use super::refuse::refuse_if;
use crate::interface::drive::Namespaces;
use crate::namespace::AccessState;

/// The group of all namespaces.
pub(super) const GROUP: u32 = 1;
/// ANA capabilities: all five states; a namespace stays in its group.
pub(super) const CAPABILITIES: u8 = 0x1f | 1 << 6;
/// Longest time in the state Change, seconds. guess: as Linux's own target reports.
pub(super) const TRANSITION_S: u8 = 10;

/// State of the access through a portal; optimized for controllers without one (0).
pub(super) fn state(namespaces: &dyn Namespaces, portal: u16) -> AccessState {
    let portal = usize::from(portal).checked_sub(1);
    portal.and_then(|portal| namespaces.access().get(portal).copied()).unwrap_or_default()
}

/// True if the capacity of namespaces is unknown in this state.
pub(super) fn hides_capacity(state: AccessState) -> bool {
    matches!(state, AccessState::Inaccessible | AccessState::PersistentLoss)
}

/// Refuses a command that needs access to a namespace. A host may retry it on another path.
pub(super) fn check(state: AccessState) -> Result<(), Status> {
    match state {
        AccessState::Optimized | AccessState::NonOptimized => Ok(()),
        AccessState::Inaccessible => Err(Status::ASYMMETRIC_ACCESS_INACCESSIBLE),
        AccessState::PersistentLoss => Err(Status::ASYMMETRIC_ACCESS_PERSISTENT_LOSS),
        AccessState::Change => Err(Status::ASYMMETRIC_ACCESS_TRANSITION),
    }
}

/// Refuses an admin command that the state does not allow (section 8.1.1.10).
pub(super) fn check_admin(
    state: AccessState,
    opcode: AdminOpcode,
    sqe: &Sqe,
) -> Result<(), Status> {
    use AdminOpcode as A;
    use Feature as F;
    let (nsid, cdw10) = (sqe.nsid.get(), sqe.cdw10.get());
    let is_of_namespace = matches!(
        F::from_code(cdw10 as u8),
        Some(F::ErrorRecovery | F::ReservationMask | F::ReservationPersistence)
    );
    let needs_access = match opcode {
        A::GetFeatures => is_of_namespace,
        A::SetFeatures => {
            let is_lost = state == AccessState::PersistentLoss;
            is_of_namespace || nsid == u32::MAX || (is_lost && nsid != 0)
        }
        A::Format
        | A::NamespaceManagement
        | A::NamespaceAttachment
        | A::DirectiveSend
        | A::DirectiveReceive
        | A::DeviceSelfTest => nsid != 0,
        _ => false,
    };
    match check(state) {
        Err(status) if needs_access => Err(status),
        Err(_) if opcode == A::SetFeatures => {
            refuse_if(cdw10 >> 31 != 0, Status::FEATURE_NOT_SAVEABLE)
        }
        _ => Ok(()),
    }
}

/// Content of the log page as a controller has last seen it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub state: AccessState,
    /// Attached namespaces, in order.
    pub namespaces: Vec<u32>,
}

impl Access {
    /// Log page, after this number of changes; the host may omit the namespaces.
    pub fn log(&self, changes: u64, groups_only: bool) -> Vec<u8> {
        let groups = u16::from(!self.namespaces.is_empty());
        let head =
            AccessLog { changes: changes.into(), groups: groups.into(), ..AccessLog::default() };
        let listed = if groups_only { &[] } else { &self.namespaces[..] };
        let group = AccessGroup {
            id: GROUP.into(),
            namespaces: (listed.len() as u32).into(),
            changes: changes.into(),
            state: self.state as u8,
            ..AccessGroup::default()
        };
        let mut page = bytes_of(&head);
        if groups > 0 {
            page.extend_from_slice(group.as_bytes());
            page.extend(listed.iter().flat_map(|nsid| nsid.to_le_bytes()));
        }
        page
    }
}
