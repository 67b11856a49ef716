//! Flash that errs and wears out: what `reliability.rs` decides, carried out.

use drivebay_units::{Nanos, Ppa};

use super::{Device, DeviceError};
use crate::ftl::Source;
use crate::reliability::{Erased, Reliability};
use crate::spec::{PAGE_BYTES, Spec};

impl Device {
    /// Errors and wear so far.
    pub(super) fn reliability(&self) -> Reliability {
        let counts = self.errors.as_ref().map_or_else(Reliability::default, |e| e.counts);
        Reliability { read_only: self.read_only, ..counts }
    }

    /// A stream has opened a superblock.
    pub(super) fn note_opened(&mut self, stream: usize) {
        if let Some(errors) = &mut self.errors {
            let index = self.ftl.frontier(stream);
            errors.open(index, self.ftl.cycles(index), self.now);
        }
    }

    /// Decodes what a command has read out of flash by `from`, reading again as often as it takes.
    ///
    /// Returns when it is good, or given up, and the waits with the retries' added to them. While a
    /// superblock waits to be moved, a slot of collection follows; it goes on with the reads.
    #[inline(never)]
    pub(super) fn decode(
        &mut self,
        slot: Ppa,
        len: u32,
        from: Nanos,
        parts: [Nanos; 3],
    ) -> (Nanos, [Nanos; 3]) {
        // A flash page has at most 16 slots.
        let (clock, parts, _) = self.retry(slot, (1 << len) - 1, from, parts);
        let pacing = &self.spec.pacing;
        let free = self.ftl.free_slots();
        let slot_follows = pacing.after_reads && free < pacing.start_free;
        if self.ftl.must_collect() && !slot_follows {
            self.collect_in_slot(free, 1);
        }
        (clock, parts)
    }

    /// Notes if a page that is read was lost when it was copied.
    pub(super) fn find_lost(&mut self, slot: Ppa, len: u32) {
        if let Some(errors) = &mut self.errors {
            for slot in slot.0..slot.0 + len {
                self.media_error |= errors.was_lost(self.ftl.page_of(slot));
            }
        }
    }

    /// Pages get new data, or none.
    pub(super) fn replace(&mut self, first: u32, count: u32) {
        if let Some(errors) = &mut self.errors {
            errors.replace(first..first + count);
        }
    }

    /// Reads slots of a flash page, bit i of `which` being `slot + i`, as often as it takes.
    ///
    /// Returns as `decode`, and which of them are lost.
    fn retry(
        &mut self,
        slot: Ppa,
        which: u32,
        from: Nanos,
        mut parts: [Nanos; 3],
    ) -> (Nanos, [Nanos; 3], u32) {
        let index = self.ftl.locate(slot).0;
        // One bit per cell leaves margin enough: no errors there, and no disturbance worth counting.
        if self.ftl.superblock(index).slc {
            return (from, parts, 0);
        }
        let Some(errors) = &mut self.errors else {
            return (from, parts, 0);
        };
        let verdict = errors.read(index, slot, which, self.now);
        let sensing = errors.retry_read();
        let page = slot.0 >> self.spec.geometry.page_shift;
        let bytes = u64::from(which.count_ones()) * PAGE_BYTES;
        let mut clock = from;
        for _ in 0..verdict.retries {
            let (begin, sensed) = self.nand.sense_again(clock, page, sensing);
            // Copies made at rest were read before the command that has come now.
            let done = self.nand.move_out(self.now.min(from), sensed, page, bytes);
            let waits = [begin.since(clock), sensed.since(begin), done.since(sensed)];
            parts = std::array::from_fn(|i| parts[i].after(waits[i]));
            clock = done;
        }
        self.media_error |= verdict.lost != 0;
        if verdict.refresh {
            self.ftl.suggest_victim(index);
        }
        (clock, parts, verdict.lost)
    }

    /// `decode` for a flash page that is being copied: an error there is not the command's, but the
    /// copies are of nothing.
    pub(super) fn decode_copy(&mut self, source: &Source, from: Nanos) -> Nanos {
        let of_command = self.media_error;
        let (done, _, mut lost) = self.retry(source.first, source.valid, from, [Nanos::ZERO; 3]);
        self.media_error = of_command;
        while lost != 0 {
            let page = self.ftl.page_of(source.first.0 + lost.trailing_zeros());
            lost &= lost - 1;
            self.errors.iter_mut().for_each(|errors| errors.lose(page));
        }
        done
    }

    /// Whether the victim can be used again after its erase; the drive may become read-only.
    pub(super) fn survives_erase(&mut self) -> bool {
        let Some(errors) = &mut self.errors else {
            return true;
        };
        let (index, before, cycles) = self.ftl.victim_cycles();
        if cycles == before {
            // With one bit per cell several erases wear as much as one.
            return true;
        }
        let affordable = spendable(&self.spec, self.ftl.usable_slots()) > 0;
        // Collection must find a superblock to go on with.
        let may_retire = affordable && self.ftl.free_superblocks() > 0;
        let erased = errors.erase(index, cycles, may_retire);
        self.read_only |= erased == Erased::Short && !affordable;
        erased != Erased::Retired
    }

    /// Flash that may still fail before the drive is worn out, per cent of what a new one has: spare
    /// blocks, and the blocks of superblocks that it can do without.
    pub(super) fn available_spare_percent(&self) -> u8 {
        let Some(reliability) = &self.spec.reliability else { return 100 };
        if self.read_only {
            return 0;
        }
        let g = &self.spec.geometry;
        let blocks = |spares: u64, slots: u64| {
            spares + (spendable(&self.spec, slots) << (g.die_shift + g.plane_shift))
        };
        let fresh = blocks(u64::from(reliability.spare_blocks), g.usable_slots());
        let left = blocks(self.reliability().spare_blocks, self.ftl.usable_slots());
        (left.min(fresh) * 100).checked_div(fresh).unwrap_or(100) as u8
    }

    /// Why a change is refused: a worn-out drive only reads.
    #[cold]
    pub(super) fn worn_out(&self) -> DeviceError {
        DeviceError::ReadOnly { failed_blocks: self.reliability().failed_blocks }
    }
}

/// How many superblocks a drive of so many usable slots can lose.
fn spendable(spec: &Spec, usable_slots: u64) -> u64 {
    let g = &spec.geometry;
    let needed = u64::from(g.user_pages) + g.spare_needed(u64::from(spec.reserve_superblocks));
    usable_slots.saturating_sub(needed) / u64::from(g.superblock_slots)
}
