//! Command list in the guest's memory: headers, tables, and the regions of a command's data.
//!
//! Source: AHCI 1.3.1, section 4.2.

use std::io;

use drivebay_wire::ata::{Command, FRAME_BYTES};

use crate::pci::memory::GuestMemory;

const HEADER_BYTES: u64 = 32;
/// Offset of the regions in a command table.
const REGIONS: u64 = 0x80;
const REGION_BYTES: usize = 16;

/// Command of a slot.
pub(super) struct Entry {
    /// Address of the header.
    pub header: u64,
    /// `None` if the frame is of another type.
    pub command: Option<Command>,
    /// Regions of the command's data.
    pub regions: Vec<(u64, usize)>,
}

/// Reads a command slot; fails if the list or the table cannot be accessed.
pub(super) fn read(memory: &GuestMemory, list: u64, slot: usize) -> io::Result<Entry> {
    let header = list.wrapping_add(slot as u64 * HEADER_BYTES);
    let mut bytes = [0; 16];
    memory.read(header, &mut bytes)?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (flags, table) = (word(0), u64::from(word(8) & !0x7f) | u64::from(word(12)) << 32);
    let mut frame = [0; FRAME_BYTES];
    memory.read(table, &mut frame)?;
    let is_whole = flags & 0x1f == FRAME_BYTES as u32 / 4;
    let command = Command::parse(&frame).filter(|_| is_whole);
    let mut table_of_regions = vec![0; (flags >> 16) as usize * REGION_BYTES];
    memory.read(table.wrapping_add(REGIONS), &mut table_of_regions)?;
    let region = |bytes: &[u8; REGION_BYTES]| {
        let (address, rest) = bytes.split_at(12);
        let address = u64::from_le_bytes(address[..8].try_into().expect("eight bytes"));
        let count = u32::from_le_bytes(rest.try_into().expect("four bytes"));
        (address & !1, (count & 0x003f_ffff | 1) as usize + 1)
    };
    let regions = table_of_regions.as_chunks::<REGION_BYTES>().0.iter().map(region).collect();
    Ok(Entry { header, command, regions })
}

/// Writes the number of transferred bytes into a header.
pub(super) fn write_byte_count(memory: &GuestMemory, header: u64, bytes: usize) -> io::Result<()> {
    memory.write(header.wrapping_add(4), &(bytes as u32).to_le_bytes())
}
