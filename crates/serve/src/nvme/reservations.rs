//! Reservations: hosts that share a namespace coordinate their write access.
//!
//! Source: NVM Express base specification 2.0, Reservations (8.19) and their commands. A host is
//! identified by its 128-bit identifier, which it sends when it connects. Registrations and
//! reservations with persistence through power loss (PTPL) outlast power cuts, and the end of a
//! server with `--state`. Left out: hosts over PCIe, which have no identifier and so cannot
//! register; commands in flight of a preempted host are completed, not aborted. Clients of other
//! protocols know nothing of reservations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use drivebay_wire::nvme::{
    NvmOpcode, RegisteredController, ReservationNotice, ReservationNotification, ReservationReport,
    ReservationType, Sqe, Status,
};
use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes;

use super::refuse::refuse_if;
use crate::lock::lock;
use crate::namespace::NAMESPACES_MAX;

/// Reservation capabilities of namespaces: persistence through power loss, all types, "ignore
/// existing key" as from version 1.3 on.
pub(super) const RESCAP: u8 = 0xff;
/// Identifier for a host without a controller at present.
const NO_CONTROLLER: u16 = 0xffff;
/// Most notices that wait for a controller's host. guess: more than accumulate for a host that
/// reads them.
const NOTICES_MAX: usize = 64;

type HostId = [u8; 16];

/// Reservations that the subsystem and the I/O queues share.
#[derive(Clone, Default)]
pub(super) struct SharedReservations {
    all: Arc<Mutex<Reservations>>,
    /// Reserved namespaces, one bit for each number from 1 on: commands for other namespaces need
    /// no lock.
    reserved: Arc<AtomicU32>,
}

const _: () = assert!(NAMESPACES_MAX <= u32::BITS as usize);

impl SharedReservations {
    /// True if a reservation denies a controller this access to a namespace. `power_cuts` is the
    /// number of power cuts so far.
    pub fn exclude(&self, controller: u16, nsid: u32, access: Access, power_cuts: u64) -> bool {
        let reserved = self.reserved.load(Ordering::Relaxed);
        let is_reserved =
            (1..=NAMESPACES_MAX as u32).contains(&nsid) && reserved >> (nsid - 1) & 1 != 0;
        is_reserved && self.with(power_cuts, |all| all.exclude(controller, nsid, access))
    }

    /// Reads or changes the registrations, after dropping those that a power cut has lost.
    pub fn with<T>(&self, power_cuts: u64, act: impl FnOnce(&mut Reservations) -> T) -> T {
        let mut all = lock(&self.all);
        if power_cuts > all.power_cuts {
            all.power_cuts = power_cuts;
            all.lose_power();
        }
        let result = act(&mut all);
        let bit = |(nsid, registrations): (&u32, &Registrations)| {
            u32::from(registrations.reservation.is_some()) << (nsid - 1)
        };
        self.reserved.store(all.namespaces.iter().map(bit).sum(), Ordering::Relaxed);
        result
    }
}

/// True for the commands that manage reservations.
pub(super) fn is_reservation(opcode: NvmOpcode) -> bool {
    use NvmOpcode as N;
    matches!(
        opcode,
        N::ReservationRegister
            | N::ReservationReport
            | N::ReservationAcquire
            | N::ReservationRelease
    )
}

/// Access to a namespace, as far as reservations control it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    /// Access of an I/O command; `None` for commands that reservations always allow.
    pub fn from_opcode(opcode: NvmOpcode) -> Option<Access> {
        use NvmOpcode as N;
        match opcode {
            N::Read | N::Compare | N::Verify => Some(Access::Read),
            N::IoManagementReceive | N::ZoneManagementReceive => None,
            _ if is_reservation(opcode) => None,
            _ => Some(Access::Write),
        }
    }
}

/// All registrations and reservations, and the notices for hosts.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Reservations {
    namespaces: BTreeMap<u32, Registrations>,
    #[serde(skip)]
    controllers: BTreeMap<u16, Notified>,
    #[serde(skip)]
    power_cuts: u64,
}

/// Host of a controller and its unread notices.
#[derive(Default)]
struct Notified {
    host: HostId,
    /// Masked kinds of notices, one bit for each.
    mask: u32,
    notices: VecDeque<(ReservationNotice, u32)>,
    /// Number of notices so far.
    count: u64,
    /// True if a notice has come since the last check.
    is_new: bool,
}

/// Registrations and reservation of a namespace.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Registrations {
    generation: u32,
    /// Hosts and their keys.
    registrants: Vec<(HostId, u64)>,
    /// Code of the type, and the holder.
    reservation: Option<(u8, HostId)>,
    /// True if they outlast a loss of power.
    persists: bool,
}

/// Outcome of a command: notices and the hosts that receive them.
type Notices = Vec<(HostId, ReservationNotice)>;

impl Registrations {
    fn key_of(&self, host: &HostId) -> Option<u64> {
        self.registrants.iter().find(|(registrant, _)| registrant == host).map(|&(_, key)| key)
    }

    fn kind(&self) -> Option<ReservationType> {
        self.reservation.and_then(|(code, _)| ReservationType::from_code(code))
    }

    /// True if the host is a holder of the reservation.
    fn is_held_by(&self, host: &HostId) -> bool {
        let Some((_, holder)) = self.reservation else { return false };
        holder == *host || (self.is_of_all() && self.key_of(host).is_some())
    }

    fn is_of_all(&self) -> bool {
        self.kind().is_some_and(ReservationType::is_of_all)
    }

    /// Notices for all registrants other than this host.
    fn notify_others(&self, host: &HostId, notice: ReservationNotice) -> Notices {
        let others = self.registrants.iter().filter(|(registrant, _)| registrant != host);
        others.map(|&(registrant, _)| (registrant, notice)).collect()
    }

    /// Ends the reservation of a host; returns the notices.
    fn release(&mut self, host: &HostId) -> Notices {
        let admitted = self.kind().is_some_and(ReservationType::admits_registrants);
        self.reservation = None;
        if admitted {
            self.notify_others(host, ReservationNotice::Released)
        } else {
            Notices::new()
        }
    }

    /// Registers a key, unregisters the host, or replaces its key (RREGA).
    fn register(&mut self, host: &HostId, sqe: &Sqe, keys: [u64; 2]) -> Result<Notices, Status> {
        let (action, ignores_key) = action_of(sqe);
        let [current, new] = keys;
        let has = self.key_of(host);
        let is_his = ignores_key || has == Some(current);
        let persists = match sqe.cdw10.get() >> 30 {
            0 => self.persists,
            2 => false,
            3 => true,
            _ => return invalid_field(),
        };
        let mut notices = Notices::new();
        match (action, has) {
            (0 | 2, _) if new == 0 => return invalid_field(),
            (0, Some(key)) if key != new => return conflict(),
            (0, Some(_)) => {}
            (0, None) => self.add(host, new),
            (1, Some(_)) if is_his => {
                self.registrants.retain(|(registrant, _)| registrant != host);
                self.generation = self.generation.wrapping_add(1);
                let holds = self.reservation.is_some_and(|(_, holder)| holder == *host);
                match self.registrants.first() {
                    // All registrants hold it, so another one becomes the recorded holder.
                    Some(&(other, _)) if holds && self.is_of_all() => {
                        self.reservation = self.reservation.map(|(kind, _)| (kind, other));
                    }
                    _ if holds => notices = self.release(host),
                    _ => {}
                }
            }
            (2, Some(_)) if is_his => {
                self.registrants.retain(|(registrant, _)| registrant != host);
                self.add(host, new);
            }
            // With "ignore existing key" the host need not be registered.
            (2, None) if ignores_key => self.add(host, new),
            (1 | 2, _) => return conflict(),
            _ => return invalid_field(),
        }
        self.persists = persists;
        Ok(notices)
    }

    fn add(&mut self, host: &HostId, key: u64) {
        self.registrants.push((*host, key));
        self.generation = self.generation.wrapping_add(1);
    }

    /// Acquires the reservation, also by preempting others (RACQA).
    fn acquire(&mut self, host: &HostId, sqe: &Sqe, keys: [u64; 2]) -> Result<Notices, Status> {
        let code = (sqe.cdw10.get() >> 8) as u8;
        let kind = ReservationType::from_code(code).ok_or(Status::INVALID_FIELD.dnr())?;
        match self.action_of_registrant(host, sqe, keys[0])? {
            0 => match self.reservation {
                None => self.reservation = Some((code, *host)),
                Some((held, _)) if held == code && self.is_held_by(host) => {}
                Some(_) => return conflict(),
            },
            1 | 2 => return self.preempt(host, kind, keys[1]),
            _ => return invalid_field(),
        }
        Ok(Notices::new())
    }

    /// Unregisters hosts with a key; if the holder is one of them, takes over the reservation. A
    /// key of 0 means all others if all registrants hold it.
    fn preempt(
        &mut self,
        host: &HostId,
        kind: ReservationType,
        preempted: u64,
    ) -> Result<Notices, Status> {
        let is_of_all = self.is_of_all();
        let holder_key = self.reservation.and_then(|(_, holder)| self.key_of(&holder));
        let takes_over = match is_of_all {
            true => preempted == 0,
            false => holder_key == Some(preempted),
        };
        refuse_if(preempted == 0 && !is_of_all, Status::INVALID_FIELD)?;
        let is_doomed = |&(registrant, key): &(HostId, u64)| {
            (preempted == 0 || key == preempted) && !(takes_over && registrant == *host)
        };
        let doomed: Vec<HostId> = self
            .registrants
            .iter()
            .filter(|registrant| is_doomed(registrant))
            .map(|&(registrant, _)| registrant)
            .collect();
        refuse_if(doomed.is_empty() && !takes_over, Status::RESERVATION_CONFLICT)?;
        self.registrants.retain(|registrant| !is_doomed(registrant));
        let gone = doomed.iter().filter(|registrant| *registrant != host);
        let mut notices: Notices = gone
            .map(|&registrant| (registrant, ReservationNotice::RegistrationPreempted))
            .collect();
        if takes_over {
            let changes = self.kind() != Some(kind);
            let released = self.release(host);
            notices.extend(released.into_iter().filter(|_| changes));
            self.reservation = Some((kind as u8, *host));
        } else if let Some((code, holder)) = self.reservation
            && doomed.contains(&holder)
        {
            // All registrants held it: the remaining ones still do.
            self.reservation = self.registrants.first().map(|&(other, _)| (code, other));
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(notices)
    }

    /// Releases the reservation, or clears it and all registrations (RRELA).
    fn give_up(&mut self, host: &HostId, sqe: &Sqe, key: u64) -> Result<Notices, Status> {
        match (self.action_of_registrant(host, sqe, key)?, self.reservation) {
            (0, Some((code, _))) if code != (sqe.cdw10.get() >> 8) as u8 => invalid_field(),
            (0, _) if !self.is_held_by(host) => Ok(Notices::new()),
            (0, _) => Ok(self.release(host)),
            (1, _) => {
                let notices = self.notify_others(host, ReservationNotice::Preempted);
                (self.registrants, self.reservation) = (Vec::new(), None);
                self.generation = self.generation.wrapping_add(1);
                Ok(notices)
            }
            _ => invalid_field(),
        }
    }

    /// Action of a host, which must be registered with this key.
    fn action_of_registrant(&self, host: &HostId, sqe: &Sqe, key: u64) -> Result<u32, Status> {
        let (action, ignores_key) = action_of(sqe);
        refuse_if(ignores_key, Status::INVALID_FIELD)?;
        refuse_if(self.key_of(host) != Some(key), Status::RESERVATION_CONFLICT)?;
        Ok(action)
    }
}

impl Reservations {
    /// Records the host of a controller, which has connected.
    pub fn join(&mut self, controller: u16, host: HostId) {
        self.controllers.entry(controller).or_default().host = host;
    }

    /// Removes a controller.
    pub fn leave(&mut self, controller: u16) {
        self.controllers.remove(&controller);
    }

    /// Removes a namespace.
    pub fn forget(&mut self, nsid: u32) {
        self.namespaces.remove(&nsid);
    }

    /// Drops registrations that do not outlast a loss of power.
    pub fn lose_power(&mut self) {
        self.namespaces.retain(|_, registrations| registrations.persists);
    }

    /// Restores saved registrations.
    pub fn restore(&mut self, kept: Reservations) {
        self.namespaces = kept.namespaces;
    }

    /// Returns the registrations to save next to the drive's state.
    pub fn kept(&mut self) -> Reservations {
        self.lose_power();
        Reservations { namespaces: self.namespaces.clone(), ..Reservations::default() }
    }

    /// Checks saved registrations: numbers of namespaces and types are valid, and the holders are
    /// registrants.
    pub fn are_sound(&self) -> bool {
        self.namespaces.iter().all(|(&nsid, registrations)| {
            let is_held = |(code, holder)| {
                ReservationType::from_code(code).is_some()
                    && registrations.key_of(&holder).is_some()
            };
            (1..=NAMESPACES_MAX as u32).contains(&nsid)
                && registrations.reservation.is_none_or(is_held)
        })
    }

    /// True if a namespace's registrations outlast a loss of power.
    pub fn persist(&self, nsid: u32) -> bool {
        self.namespaces.get(&nsid).is_some_and(|registrations| registrations.persists)
    }

    /// Set Features, Reservation Persistence.
    pub fn set_persist(&mut self, nsid: u32, persists: bool) {
        self.namespaces.entry(nsid).or_default().persists = persists;
    }

    /// Set Features, Reservation Notification Mask.
    pub fn set_mask(&mut self, controller: u16, mask: u32) {
        self.controllers.entry(controller).or_default().mask = mask;
    }

    fn exclude(&self, controller: u16, nsid: u32, access: Access) -> bool {
        let Some(registrations) = self.namespaces.get(&nsid) else { return false };
        let Some(kind) = registrations.kind() else { return false };
        // Without a host over TCP a controller has no access, even if a host's identifier is all
        // zeros.
        let is_admitted =
            self.controllers.get(&controller).is_some_and(|Notified { host, .. }| {
                registrations.is_held_by(host)
                    || (kind.admits_registrants() && registrations.key_of(host).is_some())
            });
        !is_admitted && (access == Access::Write || kind.excludes_reads())
    }

    /// Executes Reservation Register, Acquire or Release of a controller's host, with its keys; or
    /// Report, and returns its data.
    pub fn execute(
        &mut self,
        controller: u16,
        opcode: NvmOpcode,
        sqe: &Sqe,
        data: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let nsid = sqe.nsid.get();
        let host = self.controllers.get(&controller).map(|notified| notified.host);
        let host = host.ok_or(Status::INVALID_OPCODE.dnr())?;
        if opcode == NvmOpcode::ReservationReport {
            return self.report(nsid, sqe);
        }
        let key = |place: usize| data.get(8 * place..8 * place + 8).and_then(|b| b.try_into().ok());
        let key =
            |place| key(place).map(u64::from_le_bytes).ok_or(Status::SGL_LENGTH_INVALID.dnr());
        let registrations = self.namespaces.entry(nsid).or_default();
        let notices = match opcode {
            NvmOpcode::ReservationRegister => {
                registrations.register(&host, sqe, [key(0)?, key(1)?])
            }
            NvmOpcode::ReservationAcquire => registrations.acquire(&host, sqe, [key(0)?, key(1)?]),
            _ => registrations.give_up(&host, sqe, key(0)?),
        }?;
        for (host, notice) in notices {
            let theirs = self.controllers.values_mut().filter(|notified| notified.host == host);
            for notified in theirs.filter(|notified| notified.mask >> notice as u32 & 1 == 0) {
                if notified.notices.len() < NOTICES_MAX {
                    notified.notices.push_back((notice, nsid));
                    (notified.count, notified.is_new) = (notified.count + 1, true);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Reservation Report; only in its extended form, as host identifiers have 128 bits.
    fn report(&self, nsid: u32, sqe: &Sqe) -> Result<Vec<u8>, Status> {
        refuse_if(sqe.cdw11.get() & 1 == 0, Status::HOST_IDENTIFIER_FORMAT)?;
        let registrations = self.namespaces.get(&nsid).cloned().unwrap_or_default();
        let (mut controllers, mut entries) = (0_u16, Vec::new());
        for (host, key) in &registrations.registrants {
            let theirs = self.controllers.iter().filter(|(_, notified)| notified.host == *host);
            let mut theirs: Vec<u16> = theirs.map(|(&id, _)| id).collect();
            if theirs.is_empty() {
                theirs.push(NO_CONTROLLER);
            }
            for controller in theirs {
                let entry = RegisteredController {
                    controller: controller.into(),
                    status: registrations.is_held_by(host).into(),
                    key: (*key).into(),
                    host: *host,
                    ..RegisteredController::default()
                };
                entries.extend_from_slice(entry.as_bytes());
                controllers += 1;
            }
        }
        let head = ReservationReport {
            generation: registrations.generation.into(),
            kind: registrations.reservation.map_or(0, |(code, _)| code),
            controllers: controllers.into(),
            persists: registrations.persists.into(),
            ..ReservationReport::default()
        };
        let mut page = [head.as_bytes(), &entries].concat();
        page.resize((sqe.cdw10.get() as usize + 1) * 4, 0);
        Ok(page)
    }

    /// True if a notice has come since the last call.
    pub fn has_news(&mut self, controller: u16) -> bool {
        let notified = self.controllers.get_mut(&controller);
        notified.is_some_and(|notified| std::mem::take(&mut notified.is_new))
    }

    /// Reservation Notification log page: the oldest notice, which `is_read` removes, or an empty
    /// one.
    pub fn notification(&mut self, controller: u16, is_read: bool) -> ReservationNotification {
        let empty = ReservationNotification::default();
        let Some(notified) = self.controllers.get_mut(&controller) else { return empty };
        let Some(&(notice, nsid)) = notified.notices.front() else { return empty };
        let more = notified.notices.len() - 1;
        if is_read {
            notified.notices.pop_front();
            notified.is_new = more > 0;
        }
        ReservationNotification {
            count: (notified.count - more as u64).into(),
            kind: notice as u8,
            more: more as u8,
            nsid: nsid.into(),
            ..empty
        }
    }
}

/// Action of a reservation command; also returns true if it ignores the host's key.
fn action_of(sqe: &Sqe) -> (u32, bool) {
    (sqe.cdw10.get() & 7, sqe.cdw10.get() & 1 << 3 != 0)
}

fn invalid_field<T>() -> Result<T, Status> {
    Err(Status::INVALID_FIELD.dnr())
}

fn conflict<T>() -> Result<T, Status> {
    Err(Status::RESERVATION_CONFLICT.dnr())
}

#[cfg(test)]
#[path = "../../tests/unit/nvme_reservations.rs"]
mod tests;
