//! Power cuts: lost data, and time until the drive is ready again.
//!
//! All data that has not been programmed by then is lost: the write buffer, and programs under way.
//! Commands not yet answered are dropped. Data that was flushed, written with FUA, or copied by
//! garbage collection before its source was erased survives; with power-loss protection, all
//! acknowledged data survives. The time to come back is that of reading the open superblocks' spare
//! bytes on all dies at once. guess: real firmware also reads its journal, and takes tenths of a
//! second to start.

use drivebay_units::{Lpn, Nanos};

use super::Device;
use crate::firmware::datapath::StreamPage;
use crate::firmware::media::Media;
use crate::firmware::scheduler::Scheduler;
use crate::host::interface::HostInterface;
use crate::timeline::NEVER;

/// Result of a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// 4 KiB pages whose newest data is lost; they read as before it was written.
    pub lost_pages: u64,
    /// Time at which the drive answers again if power returns at once.
    pub ready: Nanos,
}

impl Device {
    /// Location of the newest version of a sector's page; `None` if the page holds no data. If
    /// called right after the write was served, the answer belongs to that write. Cost: 1 map
    /// entry.
    #[must_use]
    pub fn stream_page(&self, lba: u64) -> Option<StreamPage> {
        let Some(flash) = self.media.page_mapped() else { return Some(StreamPage::default()) };
        flash.backend.stream_page(flash.page_of(lba))
    }

    /// True if data that was put there since the last power cut or erase would survive a power cut
    /// at `at`.
    #[must_use]
    pub fn is_programmed(&self, place: StreamPage, at: Nanos) -> bool {
        self.media.page_mapped().is_none_or(|flash| flash.backend.path.survives(place, at))
    }

    /// Prepares for a power cut at `at`: [`Device::is_programmed`] then knows all programs that the
    /// dies have begun by then. [`Device::power_cut`] must follow.
    pub fn before_power_cut(&mut self, at: Nanos) {
        if let Some(flash) = self.media.page_mapped_mut() {
            flash.backend.dies_until(at);
        }
    }

    /// Discards these sectors, and data after them in their zone, before a power cut of a drive
    /// with zones. This models a power cut that loses more than necessary. The sectors must be
    /// within the write buffer's size of the newest data.
    pub fn lose(&mut self, lba: u64, sectors: u64) {
        if let (Some(flash), true) = (self.media.page_mapped_mut(), self.zones.is_some()) {
            let (first, last) = (flash.page_of(lba), flash.page_of(lba + sectors - 1));
            flash.backend.ftl.trim(first, last.0 - first.0 + 1);
        }
    }

    /// Cuts the power at `at`, which must not be before the last submission, and turns it on again.
    ///
    /// Requests without a completion, and those whose completion is after `at`, were never
    /// answered.
    pub fn power_cut(&mut self, at: Nanos) -> Recovery {
        debug_assert!(at >= self.now(), "time does not go back");
        let (lost_pages, ready) = match &mut self.media {
            Media::InPlace(media) => {
                media.cells.power_cut();
                (0, at)
            }
            Media::PageMapped(flash) => {
                let lost_pages = flash.backend.power_cut(at);
                let streams = self.spec.streams.group_count() as u64;
                let pages = streams * u64::from(self.spec.geometry.pages_per_die());
                let scan = flash.backend.path.nand.read_time().times(pages);
                let mut lost_pages = lost_pages << self.spec.geometry.unit_shift;
                if let Some(zones) = &mut self.zones {
                    // The host may have rewritten the zone after a reset.
                    for io in self.scheduler.resets() {
                        let first = flash.page_of(io.lba);
                        flash.backend.ftl.trim(first, io.sectors / 8);
                    }
                    // Buffered data, and accepted data that waits.
                    let waiting = self.scheduler.waiting_sectors() / 8;
                    let recent = flash.backend.buffered_pages() + waiting;
                    let is_mapped = |page| flash.backend.ftl.look_up(Lpn(page as u32)).is_some();
                    for pages in zones.recover(recent, is_mapped) {
                        let (first, len) = (Lpn(pages.start as u32), pages.end - pages.start);
                        lost_pages += flash.backend.ftl.trim(first, len as u32);
                    }
                }
                (lost_pages, at.after(scan))
            }
        };
        self.scheduler = Scheduler::new(&self.spec);
        self.host_interface = HostInterface::new(&self.spec);
        self.link.power_cut();
        self.controller.power_cut(&self.spec, ready);
        self.forget_work_under_way();
        self.log.count_power_cycle(false);
        self.log.cut(at);
        self.idle_until(at);
        debug_assert_eq!(self.next_arrival(), NEVER);
        Recovery { lost_pages, ready }
    }

    /// Discards planned background work.
    pub(super) fn forget_work_under_way(&mut self) {
        if let Some(flash) = self.media.page_mapped_mut() {
            flash.forget_work_under_way(&self.spec);
        }
    }
}
