//! Matching of issues with completions, for recordings that have them on separate lines.
//!
//! Events match by device, first sector and operation; among equal issues, the oldest matches
//! first. A requeued issue is removed: the newest of equal ones, because drivers requeue at once.
//! Bounded: an issue that is still open [`OPEN_MAX`] issues later is output without a response
//! time. Not modelled: requests that complete in parts. Effect: they seem to end with their first
//! part.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use crate::request::{Op, Request};

/// Most open issues.
pub(crate) const OPEN_MAX: usize = 1 << 16;

/// Identity of a request in an event: device, sector or a stand-in, and operation.
pub(crate) type Key = (u32, u64, Op);

/// Issues that wait for their completions; empty for recordings with one line per request.
#[derive(Default)]
pub(crate) struct Pairs {
    /// Issues in order, starting with number `first`; `None` when no longer open.
    issues: VecDeque<Option<(Key, Request)>>,
    first: u64,
    /// Numbers of the open issues per key, the oldest first.
    open: HashMap<Key, VecDeque<u64>>,
}

impl Pairs {
    /// Adds the issue of a request; returns the oldest one if there are too many.
    pub(crate) fn add(&mut self, key: Key, request: Request) -> Option<Request> {
        let oldest = match self.issues.front() {
            Some(&Some((oldest, _))) if self.issues.len() == OPEN_MAX => self.take_oldest(oldest),
            _ => None,
        };
        self.open.entry(key).or_default().push_back(self.first + self.issues.len() as u64);
        self.issues.push_back(Some((key, request)));
        oldest
    }

    /// Removes the oldest open issue of a key.
    pub(crate) fn take_oldest(&mut self, key: Key) -> Option<Request> {
        self.take(key, VecDeque::pop_front)
    }

    /// Removes the newest open issue of a key.
    pub(crate) fn take_newest(&mut self, key: Key) -> Option<Request> {
        self.take(key, VecDeque::pop_back)
    }

    fn take(&mut self, key: Key, pop: fn(&mut VecDeque<u64>) -> Option<u64>) -> Option<Request> {
        let Entry::Occupied(mut of_key) = self.open.entry(key) else { return None };
        let number = pop(of_key.get_mut())?;
        if of_key.get().is_empty() {
            of_key.remove();
        }
        let issue = self.issues[(number - self.first) as usize].take();
        while let Some(None) = self.issues.front() {
            self.issues.pop_front();
            self.first += 1;
        }
        issue.map(|(_, request)| request)
    }

    /// Returns all open issues in order.
    pub(crate) fn into_open(self) -> impl Iterator<Item = Request> {
        self.issues.into_iter().flatten().map(|(_, request)| request)
    }
}
