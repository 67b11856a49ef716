//! A controller that reduces data before it is stored: `[compression]`, optional.

use super::constants::PAGE_BYTES;
use super::flash::Geometry;
use super::key::SpecError;
use super::schema::RawCompression;

/// How far data is reduced.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    /// A reduced page of 4 KiB takes a multiple of this.
    pub unit_bytes: u32,
}

impl Compression {
    /// What 4 KiB take on flash, of which `percent` can be compressed away.
    #[must_use]
    pub fn stored_bytes(&self, percent: u32) -> u32 {
        let left = (PAGE_BYTES as u32 * (100 - percent.min(100))).div_ceil(100);
        left.next_multiple_of(self.unit_bytes).max(self.unit_bytes)
    }
}

pub(super) fn check_compression(
    raw: &RawCompression,
    geometry: &Geometry,
) -> Result<Compression, SpecError> {
    let field = "compression.unit_bytes";
    let unit = raw.unit_bytes.value;
    if !unit.is_power_of_two() {
        let hint = format!("use {}", unit.next_power_of_two());
        return Err(SpecError::out(field, unit, "a power of two", &hint));
    }
    let pages = u64::from(geometry.superblocks) * u64::from(geometry.superblock_pages);
    if pages >= 1 << 31 {
        let hint = "use smaller flash, or leave out [compression]";
        return Err(SpecError::out(field, unit, "left out on a drive of 8 TiB of flash", hint));
    }
    Ok(Compression { unit_bytes: unit as u32 })
}
