//! State that all controllers of the drive share: identity, error log, sanitize state.
//!
//! Its lock is hardly ever contended: it is used only by the event loop of the drive, and by
//! another loop while a host connects; I/O commands do not need it. I/O queues read
//! [`super::controller::Flags`] instead.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use drivebay_units::Nanos;
use drivebay_wire::nvme::{AdminOpcode, ErrorEntry, Feature, NvmOpcode, Sqe, Status, padded};

use super::controller::{Controller, SharedState};
use super::identity::{Identity, Kind};
use super::records::Records;
use super::refuse::refuse_if;
use super::reservations::is_reservation;
use super::tcp::Secrets;
use super::{placement, zones};
use crate::interface::drive::ControlError;
use crate::lock::lock;
use crate::memory_limit::MemoryLimit;
use crate::namespace::{NamespaceError, NamespaceTable};

/// Most controllers at a time; each costs under a kilobyte.
const CONTROLLERS_MAX: usize = 32;
/// Fused operation, in a command's flags.
const FUSED: u8 = 3;
/// Location for an error that no field of the command caused.
const NO_LOCATION: u16 = 0xffff;

/// Subsystem that sessions share.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Subsystem>>);

impl Shared {
    /// Locks the subsystem; must not be held across calls that lock it again.
    pub fn lock(&self) -> MutexGuard<'_, Subsystem> {
        lock(&self.0)
    }
}

/// Subsystems of all drives of a server, by the number of the drive.
#[derive(Clone)]
pub struct Subsystems {
    all: Arc<[(Shared, String)]>,
    /// Addresses of the portals, in the order of their numbers.
    portals: Arc<OnceLock<Vec<SocketAddr>>>,
    /// Memory limit of the sessions.
    pub(super) memory: MemoryLimit,
}

impl Subsystems {
    /// Creates the list from one subsystem per drive.
    pub fn new(subsystems: impl IntoIterator<Item = Shared>, memory: &MemoryLimit) -> Subsystems {
        let named = |subsystem: Shared| {
            let nqn = subsystem.lock().identity.drive.nqn.clone();
            (subsystem, nqn)
        };
        let all = subsystems.into_iter().map(named).collect();
        Subsystems { all, portals: Arc::default(), memory: memory.clone() }
    }

    /// Sets the addresses of the portals, once; without them the only one is that of the host.
    pub fn set_portals(&self, addresses: Vec<SocketAddr>) {
        let _ = self.portals.set(addresses);
    }

    /// Addresses of the portals for a host that has connected to `address`.
    pub(super) fn portals(&self, address: SocketAddr) -> Vec<SocketAddr> {
        let Some(all) = self.portals.get() else { return vec![address] };
        let reached = |portal: &SocketAddr| match portal.ip().is_unspecified() {
            true => SocketAddr::new(address.ip(), portal.port()),
            false => *portal,
        };
        all.iter().map(reached).collect()
    }

    /// Number of the portal at an address to which a host has connected.
    pub(super) fn portal_at(&self, address: SocketAddr) -> u16 {
        let place = self.portals(address).iter().position(|&portal| portal == address);
        place.map_or(0, |place| place as u16 + 1)
    }

    pub(super) fn subsystem(&self, drive: usize) -> &Shared {
        &self.all[drive].0
    }

    pub(super) fn has_one_drive(&self) -> bool {
        self.all.len() == 1
    }

    /// Number of the drive with this NQN.
    pub(super) fn find(&self, nqn: &str) -> Option<usize> {
        self.names().position(|name| name == nqn)
    }

    /// NQNs of all subsystems, by the number of the drive.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.all.iter().map(|(_, nqn)| nqn.as_str())
    }
}

/// The drive as hosts see it.
pub struct Subsystem {
    pub(super) identity: Identity,
    controllers: BTreeMap<u16, Controller>,
    pub(super) records: Records,
    /// Number of errors over the lifetime, which the drive reports with its figures.
    pub(crate) error_count: Arc<AtomicU64>,
    pub(super) shared: SharedState,
    /// Secrets for hosts over TCP; `None` if all hosts may connect.
    pub(super) secrets: Option<Arc<Secrets>>,
    /// Namespaces that are attached to new controllers.
    attached: BTreeSet<u32>,
    /// Namespaces that can be attached to only one controller at a time.
    pub(super) private: BTreeSet<u32>,
}

impl Subsystem {
    /// Creates a subsystem without controllers, whose namespaces will be attached to all of them.
    pub fn shared(identity: Identity, namespaces: &NamespaceTable) -> Shared {
        let private = namespaces.iter().filter(|(_, namespace)| !namespace.is_shared);
        let placement = Arc::new(Mutex::new(placement::Events::new(identity.placement)));
        let shared = SharedState { placement, ..SharedState::default() };
        let mut records = Records::default();
        records.firmware.slots[0] = Some(padded(&identity.own.firmware));
        Shared(Arc::new(Mutex::new(Subsystem {
            identity,
            controllers: BTreeMap::new(),
            records,
            error_count: Arc::default(),
            shared,
            secrets: None,
            attached: namespaces.iter().map(|(nsid, _)| nsid).collect(),
            private: private.map(|(nsid, _)| nsid).collect(),
        })))
    }

    /// Restores the logs at `now`, the time of a drive that was switched off; activates firmware
    /// that waits for a reset.
    pub(crate) fn restore_records(&mut self, records: Records, now: Nanos) {
        let profiles = self.records.firmware.slots[0];
        self.error_count.store(records.error_count, Ordering::Relaxed);
        self.records = records;
        self.records.firmware.slots[0] = profiles;
        self.records.timestamp.stop(now);
        let kept = std::mem::take(&mut self.records.placement);
        lock(&self.shared.placement).restore(kept);
        let kept = std::mem::take(&mut self.records.reservations);
        self.shared.reservations.with(0, |all| all.restore(kept));
        self.activate_firmware();
        if let Some(operation) = self.records.sanitize.filter(|operation| operation.goes_on(now)) {
            self.shared.sanitizing_until.store(operation.until.0, Ordering::Relaxed);
        }
    }

    /// Takes the content of the logs, at the end of the server. It is `now`, and will be `later`
    /// when the drive is switched on again; a sanitize operation continues then.
    pub(crate) fn take_records(&mut self, now: Nanos, later: Nanos) -> Records {
        let mut records = std::mem::take(&mut self.records);
        records.placement = std::mem::take(&mut lock(&self.shared.placement));
        records.reservations = self.shared.reservations.with(0, |all| all.kept());
        if let Some(operation) =
            records.sanitize.as_mut().filter(|operation| operation.goes_on(now))
        {
            let missed = later.since_or_zero(now);
            (operation.from, operation.until, operation.cuts) =
                (operation.from.after(missed), operation.until.after(missed), 0);
        }
        records
    }

    /// Requires these secrets of hosts over TCP from now on.
    pub(crate) fn require(&mut self, secrets: Secrets) {
        self.secrets = Some(Arc::new(secrets));
    }

    /// Names and constants of the drive.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Number of controllers.
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// Creates a controller of a host at this portal; `None` if there are too many.
    pub(super) fn add(&mut self, kind: Kind, portal: u16) -> Option<u16> {
        if self.controllers.len() >= CONTROLLERS_MAX {
            return None;
        }
        // The lowest free number: a host that connects again after a reset gets the same number,
        // which tools that store it rely on.
        let id = (1..).find(|id| !self.controllers.contains_key(id))?;
        let controller = Controller::new((id, portal), kind, &self.identity, &self.shared);
        for &nsid in self.attached.iter().filter(|_| kind != Kind::Discovery) {
            let is_free =
                || !self.controllers.values().any(|controller| controller.flags.is_attached(nsid));
            controller.flags.attach(nsid, !self.private.contains(&nsid) || is_free());
        }
        self.controllers.insert(id, controller);
        Some(id)
    }

    /// Controllers of the drive, from this identifier on.
    pub(super) fn controllers_from(&self, id: u16) -> impl Iterator<Item = (u16, &Controller)> {
        let of_drive = |(_, controller): &(&u16, &Controller)| controller.kind != Kind::Discovery;
        self.controllers.range(id..).filter(of_drive).map(|(&id, controller)| (id, controller))
    }

    /// Attaches a namespace to controllers, or detaches it. It is also attached to new controllers
    /// if it is attached to an existing one, as controllers of fabrics come and go with their
    /// connections.
    pub(super) fn attach(&mut self, nsid: u32, controllers: &[u16], is_attached: bool) {
        for id in controllers {
            if let Some(controller) = self.controllers.get(id) {
                controller.flags.attach(nsid, is_attached);
            }
        }
        if self.controllers_from(0).any(|(_, controller)| controller.flags.is_attached(nsid)) {
            self.attached.insert(nsid);
        } else {
            self.attached.remove(&nsid);
        }
    }

    /// Detaches a deleted namespace from all controllers.
    pub(super) fn detach_from_all(&mut self, nsid: u32) {
        let all: Vec<u16> = self.controllers.keys().copied().collect();
        self.attach(nsid, &all, false);
        self.shared.reservations.with(0, |all| all.forget(nsid));
    }

    pub(super) fn remove(&mut self, id: u16) {
        self.shared.reservations.with(0, |all| all.leave(id));
        self.controllers.remove(&id);
    }

    pub(super) fn controllers_mut(&mut self) -> impl Iterator<Item = &mut Controller> {
        self.controllers.values_mut()
    }

    pub(super) fn get(&self, id: u16) -> Option<&Controller> {
        self.controllers.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Controller> {
        self.controllers.get_mut(&id)
    }

    /// Adds a failed command to the error log; `is_active` is true if its namespace is attached to
    /// the controller.
    pub(super) fn log_error(
        &mut self,
        kind: Kind,
        queue: u16,
        is_active: bool,
        sqe: &Sqe,
        status: Status,
    ) {
        let records = &mut self.records;
        records.error_count += 1;
        self.error_count.store(records.error_count, Ordering::Relaxed);
        records.errors.truncate(usize::from(self.identity.own.error_entries));
        let is_io = queue != 0;
        let zones = self.identity.zones.as_ref().filter(|_| is_io && is_active);
        let in_zone =
            zones.and_then(|zones| zones::error_location(sqe, status.without_dnr(), zones));
        let place = is_io.then_some(is_active);
        let location = in_zone.unwrap_or_else(|| location(kind, place, sqe, status));
        records.errors.push_front(ErrorEntry {
            count: records.error_count.into(),
            sq_id: queue.into(),
            cid: sqe.cid,
            status_and_phase: (status.0 << 1).into(),
            location: location.into(),
            lba: if is_io { sqe.lba() } else { 0 }.into(),
            nsid: sqe.nsid,
            ..ErrorEntry::default()
        });
    }
}

/// Field of a command that caused its status: the byte, and the bit within it in bits 10:8.
/// `active`: for a command of an I/O queue, true if its namespace is attached.
fn location(kind: Kind, active: Option<bool>, sqe: &Sqe, status: Status) -> u16 {
    const NAMESPACE: u16 = 4;
    const DATA_POINTER: u16 = 24;
    const DWORD_10: u16 = 40;
    const DWORD_11: u16 = 44;
    const DWORD_12: u16 = 48;
    use NvmOpcode as N;
    let is_io = active.is_some();
    let opcode = NvmOpcode::from_code(sqe.opcode).filter(|_| is_io);
    // The location within the data cannot be expressed.
    let in_ranges = matches!(opcode, Some(N::DatasetManagement | N::Copy));
    let has_action = matches!(opcode, Some(N::IoManagementReceive | N::IoManagementSend))
        || opcode.is_some_and(is_reservation);
    let is_of_format = opcode == Some(N::Copy) && sqe.cdw12.get() >> 8 & 0xf != 0;
    let sets_feature =
        !is_io && AdminOpcode::from_code(sqe.opcode) == Some(AdminOpcode::SetFeatures);
    match status.without_dnr() {
        Status::INVALID_OPCODE => 0,
        Status::INVALID_FIELD if sqe.flags & FUSED != 0 => 1,
        Status::INVALID_FIELD if check_flags(kind, sqe).is_err() => 1 | 6 << 8,
        Status::INVALID_NAMESPACE => NAMESPACE,
        Status::SGL_LENGTH_INVALID
        | Status::SGL_TYPE_INVALID
        | Status::SGL_OFFSET_INVALID
        | Status::INVALID_PRP_OFFSET => DATA_POINTER,
        Status::LBA_OUT_OF_RANGE if in_ranges => NO_LOCATION,
        Status::INVALID_FIELD if active == Some(false) => NAMESPACE,
        Status::INVALID_FIELD if has_action => DWORD_10,
        Status::INVALID_FIELD if !is_io && let Some(place) = placement::error_location(sqe) => {
            place
        }
        Status::INVALID_FIELD if is_of_format => DWORD_12 + 1,
        // The directive; otherwise the number of blocks.
        Status::INVALID_FIELD if is_io && sqe.directive() != 0 => (DWORD_12 + 2) | 4 << 8,
        Status::INVALID_FIELD | Status::COMMAND_SIZE_LIMIT if is_io => DWORD_12,
        Status::INVALID_FIELD
            if sets_feature && Feature::from_code(sqe.cdw10.get() as u8).is_some() =>
        {
            DWORD_11
        }
        Status::INVALID_FIELD
        | Status::LBA_OUT_OF_RANGE
        | Status::INVALID_LOG_PAGE
        | Status::INVALID_FORMAT
        | Status::FEATURE_NOT_SAVEABLE
        | Status::INVALID_FIRMWARE_SLOT
        | Status::INVALID_FIRMWARE_IMAGE
        | Status::OVERLAPPING_RANGE
        | Status::SELF_TEST_IN_PROGRESS
        | Status::INVALID_QUEUE_IDENTIFIER => DWORD_10,
        Status::INVALID_QUEUE_SIZE => DWORD_10 + 2,
        _ => NO_LOCATION,
    }
}

/// Checks the flags that say how a command's data pointer is read: PRPs over PCIe, an SGL over
/// fabrics.
pub(super) fn check_flags(kind: Kind, sqe: &Sqe) -> Result<(), Status> {
    let pointer = if kind == Kind::Pci { 0 } else { 1 };
    refuse_if(sqe.flags & FUSED != 0 || sqe.flags >> 6 != pointer, Status::INVALID_FIELD)
}

/// Status that reports a failed change of namespaces to a host.
pub(super) fn status_of(why: &ControlError) -> Status {
    let ControlError::Namespace(why) = why else { return Status::INTERNAL_ERROR };
    match why {
        NamespaceError::NoPiece { .. } => Status::NAMESPACE_INSUFFICIENT_CAPACITY.dnr(),
        NamespaceError::TooMany(_) => Status::NAMESPACE_ID_UNAVAILABLE.dnr(),
        NamespaceError::ReadOnly(_) | NamespaceError::ReadOnlyDrive => {
            Status::NAMESPACE_WRITE_PROTECTED.dnr()
        }
        _ => Status::INTERNAL_ERROR,
    }
}
