//! Asynchronous events: requests that wait, and events that wait for a request.
//!
//! Source: NVM Express base specification 1.4, section 5.2. After an event of a type, others of
//! that type are held back until the host has read the event's log page.

use std::collections::VecDeque;

use drivebay_wire::nvme::{Cqe, CriticalWarning, Status};

/// Asynchronous Event Configuration, and what a controller can tell: namespace attribute notices.
pub(super) const NAMESPACE_NOTICES: u32 = 1 << 8;

/// Likewise: telemetry.
pub(super) const TELEMETRY_NOTICES: u32 = 1 << 10;
/// Likewise: zones that the drive itself has changed.
pub(super) const ZONE_NOTICES: u32 = 1 << 27;
/// Likewise: changes of the discovery log, which this server's does not have as long as it runs.
pub(super) const DISCOVERY_NOTICES: u32 = 1 << 31;

/// An asynchronous event that hosts may ask to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The drive can no longer be trusted: it refuses to be written.
    Reliability,
    /// A temperature went beyond its threshold.
    Temperature,
    /// Spare blocks run out.
    Spare,
    /// A sanitize operation is done.
    Sanitized,
    /// It is, and blocks were deallocated that a host wanted to keep.
    Deallocated,
    /// A namespace has changed.
    Namespaces,
    /// There is telemetry that the controller has taken by itself.
    Telemetry,
    /// The drive itself has changed a zone.
    Zones,
    /// There is a notice about reservations.
    Reservations,
}

impl Event {
    const ALL: [Event; 9] = [
        Event::Reliability,
        Event::Temperature,
        Event::Spare,
        Event::Sanitized,
        Event::Deallocated,
        Event::Namespaces,
        Event::Telemetry,
        Event::Zones,
        Event::Reservations,
    ];
    /// What a bit of the critical warning, once it is set, tells hosts that want to know.
    const OF_WARNINGS: [(u8, Event); 3] = [
        (CriticalWarning::READ_ONLY, Event::Reliability),
        (CriticalWarning::TEMPERATURE, Event::Temperature),
        (CriticalWarning::SPARE, Event::Spare),
    ];

    /// Type, information and log page, as a completion carries them.
    fn result(self) -> u64 {
        let (kind, information, page) = match self {
            Event::Reliability => (1, 0, 0x02),
            Event::Temperature => (1, 1, 0x02),
            Event::Spare => (1, 2, 0x02),
            Event::Sanitized => (6, 1, 0x81),
            Event::Deallocated => (6, 2, 0x81),
            Event::Namespaces => (2, 0, 0x04),
            Event::Telemetry => (2, 3, 0x08),
            Event::Zones => (2, 0xef, 0xbf),
            Event::Reservations => (6, 0, 0x80),
        };
        kind | information << 8 | page << 16
    }

    /// The log page that the host must read before the event is reported again.
    pub fn page(self) -> u8 {
        (self.result() >> 16) as u8
    }
}

/// Requests and events of a controller.
#[derive(Default)]
pub(super) struct Events {
    requests: VecDeque<u16>,
    requests_max: usize,
    waiting: [bool; Event::ALL.len()],
    /// Log pages that the host must read first; each belongs to one type of event.
    unread: Vec<u8>,
    /// The critical warning, when it was last looked at.
    warning: u8,
    ready: VecDeque<Cqe>,
}

impl Events {
    /// `limit`: requests outstanding, less one.
    pub fn new(limit: u8) -> Events {
        Events { requests_max: usize::from(limit) + 1, ..Events::default() }
    }

    /// An Asynchronous Event Request.
    pub fn request(&mut self, cid: u16) -> Result<(), Status> {
        if self.requests.len() >= self.requests_max {
            return Err(Status::AER_LIMIT_EXCEEDED.dnr());
        }
        self.requests.push_back(cid);
        self.match_up();
        Ok(())
    }

    /// Takes back a request; whether it was waiting.
    pub fn abort(&mut self, cid: u16) -> bool {
        let Some(place) = self.requests.iter().position(|&one| one == cid) else { return false };
        self.requests.remove(place);
        self.ready.push_back(Cqe::new(cid, Status::ABORT_REQUESTED, 0));
        true
    }

    /// The critical warning is this now; a bit that was not set, and that the host has enabled, is
    /// an event. Returns the bits that have changed.
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
        self.waiting[event as usize] = true;
        self.match_up();
    }

    /// A command of the admin queue that took its time is done.
    pub fn complete(&mut self, cid: u16, status: Status) {
        self.ready.push_back(Cqe::new(cid, status, 0));
    }

    /// The host has read a log page.
    pub fn page_read(&mut self, page: u8) {
        self.unread.retain(|&unread| unread != page);
        self.match_up();
    }

    fn match_up(&mut self) {
        for event in Event::ALL {
            let i = event as usize;
            if self.waiting[i]
                && !self.unread.contains(&event.page())
                && let Some(cid) = self.requests.pop_front()
            {
                self.waiting[i] = false;
                self.unread.push(event.page());
                self.ready.push_back(Cqe::new(cid, Status::SUCCESS, event.result()));
            }
        }
    }

    /// The next request that is answered.
    pub fn next(&mut self) -> Option<Cqe> {
        self.ready.pop_front()
    }
}
