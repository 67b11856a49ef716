//! A workload on a drive, from the drive's present time on: which loop runs it.
//!
//! `closed_loop.rs` has the loops for one and for several submission queues; requests too large for one
//! command go through `split.rs`.

use drivebay_drive::Device;
use drivebay_units::SECTOR_BYTES;

use crate::closed_loop::{ClosedLoop, Sample};
use crate::control::Control;
use crate::error::RunError;
use crate::queues::SubmissionQueues;
use crate::recorder::{Outcome, Totals};
use crate::workload::Workload;

/// Runs a workload on a drive, from the drive's present time on.
///
/// # Errors
/// [`RunError`]; after `Cancelled` the drive is in an undefined but valid state.
pub fn run(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
) -> Result<Outcome, RunError> {
    run_sampled(device, workload, seed, control, 0).map(|(outcome, _)| outcome)
}

/// As [`run`], and keeps every `every`-th completed I/O, in the order in which they were served; 0 for none.
///
/// # Errors
/// As [`run`].
pub fn run_sampled(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
    every: u64,
) -> Result<(Outcome, Vec<Sample>), RunError> {
    // The plain run and the one that keeps samples are compiled apart.
    if every == 0 {
        run_loop::<false>(device, workload, seed, control, 0)
    } else {
        run_loop::<true>(device, workload, seed, control, every)
    }
}

fn run_loop<const SAMPLED: bool>(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
    every: u64,
) -> Result<(Outcome, Vec<Sample>), RunError> {
    workload.check(device.spec())?;
    let mut run = ClosedLoop::<SAMPLED>::new(device, workload, seed, control, every);
    let transfer_max = device.spec().host.transfer_max;
    if workload.queues > 1 {
        let mut queues = vec![Totals::default(); workload.queues as usize];
        let submission = SubmissionQueues::new(workload.queues);
        run.run_queues(device, submission, &mut queues)?;
        let (outcome, samples) = run.finish(device);
        return Ok((Outcome { queues, ..outcome }, samples));
    }
    if workload.largest_bytes() > u64::from(transfer_max) * SECTOR_BYTES {
        run.run_split(device, workload.queue_depth, transfer_max)?;
    } else {
        run.run_single(device)?;
    }
    Ok(run.finish(device))
}
