//! Losses of a power cut in the map, and how the map is recovered.
//!
//! Acknowledged data that has not yet been programmed is lost. For the newest addresses of each
//! stream, as many as its buffer can hold, `replaced` remembers the old addresses of their pages; a
//! page whose newest address is lost falls back to that. A superblock is erased only when all data
//! that replaced its pages is safe, so the old data is still there: no flushed data is lost.
//!
//! A real FTL finds the same by reading the spare bytes of the blocks written last. Not modelled:
//! torn pages (a program that is cut short is lost as a whole), a TRIM that comes undone (it is
//! allowed to stay).

use drivebay_units::Ppa;

use super::Ftl;
use crate::superblock::State;

impl Ftl {
    /// Takes lost flash pages back, given per stream by their numbers in it; those must be among
    /// the newest that the buffer's ring can hold. Returns how many pages lost their newest data.
    ///
    /// Afterwards no victim is chosen, frontiers go on at the next row over all dies and planes,
    /// and superblocks that were freed but not erased are in use again if old data lies in them.
    /// Cost: every pass reads the lost pages.
    pub fn lose(&mut self, lost: &[Vec<u64>]) -> u64 {
        let gone: Vec<(usize, u64, Ppa)> =
            (0..).zip(lost).flat_map(|(stream, lost)| self.lost_addresses(stream, lost)).collect();
        let mut fallen = 0;
        // A page may have been written several times since: it falls back step by step.
        loop {
            let before = fallen;
            for &(stream, number, ppa) in &gone {
                if self.mapping.is_valid(ppa) {
                    self.mapping.fall_back(ppa, self.placement.replaced_by(stream, number));
                    fallen += 1;
                }
            }
            if fallen == before {
                break;
            }
        }
        self.take_stock();
        fallen
    }

    /// The addresses of a stream's flash pages, with their numbers in the stream.
    fn lost_addresses(&self, stream: usize, pages: &[u64]) -> Vec<(usize, u64, Ppa)> {
        let shift = self.geometry.page_shift;
        let mut found = Vec::new();
        for (index, s) in (0u32..).zip(self.superblocks.all()) {
            if s.erased || usize::from(s.stream) != stream {
                continue;
            }
            let own =
                s.first_page..s.first_page + u64::from(self.superblocks.pages_of(index) >> shift);
            for &page in pages.iter().filter(|page| own.contains(page)) {
                let begin = self.superblocks.begin_of(index);
                let first = begin + (((page - s.first_page) as u32) << shift);
                let numbered = (page << shift..).zip(first..first + (1 << shift));
                found.extend(numbered.map(|(number, ppa)| (stream, number, Ppa(ppa))));
            }
        }
        found
    }

    /// Puts victim, frontiers and free space in order after a power cut.
    fn take_stock(&mut self) {
        for group in (0..self.streams.groups).rev() {
            self.enter(group);
            for victim in self.victims.iter_mut().filter_map(Option::take) {
                self.superblocks.get_mut(victim.superblock).state = State::Sealed;
            }
            let valid = self.mapping.valid();
            self.placement.free.retain(|&index| valid[index as usize] == 0);
        }
        let (g, free) = (&self.geometry, self.all_free().count());
        let row = 1 << (g.die_shift + g.plane_shift + g.page_shift);
        self.placement.restart(row, g.superblock_pages, free);
        let valid = self.mapping.valid();
        self.slc.free.retain(|&index| valid[index as usize] == 0);
        for (s, &valid) in self.superblocks.all_mut().iter_mut().zip(valid) {
            if s.state == State::Free && valid > 0 {
                s.state = State::Sealed;
            }
        }
        self.slc.count(&self.superblocks);
    }

    /// The number in its stream of the flash page at which a frontier stands.
    pub fn next_page(&self, stream: usize) -> u64 {
        let f = self.placement.frontiers()[stream];
        if f.end == 0 {
            return 0;
        }
        let used = f.next - self.superblocks.begin_of(f.superblock);
        self.superblock(f.superblock).first_page + u64::from(used >> self.geometry.page_shift)
    }
}
