//! Flexible Data Placement: log pages of endurance groups, the status of reclaim unit handles,
//! events.
//!
//! Source: NVM Express base specification 2.1, Flexible Data Placement, Get Log Page (09h, 20h to
//! 23h), and the NVM command set specification's I/O Management commands (TP4146).

use zerocopy::little_endian::{U16, U32, U64, U128};

use super::layout::layout;
use crate::codes::codes;

/// Directive Type of a write: Data Placement. The other, Streams, is not known here.
pub const DIRECTIVE_PLACEMENT: u8 = 2;
/// I/O Management Receive and Send, operation: reclaim unit handle status, and reclaim unit handle
/// update.
pub const MANAGE_HANDLES: u8 = 1;
/// Namespace Management, where a namespace to be made has the number of its placement handles, and
/// the list of them.
pub const CREATE_HANDLES: std::ops::Range<usize> = 392..394;
/// Where that list begins: the reclaim unit handle of each, 16 bits.
pub const CREATE_HANDLE_LIST: usize = 512;
/// Placement handles of a namespace, at most.
pub const HANDLES_MAX: usize = 128;

codes! {
    /// Types of events; from 80h on they are the controller's.
    PlacementEventKind {
        UnitNotFull = 0x00,
        InvalidIdentifier = 0x03,
        MediaReallocated = 0x80,
        HandleModified = 0x81,
    }
}

layout! { 512:
    /// Endurance Group Information (09h), 512 bytes.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct EnduranceGroupLog {
        pub critical_warning: u8,
        pub features: u8,
        pub reserved_2: u8,
        pub available_spare: u8,
        pub spare_threshold: u8,
        pub percentage_used: u8,
        pub domain: U16,
        pub reserved_8: [u8; 24],
        pub endurance_estimate: U128,
        /// Units of 10^9 bytes, rounded up; likewise the next two.
        pub data_units_read: U128,
        pub data_units_written: U128,
        pub media_units_written: U128,
        pub host_reads: U128,
        pub host_writes: U128,
        pub media_errors: U128,
        pub error_entries: U128,
        pub capacity: U128,
        pub free_capacity: U128,
        pub reserved_192: [u8; 320],
    }
}

layout! { 16:
    /// Head of the configurations' log (20h), 16 bytes.
    pub struct PlacementConfigurations {
        /// How many, less one.
        pub last: U16,
        /// Of the layout.
        pub version: u8,
        #[doc(hidden)]
        pub reserved_3: u8,
        /// Of the whole log.
        pub bytes: U32,
        #[doc(hidden)]
        pub reserved_8: U64,
    }
}

layout! { 64:
    /// A configuration, 64 bytes; descriptors of its handles follow, 4 bytes each, the first of
    /// which is the isolation.
    pub struct PlacementConfiguration {
        /// With the descriptors.
        pub bytes: U16,
        /// Bits of a reclaim group's identifier in 3:0; bit 4: a volatile write cache; bit 7: it is
        /// valid.
        pub attributes: u8,
        /// Bytes that are the vendor's.
        pub vendor_bytes: u8,
        /// Reclaim groups.
        pub groups: U32,
        /// Reclaim unit handles.
        pub handles: U16,
        /// Placement identifiers of a handle update at most, less one.
        pub identifiers_max: U16,
        /// Namespaces.
        pub namespaces: U32,
        /// Of a reclaim unit.
        pub unit_bytes: U64,
        /// After which a reclaim unit is closed, seconds; 0: never.
        pub time_limit: U32,
        #[doc(hidden)]
        pub reserved_28: [u8; 36],
    }
}

layout! { 64:
    /// Statistics (22h), 64 bytes.
    pub struct PlacementStatistics {
        /// Bytes written by hosts.
        pub host_bytes: U128,
        /// Bytes written to the media.
        pub media_bytes: U128,
        /// Bytes of the media that were erased.
        pub erased_bytes: U128,
        #[doc(hidden)]
        pub reserved_48: [u8; 16],
    }
}

layout! { 64:
    /// An event (23h), 64 bytes.
    pub struct PlacementEvent {
        /// See [`PlacementEventKind`].
        pub kind: u8,
        /// Which fields hold: bit 0 the placement identifier, 1 the namespace, 2 the reclaim group
        /// and handle.
        pub flags: u8,
        /// Placement identifier.
        pub pid: U16,
        /// As [`Feature::Timestamp`](super::Feature::Timestamp) has it.
        pub timestamp: U64,
        /// Namespace.
        pub nsid: U32,
        /// Media reallocated, flags: bit 0, the address holds.
        pub moved_flags: u8,
        #[doc(hidden)]
        pub reserved_17: u8,
        /// Media reallocated: logical blocks that were moved.
        pub moved_blocks: U16,
        /// Media reallocated: the first.
        pub moved_lba: U64,
        #[doc(hidden)]
        pub reserved_28: U32,
        /// Reclaim group.
        pub group: U16,
        /// Reclaim unit handle.
        pub handle: u8,
        #[doc(hidden)]
        pub reserved_35: [u8; 29],
    }
}

layout! { 32:
    /// The status of a handle, 32 bytes; before them stand 16, of which the last two say how many
    /// they are.
    pub struct HandleStatus {
        /// Placement identifier.
        pub pid: U16,
        /// Reclaim unit handle.
        pub handle: U16,
        /// Until the reclaim unit is closed, seconds.
        pub time_left: U32,
        /// Logical blocks that can still be written to the reclaim unit (RUAMW).
        pub blocks_left: U64,
        #[doc(hidden)]
        pub reserved_16: [u8; 16],
    }
}

const _: () = assert!(std::mem::offset_of!(EnduranceGroupLog, capacity) == 160);
const _: () = assert!(std::mem::offset_of!(PlacementConfiguration, time_limit) == 24);
const _: () = assert!(std::mem::offset_of!(PlacementEvent, group) == 32);
