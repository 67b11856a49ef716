//! A map that does not fit the drive's memory: `[map_cache]`, optional.

use drivebay_units::Nanos;

use super::constants::PAGE_BYTES;
use super::flash::Geometry;
use super::key::SpecError;
use super::schema::RawMapCache;

/// Map entries of a translation page: 4 KiB of 4 bytes each.
pub const MAP_ENTRIES_SHIFT: u32 = 10;

/// Sizes in translation pages, and what the host's memory costs.
#[derive(Clone, Copy, Debug)]
pub struct MapCacheSpec {
    /// Translation pages that the controller holds.
    pub sram_pages: u32,
    /// Translation pages that the host holds for it.
    pub host_pages: u32,
    /// One access to the host's memory.
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
