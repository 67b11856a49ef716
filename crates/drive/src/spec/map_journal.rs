//! The map's journal: `[map_journal]`, optional.

use super::flash::Geometry;
use super::schema::RawMapJournal;

/// When the journal is written.
#[derive(Clone, Copy, Debug)]
pub struct MapJournalSpec {
    /// Changed entries that fill a program of a die.
    pub changes: u32,
    /// Programs for the summary of a superblock.
    pub summary_programs: u32,
}

pub(super) fn map_journal(raw: &RawMapJournal, geometry: &Geometry) -> MapJournalSpec {
    let program_bytes = geometry.flash_page_bytes() << geometry.plane_shift;
    let summary_bytes = u64::from(geometry.superblock_pages) * 4;
    MapJournalSpec {
        changes: (program_bytes / raw.entry_bytes.value) as u32,
        summary_programs: summary_bytes.div_ceil(program_bytes) as u32,
    }
}
