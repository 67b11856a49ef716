//! Arrival times of requests when the drive's clock stands still (`--pace none`).
//!
//! A client that keeps several requests in flight sends a request for each answer. In the drive's
//! time this request arrives when that answer completes, although the server reads it later. So
//! each request of such a client follows the client's oldest answer that has no follow-up yet, and
//! the model is not served past the first answer whose follow-up has not come. This is conservative
//! synchronization of a discrete-event simulation (Chandy and Misra, 1979). The closed loop of the
//! client is then that of the library, for any number of connections.
//!
//! A client that gets no processor sends its follow-up late, and one that pauses sends none; the
//! server cannot tell them apart. So it waits as long as the client has followed all answers before
//! ([`PATIENCE`]): beyond the least patience, a wait in vain at most doubles the client's time. A
//! client that sent none is not waited for until it has followed enough answers again: its requests
//! arrive at the last completion.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use drivebay_units::Nanos;

use crate::engine::inflight::NEVER;
use crate::request::SessionId;

/// Shortest and longest time on the host's clock for which a follow-up is expected: wake-ups took
/// up to 90 ms where nine programs shared two processors, and more than 100 ms where 26 did.
const PATIENCE: [Nanos; 2] = [Nanos::millis(100), Nanos::secs(1)];
/// Follow-ups in a row after which the next ones are expected. The number doubles each time that
/// one does not come: a client that pauses after its bursts is soon no longer waited for. guess
const STREAK: u32 = 256;
const STREAK_MAX: u32 = 1 << 20;

/// Answers of a session.
struct Client {
    /// Answers without a follow-up: completion time, and time of the answer on the host's clock.
    answers: VecDeque<(Nanos, Nanos)>,
    /// Follow-ups in a row.
    streak: u32,
    /// Follow-ups in a row that make the next ones expected.
    needed: u32,
    /// Start of the row on the host's clock.
    since: Nanos,
}

impl Default for Client {
    fn default() -> Client {
        Client { answers: VecDeque::new(), streak: 0, needed: STREAK, since: Nanos::ZERO }
    }
}

impl Client {
    fn is_expected(&self) -> bool {
        self.streak >= self.needed
    }
}

/// Follow-ups of all sessions, and the requests that arrive later than an expected follow-up.
#[derive(Default)]
pub(super) struct FollowUps {
    /// True if follow-ups are expected at all.
    pub is_on: bool,
    clients: BTreeMap<SessionId, Client>,
    /// Requests by arrival time, number in the order of reading, and tag.
    waiting: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
}

impl FollowUps {
    /// Records an answer: its completion time, and the current time on the host's clock.
    pub fn answer(&mut self, session: SessionId, at: Nanos, host: Nanos) {
        // A session that has ended follows no answer.
        let Some(client) = self.clients.get_mut(&session) else { return };
        if client.streak == 0 {
            client.since = host;
        }
        let place = client.answers.partition_point(|&(other, _)| other <= at);
        client.answers.insert(place, (at, host));
    }

    /// Expects nothing more of a session that has ended.
    pub fn end(&mut self, session: SessionId) {
        self.clients.remove(&session);
    }

    /// Returns the arrival time of a request that the server reads at `now`.
    pub fn arrival(&mut self, session: SessionId, now: Nanos) -> Nanos {
        let client = self.clients.entry(session).or_default();
        let is_expected = client.is_expected();
        let Some((at, _)) = client.answers.pop_front() else { return now };
        client.streak = client.streak.saturating_add(self.is_on.into());
        if is_expected { at } else { now }
    }

    /// Adds a request that waits for the model.
    pub fn push(&mut self, at: Nanos, number: u64, tag: u32) {
        self.waiting.push(Reverse((at, number, tag)));
    }

    /// Arrival time of the next request; [`NEVER`] if there is none.
    pub fn next_arrival(&self) -> Nanos {
        self.waiting.peek().map_or(NEVER, |&Reverse((at, ..))| at)
    }

    /// Takes the next request.
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        self.waiting.pop().map(|Reverse((at, _, tag))| (at, tag))
    }

    /// Time of the first answer whose follow-up is expected.
    pub fn horizon(&self) -> Nanos {
        let expected = self.clients.values().filter(|client| client.is_expected());
        let first = expected.filter_map(|client| client.answers.front());
        first.map(|&(at, _)| at).min().unwrap_or(NEVER)
    }

    /// Gives up follow-ups that have not come in time by `host`. Returns the time until the next
    /// one is late.
    pub fn expire(&mut self, host: Nanos) -> Option<Nanos> {
        let mut next = None;
        for client in self.clients.values_mut() {
            let Some(first) = client.answers.iter().map(|&(_, sent)| sent).min() else { continue };
            let patience = first.since_or_zero(client.since).clamp(PATIENCE[0], PATIENCE[1]);
            let left = first.after(patience).since_or_zero(host);
            if left == Nanos::ZERO {
                if client.is_expected() {
                    client.needed = (2 * client.needed).min(STREAK_MAX);
                }
                client.answers.clear();
                client.streak = 0;
            } else if client.is_expected() {
                next = Some(next.map_or(left, |next: Nanos| next.min(left)));
            }
        }
        next
    }

    /// Forgets all answers and requests.
    pub fn clear(&mut self) {
        *self = FollowUps { is_on: self.is_on, ..FollowUps::default() };
    }
}

#[cfg(test)]
#[path = "../../tests/unit/engine_follow_ups.rs"]
mod tests;
