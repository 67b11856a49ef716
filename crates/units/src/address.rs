//! Addresses: host sectors, logical pages, and physical pages in flash.

/// Bytes of a host sector; all drives of the catalog use 512 B sectors.
pub const SECTOR_BYTES: u64 = 512;

/// Logical page number: a 4 KiB page of the host's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

/// Physical address of a 4 KiB page: ordered by superblock, striped over dies inside a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(pub u32);
