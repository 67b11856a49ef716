//! Asynchronous events: requests that wait for an event, and events that wait for a request.
//!
//! Source: NVM Express base specification 1.4, section 5.2. After an event of a type, others of
//! that type are held back until the host has read the event's log page.

use std::collections::{BTreeSet, VecDeque};

use drivebay_wire::nvme::{Cqe, CriticalWarning, Status};

use super::refuse::refuse_if;

/// Asynchronous Event Configuration: namespace attribute notices.
pub(super) const NAMESPACE_NOTICES: u32 = 1 << 8;

/// Asynchronous Event Configuration: telemetry notices.
pub(super) const TELEMETRY_NOTICES: u32 = 1 << 10;
/// Asynchronous Event Configuration: changes of Asymmetric Namespace Access.
pub(super) const ACCESS_NOTICES: u32 = 1 << 11;
/// Asynchronous Event Configuration: notices of zones that the drive has changed on its own.
pub(super) const ZONE_NOTICES: u32 = 1 << 27;
/// Asynchronous Event Configuration: changes of the discovery log, which never changes while this
/// server runs.
pub(super) const DISCOVERY_NOTICES: u32 = 1 << 31;

/// Asynchronous event that hosts may enable, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The drive is no longer reliable: it refuses writes.
    Reliability,
    /// A temperature is beyond its threshold.
    Temperature,
    /// Few spare blocks are left.
    Spare,
    /// A sanitize operation is done.
    Sanitized,
    /// A sanitize operation is done, and deallocated blocks that a host wanted to keep.
    Deallocated,
    /// A namespace has changed.
    Namespaces,
    /// The controller has captured telemetry on its own.
    Telemetry,
    /// The state of the path has changed.
    Access,
    /// The drive has changed a zone of this namespace on its own.
    Zones(u32),
    /// There is a reservation notice.
    Reservations,
}

impl Event {
    /// Events that bits of the critical warning cause when they become set.
    const OF_WARNINGS: [(u8, Event); 3] = [
        (CriticalWarning::READ_ONLY, Event::Reliability),
        (CriticalWarning::TEMPERATURE, Event::Temperature),
        (CriticalWarning::SPARE, Event::Spare),
    ];

    /// Type, information, log page and namespace, as in the completion.
    fn result(self) -> u64 {
        let (kind, information, page) = match self {
            Event::Reliability => (1, 0, 0x02),
            Event::Temperature => (1, 1, 0x02),
            Event::Spare => (1, 2, 0x02),
            Event::Sanitized => (6, 1, 0x81),
            Event::Deallocated => (6, 2, 0x81),
            Event::Namespaces => (2, 0, 0x04),
            Event::Telemetry => (2, 2, 0x08),
            Event::Access => (2, 3, 0x0c),
            Event::Zones(nsid) => (2, 0xef, 0xbf | u64::from(nsid) << 16),
            Event::Reservations => (6, 0, 0x80),
        };
        kind | information << 8 | page << 16
    }

    /// Log page that the host must read before the event is reported again.
    pub fn page(self) -> u8 {
        (self.result() >> 16) as u8
    }
}

/// Requests and events of a controller.
#[derive(Default)]
pub(super) struct Events {
    requests: VecDeque<u16>,
    requests_max: usize,
    waiting: BTreeSet<Event>,
    /// Log pages that the host must read first; each belongs to one type of event.
    unread: Vec<u8>,
    /// Critical warning at the last check.
    warning: u8,
    ready: VecDeque<Cqe>,
}

impl Events {
    /// Creates the events of a controller. `limit` is the number of outstanding requests minus one.
    pub fn new(limit: u8) -> Events {
        Events { requests_max: usize::from(limit) + 1, ..Events::default() }
    }

    /// Handles an Asynchronous Event Request.
    pub fn request(&mut self, cid: u16) -> Result<(), Status> {
        refuse_if(self.requests.len() >= self.requests_max, Status::AER_LIMIT_EXCEEDED)?;
        self.requests.push_back(cid);
        self.match_up();
        Ok(())
    }

    /// Aborts a request; returns true if it was waiting.
    pub fn abort(&mut self, cid: u16) -> bool {
        let Some(place) = self.requests.iter().position(|&request| request == cid) else {
            return false;
        };
        self.requests.remove(place);
        self.ready.push_back(Cqe::new(cid, Status::ABORT_REQUESTED, 0));
        true
    }

    /// Updates the critical warning; a newly set bit that the host has enabled causes an event.
    /// Returns the changed bits.
    pub fn warn(&mut self, warning: u8, enabled: u8) -> u8 {
        let before = std::mem::replace(&mut self.warning, warning);
        let new = warning & !before & enabled;
        for (bit, event) in Event::OF_WARNINGS {
            if new & bit != 0 {
                self.raise(event);
            }
        }
        warning ^ before
    }

    pub fn raise(&mut self, event: Event) {
        self.waiting.insert(event);
        self.match_up();
    }

    /// Completes a long-running admin command.
    pub fn complete(&mut self, cid: u16, status: Status) {
        self.ready.push_back(Cqe::new(cid, status, 0));
    }

    /// Records that the host has read a log page.
    pub fn page_read(&mut self, page: u8) {
        self.unread.retain(|&unread| unread != page);
        self.match_up();
    }

    fn match_up(&mut self) {
        let Events { requests, waiting, unread, ready, .. } = self;
        waiting.retain(|event| {
            if unread.contains(&event.page()) {
                return true;
            }
            let Some(cid) = requests.pop_front() else { return true };
            unread.push(event.page());
            ready.push_back(Cqe::new(cid, Status::SUCCESS, event.result()));
            false
        });
    }

    /// Takes the completion of the next answered request.
    pub fn next(&mut self) -> Option<Cqe> {
        self.ready.pop_front()
    }
}
