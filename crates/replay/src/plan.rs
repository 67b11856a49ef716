//! A replay as data: what to play, how, and on how much; and a look through the trace beforehand.
//!
//! The look reads all of a trace once, before anything is written: it finds what is damaged while
//! nothing is lost, where the highest address lies, how long the replay takes as planned, and
//! whether the trace has to be sorted as a whole.

use std::path::Path;

use drivebay_trace::{KeepRunning, Op, Pacer, Placement, TraceError, TraceSource};

use crate::control::Control;
use crate::error::ReplayError;
use crate::options::{Mode, ReplayOptions};
use crate::replay_loop::Outcome;
use crate::run::replay;
use crate::target::Target;

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
