//! Controller of one host: registers, features, events, keep-alive.
//!
//! Source: NVM Express base specification 1.4, sections 3.1 (registers), 7.6 (start and shutdown),
//! 7.12 (keep-alive). The properties of fabrics are these registers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use drivebay_units::Nanos;
use drivebay_wire::nvme::{CC_ALL_COMMAND_SETS, Feature, Status};

use super::access::{self, Access};
use super::events::{ACCESS_NOTICES, Event, Events, NAMESPACE_NOTICES, ZONE_NOTICES};
use super::features::Features;
use super::identity::{Identity, Kind};
use super::reservations::SharedReservations;
use super::{placement, zones};
use crate::interface::drive::{Drive, Namespaces};
use crate::lock::lock;
use crate::namespace::NAMESPACES_MAX;

/// CC: enabled.
const CC_ENABLE: u32 = 1;
/// CC: command sets, in bits 6:4.
const CC_COMMAND_SETS_SHIFT: u32 = 4;
/// CC: shutdown notification, in bits 15:14.
const CC_SHUTDOWN_SHIFT: u32 = 14;
/// CSTS: ready.
const CSTS_READY: u32 = 1;
/// CSTS: shutdown done, in bits 3:2.
const CSTS_SHUTDOWN_DONE: u32 = 2 << 2;
/// CSTS: shutdown going on.
const CSTS_SHUTDOWN_BUSY: u32 = 1 << 2;
/// CAP: timeout to become ready, in 500 ms.
const CAP_TIMEOUT: u64 = 20;
/// CRTO: the same timeout.
pub(super) const READY_TIMEOUTS: u32 = CAP_TIMEOUT as u32;

/// Action of the transport after a write of CC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No action.
    None,
    /// Drop all state of the queues, which are deleted.
    Reset,
    /// Flush the drive, then call [`Controller::shut_down`].
    Shutdown,
}

/// Abort command for a command of an I/O queue, which has its own connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abort {
    /// Identifier of the Abort command.
    pub cid: u16,
    pub queue: u16,
    /// Identifier of the command to abort.
    pub target: u16,
    /// Result of the abort, after the queue has looked for the command.
    pub outcome: Option<bool>,
}

/// State that the subsystem and all of its controllers share.
#[derive(Clone, Default)]
pub(super) struct SharedState {
    /// End of the running sanitize operation on the drive's clock, nanoseconds; 0 without one.
    pub sanitizing_until: Arc<AtomicU64>,
    /// Placement events, which I/O commands also cause.
    pub placement: Arc<Mutex<placement::Events>>,
    /// Registrations and reservations, which I/O commands change.
    pub reservations: SharedReservations,
}

/// State of a controller that its I/O queues read without a lock.
pub(super) struct Flags {
    epoch: AtomicU32,
    write_cache: AtomicBool,
    is_alive: AtomicBool,
    /// True while I/O commands are executed: from the enabling to a shutdown.
    serves: AtomicBool,
    /// True if the controller was enabled with all command sets, not with the NVM command set only.
    has_all_command_sets: AtomicBool,
    pub shared: SharedState,
    pub kind: Kind,
    /// Controller identifier.
    pub controller: u16,
    /// Number of the host's portal; 0 for other transports, and for the only one.
    pub portal: u16,
    /// Attached namespaces, one bit for each number from 1 on.
    attached: [AtomicU64; NAMESPACES_MAX.div_ceil(64)],
}

/// Epoch of a controller that was removed.
const GONE: u32 = u32::MAX;

impl Flags {
    /// Number of resets; queues of an earlier epoch are gone.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// True if writes may stay in the drive's buffer.
    pub fn write_cache(&self) -> bool {
        self.write_cache.load(Ordering::Relaxed)
    }

    /// True if I/O commands are executed: from the enabling to a shutdown or reset, after which the
    /// host must reset and enable the controller again.
    pub fn serves(&self) -> bool {
        self.serves.load(Ordering::Relaxed)
    }

    /// True if the controller was enabled with all of its command sets; otherwise namespaces with
    /// zones cannot be used.
    pub fn has_all_command_sets(&self) -> bool {
        self.has_all_command_sets.load(Ordering::Relaxed)
    }

    /// Time until which the drive only sanitizes, on its clock; zero without a sanitize operation.
    pub fn sanitizing_until(&self) -> Nanos {
        Nanos(self.shared.sanitizing_until.load(Ordering::Relaxed))
    }

    /// Locks the placement events; must not be held.
    pub fn placement(&self) -> MutexGuard<'_, placement::Events> {
        lock(&self.shared.placement)
    }

    /// True if a namespace with this number exists and is attached.
    pub fn is_attached(&self, nsid: u32) -> bool {
        let (place, bit) = place_of(nsid);
        self.attached.get(place).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Attaches or detaches a namespace.
    pub fn attach(&self, nsid: u32, is_attached: bool) {
        let (place, bit) = place_of(nsid);
        match is_attached {
            true => self.attached[place].fetch_or(bit, Ordering::Relaxed),
            false => self.attached[place].fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Records that the host has sent a command.
    pub fn note_traffic(&self) {
        self.is_alive.store(true, Ordering::Relaxed);
    }
}

/// Index of the word and mask of a namespace's bit.
fn place_of(nsid: u32) -> (usize, u64) {
    let index = (nsid as usize).wrapping_sub(1);
    (index / 64, 1 << (index % 64))
}

/// State of one controller.
pub(super) struct Controller {
    pub kind: Kind,
    pub host_nqn: String,
    pub features: Features,
    pub events: Events,
    /// Namespaces that have changed since the host read the list.
    pub changed: BTreeSet<u32>,
    /// Zones that were read-only or offline at the last check.
    failed_zones: Option<BTreeSet<usize>>,
    /// Zones that the drive has changed on its own since the host read the list.
    pub changed_zones: BTreeSet<usize>,
    /// Number of changes of each namespace at the last check; 0 for those that were not attached.
    seen: Option<Vec<u64>>,
    /// Access through the host's portal at the last check.
    pub access: Option<Access>,
    /// Number of changes of it since the last reset.
    pub access_changes: u64,
    /// Abort commands that wait for a connection to look for the command.
    pub aborts: Vec<Abort>,
    /// Long-running admin commands: end on the drive's clock, and command identifier.
    pub slow: Vec<(Nanos, u16)>,
    /// Connected I/O queues, by identifier minus one.
    pub queues: u64,
    pub flags: Arc<Flags>,
    pub cap: u64,
    pub cc: u32,
    pub csts: u32,
    last_heard: Instant,
}

impl Controller {
    pub fn new(
        (id, portal): (u16, u16),
        kind: Kind,
        identity: &Identity,
        shared: &SharedState,
    ) -> Controller {
        let entries = u64::from(identity.queue_entries_max - 1);
        // Contiguous queues; the NVM command set, and command sets by their identifiers; pages of 4
        // KiB; ready with media.
        let cap = entries | 1 << 16 | CAP_TIMEOUT << 24 | 1 << 37 | 1 << 43 | 1 << 59;
        Controller {
            kind,
            host_nqn: String::new(),
            features: Features::new(identity),
            events: Events::new(identity.own.events_max),
            changed: BTreeSet::new(),
            failed_zones: None,
            changed_zones: BTreeSet::new(),
            seen: None,
            access: None,
            access_changes: 0,
            aborts: Vec::new(),
            slow: Vec::new(),
            queues: 0,
            flags: Arc::new(Flags {
                epoch: AtomicU32::new(0),
                write_cache: AtomicBool::new(true),
                is_alive: AtomicBool::new(true),
                serves: AtomicBool::new(false),
                has_all_command_sets: AtomicBool::new(false),
                shared: shared.clone(),
                kind,
                controller: id,
                portal,
                attached: Default::default(),
            }),
            cc: 0,
            csts: 0,
            cap,
            last_heard: Instant::now(),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.csts & CSTS_READY != 0
    }

    /// Handles a write of CC.
    pub fn configure(&mut self, value: u32, identity: &Identity) -> Effect {
        let before = std::mem::replace(&mut self.cc, value);
        let (was, is) = (before & CC_ENABLE != 0, value & CC_ENABLE != 0);
        let shutdown = |cc: u32| cc >> CC_SHUTDOWN_SHIFT & 3 != 0;
        if was && !is {
            self.csts = 0;
            self.queues = 0;
            self.flags.serves.store(false, Ordering::Relaxed);
            self.flags.epoch.fetch_add(1, Ordering::Relaxed);
            let mut features = Features::new(identity);
            features[Feature::KeepAliveTimer] = self.features[Feature::KeepAliveTimer];
            features.host_id = self.features.host_id;
            self.features = features;
            self.publish_features();
            self.events = Events::new(identity.own.events_max);
            self.changed.clear();
            self.changed_zones.clear();
            self.access_changes = 0;
            self.aborts.clear();
            self.slow.clear();
            return Effect::Reset;
        }
        if !was && is {
            self.csts = CSTS_READY;
            let has_all = value >> CC_COMMAND_SETS_SHIFT & 7 == CC_ALL_COMMAND_SETS;
            self.flags.has_all_command_sets.store(has_all, Ordering::Relaxed);
            self.flags.serves.store(true, Ordering::Relaxed);
        }
        if shutdown(value) && !shutdown(before) {
            self.csts = self.csts & !(3 << 2) | CSTS_SHUTDOWN_BUSY;
            self.flags.serves.store(false, Ordering::Relaxed);
            return Effect::Shutdown;
        }
        Effect::None
    }

    /// Records the namespaces that have changed since, or were attached or detached, and notifies a
    /// host that asked for it.
    pub fn check_namespaces(&mut self, namespaces: &dyn Namespaces) {
        let version = |nsid: u32| match namespaces.namespace(nsid) {
            Some(_) if self.flags.is_attached(nsid) => namespaces.table().changes(nsid) + 1,
            _ => 0,
        };
        let now: Vec<u64> = (1..=NAMESPACES_MAX as u32).map(version).collect();
        let seen = self.seen.get_or_insert_with(|| now.clone());
        let changed = (1..).zip(now.iter().zip(&*seen)).filter(|(_, (now, seen))| now != seen);
        let changed: Vec<u32> = changed.map(|(nsid, _)| nsid).collect();
        if changed.is_empty() {
            return;
        }
        self.seen = Some(now);
        self.note_changed(changed);
    }

    /// Records that all namespaces have changed, because the host has switched the write cache.
    pub fn note_write_cache(&mut self, namespaces: &dyn Namespaces) {
        let attached = |nsid: &u32| self.flags.is_attached(*nsid);
        self.note_changed(namespaces.namespace_ids().into_iter().filter(attached).collect());
    }

    fn note_changed(&mut self, changed: Vec<u32>) {
        self.changed.extend(changed);
        if self.features[Feature::AsyncEvents] & NAMESPACE_NOTICES != 0 {
            self.events.raise(Event::Namespaces);
        }
    }

    /// Records a change of the access through the host's portal, and notifies a host that asked for
    /// it of a new state.
    pub fn check_access(&mut self, namespaces: &dyn Namespaces) {
        let mut attached = namespaces.namespace_ids();
        attached.retain(|&nsid| self.flags.is_attached(nsid));
        let now =
            Access { state: access::state(namespaces, self.flags.portal), namespaces: attached };
        let before = self.access.replace(now.clone()).unwrap_or_else(|| now.clone());
        self.access_changes += u64::from(before != now);
        let asked = self.features[Feature::AsyncEvents] & ACCESS_NOTICES != 0;
        if asked && before.state != now.state {
            self.events.raise(Event::Access);
        }
    }

    /// Records the zones that the drive has changed on its own since, and notifies a host that
    /// asked for it.
    pub fn check_zones(&mut self, drive: &dyn Drive) {
        let failed: BTreeSet<usize> = zones::failed(drive.zones()).collect();
        let Some(before) = self.failed_zones.replace(failed.clone()) else { return };
        for &zone in failed.difference(&before) {
            self.changed_zones.insert(zone);
            let own = |nsid: &u32| drive.namespace(*nsid).is_some_and(|n| zones::is_of(zone, n));
            let nsid = drive.namespace_ids().into_iter().find(own);
            if self.features[Feature::AsyncEvents] & ZONE_NOTICES != 0 {
                nsid.into_iter().for_each(|nsid| self.events.raise(Event::Zones(nsid)));
            }
        }
    }

    /// Completes long-running commands that have ended.
    pub fn complete_slow(&mut self, now: Nanos) {
        for (_, cid) in self.slow.extract_if(.., |(until, _)| *until <= now) {
            self.events.complete(cid, Status::SUCCESS);
        }
    }

    /// Reports the end of the shutdown: the drive has flushed, and may be switched off.
    pub fn shut_down(&mut self) {
        self.csts = self.csts & !(3 << 2) | CSTS_SHUTDOWN_DONE;
    }

    /// Publishes changed features to the I/O queues. Returns true if the write cache was switched.
    pub fn publish_features(&self) -> bool {
        let write_cache = self.features.write_cache();
        self.flags.write_cache.swap(write_cache, Ordering::Relaxed) != write_cache
    }

    /// True if the host has been silent for too long; must be called regularly.
    pub fn is_lost(&mut self) -> bool {
        if self.flags.is_alive.swap(false, Ordering::Relaxed) {
            self.last_heard = Instant::now();
        }
        let allowed = Duration::from_millis(self.features[Feature::KeepAliveTimer].into());
        !allowed.is_zero() && self.last_heard.elapsed() > allowed
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.flags.epoch.store(GONE, Ordering::Relaxed);
    }
}
