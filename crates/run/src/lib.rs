//! The run: a workload on a virtual drive in virtual time, and what was recorded of it.
//!
//! `driver.rs` is the loop: next request, earliest free slot, `Device::submit`, `recorder.rs`.
//! `replay.rs` is the other one, for traces: an open loop. `trim_check.rs` validates TRIM.
//! `snapshot.rs` keeps a drive's state in a file.
//! This crate must not know protocols on the wire, Python, or files but those of a drive's state.

mod control;
mod discard;
mod driver;
mod outstanding;
mod permutation;
mod queues;
mod recorder;
mod replay;
mod slots;
pub mod snapshot;
mod split;
mod trim_check;
mod workload;

pub use control::Control;
pub use discard::discard;
pub use drivebay_units::{Bin, Histogram};
pub use driver::{Outcome, QueueTotals, RunError, Sample, run, run_sampled};
pub use outstanding::{Occupancy, Outstanding};
pub use queues::{Arbitration, Priority, Weighted};
pub use recorder::{Recorder, Row, Sensor};
pub use replay::{ReplayError, ReplayPlan, Replayed, replay};
pub use trim_check::{TrimChecked, TrimPlan, trim_check};
pub use workload::{Offsets, Pattern, Stable, Stop, Streams, Workload, WorkloadError};
