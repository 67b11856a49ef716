//! Data in memory: frames of 4 KiB, taken in order from large blocks as pages are first written.
//!
//! A write copies, a read copies, and neither calls the kernel, except for the page fault of a frame's first
//! write. Huge pages would spare most of these; measured on a virtual machine, where fresh memory is the
//! host's to give, they made first writes half as fast, and later ones no faster.
//! The frame of a deallocated page is used again; memory is not returned to the system.
//! Costs beside the data: 4 bytes per page, in groups of 1024 pages that are made with the first of them.

use std::io;

use drivebay_units::SECTOR_BYTES;
use memmap2::MmapMut;

use super::extent::Extent;
use crate::memory_limit::MemoryLimit;

const PAGE_BYTES: usize = 4096;
/// Sectors of a page.
const PAGE_SECTORS: u64 = PAGE_BYTES as u64 / SECTOR_BYTES;
/// Frames of a block, 64 MiB: few system calls.
const BLOCK: usize = 1 << 14;
/// Pages of a group.
const GROUP: usize = 1024;
/// A page that holds nothing.
const NONE: u32 = u32::MAX;

/// Whether a store in memory may take more than it is allowed: not for what hosts write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Holds,
    MayBeExceeded,
}

/// What the sectors hold; none at first.
pub(super) struct Memory {
    /// By group and page: the frame.
    groups: Vec<Option<Box<[u32; GROUP]>>>,
    blocks: Vec<MmapMut>,
    /// Frames of deallocated pages.
    free: Vec<u32>,
    /// Number of frames that have ever been used.
    taken: u32,
    limit: MemoryLimit,
}

/// The part of one page that a run of sectors covers.
struct Part {
    page: usize,
    /// Bytes within the page.
    within: std::ops::Range<usize>,
    /// Bytes within the run.
    of: std::ops::Range<usize>,
}

impl Part {
    fn is_whole(&self) -> bool {
        self.within.len() == PAGE_BYTES
    }
}

/// The parts of a run, page by page.
fn parts(lba: u64, bytes: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = lba * SECTOR_BYTES + at as u64;
        let start = (byte % PAGE_BYTES as u64) as usize;
        let length = (PAGE_BYTES - start).min(bytes - at);
        let of = at..at + length;
        at += length;
        let page = (byte / PAGE_BYTES as u64) as usize;
        (length > 0).then_some(Part { page, within: start..start + length, of })
    })
}

impl Memory {
    /// For a drive of `sectors`.
    pub fn new(sectors: u64, limit: MemoryLimit) -> Memory {
        let groups = (sectors.div_ceil(PAGE_SECTORS) as usize).div_ceil(GROUP);
        let (blocks, free) = (Vec::new(), Vec::new());
        Memory { groups: vec![None; groups], blocks, free, taken: 0, limit }
    }

    /// An empty one as large, with the same limit for both together.
    pub fn sibling(&self) -> Memory {
        let (blocks, free) = (Vec::new(), Vec::new());
        let (groups, limit) = (vec![None; self.groups.len()], self.limit.clone());
        Memory { groups, blocks, free, taken: 0, limit }
    }

    #[inline]
    fn frame(&self, page: usize) -> Option<u32> {
        let group = self.groups[page / GROUP].as_ref()?;
        Some(group[page % GROUP]).filter(|&frame| frame != NONE)
    }

    #[inline]
    fn held(&self, frame: u32) -> &[u8] {
        let (block, first) = (frame as usize / BLOCK, frame as usize % BLOCK * PAGE_BYTES);
        &self.blocks[block][first..first + PAGE_BYTES]
    }

    #[inline]
    fn held_mut(&mut self, frame: u32) -> &mut [u8] {
        let (block, first) = (frame as usize / BLOCK, frame as usize % BLOCK * PAGE_BYTES);
        &mut self.blocks[block][first..first + PAGE_BYTES]
    }

    /// A frame for a page; whether it may hold old data.
    fn take(&mut self, page: usize, limit: Limit) -> io::Result<(u32, bool)> {
        let (frame, is_used) = match self.free.pop() {
            Some(frame) => (frame, true),
            None if self.taken == NONE => return Err(io::ErrorKind::StorageFull.into()),
            None => {
                if self.taken as usize == self.blocks.len() * BLOCK {
                    self.blocks.push(MmapMut::map_anon(BLOCK * PAGE_BYTES)?);
                }
                match limit {
                    Limit::Holds if !self.limit.take_data(PAGE_BYTES as u64) => {
                        return Err(io::ErrorKind::StorageFull.into());
                    }
                    Limit::Holds => {}
                    Limit::MayBeExceeded => self.limit.exceed_data(PAGE_BYTES as u64),
                }
                self.taken += 1;
                (self.taken - 1, false)
            }
        };
        let group = self.groups[page / GROUP].get_or_insert_with(|| Box::new([NONE; GROUP]));
        group[page % GROUP] = frame;
        Ok((frame, is_used))
    }

    fn deallocate(&mut self, page: usize) {
        if let Some(group) = &mut self.groups[page / GROUP] {
            let frame = std::mem::replace(&mut group[page % GROUP], NONE);
            if frame != NONE {
                self.free.push(frame);
            }
        }
    }

    pub fn read(&self, lba: u64, into: &mut [u8]) {
        for part in parts(lba, into.len()) {
            match self.frame(part.page) {
                Some(frame) => into[part.of].copy_from_slice(&self.held(frame)[part.within]),
                None => into[part.of].fill(0),
            }
        }
    }

    /// Reads `bytes` to the end of `out`.
    pub fn append(&self, lba: u64, bytes: usize, out: &mut Vec<u8>) {
        for part in parts(lba, bytes) {
            match self.frame(part.page) {
                Some(frame) => out.extend_from_slice(&self.held(frame)[part.within]),
                None => out.resize(out.len() + part.of.len(), 0),
            }
        }
    }

    /// # Errors
    /// No space, when the bytes allowed are used up or the system has no more; what lies before the
    /// page that found none is written.
    pub fn write(&mut self, lba: u64, data: &[u8], limit: Limit) -> io::Result<()> {
        for part in parts(lba, data.len()) {
            let frame = match self.frame(part.page) {
                Some(frame) => frame,
                None => {
                    let (frame, is_used) = self.take(part.page, limit)?;
                    if is_used && !part.is_whole() {
                        self.held_mut(frame).fill(0);
                    }
                    frame
                }
            };
            self.held_mut(frame)[part.within].copy_from_slice(&data[part.of]);
        }
        Ok(())
    }

    /// Makes sectors read as zeros; `allocated` keeps space for them.
    ///
    /// # Errors
    /// As [`Memory::write`], and only to keep space.
    pub fn zero(&mut self, lba: u64, sectors: u64, allocated: bool) -> io::Result<()> {
        let (mut at, end) = (lba, lba + sectors);
        while at < end {
            let page = (at / PAGE_SECTORS) as usize;
            // Past what was never written, in great steps.
            if !allocated && self.groups[page / GROUP].is_none() {
                at = (page / GROUP + 1) as u64 * GROUP as u64 * PAGE_SECTORS;
                continue;
            }
            let next = (page as u64 + 1) * PAGE_SECTORS;
            let within = (at % PAGE_SECTORS * SECTOR_BYTES) as usize
                ..PAGE_BYTES - (next.saturating_sub(end) * SECTOR_BYTES) as usize;
            match self.frame(page) {
                Some(_) if !allocated && within.len() == PAGE_BYTES => self.deallocate(page),
                Some(frame) => self.held_mut(frame)[within].fill(0),
                None if allocated => {
                    let (frame, is_used) = self.take(page, Limit::Holds)?;
                    if is_used {
                        self.held_mut(frame).fill(0);
                    }
                }
                None => {}
            }
            at = next;
        }
        Ok(())
    }

    /// Data and holes, over at most `most` extents.
    pub fn extents(&self, lba: u64, sectors: u64, most: usize) -> Vec<Extent> {
        let (mut at, end) = (lba, lba + sectors);
        let mut found: Vec<Extent> = Vec::new();
        while at < end {
            let page = (at / PAGE_SECTORS) as usize;
            let data = self.frame(page).is_some();
            let pages = match self.groups[page / GROUP] {
                None => (page / GROUP + 1) * GROUP,
                Some(_) => page + 1,
            };
            let until = (pages as u64 * PAGE_SECTORS).min(end);
            let is_room = found.len() < most;
            match found.last_mut() {
                Some(last) if last.data == data => last.sectors += until - at,
                _ if is_room => found.push(Extent { sectors: until - at, data }),
                _ => break,
            }
            at = until;
        }
        found
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.limit.free_data(u64::from(self.taken) * PAGE_BYTES as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drivebay_units::Rng;

    const SECTORS: u64 = 3 * GROUP as u64 * PAGE_SECTORS + 5;

    /// Random writes, zeros and reads against one flat array.
    #[test]
    fn it_holds_what_a_flat_array_holds() {
        let mut rng = Rng::new(1);
        let mut memory = Memory::new(SECTORS, MemoryLimit::new(1 << 30));
        let mut flat = vec![0_u8; (SECTORS * SECTOR_BYTES) as usize];
        for step in 0..4000_u32 {
            // Often near the beginning, so that they meet.
            let reach = if step % 4 == 0 { SECTORS } else { 200 };
            let lba = rng.below(reach);
            let sectors = (1 + rng.below(40)).min(SECTORS - lba);
            let here = (lba * SECTOR_BYTES) as usize..((lba + sectors) * SECTOR_BYTES) as usize;
            match rng.below(4) {
                0 => memory.zero(lba, sectors, rng.below(2) == 0).unwrap(),
                1 => {
                    let mut found = vec![7; 3];
                    memory.append(lba, here.len(), &mut found);
                    assert_eq!(found[3..], flat[here.clone()]);
                    found.resize(here.len(), 9);
                    memory.read(lba, &mut found);
                    assert_eq!(found, flat[here]);
                    continue;
                }
                _ => {
                    let data: Vec<u8> =
                        (0..here.len()).map(|i| (step as usize + i) as u8).collect();
                    memory.write(lba, &data, Limit::Holds).unwrap();
                    flat[here].copy_from_slice(&data);
                    continue;
                }
            }
            flat[here].fill(0);
        }
        let mut whole = vec![1; flat.len()];
        memory.read(0, &mut whole);
        assert!(whole == flat);
        let extents = memory.extents(0, SECTORS, usize::MAX);
        assert_eq!(extents.iter().map(|one| one.sectors).sum::<u64>(), SECTORS);
        let mut at = 0;
        for Extent { sectors, data } in extents {
            let end = at + (sectors * SECTOR_BYTES) as usize;
            assert!(data || flat[at..end].iter().all(|&byte| byte == 0));
            at = end;
        }
    }

    #[test]
    fn frames_of_deallocated_pages_are_used_again() {
        let mut memory = Memory::new(SECTORS, MemoryLimit::new(2 * PAGE_BYTES as u64));
        memory.write(0, &[1; 2 * PAGE_BYTES], Limit::Holds).unwrap();
        let full = memory.write(80, &[1; 512], Limit::Holds).expect_err("two pages at most");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(memory.zero(80, 8, true).is_err());
        memory.write(9, &[2; 512], Limit::Holds).unwrap();
        memory.zero(0, SECTORS, false).unwrap();
        assert_eq!(memory.extents(0, SECTORS, 8), [Extent { sectors: SECTORS, data: false }]);
        memory.write(83, &[3; 512], Limit::Holds).unwrap();
        let mut found = [9; 3 * 512];
        memory.read(82, &mut found);
        assert_eq!(found, *[[0; 512], [3; 512], [0; 512]].as_flattened());
        assert_eq!(memory.taken, 2);
    }
}
