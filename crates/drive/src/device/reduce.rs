//! Data that the controller reduces before it stores it, as SandForce's did.
//!
//! Every run says how far its data can be compressed, the same for all its pages; the profile says in
//! which units a page can shrink. What is stored of a page counts on the write path, in the buffer, on
//! the flash and on the channel, for reads as well; the link carries all of it, and the cores work as
//! for any other page. Pages take slots of 4 KiB of flash, so of pages that shrink to a third every
//! third takes a slot, and the two before it ride along: they are mapped, but nothing is programmed,
//! collected or kept valid for them. On average that is what a map of variable sizes holds, programs
//! and copies, write amplification below 1 and the spare space gained included.
//!
//! Not modelled: the fragments of a map of variable sizes (it would be a little slower); reads by a run
//! whose data differs from what the addresses were written with (they cost as its own data does); what
//! a power cut loses of pages that ride along; deduplication.
//! Source: SandForce's DuraWrite as described by AnandTech's preview of the OCZ Vertex 2 Pro
//! (2009-12): fewer bytes are written to flash than the host sends.

use drivebay_units::{Lpn, Nanos};

use super::Device;
use crate::io::DeviceError;
use crate::spec::PAGE_BYTES;
use crate::stage::Stages;

const PAGE: u32 = PAGE_BYTES as u32;

/// How far the present data is reduced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    /// What 4 KiB take on flash.
    pub(super) stored_bytes: u32,
    /// What has gathered since the last slot was filled; at a full page the next is taken.
    pub(super) gathered: u32,
    /// Pages that took no slot.
    pub(super) ridden: u64,
}

impl Default for Reduction {
    fn default() -> Reduction {
        Reduction { stored_bytes: PAGE, gathered: 0, ridden: 0 }
    }
}

impl Reduction {
    /// Whether data shrinks at all.
    #[inline(always)]
    pub(super) fn shrinks(&self) -> bool {
        self.stored_bytes < PAGE
    }

    /// What `bytes` of the host take behind the compressor.
    #[inline(always)]
    pub(super) fn of(&self, bytes: u64) -> u64 {
        if self.shrinks() {
            (bytes * u64::from(self.stored_bytes)).div_ceil(PAGE_BYTES)
        } else {
            bytes
        }
    }

    /// Nothing waits to fill a slot.
    pub(super) fn forget(&mut self) {
        self.gathered = 0;
    }
}

impl Device {
    /// From now on data can be compressed by `percent` (0 random, 100 zeros); nothing changes on a drive
    /// that does not compress.
    pub fn set_compressible(&mut self, percent: u32) {
        self.reduction.stored_bytes =
            self.spec.compression.map_or(PAGE, |compression| compression.stored_bytes(percent));
    }

    /// `store` for pages that shrink: finds places for some, the others ride along.
    pub(super) fn store_reduced(
        &mut self,
        stream: usize,
        from: Nanos,
        first: Lpn,
        count: u32,
        stages: &mut Stages,
    ) -> Result<Nanos, DeviceError> {
        let mut clock = from;
        for lpn in (first.0..first.0 + count).map(Lpn) {
            self.reduction.gathered += self.reduction.stored_bytes;
            if self.reduction.gathered < PAGE && self.ftl.ride(stream, lpn) {
                self.reduction.ridden += 1;
                continue;
            }
            self.reduction.gathered = self.reduction.gathered.saturating_sub(PAGE);
            clock = self.store_pages(stream, clock, lpn, 1, stages)?;
        }
        self.host_pages += u64::from(count);
        Ok(clock)
    }
}
