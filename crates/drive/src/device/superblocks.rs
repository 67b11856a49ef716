//! Opening superblocks, and erasing them in time.
//!
//! A superblock that collection has emptied is not erased at once: what took the place of its pages may
//! still be in the write buffer, and a power cut would lose both. So erases run one ahead: whenever a
//! superblock is opened, the one that is next in turn is erased, once all that was placed before it was
//! given back is safe. If none was free then, it is erased when it is opened.
//! Real firmware orders erases behind its journal for the same reason.

use drivebay_units::Nanos;

use super::Device;
use crate::ftl::{Mode, STREAMS};

impl Device {
    /// Opens the next superblock for a stream at `at`; false if none is free.
    pub(super) fn open(&mut self, stream: usize, at: Nanos) -> bool {
        self.open_in(stream, at, Mode::Native)
    }

    /// Likewise, for as many bits per cell as `mode` says.
    pub(super) fn open_in(&mut self, stream: usize, at: Nanos, mode: Mode) -> bool {
        let Some(next) = self.ftl.next_free(mode) else {
            return false;
        };
        if let Some(safe) = self.erase_free(next, at) {
            self.buffers[stream].wait_until(safe);
        }
        while self.will_erase(next) {
            self.erase_now();
        }
        let opened = self.ftl.open(stream, self.buffers[stream].taken(), mode);
        self.nand.set_slc(next, mode != Mode::Native);
        self.note_opened(stream);
        if let Some(coming) = self.ftl.next_free(mode) {
            self.erase_free(coming, at);
        }
        opened
    }

    /// Orders a free superblock's erase, unless that was done before; returns for when.
    fn erase_free(&mut self, index: u32, at: Nanos) -> Option<Nanos> {
        if self.ftl.superblock(index).erased || self.will_erase(index) {
            return None;
        }
        let safe = self.make_safe(index, at);
        self.promise(index, safe);
        self.erase(index, safe);
        Some(safe)
    }

    /// What was placed before a superblock was given back survives a power cut from `at` on.
    pub(super) fn promise(&mut self, index: u32, at: Nanos) {
        for stream in 0..STREAMS {
            let pages = self.buffers[stream].known().start..self.ftl.given_back(index)[stream];
            if !pages.is_empty() {
                self.buffers[stream].promise(pages, at);
            }
        }
    }

    /// Brings all that was placed before a superblock was given back to flash; returns when it is there.
    fn make_safe(&mut self, index: u32, at: Nanos) -> Nanos {
        self.ask_all();
        let mut safe = at;
        for stream in 0..STREAMS {
            let pages = self.buffers[stream].known().start..self.ftl.given_back(index)[stream];
            let buffer = &self.buffers[stream];
            let end = if pages.clone().any(|page| buffer.waits(page)) {
                self.make_durable(stream, at, buffer.taken() - pages.start)
            } else {
                pages.map(|page| buffer.end_of(page, &self.nand)).fold(at, Nanos::max)
            };
            safe = safe.max(end);
        }
        safe
    }
}
