//! The way of a read behind the host core: look-up, flash, and up the link.

use drivebay_units::{Lpn, Nanos, Ppa, SECTOR_BYTES};

use super::{Device, PAGE_SECTORS};
use crate::io::Io;
use crate::spec::{Costs, PAGE_BYTES, transfer};
use crate::stage::{Stage, Stages};

/// Waits on the way out of flash: for the die, the array, the channel.
pub(super) type Parts = [Nanos; 3];

/// No wait.
const NOTHING: Parts = [Nanos::ZERO; 3];

impl Device {
    /// Look-up, flash page by flash page, and up the link as each arrives.
    #[inline]
    pub(super) fn read(&mut self, from: Nanos, io: Io, stages: &mut Stages) -> Nanos {
        let (first, last) = touched(io);
        // A page that is not mapped is answered with zeros: no command goes to flash for it.
        let slot = self.ftl.look_up(first);
        let mapped = if first == last {
            usize::from(slot.is_some())
        } else {
            (first.0..=last.0).filter(|&lpn| self.ftl.look_up(Lpn(lpn)).is_some()).count()
        };
        let of = |costs: &Costs| costs.read_command.after(costs.read_page.times(mapped as u64));
        let (cost, nominal) = (of(&self.costs), of(&self.nominal));
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        let from = self.let_through(from, bytes, stages);
        let mut known = self.flash_core(from, cost, nominal, stages);
        if self.map_cache.is_some() {
            let (ready, wait) = self.translate(known, first, last, false);
            stages.add(Stage::Map, wait);
            known = ready;
        }
        let stream = match &mut self.read_ahead {
            Some(ahead) => ahead.continued(first.0, last.0),
            None => None,
        };
        let ready = if let Some(stream) = stream {
            self.read_stream(known, stream, first, last, bytes, stages)
        } else if first == last {
            let (end, parts) = self.read_pages(known, slot, 1);
            let ready = self.front.move_up(self.now, end, bytes);
            add_parts(stages, parts);
            stages.add(Stage::Link, ready.since(end));
            ready
        } else {
            self.read_many(known, None, first, last, bytes, stages)
        };
        if self.spec.pacing.after_reads {
            self.collect_slot(1);
        }
        self.flash_core.close_command();
        ready
    }

    /// When the controller's data path, or the limit that heat sets, lets a read go on.
    #[inline(always)]
    fn let_through(&mut self, from: Nanos, bytes: u64, stages: &mut Stages) -> Nanos {
        if self.costs.read_limit_fs_per_byte == 0 {
            return from;
        }
        let len = transfer(bytes, self.costs.read_limit_fs_per_byte);
        let limited = self.costs.read_limit_fs_per_byte > self.nominal.read_limit_fs_per_byte;
        let (begin, _) = self.read_gate.reserve(from, len);
        let stage = if limited { Stage::Throttle } else { Stage::Firmware };
        stages.add(stage, begin.since(from));
        begin
    }

    /// Reads on in a stream, of which a part may have been fetched ahead, and fetches what comes next.
    #[inline(never)]
    fn read_stream(
        &mut self,
        from: Nanos,
        stream: usize,
        first: Lpn,
        last: Lpn,
        bytes: u64,
        stages: &mut Stages,
    ) -> Nanos {
        let ready = self.read_many(from, Some(stream), first, last, bytes, stages);
        let user_pages = self.spec.geometry.user_pages;
        let wanted =
            self.read_ahead.as_mut().map_or(0..0, |a| a.wanted(stream, last.0, user_pages));
        let mut lpn = wanted.start;
        while lpn < wanted.end {
            let (slot, len) = self.run_of(lpn, wanted.end - 1);
            let (end, _) = self.read_pages(from, slot, len);
            if let Some(ahead) = &mut self.read_ahead {
                ahead.put(stream, lpn..lpn + len, end);
            }
            lpn += len;
        }
        ready
    }

    /// Where a page lies, and how many from it to `last` lie right behind one another in its flash page.
    #[inline(always)]
    fn run_of(&self, lpn: u32, last: u32) -> (Option<Ppa>, u32) {
        let slot = self.ftl.look_up(Lpn(lpn));
        let mut len = 1;
        while lpn + len <= last && self.continues(slot, self.ftl.look_up(Lpn(lpn + len)), len) {
            len += 1;
        }
        (slot, len)
    }

    /// Reads runs of pages; the stages are those of the part that arrives last.
    fn read_many(
        &mut self,
        from: Nanos,
        stream: Option<usize>,
        first: Lpn,
        last: Lpn,
        bytes: u64,
        stages: &mut Stages,
    ) -> Nanos {
        let mut latest = (Nanos::ZERO, Nanos::ZERO, NOTHING);
        let mut left = bytes;
        let mut lpn = first.0;
        while lpn <= last.0 {
            let ahead = stream.zip(self.read_ahead.as_ref());
            let fetched = ahead.and_then(|(stream, ahead)| ahead.fetched(stream, lpn, last.0));
            let (end, parts, len) = if let Some((len, ready)) = fetched {
                let end = ready.max(from);
                (end, [Nanos::ZERO, end.since(from), Nanos::ZERO], len)
            } else {
                let (slot, len) = self.run_of(lpn, last.0);
                let (end, parts) = self.read_pages(from, slot, len);
                (end, parts, len)
            };
            lpn += len;
            // Partial first and last pages: what is left over goes with the last run.
            let share = if lpn > last.0 { left } else { left.min(u64::from(len) * PAGE_BYTES) };
            left -= share;
            let up = self.front.move_up(self.now, end, share);
            if up >= latest.0 {
                latest = (up, end, parts);
            }
        }
        add_parts(stages, latest.2);
        stages.add(Stage::Link, latest.0.since(latest.1));
        latest.0
    }

    /// Brings `len` consecutive 4 KiB pages out of one flash page, the buffer, or nowhere (unmapped).
    ///
    /// `from` must not go back from call to call. Returns when they are in the controller, and the waits.
    #[inline]
    pub(super) fn read_pages(
        &mut self,
        from: Nanos,
        slot: Option<Ppa>,
        len: u32,
    ) -> (Nanos, Parts) {
        let Some(slot) = slot else {
            return (from, NOTHING);
        };
        if self.errors.is_some() {
            self.find_lost(slot, len);
        }
        if self.in_buffer(slot, from) {
            return (from, NOTHING);
        }
        let page = slot.0 >> self.spec.geometry.page_shift;
        let bytes = self.reduction.of(u64::from(len) * PAGE_BYTES);
        let times = self.nand.read(self.now, from, page, bytes);
        let parts = [
            times.begin.since(from),
            times.sensed.since(times.begin),
            times.done.since(times.sensed),
        ];
        if self.errors.is_some() {
            // Part by part: who adds them up is not to wait for memory where no errors are modelled.
            let (done, [die, array, channel]) = self.decode(slot, len, times.done, parts);
            return (done, [die, array, channel]);
        }
        (times.done, parts)
    }

    /// No stream is known any more.
    pub(super) fn forget_streams(&mut self) {
        if let Some(ahead) = &mut self.read_ahead {
            ahead.forget();
        }
    }

    /// Whether page `len` further on lies right behind in the same flash page (or is unmapped as well);
    /// of pages that shrink, several may share a slot.
    #[inline(always)]
    fn continues(&self, first: Option<Ppa>, next: Option<Ppa>, len: u32) -> bool {
        let page_shift = self.spec.geometry.page_shift;
        match (first, next) {
            (Some(a), Some(b)) => {
                let behind = b.0 == a.0 + len || (self.reduction.shrinks() && b.0 >= a.0);
                behind && b.0 >> page_shift == a.0 >> page_shift
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether a slot's data is still on its way to flash.
    #[inline]
    fn in_buffer(&self, slot: Ppa, at: Nanos) -> bool {
        let (index, offset) = self.ftl.locate(slot);
        let superblock = self.ftl.superblock(index);
        let page = superblock.first_page + u64::from(offset >> self.spec.geometry.page_shift);
        self.buffers[superblock.stream as usize].holds(page, at, &self.nand)
    }
}

/// First and last page that an I/O touches.
#[inline(always)]
pub(super) fn touched(io: Io) -> (Lpn, Lpn) {
    let last = (io.lba + u64::from(io.sectors) - 1) / PAGE_SECTORS;
    (Lpn((io.lba / PAGE_SECTORS) as u32), Lpn(last as u32))
}

/// Books the waits of a fetch.
#[inline(always)]
pub(super) fn add_parts(stages: &mut Stages, [die, array, channel]: Parts) {
    stages.add(Stage::Die, die);
    stages.add(Stage::Nand, array);
    stages.add(Stage::Channel, channel);
}
