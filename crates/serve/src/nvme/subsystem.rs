//! What all controllers of the drive share: identity, error log, sanitize state.
//!
//! Only the event loop's thread uses it, and no I/O command needs it, so its lock is never waited for;
//! what I/O queues read is in [`super::controller::Flags`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use drivebay_wire::nvme::{ErrorEntry, Sqe, Status};

use super::controller::Controller;
use super::identity::{Identity, Kind};
use crate::lock::lock;

/// Controllers at a time, at most; each costs under a kilobyte.
const CONTROLLERS_MAX: usize = 32;
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

/// The drive as hosts see it.
pub struct Subsystem {
    pub(super) identity: Identity,
    controllers: BTreeMap<u16, Controller>,
    last_id: u16,
    /// Newest first.
    pub(super) errors: VecDeque<ErrorEntry>,
    /// Errors ever.
    pub(super) error_count: u64,
    /// Command dword 10 of the last Sanitize.
    pub(super) sanitized: Option<u32>,
}

impl Subsystem {
    /// A subsystem without controllers.
    pub fn shared(identity: Identity) -> Shared {
        Shared(Arc::new(Mutex::new(Subsystem {
            identity,
            controllers: BTreeMap::new(),
            last_id: 0,
            errors: VecDeque::new(),
            error_count: 0,
            sanitized: None,
        })))
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
        // Identifiers from 0xfff0 on are reserved.
        let next = |id: u16| if id >= 0xffef { 1 } else { id + 1 };
        let mut id = next(self.last_id);
        while self.controllers.contains_key(&id) {
            id = next(id);
        }
        self.last_id = id;
        self.controllers.insert(id, Controller::new(kind, &self.identity));
        Some(id)
    }

    pub(super) fn remove(&mut self, id: u16) {
        self.controllers.remove(&id);
    }

    pub(super) fn get(&self, id: u16) -> Option<&Controller> {
        self.controllers.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Controller> {
        self.controllers.get_mut(&id)
    }

    /// Enters a command that failed into the error log.
    pub(super) fn log_error(&mut self, queue: u16, sqe: &Sqe, status: Status) {
        self.error_count += 1;
        self.errors.truncate(usize::from(self.identity.own.error_entries));
        let is_io = queue != 0;
        self.errors.push_front(ErrorEntry {
            count: self.error_count.into(),
            sq_id: queue.into(),
            cid: sqe.cid,
            status_and_phase: (status.0 << 1).into(),
            location: NO_LOCATION.into(),
            lba: if is_io { sqe.lba() } else { 0 }.into(),
            nsid: sqe.nsid,
            ..ErrorEntry::default()
        });
    }
}
