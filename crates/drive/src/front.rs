//! The front of the drive: host software, command interface and link.
//!
//! Sources: AHCI's register accesses per command and the single queue against NVMe's doorbells (Intel,
//! quoted in AnandTech's SM951 review); PCIe rates in `spec.rs`. The link is full duplex: write data
//! moves down in command order, read data and completions move up whenever they are ready.
//! Not modelled: flow-control credits, completion coalescing, more than one submission queue.

use drivebay_units::Nanos;

use crate::spec::{Spec, transfer};
use crate::timeline::{Calendar, Fifo};

/// Interface and link.
pub struct Front {
    software: Nanos,
    serial: Nanos,
    completion: Nanos,
    fs_per_byte: u64,
    interface: Fifo,
    down: Fifo,
    up: Calendar,
    /// Payload bytes over the link so far, both ways.
    pub bytes: u64,
}

impl Front {
    /// An idle front.
    pub fn new(spec: &Spec) -> Front {
        Front {
            software: spec.host_software,
            serial: spec.interface_serial,
            completion: spec.link_completion,
            fs_per_byte: spec.link_fs_per_byte,
            interface: Fifo::default(),
            down: Fifo::default(),
            up: Calendar::default(),
            bytes: 0,
        }
    }

    /// A command issued at `now` reaches the controller.
    #[inline]
    pub fn issue(&mut self, now: Nanos) -> Nanos {
        self.interface.reserve(now.after(self.software), self.serial).1
    }

    /// Data of a write arrives in the controller.
    #[inline]
    pub fn move_down(&mut self, from: Nanos, bytes: u64) -> Nanos {
        self.bytes += bytes;
        self.down.reserve(from, transfer(bytes, self.fs_per_byte)).1
    }

    /// Data of a read arrives in the host's memory.
    #[inline]
    pub fn move_up(&mut self, floor: Nanos, from: Nanos, bytes: u64) -> Nanos {
        self.bytes += bytes;
        self.up.reserve(floor, from, transfer(bytes, self.fs_per_byte))
    }

    /// The host sees the completion.
    #[inline]
    pub fn complete(&self, from: Nanos) -> Nanos {
        from.after(self.completion)
    }
}
