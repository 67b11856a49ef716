//! Addresses: what the host names, what the map names, where a page lies in flash.

/// Bytes of a host sector; all drives of the catalog use 512 B sectors.
pub const SECTOR_BYTES: u64 = 512;

/// Logical page number: a 4 KiB piece of the host's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

/// Physical place of one 4 KiB page: superblock-major, striped over dies inside a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(pub u32);
