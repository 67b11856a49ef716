//! Queue entries: the command (SQE, 64 bytes), the completion (CQE, 16 bytes), and what they point
//! to.
//!
//! Source: NVM Express base specification 1.4, sections 4.2 to 4.6, 5 and 6.

use zerocopy::little_endian::{U16, U32, U64};

use super::layout::layout;
use super::status::Status;
use crate::codes::codes;

layout! { 64:
    /// Submission queue entry: a command.
    pub struct Sqe {
        /// The command's code; its set depends on the queue.
        pub opcode: u8,
        /// Fused operation (bits 1:0), and whether `dptr` holds PRPs (bits 7:6 zero) or an SGL.
        pub flags: u8,
        /// The host's name for it.
        pub cid: U16,
        /// Namespace; for fabrics commands the type of the command, in the low byte.
        pub nsid: U32,
        /// Command dwords 2 and 3.
        pub cdw2: [U32; 2],
        /// Metadata pointer.
        pub mptr: U64,
        /// Data pointer: PRP entry 1.
        pub prp1: U64,
        /// Data pointer: PRP entry 2.
        pub prp2: U64,
        /// Command dword 10, and so on.
        pub cdw10: U32,
        /// Command dword 11.
        pub cdw11: U32,
        /// Command dword 12.
        pub cdw12: U32,
        /// Command dword 13.
        pub cdw13: U32,
        /// Command dword 14.
        pub cdw14: U32,
        /// Command dword 15.
        pub cdw15: U32,
    }
}

layout! { 16:
    /// Completion queue entry.
    pub struct Cqe {
        /// What the command gives back; 64 bits for fabrics commands.
        pub result: U64,
        /// Up to where the controller has taken commands of the submission queue.
        pub sq_head: U16,
        /// Identifier of the submission queue that the command came from.
        pub sq_id: U16,
        /// The command's identifier.
        pub cid: U16,
        /// Phase in bit 0, the status above it.
        pub status_and_phase: U16,
    }
}

layout! { 16:
    /// One range of a Dataset Management command.
    pub struct DsmRange {
        /// Hints of use; may be ignored.
        pub attributes: U32,
        /// Blocks.
        pub blocks: U32,
        /// First block.
        pub lba: U64,
    }
}

layout! { 32:
    /// One source range of a Copy command, descriptor format 0.
    pub struct CopyRange {
        #[doc(hidden)]
        pub reserved_0: [u8; 8],
        /// First block.
        pub lba: U64,
        /// Blocks, less one.
        pub blocks_less_one: U16,
        #[doc(hidden)]
        pub reserved_18: [u8; 14],
    }
}

/// A scatter-gather descriptor, as it stands in a command's data pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgl {
    /// Address, or offset into the capsule.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
    /// How the address is to be read.
    pub kind: SglKind,
}

/// Kinds of scatter-gather descriptors that drives without local memory pointers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SglKind {
    /// Data block at an address.
    Address,
    /// Data block in the capsule, at an offset behind the command.
    InCapsule,
    /// The transport moves the data.
    Transport,
    /// Anything else.
    Other(u8),
}

codes! {
    /// Commands of the admin queue that drivebay's controller knows.
    AdminOpcode {
        DeleteSq = 0x00,
        CreateSq = 0x01,
        GetLogPage = 0x02,
        DeleteCq = 0x04,
        CreateCq = 0x05,
        Identify = 0x06,
        Abort = 0x08,
        SetFeatures = 0x09,
        GetFeatures = 0x0a,
        AsyncEvent = 0x0c,
        NamespaceManagement = 0x0d,
        FirmwareCommit = 0x10,
        FirmwareDownload = 0x11,
        DeviceSelfTest = 0x14,
        NamespaceAttachment = 0x15,
        KeepAlive = 0x18,
        DirectiveSend = 0x19,
        DirectiveReceive = 0x1a,
        Format = 0x80,
        Sanitize = 0x84,
    }
}

/// Namespace Management, Select (bits 3:0 of command dword 10): a namespace is to be made.
pub const NAMESPACE_CREATE: u32 = 0;

codes! {
    /// Commands of the I/O queues that drivebay's controller knows.
    NvmOpcode {
        Flush = 0x00,
        Write = 0x01,
        Read = 0x02,
        WriteUncorrectable = 0x04,
        Compare = 0x05,
        WriteZeroes = 0x08,
        DatasetManagement = 0x09,
        Verify = 0x0c,
        ReservationRegister = 0x0d,
        ReservationReport = 0x0e,
        ReservationAcquire = 0x11,
        IoManagementReceive = 0x12,
        ReservationRelease = 0x15,
        Copy = 0x19,
        IoManagementSend = 0x1d,
        ZoneManagementSend = 0x79,
        ZoneManagementReceive = 0x7a,
        ZoneAppend = 0x7d,
    }
}

impl Sqe {
    /// The first block of a read, write, compare or write-zeroes.
    pub fn lba(&self) -> u64 {
        u64::from(self.cdw10.get()) | u64::from(self.cdw11.get()) << 32
    }

    /// How many blocks: 1 to 65,536.
    pub fn blocks(&self) -> u32 {
        (self.cdw12.get() & 0xffff) + 1
    }

    /// Force Unit Access.
    pub fn is_fua(&self) -> bool {
        self.cdw12.get() & 1 << 30 != 0
    }

    /// Directive Type of a command that writes; 0 for none.
    pub fn directive(&self) -> u8 {
        (self.cdw12.get() >> 20 & 0xf) as u8
    }

    /// What the directive says of a command that writes: with Data Placement, its placement
    /// identifier.
    pub fn directive_value(&self) -> u16 {
        (self.cdw13.get() >> 16) as u16
    }

    /// Get Log Page: of which endurance group, where the page is one of these.
    pub fn log_group(&self) -> u16 {
        (self.cdw11.get() >> 16) as u16
    }

    /// Get Log Page: what the page's own specification says of this request (LSP).
    pub fn log_specific(&self) -> u8 {
        (self.cdw10.get() >> 8 & 0x7f) as u8
    }

    /// Identify and Get Log Page: the command set that is asked about (CSI): bits 31:24 of dword 11
    /// of Identify, of dword 14 of Get Log Page.
    pub fn command_set(&self) -> u8 {
        let is_log = AdminOpcode::of(self.opcode) == Some(AdminOpcode::GetLogPage);
        ((if is_log { self.cdw14 } else { self.cdw11 }).get() >> 24) as u8
    }

    /// Which entry of the UUID list says whose vendor-specific meaning is asked for; 0 for none.
    pub fn uuid_index(&self) -> u8 {
        (self.cdw14.get() & 0x7f) as u8
    }

    /// Get Log Page: how many bytes, 4 to 16 GiB.
    pub fn log_bytes(&self) -> u64 {
        let dwords = self.cdw10.get() >> 16 | (self.cdw11.get() & 0xffff) << 16;
        (u64::from(dwords) + 1) * 4
    }

    /// Get Log Page: from which byte on.
    pub fn log_offset(&self) -> u64 {
        u64::from(self.cdw12.get()) | u64::from(self.cdw13.get()) << 32
    }

    /// Where the data is, if the data pointer is an SGL descriptor.
    pub fn sgl(&self) -> Sgl {
        let bytes = self.prp2.get();
        let kind = match (bytes >> 56) as u8 {
            0x00 => SglKind::Address,
            0x01 => SglKind::InCapsule,
            0x5a => SglKind::Transport,
            other => SglKind::Other(other),
        };
        Sgl { address: self.prp1.get(), bytes: bytes as u32, kind }
    }

    /// Puts a descriptor into the data pointer.
    pub fn set_sgl(&mut self, sgl: Sgl) {
        let kind = match sgl.kind {
            SglKind::Address => 0x00,
            SglKind::InCapsule => 0x01,
            SglKind::Transport => 0x5a,
            SglKind::Other(code) => code,
        };
        self.flags = self.flags & 0x3f | 0x40;
        self.prp1 = sgl.address.into();
        self.prp2 = (u64::from(sgl.bytes) | u64::from(kind) << 56).into();
    }
}

impl Cqe {
    /// A completion of this command.
    pub fn new(cid: u16, status: Status, result: u64) -> Cqe {
        let mut cqe = Cqe { cid: cid.into(), result: result.into(), ..Cqe::default() };
        cqe.status_and_phase = (status.0 << 1).into();
        cqe
    }

    /// Status code and its type.
    pub fn status(&self) -> Status {
        Status(self.status_and_phase.get() >> 1)
    }
}
