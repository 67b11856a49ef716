//! TRIM validation on a virtual drive: read written data, discard it, and read it again.
//!
//! The method follows the reviews (write a pattern, delete it, read its blocks raw), with one
//! request at a time. The model keeps no data, so the content of a read follows from the map: a
//! mapped page returns the data written to it, an unmapped page returns zeros without a flash read
//! (`docs/concepts/model.md`). Left out: drives that return other data after a discard, or
//! inconsistent data.

use drivebay_drive::{Device, Io, Op};
use drivebay_units::{Nanos, SECTOR_BYTES, refuse_if};

use crate::control::Control;
use crate::error::RunError;
use crate::recorder::{Outcome, Recorder};

/// Sectors per write of the pattern.
const WRITE_SECTORS: u32 = 256;
/// Unit of the map.
const PAGE_BYTES: u64 = 4096;
const PAGE_SECTORS: u32 = (PAGE_BYTES / SECTOR_BYTES) as u32;

/// Blocks to check, and number of reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimPlan {
    /// First byte of each extent; whole writes of 128 KiB.
    pub starts: Vec<u64>,
    /// Length of each extent; its middle half is discarded.
    pub extent_bytes: u64,
    /// Number of reads of every block of the middle halves.
    pub reads: u32,
    /// True to discard before reading; false to write the pattern before reading.
    pub discard: bool,
}

/// Results of the check.
pub struct TrimCheckOutcome {
    /// Reads of the middle halves, 4 KiB at queue depth 1.
    pub outcome: Outcome,
    /// 4 KiB pages of the middle halves.
    pub pages: u64,
    /// Pages of the middle halves that still return the written data.
    pub mapped: u64,
    /// Pages of the outer quarters whose data is lost.
    pub outer_lost: u64,
}

/// Writes or discards, then reads, from the drive's present time on.
///
/// # Errors
/// [`RunError`], also if an extent is not on the drive.
pub fn trim_check(
    device: &mut Device,
    plan: &TrimPlan,
    control: &Control,
) -> Result<TrimCheckOutcome, RunError> {
    let quarter = plan.extent_bytes / 4;
    let mut now = device.now();
    for &start in &plan.starts {
        now = if plan.discard {
            let io = io(Op::Trim, start + quarter, (2 * quarter / SECTOR_BYTES) as u32);
            device.submit(now, io)?.done
        } else {
            write(device, now, start, plan.extent_bytes)?
        };
    }
    // Otherwise reads would be served from the write buffer.
    now = device.submit(now, io(Op::Flush, 0, 0))?.done;
    device.take_peak_power_w();
    let mut recorder = Recorder::new(now, Nanos(u64::MAX), device.counters());
    for _ in 0..plan.reads {
        for page in pages(plan, quarter..3 * quarter) {
            refuse_if(control.cancelled(), RunError::Cancelled)?;
            let read = io(Op::Read, page * PAGE_BYTES, PAGE_SECTORS);
            let done = device.submit(now, read)?;
            recorder.count(Op::Read, PAGE_BYTES, done.done.since(now), done.done, &done.stages);
            now = done.done;
        }
    }
    let outcome = recorder.finish(device, now, now);
    let kept = |&page: &u64| device.is_mapped(page * u64::from(PAGE_SECTORS));
    let outer = pages(plan, 0..quarter).chain(pages(plan, 3 * quarter..4 * quarter));
    Ok(TrimCheckOutcome {
        pages: pages(plan, quarter..3 * quarter).count() as u64,
        mapped: pages(plan, quarter..3 * quarter).filter(kept).count() as u64,
        outer_lost: outer.filter(|page| !kept(page)).count() as u64,
        outcome,
    })
}

fn write(device: &mut Device, begin: Nanos, start: u64, len: u64) -> Result<Nanos, RunError> {
    let mut now = begin;
    for at in (start..start + len).step_by(WRITE_SECTORS as usize * SECTOR_BYTES as usize) {
        now = device.submit(now, io(Op::Write, at, WRITE_SECTORS))?.done;
    }
    Ok(now)
}

fn io(op: Op, at_bytes: u64, sectors: u32) -> Io {
    Io::new(op, at_bytes / SECTOR_BYTES, sectors)
}

/// Returns the pages in a part of every extent.
fn pages(plan: &TrimPlan, part: std::ops::Range<u64>) -> impl Iterator<Item = u64> + '_ {
    plan.starts.iter().flat_map(move |&start| {
        let page = |at: u64| (start + at) / PAGE_BYTES;
        page(part.start)..page(part.end)
    })
}
