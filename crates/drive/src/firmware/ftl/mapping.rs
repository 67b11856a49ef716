//! The map: the address of each page, the page at each address, and the number of valid pages of
//! each superblock.
//!
//! Two flat tables: `map` (page to physical address, plus one; 0 is unmapped) and `back` (physical
//! address to page). An address holds valid data exactly when `map[back[ppa]]` points to it, so
//! there is no bitmap: 8.3 bytes per page (mapping unit) for a drive with 7 % spare. Addresses are
//! numbered superblock by superblock, and inside one striped over dies first, then planes, then
//! pages, so that neighbours lie on different channels.
//!
//! Source: validity by reverse map measured against a bitmap, see
//! docs/adr/0003-validity-by-reverse-map.md. Not modelled here: the map's own reads and writes of
//! flash (`firmware/datapath/map_cache.rs`).

use std::ops::Range;

use drivebay_units::{Divider, Lpn, Ppa};

use super::placement::Ring;
use crate::memory::Table;
use crate::operations::{NOWHERE, Operation, OperationKind};
use crate::persist::{StateError, ensure, persist};
use crate::profile::Spec;
use crate::superblock::{Source, Victim};

/// Distance of the prefetch ahead of the scan of a victim, in pages.
const SCAN_AHEAD: usize = 64;

/// Entries fetched at once (a power of two).
const SCAN_GROUP: usize = 32;

/// Number of set bits among the lowest `BITS`, the others being zero: by fours from a table in one
/// word, since not every processor that we build for has an instruction for it.
#[inline(always)]
fn ones<const BITS: usize>(bits: u32) -> u32 {
    const OF_FOUR: u64 = 0x4332_3221_3221_2110;
    (0..BITS as u32).step_by(4).map(|at| (OF_FOUR >> (((bits >> at) & 15) * 4)) as u32 & 15).sum()
}

/// Both tables and their counts.
pub struct Mapping {
    map: Table,
    back: Table,
    superblock_pages: u32,
    by_superblock: Divider,
    valid: Vec<u32>,
    /// Pages mapped.
    pub mapped: u64,
    /// Operations, while they are logged.
    pub log: Option<Vec<Operation>>,
}

persist!(Mapping: map, back, valid, mapped; given: superblock_pages, by_superblock, log);

impl Mapping {
    pub fn new(spec: &Spec) -> std::io::Result<Mapping> {
        let g = &spec.geometry;
        Ok(Mapping {
            // Without superblocks nothing is ever placed.
            map: Table::new(if g.superblocks > 0 { g.user_pages } else { 0 } as usize)?,
            back: Table::new(g.superblocks as usize * g.superblock_pages as usize)?,
            superblock_pages: g.superblock_pages,
            by_superblock: Divider::new(g.superblock_pages),
            valid: vec![0; g.superblocks as usize],
            mapped: 0,
            log: None,
        })
    }

    pub fn clear(&mut self) {
        self.map.get_mut().fill(0);
        self.valid.fill(0);
        self.mapped = 0;
        self.note(OperationKind::Clear, 0, 0, 0);
    }

    /// Logs an operation, while they are logged.
    #[cold]
    pub fn note(&mut self, kind: OperationKind, page: u32, address: u32, count: u32) {
        self.log.iter_mut().for_each(|log| log.push([kind as u32, page, address, count]));
    }

    /// The address of a page, if it is mapped. Cost: 1 map miss.
    #[inline(always)]
    pub fn look_up(&self, lpn: Lpn) -> Option<Ppa> {
        self.map.get()[lpn.0 as usize].checked_sub(1).map(Ppa)
    }

    /// Starts fetching a page's map entry.
    #[inline(always)]
    pub fn prefetch(&self, lpn: Lpn) {
        self.map.prefetch(lpn.0 as usize);
    }

    /// The page that was put at an address last. Cost: 1 entry.
    #[inline(always)]
    pub fn page_at(&self, ppa: Ppa) -> Lpn {
        Lpn(self.back.get()[ppa.0 as usize])
    }

    /// The superblock of an address, and the address's number in it.
    #[inline(always)]
    pub fn locate(&self, ppa: Ppa) -> (u32, u32) {
        let superblock = self.by_superblock.divide(ppa.0);
        (superblock, ppa.0 - superblock * self.superblock_pages)
    }

    /// Valid pages of each superblock.
    #[inline(always)]
    pub fn valid(&self) -> &[u32] {
        &self.valid
    }

    /// Map entries of pages.
    #[inline(always)]
    pub fn entries(&self, pages: Range<usize>) -> &[u32] {
        &self.map.get()[pages]
    }

    /// Maps pages `lpn..lpn + len` to addresses from `first` on, in one superblock.
    ///
    /// Cost: 1 map miss per run of pages that lie together in the map.
    #[inline]
    pub fn place(&mut self, superblock: u32, first: u32, lpn: Lpn, len: u32) {
        self.valid[superblock as usize] += len;
        let range = lpn.0 as usize..(lpn.0 + len) as usize;
        self.invalidate(range.clone());
        self.mapped += u64::from(len);
        for (entry, ppa) in self.map.get_mut()[range].iter_mut().zip(first + 1..) {
            *entry = ppa;
        }
        let taken = first as usize..(first + len) as usize;
        for (entry, page) in self.back.get_mut()[taken].iter_mut().zip(lpn.0..) {
            *entry = page;
        }
        if self.log.is_some() {
            self.note(OperationKind::Write, lpn.0, first, len);
        }
    }

    /// No page's entry points to these addresses, so they are dead, whatever page they name.
    pub fn pad(&mut self, first: u32, count: u32) {
        self.back.get_mut()[first as usize..(first + count) as usize].fill(0);
        self.note(OperationKind::Pad, 0, first, count);
    }

    /// Moves `count` valid pages from one superblock to addresses from `first` on in another, and
    /// takes them out of `source`; `replaced` gets their old entries.
    #[inline(always)]
    pub fn relocate(
        &mut self,
        source: &mut Source,
        to: u32,
        first: u32,
        count: u32,
        mut replaced: Ring<'_>,
    ) {
        self.valid[source.superblock as usize] -= count;
        self.valid[to as usize] += count;
        let (map, back) = (self.map.get_mut(), self.back.get_mut());
        for ppa in first..first + count {
            let old = source.first.0 + source.valid.trailing_zeros();
            let lpn = back[old as usize];
            source.valid &= source.valid - 1;
            replaced.set(ppa, old + 1);
            map[lpn as usize] = ppa + 1;
            back[ppa as usize] = lpn;
        }
        if self.log.is_some() {
            let copies = first..first + count;
            copies.for_each(|ppa| self.note(OperationKind::Copy, self.page_at(Ppa(ppa)).0, ppa, 1));
        }
    }

    /// Unmaps pages; returns how many were mapped.
    pub fn trim(&mut self, lpn: Lpn, len: u32) -> u64 {
        let before = self.mapped;
        let range = lpn.0 as usize..(lpn.0 + len) as usize;
        self.invalidate(range.clone());
        self.map.get_mut()[range].fill(0);
        self.note(OperationKind::Trim, lpn.0, 0, len);
        before - self.mapped
    }

    /// Subtracts these pages from the counts of mapped pages and of their superblocks.
    #[inline]
    fn invalidate(&mut self, range: Range<usize>) {
        if range.len() == 1 {
            if let Some(ppa) = self.map.get()[range.start].checked_sub(1) {
                self.mapped -= 1;
                self.valid[self.by_superblock.divide(ppa) as usize] -= 1;
            }
            return;
        }
        let pages = self.superblock_pages;
        let (mut begin, mut gone, mut current) = (u32::MAX, 0, 0);
        for &entry in &self.map.get()[range] {
            let Some(ppa) = entry.checked_sub(1) else {
                continue;
            };
            if ppa.wrapping_sub(begin) >= pages {
                self.valid[current] -= gone;
                self.mapped -= u64::from(gone);
                gone = 0;
                current = self.by_superblock.divide(ppa) as usize;
                begin = current as u32 * pages;
            }
            gone += 1;
        }
        self.valid[current] -= gone;
        self.mapped -= u64::from(gone);
    }

    /// Next flash page of the victim with valid data; none if it has been read to its end.
    #[inline(always)]
    pub fn next_source(&self, victim: &mut Victim, page_shift: u32) -> Option<Source> {
        match page_shift {
            0 => self.scan::<1>(victim),
            1 => self.scan::<2>(victim),
            2 => self.scan::<4>(victim),
            3 => self.scan::<8>(victim),
            4 => self.scan::<16>(victim),
            _ => unreachable!("the profile allows pages of 4 to 64 KiB"),
        }
    }

    /// `next_source` for flash pages of `PAGES` pages. Cost: per page 1 map entry, prefetched.
    #[inline(always)]
    fn scan<const PAGES: usize>(&self, victim: &mut Victim) -> Option<Source> {
        let (map, back) = (self.map.get(), self.back.get());
        while victim.next < victim.end {
            let first = victim.next;
            let begin = first as usize;
            victim.next += PAGES as u32;
            // Many at once: page walks overlap within a group, one alone is waited for.
            if begin.is_multiple_of(SCAN_GROUP) {
                let ahead = begin + SCAN_AHEAD;
                if let Some(coming) = back.get(ahead..ahead + SCAN_GROUP) {
                    coming.iter().for_each(|&lpn| self.map.prefetch(lpn as usize));
                }
            }
            let lpns: &[u32; PAGES] = back[begin..begin + PAGES].try_into().expect("PAGES long");
            // Bit i is address `first + i`: valid, and naming the page that follows that of the
            // address before.
            let (mut valid, mut follows) = (0u32, 0u32);
            for (i, &lpn) in lpns.iter().enumerate() {
                valid |= u32::from(map[lpn as usize] == first + i as u32 + 1) << i;
            }
            for (i, pair) in lpns.windows(2).enumerate() {
                follows |= u32::from(pair[1] == pair[0] + 1) << (i + 1);
            }
            if valid != 0 {
                let heads = valid & !(follows & (valid << 1));
                let (pages, extents) = (ones::<PAGES>(valid), ones::<PAGES>(heads));
                let superblock = victim.superblock;
                return Some(Source { superblock, first: Ppa(first), valid, pages, extents });
            }
        }
        None
    }

    /// True if an address is the newest of the page that it holds.
    pub fn is_valid(&self, ppa: Ppa) -> bool {
        self.map.get()[self.page_at(ppa).0 as usize] == ppa.0 + 1
    }

    /// Makes the page of a lost address point to its old address.
    pub fn fall_back(&mut self, lost: Ppa, old: u32) {
        let lpn = self.page_at(lost);
        self.valid[self.by_superblock.divide(lost.0) as usize] -= 1;
        self.map.get_mut()[lpn.0 as usize] = old;
        let there = |&ppa: &u32| self.page_at(Ppa(ppa)) == lpn;
        let old = old.checked_sub(1);
        debug_assert!(old.is_none_or(|ppa| there(&ppa)), "it is still there");
        match old.filter(there) {
            Some(ppa) => {
                self.valid[self.by_superblock.divide(ppa) as usize] += 1;
            }
            None => {
                self.map.get_mut()[lpn.0 as usize] = 0;
                self.mapped -= 1;
            }
        }
        let address = self.look_up(lpn).map_or(NOWHERE, |ppa| ppa.0);
        self.note(OperationKind::Revert, lpn.0, address, 1);
    }

    /// Checks the map, its reverse, and the counts of both.
    pub fn check(&self) -> Result<(), StateError> {
        let (map, back) = (self.map.get(), self.back.get());
        let pages = map.len() as u32;
        ensure(back.iter().all(|&lpn| lpn < pages), "an address of a page that the drive has not")?;
        let mut valid = vec![0u32; self.valid.len()];
        let mut mapped = 0;
        for (lpn, &entry) in (0u32..).zip(map) {
            if let Some(ppa) = entry.checked_sub(1) {
                mapped += 1;
                ensure(back.get(ppa as usize) == Some(&lpn), "map and reverse map disagree")?;
                valid[self.by_superblock.divide(ppa) as usize] += 1;
            }
        }
        ensure(valid == self.valid && mapped == self.mapped, "counts of valid pages")
    }

    /// True if an entry can belong to this map.
    pub fn knows(&self, entry: u32) -> bool {
        entry as usize <= self.back.get().len()
    }

    /// True if no page lies at these addresses.
    pub fn holds_none(&self, begin: u32, end: u32) -> bool {
        !(begin..end).any(|ppa| self.is_valid(Ppa(ppa)))
    }
}
