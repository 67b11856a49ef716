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
pub(crate) struct Memory {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two pieces that touch, of one file.
    pub fn memory() -> Memory {
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
}
