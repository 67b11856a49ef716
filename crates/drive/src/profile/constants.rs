//! What several parts of a profile go by.

use drivebay_units::Nanos;

/// Bytes of a mapped page.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of an entry of the map: where a page is.
pub const MAP_ENTRY_BYTES: u64 = 4;
/// Most throttle stages of a profile; stage 0 is "none".
pub const THROTTLE_STAGES_MAX: usize = 4;

/// Steps of a throttle stage that takes hold little by little.
pub const THROTTLE_STEPS: u32 = 16;
/// Most page types of a flash cell (QLC has four).
pub const PAGE_TYPES_MAX: usize = 4;

/// `bytes` at `fs_per_byte`, rounded to the nearest nanosecond.
#[inline(always)]
#[must_use]
pub fn transfer(bytes: u64, fs_per_byte: u64) -> Nanos {
    Nanos((bytes * fs_per_byte + 500_000) / 1_000_000)
}
