//! Progress and cancellation of a long job, for other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State shared between a job and its observers. `P` is what the job says of its progress.
#[derive(Debug, Default)]
pub struct Control<P> {
    cancelled: AtomicBool,
    progress: Mutex<P>,
}

impl<P: Copy> Control<P> {
    /// Asks the job to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// True if [`Control::cancel`] was called.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Publishes the progress; called by the job.
    pub fn publish(&self, progress: P) {
        *self.lock() = progress;
    }

    /// Returns the progress as last published.
    #[must_use]
    pub fn progress(&self) -> P {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, P> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
