//! A replay as data: what to play, how, and on how much; and a look through the trace beforehand.
//!
//! The look reads all of a trace once, before anything is written: it finds what is damaged while
//! nothing is lost, where the highest address lies, how long the replay takes as planned, and whether
//! the trace has to be sorted as a whole.

use std::path::Path;

use drivebay_trace::{KeepRunning, Op, Pace, Pacer, Placement, Rule, TraceError, TraceSource};
use drivebay_units::Nanos;
use serde::Deserialize;

use crate::control::Control;
use crate::error::ReplayError;
use crate::replay_loop::{Options, Outcome};
use crate::run::{ReplaySetup, replay};
use crate::source::OpFilter;
use crate::target::{Content, Target};

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

/// How a trace is replayed, on a virtual drive or a real one; what stands behind `trim` is for real ones.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
    /// Reads only: nothing is changed.
    pub only_reads: bool,
    /// Zeros are written, not random bytes.
    pub zeros: bool,
    /// Of the random bytes.
    pub seed: u64,
    /// Most requests outstanding.
    pub depth: u32,
    /// Time before a due request that is spun, in microseconds.
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
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round_ties_even() as u64
}

/// A trace, and how it is replayed on a real drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The trace that is replayed.
    pub source: TraceSource,
    /// How.
    pub options: ReplayOptions,
}

/// What a look through a trace finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Requests, trims and flushes included.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Where the highest address ends.
    pub recorded_bytes: u64,
    /// When the last request is due, as recorded and paced; None where only the drive can say.
    pub length_ns: Option<u64>,
}

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace's addresses do not fit the target.
    #[error(transparent)]
    Placement(#[from] drivebay_trace::PlaceError),
    /// The replay could not begin.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

impl Plan {
    /// Looks through the whole trace. Cost: a pass over it.
    ///
    /// # Errors
    /// What is wrong with the trace; [`TraceError::Cancelled`].
    pub fn survey(&self, keep_running: KeepRunning<'_>) -> Result<Survey, PlanError> {
        let mut found = Survey::default();
        let scheduled = self.options.mode == Mode::Recorded;
        let mut pacer = Pacer::new(self.options.pace()).map_err(ReplayError::from)?;
        let mut source = self.source.open()?;
        while let Some(block) = source.next_requests(keep_running)? {
            for request in block {
                found.requests += 1;
                found.reads += u64::from(request.op == Op::Read);
                found.writes += u64::from(request.op == Op::Write);
                let end = request.offset_bytes + request.bytes;
                found.recorded_bytes = found.recorded_bytes.max(end);
                if scheduled {
                    pacer.admit(request.at, request.response);
                    found.length_ns = pacer.release().map(|due| due.0);
                }
            }
        }
        Ok(found)
    }

    /// Plays it on a file or block device with these sizes; see [`replay`].
    ///
    /// # Errors
    /// If it cannot begin.
    pub fn play(
        &self,
        path: &Path,
        capacity_bytes: u64,
        block_bytes: u64,
        recorded_bytes: u64,
        control: &Control,
    ) -> Result<Outcome, PlanError> {
        let given = &self.options;
        let setup = ReplaySetup {
            pace: given.pace(),
            placement: Placement::new(given.rule, capacity_bytes, block_bytes, recorded_bytes)?,
            filter: OpFilter { only_reads: given.only_reads, trim: given.trim },
            content: if given.zeros { Content::Zero } else { Content::Random { seed: given.seed } },
            options: Options {
                depth: given.depth,
                spin: Nanos::micros(u64::from(given.spin_us)),
                length_max: given.length_max_s.map(nanoseconds).map(Nanos),
                failures_max: given.failures_max.unwrap_or(u64::MAX),
                ..Options::default()
            },
        };
        let mut source = self.source.open()?;
        let blocks = move || {
            let block = source.next_requests(&mut || true);
            block.map(|block| block.map(<[_]>::to_vec)).transpose()
        };
        let target = Target::open(path, capacity_bytes, !given.buffered, !given.only_reads)?;
        Ok(replay(blocks, target, &setup, control)?)
    }
}
