//! Progress and cancellation of a run, for other threads.

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

/// State shared between a run and its observers; updated once per virtual second, when a run also
/// ends if it was cancelled.
pub type Control = drivebay_units::Control<Progress>;
