//! The stages of an I/O: every nanosecond of its latency belongs to exactly one of them.

use drivebay_units::{Nanos, named};

named! {
    /// A part of an I/O's latency.
    #[repr(usize)]
    pub enum Stage {
        /// Host software, register access, waiting for a command slot.
        Host = "host",
        /// Data and completion on the PCIe or SATA link, including the wait for it.
        Link = "link",
        /// Work of the controller's cores, and the wait for them after other commands.
        Firmware = "firmware",
        /// Wait for space in the write buffer, and the write path into it.
        Buffer = "buffer",
        /// Map look-ups in flash (drives without DRAM).
        Map = "map",
        /// Wait for a busy die.
        Die = "die",
        /// Wait for the flash channel, transfer on it, and error correction after it.
        Channel = "channel",
        /// Array operation: tR.
        Nand = "nand",
        /// Wait for garbage collection.
        Gc = "gc",
        /// Additional time due to protection from heat.
        Throttle = "throttle",
    }
}

/// Number of stages.
pub const STAGE_COUNT: usize = Stage::ALL.len();

/// Time per stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(pub [u64; STAGE_COUNT]);

impl Stages {
    /// Adds time to a stage.
    #[inline(always)]
    pub fn add(&mut self, stage: Stage, len: Nanos) {
        self.0[stage as usize] += len.0;
    }

    /// Sum of all stages.
    #[inline(always)]
    #[must_use]
    pub fn total(&self) -> Nanos {
        Nanos(self.0.iter().sum())
    }

    /// Time of one stage.
    #[must_use]
    pub fn of(&self, stage: Stage) -> Nanos {
        Nanos(self.0[stage as usize])
    }
}
