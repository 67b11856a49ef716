//! ublk: messages between Linux and a program that serves a block device, over io_uring.
//!
//! Source: include/uapi/linux/ublk_cmd.h of Linux 6.12; Documentation/block/ublk.rst. The
//! structures are the kernel's, in the machine's byte order, and have its names. Left out: zoned
//! devices, recovery, devices of users that are not root, zero copy, batches.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Device that accepts control commands.
pub const CONTROL_PATH: &str = "/dev/ublk-control";

/// Returns the number of a command as `_IOR` and `_IOWR` of type 'u' compute it.
const fn ioctl(access: u32, number: u32, bytes: usize) -> u32 {
    access << 30 | (bytes as u32) << 16 | (b'u' as u32) << 8 | number
}

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

const fn control(access: u32, number: u32) -> u32 {
    ioctl(access, number, size_of::<ControlCommand>())
}

const fn io(number: u32) -> u32 {
    ioctl(READ_WRITE, number, size_of::<IoCommand>())
}

/// Control commands, sent to [`CONTROL_PATH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ControlOp {
    /// Writes a [`DeviceInfo`].
    GetDeviceInfo = control(READ, 0x02),
    /// Creates a device from a [`DeviceInfo`], into which the kernel writes the device number.
    AddDevice = control(READ_WRITE, 0x04),
    /// Removes a device; returns when nobody has it open.
    DeleteDevice = control(READ_WRITE, 0x05),
    /// Makes the block device visible; `data` is the server's process ID.
    StartDevice = control(READ_WRITE, 0x06),
    /// Removes the block device, after the hosts' unwritten data is written.
    StopDevice = control(READ_WRITE, 0x07),
    /// Reads [`Params`].
    SetParams = control(READ_WRITE, 0x08),
    /// Writes the flags that this kernel supports, 8 bytes.
    GetFeatures = control(READ, 0x13),
}

/// Value of [`ControlCommand::dev_id`] that lets the kernel choose a number.
pub const ANY_DEVICE: u32 = u32::MAX;
/// Value of [`ControlCommand::queue_id`] for a command that belongs to no queue.
pub const NO_QUEUE: u16 = u16::MAX;

/// Control command, stored in a submission entry of 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
#[expect(missing_docs, reason = "the header's names")]
pub struct ControlCommand {
    pub dev_id: u32,
    pub queue_id: u16,
    /// Bytes of the buffer.
    pub len: u16,
    /// Address of the buffer.
    pub addr: u64,
    pub data: u64,
    pub dev_path_len: u16,
    pub pad: u16,
    pub reserved: u32,
}

/// [`DeviceInfo::flags`]: the server moves data by reading and writing the character device. Since
/// Linux 6.5.
pub const USER_COPY: u64 = 1 << 7;

/// [`DeviceInfo::state`]: the device's server has ended.
pub const STATE_DEAD: u16 = 0;

/// Description of a device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
#[expect(missing_docs, reason = "the header's names")]
pub struct DeviceInfo {
    pub nr_hw_queues: u16,
    pub queue_depth: u16,
    pub state: u16,
    pub pad0: u16,
    pub max_io_buf_bytes: u32,
    pub dev_id: u32,
    pub ublksrv_pid: i32,
    pub pad1: u32,
    pub flags: u64,
    /// Flags for the server's own use, which the kernel only stores.
    pub ublksrv_flags: u64,
    pub owner_uid: u32,
    pub owner_gid: u32,
    pub reserved1: u64,
    pub reserved2: u64,
}

/// [`Params::types`]: the basic and the discard fields are set.
pub const PARAMS_BASIC_AND_DISCARD: u32 = 1 | 1 << 1;
/// [`Params::attrs`]: the device refuses all commands that change data.
pub const ATTR_READ_ONLY: u32 = 1;
/// [`Params::attrs`]: written data is durable only after a flush.
pub const ATTR_VOLATILE_CACHE: u32 = 1 << 2;
/// [`Params::attrs`]: writes may ask for Force Unit Access.
pub const ATTR_FUA: u32 = 1 << 3;

/// Attributes of the block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
#[expect(missing_docs, reason = "the header's names")]
pub struct Params {
    pub len: u32,
    pub types: u32,
    pub attrs: u32,
    pub logical_bs_shift: u8,
    pub physical_bs_shift: u8,
    pub io_opt_shift: u8,
    pub io_min_shift: u8,
    pub max_sectors: u32,
    pub chunk_sectors: u32,
    pub dev_sectors: u64,
    pub virt_boundary_mask: u64,
    pub discard_alignment: u32,
    pub discard_granularity: u32,
    pub max_discard_sectors: u32,
    pub max_write_zeroes_sectors: u32,
    pub max_discard_segments: u16,
    pub reserved: u16,
    /// Padding; belongs to the next part of the kernel's structure, which is not sent.
    pub unused: u32,
}

/// Command of the server for a tag, in a submission entry of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
#[expect(missing_docs, reason = "the header's names")]
pub struct IoCommand {
    pub q_id: u16,
    pub tag: u16,
    /// Number of bytes, or a negative errno.
    pub result: i32,
    pub addr: u64,
}

/// Waits for the first command of a tag.
pub const FETCH: u32 = io(0x20);
/// Completes a tag's command and waits for the next.
pub const COMMIT_AND_FETCH: u32 = io(0x21);

/// Command of the kernel, in the memory that queue and server share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
#[expect(missing_docs, reason = "the header's names")]
pub struct IoDescriptor {
    /// Operation in bits 7:0, flags above.
    pub op_flags: u32,
    pub nr_sectors: u32,
    pub start_sector: u64,
    pub addr: u64,
}

/// Operation that the kernel requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// Data to the host.
    Read,
    /// Data from the host.
    Write {
        /// Force Unit Access.
        fua: bool,
    },
    /// Makes all data durable that was written before.
    Flush,
    /// Discards sectors that are no longer needed.
    Discard,
    /// Writes zeros without sending data.
    WriteZeroes {
        /// Force Unit Access.
        fua: bool,
        /// True if the space must stay allocated.
        no_unmap: bool,
    },
}

impl IoDescriptor {
    /// Returns the operation; `None` for those that a server of this kind never receives.
    pub fn op(&self) -> Option<IoOp> {
        const FUA: u32 = 1 << 13;
        const NO_UNMAP: u32 = 1 << 15;
        let fua = self.op_flags & FUA != 0;
        Some(match self.op_flags & 0xff {
            0 => IoOp::Read,
            1 => IoOp::Write { fua },
            2 => IoOp::Flush,
            3 => IoOp::Discard,
            5 => IoOp::WriteZeroes { fua, no_unmap: self.op_flags & NO_UNMAP != 0 },
            _ => return None,
        })
    }
}

/// Largest depth of a queue, in tags.
const QUEUE_DEPTH_MAX: usize = 4096;

/// Returns offset and length of the mapping of a queue's descriptors in the character device, on a
/// machine with pages of `page_bytes`.
pub fn descriptors(queue: u16, depth: u16, page_bytes: usize) -> (u64, usize) {
    let of = |tags: usize| (tags * size_of::<IoDescriptor>()).next_multiple_of(page_bytes);
    (u64::from(queue) * of(QUEUE_DEPTH_MAX) as u64, of(usize::from(depth)))
}

/// Returns the offset of the data of a tag's command in the character device.
pub fn data_offset(queue: u16, tag: u16) -> u64 {
    0x8000_0000 + (u64::from(queue) << 41 | u64::from(tag) << 25)
}

const _: () = assert!(size_of::<ControlCommand>() == 32);
const _: () = assert!(size_of::<DeviceInfo>() == 64);
const _: () = assert!(size_of::<IoCommand>() == 16);
const _: () = assert!(size_of::<IoDescriptor>() == 24);
const _: () = assert!(std::mem::offset_of!(Params, dev_sectors) == 24);
const _: () = assert!(std::mem::offset_of!(Params, discard_alignment) == 40);
const _: () = assert!(std::mem::offset_of!(Params, unused) == 60);

#[cfg(test)]
#[path = "../tests/unit/ublk.rs"]
mod tests;
