//! Every state that a power cut could leave: a recording of a drive's commands, what of it may be
//! lost by the drive's rules, and the states that follow, as files.
//!
//! Sources: eXplode (Yang et al., OSDI 2006), ALICE (Pillai et al., OSDI 2014), Yat (Lantz et al.,
//! ATC 2014), CrashMonkey (Mohan et al., OSDI 2018). The way through: `recording.rs` (or
//! `dm_log_writes.rs`) gives commands and events, `model.rs` says from when to when each part of a
//! write is volatile, `choices.rs` what a cut may leave of them, `states.rs` enumerates, `view.rs`
//! makes a file of a state, `timeline.rs` tells of one.
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

pub use recording::{CrashError, Header, Op, Recorder, Recording};
pub use rules::Rules;
pub use states::{Coverage, State, States};
pub use timeline::{Line, Timeline, Why};
pub use view::View;
