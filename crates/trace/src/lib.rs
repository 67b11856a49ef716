//! Traces: the formats people have, in; fio's and CSV, out; their order and their statistics.
//!
//! A trace streams: memory is bounded whatever its length, see `docs/concepts/traces.md`. Text is parsed
//! by hand, without allocation per line. This crate must not know drives, runs, wall clocks or Python.

mod error;
mod fold;
mod formats;
mod input;
mod jobs;
mod order;
mod pace;
mod reader;
mod request;
mod source;
mod stats;
mod synth;
mod write;

pub use error::TraceError;
pub use fold::{GRANULE_BYTES, PlaceError, Placement, Rule};
pub use formats::{Format, LeftOut};
pub use input::{LINE_BYTES_MAX, UNPACK_FREE_BYTES, UNPACK_RATIO_MAX};
pub use jobs::{Summary, convert, convert_from, info, info_of};
pub use order::{GoOn, Order, RUN, Trace, WINDOW};
pub use pace::{DEPTH_MAX, Pace, PaceError, Pacer, TIME_PERCENT_MAX, Ticket};
pub use reader::Reader;
pub use request::{Op, Request};
pub use source::{Source, What};
pub use stats::{Info, PAGE_BYTES, STREAMS, Shares, Stats, TooManyDevices};
pub use synth::{Chosen, Phase, Profile, Published, Synth, SynthError};
pub use write::{CSV_HEADER, Kind, Writer};
