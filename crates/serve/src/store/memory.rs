//! Data in memory: pieces of 4 KiB, taken one after the other from large blocks as they are first written.
//!
//! A write copies, a read copies, and neither asks the kernel, but for the page fault of a piece's first
//! write. Huge pages would spare most of these; measured on a virtual machine, where fresh memory is the
//! host's to give, they made first writes half as fast, and later ones no faster.
//! A piece that is given up is the next one's; what the system gave stays ours.
//! Costs beside the data: 4 bytes a piece, in groups of 1024 pieces that are there once one of them is.

use std::io;

use drivebay_units::SECTOR_BYTES;
use memmap2::MmapMut;

use super::Extent;

const PIECE_BYTES: usize = 4096;
/// Sectors of a piece.
const PIECE: u64 = PIECE_BYTES as u64 / SECTOR_BYTES;
/// Pieces of a block, 64 MiB: few system calls.
const BLOCK: usize = 1 << 14;
/// Pieces of a group.
const GROUP: usize = 1024;
/// A piece that holds nothing.
const NONE: u32 = u32::MAX;

/// What the sectors hold; none at first.
pub(super) struct Memory {
    /// By group and piece: where in the blocks.
    groups: Vec<Option<Box<[u32; GROUP]>>>,
    blocks: Vec<MmapMut>,
    /// Places that were given up.
    free: Vec<u32>,
    /// Places that have ever been taken: the first so many.
    taken: u32,
    /// Most places.
    places_max: u32,
}

/// The part of one piece that a stretch of sectors covers.
struct Part {
    piece: usize,
    /// Bytes within the piece.
    within: std::ops::Range<usize>,
    /// Bytes within the stretch.
    of: std::ops::Range<usize>,
}

impl Part {
    fn is_whole(&self) -> bool {
        self.within.len() == PIECE_BYTES
    }
}

/// Goes over a stretch piece by piece.
fn parts(lba: u64, bytes: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = lba * SECTOR_BYTES + at as u64;
        let start = (byte % PIECE_BYTES as u64) as usize;
        let length = (PIECE_BYTES - start).min(bytes - at);
        let of = at..at + length;
        at += length;
        let piece = (byte / PIECE_BYTES as u64) as usize;
        (length > 0).then_some(Part { piece, within: start..start + length, of })
    })
}

impl Memory {
    /// For so many sectors, of which at most `bytes_max` are kept.
    pub fn new(sectors: u64, bytes_max: u64) -> Memory {
        let groups = (sectors.div_ceil(PIECE) as usize).div_ceil(GROUP);
        let places_max = (bytes_max / PIECE_BYTES as u64).min(u64::from(NONE)) as u32;
        Memory {
            groups: vec![None; groups],
            blocks: Vec::new(),
            free: Vec::new(),
            taken: 0,
            places_max,
        }
    }

    #[inline]
    fn place(&self, piece: usize) -> Option<u32> {
        let group = self.groups[piece / GROUP].as_ref()?;
        Some(group[piece % GROUP]).filter(|&place| place != NONE)
    }

    #[inline]
    fn held(&self, place: u32) -> &[u8] {
        let (block, first) = (place as usize / BLOCK, place as usize % BLOCK * PIECE_BYTES);
        &self.blocks[block][first..first + PIECE_BYTES]
    }

    #[inline]
    fn held_mut(&mut self, place: u32) -> &mut [u8] {
        let (block, first) = (place as usize / BLOCK, place as usize % BLOCK * PIECE_BYTES);
        &mut self.blocks[block][first..first + PIECE_BYTES]
    }

    /// A place for a piece; whether it may hold what another one left.
    fn take(&mut self, piece: usize) -> io::Result<(u32, bool)> {
        let (place, is_used) = match self.free.pop() {
            Some(place) => (place, true),
            None if self.taken >= self.places_max => return Err(io::ErrorKind::StorageFull.into()),
            None => {
                if self.taken as usize == self.blocks.len() * BLOCK {
                    self.blocks.push(MmapMut::map_anon(BLOCK * PIECE_BYTES)?);
                }
                self.taken += 1;
                (self.taken - 1, false)
            }
        };
        let group = self.groups[piece / GROUP].get_or_insert_with(|| Box::new([NONE; GROUP]));
        group[piece % GROUP] = place;
        Ok((place, is_used))
    }

    fn give_up(&mut self, piece: usize) {
        if let Some(group) = &mut self.groups[piece / GROUP] {
            let place = std::mem::replace(&mut group[piece % GROUP], NONE);
            if place != NONE {
                self.free.push(place);
            }
        }
    }

    pub fn read(&self, lba: u64, into: &mut [u8]) {
        for part in parts(lba, into.len()) {
            match self.place(part.piece) {
                Some(place) => into[part.of].copy_from_slice(&self.held(place)[part.within]),
                None => into[part.of].fill(0),
            }
        }
    }

    /// Reads so many bytes to the end of `out`.
    pub fn append(&self, lba: u64, bytes: usize, out: &mut Vec<u8>) {
        for part in parts(lba, bytes) {
            match self.place(part.piece) {
                Some(place) => out.extend_from_slice(&self.held(place)[part.within]),
                None => out.resize(out.len() + part.of.len(), 0),
            }
        }
    }

    /// # Errors
    /// No space, when the bytes allowed are used up or the system has no more; what lies before the
    /// piece that found none is written.
    pub fn write(&mut self, lba: u64, data: &[u8]) -> io::Result<()> {
        for part in parts(lba, data.len()) {
            let place = match self.place(part.piece) {
                Some(place) => place,
                None => {
                    let (place, is_used) = self.take(part.piece)?;
                    if is_used && !part.is_whole() {
                        self.held_mut(place).fill(0);
                    }
                    place
                }
            };
            self.held_mut(place)[part.within].copy_from_slice(&data[part.of]);
        }
        Ok(())
    }

    /// As [`Memory::write`], of what was there before a power cut: that may be more than allowed.
    ///
    /// # Errors
    /// The system's.
    pub fn restore(&mut self, lba: u64, data: &[u8]) -> io::Result<()> {
        let allowed = std::mem::replace(&mut self.places_max, NONE);
        let written = self.write(lba, data);
        self.places_max = allowed;
        written
    }

    /// Makes sectors read as zeros; `allocated` keeps space for them.
    ///
    /// # Errors
    /// As [`Memory::write`], and only to keep space.
    pub fn zero(&mut self, lba: u64, sectors: u64, allocated: bool) -> io::Result<()> {
        let (mut at, end) = (lba, lba + sectors);
        while at < end {
            let piece = (at / PIECE) as usize;
            // Past what was never written, in great steps.
            if !allocated && self.groups[piece / GROUP].is_none() {
                at = (piece / GROUP + 1) as u64 * GROUP as u64 * PIECE;
                continue;
            }
            let next = (piece as u64 + 1) * PIECE;
            let within = (at % PIECE * SECTOR_BYTES) as usize
                ..PIECE_BYTES - (next.saturating_sub(end) * SECTOR_BYTES) as usize;
            match self.place(piece) {
                Some(_) if !allocated && within.len() == PIECE_BYTES => self.give_up(piece),
                Some(place) => self.held_mut(place)[within].fill(0),
                None if allocated => {
                    let (place, is_used) = self.take(piece)?;
                    if is_used {
                        self.held_mut(place).fill(0);
                    }
                }
                None => {}
            }
            at = next;
        }
        Ok(())
    }

    /// Where there is data and where holes are, over at most `most` stretches.
    pub fn extents(&self, lba: u64, sectors: u64, most: usize) -> Vec<Extent> {
        let (mut at, end) = (lba, lba + sectors);
        let mut found: Vec<Extent> = Vec::new();
        while at < end {
            let piece = (at / PIECE) as usize;
            let data = self.place(piece).is_some();
            let pieces = match self.groups[piece / GROUP] {
                None => (piece / GROUP + 1) * GROUP,
                Some(_) => piece + 1,
            };
            let until = (pieces as u64 * PIECE).min(end);
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

#[cfg(test)]
mod tests {
    use super::*;
    use drivebay_units::Rng;

    const SECTORS: u64 = 3 * GROUP as u64 * PIECE + 5;

    /// Random writes, zeros and reads against one flat array.
    #[test]
    fn it_holds_what_a_flat_array_holds() {
        let mut rng = Rng::new(1);
        let mut memory = Memory::new(SECTORS, 1 << 30);
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
                    memory.write(lba, &data).unwrap();
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
    fn places_that_were_given_up_are_used_again() {
        let mut memory = Memory::new(SECTORS, 2 * PIECE_BYTES as u64);
        memory.write(0, &[1; 2 * PIECE_BYTES]).unwrap();
        let full = memory.write(80, &[1; 512]).expect_err("two pieces at most");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(memory.zero(80, 8, true).is_err());
        memory.write(9, &[2; 512]).unwrap();
        memory.zero(0, SECTORS, false).unwrap();
        assert_eq!(memory.extents(0, SECTORS, 8), [Extent { sectors: SECTORS, data: false }]);
        memory.write(83, &[3; 512]).unwrap();
        let mut found = [9; 3 * 512];
        memory.read(82, &mut found);
        assert_eq!(found, *[[0; 512], [3; 512], [0; 512]].as_flattened());
        assert_eq!(memory.taken, 2);
    }
}
