//! ATA as AHCI carries it: frames between host and drive, commands and their results.
//!
//! Sources: Serial ATA 3.1 section 10.5 (frame layouts), ATA/ATAPI Command Set 3 (ACS-3). Only what
//! a drive of 2015 needs that is neither packet nor zoned device; PIO data-out is left out.

mod identify;

pub use identify::{Identify, checksummed};

use crate::codes::codes;

/// The drive is ready, "seek complete" as all drives say.
pub const STATUS_READY: u8 = 0x50;
/// A command is in flight.
pub const STATUS_BUSY: u8 = 0x80;
/// The error register says why.
pub const STATUS_ERROR: u8 = 0x01;

/// Why a command failed: the error register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// No such command, or a field does not fit.
    Aborted = 0x04,
    /// The data moved was damaged, or could not be moved: interface CRC.
    Interface = 0x84,
    /// Beyond the end of the drive.
    NotFound = 0x10,
    /// Data could not be read.
    Uncorrectable = 0x40,
}

codes! {
    /// Commands, by their opcode.
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
/// An interrupt is asked for.
const INTERRUPT: u8 = 1 << 6;

/// Register values of a host's frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// A command; otherwise the control register was written.
    pub is_command: bool,
    /// The command's code.
    pub code: u8,
    /// Features, both bytes.
    pub features: u16,
    /// 48 bits.
    pub lba: u64,
    /// Device.
    pub device: u8,
    /// Count, both bytes.
    pub count: u16,
    /// Control: bit 2 resets.
    pub control: u8,
}

impl Command {
    /// Reads a frame.
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

    /// As a frame; for hosts.
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

    /// The address of a command of 28 bits.
    pub fn lba28(&self) -> u64 {
        self.lba & 0x00ff_ffff | u64::from(self.device & 0x0f) << 24
    }

    /// Sectors of a command of 28 bits; 0 stands for the maximum.
    pub fn sectors28(&self) -> u32 {
        if self.count & 0xff == 0 { 0x100 } else { u32::from(self.count & 0xff) }
    }

    /// Sectors of a command of 48 bits; 0 stands for the maximum.
    pub fn sectors48(&self) -> u32 {
        if self.count == 0 { 0x1_0000 } else { u32::from(self.count) }
    }

    /// Sectors of a queued command, whose count lies in the features.
    pub fn sectors_queued(&self) -> u32 {
        if self.features == 0 { 0x1_0000 } else { u32::from(self.features) }
    }

    /// Tag of a queued command.
    pub fn tag(&self) -> u8 {
        self.count as u8 >> 3
    }

    /// Force Unit Access of a queued command.
    pub fn is_fua(&self) -> bool {
        self.device & 0x80 != 0
    }
}

/// Register values of a drive's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status register.
    pub status: u8,
    /// Error register.
    pub error: u8,
    /// 48 bits.
    pub lba: u64,
    /// Device.
    pub device: u8,
    /// Count.
    pub count: u16,
}

impl Answer {
    /// After a reset: a drive that is no packet device.
    pub fn signature() -> Answer {
        Answer { status: STATUS_READY, error: 1, lba: 1, device: 0, count: 1 }
    }

    /// How a command ended.
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

    /// A register frame that asks for an interrupt.
    pub fn frame(&self) -> [u8; FRAME_BYTES] {
        self.fields(DEVICE_TO_HOST, INTERRUPT, self.status)
    }

    /// The frame before data to the host is moved by PIO; the command ends with that data.
    pub fn pio_setup(&self, bytes: u16) -> [u8; FRAME_BYTES] {
        // Data request while it moves, then the last status.
        let mut f = self.fields(PIO_SETUP, INTERRUPT | 1 << 5, STATUS_READY | 1 << 3);
        f[15] = self.status;
        f[16..18].copy_from_slice(&bytes.to_le_bytes());
        f
    }

    /// The register that a signature is read from.
    pub fn signature_register(&self) -> u32 {
        let lba = self.lba.to_le_bytes();
        u32::from_le_bytes([self.count as u8, lba[0], lba[1], lba[2]])
    }
}

/// The frame that ends queued commands: a bit for each tag.
pub fn set_device_bits(done: u32, fault: Option<Fault>) -> [u8; 8] {
    let mut f = [0; 8];
    // Bits 7 and 3 of the status are not carried.
    let status = STATUS_READY & 0x77 | u8::from(fault.is_some());
    (f[0], f[1], f[2], f[3]) =
        (SET_DEVICE_BITS, INTERRUPT, status, fault.map_or(0, |fault| fault as u8));
    f[4..].copy_from_slice(&done.to_le_bytes());
    f
}

/// The log of a queued command that failed (page 10h): its tag, and its registers.
pub fn queued_error_log(tag: u8, answer: &Answer) -> [u8; 512] {
    let mut page = [0; 512];
    let frame = answer.frame();
    page[0] = tag;
    page[2..14].copy_from_slice(&frame[2..14]);
    checksummed(page)
}

/// Ranges of TRIM: first sector, sectors; empty ones are skipped.
pub fn trim_ranges(data: &[u8]) -> impl Iterator<Item = (u64, u32)> + '_ {
    let words = data.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.map(|word| (word & 0xffff_ffff_ffff, (word >> 48) as u32)).filter(|range| range.1 > 0)
}

#[cfg(test)]
#[path = "../tests/unit/ata.rs"]
mod tests;
