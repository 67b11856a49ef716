//! A controller that compresses data before it stores it, as SandForce's did.
//!
//! Every run says how far its data can be compressed, the same for all its pages; the profile says in
//! which units a page can shrink. What is stored of a page counts on the write path, in the buffer, on
//! the flash and on the channel, for reads as well; the link carries all of it, and the cores work as
//! for any other page. Pages take 4 KiB addresses of flash, so of pages that shrink to a third every
//! third takes an address, and the two before it are packed with it: they are mapped, but nothing is
//! programmed, copied or kept valid for them. On average that is what a map of variable sizes holds,
//! programs and copies, write amplification below 1 and the spare space gained included.
//!
//! Not modelled: the fragments of a map of variable sizes (it would be a little slower); reads by a run
//! whose data differs from what the addresses were written with (they cost as its own data does); what
//! a power cut loses of packed pages; deduplication.
//! Source: SandForce's DuraWrite as described by AnandTech's preview of the OCZ Vertex 2 Pro
//! (2009-12): fewer bytes are written to flash than the host sends.

use crate::persist::{StateError, ensure, persist};
use crate::spec::{Compression, PAGE_BYTES};

const PAGE: u32 = PAGE_BYTES as u32;

/// How far the present data is compressed.
#[derive(Clone, Copy, Debug)]
pub struct Compressor {
    spec: Option<Compression>,
    /// What 4 KiB take on flash.
    stored_bytes: u32,
    /// What has gathered since the last address was filled; at a full page the next is taken.
    gathered: u32,
    /// Pages that took no address.
    packed_pages: u64,
}

persist!(Compressor: stored_bytes, gathered, packed_pages; given: spec);

impl Compressor {
    pub fn new(spec: Option<Compression>) -> Compressor {
        Compressor { spec, stored_bytes: PAGE, gathered: 0, packed_pages: 0 }
    }

    /// From now on data can be compressed by `percent` (0 random, 100 zeros).
    pub fn set_compressible(&mut self, percent: u32) {
        self.stored_bytes = self.spec.map_or(PAGE, |spec| spec.stored_bytes(percent));
    }

    /// Whether data shrinks at all.
    #[inline(always)]
    pub fn shrinks(&self) -> bool {
        self.stored_bytes < PAGE
    }

    /// What `bytes` of the host take behind the compressor.
    #[inline(always)]
    pub fn stored(&self, bytes: u64) -> u64 {
        if self.shrinks() {
            (bytes * u64::from(self.stored_bytes)).div_ceil(PAGE_BYTES)
        } else {
            bytes
        }
    }

    /// Takes a page in; whether `pack` could put it beside those before it, so that it takes no address.
    pub fn packs(&mut self, pack: impl FnOnce() -> bool) -> bool {
        self.gathered += self.stored_bytes;
        if self.gathered < PAGE && pack() {
            self.packed_pages += 1;
            return true;
        }
        self.gathered = self.gathered.saturating_sub(PAGE);
        false
    }

    /// Nothing waits to fill an address.
    pub fn forget(&mut self) {
        self.gathered = 0;
    }

    /// Pages that took no address so far.
    pub fn packed_pages(&self) -> u64 {
        self.packed_pages
    }

    pub fn check(&self, host_pages: u64) -> Result<(), StateError> {
        let shrunk = self.stored_bytes <= PAGE && self.gathered <= PAGE;
        ensure(shrunk && self.packed_pages <= host_pages, "what compression has saved")
    }
}
