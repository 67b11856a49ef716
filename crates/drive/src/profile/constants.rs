//! Constants and conversions that several parts of a profile use.

use drivebay_units::Nanos;

/// Bytes of a mapped page.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a map entry, which is the location of a page.
pub const MAP_ENTRY_BYTES: u64 = 4;
/// Maximum number of throttle stages of a profile; stage 0 is "none".
pub const THROTTLE_STAGES_MAX: usize = 4;

/// Steps of a throttle stage that takes effect gradually.
pub const THROTTLE_STEPS: u32 = 16;
/// Maximum number of page types of a flash cell (QLC has four).
pub const PAGE_TYPES_MAX: usize = 4;

/// Time to transfer `bytes` at `fs_per_byte`, rounded to the nearest nanosecond.
#[inline(always)]
#[must_use]
pub fn transfer(bytes: u64, fs_per_byte: u64) -> Nanos {
    Nanos((bytes * fs_per_byte + 500_000) / 1_000_000)
}
