//! The map's journal: `[map_journal]`, optional.

use super::checker::{Checker, SpecError};
use super::flash::Geometry;
use crate::raw::RawMapJournal;

/// When the journal is written.
#[derive(Clone, Copy, Debug)]
pub struct MapJournalSpec {
    /// Changed entries that fill a program of a die.
    pub changes: u32,
    /// Programs for the summary of a superblock.
    pub summary_programs: u32,
}

pub(super) fn check_map_journal(
    raw: &RawMapJournal,
    geometry: &Geometry,
) -> Result<MapJournalSpec, SpecError> {
    let entry = Checker::integer("map_journal.entry_bytes", &raw.entry_bytes, 4, 64)?;
    Checker::micros("map_journal.program_us", &raw.program_us)?;
    let program_bytes = geometry.flash_page_bytes() << geometry.plane_shift;
    let summary_bytes = u64::from(geometry.superblock_slots) * 4;
    Ok(MapJournalSpec {
        changes: (program_bytes / entry) as u32,
        summary_programs: summary_bytes.div_ceil(program_bytes) as u32,
    })
}
