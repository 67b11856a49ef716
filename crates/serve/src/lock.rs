//! Locks that stay usable after a panic of another thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`; the guarded data is consistent at every moment, even if another thread panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
