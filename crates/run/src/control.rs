//! What another thread may see of a run, and how it may stop it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Virtual time since the start.
    pub elapsed_ns: u64,
    /// Temperature of the drive, Celsius.
    pub temperature_c: f64,
    /// I/Os of the last full second.
    pub ios_last_second: u64,
    /// Bytes of the last full second.
    pub bytes_last_second: u64,
    /// Requests of a trace that were replayed so far; zero in other runs.
    pub requests: u64,
}

/// Shared between a run and whoever watches it; updated once per virtual second.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    progress: Mutex<Progress>,
}

impl Control {
    /// Asks the run to stop at the next virtual second.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Control::cancel`] was called.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, progress: Progress) {
        *self.lock() = progress;
    }

    /// The progress as of the last full virtual second.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
