//! A replay as data: trace, options and target size; and a survey of the trace beforehand.
//!
//! The survey reads the whole trace once, before anything is written. It detects damage while
//! nothing is lost, finds the highest address and the planned length of the replay, and whether the
//! trace must be sorted as a whole.

use std::path::Path;

use drivebay_trace::{KeepRunning, Op, Pacer, Placement, TraceError, TraceSource};

use crate::control::Control;
use crate::error::ReplayError;
use crate::options::{Mode, ReplayOptions};
use crate::replay_loop::Outcome;
use crate::run::replay;
use crate::target::Target;

/// A trace, and the options of its replay on a real drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Trace to replay.
    pub source: TraceSource,
    /// Options of the replay.
    pub options: ReplayOptions,
}

/// Results of a survey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Requests, including trims and flushes.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// End of the highest address.
    pub recorded_bytes: u64,
    /// Due time of the last request at the chosen pace; `None` if it depends on the drive.
    pub length_ns: Option<u64>,
}

/// Reason why a plan cannot be carried out.
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
    /// Reads the whole trace. Cost: one pass over it.
    ///
    /// # Errors
    /// Errors of the trace; [`TraceError::Cancelled`].
    pub fn survey(&self, keep_running: KeepRunning<'_>) -> Result<Survey, PlanError> {
        let mut survey = Survey::default();
        let scheduled = self.options.mode == Mode::Recorded;
        let mut pacer = Pacer::new(self.options.pace()).map_err(ReplayError::from)?;
        let mut source = self.source.open()?;
        while let Some(block) = source.next_requests(keep_running)? {
            for request in block {
                survey.requests += 1;
                survey.reads += u64::from(request.op == Op::Read);
                survey.writes += u64::from(request.op.writes());
                let end = request.offset_bytes + request.bytes;
                survey.recorded_bytes = survey.recorded_bytes.max(end);
                if scheduled {
                    pacer.admit(request.at, request.response);
                    survey.length_ns = pacer.release().map(|due| due.0);
                }
            }
        }
        Ok(survey)
    }

    /// Plays the trace on a file or block device with these sizes; see [`replay`].
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
        let options = &self.options;
        let placement = Placement::new(options.rule, capacity_bytes, block_bytes, recorded_bytes)?;
        let mut source = self.source.open()?;
        let blocks = move || {
            let block = source.next_requests(&mut || true);
            block.map(|block| block.map(<[_]>::to_vec)).transpose()
        };
        let target = Target::open(path, capacity_bytes, !options.buffered, !options.only_reads)?;
        Ok(replay(blocks, target, options, placement, control)?)
    }
}
