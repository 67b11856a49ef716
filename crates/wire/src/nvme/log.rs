//! Log pages.
//!
//! Source: NVM Express base specification 1.4, section 5.14.1; discovery: `fabrics.rs`.

use zerocopy::little_endian::{U16, U32, U64, U128};

use super::layout::layout;
use crate::codes::codes;

codes! {
    /// Log pages that drivebay's controllers know (bits 7:0 of command dword 10).
    LogPage {
        Errors = 0x01,
        Smart = 0x02,
        FirmwareSlots = 0x03,
        ChangedNamespaces = 0x04,
        Commands = 0x05,
        Discovery = 0x70,
        Sanitize = 0x81,
        Pace = 0xf0,
    }
}

layout! { 512:
    /// SMART / Health Information, 512 bytes.
    pub struct SmartLog {
        /// See [`CriticalWarning`].
        pub critical_warning: u8,
        /// Kelvin.
        pub temperature_k: U16,
        /// Per cent.
        pub available_spare: u8,
        /// Per cent.
        pub spare_threshold: u8,
        /// Per cent, up to 255.
        pub percentage_used: u8,
        #[doc(hidden)]
        pub reserved_6: [u8; 26],
        /// Units of 512,000 bytes.
        pub data_units_read: U128,
        /// Units of 512,000 bytes.
        pub data_units_written: U128,
        /// Read and Compare commands.
        pub host_reads: U128,
        /// Write commands.
        pub host_writes: U128,
        /// Minutes.
        pub busy_minutes: U128,
        /// Times switched on.
        pub power_cycles: U128,
        /// Hours switched on.
        pub power_on_hours: U128,
        /// Switched off without notice.
        pub unsafe_shutdowns: U128,
        /// Data that could not be read.
        pub media_errors: U128,
        /// Entries of the error log, ever.
        pub error_entries: U128,
        /// Minutes at or above the warning temperature.
        pub warning_minutes: U32,
        /// Minutes at or above the critical temperature.
        pub critical_minutes: U32,
        /// Kelvin; 0 where there is no such sensor.
        pub sensors_k: [U16; 8],
        /// Times that light and heavy throttling set in.
        pub throttle_count: [U32; 2],
        /// Seconds of light and heavy throttling.
        pub throttle_seconds: [U32; 2],
        #[doc(hidden)]
        pub reserved_232: [u8; 280],
    }
}

/// Bits of the SMART log's critical warning.
pub struct CriticalWarning;

impl CriticalWarning {
    /// Spare blocks run out.
    pub const SPARE: u8 = 1 << 0;
    /// A temperature is beyond its threshold.
    pub const TEMPERATURE: u8 = 1 << 1;
    /// The drive refuses to be written.
    pub const READ_ONLY: u8 = 1 << 3;
}

layout! { 64:
    /// One entry of the error log, 64 bytes.
    pub struct ErrorEntry {
        /// Number of the error; 0 in an empty entry.
        pub count: U64,
        /// The command's submission queue.
        pub sq_id: U16,
        /// The command's identifier.
        pub cid: U16,
        /// Status, shifted left by one, as in a completion.
        pub status_and_phase: U16,
        /// Byte (bits 7:0) and bit (10:8) of the wrong field in the command; all ones where none is.
        pub location: U16,
        /// First block that is concerned.
        pub lba: U64,
        /// Namespace.
        pub nsid: U32,
        #[doc(hidden)]
        pub reserved_28: [u8; 36],
    }
}

layout! { 512:
    /// Firmware Slot Information, 512 bytes.
    pub struct FirmwareSlots {
        /// The slot in use in bits 2:0, that of the next reset in bits 6:4.
        pub active: u8,
        #[doc(hidden)]
        pub reserved_1: [u8; 7],
        /// Revision in each slot.
        pub revisions: [[u8; 8]; 7],
        #[doc(hidden)]
        pub reserved_64: [u8; 448],
    }
}

layout! { 4096:
    /// Commands Supported and Effects, 4,096 bytes.
    pub struct CommandEffects {
        /// By opcode of the admin queue.
        pub admin: [U32; 256],
        /// By opcode of I/O queues.
        pub io: [U32; 256],
        #[doc(hidden)]
        pub reserved_2048: [u8; 2048],
    }
}

/// Effects: the command is supported.
pub const EFFECT_SUPPORTED: u32 = 1;
/// Effects: it may change data.
pub const EFFECT_CHANGES_DATA: u32 = 1 << 1;
/// Effects: which namespaces there are, or which are attached, may change.
pub const EFFECT_CHANGES_NAMESPACES: u32 = 1 << 3;
/// Effects: nothing else may be outstanding for the controller.
pub const EFFECT_EXCLUSIVE: u32 = 2 << 16;

layout! { 512:
    /// Sanitize Status, 512 bytes.
    pub struct SanitizeStatus {
        /// How far: parts of 65,536; all ones when none is going on.
        pub progress: U16,
        /// Bits 2:0: 0 never, 1 done, 2 going on; bit 8: nothing was written since.
        pub status: U16,
        /// Command dword 10 of the last Sanitize.
        pub cdw10: U32,
        /// Estimated seconds of overwrite, block erase, crypto erase; all ones: not said.
        pub estimated_seconds: [U32; 3],
        /// The same without deallocation after.
        pub estimated_seconds_kept: [U32; 3],
        #[doc(hidden)]
        pub reserved_32: [u8; 480],
    }
}

layout! { 64:
    /// The pace of a served drive, vendor specific (drivebay's own), 64 bytes.
    pub struct PaceLog {
        /// The drive's clock, nanoseconds.
        pub clock_ns: U64,
        /// Its rate: 1,000,000 is that of the host's clock.
        pub rate_ppm: U64,
        /// How far the host kept up, hundredths of a percent; 0 before the first answer.
        pub kept_up: U16,
        #[doc(hidden)]
        pub reserved_18: [u8; 46],
    }
}

const _: () = assert!(std::mem::offset_of!(SmartLog, warning_minutes) == 192);
