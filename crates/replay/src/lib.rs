//! Replay on real drives: a trace played through io_uring, each request at its time.
//!
//! `player.rs` is the loop: what is due is issued, what is done is recorded, then sleep until just
//! before the next. When a request is due is the word of [`drivebay_trace::Pacer`], the same as for a
//! virtual drive. `uring.rs` is the only place that talks to the kernel about I/O.
//! This crate must not know virtual drives, suites, what may be overwritten, or Python: who calls it
//! has made sure that the file or device may be used so.

mod areas;
mod clock;
mod error;
mod plan;
mod player;
mod record;
mod run;
mod source;
mod target;
mod uring;
mod watch;

pub use clock::{Clock, Monotonic};
pub use error::ReplayError;
pub use plan::{Plan, PlanError, Survey};
pub use player::{DEPTH_MAX, Ended, Options, Outcome, play};
pub use record::{Failure, Record, Row};
pub use run::{Loop, Made, closed_loop, replay};
pub use source::{Item, Next, Passed, Source, Wanted};
pub use target::{Content, Target};
pub use uring::{Command, Port, Queued, Until};
pub use watch::{Look, Watch};
