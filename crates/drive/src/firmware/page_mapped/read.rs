//! Reads after the host core: look-up, flash, and up the link.

use drivebay_units::{Lpn, Nanos, Ppa, SECTOR_BYTES};

use super::{PageMappedMedia, SHIFT_4K};
use crate::firmware::datapath::{NO_WAIT, ReadParts};
use crate::firmware::path::Path;
use crate::firmware::scheduler::WorkClass;
use crate::io::Io;
use crate::profile::Costs;
use crate::stage::Stage;

impl PageMappedMedia {
    /// Looks up, reads flash page by flash page, and moves each up the link as it arrives.
    #[inline]
    pub(super) fn read(&mut self, from: Nanos, io: Io, path: &mut Path) -> Nanos {
        let (first, last) = self.touched(io);
        // A page that is not mapped is answered with zeros: no command goes to flash for it.
        let ppa = self.backend.ftl.look_up(first);
        let mapped = if first == last {
            usize::from(ppa.is_some())
        } else {
            let is_mapped = |&lpn: &u32| self.backend.ftl.look_up(Lpn(lpn)).is_some();
            (first.0..=last.0).filter(is_mapped).count()
        };
        let cost = |costs: &Costs| costs.read_command.after(costs.read_page.times(mapped as u64));
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        let from = path.controller.admit_read(from, bytes, path.stages);
        let mut known = self.run_ftl_core(from, cost, path);
        if self.backend.map.is_cached() {
            let ready = self.backend.translate(known, first, last, false);
            known = path.book(Stage::Map, known, ready);
        }
        if let Some(ppa) = ppa.filter(|_| self.backend.ftl.has_groups()) {
            let group = self.backend.ftl.group_of(self.backend.ftl.locate(ppa).0);
            known = self.wait_for_copies(group, known, path);
        }
        let stream = match &mut self.read_ahead {
            Some(ahead) => ahead.continued(first.0, last.0),
            None => None,
        };
        if let Some(stream) = stream {
            return self.read_stream(known, stream, io, path);
        }
        if first != last {
            return self.read_many(known, None, io, path);
        }
        let (end, parts) = self.read_pages(known, ppa, 1, self.frames(io, first.0, 1), path);
        path.add_parts(parts);
        let ready = path.link.move_up(self.backend.path.now(), end, bytes);
        path.book(Stage::Link, end, ready)
    }

    /// Reads on in a stream, of which a part may have been fetched ahead, and fetches the next
    /// part.
    #[inline(never)]
    fn read_stream(&mut self, from: Nanos, stream: usize, io: Io, path: &mut Path) -> Nanos {
        let ready = self.read_many(from, Some(stream), io, path);
        let last = self.touched(io).1;
        let user_pages = self.geometry.user_pages;
        let wanted =
            self.read_ahead.as_mut().map_or(0..0, |a| a.wanted(stream, last.0, user_pages));
        let mut lpn = wanted.start;
        while lpn < wanted.end {
            let (ppa, len) = self.extent_of(lpn, wanted.end - 1);
            let bytes = u64::from(len) * self.geometry.unit_bytes();
            let (end, _) = self.read_pages(from, ppa, len, bytes, path);
            if let Some(ahead) = &mut self.read_ahead {
                ahead.put(stream, lpn..lpn + len, end);
            }
            lpn += len;
        }
        ready
    }

    /// Bytes that an I/O's `len` pages from `lpn` on take on the channel: error correction works on
    /// whole pieces of 4 KiB.
    #[inline(always)]
    fn frames(&self, io: Io, lpn: u32, len: u32) -> u64 {
        if self.page_shift == SHIFT_4K {
            return u64::from(len) << SHIFT_4K << 9;
        }
        let begin = io.lba.max(u64::from(lpn) << self.page_shift);
        let end = (io.lba + u64::from(io.sectors)).min(u64::from(lpn + len) << self.page_shift);
        ((end.div_ceil(8) - begin / 8) << SHIFT_4K) * SECTOR_BYTES
    }

    /// Address of a page, and the number of pages from it to `last` that follow one another in its
    /// flash page.
    #[inline(always)]
    fn extent_of(&self, lpn: u32, last: u32) -> (Option<Ppa>, u32) {
        let ftl = &self.backend.ftl;
        let ppa = ftl.look_up(Lpn(lpn));
        let mut len = 1;
        while lpn + len <= last && self.continues(ppa, ftl.look_up(Lpn(lpn + len)), len) {
            len += 1;
        }
        (ppa, len)
    }

    /// Reads extents of pages; the stages are those of the part that arrives last.
    fn read_many(&mut self, from: Nanos, stream: Option<usize>, io: Io, path: &mut Path) -> Nanos {
        let (first, last) = self.touched(io);
        let unit_bytes = self.geometry.unit_bytes();
        let mut latest = (Nanos::ZERO, Nanos::ZERO, NO_WAIT);
        let mut left = u64::from(io.sectors) * SECTOR_BYTES;
        let mut lpn = first.0;
        while lpn <= last.0 {
            let ahead = stream.zip(self.read_ahead.as_ref());
            let fetched = ahead.and_then(|(stream, ahead)| ahead.fetched(stream, lpn, last.0));
            let (end, parts, len) = if let Some((len, ready)) = fetched {
                let end = ready.max(from);
                (end, [Nanos::ZERO, end.since(from), Nanos::ZERO], len)
            } else {
                let (ppa, len) = self.extent_of(lpn, last.0);
                let frames = self.frames(io, lpn, len);
                let (end, parts) = self.read_pages(from, ppa, len, frames, path);
                (end, parts, len)
            };
            lpn += len;
            // The rest of partial first and last pages goes with the last extent.
            let share = if lpn > last.0 { left } else { left.min(u64::from(len) * unit_bytes) };
            left -= share;
            let up = path.link.move_up(self.backend.path.now(), end, share);
            if up >= latest.0 {
                latest = (up, end, parts);
            }
        }
        path.add_parts(latest.2);
        path.book(Stage::Link, latest.1, latest.0)
    }

    /// Reads `bytes` of `len` consecutive pages out of one flash page, the buffer, or nowhere
    /// (unmapped).
    ///
    /// `from` must not go back from call to call. Returns when they are in the controller, and the
    /// waits.
    #[inline]
    pub(super) fn read_pages(
        &mut self,
        from: Nanos,
        ppa: Option<Ppa>,
        len: u32,
        bytes: u64,
        path: &mut Path,
    ) -> (Nanos, ReadParts) {
        let read = self.backend.read(from, ppa, len, bytes);
        if read.decoded {
            self.work_behind(WorkClass::BEHIND_READ, 0, path).expect("no policy is asked");
        }
        (read.done, read.parts)
    }

    /// True if the page `len` further on follows in the same flash page (or is unmapped as well).
    #[inline(always)]
    fn continues(&self, first: Option<Ppa>, next: Option<Ppa>, len: u32) -> bool {
        let page_shift = self.geometry.page_shift;
        match (first, next) {
            (Some(a), Some(b)) => b.0 == a.0 + len && b.0 >> page_shift == a.0 >> page_shift,
            (None, None) => true,
            _ => false,
        }
    }
}
