//! Reading ahead: `[read_ahead]`, optional.

use super::flash::Geometry;
use super::schema::RawReadAhead;

/// How far and for how many streams.
#[derive(Clone, Copy, Debug)]
pub struct ReadAheadSpec {
    /// Most pages fetched ahead of a stream.
    pub window_pages: u32,
    /// Streams that are told apart.
    pub streams: u32,
}

pub(super) fn read_ahead(raw: &RawReadAhead, geometry: &Geometry) -> ReadAheadSpec {
    ReadAheadSpec {
        window_pages: (raw.window_kib.value * 1024 / geometry.unit_bytes()).max(1) as u32,
        streams: raw.streams.value as u32,
    }
}
