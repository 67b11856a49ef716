//! The plug is pulled: what is lost, and when the drive is back.
//!
//! Everything that has not been programmed by then is gone: the write buffer, and programs under way.
//! Commands not yet answered are dropped. What was flushed, written with FUA, or copied by collection
//! before its source was erased, is there.
//! The time to come back is that of reading the open superblocks' spare bytes on all dies at once.
//! guess: real firmware also reads its journal, and takes tenths of a second to start.

use drivebay_units::{Lpn, Nanos};

use super::{CoreQueue, Device, NEVER, collect, programs};
use crate::arbiter::Arbiter;
use crate::ftl::STREAMS;
use crate::host_interface::HostInterface;
use crate::timeline::Fifo;

/// What a power cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// 4 KiB pages whose newest data is lost; they read as before it was written.
    pub lost_pages: u64,
    /// When the drive answers again, if power comes back at once.
    pub ready: Nanos,
}

/// Where a version of a page was put: a flash page of a write stream's buffer, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPage {
    stream: u8,
    page: u64,
}

impl Device {
    /// Where the newest version of a page was put; none if the page holds no data. Asked right after the
    /// write was served, the answer belongs to that write. Cost: 1 map entry.
    #[must_use]
    pub fn stream_page(&self, lpn: Lpn) -> Option<StreamPage> {
        let (index, number) = self.ftl.locate(self.ftl.look_up(lpn)?);
        let superblock = self.ftl.superblock(index);
        let page = superblock.first_page + u64::from(number >> self.spec.geometry.page_shift);
        Some(StreamPage { stream: superblock.stream, page })
    }

    /// Whether what was put there since the last power cut or erase would outlive one at `at`.
    #[must_use]
    pub fn is_programmed(&self, place: StreamPage, at: Nanos) -> bool {
        let buffer = &self.buffers[usize::from(place.stream)];
        place.page < buffer.known().start || buffer.survives(place.page, at, &self.nand)
    }

    /// The power is about to go at `at`: from now on [`Device::is_programmed`] knows all that the dies
    /// have begun by then. To be followed by [`Device::power_cut`].
    pub fn before_power_cut(&mut self, at: Nanos) {
        self.dies_until(at);
    }

    /// Cuts the power at `at`, which must not lie before the last submission, and turns it on again.
    ///
    /// Requests without a completion, and those whose completion lies after `at`, were never answered.
    pub fn power_cut(&mut self, at: Nanos) -> Recovery {
        debug_assert!(at >= self.now, "time does not go back");
        self.dies_until(at);
        let lost: [Vec<u64>; STREAMS] = std::array::from_fn(|stream| {
            let buffer = &self.buffers[stream];
            buffer.known().filter(|&page| !buffer.survives(page, at, &self.nand)).collect()
        });
        let lost_pages = self.ftl.lose(&lost);
        for stream in 0..STREAMS {
            self.buffers[stream].restart(self.ftl.next_page(stream));
        }
        self.nand.power_cut();
        self.programs = programs::Programs::default();
        self.queue = CoreQueue::default();
        let (up, down) = (self.front.bytes_up, self.front.bytes_down);
        self.front = HostInterface::new(&self.spec);
        (self.front.bytes_up, self.front.bytes_down) = (up, down);
        (self.host_core, self.write_path) = (Fifo::default(), Fifo::default());
        self.flash_core.power_cut();
        self.collector = collect::Collector::default();
        self.forget_streams();
        self.read_gate = Fifo::default();
        self.turns = Arbiter::of(&self.spec);
        self.owe_no_folding();
        let pages = u64::from(self.spec.geometry.pages_per_die());
        let ready = at.after(self.nand.read_time().times(u64::from(self.spec.streams()) * pages));
        self.flash_core.wait_until(ready);
        self.count_power_cycle(false);
        self.log.busy_until = self.log.busy_until.min(at);
        self.idle_until(at);
        debug_assert_eq!(self.next_arrival(), NEVER);
        Recovery { lost_pages, ready }
    }
}
