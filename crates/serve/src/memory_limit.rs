//! What a server may take of the machine's memory, for all of its drives together (`--memory`).
//!
//! Three parts, so that none can starve another: data (in memory, with what snapshots keep of it,
//! and the models of snapshots), the sessions, and what requests need beyond what each session has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a session may hold without asking: what it reads at a time, and replies on their way.
pub(crate) const SESSION_BYTES: u64 = 2 << 20;
/// Sessions and requests get an eighth of all memory, half of that each, within these bounds: two
/// of the longest writes fit at least. guess: more than hosts hold that read their replies.
const BUFFERS_MIN: u64 = 128 << 20;
const BUFFERS_MAX: u64 = 1 << 30;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Data,
    Sessions,
    Requests,
}

/// A limit that drives and their sessions share.
#[derive(Clone, Debug)]
pub struct MemoryLimit(Arc<Ledger>);

#[derive(Debug)]
struct Ledger {
    /// By use, bytes.
    max: [u64; 3],
    used: [AtomicU64; 3],
    /// How often a request had to wait.
    waits: AtomicU64,
}

impl MemoryLimit {
    /// So many bytes for data, for sessions, and for requests.
    pub fn new(data: u64, sessions: u64, requests: u64) -> MemoryLimit {
        let ledger = Ledger {
            max: [data, sessions, requests],
            used: Default::default(),
            waits: AtomicU64::new(0),
        };
        MemoryLimit(Arc::new(ledger))
    }

    /// A limit of so many bytes in all; none if they are too few for the buffers.
    pub(crate) fn of_all(bytes: u64) -> Option<MemoryLimit> {
        let buffers = buffers_of(bytes);
        let is_enough = bytes >= MemoryLimit::LEAST;
        is_enough.then(|| MemoryLimit::new(bytes - buffers, buffers / 2, buffers / 2))
    }

    /// The smallest limit in all, bytes, with which `more` bytes of data fit beside those that are
    /// used.
    pub(crate) fn total_for_data(&self, more: u64) -> u64 {
        let data = self.used(Use::Data) + more;
        // Buffers are the least, an eighth of all, or the most.
        let candidates = [data + BUFFERS_MIN, (data * 8).div_ceil(7), data + BUFFERS_MAX];
        let candidates = candidates.into_iter().map(|total| total.max(MemoryLimit::LEAST));
        let fits = |&total: &u64| total - buffers_of(total) >= data;
        candidates.filter(fits).min().expect("buffers are no more than the most")
    }

    /// The smallest limit, bytes.
    pub(crate) const LEAST: u64 = 2 * BUFFERS_MIN;

    /// Takes bytes, if there are so many.
    pub(crate) fn take(&self, kind: Use, bytes: u64) -> bool {
        let place = kind as usize;
        let before = self.0.used[place].fetch_add(bytes, Ordering::Relaxed);
        let is_there = before.saturating_add(bytes) <= self.0.max[place];
        if !is_there {
            self.give_back(kind, bytes);
        }
        is_there
    }

    /// Takes bytes, more than there are if need be.
    pub(crate) fn exceed(&self, kind: Use, bytes: u64) {
        self.0.used[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, kind: Use, bytes: u64) {
        self.0.used[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A share that is empty.
    pub(crate) fn share(&self, kind: Use) -> Share {
        Share { limit: self.clone(), kind, bytes: 0 }
    }

    /// Bytes that are used.
    pub(crate) fn used(&self, kind: Use) -> u64 {
        self.0.used[kind as usize].load(Ordering::Relaxed)
    }

    /// Bytes in all.
    pub(crate) fn max(&self) -> u64 {
        self.0.max.iter().fold(0, |sum, &max| sum.saturating_add(max))
    }

    /// A request has to wait for memory.
    pub(crate) fn note_wait(&self) {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// How often one had to.
    pub(crate) fn waits(&self) -> u64 {
        self.0.waits.load(Ordering::Relaxed)
    }
}

/// What of all memory is for sessions and requests.
fn buffers_of(bytes: u64) -> u64 {
    (bytes / 8).clamp(BUFFERS_MIN, BUFFERS_MAX)
}

/// Bytes of a limit, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    limit: MemoryLimit,
    kind: Use,
    bytes: u64,
}

impl Share {
    /// Makes it so large, if there is memory for that.
    pub fn resize(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes && !self.limit.take(self.kind, bytes - self.bytes) {
            return false;
        }
        self.limit.give_back(self.kind, self.bytes.saturating_sub(bytes));
        self.bytes = bytes;
        true
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it larger, also if there is no memory for that.
    pub fn exceed(&mut self, bytes: u64) {
        self.limit.exceed(self.kind, bytes - self.bytes);
        self.bytes = bytes;
    }

    /// As [`Share::resize`], for what waits until there is memory.
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
mod tests {
    use super::*;

    #[test]
    fn a_share_never_exceeds_its_part_and_gives_it_back() {
        let limit = MemoryLimit::new(100, 10, 10);
        let (mut one, mut two) = (limit.share(Use::Requests), limit.share(Use::Requests));
        assert!(one.resize(6) && !two.resize(5) && two.resize(4) && !one.resize(7));
        assert_eq!((limit.used(Use::Requests), limit.used(Use::Data)), (10, 0));
        assert!(one.resize(1) && two.resize(9));
        drop((one, two));
        assert_eq!(limit.used(Use::Requests), 0);
        assert!(!limit.take(Use::Data, u64::MAX) && limit.take(Use::Data, 100));
    }

    #[test]
    fn the_total_that_data_needs_is_the_least_with_which_it_fits() {
        for data in [1, 200 << 20, 900 << 20, 3 << 30, 7 << 30, 500 << 30] {
            let total = MemoryLimit::new(0, 0, 0).total_for_data(data);
            let fits =
                |total| MemoryLimit::of_all(total).is_some_and(|limit| limit.take(Use::Data, data));
            assert!(fits(total) && (total == MemoryLimit::LEAST || !fits(total - 8)), "{data}");
        }
    }

    #[test]
    fn all_memory_is_divided_and_too_little_of_it_refused() {
        assert!(MemoryLimit::of_all(MemoryLimit::LEAST - 1).is_none());
        for bytes in [MemoryLimit::LEAST, 1 << 30, 100 << 30] {
            let limit = MemoryLimit::of_all(bytes).expect("enough");
            assert_eq!(limit.max(), bytes);
            assert!(limit.take(Use::Requests, 64 << 20), "two of the longest writes");
        }
    }
}
