//! Reasons for which namespaces are refused.

use super::view::NAMESPACES_MAX;
use crate::error::ServeError;

/// Reason for which the namespaces are not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The namespace would be empty.
    #[error("namespace {0} has less than 4 KiB\nhint: give it a size such as 100GiB")]
    Empty(u32),
    /// Too many namespaces.
    #[error("{0} namespaces are more than {NAMESPACES_MAX}\nhint: serve several drives")]
    TooMany(usize),
    /// The namespace would end beyond the drive, or in the next namespace.
    #[error(
        "namespace {nsid} cannot have {bytes} bytes\nhint: {room} bytes are free from its start"
    )]
    NoRoom {
        /// Number of the namespace.
        nsid: u32,
        /// Requested bytes.
        bytes: u64,
        /// Bytes from its start to the next namespace, or to the drive's end.
        room: u64,
    },
    /// The namespace would begin inside another one, or at the same sector.
    #[error(
        "namespace {nsid} begins inside namespace {other}\nhint: place it after that one: SIZE@START"
    )]
    Overlap {
        /// Number of the namespace.
        nsid: u32,
        /// The existing namespace.
        other: u32,
    },
    /// No namespace has this number.
    #[error("there is no namespace {0}\nhint: drivebay ctl SOCKET status lists them")]
    Unknown(u32),
    /// Read-only data would be lost.
    #[error(
        "namespace {0} is read-only and cannot become smaller\nhint: serve it without read-only"
    )]
    ReadOnly(u32),
    /// The drive is write-protected.
    #[error(
        "the drive is read-only: its namespaces cannot change\nhint: serve it without --read-only"
    )]
    ReadOnlyDrive,
    /// No free range is large enough.
    #[error(
        "no contiguous {bytes} bytes are free\nhint: the largest free range has {largest} bytes"
    )]
    NoPiece {
        /// Requested bytes.
        bytes: u64,
        /// Bytes of the largest free range.
        largest: u64,
    },
    /// The namespace would not consist of whole zones.
    #[error(
        "namespace {nsid} does not consist of whole zones\nhint: a zone has {zone} bytes: start and size must be multiples of that"
    )]
    Zones {
        /// Number of the namespace.
        nsid: u32,
        /// Capacity of a zone, bytes.
        zone: u64,
    },
    /// A SATA drive has no namespaces, and cannot notify hosts of a new size.
    #[error(
        "an AHCI drive has one size and no namespaces\nhint: serve it over NBD or NVMe/TCP, or an NVMe drive"
    )]
    Ahci,
}

impl From<NamespaceError> for ServeError {
    fn from(why: NamespaceError) -> ServeError {
        ServeError::option(format!("--namespace: {why}"))
    }
}
