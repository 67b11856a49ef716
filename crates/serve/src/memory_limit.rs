//! Memory limit of a server, for all of its drives together (`--memory`).
//!
//! It has three parts, so that none can starve another: data (in memory, including the copies kept
//! for snapshots and the models of snapshots), sessions, and the memory of requests beyond the base
//! of each session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that each session may use without asking: its read buffer and replies being sent.
pub(crate) const SESSION_BYTES: u64 = 2 << 20;
/// Sessions and requests get an eighth of all memory, half of that each, within these bounds: at
/// least two of the longest writes fit. guess: hosts that read their replies need less.
const BUFFERS_MIN: u64 = 128 << 20;
const BUFFERS_MAX: u64 = 1 << 30;

/// Purpose of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Data,
    Sessions,
    Requests,
}

/// Limit that drives and their sessions share.
#[derive(Clone, Debug)]
pub struct MemoryLimit(Arc<Ledger>);

#[derive(Debug)]
struct Ledger {
    /// Limit by use, bytes.
    max: [u64; 3],
    used: [AtomicU64; 3],
    /// Number of requests that had to wait.
    waits: AtomicU64,
}

impl MemoryLimit {
    /// Creates a limit with these bytes for data, for sessions, and for requests.
    pub fn new(data: u64, sessions: u64, requests: u64) -> MemoryLimit {
        let ledger = Ledger {
            max: [data, sessions, requests],
            used: Default::default(),
            waits: AtomicU64::new(0),
        };
        MemoryLimit(Arc::new(ledger))
    }

    /// Creates a limit of `bytes` in total; `None` if this is too little for the buffers.
    pub(crate) fn of_all(bytes: u64) -> Option<MemoryLimit> {
        let buffers = buffers_of(bytes);
        let is_enough = bytes >= MemoryLimit::LEAST;
        is_enough.then(|| MemoryLimit::new(bytes - buffers, buffers / 2, buffers / 2))
    }

    /// Smallest total limit, bytes, with which `more` bytes of data fit in addition to the used
    /// ones.
    pub(crate) fn total_for_data(&self, more: u64) -> u64 {
        let data = self.used(Use::Data) + more;
        // Candidates for buffers at their minimum, at an eighth of all, and at their maximum.
        let candidates = [data + BUFFERS_MIN, (data * 8).div_ceil(7), data + BUFFERS_MAX];
        let candidates = candidates.into_iter().map(|total| total.max(MemoryLimit::LEAST));
        let fits = |&total: &u64| total - buffers_of(total) >= data;
        candidates.filter(fits).min().expect("buffers are no more than the most")
    }

    /// Smallest total limit, bytes.
    pub(crate) const LEAST: u64 = 2 * BUFFERS_MIN;

    /// Takes bytes; returns false if too few are free.
    pub(crate) fn take(&self, kind: Use, bytes: u64) -> bool {
        let place = kind as usize;
        let before = self.0.used[place].fetch_add(bytes, Ordering::Relaxed);
        let is_there = before.saturating_add(bytes) <= self.0.max[place];
        if !is_there {
            self.give_back(kind, bytes);
        }
        is_there
    }

    /// Takes bytes, even beyond the limit.
    pub(crate) fn exceed(&self, kind: Use, bytes: u64) {
        self.0.used[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, kind: Use, bytes: u64) {
        self.0.used[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns an empty share.
    pub(crate) fn share(&self, kind: Use) -> Share {
        Share { limit: self.clone(), kind, bytes: 0 }
    }

    /// Used bytes.
    pub(crate) fn used(&self, kind: Use) -> u64 {
        self.0.used[kind as usize].load(Ordering::Relaxed)
    }

    /// Total limit, bytes.
    pub(crate) fn max(&self) -> u64 {
        self.0.max.iter().fold(0, |sum, &max| sum.saturating_add(max))
    }

    /// Counts a request that has to wait for memory.
    pub(crate) fn note_wait(&self) {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of requests that had to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.0.waits.load(Ordering::Relaxed)
    }
}

/// Memory for sessions and requests, of a total of `bytes`.
fn buffers_of(bytes: u64) -> u64 {
    (bytes / 8).clamp(BUFFERS_MIN, BUFFERS_MAX)
}

/// Bytes of a limit, released when the share is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    limit: MemoryLimit,
    kind: Use,
    bytes: u64,
}

impl Share {
    /// Sets the size; returns false if there is too little memory.
    pub fn resize(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes && !self.limit.take(self.kind, bytes - self.bytes) {
            return false;
        }
        self.limit.give_back(self.kind, self.bytes.saturating_sub(bytes));
        self.bytes = bytes;
        true
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Increases the size, even beyond the limit.
    pub fn exceed(&mut self, bytes: u64) {
        self.limit.exceed(self.kind, bytes - self.bytes);
        self.bytes = bytes;
    }

    /// Like [`Share::resize`], for a request that waits if there is too little memory.
    pub fn wait_for(&mut self, bytes: u64) -> bool {
        let is_there = self.resize(bytes);
        if !is_there {
            self.limit.note_wait();
        }
        is_there
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.limit.give_back(self.kind, self.bytes);
    }
}

#[cfg(test)]
#[path = "../tests/unit/memory_limit.rs"]
mod tests;
