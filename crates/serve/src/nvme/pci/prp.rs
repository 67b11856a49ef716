//! PRP entries and lists, which locate the data of a command.
//!
//! Source: NVM Express base specification 1.4, section 4.3.

use std::io;

use crate::pci::memory::GuestMemory;

/// Size of a page, CC.MPS = 0.
const PAGE: u64 = 4096;

/// Returns the memory regions of a command's data from its PRP entries and lists; fails if a list
/// cannot be read or an entry has an invalid offset.
pub(super) fn data_regions(
    memory: &GuestMemory,
    first: u64,
    second: u64,
    bytes: u32,
) -> io::Result<Vec<(u64, usize)>> {
    let mut left = bytes as usize;
    let mut regions = Vec::new();
    let head = left.min((PAGE - first % PAGE) as usize);
    regions.push((aligned(first, 4)?, head));
    left -= head;
    if left == 0 {
        return Ok(regions);
    }
    if left <= PAGE as usize {
        regions.push((aligned(second, PAGE)?, left));
        return Ok(regions);
    }
    let mut list = second;
    while left > 0 {
        let pages = left.div_ceil(PAGE as usize);
        let room = ((PAGE - aligned(list, 8)? % PAGE) / 8) as usize;
        let mut entries = vec![0_u8; 8 * pages.min(room)];
        memory.read(list, &mut entries)?;
        let entries: Vec<u64> = entries
            .chunks_exact(8)
            .map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes")))
            .collect();
        // The last entry of a list page points to the next page if the list is longer.
        let here = if pages > room { room - 1 } else { pages };
        for &entry in &entries[..here] {
            let length = left.min(PAGE as usize);
            regions.push((aligned(entry, PAGE)?, length));
            left -= length;
        }
        if left > 0 {
            list = entries[entries.len() - 1];
            // A list of only links would never end.
            if here == 0 {
                aligned(list, PAGE)?;
            }
        }
    }
    Ok(regions)
}

/// Returns the address, or an error if it has an invalid offset.
fn aligned(address: u64, to: u64) -> io::Result<u64> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    address.is_multiple_of(to).then_some(address).ok_or_else(invalid)
}

#[cfg(test)]
#[path = "../../../tests/unit/nvme_pci_prp.rs"]
mod tests;
