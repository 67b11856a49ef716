//! Data that outlives a power cut, and checks of a state that was read back.

use drivebay_units::{Lpn, Nanos};

use super::BackEnd;
use crate::firmware::datapath::StreamPage;
use crate::persist::{StateError, ensure};

impl BackEnd {
    /// Place of the newest version of a page; none if the page holds no data. Cost: 1 map entry.
    pub fn stream_page(&self, lpn: Lpn) -> Option<StreamPage> {
        Some(self.stream_page_at(self.ftl.look_up(lpn)?))
    }

    /// Cuts the power at `at`: what was not programmed is lost; returns how many pages' newest
    /// data.
    pub fn power_cut(&mut self, at: Nanos) -> u64 {
        self.dies_until(at);
        let lost = self.path.lost_at(at);
        let free = self.ftl.free_pages();
        let lost_pages = self.ftl.lose(&lost);
        // The rest of a begun row stays unused: garbage collection makes up for it as for padding.
        self.space.padding += free.saturating_sub(self.ftl.free_pages());
        let ftl = &self.ftl;
        self.path.power_cut(|stream| ftl.next_page(stream));
        self.begin_data();
        self.stripes.restart(at);
        lost_pages
    }

    /// Most pages of a stream that may not be programmed yet.
    pub fn buffered_pages(&self) -> u64 {
        self.path.places() << self.geometry.page_shift
    }

    /// Derives what follows from a state that was read back.
    pub fn derive(&mut self) {
        self.ftl.derive();
        self.damage.may_err |= !self.stripes.failed().is_empty();
        self.space.reserve += self.stripes.failed().len() as u32;
        self.begin_data();
        self.path.derive();
    }

    /// Checks that this flash can be in the state that was read back.
    pub fn check(&self, core_until: Nanos) -> Result<(), StateError> {
        let taken = self.path.check(core_until)?;
        self.ftl.check(Some(&taken))?;
        self.stripes.check()?;
        self.damage.check(self.geometry.user_pages)?;
        self.map.check()?;
        self.space.check()?;
        let counts = [self.path.nand.page_reads, self.path.nand.superblock_erases];
        ensure(counts.iter().all(|&count| count < 1 << 50), "the flash's counters")?;
        self.path.check_deferred(
            |stream, before| self.ftl.frontier_page(stream, before),
            |stream, taken| self.ftl.filled(stream, taken),
            |index| self.ftl.is_free_and_used(index),
        )
    }
}
