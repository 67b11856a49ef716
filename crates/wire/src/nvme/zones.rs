//! The zoned namespace command set: what a namespace with zones says of itself, its commands, the
//! report of its zones.
//!
//! Source: NVM Express Zoned Namespace command set specification 1.1: Identify (CNS 05h and 06h),
//! Zone Management Send and Receive, Zone Append, Changed Zone List. Left out: zone descriptor
//! extensions.

use zerocopy::little_endian::{U16, U32, U64};

use super::entry::Sqe;
use super::layout::layout;
use crate::codes::codes;

/// The command set identifier of the zoned namespace command set.
pub const COMMAND_SET_ZONED: u8 = 2;
/// CC: which command sets are enabled, in bits 6:4; with this value all that the controller has.
pub const CC_ALL_COMMAND_SETS: u32 = 6;
/// A zone's type: it is written in sequence.
pub const ZONE_SEQUENTIAL: u8 = 2;

layout! { 4096:
    /// Identify Namespace of the zoned namespace command set, 4,096 bytes. Fields bear the
    /// specification's names.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct IdentifyZonedNamespace {
        pub zoc: U16,
        pub ozcs: U16,
        /// Less one; all ones: as many as there are.
        pub mar: U32,
        /// Likewise.
        pub mor: U32,
        /// 0: not said.
        pub rrl: U32,
        pub frl: U32,
        pub rrl1_to_3: [U32; 3],
        pub frl1_to_3: [U32; 3],
        pub numzrwa: U32,
        pub zrwafg: U16,
        pub zrwasz: U16,
        pub zrwacap: u8,
        pub reserved_53: [u8; 2763],
        pub lbafe: [ZoneFormat; 64],
        pub vs: [u8; 256],
    }
}

layout! { 16:
    /// What an LBA format has beside its blocks.
    pub struct ZoneFormat {
        /// Blocks from one zone's beginning to the next one's.
        pub zone_blocks: U64,
        /// Of a zone descriptor extension, in 64 bytes.
        pub extension: u8,
        #[doc(hidden)]
        pub reserved_9: [u8; 7],
    }
}

layout! { 64:
    /// Head of a report of zones; their descriptors follow.
    pub struct ZoneReport {
        /// Zones of the report.
        pub zones: U64,
        #[doc(hidden)]
        pub reserved_8: [u8; 56],
    }
}

layout! { 64:
    /// A zone's descriptor.
    pub struct ZoneDescriptor {
        /// See [`ZONE_SEQUENTIAL`].
        pub kind: u8,
        /// In bits 7:4.
        pub state: u8,
        /// Attributes, and what is said of them.
        pub attributes: [u8; 2],
        #[doc(hidden)]
        pub reserved_4: [u8; 4],
        /// Blocks that can be written.
        pub capacity: U64,
        /// Its first block.
        pub start: U64,
        /// All ones where there is none.
        pub write_pointer: U64,
        #[doc(hidden)]
        pub reserved_32: [u8; 32],
    }
}

layout! { 4096:
    /// Changed Zone List.
    pub struct ChangedZones {
        /// How many; all ones where they are more than there is room for.
        pub count: U16,
        #[doc(hidden)]
        pub reserved_2: [u8; 6],
        /// The first block of each.
        pub starts: [U64; CHANGED_ZONES_MAX],
    }
}

/// Zones in the list of those that have changed, at most.
pub const CHANGED_ZONES_MAX: usize = 511;

codes! {
    /// What Zone Management Send does (bits 7:0 of command dword 13).
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
    /// Zone Management Send: what is to be done; none of what is not known here.
    pub fn zone_action(&self) -> Option<ZoneAction> {
        ZoneAction::of(self.cdw13.get() as u8)
    }

    /// Zone Management Send: to all zones that it can be done to.
    pub fn is_for_all_zones(&self) -> bool {
        self.cdw13.get() & 1 << 8 != 0
    }

    /// Zone Management Send, Open: with a random write area.
    pub fn wants_random_area(&self) -> bool {
        self.cdw13.get() & 1 << 9 != 0
    }

    /// Zone Management Receive: zones of which state (0: of any) the report is about.
    pub fn zone_filter(&self) -> u8 {
        (self.cdw13.get() >> 8) as u8
    }

    /// Zone Management Receive: the report's head counts the zones that it holds, not all that
    /// there are.
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
