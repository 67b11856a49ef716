//! Placement: the write frontiers, the free superblocks that they take, and the free space of both.
//!
//! Source: superblocks and separate frontiers as in FEMU and NVMeVirt (published simulators).

use std::collections::VecDeque;

use crate::firmware::datapath::write_buffer::WriteBuffer;
use crate::per_stream::PerStream;
use crate::persist::persist;
use crate::profile::Spec;
use crate::superblock::{PURPOSES, Streams, Victim};

/// Position at which a stream writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frontier {
    pub superblock: u32,
    pub next: u32,
    /// 0: the stream has no superblock yet.
    pub end: u32,
    /// An address plus this is its number in the stream (modulo 2^32).
    pub offset: u32,
    /// End of the run that is all for data; after `last` no page is for data. Both are `end` unless
    /// the superblock has parity or failed dies.
    pub stop: u32,
    pub last: u32,
}

persist!(Frontier: superblock, next, end, offset; given: stop, last);

/// Map entries that the newest addresses of a stream replaced: as many as a buffer's ring has
/// places. `recovery.rs` uses them.
pub struct Ring<'a> {
    entries: &'a mut [u32],
    offset: u32,
}

impl Ring<'_> {
    #[inline(always)]
    pub fn set(&mut self, ppa: u32, entry: u32) {
        let mask = self.entries.len() - 1;
        self.entries[ppa.wrapping_add(self.offset) as usize & mask] = entry;
    }

    /// Keeps the map entries of pages that are about to be placed from an address on.
    #[inline(always)]
    pub fn remember(&mut self, first: u32, mut entries: &[u32]) {
        if let &[entry] = entries {
            return self.set(first, entry);
        }
        let len = self.entries.len();
        let mut at = first.wrapping_add(self.offset) as usize & (len - 1);
        while !entries.is_empty() {
            let (now, later) = entries.split_at(entries.len().min(len - at));
            self.entries[at..at + now.len()].copy_from_slice(now);
            (entries, at) = (later, 0);
        }
    }
}

/// Frontiers and free superblocks.
pub struct Placement {
    frontiers: PerStream<Frontier>,
    replaced: PerStream<Vec<u32>>,
    /// Ordinary free superblocks, of the current reclaim group, in the order in which they came
    /// free.
    pub free: VecDeque<u32>,
    /// Flash pages that each stream had taken when a superblock was last reclaimed, by superblock.
    given_back: Vec<u64>,
    /// Pages that are erased, or will be when the part of the victim already read is erased.
    pub free_pages: u64,
}

persist!(Placement: frontiers, replaced, free, given_back, free_pages);

impl Placement {
    pub fn new(spec: &Spec) -> Placement {
        let streams = spec.streams.count;
        let ring = WriteBuffer::places(spec.buffer_pages) << spec.geometry.page_shift;
        Placement {
            frontiers: PerStream::new(streams, Frontier::default),
            replaced: PerStream::new(streams, || vec![0; ring]),
            free: VecDeque::new(),
            given_back: vec![0; streams * spec.geometry.superblocks as usize],
            free_pages: 0,
        }
    }

    /// Closes every frontier, and forgets when superblocks were reclaimed.
    pub fn clear(&mut self) {
        self.frontiers.fill(Frontier::default());
        self.given_back.fill(0);
    }

    #[inline(always)]
    pub fn frontiers(&self) -> &PerStream<Frontier> {
        &self.frontiers
    }

    /// Space left at a stream's frontier before parity, a failed die, or the next superblock
    /// begins.
    #[inline(always)]
    pub fn room(&self, stream: usize) -> u32 {
        let f = self.frontiers[stream];
        f.stop - f.next
    }

    /// Space left before the next superblock must be opened.
    #[inline(always)]
    pub fn room_to_last(&self, stream: usize) -> u32 {
        let f = self.frontiers[stream];
        f.last - f.next
    }

    /// Sets where the data of a stream's superblock stops next, and where it ends.
    pub fn set_stop(&mut self, stream: usize, [stop, last]: [u32; 2]) {
        let frontier = &mut self.frontiers[stream];
        (frontier.stop, frontier.last) = (stop, last);
    }

    /// Superblock that a stream has filled, if any.
    pub fn standing(&self, stream: usize) -> Option<u32> {
        let f = self.frontiers[stream];
        (f.end != 0).then_some(f.superblock)
    }

    /// Makes a stream go on in a superblock with these addresses.
    pub fn start(&mut self, stream: usize, superblock: u32, [next, end]: [u32; 2], number: u32) {
        let offset = number.wrapping_sub(next);
        self.frontiers[stream] = Frontier { superblock, next, end, offset, stop: end, last: end };
    }

    /// Takes the next addresses of a frontier; returns the first, the superblock, and the map
    /// entries that the stream's newest addresses replaced.
    #[inline(always)]
    pub fn take(&mut self, stream: usize, len: u32) -> (u32, u32, Ring<'_>) {
        let frontier = &mut self.frontiers[stream];
        debug_assert!(len <= frontier.end - frontier.next);
        let first = frontier.next;
        frontier.next += len;
        self.free_pages -= u64::from(len);
        let replaced = Ring { entries: &mut self.replaced[stream], offset: frontier.offset };
        (first, frontier.superblock, replaced)
    }

    /// Map entry that the address with this number in its stream replaced.
    pub fn replaced_by(&self, stream: usize, number: u64) -> u32 {
        let entries = &self.replaced[stream];
        entries[number as usize & (entries.len() - 1)]
    }

    /// All map entries that are remembered.
    pub fn remembered(&self) -> impl Iterator<Item = u32> {
        self.replaced.iter().flatten().copied()
    }

    /// See [`Ftl::given_back`](super::Ftl::given_back).
    pub fn given_back(&self, index: u32) -> &[u64] {
        &self.given_back[index as usize * self.frontiers.len()..][..self.frontiers.len()]
    }

    pub fn note_given_back(&mut self, index: u32, taken: impl Fn(usize) -> u64) {
        let streams = self.frontiers.len();
        let of_it = &mut self.given_back[index as usize * streams..][..streams];
        of_it.iter_mut().enumerate().for_each(|(stream, pages)| *pages = taken(stream));
    }

    /// Begins anew after a power cut, with so many superblocks free: frontiers go on at the next
    /// row of so many pages.
    pub fn restart(&mut self, row: u32, superblock_pages: u32, free: usize) {
        for frontier in self.frontiers.iter_mut() {
            let begin = frontier.superblock * superblock_pages;
            let used = frontier.next - begin.min(frontier.next);
            frontier.next = frontier.end.min(begin + used.next_multiple_of(row));
            (frontier.stop, frontier.last) = (frontier.end, frontier.end);
        }
        self.free_pages = free as u64 * u64::from(superblock_pages) + self.all_room();
    }

    /// Space left at all frontiers.
    pub fn all_room(&self) -> u64 {
        self.frontiers.iter().map(|f| u64::from(f.end - f.next)).sum()
    }
}

/// State of a reclaim group while another is the current one.
#[derive(Default)]
pub struct Parked {
    pub free: VecDeque<u32>,
    pub victims: [Option<Victim>; PURPOSES],
    /// Superblocks sealed so far.
    pub sealed: u64,
}

persist!(Parked: free, victims, sealed);

/// Reclaim groups, and the current one, whose own entry is empty.
pub struct Groups {
    pub parked: Vec<Parked>,
    pub current: usize,
    /// Stream in which the data of each stream goes on.
    pub goes_on: Vec<usize>,
}

persist!(Groups: parked, current, goes_on);

impl Groups {
    /// Reclaim groups; none on a drive with one.
    pub fn new(streams: Streams) -> Option<Box<Groups>> {
        let parked = (0..streams.groups).map(|_| Parked::default()).collect();
        let goes_on = (0..streams.count).collect();
        (streams.groups > 1).then(|| Box::new(Groups { parked, current: 0, goes_on }))
    }
}
