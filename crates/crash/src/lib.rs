//! States that a power cut could leave: a recording of a drive's commands, the losses that the
//! drive's rules allow, and the resulting states as files.
//!
//! Sources: eXplode (Yang et al., OSDI 2006), ALICE (Pillai et al., OSDI 2014), Yat (Lantz et al.,
//! ATC 2014), CrashMonkey (Mohan et al., OSDI 2018). Processing order: `recording.rs` (or
//! `dm_log_writes.rs`) provides commands and events, `model.rs` computes the volatile period of
//! each part of a write, `choices.rs` the possible losses of a cut, `states.rs` enumerates the
//! states, `view.rs` writes a state to a file, `timeline.rs` describes one.
//!
//! This crate must not know sockets, clocks, how a drive is served, nor how a state is checked.

mod choices;
mod dm_log_writes;
mod model;
mod open;
mod recording;
mod rules;
mod states;
mod timeline;
mod view;

pub use recording::{Command, CrashError, Header, Op, Recorder, Recording};
pub use rules::{Kind, Rules, Standard};
pub use states::{Coverage, State, States};
pub use timeline::{Line, Timeline, Why};
pub use view::View;
