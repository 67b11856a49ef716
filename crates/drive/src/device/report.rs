//! Reports of the drive: the health log and peak power; and the end of an idle time.

use std::ops::Range;

use drivebay_units::Nanos;

use super::Device;
use crate::events::Events;
use crate::firmware::health::{Health, data_units, named, percentage_used};
use crate::firmware::media::Media;
use crate::firmware::page_mapped::PageMappedMedia;
use crate::operations::Operation;
use crate::physics::power::Wake;
use crate::physics::thermal::STEP;

/// Traffic of a placement handle, or of the frontier of copies, in 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandleUse {
    /// Reclaim group.
    pub group: u8,
    /// Placement handle; `None` for the frontier of copies.
    pub handle: Option<u8>,
    /// Data written by the host; for the frontier of copies: data copied from the handles for the
    /// first time.
    pub written_4k: u64,
    /// Data copied out of its reclaim units by garbage collection. Write amplification is
    /// (`written` + `copied`) / `written`.
    pub copied_4k: u64,
    /// Space left in its present reclaim unit (RUAMW).
    pub unit_left_4k: u64,
}

impl Device {
    /// Ends an idle time with a command that the host begins at `at`; returns the wake-up delays.
    #[cold]
    pub(super) fn end_idle(&mut self, at: Nanos) -> Wake {
        let idle = self.log.end_idle(at);
        let Some(power) = &self.spec.power else { return Wake::default() };
        let wake = power.wake(idle);
        if let Some(asleep) = power.asleep(idle) {
            self.log.wake(asleep);
            // The states must be accounted for while the beginning of the idle time is known.
            self.advance_thermal(at);
        }
        wake
    }

    /// Health log at this moment.
    #[must_use]
    pub fn health(&self) -> Health {
        let thermal = self.thermal.log;
        let power = self.spec.power.as_ref();
        let (counters, flash, earlier) =
            (self.counters(), self.media.page_mapped(), self.spec.history.lived);
        let [host_4k, programmed] =
            [counters.host_pages - earlier.host_4k, counters.placed_pages - earlier.programmed_4k];
        let stages = 1..=self.spec.throttle[self.spec.throttle.len() - 1].number;
        let waf = (host_4k > 0).then(|| programmed as f64 / host_4k as f64);
        let (read_bytes, written_bytes) = self.host_bytes();
        let lived = self.lived;
        let log = self.log.report(self.now(), |idle| power.and_then(|power| power.asleep(idle)));
        Health {
            temperature_c: self.thermal.sensor_c(),
            node_temperatures_c: named(self.spec.thermal.names, self.thermal.node_temperatures_c()),
            available_spare_percent: flash.map_or(100, PageMappedMedia::available_spare_percent),
            percentage_used: (self.spec.rated.cycles).map(|rated| {
                percentage_used(
                    self.media.cycles() + lived.erases as f64 / self.good_superblocks(),
                    rated,
                )
            }),
            data_units_read: data_units(read_bytes),
            data_units_written: data_units(written_bytes),
            power_on: log.power_on.after(lived.power_on),
            power_cycles: log.power_cycles + lived.power_cycles,
            host_reads: log.host_reads + lived.reads,
            host_writes: log.host_writes + lived.writes,
            busy: log.busy.after(lived.busy),
            erases: flash.map_or([0; 3], |flash| flash.backend.ftl.erases_of_a_superblock()),
            link_outages: self.link_outages(self.now()),
            media_errors: self.media.of_back_end(|flash| flash.reliability().media_errors),
            warning_time: thermal.warning,
            critical_time: thermal.critical,
            throttling: stages.map(|i| (thermal.stage_entries[i], thermal.stage_time[i])).collect(),
            waf,
            ..log
        }
    }

    /// Bytes read and written by the host, since the drive was made and before.
    pub(super) fn host_bytes(&self) -> (u64, u64) {
        let (up, down) = self.link.bytes();
        (up + self.lived.read_bytes, down + self.lived.written_bytes)
    }

    fn good_superblocks(&self) -> f64 {
        f64::from(self.spec.geometry.superblocks - self.spec.geometry.bad_superblocks).max(1.0)
    }

    /// Traffic of each placement handle so far, group by group. If copies share a frontier (initial
    /// isolation), the frontiers of copies of all groups follow. Empty on a drive without
    /// placement.
    #[must_use]
    pub fn placement(&self) -> Vec<HandleUse> {
        let Some(flash) = self.media.page_mapped() else { return Vec::new() };
        let (ftl, streams) = (&flash.backend.ftl, self.spec.streams);
        let in_4k = |pages: u64| pages << self.spec.geometry.unit_shift;
        let unit = u64::from(self.spec.geometry.superblock_pages);
        let handle_use = |stream: usize| {
            let own = ftl.stream_use()[stream];
            let copies = streams.of_group(streams.group_of(stream)).copies_of(stream);
            // With persistent isolation, copies of a handle have their own frontier.
            let copied = match streams.are_apart() && copies != stream {
                true => own.copied + ftl.stream_use()[copies].copied,
                false => own.copied,
            };
            let room = u64::from(ftl.room(stream));
            let (group, place) = (streams.group_of(stream), stream % streams.group_count());
            HandleUse {
                group: group as u8,
                handle: (place < streams.handles).then_some(place as u8),
                written_4k: in_4k(own.written),
                copied_4k: in_4k(copied),
                unit_left_4k: in_4k(if room == 0 { unit } else { room }),
            }
        };
        let copies = (0..streams.groups).map(|group| streams.of_group(group).copies);
        let shared = copies.filter(|_| streams.handles > 0 && !streams.are_apart());
        let hosts = streams.hosts().filter(|_| streams.handles > 0);
        hosts.chain(shared).map(handle_use).collect()
    }

    /// Starts counting copies of each of these ranges of sectors, which must not overlap; an empty
    /// list ends the count. Returns the previous counts, in 4 KiB. Not part of a saved state.
    pub fn count_copies_of(&mut self, sectors: &[Range<u64>]) -> Vec<u64> {
        let Some(flash) = self.media.page_mapped_mut() else { return vec![0; sectors.len()] };
        let page = |lba: u64| flash.page_of(lba).0;
        let pages = sectors.iter().map(|s| page(s.start)..page(s.end - 1) + 1).collect();
        let copied = flash.backend.ftl.count_copies_of(pages);
        copied.into_iter().map(|pages| pages << self.spec.geometry.unit_shift).collect()
    }

    /// Number of link outages by `at`.
    #[must_use]
    pub fn link_outages(&self, at: Nanos) -> u64 {
        let link = self.spec.outages.as_ref().and_then(|outages| outages.link);
        link.map_or(0, |link| link.begun(at))
    }

    /// Starts keeping the first `limit` events and the activity of dies and channels; discards
    /// those kept before.
    pub fn keep_events(&mut self, limit: usize) {
        match &mut self.media {
            Media::PageMapped(flash) => flash.backend.keep_events(limit),
            Media::InPlace(media) => media.cells.keep_activity(media.now),
        }
    }

    /// Returns the events since [`Device::keep_events`], and stops keeping them.
    pub fn take_events(&mut self) -> Option<Events> {
        match &mut self.media {
            Media::PageMapped(flash) => flash.backend.take_events(),
            Media::InPlace(media) => media.take_events(),
        }
    }

    /// Returns the operations of the translation layer since the last call, empty at the first one;
    /// logs them from now on if `keep`, else no longer. `None` if the media is written in place.
    /// Not part of a saved state.
    pub fn take_operations(&mut self, keep: bool) -> Option<Vec<Operation>> {
        let flash = self.media.page_mapped_mut()?;
        Some(flash.backend.ftl.take_operations(keep))
    }

    /// Counts a power cycle; `clean` is true if the host announced it.
    pub fn count_power_cycle(&mut self, clean: bool) {
        self.log.count_power_cycle(clean);
    }

    /// Highest mean power of a step of 100 ms since the last call, in watts.
    pub fn take_peak_power_w(&mut self) -> f64 {
        self.thermal.take_peak_nj() as f64 / 1e9 / STEP.as_secs_f64()
    }
}
