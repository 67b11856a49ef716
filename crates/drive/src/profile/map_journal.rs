//! The map's journal: `[map_journal]`, optional.

use super::constants::MAP_ENTRY_BYTES;
use super::flash::Geometry;
use super::schema::RawMapJournal;

/// Sizes and intervals of the map's journal.
#[derive(Clone, Copy, Debug)]
pub struct MapJournalSpec {
    /// Journal entries that fill one program of a die.
    pub changes: u32,
    /// Programs for the summary of a superblock.
    pub summary_programs: u32,
    /// Journal entries after which the whole map is written; `None` if it is never written at once.
    pub checkpoint_changes: Option<u32>,
    /// Programs for the whole map.
    pub map_programs: u32,
}

pub(super) fn map_journal(raw: &RawMapJournal, geometry: &Geometry) -> MapJournalSpec {
    let program_bytes = geometry.flash_page_bytes() << geometry.plane_shift;
    let programs_for =
        |entries: u32| (u64::from(entries) * MAP_ENTRY_BYTES).div_ceil(program_bytes) as u32;
    let entries_of = |mb: f64| (mb * 1e6) as u64 / raw.entry_bytes.value;
    MapJournalSpec {
        changes: (program_bytes / raw.entry_bytes.value) as u32,
        summary_programs: programs_for(geometry.superblock_pages),
        checkpoint_changes: raw
            .checkpoint_mb
            .as_ref()
            .map(|mb| entries_of(mb.value).min(u64::from(u32::MAX / 2)) as u32),
        map_programs: programs_for(geometry.user_pages),
    }
}
