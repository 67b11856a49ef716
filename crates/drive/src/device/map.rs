//! Translation pages that are not in the controller: what `map_cache.rs` misses, fetched and written.

use drivebay_units::{Lpn, Nanos};

use super::Device;
use crate::ftl::Source;
use crate::map_cache::{Found, MapTraffic};
use crate::spec::{MAP_ENTRIES_SHIFT, PAGE_BYTES};

impl Device {
    /// Traffic of the map's cache so far.
    pub(super) fn map_traffic(&self) -> MapTraffic {
        self.map_cache.as_ref().map_or_else(MapTraffic::default, |cache| cache.traffic)
    }

    /// Nothing is mapped any more.
    pub(super) fn forget_map(&mut self) {
        if let Some(cache) = &mut self.map_cache {
            cache.forget();
        }
    }

    /// When the map entries of all these pages are in the controller, and how long that takes.
    #[inline(never)]
    pub(super) fn translate(
        &mut self,
        from: Nanos,
        first: Lpn,
        last: Lpn,
        change: bool,
    ) -> (Nanos, Nanos) {
        let pages = first.0 >> MAP_ENTRIES_SHIFT..=last.0 >> MAP_ENTRIES_SHIFT;
        let ready = pages.map(|page| self.bring(from, page, change)).max().unwrap_or(from);
        (ready, ready.since(from))
    }

    /// `translate` for a range that is unmapped: only its ends are in pages that keep other entries.
    pub(super) fn translate_edges(&mut self, from: Nanos, first: u32, last: u32) -> (Nanos, Nanos) {
        let first = self.bring(from, first >> MAP_ENTRIES_SHIFT, true);
        let ready = first.max(self.bring(from, last >> MAP_ENTRIES_SHIFT, true));
        (ready, ready.since(from))
    }

    /// `translate` for the pages copied out of a flash page.
    #[inline(never)]
    pub(super) fn translate_copy(&mut self, source: &Source, from: Nanos) -> Nanos {
        let mut ready = from;
        let mut valid = source.valid;
        while valid != 0 {
            let lpn = self.ftl.page_of(source.first.0 + valid.trailing_zeros());
            valid &= valid - 1;
            ready = ready.max(self.bring(from, lpn >> MAP_ENTRIES_SHIFT, true));
        }
        ready
    }

    /// Brings one translation page into the controller, and writes back what must leave for it.
    fn bring(&mut self, from: Nanos, page: u32, change: bool) -> Nanos {
        let (Some(cache), Some(spec)) = (&mut self.map_cache, &self.spec.map_cache) else {
            return from;
        };
        let (found, writes_back) = cache.look_up(page, change);
        if writes_back {
            let geometry = &self.spec.geometry;
            let per_program = 1 << (geometry.page_shift + geometry.plane_shift);
            if let Some(number) = cache.write_back(per_program) {
                // Round the dies, always in the fastest kind of page, as firmware keeps its own data.
                self.nand.program(self.now, from, number as u32, 0);
            }
        }
        match found {
            Found::Here => from,
            Found::Host => from.after(spec.host_access),
            Found::Flash => self.nand.read(self.now, from, scattered(page), PAGE_BYTES).done,
        }
    }
}

/// A flash page for a translation page: written again and again, it lies anywhere (Fibonacci hashing).
fn scattered(page: u32) -> u32 {
    page.wrapping_mul(0x9E37_79B1) >> 16
}
