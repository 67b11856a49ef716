//! Progress and cancellation of a replay, for other threads.

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

/// Progress of a running replay, and its stop flag. A cancelled replay issues nothing more, waits
/// for outstanding requests, and returns its results.
pub type Control = drivebay_units::Control<Progress>;
