//! What a server may take of the machine's memory, for all of its drives together (`--memory`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit that drives and their sessions share.
#[derive(Clone, Debug)]
pub struct MemoryLimit(Arc<Ledger>);

#[derive(Debug)]
struct Ledger {
    data_max: u64,
    data: AtomicU64,
}

impl MemoryLimit {
    /// A limit of this many bytes.
    pub fn new(bytes: u64) -> MemoryLimit {
        MemoryLimit(Arc::new(Ledger { data_max: bytes, data: AtomicU64::new(0) }))
    }

    /// Takes bytes for data of drives, if there are so many.
    pub(crate) fn take_data(&self, bytes: u64) -> bool {
        let is_there = self.data() + bytes <= self.0.data_max;
        if is_there {
            self.exceed_data(bytes);
        }
        is_there
    }

    /// Takes bytes for data of drives, more than there are if need be.
    pub(crate) fn exceed_data(&self, bytes: u64) {
        self.0.data.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn free_data(&self, bytes: u64) {
        self.0.data.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of data in memory.
    pub(crate) fn data(&self) -> u64 {
        self.0.data.load(Ordering::Relaxed)
    }
}
