//! Whole replays: threads, ring and player put together.

use std::sync::mpsc::sync_channel;
use std::thread;

use drivebay_trace::{Op, Pace, Pacer, Placement, Request, TraceError};
use drivebay_units::{Nanos, Rng};

use crate::clock::Monotonic;
use crate::control::Control;
use crate::error::ReplayError;
use crate::record::Record;
use crate::replay_loop::{EndReason, Options, Outcome, play};
use crate::source::{AHEAD, Item, Next, OpFilter, Skipped, Source, Traced, read_ahead};
use crate::target::{Content, Target};
use crate::uring::{Command, Uring};

/// How a trace is played.
#[derive(Clone, Debug)]
pub struct ReplaySetup {
    /// When requests are due.
    pub pace: Pace,
    /// Where on the target their addresses lie.
    pub placement: Placement,
    /// Which requests are issued, which are passed over.
    pub filter: OpFilter,
    /// The data that write requests carry.
    pub content: Content,
    /// Queue depth, polling and limits.
    pub options: Options,
}

/// Plays a trace, given block by block in order of time, the first request at 0.
///
/// The caller's thread submits; another one reads the trace ahead.
///
/// # Errors
/// If it cannot begin. Whatever happens later is in the outcome.
pub fn replay(
    blocks: impl FnMut() -> Option<Result<Vec<Request>, TraceError>> + Send,
    target: Target,
    setup: &ReplaySetup,
    control: &Control,
) -> Result<Outcome, ReplayError> {
    setup.options.check()?;
    let pacer = Pacer::new(setup.pace)?;
    let (direct, capacity_bytes) = (target.direct, target.capacity_bytes);
    let mut ring = Uring::new(target, setup.options.depth, setup.content)?;
    wake_exactly();
    thread::scope(|scope| {
        let (to, from) = sync_channel(AHEAD);
        scope.spawn(move || read_ahead(blocks, &to));
        let mut source = Traced::new(from, setup.placement.clone(), setup.filter);
        match source.wait_for_first() {
            Next::Broken(text) => return Ok(nothing(EndReason::Broken(text), direct)),
            Next::End => return Ok(nothing(EndReason::Complete, direct)),
            _ => {}
        }
        let clock = Monotonic::default();
        let fixed_buffers = ring.fixed_buffers();
        let played = play(
            &mut source,
            Some(pacer),
            &mut ring,
            &clock,
            capacity_bytes,
            &setup.options,
            control,
        );
        drop(source); // lets the reading thread end
        played.map(|outcome| Outcome { fixed_buffers, direct, ..outcome })
    })
}

fn nothing(ended: EndReason, direct: bool) -> Outcome {
    let (record, skipped) = (Record::default(), Skipped::default());
    let (length, unanswered, fixed_buffers) = (Nanos::ZERO, 0, false);
    Outcome { ended, record, skipped, length, unanswered, fixed_buffers, direct }
}

/// Has this thread woken when its time has come, not up to 50 us later; see timerslack in prctl(2).
fn wake_exactly() {
    // Where it fails, wake-ups are later, which the lateness shows.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// A closed loop: always `depth` reads of one size outstanding, at random places.
#[derive(Clone, Copy, Debug)]
pub struct ReadLoop {
    /// Bytes of each read; a multiple of the target's logical block.
    pub block_bytes: u64,
    /// Reads outstanding at the same time.
    pub depth: u32,
    /// Length of the run.
    pub length: Nanos,
    /// Seed of the offsets.
    pub seed: u64,
}

struct RandomReads {
    rng: Rng,
    blocks: u64,
    block_bytes: u64,
    number: u64,
}

impl Source for RandomReads {
    fn next(&mut self) -> Next {
        let offset_bytes = self.rng.below(self.blocks) * self.block_bytes;
        let command = Some(Command { op: Op::Read, offset_bytes, bytes: self.block_bytes });
        let number = self.number;
        self.number += 1;
        Next::Item(Item { number, at: Nanos::ZERO, response: None, command })
    }
}

/// Reads at random as fast as the depth allows: for comparing this engine with others.
///
/// # Errors
/// If it cannot begin.
pub fn closed_loop(
    target: Target,
    load: &ReadLoop,
    control: &Control,
) -> Result<Outcome, ReplayError> {
    let options =
        Options { depth: load.depth, length_max: Some(load.length), ..Options::default() };
    options.check()?;
    let (direct, capacity_bytes) = (target.direct, target.capacity_bytes);
    let blocks = capacity_bytes.checked_div(load.block_bytes).unwrap_or(0);
    if blocks == 0 {
        let (field, given) = ("block_bytes", load.block_bytes);
        let (allowed, hint) = ("1 to the target's size", "4096");
        return Err(ReplayError::OutOfRange { field, given, allowed, hint });
    }
    let rng = Rng::new(load.seed).fork("places");
    let mut source = RandomReads { rng, blocks, block_bytes: load.block_bytes, number: 0 };
    let mut ring = Uring::new(target, load.depth, Content::Zero)?;
    let fixed_buffers = ring.fixed_buffers();
    let clock = Monotonic::default();
    let played = play(&mut source, None, &mut ring, &clock, capacity_bytes, &options, control);
    played.map(|outcome| Outcome { fixed_buffers, direct, ..outcome })
}
