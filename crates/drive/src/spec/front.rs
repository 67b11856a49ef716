//! Interface and link.
//!
//! Source of the rates and encodings: PCI-SIG base specifications 1.0 to 5.0.

use super::checker::{Checker, SpecError};
use crate::raw::RawLink;

/// The command interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// AHCI over PCIe: one queue.
    Ahci,
    /// NVMe.
    Nvme,
}

/// Rate of a link in femtoseconds per payload byte.
///
/// PCIe 1 and 2: 2.5 and 5 GT/s with 8b/10b; 3, 4, 5: 8, 16, 32 GT/s with 128b/130b.
pub(super) fn check_link(link: &RawLink) -> Result<u64, SpecError> {
    let generation = Checker::integer("link.generation", &link.generation, 1, 5)?;
    let lanes = Checker::power_of_two("link.lanes", &link.lanes, 16)?;
    let payload = Checker::power_of_two("link.payload_bytes", &link.payload_bytes, 4096)?;
    let overhead =
        Checker::integer("link.packet_overhead_bytes", &link.packet_overhead_bytes, 12, 64)?;
    if payload < 128 {
        return Err(Checker::out("link.payload_bytes", payload, "128 to 4096", "use 128 or 256"));
    }
    let (giga_transfers, coded, bits) = [
        (2.5, 10.0, 8.0),
        (5.0, 10.0, 8.0),
        (8.0, 130.0, 128.0),
        (16.0, 130.0, 128.0),
        (32.0, 130.0, 128.0),
    ][generation as usize - 1];
    let gigabytes_per_s: f64 = giga_transfers * bits / coded / 8.0 * lanes as f64;
    let efficiency = payload as f64 / (payload + overhead) as f64;
    Ok((1e6 / (gigabytes_per_s * efficiency)).round() as u64)
}
