//! Replay on real drives: a trace played through io_uring, each request at its time.
//!
//! `replay_loop.rs` is the loop: it issues due requests, records completions, and sleeps until just
//! before the next request. [`drivebay_trace::Pacer`] decides when a request is due, as for a
//! virtual drive. All I/O goes through `uring.rs`. This crate must not know virtual drives, suites,
//! which targets may be overwritten, or Python: the caller has made sure that the file or device
//! may be used in this way.

mod buffers;
mod clock;
mod control;
mod error;
mod options;
mod plan;
mod record;
mod replay_loop;
mod run;
mod source;
mod target;
mod uring;

pub use clock::{Clock, Monotonic};
pub use control::{Control, Progress};
pub use error::ReplayError;
pub use options::{DEPTH_MAX, Mode, ReplayOptions};
pub use plan::{Plan, PlanError, Survey};
pub use record::{Failure, Record};
pub use replay_loop::{EndReason, Outcome, play};
pub use run::replay;
pub use source::{Item, Next, Skipped, Source};
pub use target::Target;
pub use uring::{Command, IoBackend, Queueing, WaitFor};
