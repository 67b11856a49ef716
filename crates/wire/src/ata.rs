//! ATA over AHCI: frames between host and drive, commands and their results.
//!
//! Sources: Serial ATA 3.1 section 10.5 (frame layouts), ATA/ATAPI Command Set 3 (ACS-3). Covers
//! the needs of a drive of 2015 that is neither a packet device nor a zoned device; PIO data-out is
//! left out.

mod identify;

pub use identify::{Identify, checksummed};

use crate::codes::codes;

/// Status: the drive is ready. Includes "seek complete", as all drives report it.
pub const STATUS_READY: u8 = 0x50;
/// Status: a command is in flight.
pub const STATUS_BUSY: u8 = 0x80;
/// Status: the command failed; the error register has the reason.
pub const STATUS_ERROR: u8 = 0x01;

/// Error register: the reason for which a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Unknown command, or an invalid field.
    Aborted = 0x04,
    /// Data was damaged on the link, or could not be transferred: interface CRC.
    Interface = 0x84,
    /// Address beyond the end of the drive.
    NotFound = 0x10,
    /// Data could not be read.
    Uncorrectable = 0x40,
}

codes! {
    /// Opcodes of commands.
    Opcode {
        DataSetManagement = 0x06,
        ReadSectors = 0x20,
        ReadSectorsExt = 0x24,
        ReadDmaExt = 0x25,
        ReadLogExt = 0x2f,
        WriteDmaExt = 0x35,
        WriteDmaFuaExt = 0x3d,
        ReadVerify = 0x40,
        ReadVerifyExt = 0x42,
        ReadLogDmaExt = 0x47,
        ReadQueued = 0x60,
        WriteQueued = 0x61,
        Smart = 0xb0,
        ReadDma = 0xc8,
        WriteDma = 0xca,
        StandbyImmediate = 0xe0,
        IdleImmediate = 0xe1,
        CheckPowerMode = 0xe5,
        FlushCache = 0xe7,
        FlushCacheExt = 0xea,
        IdentifyDevice = 0xec,
        SetFeatures = 0xef,
    }
}

/// Bytes of a register frame.
pub const FRAME_BYTES: usize = 20;
const HOST_TO_DEVICE: u8 = 0x27;
const DEVICE_TO_HOST: u8 = 0x34;
const PIO_SETUP: u8 = 0x5f;
const SET_DEVICE_BITS: u8 = 0xa1;
/// Requests an interrupt.
const INTERRUPT: u8 = 1 << 6;

/// Register values of a frame from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// True for a command; false if the host wrote the control register.
    pub is_command: bool,
    /// Opcode of the command.
    pub code: u8,
    /// Features register, both bytes.
    pub features: u16,
    /// Address, 48 bits.
    pub lba: u64,
    /// Device register.
    pub device: u8,
    /// Count register, both bytes.
    pub count: u16,
    /// Control register; bit 2 resets the drive.
    pub control: u8,
}

impl Command {
    /// Parses a frame; `None` if it is of another type.
    pub fn parse(frame: &[u8; FRAME_BYTES]) -> Option<Command> {
        let f = frame;
        (f[0] == HOST_TO_DEVICE).then(|| Command {
            is_command: f[1] & 0x80 != 0,
            code: f[2],
            features: u16::from_le_bytes([f[3], f[11]]),
            lba: u64::from_le_bytes([f[4], f[5], f[6], f[8], f[9], f[10], 0, 0]),
            device: f[7],
            count: u16::from_le_bytes([f[12], f[13]]),
            control: f[15],
        })
    }

    /// Returns the frame; for hosts.
    pub fn frame(&self) -> [u8; FRAME_BYTES] {
        let (features, count) = (self.features.to_le_bytes(), self.count.to_le_bytes());
        let lba = self.lba.to_le_bytes();
        let mut f = [0; FRAME_BYTES];
        (f[0], f[1]) = (HOST_TO_DEVICE, u8::from(self.is_command) << 7);
        (f[2], f[3], f[7], f[11]) = (self.code, features[0], self.device, features[1]);
        f[4..7].copy_from_slice(&lba[..3]);
        f[8..11].copy_from_slice(&lba[3..6]);
        f[12..14].copy_from_slice(&count);
        f[15] = self.control;
        f
    }

    /// Address of a 28-bit command.
    pub fn lba28(&self) -> u64 {
        self.lba & 0x00ff_ffff | u64::from(self.device & 0x0f) << 24
    }

    /// Sectors of a 28-bit command; a count of 0 means the maximum.
    pub fn sectors28(&self) -> u32 {
        if self.count & 0xff == 0 { 0x100 } else { u32::from(self.count & 0xff) }
    }

    /// Sectors of a 48-bit command; a count of 0 means the maximum.
    pub fn sectors48(&self) -> u32 {
        if self.count == 0 { 0x1_0000 } else { u32::from(self.count) }
    }

    /// Sectors of a queued command, whose count is in the features register.
    pub fn sectors_queued(&self) -> u32 {
        if self.features == 0 { 0x1_0000 } else { u32::from(self.features) }
    }

    /// Tag of a queued command.
    pub fn tag(&self) -> u8 {
        self.count as u8 >> 3
    }

    /// True if a queued command requests Force Unit Access.
    pub fn is_fua(&self) -> bool {
        self.device & 0x80 != 0
    }
}

/// Register values of a frame from the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status register.
    pub status: u8,
    /// Error register.
    pub error: u8,
    /// Address, 48 bits.
    pub lba: u64,
    /// Device register.
    pub device: u8,
    /// Count register.
    pub count: u16,
}

impl Answer {
    /// Registers after a reset: the signature of a drive that is not a packet device.
    pub fn signature() -> Answer {
        Answer { status: STATUS_READY, error: 1, lba: 1, device: 0, count: 1 }
    }

    /// Result of a command.
    pub fn to(command: &Command, fault: Option<Fault>) -> Answer {
        let error = fault.map_or(0, |fault| fault as u8);
        let status = STATUS_READY | if fault.is_some() { STATUS_ERROR } else { 0 };
        let Command { lba, device, count, .. } = *command;
        Answer { status, error, lba, device, count }
    }

    fn fields(&self, kind: u8, flags: u8, status: u8) -> [u8; FRAME_BYTES] {
        let lba = self.lba.to_le_bytes();
        let mut f = [0; FRAME_BYTES];
        (f[0], f[1], f[2], f[3], f[7]) = (kind, flags, status, self.error, self.device);
        f[4..7].copy_from_slice(&lba[..3]);
        f[8..11].copy_from_slice(&lba[3..6]);
        f[12..14].copy_from_slice(&self.count.to_le_bytes());
        f
    }

    /// Returns a register frame that requests an interrupt.
    pub fn frame(&self) -> [u8; FRAME_BYTES] {
        self.fields(DEVICE_TO_HOST, INTERRUPT, self.status)
    }

    /// Returns the PIO Setup frame before data to the host; the command ends with that data.
    pub fn pio_setup(&self, bytes: u16) -> [u8; FRAME_BYTES] {
        // The status is "data request" during the transfer; the final status follows in byte 15.
        let mut f = self.fields(PIO_SETUP, INTERRUPT | 1 << 5, STATUS_READY | 1 << 3);
        f[15] = self.status;
        f[16..18].copy_from_slice(&bytes.to_le_bytes());
        f
    }

    /// Value of the register from which a host reads the signature.
    pub fn signature_register(&self) -> u32 {
        let lba = self.lba.to_le_bytes();
        u32::from_le_bytes([self.count as u8, lba[0], lba[1], lba[2]])
    }
}

/// Returns the frame that completes queued commands: one bit for each tag.
pub fn set_device_bits(done: u32, fault: Option<Fault>) -> [u8; 8] {
    let mut f = [0; 8];
    // The frame carries no bits 7 and 3 of the status.
    let status = STATUS_READY & 0x77 | u8::from(fault.is_some());
    (f[0], f[1], f[2], f[3]) =
        (SET_DEVICE_BITS, INTERRUPT, status, fault.map_or(0, |fault| fault as u8));
    f[4..].copy_from_slice(&done.to_le_bytes());
    f
}

/// Returns the log of a failed queued command (page 10h): its tag and its registers.
pub fn queued_error_log(tag: u8, answer: &Answer) -> [u8; 512] {
    let mut page = [0; 512];
    let frame = answer.frame();
    page[0] = tag;
    page[2..14].copy_from_slice(&frame[2..14]);
    checksummed(page)
}

/// Returns the ranges of a TRIM as first sector and number of sectors, without empty ones.
pub fn trim_ranges(data: &[u8]) -> impl Iterator<Item = (u64, u32)> + '_ {
    let words = data.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.map(|word| (word & 0xffff_ffff_ffff, (word >> 48) as u32)).filter(|range| range.1 > 0)
}

#[cfg(test)]
#[path = "../tests/unit/ata.rs"]
mod tests;
