//! What another thread may see of a run, and how it may stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between a run and whoever watches it; updated once per virtual second.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    elapsed_ns: AtomicU64,
    temperature_mc: AtomicU64,
    ios_last_second: AtomicU64,
    bytes_last_second: AtomicU64,
    requests: AtomicU64,
}

impl Control {
    /// Asks the run to stop at the next virtual second.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, elapsed_ns: u64, temperature_c: f64, ios: u64, bytes: u64) {
        self.elapsed_ns.store(elapsed_ns, Ordering::Relaxed);
        self.temperature_mc.store((temperature_c.max(0.0) * 1000.0) as u64, Ordering::Relaxed);
        self.ios_last_second.store(ios, Ordering::Relaxed);
        self.bytes_last_second.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn publish_requests(&self, requests: u64) {
        self.requests.store(requests, Ordering::Relaxed);
    }

    /// Requests of a trace that were replayed so far; zero in other runs.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Virtual seconds run, temperature in Celsius, I/Os and bytes of the last full second.
    #[must_use]
    pub fn look(&self) -> (f64, f64, u64, u64) {
        (
            self.elapsed_ns.load(Ordering::Relaxed) as f64 / 1e9,
            self.temperature_mc.load(Ordering::Relaxed) as f64 / 1e3,
            self.ios_last_second.load(Ordering::Relaxed),
            self.bytes_last_second.load(Ordering::Relaxed),
        )
    }
}
