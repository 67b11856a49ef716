//! Where a recorded request goes on another drive: folded or scaled, alignment kept.
//!
//! The rules are written down in `docs/concepts/replay.md`. A recording that fits keeps its
//! addresses under both. Left out: a request that spans two scaled granules stays in one piece, so
//! up to its length lies in the neighbour.

use drivebay_units::SECTOR_BYTES;
use serde::Deserialize;

use crate::request::Request;

/// Addresses move by multiples of this, so every alignment up to it is kept.
pub const GRANULE_BYTES: u64 = 16 << 20;
/// What a small drive is rounded down to instead.
const SMALL_BYTES: u64 = 4096;
/// 2^64 over the golden ratio: multiples of it, modulo 2^64, lie evenly however many there are.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// How addresses beyond the drive are brought onto it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Modulo the drive's size: what lies close stays close, ends overlap.
    #[default]
    Fold,
    /// In proportion, by granules: the order of addresses is kept, neighbouring granules overlap.
    Scale,
}

/// Puts requests onto a drive. Cost: a division per request.
#[derive(Clone, Debug)]
pub struct Placement {
    rule: Rule,
    block_bytes: u64,
    /// The drive's bytes that are used.
    room_bytes: u64,
    /// Granules of the recording over those of the drive, for scaling; None where it fits.
    granules: Option<(u64, u64)>,
}

/// Why a recording cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The drive is smaller than a request may be.
    #[error("a drive of {0} bytes is too small for a replay\nhint: use one of at least 64 MiB")]
    TooSmall(u64),
    /// Longer than the drive.
    #[error(
        "a request of {bytes} bytes does not fit a drive of {room} bytes\nhint: replay it on a larger drive"
    )]
    TooLong {
        /// Of the request.
        bytes: u64,
        /// Of the drive.
        room: u64,
    },
}

/// Where the devices of a recording begin is a multiple of this.
const DEVICE_BYTES: u64 = 1 << 20;
/// Smallest drive that is accepted.
const ROOM_BYTES_MIN: u64 = 64 << 20;

impl Placement {
    /// Onto a drive of `capacity_bytes` with logical blocks of `block_bytes` (a power of two from
    /// 512); `recorded_bytes` is where the recording's highest address ends, needed to scale.
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
        if capacity_bytes < ROOM_BYTES_MIN {
            return Err(PlaceError::TooSmall(capacity_bytes));
        }
        let unit = if capacity_bytes >= 64 * GRANULE_BYTES { GRANULE_BYTES } else { SMALL_BYTES };
        let fits = recorded_bytes <= capacity_bytes;
        let granules = (rule == Rule::Scale && !fits)
            .then(|| (recorded_bytes.div_ceil(GRANULE_BYTES), capacity_bytes / GRANULE_BYTES));
        let rounded = capacity_bytes / unit.max(block_bytes) * unit.max(block_bytes);
        // A recording that fits keeps its addresses up to the drive's last block.
        let room_bytes = if fits && recorded_bytes > 0 {
            capacity_bytes / block_bytes * block_bytes
        } else {
            rounded
        };
        Ok(Placement { rule, block_bytes, room_bytes, granules })
    }

    /// How addresses of the recording become addresses of the drive.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// First byte and length on the drive, both multiples of its logical block.
    ///
    /// # Errors
    /// [`PlaceError::TooLong`].
    #[inline]
    pub fn place(&self, request: &Request) -> Result<(u64, u64), PlaceError> {
        let block = self.block_bytes - 1;
        let start = request.offset_bytes & !block;
        // An offset and length end below 2^63, so rounding up cannot overflow.
        let bytes = ((request.offset_bytes + request.bytes + block) & !block) - start;
        if bytes > self.room_bytes {
            return Err(PlaceError::TooLong { bytes, room: self.room_bytes });
        }
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
        // Across the end: from the beginning instead, as far into its 4 KiB page as it was.
        let inside = folded % SMALL_BYTES;
        Ok((if inside + bytes <= self.room_bytes { inside } else { 0 }, bytes))
    }

    #[inline]
    fn fold(&self, offset: u64, device: u32) -> u64 {
        let offset =
            if device == 0 { offset } else { offset % self.room_bytes + self.base(device) };
        if offset < self.room_bytes { offset } else { offset % self.room_bytes }
    }

    /// Where a device of the recording begins: 0 for device 0, the others spread evenly.
    fn base(&self, device: u32) -> u64 {
        let share = u64::from(device).wrapping_mul(GOLDEN);
        let bytes = ((u128::from(share) * u128::from(self.room_bytes)) >> 64) as u64;
        bytes / DEVICE_BYTES * DEVICE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use drivebay_units::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::request::Op;

    fn request(device: u32, offset_bytes: u64, bytes: u64) -> Request {
        Request { at: Nanos(0), offset_bytes, bytes, response: None, device, op: Op::Read }
    }

    #[test]
    fn what_fits_stays() {
        for rule in [Rule::Fold, Rule::Scale] {
            let placement = Placement::new(rule, (1 << 30) + 512, 512, (1 << 30) + 512).unwrap();
            let last = request(0, 1 << 30, 512);
            assert_eq!(placement.place(&last), Ok((1 << 30, 512)));
        }
    }

    #[test]
    fn scaling_keeps_order_and_fills_the_drive() {
        let recorded = 1 << 40;
        let placement = Placement::new(Rule::Scale, 1 << 36, 512, recorded).unwrap();
        let at = |offset| placement.place(&request(0, offset, 4096)).unwrap().0;
        assert_eq!(at(0), 0);
        assert!(at(recorded - 4096) >= (1 << 36) - GRANULE_BYTES);
        let places: Vec<u64> = (0..1000).map(|i| at((i * (recorded / 1000)) & !4095)).collect();
        let granules = places.iter().map(|place| place / GRANULE_BYTES);
        assert!(granules.is_sorted());
    }

    #[test]
    fn a_run_stays_a_run() {
        for rule in [Rule::Fold, Rule::Scale] {
            let placement = Placement::new(rule, 1 << 36, 512, 1 << 40).unwrap();
            let at =
                |i: u64| placement.place(&request(0, (1 << 39) + i * 131_072, 131_072)).unwrap();
            let joined = (0..127).filter(|&i| at(i).0 + 131_072 == at(i + 1).0).count();
            assert_eq!(joined, 127, "within a granule every I/O continues the one before");
        }
    }

    #[test]
    fn requests_longer_than_the_drive_are_refused() {
        let placement = Placement::new(Rule::Fold, 64 << 20, 512, 0).unwrap();
        let long = request(0, 0, (64 << 20) + 1);
        assert!(matches!(placement.place(&long), Err(PlaceError::TooLong { .. })));
        assert_eq!(
            Placement::new(Rule::Fold, 1 << 20, 512, 0).err(),
            Some(PlaceError::TooSmall(1 << 20))
        );
    }

    proptest! {
        #[test]
        fn a_place_is_on_the_drive_and_aligned(
            scale in any::<bool>(),
            capacity in (64u64 << 20)..1 << 42,
            block_shift in 9u32..17,
            device in any::<u32>(),
            offset in 0u64..(1 << 62),
            bytes in 1u64..(32 << 20),
            recorded in 0u64..(1 << 62),
        ) {
            let rule = if scale { Rule::Scale } else { Rule::Fold };
            let block = 1 << block_shift;
            let placement = Placement::new(rule, capacity, block, recorded).unwrap();
            let (start, len) = placement.place(&request(device, offset, bytes)).unwrap();
            prop_assert!(start % block == 0 && len % block == 0);
            prop_assert!(start + len <= capacity);
            prop_assert!(len >= bytes && len < bytes + 2 * block);
            // Alignment to 4 KiB pages is what the recording had (of the block it begins in).
            if block <= SMALL_BYTES && device == 0 && bytes < SMALL_BYTES {
                prop_assert_eq!(start % SMALL_BYTES, (offset & !(block - 1)) % SMALL_BYTES);
            }
        }
    }
}
