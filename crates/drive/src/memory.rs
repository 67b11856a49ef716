//! Big flat tables in huge pages, and prefetching from them.
//!
//! A map of a 512 GB drive is 500 MB and is read at random. The cache miss is the cost, so callers
//! prefetch, and huge pages save the page walk. Tables start as zeros that the kernel provides on
//! first touch. Left out: NUMA placement.
#![allow(unsafe_code)]

use std::io::{Error, Read, Write};

use memmap2::{Advice, MmapMut};

use crate::persist::{Persist, StateError};

/// A table of `u32`, initially zero.
pub struct Table {
    map: MmapMut,
    len: usize,
}

impl Table {
    /// Creates a table of `len` zeros.
    ///
    /// # Errors
    /// If the system has not enough memory.
    pub fn new(len: usize) -> std::io::Result<Table> {
        let map = MmapMut::map_anon(len.max(1) * size_of::<u32>())?;
        // Optional: without huge pages everything works, a few per cent slower.
        let _ = map.advise(Advice::HugePage);
        Ok(Table { map, len })
    }

    /// All entries.
    #[inline(always)]
    pub fn get(&self) -> &[u32] {
        // SAFETY: the mapping is page-aligned, holds at least `len` u32, every bit pattern is a
        // u32.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<u32>(), self.len) }
    }

    /// All entries, mutable.
    #[inline(always)]
    pub fn get_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `get`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast::<u32>(), self.len) }
    }

    /// Asks the processor to fetch entry `index`. Any index is allowed; nothing is read.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: prefetching has no architectural effect, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch(
                self.map.as_ptr().cast::<u32>().wrapping_add(index).cast::<i8>(),
                _MM_HINT_T0,
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }
}

/// Entries per written chunk.
const CHUNK: usize = 1 << 14;

/// Stores the difference of each entry to the previous one (modulo 2^32): adjacent entries are
/// mostly consecutive, so compression finds long runs of ones.
impl Persist for Table {
    fn save(&self, out: &mut dyn Write) -> Result<(), Error> {
        let mut bytes = vec![0; CHUNK * size_of::<u32>()];
        let mut last = 0u32;
        for chunk in self.get().chunks(CHUNK) {
            for (to, &entry) in bytes.chunks_exact_mut(4).zip(chunk) {
                to.copy_from_slice(&entry.wrapping_sub(last).to_le_bytes());
                last = entry;
            }
            out.write_all(&bytes[..size_of_val(chunk)])?;
        }
        Ok(())
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), StateError> {
        let mut bytes = vec![0; CHUNK * size_of::<u32>()];
        let mut last = 0u32;
        for chunk in self.get_mut().chunks_mut(CHUNK) {
            from.read_exact(&mut bytes[..size_of_val(chunk)])?;
            for (entry, from) in chunk.iter_mut().zip(bytes.chunks_exact(4)) {
                let step = u32::from_le_bytes(from.try_into().expect("chunks of 4"));
                last = last.wrapping_add(step);
                *entry = last;
            }
        }
        Ok(())
    }

    fn copy_from(&mut self, other: &Self) {
        self.get_mut().copy_from_slice(other.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_as_zeros_and_keeps_what_is_written() {
        let mut table = Table::new(1000).expect("4 KB of memory");
        assert!(table.get().iter().all(|&x| x == 0));
        table.get_mut()[999] = 7;
        table.prefetch(usize::MAX);
        assert_eq!(table.get()[999], 7);
        assert_eq!(table.get().len(), 1000);
    }
}
