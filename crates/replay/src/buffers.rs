//! Memory for read and written data: two pools, allocated page by page.
//!
//! A request gets pages that no other outstanding request has; otherwise a file system with
//! checksums would find them wrong. The pools are registered with the ring once, so that the kernel
//! does not map them again for each request.

use drivebay_units::Rng;
use memmap2::MmapMut;

use crate::error::ReplayError;

/// Size of each pool; no request may be longer.
pub const POOL_BYTES: usize = 32 << 20;
const PAGE_BYTES: usize = 4096;
const PAGES: usize = POOL_BYTES / PAGE_BYTES;

/// 2^64 over the golden ratio, odd: its multiples modulo 2^64 are distinct, and look random.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Pages of a pool that a request occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    first: u32,
    pages: u32,
}

/// Memory for the data of all outstanding requests in one direction.
pub struct BufferPool {
    memory: MmapMut,
    taken: Box<[bool]>,
    cursor: usize,
    /// Stamp for written data: each page starts with a unique number, so that no page repeats.
    stamp: Option<u64>,
}

impl BufferPool {
    /// Creates a pool for reads.
    pub fn to_read() -> Result<BufferPool, ReplayError> {
        let memory = MmapMut::map_anon(POOL_BYTES).map_err(ReplayError::Memory)?;
        Ok(BufferPool { memory, taken: vec![false; PAGES].into(), cursor: 0, stamp: None })
    }

    /// Creates a pool for writes. With a seed, the content is random bytes, which no drive can
    /// compress, different for every 4 KiB; without, zeros, which some drives do not store at all.
    pub fn to_write(seed: Option<u64>) -> Result<BufferPool, ReplayError> {
        let mut area = BufferPool::to_read()?;
        if let Some(seed) = seed {
            let mut rng = Rng::new(seed).fork("content");
            for word in area.memory.chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_le_bytes());
            }
            area.stamp = Some(rng.next_u64());
        }
        Ok(area)
    }

    /// Allocates pages for `bytes` bytes; `None` if too few adjacent pages are free. Cost: one
    /// check per page.
    pub fn take(&mut self, bytes: usize) -> Option<Extent> {
        let pages = bytes.div_ceil(PAGE_BYTES).max(1);
        // Reads reuse the same few pages, which stay in the processor's cache. Writes rotate
        // through the pool, so that neighbours on the drive share no content.
        let from = if self.stamp.is_some() { self.cursor } else { 0 };
        let first = self.find(from, pages).or_else(|| self.find(0, pages))?;
        self.taken[first..first + pages].fill(true);
        self.cursor = (first + pages) % PAGES;
        if let Some(stamp) = &mut self.stamp {
            for page in first..first + pages {
                *stamp = stamp.wrapping_add(STRIDE);
                let start = page * PAGE_BYTES;
                self.memory[start..start + 8].copy_from_slice(&stamp.to_le_bytes());
            }
        }
        Some(Extent { first: first as u32, pages: pages as u32 })
    }

    fn find(&self, from: usize, pages: usize) -> Option<usize> {
        let mut first = from;
        while first + pages <= PAGES {
            match self.taken[first..first + pages].iter().rposition(|taken| *taken) {
                None => return Some(first),
                Some(last) => first += last + 1,
            }
        }
        None
    }

    /// Releases the pages.
    pub fn release(&mut self, extent: Extent) {
        let first = extent.first as usize;
        self.taken[first..first + extent.pages as usize].fill(false);
    }

    /// First byte of the extent.
    pub fn address(&mut self, extent: Extent) -> *mut u8 {
        self.memory[extent.first as usize * PAGE_BYTES..].as_mut_ptr()
    }

    /// Address and length of the whole pool, for registration.
    pub fn whole(&mut self) -> (*mut u8, usize) {
        (self.memory.as_mut_ptr(), POOL_BYTES)
    }
}

#[cfg(test)]
#[path = "../tests/unit/buffers.rs"]
mod tests;
