//! Replay on real drives: a trace played through io_uring, each request at its time.
//!
//! `replay_loop.rs` is the loop: what is due is issued, what is done is recorded, then sleep until
//! just before the next. When a request is due is the word of [`drivebay_trace::Pacer`], the same
//! as for a virtual drive. `uring.rs` is the only place that talks to the kernel about I/O. This
//! crate must not know virtual drives, suites, what may be overwritten, or Python: who calls it has
//! made sure that the file or device may be used so.

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
pub use record::{Failure, Record, Row};
pub use replay_loop::{EndReason, Outcome, play};
pub use run::replay;
pub use source::{Item, Next, Skipped, Source};
pub use target::Target;
pub use uring::{Command, IoBackend, Queueing, WaitFor};
