//! The map's journal: `[map_journal]`, optional.

use drivebay_units::Nanos;

use super::constants::{MAP_ENTRY_BYTES, PAGE_BYTES};
use super::flash::Geometry;
use super::key::{Number, is_set};
use super::schema::RawMapJournal;

/// When the journal is written.
#[derive(Clone, Copy, Debug)]
pub struct MapJournalSpec {
    /// Entries that fill a program of a die.
    pub changes: u32,
    /// Programs for the summary of a superblock.
    pub summary_programs: u32,
    /// Entries after which the whole map is written; none if it never is at once.
    pub checkpoint_changes: Option<u32>,
    /// Programs for the whole map.
    pub map_programs: u32,
    /// What a program of it takes of its die; that of the fastest page type if none.
    pub die_program: Option<Nanos>,
    /// Commands wait until it is on flash.
    pub synchronous: bool,
    /// 4 KiB that a program of it writes.
    pub program_4k: u64,
}

pub(super) fn map_journal(raw: &RawMapJournal, geometry: &Geometry) -> MapJournalSpec {
    let all_planes = geometry.flash_page_bytes() << geometry.plane_shift;
    let program_bytes = raw.program_kib.as_ref().map_or(all_planes, |kib| kib.value << 10);
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
        die_program: raw.die_program_us.as_ref().map(Number::micros),
        synchronous: is_set(&raw.synchronous),
        program_4k: program_bytes.div_ceil(PAGE_BYTES),
    }
}
