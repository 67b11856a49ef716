//! Whole replays: sets up the threads, the ring and the loop.

use std::sync::mpsc::sync_channel;
use std::thread;

use drivebay_trace::{Pacer, Placement, Request, TraceError};

use crate::clock::Monotonic;
use crate::control::Control;
use crate::error::ReplayError;
use crate::options::ReplayOptions;
use crate::replay_loop::{Outcome, play};
use crate::source::{AHEAD, Traced, read_ahead};
use crate::target::Target;
use crate::uring::Uring;

/// Plays a trace that is passed block by block in time order, with the first request at 0.
///
/// The caller's thread submits; another thread reads the trace ahead.
///
/// # Errors
/// If it cannot begin. Later problems are in the outcome.
pub fn replay(
    blocks: impl FnMut() -> Option<Result<Vec<Request>, TraceError>> + Send,
    target: Target,
    options: &ReplayOptions,
    placement: Placement,
    control: &Control,
) -> Result<Outcome, ReplayError> {
    options.check()?;
    let pacer = Pacer::new(options.pace())?;
    let (direct, capacity_bytes) = (target.direct, target.capacity_bytes);
    let mut ring = Uring::new(target, options)?;
    wake_exactly();
    thread::scope(|scope| {
        let (to, from) = sync_channel(AHEAD);
        scope.spawn(move || read_ahead(blocks, &to));
        let mut source = Traced::new(from, placement, options);
        source.wait_for_first();
        let clock = Monotonic::default();
        let fixed_buffers = ring.fixed;
        let played = play(&mut source, pacer, &mut ring, &clock, capacity_bytes, options, control);
        drop(source); // lets the reading thread end
        played.map(|outcome| Outcome { fixed_buffers, direct, ..outcome })
    })
}

/// Sets this thread to wake up exactly on time, not up to 50 us later; see timerslack in prctl(2).
fn wake_exactly() {
    // On failure, wake-ups are later, which the lateness shows.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
