//! Guest memory, as far as the virtual machine lets the drive access it.
//!
//! Each region is a file of the virtual machine, read and written with system calls: slower than a
//! mapping by under a microsecond, but a truncated file causes an error instead of a fault in this
//! process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use drivebay_units::refuse_if;

/// Most regions.
const REGIONS_MAX: usize = 256;

/// Data in the guest's memory: address and length of each part.
pub(crate) type Regions = [(u64, usize)];

struct Region {
    address: u64,
    bytes: u64,
    offset: u64,
    /// `None` if the virtual machine passed no file: the region cannot be accessed.
    file: Option<File>,
    writable: bool,
}

/// Memory regions by their address on the bus.
#[derive(Default)]
pub struct GuestMemory {
    regions: Vec<Region>,
}

impl GuestMemory {
    /// Makes a region accessible: the bytes of `file` from `offset` on.
    pub fn map(
        &mut self,
        address: u64,
        bytes: u64,
        offset: u64,
        file: Option<File>,
        writable: bool,
    ) -> io::Result<()> {
        let invalid = io::ErrorKind::InvalidInput;
        let end = address.checked_add(bytes).ok_or(invalid)?;
        offset.checked_add(bytes).filter(|&end| end <= i64::MAX as u64).ok_or(invalid)?;
        let overlaps =
            |region: &Region| address < region.address + region.bytes && region.address < end;
        let is_full = self.regions.len() >= REGIONS_MAX;
        refuse_if(bytes == 0 || is_full || self.regions.iter().any(overlaps), invalid)?;
        self.regions.push(Region { address, bytes, offset, file, writable });
        Ok(())
    }

    /// Removes the regions within this range.
    pub(super) fn unmap(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        self.regions
            .retain(|region| region.address < address || region.address + region.bytes > end);
    }

    pub(super) fn clear(&mut self) {
        self.regions.clear();
    }

    /// Reads from memory; fails outside of the regions.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.each(address, into.len(), |region, offset, part| {
            region.file.as_ref().ok_or_else(unreachable)?.read_exact_at(&mut into[part], offset)
        })
    }

    /// Writes to memory; fails outside of the regions and in read-only ones.
    pub fn write(&self, address: u64, from: &[u8]) -> io::Result<()> {
        self.each(address, from.len(), |region, offset, part| {
            let file = region.file.as_ref().filter(|_| region.writable);
            file.ok_or_else(unreachable)?.write_all_at(&from[part], offset)
        })
    }

    /// Reads the content of `regions`, one after the other; also fails if they are shorter than
    /// `into`.
    pub(crate) fn gather(&self, regions: &Regions, into: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        for &(address, length) in regions {
            let end = into.len().min(at + length);
            self.read(address, &mut into[at..end])?;
            at = end;
        }
        if at == into.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Writes to `regions`, one after the other; also fails if they are shorter than `from`.
    pub(crate) fn scatter(&self, regions: &Regions, from: &[u8]) -> io::Result<()> {
        let mut at = 0;
        for &(address, length) in regions {
            let end = from.len().min(at + length);
            self.write(address, &from[at..end])?;
            at = end;
        }
        if at == from.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Visits the regions of an address range.
    fn each(
        &self,
        address: u64,
        bytes: usize,
        mut visit: impl FnMut(&Region, u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let at = address.checked_add(done as u64).ok_or_else(unreachable)?;
            let region =
                self.regions.iter().find(|region| at.wrapping_sub(region.address) < region.bytes);
            let region = region.ok_or_else(unreachable)?;
            let within = at - region.address;
            let length = ((region.bytes - within) as usize).min(bytes - done);
            visit(region, region.offset + within, done..done + length)?;
            done += length;
        }
        Ok(())
    }
}

fn unreachable() -> io::Error {
    io::ErrorKind::NotFound.into()
}

#[cfg(test)]
#[path = "../../tests/unit/pci_memory.rs"]
pub(crate) mod tests;
