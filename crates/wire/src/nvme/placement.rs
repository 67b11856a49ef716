//! Flexible Data Placement: log pages of endurance groups, the status of reclaim unit handles,
//! events.
//!
//! Source: NVM Express base specification 2.1, Flexible Data Placement, Get Log Page (09h, 20h to
//! 23h), and the NVM command set specification's I/O Management commands (TP4146).

use zerocopy::little_endian::{U16, U32, U64, U128};

use super::layout::layout;
use crate::codes::codes;

/// Directive Type of a write: Data Placement. The other type, Streams, is not supported.
pub const DIRECTIVE_PLACEMENT: u8 = 2;
/// Operation of I/O Management Receive (reclaim unit handle status) and Send (reclaim unit handle
/// update).
pub const MANAGE_HANDLES: u8 = 1;
/// Bytes of Namespace Management's data with the number of placement handles; their list follows at
/// [`CREATE_HANDLE_LIST`].
pub const CREATE_HANDLES: std::ops::Range<usize> = 392..394;
/// Offset of that list: the reclaim unit handle of each placement handle, 16 bits.
pub const CREATE_HANDLE_LIST: usize = 512;
/// Most placement handles of a namespace.
pub const HANDLES_MAX: usize = 128;

codes! {
    /// Event types; types from 80h on are reported by the controller.
    PlacementEventKind {
        UnitNotFull = 0x00,
        InvalidIdentifier = 0x03,
        MediaReallocated = 0x80,
        HandleModified = 0x81,
    }
}

layout! {
    /// Endurance Group Information (09h), 512 bytes.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct EnduranceGroupLog: 512 {
        pub critical_warning: u8,
        pub features: u8,
        [reserved_2: u8],
        pub available_spare: u8,
        pub spare_threshold: u8,
        pub percentage_used: u8,
        pub domain: U16,
        [reserved_8: [u8; 40]],
        /// Units of 10^9 bytes, rounded up, as the next two fields.
        pub data_units_read: U128,
        pub data_units_written: U128,
        pub media_units_written: U128,
        pub host_reads: U128,
        pub host_writes: U128,
        pub media_errors: U128,
        pub error_entries: U128,
        pub capacity: U128,
        pub free_capacity: U128,
        [reserved_192: [u8; 320]],
    }

    /// Header of the configurations log (20h), 16 bytes.
    pub struct PlacementConfigurations: 16 {
        /// Number of configurations minus one.
        pub last: U16,
        /// Version of the layout.
        pub version: u8,
        [reserved_3: u8],
        /// Bytes of the whole log.
        pub bytes: U32,
        [reserved_8: U64],
    }

    /// Configuration, 64 bytes; descriptors of its handles follow, 4 bytes each, of which the first
    /// byte is the isolation type.
    pub struct PlacementConfiguration: 64 {
        /// Bytes of the configuration, including the descriptors.
        pub bytes: U16,
        /// Bits 3:0: bits of a reclaim group's identifier; bit 4: volatile write cache; bit 7:
        /// valid.
        pub attributes: u8,
        /// Vendor-specific bytes.
        pub vendor_bytes: u8,
        /// Number of reclaim groups.
        pub groups: U32,
        /// Number of reclaim unit handles.
        pub handles: U16,
        /// Most placement identifiers of a handle update, minus one.
        pub identifiers_max: U16,
        /// Number of namespaces.
        pub namespaces: U32,
        /// Bytes of a reclaim unit.
        pub unit_bytes: U64,
        /// Time after which a reclaim unit is closed, seconds; 0: never.
        pub time_limit: U32,
        [reserved_28: [u8; 36]],
    }

    /// Statistics (22h), 64 bytes.
    pub struct PlacementStatistics: 64 {
        /// Bytes written by hosts.
        pub host_bytes: U128,
        /// Bytes written to the media.
        pub media_bytes: U128,
        /// Bytes of the media that were erased.
        pub erased_bytes: U128,
        [reserved_48: [u8; 16]],
    }

    /// Event (23h), 64 bytes.
    pub struct PlacementEvent: 64 {
        /// See [`PlacementEventKind`].
        pub kind: u8,
        /// Valid fields: bit 0 the placement identifier, 1 the namespace, 2 the reclaim group and
        /// handle.
        pub flags: u8,
        /// Placement identifier.
        pub pid: U16,
        /// Time in the format of [`Feature::Timestamp`](super::Feature::Timestamp).
        pub timestamp: U64,
        /// Namespace.
        pub nsid: U32,
        [reserved_16: [u8; 2]],
        /// Number of blocks moved ("media reallocated").
        pub moved_blocks: U16,
        [reserved_20: [u8; 12]],
        /// Reclaim group.
        pub group: U16,
        /// Reclaim unit handle.
        pub handle: u8,
        [reserved_35: [u8; 29]],
    }

    /// Status of a handle, 32 bytes; a header of 16 bytes precedes the list and holds the number of
    /// entries in its last two bytes.
    pub struct HandleStatus: 32 {
        /// Placement identifier.
        pub pid: U16,
        /// Reclaim unit handle.
        pub handle: U16,
        /// Time until the reclaim unit is closed, seconds.
        pub time_left: U32,
        /// Logical blocks that can still be written to the reclaim unit (RUAMW).
        pub blocks_left: U64,
        [reserved_16: [u8; 16]],
    }
}

const _: () = assert!(std::mem::offset_of!(EnduranceGroupLog, capacity) == 160);
const _: () = assert!(std::mem::offset_of!(PlacementConfiguration, time_limit) == 24);
const _: () = assert!(std::mem::offset_of!(PlacementEvent, group) == 32);
