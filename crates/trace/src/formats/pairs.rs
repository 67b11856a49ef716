//! Issues held until their completions, for recordings that have the two as lines of their own.
//!
//! Matched by device, first sector and kind; of several alike, the oldest first. An issue that the
//! driver gives back to the queue is forgotten: the newest of those alike, since drivers do so at
//! once. Bounded: an issue still open [`OPEN_MAX`] issues later is given without a response time.
//! Not modelled: requests that complete in parts. Effect: they seem to end with their first part.

use std::collections::{HashMap, VecDeque};

use drivebay_units::Nanos;

use super::parse::Out;
use crate::error::Problem;
use crate::request::{Op, Request};

/// Most issues held open.
pub(crate) const OPEN_MAX: usize = 1 << 16;

/// What an event says of the request that it is about: device, sector or what stands for it, kind.
pub(crate) type Key = (u32, u64, Op);

/// An issue, with the issues of the same key before and behind it.
struct Slot {
    request: Option<(Key, Request)>,
    before: Option<u64>,
    behind: Option<u64>,
}

/// Issues that wait for their completions.
#[derive(Default)]
pub(crate) struct Pairs {
    /// Issues in order, from number `first` on.
    open: VecDeque<Slot>,
    first: u64,
    /// Oldest and newest open issue of each key.
    by_key: HashMap<Key, (u64, u64)>,
}

impl Pairs {
    /// A request is issued.
    pub(crate) fn issue(
        &mut self,
        key: Key,
        request: Request,
        out: &mut Out<'_>,
    ) -> Result<(), Problem> {
        if self.open.len() == OPEN_MAX {
            if self.open.front().is_some_and(|slot| slot.request.is_some()) {
                let request = self.remove(self.first);
                out.push(request)?;
            }
            self.forget_ended();
        }
        let number = self.first + self.open.len() as u64;
        let ends = self.by_key.entry(key).or_insert((number, number));
        let newest = std::mem::replace(&mut ends.1, number);
        let before = (newest != number).then_some(newest);
        if let Some(before) = before {
            self.slot(before).behind = Some(number);
        }
        self.open.push_back(Slot { request: Some((key, request)), before, behind: None });
        Ok(())
    }

    /// A request is complete at `at`. True if its issue was seen.
    pub(crate) fn complete(
        &mut self,
        key: Key,
        at: Nanos,
        out: &mut Out<'_>,
    ) -> Result<bool, Problem> {
        let Some((oldest, _)) = self.by_key.get(&key).copied() else { return Ok(false) };
        let request = self.remove(oldest);
        self.forget_ended();
        let response = at.0.checked_sub(request.at.0).map(Nanos);
        out.push(Request { response, ..request })
    }

    /// The driver gives a request back to the queue; it will be issued again. True if its issue was
    /// seen.
    pub(crate) fn take_back(&mut self, key: Key) -> bool {
        let Some((_, newest)) = self.by_key.get(&key).copied() else { return false };
        self.remove(newest);
        self.forget_ended();
        true
    }

    /// The recording ends: what is open has no response time.
    pub(crate) fn end(&mut self, out: &mut Out<'_>) {
        for (_, request) in self.open.drain(..).filter_map(|slot| slot.request) {
            out.push(request).expect("was checked when it was issued");
        }
        self.by_key.clear();
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        &mut self.open[(number - self.first) as usize]
    }

    /// Takes out an open issue.
    fn remove(&mut self, number: u64) -> Request {
        let slot = self.slot(number);
        let (before, behind) = (slot.before.take(), slot.behind.take());
        let (key, request) = slot.request.take().expect("open until removed");
        if let Some(before) = before {
            self.slot(before).behind = behind;
        }
        if let Some(behind) = behind {
            self.slot(behind).before = before;
        }
        let (oldest, newest) = self.by_key.get_mut(&key).expect("has an open issue");
        match (before, behind) {
            (None, None) => {
                self.by_key.remove(&key);
            }
            (None, Some(behind)) => *oldest = behind,
            (Some(before), None) => *newest = before,
            (Some(_), Some(_)) => {}
        }
        request
    }

    fn forget_ended(&mut self) {
        while matches!(self.open.front(), Some(Slot { request: None, .. })) {
            self.open.pop_front();
            self.first += 1;
        }
    }
}
