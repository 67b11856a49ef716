//! Fabrics: Connect, properties, and the discovery log.
//!
//! Source: NVMe over Fabrics 1.1, sections 3 (commands), 3.5 (properties) and 5.3 (discovery log).

use zerocopy::little_endian::{U16, U64};

use super::entry::Sqe;
use super::layout::layout;
use crate::codes::codes;

/// Opcode of all fabrics commands.
pub const OPCODE_FABRICS: u8 = 0x7f;

/// Name of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Connect: the host accepts any controller.
pub const CONNECT_CNTLID_ANY: u16 = 0xffff;

/// Bit in the result of Connect: the queue must be authenticated before other commands.
pub const CONNECT_AUTHENTICATE: u32 = 1 << 17;

/// Fabrics command with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricsType {
    /// Writes a property.
    PropertySet {
        /// Property, as the offset of the controller register.
        offset: u32,
        /// True for eight bytes, false for four.
        is_wide: bool,
        /// Value to write.
        value: u64,
    },
    /// Creates a queue.
    Connect {
        /// Record format of the command; 0.
        format: u16,
        /// Queue identifier; 0 is the admin queue.
        queue: u16,
        /// Entries of the submission queue, minus one.
        entries_less_one: u16,
        /// Bit 2: no flow control of the submission queue.
        attributes: u8,
        /// Keep-alive timeout, milliseconds; 0 for none.
        keep_alive_ms: u32,
    },
    /// Reads a property.
    PropertyGet {
        /// Property, as the offset of the controller register.
        offset: u32,
        /// True for eight bytes, false for four.
        is_wide: bool,
    },
    /// Sends a message of the host for its authentication.
    AuthenticationSend {
        /// Security protocol; see [`super::SECURITY_PROTOCOL`].
        protocol: u32,
        /// Bytes of the message.
        bytes: u32,
    },
    /// Receives a message of the controller for the authentication.
    AuthenticationReceive {
        /// Security protocol.
        protocol: u32,
        /// Most bytes that the host accepts.
        bytes: u32,
    },
    /// Deletes a queue.
    Disconnect,
    /// Any other type.
    Other(u8),
}

impl FabricsType {
    /// Parses a command whose opcode is [`OPCODE_FABRICS`].
    pub fn from_sqe(sqe: &Sqe) -> FabricsType {
        let (offset, is_wide) = (sqe.cdw11.get(), sqe.cdw10.get() & 7 == 1);
        match sqe.nsid.get() as u8 {
            0x00 => {
                let value = u64::from(sqe.cdw12.get()) | u64::from(sqe.cdw13.get()) << 32;
                FabricsType::PropertySet { offset, is_wide, value }
            }
            0x01 => FabricsType::Connect {
                format: sqe.cdw10.get() as u16,
                queue: (sqe.cdw10.get() >> 16) as u16,
                entries_less_one: sqe.cdw11.get() as u16,
                attributes: (sqe.cdw11.get() >> 16) as u8,
                keep_alive_ms: sqe.cdw12.get(),
            },
            0x04 => FabricsType::PropertyGet { offset, is_wide },
            0x05 => FabricsType::AuthenticationSend { protocol: sqe.cdw10.get(), bytes: offset },
            0x06 => FabricsType::AuthenticationReceive { protocol: sqe.cdw10.get(), bytes: offset },
            0x08 => FabricsType::Disconnect,
            other => FabricsType::Other(other),
        }
    }

    /// Returns the submission queue entry of the command.
    pub fn to_sqe(self, cid: u16) -> Sqe {
        let mut sqe = Sqe { opcode: OPCODE_FABRICS, cid: cid.into(), ..Sqe::default() };
        let code = match self {
            FabricsType::PropertySet { offset, is_wide, value } => {
                sqe.cdw10 = u32::from(is_wide).into();
                sqe.cdw11 = offset.into();
                sqe.cdw12 = (value as u32).into();
                sqe.cdw13 = ((value >> 32) as u32).into();
                0x00
            }
            FabricsType::Connect { format, queue, entries_less_one, attributes, keep_alive_ms } => {
                sqe.cdw10 = (u32::from(format) | u32::from(queue) << 16).into();
                sqe.cdw11 = (u32::from(entries_less_one) | u32::from(attributes) << 16).into();
                sqe.cdw12 = keep_alive_ms.into();
                0x01
            }
            FabricsType::PropertyGet { offset, is_wide } => {
                sqe.cdw10 = u32::from(is_wide).into();
                sqe.cdw11 = offset.into();
                0x04
            }
            FabricsType::AuthenticationSend { protocol, bytes }
            | FabricsType::AuthenticationReceive { protocol, bytes } => {
                (sqe.cdw10, sqe.cdw11) = (protocol.into(), bytes.into());
                if matches!(self, FabricsType::AuthenticationSend { .. }) { 0x05 } else { 0x06 }
            }
            FabricsType::Disconnect => 0x08,
            FabricsType::Other(code) => code,
        };
        sqe.nsid = u32::from(code).into();
        sqe
    }
}

codes! {
    /// Controller properties, by the offset of the corresponding PCIe register.
    Property {
        Capabilities = 0x00,
        Version = 0x08,
        Configuration = 0x14,
        Status = 0x1c,
        SubsystemReset = 0x20,
        ReadyTimeouts = 0x68,
    }
}

impl Property {
    /// True if the property has eight bytes, false for four.
    pub fn is_wide(self) -> bool {
        self == Property::Capabilities
    }
}

layout! {
    /// Data of a Connect command, 1,024 bytes.
    pub struct ConnectData: 1024 {
        /// Host identifier.
        pub host_id: [u8; 16],
        /// Controller identifier: [`CONNECT_CNTLID_ANY`] for the admin queue.
        pub controller: U16,
        [reserved_18: [u8; 238]],
        /// Name of the subsystem.
        pub subsystem_nqn: [u8; 256],
        /// Name of the host.
        pub host_nqn: [u8; 256],
        [reserved_768: [u8; 256]],
    }

    /// Header of the discovery log, 1,024 bytes.
    pub struct DiscoveryHeader: 1024 {
        /// Generation, which counts the changes of the log.
        pub generation: U64,
        /// Entries that follow.
        pub records: U64,
        /// Record format; 0.
        pub format: U16,
        [reserved_18: [u8; 1006]],
    }

    /// Entry of the discovery log, 1,024 bytes.
    pub struct DiscoveryEntry: 1024 {
        /// See [`TRANSPORT_TCP`].
        pub transport: u8,
        /// 1 for IPv4, 2 for IPv6.
        pub address_family: u8,
        /// See [`SUBSYSTEM_NVM`].
        pub subsystem_type: u8,
        /// Bits 1:0: secure channel, 2 for "not required".
        pub requirements: u8,
        /// Port identifier of the subsystem.
        pub port: U16,
        /// Controller identifier; all ones for any.
        pub controller: U16,
        /// Most entries of the admin submission queue.
        pub admin_entries_max: U16,
        [reserved_10: [u8; 22]],
        /// TCP port, as text.
        pub service: [u8; 32],
        [reserved_64: [u8; 192]],
        /// The subsystem's name.
        pub subsystem_nqn: [u8; 256],
        /// Address, as text.
        pub address: [u8; 256],
        /// Byte 0: security, 0 for none.
        pub transport_specific: [u8; 256],
    }
}

/// Subsystem type in the discovery log: a subsystem with namespaces.
pub const SUBSYSTEM_NVM: u8 = 2;
/// Transport type in the discovery log.
pub const TRANSPORT_TCP: u8 = 3;

const _: () = assert!(std::mem::offset_of!(ConnectData, host_nqn) == 512);

/// Returns the name in a field of 256 bytes: at most 223 bytes of UTF-8 that end with a zero. It
/// may be empty: SPDK's perf connects without a host name, and SPDK's target accepts that.
pub fn nqn_of(field: &[u8; 256]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0)?;
    let name = std::str::from_utf8(&field[..end]).ok()?;
    (name.len() <= 223).then_some(name)
}

/// Returns text in a field of fixed length, padded with zeros, or truncated.
pub fn padded_nqn<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from;
    }
    field
}
