//! Read-ahead: `[read_ahead]`, optional.

use super::flash::Geometry;
use super::schema::RawReadAhead;

/// Window and number of streams of read-ahead.
#[derive(Clone, Copy, Debug)]
pub struct ReadAheadSpec {
    /// Maximum number of pages that are read ahead of a stream.
    pub window_pages: u32,
    /// Number of streams that the drive can distinguish.
    pub streams: u32,
}

pub(super) fn read_ahead(raw: &RawReadAhead, geometry: &Geometry) -> ReadAheadSpec {
    ReadAheadSpec {
        window_pages: (raw.window_kib.value * 1024 / geometry.unit_bytes()).max(1) as u32,
        streams: raw.streams.value as u32,
    }
}
