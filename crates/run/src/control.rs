//! What another thread may see of a run, and how it may stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    elapsed_ns: AtomicU64,
    temperature_c: AtomicU64,
    ios_last_second: AtomicU64,
    bytes_last_second: AtomicU64,
    requests: AtomicU64,
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
        self.elapsed_ns.store(progress.elapsed_ns, Ordering::Relaxed);
        self.temperature_c.store(progress.temperature_c.to_bits(), Ordering::Relaxed);
        self.ios_last_second.store(progress.ios_last_second, Ordering::Relaxed);
        self.bytes_last_second.store(progress.bytes_last_second, Ordering::Relaxed);
        self.requests.store(progress.requests, Ordering::Relaxed);
    }

    /// The progress as of the last full virtual second.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            elapsed_ns: self.elapsed_ns.load(Ordering::Relaxed),
            temperature_c: f64::from_bits(self.temperature_c.load(Ordering::Relaxed)),
            ios_last_second: self.ios_last_second.load(Ordering::Relaxed),
            bytes_last_second: self.bytes_last_second.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}
