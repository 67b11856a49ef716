//! Options of a replay on any drive, as one document.

use drivebay_trace::{Pace, Rule};
use drivebay_units::Nanos;
use serde::Deserialize;

use crate::error::ReplayError;

/// Most outstanding requests.
pub const DEPTH_MAX: u32 = 4096;

/// Timing of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Recorded times, modified by `idle_max_s` and `time_percent`.
    #[default]
    Recorded,
    /// Each request as soon as all requests have completed that it waited for in the recording.
    Dependencies,
}

/// Options of a replay. `handle_by_device` applies to virtual drives only, the options after it to
/// real drives only.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayOptions {
    /// Timing of the requests.
    pub mode: Mode,
    /// Longest idle interval in seconds; longer recorded intervals with nothing outstanding are
    /// cut.
    pub idle_max_s: Option<f64>,
    /// Length of the replay in per cent of the recording.
    pub time_percent: u32,
    /// Rule for addresses beyond the target.
    pub rule: Rule,
    /// True to replay trims and flushes.
    pub trim: bool,
    /// True to use the number of a request's device as its placement handle.
    pub handle_by_device: bool,
    /// True to replay reads only; nothing is changed.
    pub only_reads: bool,
    /// True to write zeros instead of random bytes.
    pub zeros: bool,
    /// Seed of the random bytes.
    pub seed: u64,
    /// Most outstanding requests, 1 to [`DEPTH_MAX`]; further due requests wait, and are late.
    pub depth: u32,
    /// Time before a due request that is spent spinning instead of sleeping, in microseconds; 0
    /// always sleeps.
    pub spin_us: u32,
    /// Time after which nothing more is issued, in seconds.
    pub length_max_s: Option<f64>,
    /// Most failed requests; one more ends the replay.
    pub failures_max: Option<u64>,
    /// True to use the page cache if direct I/O is not possible.
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
    /// Pace of the requests.
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
        let is_allowed = (1..=DEPTH_MAX).contains(&self.depth);
        is_allowed.then_some(()).ok_or(ReplayError::OutOfRange(self.depth))
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
