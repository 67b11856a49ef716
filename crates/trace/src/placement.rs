//! Placement of recorded requests on another drive: folded or scaled, with alignment kept.
//!
//! The rules are defined in `docs/concepts/replay.md`. A recording that fits keeps its addresses
//! under both rules. Left out: a request that spans two scaled granules stays in one piece, so up
//! to its length lies in the neighbouring granule.

use drivebay_units::{SECTOR_BYTES, refuse_if};
use serde::Deserialize;

use crate::request::Request;

/// Addresses move by multiples of this, so every alignment up to it is kept.
pub const GRANULE_BYTES: u64 = 16 << 20;
/// Rounding unit of the capacity for small drives.
const SMALL_BYTES: u64 = 4096;
/// 2^64 over the golden ratio: any number of its multiples modulo 2^64 is evenly spread.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Rule for addresses beyond the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Modulo the drive's size: neighbouring addresses stay neighbours, the ends overlap.
    #[default]
    Fold,
    /// Proportional, by granules: the order of addresses is kept, neighbouring granules overlap.
    Scale,
}

/// Maps requests to addresses on a drive. Cost: one division per request.
#[derive(Clone, Debug)]
pub struct Placement {
    rule: Rule,
    block_bytes: u64,
    /// Usable bytes of the drive.
    room_bytes: u64,
    /// Granules of the recording and of the drive, for scaling; `None` if the recording fits.
    granules: Option<(u64, u64)>,
}

/// Reason why a recording cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The drive is too small.
    #[error("a drive of {0} bytes is too small for a replay\nhint: use one of at least 64 MiB")]
    TooSmall(u64),
    /// A request is longer than the drive.
    #[error(
        "a request of {bytes} bytes does not fit a drive of {room} bytes\nhint: replay it on a larger drive"
    )]
    TooLong {
        /// Bytes of the request.
        bytes: u64,
        /// Usable bytes of the drive.
        room: u64,
    },
}

/// Alignment of the start addresses of a recording's devices.
const DEVICE_BYTES: u64 = 1 << 20;
/// Smallest drive that is accepted.
const ROOM_BYTES_MIN: u64 = 64 << 20;

impl Placement {
    /// Creates a placement on a drive of `capacity_bytes` with logical blocks of `block_bytes` (a
    /// power of two from 512). `recorded_bytes` is the end of the recording's highest address,
    /// required for scaling.
    ///
    /// # Errors
    /// [`PlaceError::TooSmall`].
    ///
    /// # Panics
    /// If `block_bytes` is not a power of two from 512 to 64 KiB.
    pub fn new(
        rule: Rule,
        capacity_bytes: u64,
        block_bytes: u64,
        recorded_bytes: u64,
    ) -> Result<Placement, PlaceError> {
        assert!(
            block_bytes.is_power_of_two() && (SECTOR_BYTES..=65_536).contains(&block_bytes),
            "a logical block is a power of two from 512 to 65536"
        );
        refuse_if(capacity_bytes < ROOM_BYTES_MIN, PlaceError::TooSmall(capacity_bytes))?;
        let unit = if capacity_bytes >= 64 * GRANULE_BYTES { GRANULE_BYTES } else { SMALL_BYTES };
        let fits = recorded_bytes <= capacity_bytes;
        let granules = (rule == Rule::Scale && !fits)
            .then(|| (recorded_bytes.div_ceil(GRANULE_BYTES), capacity_bytes / GRANULE_BYTES));
        // A recording that fits keeps its addresses up to the drive's last block.
        let unit = if fits && recorded_bytes > 0 { block_bytes } else { unit.max(block_bytes) };
        let room_bytes = capacity_bytes / unit * unit;
        Ok(Placement { rule, block_bytes, room_bytes, granules })
    }

    /// Rule for addresses beyond the drive.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns first byte and length on the drive, both multiples of its logical block.
    ///
    /// # Errors
    /// [`PlaceError::TooLong`].
    #[inline]
    pub fn place(&self, request: &Request) -> Result<(u64, u64), PlaceError> {
        let block = self.block_bytes - 1;
        let start = request.offset_bytes & !block;
        // Offset plus length is below 2^63, so rounding up cannot overflow.
        let bytes = ((request.offset_bytes + request.bytes + block) & !block) - start;
        refuse_if(bytes > self.room_bytes, PlaceError::TooLong { bytes, room: self.room_bytes })?;
        let moved = match self.granules {
            Some((from, to)) => {
                let granule = start / GRANULE_BYTES;
                let scaled = u128::from(granule) * u128::from(to) / u128::from(from);
                (scaled as u64) * GRANULE_BYTES + start % GRANULE_BYTES
            }
            None => start,
        };
        let folded = self.fold(moved, request.device);
        if folded + bytes <= self.room_bytes {
            return Ok((folded, bytes));
        }
        // A request across the end moves to the beginning, with the same offset within its 4 KiB
        // page.
        let inside = folded % SMALL_BYTES;
        Ok((if inside + bytes <= self.room_bytes { inside } else { 0 }, bytes))
    }

    #[inline]
    fn fold(&self, offset: u64, device: u32) -> u64 {
        let offset =
            if device == 0 { offset } else { offset % self.room_bytes + self.base(device) };
        if offset < self.room_bytes { offset } else { offset % self.room_bytes }
    }

    /// Start address of a device of the recording: 0 for device 0, evenly spread for the others.
    fn base(&self, device: u32) -> u64 {
        let share = u64::from(device).wrapping_mul(GOLDEN);
        let bytes = ((u128::from(share) * u128::from(self.room_bytes)) >> 64) as u64;
        bytes / DEVICE_BYTES * DEVICE_BYTES
    }
}

#[cfg(test)]
#[path = "../tests/unit/placement.rs"]
mod tests;
