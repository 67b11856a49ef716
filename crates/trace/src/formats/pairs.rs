//! Matching of issues with completions, for recordings that have them on separate lines.
//!
//! Events match by device, first sector and operation; among equal issues, the oldest matches
//! first. A requeued issue is removed: the newest of equal ones, because drivers requeue at once.
//! Bounded: an issue that is still open [`OPEN_MAX`] issues later is output without a response
//! time. Not modelled: requests that complete in parts. Effect: they seem to end with their first
//! part.

use std::collections::{HashMap, VecDeque};

use drivebay_units::Nanos;

use super::parse::Out;
use crate::error::Problem;
use crate::request::{Op, Request};

/// Most open issues.
pub(crate) const OPEN_MAX: usize = 1 << 16;

/// Identity of a request in an event: device, sector or a stand-in, and operation.
pub(crate) type Key = (u32, u64, Op);

/// An issue, linked with the previous and next issue of the same key.
struct Slot {
    request: Option<(Key, Request)>,
    previous: Option<u64>,
    next: Option<u64>,
}

/// Issues that wait for their completions.
#[derive(Default)]
pub(crate) struct Pairs {
    /// Issues in order, starting with number `first`.
    open: VecDeque<Slot>,
    first: u64,
    /// Oldest and newest open issue per key.
    by_key: HashMap<Key, (u64, u64)>,
}

impl Pairs {
    /// Adds the issue of a request.
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
        let previous = (newest != number).then_some(newest);
        if let Some(previous) = previous {
            self.slot(previous).next = Some(number);
        }
        self.open.push_back(Slot { request: Some((key, request)), previous, next: None });
        Ok(())
    }

    /// Completes a request at `at`; returns true if its issue was seen.
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

    /// Removes a request that the driver requeues, and will issue again; returns true if its issue
    /// was seen.
    pub(crate) fn requeue(&mut self, key: Key) -> bool {
        let Some((_, newest)) = self.by_key.get(&key).copied() else { return false };
        self.remove(newest);
        self.forget_ended();
        true
    }

    /// Ends the recording: outputs all open issues without a response time.
    pub(crate) fn end(&mut self, out: &mut Out<'_>) {
        for (_, request) in self.open.drain(..).filter_map(|slot| slot.request) {
            out.push(request).expect("was checked when it was issued");
        }
        self.by_key.clear();
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        &mut self.open[(number - self.first) as usize]
    }

    /// Removes an open issue.
    fn remove(&mut self, number: u64) -> Request {
        let slot = self.slot(number);
        let (previous, next) = (slot.previous.take(), slot.next.take());
        let (key, request) = slot.request.take().expect("open until removed");
        if let Some(previous) = previous {
            self.slot(previous).next = next;
        }
        if let Some(next) = next {
            self.slot(next).previous = previous;
        }
        let (oldest, newest) = self.by_key.get_mut(&key).expect("has an open issue");
        match (previous, next) {
            (None, None) => {
                self.by_key.remove(&key);
            }
            (None, Some(next)) => *oldest = next,
            (Some(previous), None) => *newest = previous,
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
