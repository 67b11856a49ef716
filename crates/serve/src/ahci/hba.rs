//! Registers of the controller and of its only port.
//!
//! This file does not access memory, drive or interrupts: functions return the actions for the
//! caller. Source: AHCI 1.3.1, sections 3, 5 and 10; only for AHCI (CAP.SAM), 32 slots, 64-bit
//! addresses.

use drivebay_wire::ata::{Answer, STATUS_BUSY, STATUS_ERROR};

/// Bytes of the registers: the controller's, and those of one port.
pub(super) const REGISTER_BYTES: usize = 0x180;
const PORT: usize = 0x100;
/// Slots of the command list.
pub(super) const SLOTS: usize = 32;

/// 64-bit addresses, native command queueing, CLO, 6 Gbit/s, AHCI only, 32 slots, 1 port.
const CAP: u32 = 1 << 31 | 1 << 30 | 1 << 24 | 3 << 20 | 1 << 18 | 31 << 8;
const VERSION: u32 = 0x0001_0301;
const GHC_RESET: u32 = 1;
const GHC_INTERRUPTS: u32 = 1 << 1;
const GHC_AHCI: u32 = 1 << 31;

const CMD_START: u32 = 1;
const CMD_CLEAR_BUSY: u32 = 1 << 3;
const CMD_FRAMES: u32 = 1 << 4;
/// Writable bits of PxCMD: start, frames, aggressive power management.
const CMD_KEPT: u32 = CMD_START | CMD_FRAMES | 3 << 26;
/// Spun up and powered on, always.
const CMD_ON: u32 = 1 << 1 | 1 << 2;

/// PxIS: a register frame was received.
pub(super) const IS_REGISTERS: u32 = 1;
/// PxIS: a PIO setup frame was received.
pub(super) const IS_PIO: u32 = 1 << 1;
/// PxIS: a set device bits frame was received.
pub(super) const IS_BITS: u32 = 1 << 3;
const IS_LINK: u32 = 1 << 22;
const IS_HOST_BUS: u32 = 1 << 29;
const IS_TASK_FILE: u32 = 1 << 30;

/// A device is connected, at 6 Gbit/s, active.
const LINK_UP: u32 = 0x133;
/// SERR: the link was down.
const LINK_CHANGED: u32 = 1 << 16;

/// Effect of a register write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteEffect {
    /// True if there may be commands to take, or a signature to send.
    pub work: bool,
    /// True if an interrupt must be raised.
    pub interrupt: bool,
}

/// Registers, and further state of the controller.
#[derive(Default)]
pub(super) struct Hba {
    interrupts: bool,
    pending: bool,
    list: u64,
    frames: u64,
    status: u32,
    enabled: u32,
    command: u32,
    task_file: u32,
    signature: u32,
    link: u32,
    control: u32,
    errors: u32,
    active: u32,
    issued: u32,
    /// Slots taken from the list since they were issued.
    taken: u32,
    /// Slot of a command that is not queued, which excludes others.
    busy: Option<usize>,
    /// Last slot that was taken (round robin).
    last: usize,
    /// True if no more commands are taken until the host has stopped the port.
    halted: bool,
    /// True if the drive must still send its signature.
    is_signature_due: bool,
    /// Counter of events that abort the commands in flight.
    epoch: u32,
}

impl Hba {
    /// State after power-on.
    pub fn new() -> Hba {
        Hba {
            task_file: 0x7f,
            signature: u32::MAX,
            link: LINK_UP,
            last: SLOTS - 1,
            is_signature_due: true,
            ..Hba::default()
        }
    }

    /// Resets to the state after power-on.
    pub fn reset(&mut self) {
        *self = Hba { epoch: self.epoch.wrapping_add(1), ..Hba::new() };
    }

    /// Address of the command list.
    pub fn list(&self) -> u64 {
        self.list
    }

    /// Address for received frames; `None` while the host does not receive any.
    pub fn frames(&self) -> Option<u64> {
        (self.command & CMD_FRAMES != 0).then_some(self.frames)
    }

    /// Current epoch; commands of an earlier epoch were aborted.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Register values as a host reads them.
    pub fn image(&self) -> [u8; REGISTER_BYTES] {
        let ghc = GHC_AHCI | if self.interrupts { GHC_INTERRUPTS } else { 0 };
        let started = self.command & CMD_START != 0;
        let running = self.command & CMD_FRAMES != 0;
        let command = self.command
            | CMD_ON
            | u32::from(running) << 14
            | u32::from(started) << 15
            | (self.last as u32) << 8;
        let mut image = [0; REGISTER_BYTES];
        let mut put = |at: usize, value: u32| {
            image[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(0x00, CAP);
        put(0x04, ghc);
        put(0x08, self.pending.into());
        put(0x0c, 1);
        put(0x10, VERSION);
        let port = [
            self.list as u32,
            (self.list >> 32) as u32,
            self.frames as u32,
            (self.frames >> 32) as u32,
            self.status,
            self.enabled,
            command,
            0,
            self.task_file,
            self.signature,
            self.link,
            self.control,
            self.errors,
            self.active,
            self.issued,
        ];
        for (i, value) in port.into_iter().enumerate() {
            put(PORT + 4 * i, value);
        }
        image
    }

    /// Handles a register write of the host.
    pub fn write(&mut self, offset: u64, value: u32) -> WriteEffect {
        let low = |old: u64, mask: u32| old & !0xffff_ffff | u64::from(value & mask);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        let mut work = false;
        match offset {
            0x04 if value & GHC_RESET != 0 => {
                self.reset();
                work = true;
            }
            0x04 => self.interrupts = value & GHC_INTERRUPTS != 0,
            0x08 => self.pending &= value & 1 == 0,
            0x100 => self.list = low(self.list, !0x3ff),
            0x104 => self.list = high(self.list),
            0x108 => self.frames = low(self.frames, !0xff),
            0x10c => self.frames = high(self.frames),
            0x110 => self.status &= !value,
            0x114 => self.enabled = value,
            0x118 => work = self.command(value),
            0x12c => work = self.control(value),
            0x130 => self.errors &= !value,
            0x134 if self.command & CMD_START != 0 => self.active |= value,
            0x138 if self.command & CMD_START != 0 => {
                self.issued |= value;
                work = true;
            }
            _ => {}
        }
        WriteEffect { work, interrupt: self.latch() }
    }

    fn command(&mut self, value: u32) -> bool {
        let was = self.command;
        if value & CMD_CLEAR_BUSY != 0 {
            self.task_file &= !0x88;
        }
        self.command = value & CMD_KEPT;
        if was & CMD_START != 0 && value & CMD_START == 0 {
            self.abort_all();
            (self.issued, self.active) = (0, 0);
        }
        true
    }

    /// Handles a write of SControl: DET 1 resets the link, which comes back with 0.
    fn control(&mut self, value: u32) -> bool {
        let (was, now) = (self.control & 0xf, value & 0xf);
        self.control = value & 0xfff;
        match (was, now) {
            (_, 1) => {
                self.abort_all();
                (self.link, self.task_file) = (0, 0x7f);
            }
            (_, 4) => {
                self.abort_all();
                self.link = 4;
            }
            (1 | 4, 0) => {
                self.link = LINK_UP;
                self.task_file = u32::from(STATUS_BUSY);
                self.is_signature_due = true;
                return true;
            }
            _ => {}
        }
        false
    }

    /// Aborts all commands in flight, which never complete.
    fn abort_all(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        (self.taken, self.busy, self.halted) = (0, None, false);
        self.last = SLOTS - 1;
    }

    /// Updates IS from PxIS; returns true if an interrupt must be raised.
    fn latch(&mut self) -> bool {
        let before = self.pending;
        self.pending |= self.status & self.enabled != 0;
        self.pending && !before && self.interrupts
    }

    /// Sets bits of PxIS; returns true if an interrupt must be raised.
    #[must_use]
    pub fn raise(&mut self, bits: u32) -> bool {
        self.status |= bits;
        self.pending |= self.status & self.enabled != 0;
        bits & self.enabled != 0 && self.interrupts
    }

    // --- for the event loop ---

    /// Takes the drive's signature, once after a reset, when the host receives frames.
    pub fn take_signature(&mut self) -> Option<Answer> {
        if !self.is_signature_due || self.command & CMD_FRAMES == 0 || self.link != LINK_UP {
            return None;
        }
        self.is_signature_due = false;
        let answer = Answer::signature();
        self.signature = answer.signature_register();
        self.set_task_file(&answer);
        Some(answer)
    }

    /// Takes the next slot whose command the drive can accept.
    pub fn next_slot(&mut self) -> Option<usize> {
        let waiting = self.issued & !self.taken;
        if self.command & CMD_START == 0
            || self.halted
            || self.busy.is_some()
            || self.link != LINK_UP
            || waiting == 0
        {
            return None;
        }
        let first = (self.last + 1) % SLOTS;
        let slot = (first + waiting.rotate_right(first as u32).trailing_zeros() as usize) % SLOTS;
        self.taken |= 1 << slot;
        self.last = slot;
        Some(slot)
    }

    /// Marks the command in a slot as not queued: it excludes others.
    pub fn occupy(&mut self, slot: usize) {
        self.busy = Some(slot);
        self.task_file = self.task_file & !0xff | u32::from(STATUS_BUSY);
    }

    /// Frees the slot of a command that is done or that the drive has queued, or of a frame that
    /// only wrote the control register and has no completion.
    pub fn release(&mut self, slot: usize) {
        self.issued &= !(1 << slot);
        self.taken &= !(1 << slot);
        if self.busy == Some(slot) {
            self.busy = None;
        }
    }

    fn set_task_file(&mut self, answer: &Answer) {
        self.task_file = u32::from(answer.status) | u32::from(answer.error) << 8;
    }

    /// Completes a command that was not queued; returns true if an interrupt must be raised.
    #[must_use]
    pub fn complete(&mut self, slot: usize, answer: &Answer, bits: u32) -> bool {
        self.set_task_file(answer);
        if answer.status & STATUS_ERROR != 0 {
            // The slot stays issued, which identifies the command to the host.
            self.halted = true;
            return self.raise(bits | IS_TASK_FILE);
        }
        self.release(slot);
        self.raise(bits)
    }

    /// Requests the signature again, after a software reset.
    pub fn repeat_signature(&mut self) {
        self.is_signature_due = true;
    }

    /// Completes queued commands; returns true if an interrupt must be raised.
    #[must_use]
    pub fn complete_queued(&mut self, tags: u32) -> bool {
        self.active &= !tags;
        self.raise(IS_BITS)
    }

    /// Fails a queued command: the port halts until the host has read the reason.
    #[must_use]
    pub fn fail_queued(&mut self, answer: &Answer) -> bool {
        self.set_task_file(answer);
        self.halt();
        self.raise(IS_BITS | IS_TASK_FILE)
    }

    /// Aborts the commands in flight; the registers keep their values for the host.
    fn halt(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.busy = None;
        self.halted = true;
    }

    /// Reports that the list or the frames cannot be accessed.
    #[must_use]
    pub fn fail_host_bus(&mut self) -> bool {
        self.halt();
        self.raise(IS_HOST_BUS)
    }

    /// Reports that the drive's power was cut and restored: the link was down.
    #[must_use]
    pub fn lose_link(&mut self) -> bool {
        self.halt();
        self.errors |= LINK_CHANGED;
        self.is_signature_due = true;
        self.raise(IS_LINK)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ahci_hba.rs"]
mod tests;
