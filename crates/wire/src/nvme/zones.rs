//! Zoned namespace command set: identify data, commands and the report of zones.
//!
//! Source: NVM Express Zoned Namespace command set specification 1.1: Identify (CNS 05h and 06h),
//! Zone Management Send and Receive, Zone Append, Changed Zone List. Left out: zone descriptor
//! extensions.

use zerocopy::little_endian::{U16, U32, U64};

use super::entry::Sqe;
use super::layout::layout;
use crate::codes::codes;

/// Command set identifier of the zoned namespace command set.
pub const COMMAND_SET_ZONED: u8 = 2;
/// Value of CC bits 6:4 that enables all command sets of the controller.
pub const CC_ALL_COMMAND_SETS: u32 = 6;
/// Zone type "sequential write required".
pub const ZONE_SEQUENTIAL: u8 = 2;

layout! {
    /// Identify Namespace of the zoned namespace command set, 4,096 bytes. Fields have the
    /// specification's names.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct IdentifyZonedNamespace: 4096 {
        pub zoc: U16,
        pub ozcs: U16,
        /// Limit minus one; all ones: no limit.
        pub mar: U32,
        /// Limit minus one; all ones: no limit.
        pub mor: U32,
        [reserved_12: [u8; 32]],
        pub numzrwa: U32,
        pub zrwafg: U16,
        pub zrwasz: U16,
        pub zrwacap: u8,
        [reserved_53: [u8; 2763]],
        pub lbafe: [ZoneFormat; 64],
        pub vs: [u8; 256],
    }

    /// Zone parameters of an LBA format.
    pub struct ZoneFormat: 16 {
        /// Blocks from the start of one zone to the start of the next.
        pub zone_blocks: U64,
        /// Size of a zone descriptor extension, in units of 64 bytes.
        pub extension: u8,
        [reserved_9: [u8; 7]],
    }

    /// Header of a zone report; zone descriptors follow.
    pub struct ZoneReport: 64 {
        /// Number of zones of the report.
        pub zones: U64,
        [reserved_8: [u8; 56]],
    }

    /// Zone descriptor.
    pub struct ZoneDescriptor: 64 {
        /// See [`ZONE_SEQUENTIAL`].
        pub kind: u8,
        /// State in bits 7:4.
        pub state: u8,
        /// Attributes, and information about them.
        pub attributes: [u8; 2],
        [reserved_4: [u8; 4]],
        /// Writable blocks.
        pub capacity: U64,
        /// First block of the zone.
        pub start: U64,
        /// Write pointer; all ones if the zone has none.
        pub write_pointer: U64,
        [reserved_32: [u8; 32]],
    }

    /// Changed Zone List.
    pub struct ChangedZones: 4096 {
        /// Number of zones in the list; all ones, with an empty list, if they do not fit.
        pub count: U16,
        [reserved_2: [u8; 6]],
        /// First block of each changed zone.
        pub starts: [U64; CHANGED_ZONES_MAX],
    }
}

/// Longest list of changed zones.
pub const CHANGED_ZONES_MAX: usize = 511;

codes! {
    /// Actions of Zone Management Send (bits 7:0 of command dword 13).
    ZoneAction {
        Close = 0x01,
        Finish = 0x02,
        Open = 0x03,
        Reset = 0x04,
        Offline = 0x05,
        FlushArea = 0x11,
    }
}

impl Sqe {
    /// Zone Management Send: action; `None` if it is not supported.
    pub fn zone_action(&self) -> Option<ZoneAction> {
        ZoneAction::from_code(self.cdw13.get() as u8)
    }

    /// Zone Management Send: true if the action applies to all zones in a suitable state.
    pub fn is_for_all_zones(&self) -> bool {
        self.cdw13.get() & 1 << 8 != 0
    }

    /// Zone Management Send, Open: true if the zone is opened with a random write area.
    pub fn wants_random_area(&self) -> bool {
        self.cdw13.get() & 1 << 9 != 0
    }

    /// Zone Management Receive: state of the reported zones; 0 for any state.
    pub fn zone_filter(&self) -> u8 {
        (self.cdw13.get() >> 8) as u8
    }

    /// Zone Management Receive: true if the header counts only the zones in the report, not all
    /// matching zones.
    pub fn is_partial_report(&self) -> bool {
        self.cdw13.get() & 1 << 16 != 0
    }

    /// Zone Management Receive: bytes of the report.
    pub fn report_bytes(&self) -> u32 {
        self.cdw12.get().saturating_add(1).saturating_mul(4)
    }
}

const _: () = assert!(std::mem::offset_of!(IdentifyZonedNamespace, numzrwa) == 44);
const _: () = assert!(std::mem::offset_of!(IdentifyZonedNamespace, lbafe) == 2816);
const _: () = assert!(std::mem::offset_of!(ZoneDescriptor, write_pointer) == 24);
