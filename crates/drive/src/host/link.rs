//! The link between host and drive, PCIe or SATA.
//!
//! Sources: rates and frames in `profile/link.rs`. A PCIe link is full duplex: write data moves
//! down in command order, a round trip after the drive has requested it; read data moves up
//! whenever it is ready. A SATA link carries one frame at a time, in either direction, including
//! commands and completions. Not modelled: commands' and completions' own bytes on PCIe (under 3 %
//! of a 4 KiB I/O's).

use drivebay_units::Nanos;

use crate::persist::{StateError, persist};
use crate::profile::{LinkSpec, SataFrames, Spec, transfer};
use crate::timeline::{Calendar, Fifo};

/// Reserves the transfers of a PCIe or SATA link.
pub struct Link {
    spec: LinkSpec,
    down: Fifo,
    /// Transfers to the host; on SATA both directions.
    up: Calendar,
    bytes_up: u64,
    bytes_down: u64,
}

persist!(Link: down, up, bytes_up, bytes_down; given: spec);

impl Link {
    pub fn new(spec: &Spec) -> Link {
        Link {
            spec: spec.link,
            down: Fifo::default(),
            up: Calendar::default(),
            bytes_up: 0,
            bytes_down: 0,
        }
    }

    /// Discards transfers under way; counters of moved bytes remain.
    pub fn power_cut(&mut self) {
        (self.down, self.up) = (Fifo::default(), Calendar::default());
    }

    pub fn check(&self) -> Result<(), StateError> {
        self.up.check()
    }

    /// Payload bytes of reads and of writes so far.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_up, self.bytes_down)
    }

    /// Moves data of a write to the controller; returns the arrival of its first and its last byte.
    #[inline(always)]
    pub fn move_down(&mut self, floor: Nanos, from: Nanos, bytes: u64) -> (Nanos, Nanos) {
        self.bytes_down += bytes;
        let len = transfer(bytes, self.spec.down_fs_per_byte);
        let arrived = match self.spec.sata {
            Some(frames) => self.move_framed(floor, from, len, frames.around_write(bytes)),
            None => self.down.reserve(from.after(self.spec.down_latency), len).1,
        };
        (arrived.since_or_zero(len).max(from), arrived)
    }

    /// Moves data of a read to the host; returns its arrival in the host's memory.
    #[inline(always)]
    pub fn move_up(&mut self, floor: Nanos, from: Nanos, bytes: u64) -> Nanos {
        self.bytes_up += bytes;
        let len = transfer(bytes, self.spec.up_fs_per_byte);
        if let Some(frames) = self.spec.sata {
            return self.move_framed(floor, from, len, frames.around_read(bytes));
        }
        self.up.reserve(floor, from, len)
    }

    /// Moves data over SATA, in either direction, with the frames around it.
    #[cold]
    fn move_framed(&mut self, floor: Nanos, from: Nanos, len: Nanos, around: Nanos) -> Nanos {
        self.up.reserve(floor, from, around.after(len))
    }

    /// Sends SATA's frame of a command or a completion; returns its arrival. On PCIe this takes no
    /// time.
    #[inline(always)]
    pub fn send(&mut self, floor: Nanos, from: Nanos, frame: fn(&SataFrames) -> Nanos) -> Nanos {
        match self.spec.sata {
            Some(frames) => self.move_framed(floor, from, frame(&frames), Nanos::ZERO),
            None => from,
        }
    }
}

impl SataFrames {
    /// Number of data FISes for this many bytes.
    fn count(&self, bytes: u64) -> u64 {
        (bytes + (1 << self.payload_shift) - 1) >> self.payload_shift
    }

    fn around_read(&self, bytes: u64) -> Nanos {
        self.setup.after(self.data.times(self.count(bytes)))
    }

    fn around_write(&self, bytes: u64) -> Nanos {
        self.around_read(bytes).after(self.activate.times(self.count(bytes) - 1))
    }
}
