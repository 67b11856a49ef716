//! How a trace is replayed: the options of every replay, as one document.

use drivebay_trace::{Pace, Rule};
use drivebay_units::Nanos;
use serde::Deserialize;

use crate::error::ReplayError;

/// Most requests outstanding.
pub const DEPTH_MAX: u32 = 4096;

/// How requests become due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// At their recorded times, as far as `idle_max_s` and `time_percent` leave them.
    #[default]
    Recorded,
    /// As soon as what they waited for in the recording has completed.
    Dependencies,
}

/// How a trace is replayed, on a virtual drive or a real one; `handle_by_device` is for virtual
/// ones, what stands behind it for real ones.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayOptions {
    /// When requests are due.
    pub mode: Mode,
    /// Recorded intervals with nothing outstanding are cut to this, in seconds.
    pub idle_max_s: Option<f64>,
    /// Length of the replay in per cent of the recording.
    pub time_percent: u32,
    /// How addresses beyond the target are brought onto it.
    pub rule: Rule,
    /// Trims and flushes as well.
    pub trim: bool,
    /// The number of a request's device is its placement handle.
    pub handle_by_device: bool,
    /// Reads only: nothing is changed.
    pub only_reads: bool,
    /// Zeros are written, not random bytes.
    pub zeros: bool,
    /// Of the random bytes.
    pub seed: u64,
    /// Most requests outstanding, 1 to [`DEPTH_MAX`]; what is due beyond it waits and is late.
    pub depth: u32,
    /// Time before a due request that is spun and not slept, in microseconds; 0 sleeps always.
    pub spin_us: u32,
    /// Issue nothing after this time, in seconds.
    pub length_max_s: Option<f64>,
    /// Stop after so many failed requests.
    pub failures_max: Option<u64>,
    /// Through the page cache, if it must be.
    pub buffered: bool,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions {
            mode: Mode::Recorded,
            idle_max_s: None,
            time_percent: 100,
            rule: Rule::default(),
            trim: false,
            handle_by_device: false,
            only_reads: false,
            zeros: false,
            seed: 1,
            depth: 1024,
            spin_us: 80,
            length_max_s: None,
            failures_max: None,
            buffered: false,
        }
    }
}

impl ReplayOptions {
    /// When requests are due.
    #[must_use]
    pub fn pace(&self) -> Pace {
        match self.mode {
            Mode::Recorded => Pace::Recorded {
                idle_max_ns: self.idle_max_s.map(nanoseconds),
                time_percent: self.time_percent,
            },
            Mode::Dependencies => Pace::Dependencies,
        }
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// [`ReplayError::OutOfRange`].
    pub fn check(&self) -> Result<(), ReplayError> {
        if (1..=DEPTH_MAX).contains(&self.depth) {
            return Ok(());
        }
        let (given, allowed) = (u64::from(self.depth), "1 to 4096");
        Err(ReplayError::OutOfRange { field: "depth", given, allowed, hint: "--depth 32" })
    }

    pub(crate) fn spin(&self) -> Nanos {
        Nanos::micros(u64::from(self.spin_us))
    }

    pub(crate) fn length_max(&self) -> Option<Nanos> {
        self.length_max_s.map(nanoseconds).map(Nanos)
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round_ties_even() as u64
}
