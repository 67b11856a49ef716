//! Identify data: descriptions of a controller and a namespace.
//!
//! Sources: NVM Express base specification and NVM command set specification 2.0, Identify; fabrics
//! fields: NVMe over Fabrics 1.1.

use zerocopy::little_endian::{U16, U32, U64, U128};

use super::layout::layout;
use crate::codes::codes;

codes! {
    /// Data structure that Identify returns (CNS, bits 7:0 of command dword 10).
    Cns {
        Namespace = 0,
        Controller = 1,
        ActiveNamespaces = 2,
        NamespaceNames = 3,
        CommandSetNamespace = 5,
        CommandSetController = 6,
        CommandSetNamespaces = 7,
        IndependentNamespace = 8,
        AllocatedNamespaces = 0x10,
        AllocatedNamespace = 0x11,
        AttachedControllers = 0x12,
        Controllers = 0x13,
        Uuids = 0x17,
        EnduranceGroups = 0x19,
        CommandSetAllocatedNamespaces = 0x1a,
        CommandSetAllocatedNamespace = 0x1b,
        CommandSets = 0x1c,
    }
}

/// Most identifiers in a controller list; their number precedes them.
pub const CONTROLLER_LIST_MAX: usize = 2047;

/// Type of a namespace identifier: IEEE EUI-64, 8 bytes.
pub const NID_EUI64: u8 = 1;
/// Type of a namespace identifier: command set identifier, 1 byte.
pub const NID_COMMAND_SET: u8 = 4;
/// Command set identifier of the NVM command set.
pub const COMMAND_SET_NVM: u8 = 0;

layout! {
    /// Identify Controller, 4,096 bytes. Fields have the specification's names.
    #[expect(missing_docs, reason = "the specification's names; section 5.15.2.2 explains each")]
    pub struct IdentifyController: 4096 {
        pub vid: U16,
        pub ssvid: U16,
        pub sn: [u8; 20],
        pub mn: [u8; 40],
        pub fr: [u8; 8],
        pub rab: u8,
        pub ieee: [u8; 3],
        pub cmic: u8,
        pub mdts: u8,
        pub cntlid: U16,
        pub ver: U32,
        pub rtd3r: U32,
        pub rtd3e: U32,
        pub oaes: U32,
        pub ctratt: U32,
        [reserved_100: [u8; 11]],
        pub cntrltype: u8,
        [reserved_112: [u8; 144]],
        pub oacs: U16,
        pub acl: u8,
        pub aerl: u8,
        pub frmw: u8,
        pub lpa: u8,
        pub elpe: u8,
        pub npss: u8,
        pub avscc: u8,
        pub apsta: u8,
        pub wctemp: U16,
        pub cctemp: U16,
        [reserved_270: [u8; 10]],
        pub tnvmcap: U128,
        pub unvmcap: U128,
        pub rpmbs: U32,
        pub edstt: U16,
        pub dsto: u8,
        pub fwug: u8,
        pub kas: U16,
        [reserved_322: [u8; 6]],
        pub sanicap: U32,
        [reserved_332: [u8; 8]],
        pub endgidmax: U16,
        pub anatt: u8,
        pub anacap: u8,
        pub anagrpmax: U32,
        pub nanagrpid: U32,
        pub pels: U32,
        [reserved_356: [u8; 156]],
        pub sqes: u8,
        pub cqes: u8,
        pub maxcmd: U16,
        pub nn: U32,
        pub oncs: U16,
        pub fuses: U16,
        pub fna: u8,
        pub vwc: u8,
        pub awun: U16,
        pub awupf: U16,
        [reserved_530: [u8; 4]],
        pub ocfs: U16,
        pub sgls: U32,
        pub mnan: U32,
        [reserved_544: [u8; 224]],
        pub subnqn: [u8; 256],
        [reserved_1024: [u8; 768]],
        pub ioccsz: U32,
        pub iorcsz: U32,
        [reserved_1800: [u8; 3]],
        pub msdbd: u8,
        [reserved_1804: [u8; 244]],
        pub psd: [PowerState; 32],
        pub vs: [u8; 1024],
    }

    /// Power state descriptor.
    pub struct PowerState: 32 {
        /// Maximum power in units of 10 mW, or of 0.1 mW if bit 0 of `flags` is set.
        pub max_power: U16,
        [reserved_2: u8],
        /// Bit 0: unit of `max_power`; bit 1: non-operational state (no I/O).
        pub flags: u8,
        /// Entry latency, microseconds.
        pub entry_us: U32,
        /// Exit latency, microseconds.
        pub exit_us: U32,
        /// Relative read throughput, read latency, write throughput and write latency; 0 is best.
        pub relative: [u8; 4],
        [reserved_16: [u8; 16]],
    }

    /// Identify Namespace, 4,096 bytes. Fields have the specification's names.
    #[expect(missing_docs, reason = "the specification's names; section 5.15.2.1 explains each")]
    pub struct IdentifyNamespace: 4096 {
        pub nsze: U64,
        pub ncap: U64,
        pub nuse: U64,
        pub nsfeat: u8,
        pub nlbaf: u8,
        pub flbas: u8,
        [reserved_27: [u8; 2]],
        pub dps: u8,
        pub nmic: u8,
        pub rescap: u8,
        pub fpi: u8,
        pub dlfeat: u8,
        [reserved_34: [u8; 14]],
        pub nvmcap: U128,
        pub npwg: U16,
        pub npwa: U16,
        pub npdg: U16,
        pub npda: U16,
        pub nows: U16,
        pub mssrl: U16,
        pub mcl: U32,
        pub msrc: u8,
        [reserved_81: [u8; 11]],
        pub anagrpid: U32,
        [reserved_96: [u8; 3]],
        pub nsattr: u8,
        pub nvmsetid: U16,
        pub endgid: U16,
        pub nguid: [u8; 16],
        pub eui64: [u8; 8],
        pub lbaf: [LbaFormat; 16],
        [reserved_192: [u8; 3904]],
    }

    /// Identify Controller of the NVM command set, 4,096 bytes: limits of its commands, as powers
    /// of two of 4 KiB.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct IdentifyNvmController: 4096 {
        pub vsl: u8,
        pub wzsl: u8,
        [reserved_2: [u8; 4094]],
    }

    /// Identify Namespace for all command sets, 4,096 bytes.
    #[expect(missing_docs, reason = "the specification's names")]
    pub struct IdentifyIndependentNamespace: 4096 {
        pub nsfeat: u8,
        pub nmic: u8,
        pub rescap: u8,
        pub fpi: u8,
        pub anagrpid: U32,
        pub nsattr: u8,
        [reserved_9: [u8; 3]],
        pub endgid: U16,
        /// Bit 0: ready.
        pub nstat: u8,
        [reserved_15: [u8; 4081]],
    }

    /// LBA format: bytes of a block.
    pub struct LbaFormat: 4 {
        /// Metadata bytes.
        pub metadata_bytes: U16,
        /// Data bytes, as a power of two.
        pub data_shift: u8,
        /// Relative performance; 0 is best.
        pub relative_performance: u8,
    }
}

const _: () = assert!(std::mem::offset_of!(IdentifyController, oacs) == 256);
const _: () = assert!(std::mem::offset_of!(IdentifyController, pels) == 352);
const _: () = assert!(std::mem::offset_of!(IdentifyController, sqes) == 512);
const _: () = assert!(std::mem::offset_of!(IdentifyNamespace, nsattr) == 99);
const _: () = assert!(std::mem::offset_of!(IdentifyController, subnqn) == 768);
const _: () = assert!(std::mem::offset_of!(IdentifyController, ioccsz) == 1792);
const _: () = assert!(std::mem::offset_of!(IdentifyController, psd) == 2048);
const _: () = assert!(std::mem::offset_of!(IdentifyNamespace, nguid) == 104);
const _: () = assert!(std::mem::offset_of!(IdentifyNamespace, lbaf) == 128);

impl PowerState {
    /// Returns a power state; power below 1 W is stored in the finer unit.
    pub fn new(max_mw: u32, entry_us: u32, exit_us: u32, operational: bool) -> PowerState {
        let fine = max_mw < 1000;
        let power = if fine { max_mw * 10 } else { max_mw / 10 };
        PowerState {
            max_power: u16::try_from(power).unwrap_or(u16::MAX).into(),
            flags: u8::from(fine) | u8::from(!operational) << 1,
            entry_us: entry_us.into(),
            exit_us: exit_us.into(),
            ..PowerState::default()
        }
    }
}

/// Returns text in a field of fixed length, padded with spaces, or truncated.
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    field
}
