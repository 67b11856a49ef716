//! Queue entries: the command (SQE, 64 bytes), the completion (CQE, 16 bytes), and the data
//! structures that commands refer to.
//!
//! Source: NVM Express base specification 1.4, sections 4.2 to 4.6, 5 and 6.

use zerocopy::little_endian::{U16, U32, U64};

use super::layout::layout;
use super::status::Status;
use crate::codes::codes;

layout! {
    /// Submission queue entry: a command.
    pub struct Sqe: 64 {
        /// Opcode; its command set depends on the queue.
        pub opcode: u8,
        /// Fused operation (bits 1:0), and the type of `dptr`: PRPs (bits 7:6 zero) or an SGL.
        pub flags: u8,
        /// Command identifier, which the host chooses.
        pub cid: U16,
        /// Namespace; for fabrics commands the command type, in the low byte.
        pub nsid: U32,
        [reserved_8: [u8; 16]],
        /// Data pointer: PRP entry 1.
        pub prp1: U64,
        /// Data pointer: PRP entry 2.
        pub prp2: U64,
        /// Command dword 10.
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

    /// Completion queue entry.
    pub struct Cqe: 16 {
        /// Result of the command; 64 bits for fabrics commands.
        pub result: U64,
        /// Head of the submission queue: the controller has taken the commands before it.
        pub sq_head: U16,
        /// Identifier of the command's submission queue.
        pub sq_id: U16,
        /// The command's identifier.
        pub cid: U16,
        /// Phase in bit 0, status in the bits above.
        pub status_and_phase: U16,
    }

    /// Range of a Dataset Management command.
    pub struct DsmRange: 16 {
        /// Access hints; may be ignored.
        pub attributes: U32,
        /// Number of blocks.
        pub blocks: U32,
        /// First block.
        pub lba: U64,
    }

    /// Source range of a Copy command, descriptor format 0.
    pub struct CopyRange: 32 {
        [reserved_0: [u8; 8]],
        /// First block.
        pub lba: U64,
        /// Number of blocks minus one.
        pub blocks_less_one: U16,
        [reserved_18: [u8; 14]],
    }
}

/// SGL (scatter-gather list) descriptor in a command's data pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgl {
    /// Address, or offset into the capsule.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
    /// Kind of the descriptor, which says how to read the address.
    pub kind: SglKind,
}

/// Kinds of SGL descriptors that a controller without local memory needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SglKind {
    /// Data block at an address.
    Address,
    /// Data block in the capsule, at an offset from the end of the command.
    InCapsule,
    /// The transport moves the data.
    Transport,
    /// Any other kind.
    Other(u8),
}

/// Namespace Management, Select (bits 3:0 of command dword 10): create a namespace.
pub const NAMESPACE_CREATE: u32 = 0;

codes! {
    /// Admin commands that drivebay's controller supports.
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

    /// I/O commands that drivebay's controller supports.
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
    /// First block of a read, write, compare or write-zeroes.
    pub fn lba(&self) -> u64 {
        u64::from(self.cdw10.get()) | u64::from(self.cdw11.get()) << 32
    }

    /// Number of blocks: 1 to 65,536.
    pub fn blocks(&self) -> u32 {
        (self.cdw12.get() & 0xffff) + 1
    }

    /// True if the command requests Force Unit Access.
    pub fn is_fua(&self) -> bool {
        self.cdw12.get() & 1 << 30 != 0
    }

    /// Directive Type of a write command; 0 for none.
    pub fn directive(&self) -> u8 {
        (self.cdw12.get() >> 20 & 0xf) as u8
    }

    /// Directive value of a write command: with Data Placement, its placement identifier.
    pub fn directive_value(&self) -> u16 {
        (self.cdw13.get() >> 16) as u16
    }

    /// Get Log Page: endurance group, for the pages that belong to one.
    pub fn log_group(&self) -> u16 {
        (self.cdw11.get() >> 16) as u16
    }

    /// Get Log Page: field that the specification of each page defines (LSP).
    pub fn log_specific(&self) -> u8 {
        (self.cdw10.get() >> 8 & 0x7f) as u8
    }

    /// Identify and Get Log Page: command set identifier (CSI), in bits 31:24 of dword 11 of
    /// Identify, of dword 14 of Get Log Page.
    pub fn command_set(&self) -> u8 {
        let is_log = AdminOpcode::from_code(self.opcode) == Some(AdminOpcode::GetLogPage);
        ((if is_log { self.cdw14 } else { self.cdw11 }).get() >> 24) as u8
    }

    /// Index into the UUID list, which selects the vendor of a vendor-specific meaning; 0 for none.
    pub fn uuid_index(&self) -> u8 {
        (self.cdw14.get() & 0x7f) as u8
    }

    /// Get Log Page: number of bytes, 4 to 16 GiB.
    pub fn log_bytes(&self) -> u64 {
        let dwords = self.cdw10.get() >> 16 | (self.cdw11.get() & 0xffff) << 16;
        (u64::from(dwords) + 1) * 4
    }

    /// Get Log Page: offset of the first byte.
    pub fn log_offset(&self) -> u64 {
        u64::from(self.cdw12.get()) | u64::from(self.cdw13.get()) << 32
    }

    /// Returns the SGL descriptor, if the data pointer is one.
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

    /// Stores a descriptor in the data pointer.
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
    /// Returns a completion of the command `cid`.
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
