//! The map's own reads and writes of flash: translation pages that the map cache lacks, and the map
//! journal.
//!
//! All of it is data of the firmware: programs go round the dies, always in the fastest page type.

use std::ops::RangeInclusive;

use drivebay_units::{Lpn, Nanos};

use crate::firmware::datapath::map_cache::{Found, MapCache, MapTraffic};
use crate::firmware::datapath::map_journal::MapJournal;
use crate::nand::dies::Nand;
use crate::persist::{StateError, ensure, persist};
use crate::profile::{Geometry, MAP_ENTRIES_SHIFT, PAGE_BYTES, Spec};

/// The map's traffic: a cache where the map does not fit into memory, a journal where the profile
/// has one.
pub struct MapAccess {
    cache: Option<Box<MapCache>>,
    journal: Option<Box<MapJournal>>,
    /// 4 KiB written by the journal.
    journal_4k: u64,
    geometry: Geometry,
    /// 4 KiB that a program of all planes writes.
    program_4k: u64,
}

persist!(MapAccess: cache, journal, journal_4k; given: geometry, program_4k);

impl MapAccess {
    pub fn new(spec: &Spec) -> MapAccess {
        let g = &spec.geometry;
        MapAccess {
            cache: spec.map_cache.map(|cache| Box::new(MapCache::new(&cache, g))),
            journal: spec.map_journal.map(|journal| Box::new(MapJournal::new(journal))),
            journal_4k: 0,
            geometry: *g,
            program_4k: 1 << (g.unit_shift + g.page_shift + g.plane_shift),
        }
    }

    /// True if entries may have to be read before they can be used.
    #[inline(always)]
    pub fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    /// Traffic of the cache so far.
    pub fn traffic(&self) -> MapTraffic {
        self.cache.as_ref().map_or_else(MapTraffic::default, |cache| cache.traffic)
    }

    /// 4 KiB written so far.
    pub fn written_4k(&self) -> u64 {
        self.journal_4k + self.traffic().write_backs
    }

    /// Translation pages with the entries of `first` to `last`.
    pub fn pages(first: Lpn, last: Lpn) -> RangeInclusive<u32> {
        first.0 >> MAP_ENTRIES_SHIFT..=last.0 >> MAP_ENTRIES_SHIFT
    }

    /// Brings a translation page into the controller, and writes back the page that it replaces;
    /// returns when it is there. Nothing is asked of a channel earlier than `now`.
    pub fn load(
        &mut self,
        nand: &mut Nand,
        now: Nanos,
        from: Nanos,
        page: u32,
        change: bool,
    ) -> Nanos {
        let Some(cache) = &mut self.cache else {
            return from;
        };
        let (found, write_back) = cache.look_up(page, change);
        if let Some(number) = write_back {
            nand.program_metadata(now, from, number as u32);
        }
        match found {
            Found::Here => from,
            Found::Host { access } => from.after(access),
            Found::Flash => {
                // A translation page that is written again and again may lie anywhere (Fibonacci
                // hashing).
                let anywhere = page.wrapping_mul(0x9E37_79B1) >> 16;
                nand.read_inside(now, from, anywhere, PAGE_BYTES).done
            }
        }
    }

    /// Counts extents for which the map changed.
    #[inline(always)]
    pub fn note_change(&mut self, extents: u32) {
        if let Some(journal) = &mut self.journal {
            journal.note_change(extents);
        }
    }

    /// Notes that a superblock was sealed.
    pub fn note_sealed(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.note_sealed();
        }
    }

    /// Writes at `at` what the journal has gathered, if that is enough; returns the number of
    /// programs.
    #[inline(always)]
    pub fn write_journal(&mut self, nand: &mut Nand, now: Nanos, at: Nanos) -> u64 {
        match &self.journal {
            Some(journal) if journal.is_due() => self.program_journal(nand, now, at),
            _ => 0,
        }
    }

    #[cold]
    fn program_journal(&mut self, nand: &mut Nand, now: Nanos, at: Nanos) -> u64 {
        let Some(journal) = &mut self.journal else { return 0 };
        let programs = journal.take();
        for number in programs.clone() {
            nand.program_metadata(now, at, self.geometry.first_on_die(number));
        }
        let count = programs.count() as u64;
        self.journal_4k += count * self.program_4k;
        count
    }

    /// Forgets all data: no translation page is in flash.
    pub fn forget(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.forget();
        }
    }

    /// Checks a state that was read back.
    pub fn check(&self) -> Result<(), StateError> {
        ensure(self.journal_4k < 1 << 50, "the map journal's counter")?;
        self.cache.iter().try_for_each(|cache| cache.check())
    }
}
