//! The map's own writes on a drive that holds its map in memory: journal and superblock summaries.
//!
//! Model: every change goes to a journal, an entry per extent (consecutive pages at consecutive
//! addresses), and each time that entries fill a program of a die, they are written. When a
//! superblock is sealed, a summary of it follows: the page at each of its addresses. With
//! `map_journal.checkpoint_mb`, the whole map is written each time that so much journal has been.
//! All take the flash core's time, and commands wait for them. Sources: journal, summaries and
//! checkpoints as in NAND file systems and open firmware (OpenSSD); their cost is the profile's.
//! Not modelled: garbage collection of the journal's blocks. Effect: a little too fast.

use std::ops::Range;

use crate::persist::persist;
use crate::profile::MapJournalSpec;

/// Journal that is not written yet.
pub struct MapJournal {
    spec: MapJournalSpec,
    /// Entries since the last write.
    changes: u32,
    /// Entries since the last checkpoint.
    since_checkpoint: u32,
    /// Superblocks sealed whose summaries are not written.
    sealed: u32,
    /// Programs so far.
    programs: u32,
}

persist!(MapJournal: changes, since_checkpoint, sealed, programs; given: spec);

impl MapJournal {
    pub fn new(spec: MapJournalSpec) -> MapJournal {
        MapJournal { spec, changes: 0, since_checkpoint: 0, sealed: 0, programs: 0 }
    }

    #[inline(always)]
    pub fn note_change(&mut self, extents: u32) {
        self.changes += extents;
    }

    pub fn note_sealed(&mut self) {
        self.sealed += 1;
    }

    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.changes >= self.spec.changes || self.sealed > 0
    }

    /// Numbers of the programs that write what has been gathered.
    pub fn take(&mut self) -> Range<u32> {
        let journal = self.changes / self.spec.changes;
        let mut count = journal + self.sealed * self.spec.summary_programs;
        self.since_checkpoint = self.since_checkpoint.saturating_add(journal * self.spec.changes);
        if self.spec.checkpoint_changes.is_some_and(|limit| self.since_checkpoint >= limit) {
            self.since_checkpoint = 0;
            count += self.spec.map_programs;
        }
        (self.changes, self.sealed) = (self.changes % self.spec.changes, 0);
        let first = self.programs;
        // Only the place in the round of dies matters, of which there is a power of two.
        self.programs = (first + count) & 0xffff;
        first..first + count
    }
}
