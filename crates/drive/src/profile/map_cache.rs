//! A map that does not fit in the drive's memory: `[map_cache]`, optional.

use drivebay_units::Nanos;

use super::constants::PAGE_BYTES;
use super::flash::Geometry;
use super::key::SpecError;
use super::schema::RawMapCache;

/// log2 of map entries per translation page: 4 KiB of 4 bytes each.
pub const MAP_ENTRIES_SHIFT: u32 = 10;

/// Sizes in translation pages, and the cost of an access to the host's memory.
#[derive(Clone, Copy, Debug)]
pub struct MapCacheSpec {
    /// Translation pages in the controller's memory.
    pub sram_pages: u32,
    /// Translation pages in the host's memory.
    pub host_pages: u32,
    /// Time of one access to the host's memory.
    pub host_access: Nanos,
    /// Translation pages of the whole map.
    pub map_pages: u32,
}

pub(super) fn check_map_cache(
    raw: &RawMapCache,
    geometry: &Geometry,
) -> Result<MapCacheSpec, SpecError> {
    let kib = raw.sram_kib.value;
    if !(kib * 1024).is_multiple_of(PAGE_BYTES) {
        let hint = format!("use {}", kib / 4 * 4);
        return Err(SpecError::out("map_cache.sram_kib", kib, "a multiple of 4", &hint));
    }
    Ok(MapCacheSpec {
        sram_pages: (kib * 1024 / PAGE_BYTES) as u32,
        host_pages: (raw.host_buffer_mib.value * (1 << 20) / PAGE_BYTES) as u32,
        host_access: raw.host_buffer_us.micros(),
        map_pages: geometry.user_pages.div_ceil(1 << MAP_ENTRIES_SHIFT),
    })
}
