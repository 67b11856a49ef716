//! The virtual machine's memory, as far as it lets the drive reach it.
//!
//! Each piece is a file of the machine's, read and written with system calls: slower than a mapping by
//! under a microsecond, but a machine that takes its memory away gives an error, not a fault here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Pieces at a time, at most.
const PIECES_MAX: usize = 256;

struct Piece {
    address: u64,
    bytes: u64,
    offset: u64,
    /// None where the machine gave no file: it cannot be reached.
    file: Option<File>,
    writable: bool,
}

/// Pieces of memory by their address on the bus.
#[derive(Default)]
pub(super) struct Memory {
    pieces: Vec<Piece>,
}

impl Memory {
    pub fn map(
        &mut self,
        address: u64,
        bytes: u64,
        offset: u64,
        file: Option<File>,
        writable: bool,
    ) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let end = address.checked_add(bytes).ok_or_else(invalid)?;
        offset.checked_add(bytes).filter(|&end| end <= i64::MAX as u64).ok_or_else(invalid)?;
        let overlaps = |one: &Piece| address < one.address + one.bytes && one.address < end;
        if bytes == 0 || self.pieces.len() >= PIECES_MAX || self.pieces.iter().any(overlaps) {
            return Err(invalid());
        }
        self.pieces.push(Piece { address, bytes, offset, file, writable });
        Ok(())
    }

    pub fn unmap(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        self.pieces.retain(|one| one.address < address || one.address + one.bytes > end);
    }

    pub fn clear(&mut self) {
        self.pieces.clear();
    }

    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.each(address, into.len(), |piece, offset, part| {
            piece.file.as_ref().ok_or_else(unreachable)?.read_exact_at(&mut into[part], offset)
        })
    }

    pub fn write(&self, address: u64, from: &[u8]) -> io::Result<()> {
        self.each(address, from.len(), |piece, offset, part| {
            let file = piece.file.as_ref().filter(|_| piece.writable);
            file.ok_or_else(unreachable)?.write_all_at(&from[part], offset)
        })
    }

    /// Walks over the pieces that a stretch of addresses lies in.
    fn each(
        &self,
        address: u64,
        bytes: usize,
        mut visit: impl FnMut(&Piece, u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let at = address.checked_add(done as u64).ok_or_else(unreachable)?;
            let piece = self.pieces.iter().find(|one| at.wrapping_sub(one.address) < one.bytes);
            let piece = piece.ok_or_else(unreachable)?;
            let within = at - piece.address;
            let length = ((piece.bytes - within) as usize).min(bytes - done);
            visit(piece, piece.offset + within, done..done + length)?;
            done += length;
        }
        Ok(())
    }
}

fn unreachable() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// Size of a page, CC.MPS = 0.
const PAGE: u64 = 4096;

/// Where the data of a command lies: PRP entries and lists.
///
/// # Errors
/// When a list cannot be read or an entry is not where it must be.
pub(super) fn prp_pieces(
    memory: &Memory,
    first: u64,
    second: u64,
    bytes: u32,
) -> io::Result<Vec<(u64, usize)>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut left = bytes as usize;
    let mut pieces = Vec::new();
    let head = left.min((PAGE - first % PAGE) as usize);
    if !first.is_multiple_of(4) {
        return Err(invalid());
    }
    pieces.push((first, head));
    left -= head;
    if left == 0 {
        return Ok(pieces);
    }
    if left <= PAGE as usize {
        if !second.is_multiple_of(PAGE) {
            return Err(invalid());
        }
        pieces.push((second, left));
        return Ok(pieces);
    }
    let mut list = second;
    while left > 0 {
        if !list.is_multiple_of(8) {
            return Err(invalid());
        }
        let pages = left.div_ceil(PAGE as usize);
        let room = ((PAGE - list % PAGE) / 8) as usize;
        let mut entries = vec![0_u8; 8 * pages.min(room)];
        memory.read(list, &mut entries)?;
        let entries: Vec<u64> = entries
            .chunks_exact(8)
            .map(|one| u64::from_le_bytes(one.try_into().expect("eight bytes")))
            .collect();
        // A list that does not fit its page goes on where its last entry says.
        let here = if pages > room { room - 1 } else { pages };
        for &entry in &entries[..here] {
            if !entry.is_multiple_of(PAGE) {
                return Err(invalid());
            }
            let length = left.min(PAGE as usize);
            pieces.push((entry, length));
            left -= length;
        }
        if left > 0 {
            let next = *entries.last().ok_or_else(invalid)?;
            // A list of nothing but links would never end.
            if here == 0 && !next.is_multiple_of(PAGE) {
                return Err(invalid());
            }
            list = next;
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let mut memory = Memory::default();
        memory.map(0x10_0000, 0x8000, 0, Some(file.try_clone().unwrap()), true).unwrap();
        memory.map(0x10_8000, 0x8000, 0x4_0000, Some(file), true).unwrap();
        memory
    }

    #[test]
    fn a_stretch_may_span_pieces_but_not_leave_them() {
        let memory = memory();
        memory.write(0x10_7ff0, &[7; 32]).unwrap();
        let mut found = [0; 32];
        memory.read(0x10_7ff0, &mut found).unwrap();
        assert_eq!(found, [7; 32]);
        assert!(memory.read(0x10_fff0, &mut found).is_err());
        assert!(memory.read(u64::MAX - 3, &mut found).is_err());
        assert!(memory.write(0, &[]).is_ok());
    }

    #[test]
    fn lists_are_followed_over_page_ends() {
        let memory = memory();
        // The list begins with the last two entries of its page: one page, then the link.
        let list = [0x10_9000_u64, 0x10_2000];
        let more = [0x10_a000_u64, 0x10_b000];
        for (at, words) in [(0x10_1ff0, list), (0x10_2000, more)] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            memory.write(at, &bytes).unwrap();
        }
        let pieces = prp_pieces(&memory, 0x10_3e00, 0x10_1ff0, 512 + 3 * 4096).unwrap();
        let expected = [(0x10_3e00, 512), (0x10_9000, 4096), (0x10_a000, 4096), (0x10_b000, 4096)];
        assert_eq!(pieces, expected);
        let two = prp_pieces(&memory, 0x10_3e00, 0x10_4000, 4096).unwrap();
        assert_eq!(two, [(0x10_3e00, 512), (0x10_4000, 3584)]);
        assert!(prp_pieces(&memory, 0x10_3e00, 0x10_4001, 4096).is_err());
        // A list that links to itself for ever.
        memory.write(0x10_5ff8, &0x10_5ff8_u64.to_le_bytes()).unwrap();
        assert!(prp_pieces(&memory, 0x10_3000, 0x10_5ff8, 4 * 4096).is_err());
    }
}
