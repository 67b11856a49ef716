//! Copies of valid pages: garbage collection's port to map, write buffer and dies.

use std::ops::Range;

use drivebay_units::{Nanos, Ppa};

use super::BackEnd;
use crate::events::Trigger;
use crate::firmware::gc::port::{GcPort, Need, NextStep, PacePort};
use crate::io::DeviceError;
use crate::policy_plugin::Pace;
use crate::superblock::{HOST, Mode, Purpose, Source};

impl GcPort for BackEnd {
    #[inline(always)]
    fn group(&self) -> usize {
        self.ftl.group()
    }

    fn enter(&mut self, group: usize) {
        self.ftl.enter(group);
    }

    /// Where the host shares the frontier of copies, [`Need::Copy`] leaves the reserve to the
    /// foreground, which finishes the victims that it begins: else the host could take the space
    /// that the rest of one needs.
    #[inline(always)]
    fn has(&self, need: Need) -> bool {
        let ftl = &self.ftl;
        match need {
            Need::Copy => {
                let kept = || if ftl.streams().share() { self.reserve() } else { 0 };
                ftl.room_for_copies() != 0 || ftl.free_superblocks() > kept()
            }
            Need::CopyBesideReserve => {
                ftl.room_for_copies() >= 1 << self.geometry.page_shift
                    || ftl.free_superblocks() > self.reserve()
            }
            Need::CopyBesideVictim => ftl.has_room_beside_victim(),
            Need::Superblock => ftl.free_superblocks() > self.reserve(),
            Need::HostPage => ftl.room_to_last(HOST) > 0,
        }
    }

    #[inline(always)]
    fn next_step(&mut self, purpose: Purpose) -> NextStep {
        if let Some(source) = self.ftl.next_source(purpose) {
            let reclaimed = u64::from(source.pages) * self.ftl.given_per_copy(purpose);
            let stream = self.ftl.begin_copy(source);
            NextStep::Copy { source, stream, reclaimed }
        } else if self.ftl.victim_is_done(purpose) {
            NextStep::Retire { reclaimed: self.ftl.given_by_empty(purpose) }
        } else {
            NextStep::Nothing
        }
    }

    #[inline(always)]
    fn free_at(&mut self, stream: Option<usize>) -> Nanos {
        match stream {
            Some(stream) => self.path.free_at(stream),
            None => self.copies_free_at(),
        }
    }

    #[inline(always)]
    fn copy(
        &mut self,
        source: Source,
        stream: usize,
        at: Nanos,
        trigger: Trigger,
        data_ready: &mut Nanos,
    ) {
        // Pages are programmed in order: none before the data of all before it has come.
        *data_ready = (*data_ready).max(self.read_source(source, at, trigger));
        self.relocate(source, stream, at, at.max(*data_ready));
    }

    fn retire_victim(&mut self, purpose: Purpose, at: Nanos, trigger: Trigger) {
        if self.events.is_some() {
            self.note_retired(purpose, at, trigger);
        }
        if self.damage.errors.is_some() && !self.victim_survives_erase(purpose) {
            self.ftl.discard_victim(purpose);
        } else {
            self.ftl.finish_victim(purpose, |stream| self.path.taken(stream));
        }
    }

    #[inline]
    fn check_policy(&self) -> Result<(), DeviceError> {
        self.check_plugin()
    }
}

impl PacePort for BackEnd {
    #[inline(always)]
    fn free_pages(&self) -> u64 {
        if self.ftl.has_groups() { self.ftl.free_in_group() } else { self.ftl.free_pages() }
    }

    #[inline(always)]
    fn pace(&mut self, host_pages: u64, own: Pace) -> Option<(u64, Pace)> {
        if self.space.read_only {
            return None;
        }
        // Padding takes space as the host's pages do.
        let pages = host_pages + std::mem::take(&mut self.space.padding);
        Some((pages, self.ftl.pace(pages, own)))
    }

    fn reclaimed_per_copy(&self, purpose: Purpose) -> u64 {
        self.ftl.given_per_copy(purpose)
    }

    fn copies_taken(&self) -> u64 {
        self.path.taken(self.ftl.streams().copies)
    }

    fn copies_programmed_at(&mut self, pages: Range<u64>) -> Nanos {
        self.path.programmed_at(self.ftl.streams().copies, pages)
    }
}

impl BackEnd {
    /// Time when the buffers have a place for another flash page of copies.
    #[inline(always)]
    fn copies_free_at(&mut self) -> Nanos {
        let streams = self.ftl.streams();
        let first = self.path.free_at(streams.copies);
        streams.more_copies().map(|stream| self.path.free_at(stream)).fold(first, Nanos::max)
    }

    /// Time when the buffers have a place each for another flash page of the host's and of garbage
    /// collection's.
    pub fn room_at(&mut self) -> Nanos {
        let (copies, hosts) = (self.copies_free_at(), self.ftl.streams().hosts());
        hosts.map(|stream| self.path.free_at(stream)).fold(copies, Nanos::max)
    }

    /// Reads the valid pages of a victim's flash page at `at`; returns when they are in the
    /// controller.
    ///
    /// Cost: 1 die and 1 calendar.
    #[inline(always)]
    fn read_source(&mut self, source: Source, at: Nanos, trigger: Trigger) -> Nanos {
        if self.events.is_some() {
            self.note_copy(source, at, trigger);
        }
        let page = source.first.0 >> self.geometry.page_shift;
        let mut floor = at;
        if self.ftl.has_groups() {
            // The other groups are not so far.
            self.start_until(at);
            floor = self.path.now().min(at);
        } else {
            self.dies_until(at);
        }
        let bytes = u64::from(source.pages) * self.geometry.unit_bytes();
        let mut done = if self.damage.may_err {
            self.read_erring_source(source, at, bytes)
        } else {
            self.path.nand.read_inside(floor, at, page, bytes).done
        };
        if self.map.is_cached() {
            done = done.max(self.translate_source(source, at));
        }
        done
    }

    /// Places the valid pages of a victim's flash page in a stream of copies, from `from` on; the
    /// copy began at `at`.
    ///
    /// Cost: [`Ftl::relocate`] and `fill` for the new addresses.
    #[inline(always)]
    fn relocate(&mut self, mut source: Source, stream: usize, at: Nanos, from: Nanos) {
        self.map.note_change(source.extents);
        while source.valid != 0 {
            if self.ftl.room(stream) == 0 {
                let opened = self.open(stream, at, Mode::Native);
                assert!(opened, "the reserve always has a superblock for garbage collection");
            }
            let (first, count) = self.ftl.relocate(&mut source, stream);
            self.path.fill(stream, first, count, from);
        }
    }

    /// Translates the pages copied out of a flash page.
    #[inline(never)]
    fn translate_source(&mut self, source: Source, from: Nanos) -> Nanos {
        let mut ready = from;
        let mut valid = source.valid;
        while valid != 0 {
            let lpn = self.ftl.page_at(Ppa(source.first.0 + valid.trailing_zeros()));
            valid &= valid - 1;
            ready = ready.max(self.translate(from, lpn, lpn, true));
        }
        ready
    }

    /// Group of the superblock that was suggested first as a victim, until it is emptied.
    #[inline(always)]
    pub fn suggested_group(&self) -> Option<usize> {
        if self.ftl.must_collect() { self.ftl.suggested_group() } else { None }
    }

    /// Next flash page of a failed die that is moved, and the stream it goes to; none if nothing is
    /// left there.
    pub fn next_to_move(&mut self) -> Option<(Source, usize)> {
        loop {
            let page = self.stripes.next_to_move()?;
            if let Some(source) = self.ftl.source_at(page) {
                return Some((source, self.ftl.begin_copy(source)));
            }
        }
    }
}
