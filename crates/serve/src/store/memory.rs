//! Data in memory: frames of 4 KiB, taken in order from large blocks as pages are first written.
//!
//! A write copies, a read copies, and neither calls the kernel, except for the page fault of a
//! frame's first write. Huge pages would avoid most of these; measured on a virtual machine, whose
//! host provides fresh memory, they halved the speed of first writes and made later ones no faster.
//! The frame of a deallocated page is reused; memory is not returned to the system. Snapshots have
//! frames of the same store, so a page moves between drive and snapshot without a copy. Over an
//! image, pages with data in the image are marked and read from it, until they are written or
//! trimmed. Costs in addition to the data: 4 bytes per page, in groups of 1024 pages that are
//! created with the first of them, and count as data; 8 bytes per group of the drive do not count.

use std::io::{self, IoSlice};

use drivebay_units::{SECTOR_BYTES, refuse_if};
use memmap2::MmapMut;

use super::extent::Extent;
use super::image::Image;
use crate::error::ServeError;
use crate::memory_limit::{MemoryLimit, Share, Use};

const PAGE_BYTES: usize = 4096;
/// Sectors of a page.
const PAGE_SECTORS: u64 = PAGE_BYTES as u64 / SECTOR_BYTES;
/// Frames of a block, 64 MiB: this keeps system calls few.
const BLOCK: usize = 1 << 14;
/// Pages of a group.
const GROUP: usize = 1024;
/// Bytes of a group.
const GROUP_BYTES: u64 = (GROUP * size_of::<u32>()) as u64;
/// Content of a page without a frame.
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
/// Marks a page without data.
const NONE: u32 = u32::MAX;
/// Marks a page whose data is in the image; not the number of a frame.
const IMAGE: u32 = u32::MAX - 1;

/// Handling of the memory limit: host writes must hold it, other operations may exceed it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Holds,
    MayBeExceeded,
}

/// Frames of the pages of a drive, or of one of its snapshots; empty at first.
pub(super) struct PageTable {
    /// Frame, or mark of the image, by group and page.
    groups: Vec<Option<Box<[u32; GROUP]>>>,
    /// Memory of the groups.
    memory: Share,
}

impl PageTable {
    #[inline]
    fn frame(&self, page: usize) -> Option<u32> {
        let group = self.groups[page / GROUP].as_ref()?;
        Some(group[page % GROUP]).filter(|&frame| frame != NONE)
    }

    fn empty(groups: usize, limit: &MemoryLimit) -> PageTable {
        PageTable { groups: vec![None; groups], memory: limit.share(Use::Data) }
    }

    /// Creates the group of a page.
    ///
    /// # Errors
    /// No space, if the allowed bytes are used up.
    fn reserve(&mut self, page: usize, limit: Limit) -> io::Result<()> {
        let group = &mut self.groups[page / GROUP];
        if group.is_none() {
            let bytes = self.memory.bytes() + GROUP_BYTES;
            if limit == Limit::MayBeExceeded {
                self.memory.exceed(bytes);
            } else if !self.memory.resize(bytes) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *group = Some(Box::new([NONE; GROUP]));
        }
        Ok(())
    }

    /// Sets the frame of a page.
    ///
    /// # Panics
    /// Without the page's group.
    fn set(&mut self, page: usize, frame: u32) {
        let group = self.groups[page / GROUP].as_mut().expect("the group was made");
        group[page % GROUP] = frame;
    }

    /// Like [`PageTable::set`], and creates the group if necessary: moved pages take no other
    /// memory.
    fn put(&mut self, page: usize, frame: u32) {
        self.reserve(page, Limit::MayBeExceeded).expect("it may take more than is allowed");
        self.set(page, frame);
    }

    fn take(&mut self, page: usize) -> Option<u32> {
        let frame = self.frame(page)?;
        self.set(page, NONE);
        Some(frame)
    }
}

/// Frames of a drive and its snapshots.
struct Frames {
    blocks: Vec<MmapMut>,
    /// Frames of pages that were deallocated.
    free: Vec<u32>,
    /// Number of frames that have ever been used.
    taken: u32,
    limit: MemoryLimit,
}

impl Frames {
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

    /// Takes a frame; also returns true if it may hold old data.
    fn take(&mut self, limit: Limit) -> io::Result<(u32, bool)> {
        if let Some(frame) = self.free.pop() {
            return Ok((frame, true));
        }
        refuse_if(self.taken == IMAGE, io::ErrorKind::StorageFull)?;
        if self.taken as usize == self.blocks.len() * BLOCK {
            self.blocks.push(MmapMut::map_anon(BLOCK * PAGE_BYTES)?);
        }
        if limit == Limit::MayBeExceeded {
            self.limit.exceed(Use::Data, PAGE_BYTES as u64);
        } else if !self.limit.take(Use::Data, PAGE_BYTES as u64) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.taken += 1;
        Ok((self.taken - 1, false))
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.limit.give_back(Use::Data, u64::from(self.taken) * PAGE_BYTES as u64);
    }
}

/// Data of the drive's sectors.
pub(super) struct Memory {
    frames: Frames,
    table: PageTable,
    image: Option<Image>,
}

/// Part of one page that a run of sectors covers.
struct Part {
    page: usize,
    /// Bytes within the page.
    within: std::ops::Range<usize>,
    /// Bytes within the run.
    run: std::ops::Range<usize>,
}

impl Part {
    fn is_whole(&self) -> bool {
        self.within.len() == PAGE_BYTES
    }
}

/// Parts of a run, page by page.
fn parts(lba: u64, bytes: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = lba * SECTOR_BYTES + at as u64;
        let start = (byte % PAGE_BYTES as u64) as usize;
        let length = (PAGE_BYTES - start).min(bytes - at);
        let run = at..at + length;
        at += length;
        let page = (byte / PAGE_BYTES as u64) as usize;
        (length > 0).then_some(Part { page, within: start..start + length, run })
    })
}

impl Memory {
    /// Creates the memory of a drive with `sectors`.
    pub fn new(sectors: u64, limit: MemoryLimit) -> Memory {
        let groups = sectors.div_ceil(PAGE_SECTORS * GROUP as u64) as usize;
        let table = PageTable::empty(groups, &limit);
        let frames = Frames { blocks: Vec::new(), free: Vec::new(), taken: 0, limit };
        Memory { frames, table, image: None }
    }

    /// Creates the memory of a drive on top of an image.
    ///
    /// # Errors
    /// The image cannot be searched for data, or its table takes more memory than is allowed.
    pub fn over(image: Image, sectors: u64, limit: MemoryLimit) -> Result<Memory, ServeError> {
        let mut memory = Memory::new(sectors, limit);
        let mut at = 0;
        let mut pages = Vec::new();
        let unknown = |why: io::Error| {
            ServeError::machine(
                format!("the image cannot be searched for data: {why}"),
                "check the disk: dmesg",
            )
        };
        for Extent { sectors, data } in image.extents().map_err(unknown)? {
            if data {
                let (first, end) = (at / PAGE_SECTORS, (at + sectors).div_ceil(PAGE_SECTORS));
                pages.push(first as usize..end as usize);
            }
            at += sectors;
        }
        memory.make_groups(&pages).map_err(|needed| {
            let (path, mib) = (image.path().display(), needed.div_ceil(1 << 20));
            let least = memory.frames.limit.total_for_data(needed).div_ceil(1 << 20);
            ServeError::refused(
                format!("the table of the data in {path} takes {mib} MiB, more than --memory leaves for data"),
                format!("--memory {least}MiB at least, plus the data that hosts write; or a copy: --data FILE"),
            )
        })?;
        for page in pages.into_iter().flatten() {
            memory.table.set(page, IMAGE);
        }
        memory.image = Some(image);
        Ok(memory)
    }

    /// Creates the first groups, those of `pages`, which are in order; the error is the number of
    /// bytes they would take.
    fn make_groups(&mut self, pages: &[std::ops::Range<usize>]) -> Result<(), u64> {
        let groups =
            |pages: &std::ops::Range<usize>| pages.start / GROUP..pages.end.div_ceil(GROUP);
        let mut last = None;
        let new = pages.iter().flat_map(groups).filter(|&group| last.replace(group) != Some(group));
        let new: Vec<usize> = new.collect();
        let bytes = new.len() as u64 * GROUP_BYTES;
        refuse_if(!self.table.memory.resize(bytes), bytes)?;
        for group in new {
            self.table.groups[group] = Some(Box::new([NONE; GROUP]));
        }
        Ok(())
    }

    fn deallocate(&mut self, page: usize) {
        self.frames.free.extend(self.table.take(page).filter(|&frame| frame != IMAGE));
    }

    fn read_image(
        &self,
        page: usize,
        within: std::ops::Range<usize>,
        into: &mut [u8],
    ) -> io::Result<()> {
        let image = self.image.as_ref().expect("only pages over one are marked so");
        image.read((page * PAGE_BYTES + within.start) as u64, into)
    }

    /// Returns the frame of a page, which is created if it has none; with `keeps` it has the old
    /// content, otherwise its content is undefined.
    fn frame_of(&mut self, page: usize, keeps: bool, limit: Limit) -> io::Result<u32> {
        let before = self.table.frame(page);
        if let Some(frame) = before.filter(|&frame| frame != IMAGE) {
            return Ok(frame);
        }
        self.table.reserve(page, limit)?;
        let (frame, is_used) = self.frames.take(limit)?;
        if keeps {
            let held = self.frames.held_mut(frame);
            match (before, &self.image) {
                (Some(_), Some(image)) => {
                    if let Err(why) = image.read((page * PAGE_BYTES) as u64, held) {
                        self.frames.free.push(frame);
                        return Err(why);
                    }
                }
                _ if is_used => held.fill(0),
                _ => {}
            }
        }
        self.table.set(page, frame);
        Ok(frame)
    }

    // --- snapshots: pages of another table ---

    /// Creates a table for a snapshot of this drive.
    pub fn empty_table(&self) -> PageTable {
        PageTable::empty(self.table.groups.len(), &self.frames.limit)
    }

    /// Copies a page into a table that does not have it; a page of zeros takes no space.
    ///
    /// # Errors
    /// Like [`Memory::write`].
    pub fn copy_page(&mut self, page: u64, to: &mut PageTable, limit: Limit) -> io::Result<()> {
        let Some(from) = self.table.frame(page as usize) else { return Ok(()) };
        if from == IMAGE {
            to.reserve(page as usize, limit)?;
            to.set(page as usize, IMAGE);
        } else if self.frames.held(from).iter().any(|&byte| byte != 0) {
            to.reserve(page as usize, limit)?;
            let (frame, _) = self.frames.take(limit)?;
            let (from_block, from) = (from as usize / BLOCK, from as usize % BLOCK * PAGE_BYTES);
            let (to_block, at) = (frame as usize / BLOCK, frame as usize % BLOCK * PAGE_BYTES);
            if let Ok([source, target]) =
                self.frames.blocks.get_disjoint_mut([from_block, to_block])
            {
                target[at..at + PAGE_BYTES].copy_from_slice(&source[from..from + PAGE_BYTES]);
            } else {
                self.frames.blocks[to_block].copy_within(from..from + PAGE_BYTES, at);
            }
            to.set(page as usize, frame);
        }
        Ok(())
    }

    /// Returns the next page from `page` on in a group that was ever written.
    pub fn empty_until(&self, page: u64) -> u64 {
        let group = page as usize / GROUP;
        let mut groups = self.table.groups[group..].iter();
        match groups.position(Option::is_some) {
            Some(0) => page,
            Some(empty) => ((group + empty) * GROUP) as u64,
            None => (self.table.groups.len() * GROUP) as u64,
        }
    }

    /// Moves a page to a table, without a copy: the drive then reads zeros there.
    pub fn move_page(&mut self, page: u64, to: &mut PageTable) {
        Memory::hand_on(page, &mut self.table, to);
    }

    /// Moves a page of a table to the drive, without a copy, in place of the drive's own.
    pub fn take_back(&mut self, page: u64, from: &mut PageTable) {
        self.deallocate(page as usize);
        Memory::hand_on(page, from, &mut self.table);
    }

    /// Moves a page from one table to another that does not have it.
    pub fn hand_on(page: u64, from: &mut PageTable, to: &mut PageTable) {
        if let Some(frame) = from.take(page as usize) {
            to.put(page as usize, frame);
        }
    }

    /// Frees all pages of a table.
    pub fn free_table(&mut self, table: PageTable) {
        let frames = table.groups.into_iter().flatten().flat_map(|group| *group);
        self.frames.free.extend(frames.filter(|&frame| frame < IMAGE));
    }

    /// Reads from the pages of a table.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn read_table(&self, table: &PageTable, lba: u64, into: &mut [u8]) -> io::Result<()> {
        for part in parts(lba, into.len()) {
            match table.frame(part.page) {
                Some(IMAGE) => self.read_image(part.page, part.within, &mut into[part.run])?,
                Some(frame) => {
                    into[part.run].copy_from_slice(&self.frames.held(frame)[part.within])
                }
                None => into[part.run].fill(0),
            }
        }
        Ok(())
    }

    // --- pages of the drive ---

    /// Reads from the drive.
    ///
    /// # Errors
    /// As [`Memory::read_table`].
    pub fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_table(&self.table, lba, into)
    }

    /// Reads `bytes` and appends them to `out`.
    ///
    /// # Errors
    /// As [`Memory::read_table`].
    pub fn append(&self, lba: u64, bytes: usize, out: &mut Vec<u8>) -> io::Result<()> {
        for part in parts(lba, bytes) {
            match self.table.frame(part.page) {
                Some(frame) if frame != IMAGE => {
                    out.extend_from_slice(&self.frames.held(frame)[part.within]);
                }
                other => {
                    let before = out.len();
                    // A copy is faster here: builds with checks fill byte by byte.
                    out.extend_from_slice(&[0; PAGE_BYTES][part.within.clone()]);
                    if other.is_some() {
                        self.read_image(part.page, part.within, &mut out[before..])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the slices of memory with these `bytes` in `into`, in order, as far as it has entries
    /// and up to a page of the image; returns their number. Adjacent frames form one slice.
    pub fn pieces<'a>(&'a self, lba: u64, bytes: usize, into: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut last = None;
        for part in parts(lba, bytes) {
            let here = match self.table.frame(part.page) {
                Some(IMAGE) => break,
                frame => frame.map(|frame| frame as usize),
            };
            let at = here.map(|frame| (frame / BLOCK, frame % BLOCK * PAGE_BYTES));
            let piece = match (last, at) {
                // Only the first part begins within its page; this part continues at the end of the
                // last one.
                (Some((block, from, to)), Some((frame_block, first)))
                    if block == frame_block && to == first =>
                {
                    Some((block, from, first + part.within.end))
                }
                _ if count == into.len() => break,
                (_, at) => {
                    count += 1;
                    at.map(|(block, first)| {
                        (block, first + part.within.start, first + part.within.end)
                    })
                }
            };
            into[count - 1] = IoSlice::new(match piece {
                Some((block, from, to)) => &self.frames.blocks[block][from..to],
                None => &ZEROS[part.within],
            });
            last = piece;
        }
        count
    }

    /// Writes data to the drive.
    ///
    /// # Errors
    /// No space, if the allowed bytes are used up or the system has no more memory; the pages
    /// before the failed one are written.
    pub fn write(&mut self, lba: u64, data: &[u8], limit: Limit) -> io::Result<()> {
        for part in parts(lba, data.len()) {
            let frame = self.frame_of(part.page, !part.is_whole(), limit)?;
            self.frames.held_mut(frame)[part.within].copy_from_slice(&data[part.run]);
        }
        Ok(())
    }

    /// Returns the memory of `bytes` from a sector on, with their current content; missing frames
    /// are created. The memory is contiguous if the pages were first written together; `None` if it
    /// is not, or if a page is in the image.
    pub fn place(&mut self, lba: u64, bytes: usize) -> Option<&mut [u8]> {
        let mut first = None;
        for (n, part) in (0..).zip(parts(lba, bytes)) {
            if self.table.frame(part.page) == Some(IMAGE) {
                return None;
            }
            let frame = self.frame_of(part.page, true, Limit::Holds).ok()?;
            let (from, _) = *first.get_or_insert((frame, part.within.start));
            if frame != from + n || frame as usize / BLOCK != from as usize / BLOCK {
                return None;
            }
        }
        let (frame, within) = first?;
        let from = frame as usize % BLOCK * PAGE_BYTES + within;
        Some(&mut self.frames.blocks[frame as usize / BLOCK][from..from + bytes])
    }

    /// Makes sectors read as zeros; `allocated` keeps space for them.
    ///
    /// # Errors
    /// Like [`Memory::write`], but only to keep space, or for a part of a page of the image.
    pub fn zero(&mut self, lba: u64, sectors: u64, allocated: bool) -> io::Result<()> {
        let (mut at, end) = (lba, lba + sectors);
        while at < end {
            let page = (at / PAGE_SECTORS) as usize;
            // Skips groups that were never written.
            if !allocated && self.table.groups[page / GROUP].is_none() {
                at = (page / GROUP + 1) as u64 * GROUP as u64 * PAGE_SECTORS;
                continue;
            }
            let next = (page as u64 + 1) * PAGE_SECTORS;
            let within = (at % PAGE_SECTORS * SECTOR_BYTES) as usize
                ..PAGE_BYTES - (next.saturating_sub(end) * SECTOR_BYTES) as usize;
            let is_whole = within.len() == PAGE_BYTES;
            match self.table.frame(page) {
                Some(_) if !allocated && is_whole => self.deallocate(page),
                Some(_) => {
                    let frame = self.frame_of(page, !is_whole, Limit::Holds)?;
                    self.frames.held_mut(frame)[within].fill(0);
                }
                None if allocated => {
                    self.frame_of(page, true, Limit::Holds)?;
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
        let mut extents: Vec<Extent> = Vec::new();
        while at < end {
            let page = (at / PAGE_SECTORS) as usize;
            let data = self.table.frame(page).is_some();
            let pages = match self.table.groups[page / GROUP] {
                None => (page / GROUP + 1) * GROUP,
                Some(_) => page + 1,
            };
            let until = (pages as u64 * PAGE_SECTORS).min(end);
            let is_room = extents.len() < most;
            match extents.last_mut() {
                Some(last) if last.data == data => last.sectors += until - at,
                _ if is_room => extents.push(Extent { sectors: until - at, data }),
                _ => break,
            }
            at = until;
        }
        extents
    }
}

#[cfg(test)]
#[path = "../../tests/unit/store_memory.rs"]
mod tests;
