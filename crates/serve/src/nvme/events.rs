//! Asynchronous events: requests that wait, and events that wait for a request.
//!
//! Source: NVM Express base specification 1.4, section 5.2. After an event of a type, others of that
//! type are held back until the host has read the event's log page.

use std::collections::VecDeque;

use drivebay_wire::nvme::{Cqe, Status};

/// An asynchronous event that hosts may ask to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A temperature went beyond its threshold.
    Temperature,
    /// A sanitize operation is done.
    Sanitized,
}

impl Event {
    const ALL: [Event; 2] = [Event::Temperature, Event::Sanitized];

    /// Type, information and log page, as a completion carries them.
    fn result(self) -> u64 {
        let (kind, information, page) = match self {
            Event::Temperature => (1, 1, 0x02),
            Event::Sanitized => (6, 1, 0x81),
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
    waiting: [bool; 2],
    held: [bool; 2],
    was_beyond: bool,
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

    /// The temperature is beyond its threshold, or not; crossing it is an event.
    pub fn temperature(&mut self, is_beyond: bool, is_enabled: bool) {
        let crossed = is_beyond && !self.was_beyond;
        self.was_beyond = is_beyond;
        if crossed && is_enabled {
            self.raise(Event::Temperature);
        }
    }

    pub fn raise(&mut self, event: Event) {
        self.waiting[event as usize] = true;
        self.match_up();
    }

    /// The host has read a log page.
    pub fn page_read(&mut self, page: u8) {
        for event in Event::ALL {
            if event.page() == page {
                self.held[event as usize] = false;
            }
        }
        self.match_up();
    }

    fn match_up(&mut self) {
        for event in Event::ALL {
            let i = event as usize;
            if self.waiting[i]
                && !self.held[i]
                && let Some(cid) = self.requests.pop_front()
            {
                (self.waiting[i], self.held[i]) = (false, true);
                self.ready.push_back(Cqe::new(cid, Status::SUCCESS, event.result()));
            }
        }
    }

    /// The next request that is answered.
    pub fn next(&mut self) -> Option<Cqe> {
        self.ready.pop_front()
    }
}
