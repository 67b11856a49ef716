//! Log of the operations of the flash translation layer, kept on request: all changes of the map
//! and all erases, in their order. Another translation layer that replays them ends with the same
//! map.
//!
//! Nothing here changes the behaviour of the drive. Left out: reads, times, and what the map itself
//! writes (journal, map cache).

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Data from the host was placed: `count` pages from `page` on, at addresses from `address`
    /// on.
    Write,
    /// The valid data of a page was copied to an address.
    Copy,
    /// Addresses got no data: padding, parity, or pages of a failed die.
    Pad,
    /// Pages were unmapped.
    Trim,
    /// A power cut lost the newest data of a page: the data at `address` is valid again, or
    /// none if that is [`NOWHERE`].
    Revert,
    /// A superblock was erased: `count` addresses from `address` on.
    Erase,
    /// All pages were unmapped, and all superblocks became free.
    Clear,
}

/// Address of a page that is not mapped.
pub const NOWHERE: u32 = u32::MAX;

/// Kind (a number of [`OperationKind`]), first page, first address, and count; 0 where a
/// kind has no page or address.
pub type Operation = [u32; 4];
