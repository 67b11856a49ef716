//! Snapshots of the data: content of the sectors at a moment, while writes continue.
//!
//! Taking a snapshot copies nothing. Before the first later change of a page, its content goes to
//! the newest snapshot, which keeps it in memory, or, if the data is a file, in an unnamed file in
//! the same folder. Pages in memory that are trimmed or restored as a whole are moved, not copied.
//! A page that a snapshot does not have is in the next younger snapshot that has it, or unchanged
//! in the current data. A reflink of the file would be slower: the kernel would first write all of
//! its dirty pages to the disk, which takes seconds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use drivebay_units::SECTOR_BYTES;

use super::file::check_room;
use super::memory::{Memory, PageTable};
use super::undo_log::{PAGE_SECTORS, UndoLog};

/// Most pages that are copied at a time: 1 MiB.
pub(super) const PIECE_PAGES: u64 = 256;

/// Bytes written to a snapshot's file between two checks of the free space.
const ROOM_STEP: u64 = 64 << 20;

/// Storage of the kept pages; pages of zeros take no space.
enum Kept {
    File {
        file: File,
        /// Bytes that may be written before the next check of the free space.
        room: u64,
    },
    /// Pages of the drive's own store.
    Memory(PageTable),
}

/// Snapshot, identified by its position: the oldest is 0.
pub(super) struct Snapshot {
    /// Bitmap of the kept pages, 64 in a word.
    is_kept: Vec<u64>,
    kept: Kept,
    /// Undo log at the time of the snapshot, for a later power cut.
    pub undo: Option<UndoLog>,
}

impl Snapshot {
    /// Creates a snapshot of a drive with data in memory; `table` is empty.
    pub fn in_memory(sectors: u64, table: PageTable, undo: Option<UndoLog>) -> Snapshot {
        Snapshot { is_kept: bitmap(sectors), kept: Kept::Memory(table), undo }
    }

    /// Creates a snapshot of a drive with its data in a file of this folder.
    pub fn in_file(sectors: u64, folder: &Path, undo: Option<UndoLog>) -> io::Result<Snapshot> {
        let file = tempfile::tempfile_in(folder)?;
        file.set_len(sectors.next_multiple_of(PAGE_SECTORS) * SECTOR_BYTES)?;
        Ok(Snapshot { is_kept: bitmap(sectors), kept: Kept::File { file, room: 0 }, undo })
    }

    pub fn is_kept(&self, page: u64) -> bool {
        self.is_kept[(page / 64) as usize] & 1 << (page % 64) != 0
    }

    /// Marks the page as kept.
    pub fn mark(&mut self, page: u64) {
        self.is_kept[(page / 64) as usize] |= 1 << (page % 64);
    }

    /// Kept pages, in order.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        pages_of(self.is_kept.iter().copied())
    }

    /// Returns the pages in memory.
    ///
    /// # Panics
    /// If they are in a file.
    pub fn table(&mut self) -> &mut PageTable {
        match &mut self.kept {
            Kept::Memory(table) => table,
            Kept::File { .. } => panic!("the drive's data is in a file"),
        }
    }

    /// Like [`Snapshot::table`], for a snapshot that is no longer needed; `None` if it has a file.
    pub fn into_table(self) -> Option<PageTable> {
        match self.kept {
            Kept::Memory(table) => Some(table),
            Kept::File { .. } => None,
        }
    }

    /// Keeps the content of the pages from `page` on in its file.
    ///
    /// # Errors
    /// No space, if the host's file system has little left.
    pub fn keep(&mut self, page: u64, data: &[u8]) -> io::Result<()> {
        for (page, data) in (page..).zip(data.chunks((PAGE_SECTORS * SECTOR_BYTES) as usize)) {
            if let Kept::File { file, room } = &mut self.kept
                && data.iter().any(|&byte| byte != 0)
            {
                if *room < data.len() as u64 {
                    check_room(file, ROOM_STEP)?;
                    *room = ROOM_STEP;
                }
                *room -= data.len() as u64;
                file.write_all_at(data, page * PAGE_SECTORS * SECTOR_BYTES)?;
            }
            self.mark(page);
        }
        Ok(())
    }

    /// Marks pages without data as kept.
    pub fn keep_zeros(&mut self, pages: std::ops::Range<u64>) {
        let mut page = pages.start;
        while page < pages.end {
            if page.is_multiple_of(64) && page + 64 <= pages.end {
                // Pages that are kept already keep their content.
                self.is_kept[(page / 64) as usize] = u64::MAX;
                page += 64;
            } else {
                self.mark(page);
                page += 1;
            }
        }
    }

    /// Reads kept pages; `memory` is the drive's.
    pub fn read(&self, memory: Option<&Memory>, page: u64, into: &mut [u8]) -> io::Result<()> {
        let lba = page * PAGE_SECTORS;
        match &self.kept {
            Kept::File { file, .. } => file.read_exact_at(into, lba * SECTOR_BYTES),
            Kept::Memory(table) => memory.expect("it has the pages").read_table(table, lba, into),
        }
    }
}

fn bitmap(sectors: u64) -> Vec<u64> {
    vec![0; sectors.div_ceil(PAGE_SECTORS).div_ceil(64) as usize]
}

/// Pages whose bits are set.
fn pages_of(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    let words = words.enumerate().filter(|&(_, word)| word != 0);
    words.flat_map(|(i, word)| {
        (0..64).filter(move |bit| word & 1 << bit != 0).map(move |bit| i as u64 * 64 + bit)
    })
}

/// Consecutive pages that the same snapshot keeps.
pub(super) struct Run {
    pub page: u64,
    /// Number of pages, at most [`PIECE_PAGES`].
    pub pages: u32,
    /// Position among the given snapshots.
    pub source: u32,
}

/// Returns the pages that have changed since the first of these snapshots, and the snapshot that
/// keeps each.
pub(super) fn runs(snapshots: &[Snapshot]) -> Vec<Run> {
    let words = snapshots.first().map_or(0, |first| first.is_kept.len());
    let any =
        (0..words).map(|i| snapshots.iter().fold(0, |any, snapshot| any | snapshot.is_kept[i]));
    let mut runs: Vec<Run> = Vec::new();
    for page in pages_of(any) {
        let source =
            snapshots.iter().position(|snapshot| snapshot.is_kept(page)).expect("one has it")
                as u32;
        match runs.last_mut() {
            Some(last)
                if last.page + u64::from(last.pages) == page
                    && last.source == source
                    && u64::from(last.pages) < PIECE_PAGES =>
            {
                last.pages += 1;
            }
            _ => runs.push(Run { page, pages: 1, source }),
        }
    }
    runs
}
