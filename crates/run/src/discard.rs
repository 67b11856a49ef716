//! Discarding (TRIM, Deallocate) of an extent, one command after another, like a host that frees
//! the blocks of deleted files.
//!
//! Source for the length of a command: Linux splits discards at `discard_max_bytes`, 2 TiB at most
//! by NVMe's 32-bit block count; chosen here: 2 GiB, which drives accept in practice.

use drivebay_drive::{Device, Io, Op};
use drivebay_units::SECTOR_BYTES;

use crate::error::RunError;

const COMMAND_SECTORS: u64 = 1 << 22;

/// Discards the sectors wholly inside the extent, from the drive's present time on.
///
/// # Errors
/// [`RunError::Device`] for an extent beyond the drive's end.
pub fn discard(device: &mut Device, start_bytes: u64, length_bytes: u64) -> Result<(), RunError> {
    let mut lba = start_bytes.div_ceil(SECTOR_BYTES);
    let end = start_bytes.saturating_add(length_bytes) / SECTOR_BYTES;
    while lba < end {
        let sectors = (end - lba).min(COMMAND_SECTORS);
        let io = Io::new(Op::Trim, lba, sectors as u32);
        let done = device.submit(device.now(), io)?.done;
        device.idle_until(done);
        lba += sectors;
    }
    Ok(())
}
