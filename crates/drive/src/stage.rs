//! The stages of an I/O: every nanosecond of its latency belongs to exactly one of them.

use drivebay_units::{Nanos, named};

use crate::persist::{Persist, StateError};

named! {
    /// Where an I/O spends its time.
    #[repr(usize)]
    pub enum Stage {
        /// Host software, register access, waiting for a command slot.
        Host = "host",
        /// Data and completion on the PCIe or SATA link, waiting for it included.
        Link = "link",
        /// The controller's cores: waiting for them behind other commands, and their work.
        Firmware = "firmware",
        /// Waiting for room in the write buffer, and the write path into it.
        Buffer = "buffer",
        /// Map look-ups that had to go to flash (drives without DRAM).
        Map = "map",
        /// Waiting for a busy die.
        Die = "die",
        /// Waiting for and transferring on the flash channel, and error correction behind it.
        Channel = "channel",
        /// The array operation itself: tR.
        Nand = "nand",
        /// Waiting for garbage collection.
        Gc = "gc",
        /// Extra time because the drive protects itself from heat.
        Throttle = "throttle",
    }
}

/// How many stages there are.
pub const STAGE_COUNT: usize = Stage::ALL.len();

/// Time per stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(pub [u64; STAGE_COUNT]);

impl Persist for Stages {
    fn save(&self, out: &mut dyn std::io::Write) -> Result<(), std::io::Error> {
        self.0.save(out)
    }
    fn load(&mut self, from: &mut dyn std::io::Read) -> Result<(), StateError> {
        self.0.load(from)
    }
    fn copy_from(&mut self, other: &Self) {
        *self = *other;
    }
}

impl Stages {
    /// Adds time to a stage.
    #[inline(always)]
    pub fn add(&mut self, stage: Stage, len: Nanos) {
        self.0[stage as usize] += len.0;
    }

    /// All stages together.
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
