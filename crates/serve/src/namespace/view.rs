//! A namespace: its position, size and attributes, as requested, in use, saved and reported.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use drivebay_drive::ZoneSpec;
use drivebay_units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

/// Sizes and positions are whole pages of the drive's map.
pub(super) const PAGE_BYTES: u64 = 4096;
pub(super) const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
/// Bytes of a sector, as a power of two.
pub const SECTOR_SHIFT: u8 = SECTOR_BYTES.ilog2() as u8;
/// Block sizes that a namespace may have, as powers of two: its LBA formats, in their order.
pub const BLOCK_SHIFTS: [u8; 2] = [SECTOR_SHIFT, ZONED_BLOCK_SHIFT];
/// Block size of a namespace with zones, as a power of two: 4 KiB.
pub(crate) const ZONED_BLOCK_SHIFT: u8 = 12;
/// Most namespaces of a drive, and the largest namespace number. guess: as many as data centre
/// drives have. Tools create as many as possible, one after the other.
pub const NAMESPACES_MAX: usize = 32;

/// Namespace requested by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceOptions {
    /// Size in bytes, rounded down to whole pages of 4 KiB.
    pub bytes: u64,
    /// Start on the drive in bytes, rounded up to a whole page; by default the end of the previous
    /// namespace.
    pub start_bytes: Option<u64>,
    /// True if the namespace refuses all commands that change its data.
    pub is_read_only: bool,
}

/// Namespace requested by a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNamespace {
    /// Size in sectors.
    pub sectors: u64,
    /// Block size in bytes, as a power of two.
    pub block_shift: u8,
    /// True if several controllers may have it attached at a time.
    pub is_shared: bool,
    /// Reclaim unit handle of each placement handle; if empty, the drive chooses one.
    pub handles: Vec<u8>,
}

impl NewNamespace {
    /// Returns a shared namespace of `sectors`, with blocks of 512 B.
    pub fn plain(sectors: u64) -> NewNamespace {
        NewNamespace { sectors, block_shift: SECTOR_SHIFT, is_shared: true, handles: Vec::new() }
    }
}

/// Namespace, as it is also saved next to the drive's state. Values that change are read without a
/// lock.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Number, from 1.
    pub nsid: u32,
    /// First sector on the drive.
    pub first: u64,
    /// Size; 0 after the namespace was deleted.
    pub(super) sectors: AtomicU64,
    /// True if the namespace refuses all commands that change its data.
    pub is_read_only: bool,
    /// True if several controllers may have it attached at a time.
    pub(crate) is_shared: bool,
    #[serde(default = "sector_shift")]
    pub(super) block_shift: AtomicU8,
    #[serde(skip)]
    pub(super) traffic: [AtomicU64; 4],
    /// Reclaim unit handle of each placement handle; empty on a drive without placement.
    #[serde(default)]
    pub handles: Vec<u8>,
    /// True if the drive has chosen the handle because the host did not.
    #[serde(default)]
    pub(crate) is_handle_chosen: bool,
    /// Zones of the drive; `None` on a drive without zones.
    #[serde(skip)]
    pub zones: Option<ZoneSpec>,
}

fn sector_shift() -> AtomicU8 {
    AtomicU8::new(SECTOR_SHIFT)
}

impl Namespace {
    pub(super) fn new(
        nsid: u32,
        first: u64,
        is_read_only: bool,
        wanted: NewNamespace,
    ) -> Namespace {
        Namespace {
            nsid,
            first,
            sectors: AtomicU64::new(wanted.sectors),
            is_read_only,
            is_shared: wanted.is_shared,
            block_shift: AtomicU8::new(wanted.block_shift),
            traffic: Default::default(),
            handles: wanted.handles,
            is_handle_chosen: false,
            zones: None,
        }
    }

    /// Current size, sectors of 512 B.
    pub fn sectors(&self) -> u64 {
        self.sectors.load(Ordering::Relaxed)
    }

    /// Current size, bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors() * SECTOR_BYTES
    }

    /// Sectors on the drive.
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.sectors()
    }

    /// Block size that hosts over NVMe see, bytes as a power of two.
    pub fn block_shift(&self) -> u8 {
        self.block_shift.load(Ordering::Relaxed)
    }

    /// Sectors of 512 B per block, as a power of two.
    pub(crate) fn block_sectors_log2(&self) -> u8 {
        self.block_shift() - SECTOR_SHIFT
    }

    /// Counts a read or a write of `sectors`.
    pub(crate) fn count(&self, is_read: bool, sectors: u32) {
        let place = usize::from(!is_read);
        self.traffic[place].fetch_add(1, Ordering::Relaxed);
        self.traffic[place + 2].fetch_add(sectors.into(), Ordering::Relaxed);
    }

    /// Number of reads, writes, sectors read and sectors written.
    pub(crate) fn traffic(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|place: usize| self.traffic[place].load(Ordering::Relaxed))
    }

    /// Restores the traffic counters.
    pub(crate) fn restore_traffic(&self, traffic: [u64; 4]) {
        for (place, count) in self.traffic.iter().zip(traffic) {
            place.store(count, Ordering::Relaxed);
        }
    }

    /// Figures for the command `status`.
    pub fn figures(&self) -> NamespaceFigures {
        NamespaceFigures {
            nsid: self.nsid,
            start_bytes: self.first * SECTOR_BYTES,
            bytes: self.bytes(),
            is_read_only: self.is_read_only,
        }
    }

    /// End of its last page, exclusive.
    pub(super) fn end(&self) -> u64 {
        self.range().end.next_multiple_of(PAGE_SECTORS)
    }
}

/// Figures of a namespace for the command `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceFigures {
    /// Number, from 1.
    pub nsid: u32,
    /// Start on the drive, bytes.
    pub start_bytes: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// True if the namespace refuses all commands that change its data.
    pub is_read_only: bool,
}
