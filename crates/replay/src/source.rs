//! Source of requests: a trace, read ahead by another thread and placed on the target.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use drivebay_trace::{Op, Placement, Request, TraceError};
use drivebay_units::Nanos;

use crate::options::ReplayOptions;
use crate::uring::Command;

/// A request of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Position in the recording, from 0.
    pub number: u64,
    /// Recorded issue time.
    pub at: Nanos,
    /// Recorded response time.
    pub response: Option<Nanos>,
    /// Command to send; `None` for skipped requests, which take no time.
    pub command: Option<Command>,
}

/// Result of [`Source::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next request.
    Item(Item),
    /// The next request is not read yet.
    NotYet,
    /// There are no more requests.
    End,
    /// The trace is damaged, so there are no more requests; the text is an error message.
    Broken(String),
}

/// Source of requests in recorded order.
pub trait Source {
    /// Returns the next request, if it is known yet.
    fn next(&mut self) -> Next;

    /// Skipped requests so far.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}

/// Requests of a trace that were not played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Writes, in a replay of reads only.
    pub writes: u64,
    /// Trims, if trims are not replayed.
    pub trims: u64,
    /// Flushes, if flushes are not replayed.
    pub flushes: u64,
}

/// Block of requests from the reading thread.
pub(crate) type Block = Result<Vec<Request>, TraceError>;
/// Blocks read ahead, in addition to the one being played.
pub(crate) const AHEAD: usize = 2;

/// Reads a trace ahead, until it ends or the receiver is gone.
pub(crate) fn read_ahead(mut blocks: impl FnMut() -> Option<Block>, to: &SyncSender<Block>) {
    while let Some(block) = blocks() {
        let broken = block.is_err();
        if to.send(block).is_err() || broken {
            return;
        }
    }
}

/// A trace placed on a target.
pub(crate) struct Traced {
    from: Receiver<Block>,
    first: Option<Block>,
    block: VecDeque<Request>,
    placement: Placement,
    options: ReplayOptions,
    number: u64,
    skipped: Skipped,
}

impl Traced {
    pub(crate) fn new(
        from: Receiver<Block>,
        placement: Placement,
        options: &ReplayOptions,
    ) -> Traced {
        let (block, skipped, options) = (VecDeque::new(), Skipped::default(), *options);
        Traced { from, first: None, block, placement, options, number: 0, skipped }
    }

    /// Waits for the first block, so that the replay does not start late.
    pub(crate) fn wait_for_first(&mut self) {
        self.first = self.from.recv().ok();
    }

    fn is_wanted(&mut self, op: Op) -> bool {
        let ReplayOptions { only_reads, trim, .. } = self.options;
        let (filter, skipped) = match op {
            Op::Read => return true,
            Op::Write | Op::WriteFua => (!only_reads, &mut self.skipped.writes),
            Op::Trim => (trim && !only_reads, &mut self.skipped.trims),
            Op::Flush => (trim && !only_reads, &mut self.skipped.flushes),
        };
        *skipped += u64::from(!filter);
        filter
    }
}

impl Source for Traced {
    fn next(&mut self) -> Next {
        while self.block.is_empty() {
            match self.first.take().map_or_else(|| self.from.try_recv(), Ok) {
                Ok(Ok(block)) => self.block = block.into(),
                Ok(Err(error)) => return Next::Broken(error.to_string()),
                Err(TryRecvError::Empty) => return Next::NotYet,
                Err(TryRecvError::Disconnected) => return Next::End,
            }
        }
        let request = self.block.pop_front().expect("not empty");
        let Request { at, response, op, .. } = request;
        let command = if !self.is_wanted(op) {
            None
        } else if op == Op::Flush {
            Some(Command { op, offset_bytes: 0, bytes: 0 })
        } else {
            match self.placement.place(&request) {
                Ok((offset_bytes, bytes)) => {
                    // Left out: FUA. Effect: the write may complete before it is durable.
                    let op = if op == Op::WriteFua { Op::Write } else { op };
                    Some(Command { op, offset_bytes, bytes })
                }
                Err(error) => return Next::Broken(error.to_string()),
            }
        };
        let number = self.number;
        self.number += 1;
        Next::Item(Item { number, at, response, command })
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }
}
