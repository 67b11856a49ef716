//! Block traces: input in common formats, output as fio's iolog and CSV, ordering and statistics.
//!
//! A trace streams: memory is bounded for any length, see `docs/concepts/traces.md`. Text is parsed
//! by hand, without allocation per line. This crate must not know drives, runs, wall clocks or
//! Python.

mod error;
mod formats;
mod input;
mod jobs;
mod order;
mod pace;
mod placement;
mod reader;
mod request;
mod source;
mod stats;
mod synth;
mod unpack;
mod write;

pub use error::TraceError;
pub use formats::{CSV_HEADER, ColumnMap, Format, Given, Skipped};
pub use input::LINE_BYTES_MAX;
pub use jobs::{Summary, convert, info};
pub use order::{KeepRunning, Order, RUN, Trace, WINDOW};
pub use pace::{DEPTH_MAX, Pace, PaceError, Pacer, TIME_PERCENT_MAX, Ticket};
pub use placement::{GRANULE_BYTES, PlaceError, Placement, Rule};
pub use reader::{Reader, TraceFile};
pub use request::{Op, Request, TimeUnit};
pub use source::{RequestSource, TraceSource};
pub use stats::{Info, PAGE_BYTES, STREAMS, Shares, Stats, TooManyDevices};
pub use synth::{Chosen, Phase, Profile, Published, Synth};
pub use unpack::{UNPACK_FREE_BYTES, UNPACK_RATIO_MAX};
pub use write::{TextFormat, Writer};
