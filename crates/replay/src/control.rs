//! Progress and cancellation of a replay, for other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    progress: Mutex<Progress>,
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
        *self.locked()
    }

    /// Publishes the progress; called by the replay loop.
    pub(crate) fn publish(&self, progress: Progress) {
        *self.locked() = progress;
    }

    fn locked(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
