//! Progress and cancellation of a replay, for other threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time since its start, in nanoseconds.
    pub elapsed_ns: u64,
    /// Completed requests, including failed ones.
    pub done: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests issued late.
    pub late: u64,
    /// Requests that failed.
    pub failed: u64,
}

/// Progress of a running replay, and its stop flag.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    elapsed_ns: AtomicU64,
    done: AtomicU64,
    bytes: AtomicU64,
    late: AtomicU64,
    failed: AtomicU64,
}

impl Control {
    /// Asks the replay to stop: it issues nothing more, waits for outstanding requests, and returns
    /// its results.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// True if a stop was requested.
    #[must_use]
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the progress.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            elapsed_ns: self.elapsed_ns.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    /// Publishes the progress; called by the replay loop.
    pub(crate) fn publish(&self, progress: Progress) {
        self.elapsed_ns.store(progress.elapsed_ns, Ordering::Relaxed);
        self.done.store(progress.done, Ordering::Relaxed);
        self.bytes.store(progress.bytes, Ordering::Relaxed);
        self.late.store(progress.late, Ordering::Relaxed);
        self.failed.store(progress.failed, Ordering::Relaxed);
    }
}
