//! What all controllers of the drive share: identity, error log, sanitize state.
//!
//! Only the event loop of the drive uses it, and that of another one to which a host connects; no
//! I/O command needs it, so its lock is hardly ever waited for; what I/O queues read is in
//! [`super::controller::Flags`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use drivebay_units::Nanos;
use drivebay_wire::nvme::{AdminOpcode, ErrorEntry, Feature, NvmOpcode, Sqe, Status, padded};

use super::controller::Controller;
use super::identity::{Identity, Kind};
use super::records::Records;
use super::reservations::SharedReservations;
use super::tcp::Secrets;
use super::{placement, zones};
use crate::drive::{ControlError, Namespaces};
use crate::lock::lock;
use crate::memory_limit::MemoryLimit;
use crate::namespace::NamespaceError;

/// Controllers at a time, at most; each costs under a kilobyte.
const CONTROLLERS_MAX: usize = 32;
/// Of a command's flags: fused operation.
const FUSED: u8 = 3;
/// "No field of the command is to blame."
const NO_LOCATION: u16 = 0xffff;

/// A subsystem that sessions share.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Subsystem>>);

impl Shared {
    /// The subsystem; not to be held across calls that take it again.
    pub fn lock(&self) -> MutexGuard<'_, Subsystem> {
        lock(&self.0)
    }
}

/// The subsystems of all drives of a server, by the number of the drive.
#[derive(Clone)]
pub struct Subsystems {
    all: Arc<[(Shared, String)]>,
    /// What memory their sessions may take.
    pub(super) memory: MemoryLimit,
}

impl Subsystems {
    /// One for each drive.
    pub fn new(subsystems: impl IntoIterator<Item = Shared>, memory: &MemoryLimit) -> Subsystems {
        let named = |one: Shared| {
            let nqn = one.lock().identity.drive.nqn.clone();
            (one, nqn)
        };
        let all = subsystems.into_iter().map(named).collect();
        Subsystems { all, memory: memory.clone() }
    }

    pub(super) fn of(&self, drive: usize) -> &Shared {
        &self.all[drive].0
    }

    pub(super) fn is_one(&self) -> bool {
        self.all.len() == 1
    }

    /// The number of the drive with this name.
    pub(super) fn find(&self, nqn: &str) -> Option<usize> {
        self.names().position(|one| one == nqn)
    }

    /// Of all subsystems, by the number of the drive.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.all.iter().map(|(_, nqn)| nqn.as_str())
    }
}

/// The drive as hosts see it.
pub struct Subsystem {
    pub(super) identity: Identity,
    controllers: BTreeMap<u16, Controller>,
    pub(super) records: Records,
    /// Until when a sanitize operation goes on, on the drive's clock, nanoseconds; 0 where none
    /// does.
    pub(super) sanitizing_until: Arc<AtomicU64>,
    /// Events of placement, which I/O commands give rise to as well.
    pub(super) placement: Arc<Mutex<placement::Events>>,
    /// Who has registered and reserved what, which I/O commands change.
    pub(super) reservations: SharedReservations,
    /// What hosts over TCP must know; none where anybody may connect.
    pub(super) secrets: Option<Arc<Secrets>>,
    /// Namespaces that new controllers have.
    attached: BTreeSet<u32>,
    /// Namespaces that one controller at a time may have.
    pub(super) private: BTreeSet<u32>,
}

impl Subsystem {
    /// A subsystem without controllers, whose namespaces all of them will have.
    pub fn shared(identity: Identity, namespaces: &dyn Namespaces) -> Shared {
        let is_private =
            |nsid: &u32| namespaces.namespace(*nsid).is_some_and(|one| !one.is_shared());
        let all = namespaces.namespace_ids();
        let placement = placement::Events::new(identity.placement);
        let mut records = Records::default();
        records.firmware.slots[0] = Some(padded(&identity.own.firmware));
        Shared(Arc::new(Mutex::new(Subsystem {
            identity,
            controllers: BTreeMap::new(),
            records,
            sanitizing_until: Arc::default(),
            placement: Arc::new(Mutex::new(placement)),
            reservations: SharedReservations::default(),
            secrets: None,
            attached: all.iter().copied().collect(),
            private: all.into_iter().filter(is_private).collect(),
        })))
    }

    /// Goes on with what its logs held at `now`, the time of a drive that was switched off;
    /// firmware that waits for a reset runs.
    pub(crate) fn restore_records(&mut self, records: Records, now: Nanos) {
        let profiles = self.records.firmware.slots[0];
        self.records = records;
        self.records.firmware.slots[0] = profiles;
        self.records.timestamp.stop(now);
        let kept = std::mem::take(&mut self.records.placement);
        lock(&self.placement).restore(kept);
        let kept = std::mem::take(&mut self.records.reservations);
        self.reservations.with(0, |all| all.restore(kept));
        self.activate_firmware();
        if let Some(one) = self.records.sanitize.filter(|one| one.goes_on(now)) {
            self.sanitizing_until.store(one.until.0, Ordering::Relaxed);
        }
    }

    /// Gives away what its logs hold, at the end: it is `now`, and will be `later` when the drive
    /// is switched on again. A sanitize operation goes on then.
    pub(crate) fn take_records(&mut self, now: Nanos, later: Nanos) -> Records {
        let mut records = std::mem::take(&mut self.records);
        records.placement = std::mem::take(&mut lock(&self.placement));
        records.reservations = self.reservations.with(0, |all| all.kept());
        if let Some(one) = records.sanitize.as_mut().filter(|one| one.goes_on(now)) {
            let missed = later.since_or_zero(now);
            (one.from, one.until, one.cuts) = (one.from.after(missed), one.until.after(missed), 0);
        }
        records
    }

    /// From now on hosts over TCP must know these.
    pub(crate) fn require(&mut self, secrets: Secrets) {
        self.secrets = Some(Arc::new(secrets));
    }

    /// The drive's names.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Controllers at present.
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// Makes a controller; none if there are too many.
    pub(super) fn add(&mut self, kind: Kind) -> Option<u16> {
        if self.controllers.len() >= CONTROLLERS_MAX {
            return None;
        }
        // The lowest that is free: a host that connects again after a reset finds its number where
        // it was, which tools that keep one rely on.
        let id = (1..).find(|id| !self.controllers.contains_key(id))?;
        let controller = Controller::new(
            id,
            kind,
            &self.identity,
            &self.sanitizing_until,
            &self.placement,
            &self.reservations,
        );
        for &nsid in self.attached.iter().filter(|_| kind != Kind::Discovery) {
            let is_free = || !self.controllers.values().any(|one| one.flags.is_attached(nsid));
            controller.flags.attach(nsid, !self.private.contains(&nsid) || is_free());
        }
        self.controllers.insert(id, controller);
        Some(id)
    }

    /// Controllers of the drive, from this identifier on.
    pub(super) fn controllers_from(&self, id: u16) -> impl Iterator<Item = (u16, &Controller)> {
        let of_drive = |(_, one): &(&u16, &Controller)| one.kind != Kind::Discovery;
        self.controllers.range(id..).filter(of_drive).map(|(&id, one)| (id, one))
    }

    /// Attaches a namespace to controllers, or detaches it. New controllers have it if it is
    /// attached to one of those that there are, as those of fabrics come and go with their
    /// connections.
    pub(super) fn attach(&mut self, nsid: u32, controllers: &[u16], is_attached: bool) {
        for id in controllers {
            if let Some(controller) = self.controllers.get(id) {
                controller.flags.attach(nsid, is_attached);
            }
        }
        if self.controllers_from(0).any(|(_, one)| one.flags.is_attached(nsid)) {
            self.attached.insert(nsid);
        } else {
            self.attached.remove(&nsid);
        }
    }

    /// A namespace is gone: no controller has it.
    pub(super) fn detach_from_all(&mut self, nsid: u32) {
        let all: Vec<u16> = self.controllers.keys().copied().collect();
        self.attach(nsid, &all, false);
        self.reservations.with(0, |all| all.forget(nsid));
    }

    pub(super) fn remove(&mut self, id: u16) {
        self.reservations.with(0, |all| all.leave(id));
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

    /// Enters a command that failed into the error log; `is_active`: its namespace is attached to
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
        records.errors.truncate(usize::from(self.identity.own.error_entries));
        let is_io = queue != 0;
        let zones = self.identity.zones.as_ref().filter(|_| is_io && is_active);
        let in_zone = zones.and_then(|zones| zones::blamed(sqe, status.without_dnr(), zones));
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

/// The field of a command that is to blame for its status: the byte, and the bit within it in bits
/// 10:8. `active`: of a command of an I/O queue, whether its namespace is attached.
fn location(kind: Kind, active: Option<bool>, sqe: &Sqe, status: Status) -> u16 {
    const NAMESPACE: u16 = 4;
    const DATA_POINTER: u16 = 24;
    const DWORD_10: u16 = 40;
    const DWORD_11: u16 = 44;
    const DWORD_12: u16 = 48;
    use NvmOpcode as N;
    let is_io = active.is_some();
    let opcode = NvmOpcode::of(sqe.opcode).filter(|_| is_io);
    // Data to which no place in the command leads.
    let in_ranges = matches!(opcode, Some(N::DatasetManagement | N::Copy));
    let has_action = matches!(
        opcode,
        Some(
            N::IoManagementReceive
                | N::IoManagementSend
                | N::ReservationRegister
                | N::ReservationAcquire
                | N::ReservationRelease
        )
    );
    let is_of_format = opcode == Some(N::Copy) && sqe.cdw12.get() >> 8 & 0xf != 0;
    let sets_feature = !is_io && AdminOpcode::of(sqe.opcode) == Some(AdminOpcode::SetFeatures);
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
        Status::INVALID_FIELD if !is_io && let Some(place) = placement::blamed(sqe) => place,
        Status::INVALID_FIELD if is_of_format => DWORD_12 + 1,
        // The directive; else how many blocks there are.
        Status::INVALID_FIELD if is_io && sqe.directive() != 0 => (DWORD_12 + 2) | 4 << 8,
        Status::INVALID_FIELD | Status::COMMAND_SIZE_LIMIT if is_io => DWORD_12,
        Status::INVALID_FIELD if sets_feature && Feature::of(sqe.cdw10.get() as u8).is_some() => {
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

/// Checks what tells how a command's data pointer is to be read: PRPs over PCIe, an SGL over
/// fabrics.
pub(super) fn check_flags(kind: Kind, sqe: &Sqe) -> Result<(), Status> {
    let pointer = if kind == Kind::Pci { 0 } else { 1 };
    let is_right = sqe.flags & FUSED == 0 && sqe.flags >> 6 == pointer;
    if is_right { Ok(()) } else { Err(Status::INVALID_FIELD.dnr()) }
}

/// Why namespaces could not be changed, as a host is told.
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
