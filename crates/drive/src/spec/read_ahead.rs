//! Reading ahead: `[read_ahead]`, optional.

use super::checker::{Checker, SpecError};
use super::constants::PAGE_BYTES;
use crate::raw::RawReadAhead;

/// How far and for how many streams.
#[derive(Clone, Copy, Debug)]
pub struct ReadAheadSpec {
    /// Most pages fetched ahead of a stream.
    pub window_pages: u32,
    /// Streams that are told apart.
    pub streams: u32,
}

pub(super) fn check_read_ahead(raw: &RawReadAhead) -> Result<ReadAheadSpec, SpecError> {
    let kib = Checker::integer("read_ahead.window_kib", &raw.window_kib, 8, 16384)?;
    let streams = Checker::integer("read_ahead.streams", &raw.streams, 1, 64)?;
    Ok(ReadAheadSpec { window_pages: (kib * 1024 / PAGE_BYTES) as u32, streams: streams as u32 })
}
