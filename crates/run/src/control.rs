//! Progress and cancellation of a run, for other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Virtual time since the start of the run.
    pub elapsed_ns: u64,
    /// Temperature of the drive, Celsius.
    pub temperature_c: f64,
    /// I/Os in the last full second.
    pub ios_last_second: u64,
    /// Bytes in the last full second.
    pub bytes_last_second: u64,
    /// Trace requests replayed so far; zero in other runs.
    pub requests: u64,
}

/// State shared between a run and its observers; updated once per virtual second.
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

    /// True if [`Control::cancel`] was called.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, progress: Progress) {
        *self.lock() = progress;
    }

    /// Returns the progress as of the last full virtual second.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
