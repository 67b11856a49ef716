//! Log pages.
//!
//! Sources: NVM Express base specification 2.0, Get Log Page; OCP Datacenter NVMe SSD specification
//! 2.0 (C0h to C5h); discovery: `fabrics.rs`.

use zerocopy::little_endian::{U16, U32, U64, U128};

use super::layout::layout;
use crate::codes::codes;

codes! {
    /// Log pages that drivebay's controllers support (bits 7:0 of command dword 10).
    LogPage {
        Supported = 0x00,
        Errors = 0x01,
        Smart = 0x02,
        FirmwareSlots = 0x03,
        ChangedNamespaces = 0x04,
        Commands = 0x05,
        SelfTest = 0x06,
        TelemetryHost = 0x07,
        TelemetryController = 0x08,
        EnduranceGroup = 0x09,
        AsymmetricAccess = 0x0c,
        PersistentEvents = 0x0d,
        Features = 0x12,
        ManagementCommands = 0x13,
        PlacementConfigurations = 0x20,
        PlacementUsage = 0x21,
        PlacementStatistics = 0x22,
        PlacementEvents = 0x23,
        Discovery = 0x70,
        ReservationNotification = 0x80,
        Sanitize = 0x81,
        ChangedZones = 0xbf,
        OcpSmart = 0xc0,
        OcpErrorRecovery = 0xc1,
        OcpLatency = 0xc3,
        OcpCapabilities = 0xc4,
        OcpUnsupported = 0xc5,
        Pace = 0xf0,
    }

    /// Event types of the persistent event log that drivebay's controller reports.
    PersistentKind {
        Health = 0x01,
        FirmwareCommit = 0x02,
        TimestampChange = 0x03,
        Reset = 0x04,
        NamespaceChange = 0x06,
        FormatStart = 0x07,
        FormatCompletion = 0x08,
        SanitizeStart = 0x09,
        SanitizeCompletion = 0x0a,
        SetFeature = 0x0b,
        Telemetry = 0x0c,
        Thermal = 0x0d,
    }
}

layout! {
    /// SMART / Health Information, 512 bytes.
    pub struct SmartLog: 512 {
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
        [reserved_6: [u8; 26]],
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
        /// Number of power cycles.
        pub power_cycles: U128,
        /// Hours with power.
        pub power_on_hours: U128,
        /// Losses of power without notice.
        pub unsafe_shutdowns: U128,
        /// Number of failures to read data.
        pub media_errors: U128,
        /// Error log entries over the drive's lifetime.
        pub error_entries: U128,
        /// Minutes at or above the warning temperature.
        pub warning_minutes: U32,
        /// Minutes at or above the critical temperature.
        pub critical_minutes: U32,
        /// Kelvin; 0 if the sensor does not exist.
        pub sensors_k: [U16; 8],
        /// Number of transitions to light and to heavy throttling.
        pub throttle_count: [U32; 2],
        /// Seconds of light and heavy throttling.
        pub throttle_seconds: [U32; 2],
        [reserved_232: [u8; 280]],
    }

    /// Entry of the error log, 64 bytes.
    pub struct ErrorEntry: 64 {
        /// Number of the error; 0 in an empty entry.
        pub count: U64,
        /// The command's submission queue.
        pub sq_id: U16,
        /// The command's identifier.
        pub cid: U16,
        /// Status, shifted left by one, as in a completion.
        pub status_and_phase: U16,
        /// Byte (bits 7:0) and bit (10:8) of the wrong field in the command; all ones if no field
        /// is wrong.
        pub location: U16,
        /// First block of the error.
        pub lba: U64,
        /// Namespace.
        pub nsid: U32,
        [reserved_28: [u8; 36]],
    }

    /// Firmware Slot Information, 512 bytes.
    pub struct FirmwareSlots: 512 {
        /// Active slot in bits 2:0, slot of the next reset in bits 6:4.
        pub active: u8,
        [reserved_1: [u8; 7]],
        /// Firmware revision of each slot.
        pub revisions: [[u8; 8]; 7],
        [reserved_64: [u8; 448]],
    }

    /// Commands Supported and Effects, 4,096 bytes.
    pub struct CommandEffects: 4096 {
        /// Effects of admin commands, by opcode.
        pub admin: [U32; 256],
        /// Effects of I/O commands, by opcode.
        pub io: [U32; 256],
        [reserved_2048: [u8; 2048]],
    }

    /// Sanitize Status, 512 bytes.
    pub struct SanitizeStatus: 512 {
        /// Progress in parts of 65,536; all ones if no operation is running.
        pub progress: U16,
        /// Bits 2:0: 0 never sanitized, 1 done, 2 running, 4 done, but deallocated against the
        /// host's request; bits 7:3: completed overwrite passes.
        pub status: U16,
        /// Command dword 10 of the last Sanitize.
        pub cdw10: U32,
        /// Estimated seconds of overwrite, block erase, crypto erase; all ones: not reported.
        pub estimated_seconds: [U32; 3],
        /// The same estimates without deallocation afterwards.
        pub estimated_seconds_kept: [U32; 3],
        [reserved_32: [u8; 480]],
    }

    /// Result of a device self-test, 28 bytes.
    pub struct SelfTestResult: 28 {
        /// Bits 3:0: 0 without error, 2 aborted by a reset, 4 by a Format NVM, 9 by a Sanitize, 7 a
        /// segment failed, 15 no entry; bits 7:4: type of self-test.
        pub status: u8,
        /// The segment that failed.
        pub segment: u8,
        /// Valid fields among the following.
        pub valid: u8,
        [reserved_3: u8],
        /// End of the self-test, in hours with power.
        pub power_on_hours: U64,
        /// Namespace that was tested.
        pub nsid: U32,
        [reserved_16: [u8; 12]],
    }

    /// Device Self-test, 564 bytes.
    pub struct SelfTestLog: 564 {
        /// Running self-test: 0 none, 1 short, 2 extended.
        pub current: u8,
        /// Progress in per cent.
        pub percent: u8,
        [reserved_2: U16],
        /// Results, newest first.
        pub results: [SelfTestResult; SELF_TESTS],
    }

    /// Header of a telemetry log, 512 bytes; blocks of data follow.
    pub struct TelemetryHeader: 512 {
        /// Log page identifier.
        pub page: u8,
        [reserved_1: [u8; 4]],
        /// IEEE OUI.
        pub oui: [u8; 3],
        /// Last block of data areas 1, 2 and 3.
        pub last_blocks: [U16; 3],
        [reserved_14: [u8; 366]],
        /// Host-initiated data: scope and generation.
        pub host: [u8; 2],
        /// Controller-initiated data: availability and generation.
        pub controller: [u8; 2],
        /// Reason identifier.
        pub reason: [u8; 128],
    }

    /// Header of the persistent event log, 512 bytes.
    #[expect(missing_docs, reason = "the specification's fields")]
    pub struct PersistentHeader: 512 {
        pub page: u8,
        [reserved_1: [u8; 3]],
        pub events: U32,
        /// Bytes of the whole log.
        pub bytes: U64,
        pub revision: u8,
        [reserved_17: u8],
        /// Bytes of the header after this field.
        pub header_bytes: U16,
        pub timestamp: U64,
        pub power_on_hours: U128,
        pub power_cycles: U64,
        pub vid: U16,
        pub ssvid: U16,
        pub sn: [u8; 20],
        pub mn: [u8; 40],
        pub subnqn: [u8; 256],
        pub generation: U16,
        pub context: U32,
        [reserved_378: [u8; 102]],
        /// Bitmap of the supported event types.
        pub supported: [u8; 32],
    }

    /// Header of an event of the persistent event log, 24 bytes; its data follows.
    pub struct PersistentEvent: 24 {
        /// See [`PersistentKind`].
        pub kind: u8,
        /// Revision of the event's data.
        pub revision: u8,
        /// Bytes of this header after this field.
        pub header_bytes: u8,
        [reserved_3: u8],
        /// Controller identifier.
        pub cntlid: U16,
        /// Time in the format of [`Feature::Timestamp`](super::Feature::Timestamp).
        pub timestamp: U64,
        [reserved_14: [u8; 8]],
        /// Bytes of data.
        pub bytes: U16,
    }

    /// Header of the log of Asymmetric Namespace Access, 16 bytes; its groups follow.
    pub struct AccessLog: 16 {
        /// Number of changes of the log since the controller's reset.
        pub changes: U64,
        /// Number of groups.
        pub groups: U16,
        [reserved_10: [u8; 6]],
    }

    /// Group of namespaces in that log, 32 bytes; the numbers of its namespaces follow.
    pub struct AccessGroup: 32 {
        /// Number of the group.
        pub id: U32,
        /// Number of namespaces.
        pub namespaces: U32,
        /// Number of changes of the group since the controller's reset.
        pub changes: U64,
        /// Code of the access state.
        pub state: u8,
        [reserved_17: [u8; 15]],
    }

    /// OCP's SMART / Health Information Extended (C0h), 512 bytes.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct OcpSmart: 512 {
        pub physical_bytes_written: U128,
        pub physical_bytes_read: U128,
        pub bad_user_blocks: U64,
        pub bad_system_blocks: U64,
        pub xor_recoveries: U64,
        pub uncorrectable_reads: U64,
        pub soft_ecc_errors: U64,
        [reserved_72: [u8; 8]],
        pub system_data_percent: u8,
        pub refreshes: [u8; 7],
        pub erases_max: U32,
        pub erases_min: U32,
        pub throttle_events: u8,
        pub throttle_status: u8,
        /// Bytes in the order errata, point, minor, major version.
        pub version: [u8; 6],
        pub pcie_correctable: U64,
        pub incomplete_shutdowns: U32,
        [reserved_116: [u8; 4]],
        pub free_percent: u8,
        [reserved_121: [u8; 7]],
        pub capacitor_percent: U16,
        [reserved_130: [u8; 22]],
        pub total_nuse: U64,
        pub plp_starts: U128,
        [reserved_176: [u8; 318]],
        pub log_version: U16,
        pub guid: [u8; 16],
    }

    /// OCP's Latency Monitor (C3h), 512 bytes. Counters are ordered by bucket, then by read, write,
    /// deallocate.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct OcpLatency: 512 {
        pub status: u8,
        [reserved_1: u8],
        pub bucket_timer: U16,
        pub bucket_timer_threshold: U16,
        pub thresholds: [u8; 4],
        pub config: U16,
        pub minimum_window: u8,
        [reserved_13: [u8; 19]],
        pub active_counters: [[U32; 4]; 4],
        pub active_stamps: [[U64; 3]; 4],
        pub active_latencies: [[U16; 3]; 4],
        [reserved_216: [u8; 24]],
        pub static_counters: [[U32; 4]; 4],
        pub static_stamps: [[U64; 3]; 4],
        pub static_latencies: [[U16; 3]; 4],
        [reserved_424: [u8; 70]],
        pub log_version: U16,
        pub guid: [u8; 16],
    }

    /// Pace of a served drive, a vendor-specific log page of drivebay, 64 bytes.
    pub struct PaceLog: 64 {
        /// The drive's clock, nanoseconds.
        pub clock_ns: U64,
        /// Rate of the drive's clock; 1,000,000 is the rate of the host's clock.
        pub rate_ppm: U64,
        /// Latency that the model gave divided by the latency of the answers, in hundredths of a
        /// percent; 0 before the first answer.
        pub kept_up: U16,
        [reserved_18: [u8; 46]],
    }
}

/// Bits of the SMART log's critical warning.
pub struct CriticalWarning;

impl CriticalWarning {
    /// Few spare blocks are left.
    pub const SPARE: u8 = 1 << 0;
    /// A temperature is beyond its threshold.
    pub const TEMPERATURE: u8 = 1 << 1;
    /// The drive refuses writes.
    pub const READ_ONLY: u8 = 1 << 3;
}

/// Effects: the command is supported.
pub const EFFECT_SUPPORTED: u32 = 1;
/// Effects: it may change data.
pub const EFFECT_CHANGES_DATA: u32 = 1 << 1;
/// Effects: the capabilities of a namespace may change.
pub const EFFECT_CHANGES_CAPABILITY: u32 = 1 << 2;
/// Effects: the list of namespaces, or of the attached ones, may change.
pub const EFFECT_CHANGES_NAMESPACES: u32 = 1 << 3;
/// Effects: no other command may be outstanding in the controller.
pub const EFFECT_EXCLUSIVE: u32 = 2 << 16;

/// Status of an empty self-test result.
pub const SELF_TEST_NONE: u8 = 0xf;
/// Results in the log of self-tests.
pub const SELF_TESTS: usize = 20;

/// Bytes of a block of telemetry data.
pub const TELEMETRY_BLOCK: usize = 512;

/// Returns the trailer of an OCP log page: the version of its layout, and its GUID in memory order.
pub fn ocp_trailer(page: LogPage) -> Option<(u16, [u8; 16])> {
    let (version, guid) = match page {
        LogPage::OcpSmart => (3, 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5),
        LogPage::OcpErrorRecovery => (3, 0x5a19_83ba_3dfd_4dab_ae34_30fe_2131_d944),
        LogPage::OcpLatency => (4, 0x85d4_5e58_d4e6_4370_9c6c_84d0_8cc0_7a92),
        LogPage::OcpCapabilities => (1, 0xb705_3c91_4b58_495d_98c9_e1d1_0d05_4297),
        LogPage::OcpUnsupported => (1, 0xc7bb_98b7_d032_4863_bb2c_2399_0e9c_722f),
        _ => return None,
    };
    Some((version, u128::to_le_bytes(guid)))
}

const _: () = assert!(std::mem::offset_of!(SmartLog, warning_minutes) == 192);
const _: () = assert!(std::mem::offset_of!(TelemetryHeader, reason) == 384);
const _: () = assert!(std::mem::offset_of!(OcpSmart, version) == 98);
const _: () = assert!(std::mem::offset_of!(OcpSmart, plp_starts) == 160);
const _: () = assert!(std::mem::offset_of!(OcpSmart, guid) == 496);
const _: () = assert!(std::mem::offset_of!(OcpLatency, static_counters) == 240);
const _: () = assert!(std::mem::offset_of!(OcpLatency, guid) == 496);
