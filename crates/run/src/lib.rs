//! Workloads on a virtual drive in virtual time, and their results.
//!
//! `driver.rs` selects the loop, `jobs.rs` runs several at once. `closed_loop.rs` is the loop: next
//! request, first free queue slot, the drive, `recorder.rs`; `inside.rs` keeps optional data.
//! `replay.rs` is the open loop for traces. `trim_check.rs` validates TRIM. `array.rs` combines
//! several drives into one; `jobs.rs` runs on it as on a drive (`storage.rs`). `snapshot.rs` stores
//! a drive's state in a file. This crate must not know wire protocols, Python, or files other than
//! those of a drive's state.

mod array;
mod bssplit;
mod closed_loop;
mod control;
mod discard;
mod distribution;
mod driver;
mod error;
mod generator;
mod inside;
mod jobs;
mod pacing;
mod permutation;
mod queue_depth;
mod queue_slots;
mod queues;
mod recorder;
mod replay;
pub mod snapshot;
mod split;
mod sprandom;
mod storage;
mod trim_check;
mod workload;

pub use array::{Array, Layout, Level, MEMBERS_MAX, WHOLE};
pub use control::{Control, Progress};
pub use discard::discard;
pub use distribution::{Offsets, Zone};
pub use drivebay_units::{Bin, Histogram};
pub use driver::{run, run_keeping};
pub use error::RunError;
pub use inside::{Inside, Keep, Kept, Reading, Sample};
pub use jobs::{run_array, run_jobs};
pub use queue_depth::{DepthTracker, QueueDepths};
pub use queue_slots::DEPTH_MAX;
pub use recorder::{Outcome, Recorder, Row, Sensor, Totals};
pub use replay::{ReplayError, ReplayOptions, ReplayOutcome, replay};
pub use trim_check::{TrimCheckOutcome, TrimPlan, trim_check};
pub use workload::{Pattern, RateProcess, Stable, Stop, Streams, Workload, WorkloadError};
