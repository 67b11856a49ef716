//! Runs a workload on a drive from the drive's present time on, and selects the loop.
//!
//! `closed_loop.rs` has the loop for one submission queue, `jobs.rs` that for several; requests too
//! large for one command go through `split.rs`.

use drivebay_drive::Device;
use drivebay_units::SECTOR_BYTES;

use crate::closed_loop::ClosedLoop;
use crate::control::Control;
use crate::error::RunError;
use crate::inside::{Keep, Kept};
use crate::jobs::run_together;
use crate::recorder::Outcome;
use crate::workload::Workload;

/// Runs a workload on a drive, from the drive's present time on.
///
/// # Errors
/// [`RunError`]; after `Cancelled` the drive is in an undefined but valid state. A drive that wears
/// out during the run is not an error: see [`Outcome::worn_out`].
pub fn run(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
) -> Result<Outcome, RunError> {
    run_keeping(device, workload, seed, control, Keep::default()).map(|(outcome, _)| outcome)
}

/// Runs a workload as [`run`] does, and also keeps samples of I/Os and events inside the drive.
///
/// # Errors
/// As [`run`].
pub fn run_keeping(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
    keep: Keep,
) -> Result<(Outcome, Kept), RunError> {
    // The plain run is compiled separately from the one that keeps something.
    let keeps = keep != Keep::default();
    let done = match keeps {
        false => run_loop::<false>(device, workload, seed, control, keep),
        true => run_loop::<true>(device, workload, seed, control, keep),
    };
    if done.is_err() {
        // Removes the other outstanding commands, which do not belong to the next run.
        while device.next_command().is_some() {
            let _ = device.serve();
        }
        if keeps {
            device.take_events();
        }
    }
    done
}

fn run_loop<const KEEPS: bool>(
    device: &mut Device,
    workload: &Workload,
    seed: u64,
    control: &Control,
    keep: Keep,
) -> Result<(Outcome, Kept), RunError> {
    workload.check(device.spec())?;
    workload.check_state(device)?;
    if workload.queues > 1 {
        let jobs = [(workload.clone(), seed)];
        let (mut outcomes, kept) = run_together::<KEEPS>(device, &jobs, control, keep, &[])?;
        return Ok((outcomes.remove(0), kept));
    }
    let mut run = ClosedLoop::<KEEPS>::new(device, workload, seed, control, keep);
    let transfer_max = device.spec().host.transfer_max;
    let ended = if workload.largest_bytes() > u64::from(transfer_max) * SECTOR_BYTES {
        run.run_split(device, workload.queue_depth, transfer_max)
    } else {
        run.run_single(device)
    };
    run.end_with(device, ended)?;
    Ok(run.finish(device))
}
