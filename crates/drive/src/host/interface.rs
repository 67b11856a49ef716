//! The host interface: the host's software, submission queues, registers, completions and
//! interrupts.
//!
//! Sources: `profile/host.rs`, `profile/host_interface.rs`. A host that limits the data rate moves
//! data at the same time as the link: it delays a completion only when it falls behind.

use drivebay_units::Nanos;

use crate::host::link::Link;
use crate::persist::{StateError, persist};
use crate::profile::{HostSpec, Interface, QUEUES_MAX, SataFrames, Spec, transfer};
use crate::timeline::{Calendar, Fifo};

/// The host's side of the drive.
pub struct HostInterface {
    host: HostSpec,
    interface: Interface,
    queues: [Fifo; QUEUES_MAX],
    /// Data path of a driver that limits the rate.
    data: Calendar,
}

persist!(HostInterface: queues, data; given: host, interface);

impl HostInterface {
    pub fn new(spec: &Spec) -> HostInterface {
        HostInterface {
            host: spec.host,
            interface: spec.host_interface,
            queues: [Fifo::default(); QUEUES_MAX],
            data: Calendar::default(),
        }
    }

    pub fn check(&self) -> Result<(), StateError> {
        self.data.check()
    }

    /// Time at which a command that the host begins at `now` is ready in a submission queue.
    #[inline]
    pub fn post(&mut self, queue: usize, now: Nanos) -> Nanos {
        self.queues[queue].reserve(now.after(self.host.software), self.host.serial).1
    }

    /// Time at which a command that is ready at `from` reaches the controller.
    #[inline(always)]
    pub fn fetch(&self, link: &mut Link, floor: Nanos, from: Nanos) -> Nanos {
        let command = |frames: &SataFrames| frames.command;
        link.send(floor, from.after(self.interface.fetch), command)
    }

    /// Time at which the completion of an I/O reaches the host.
    #[inline(always)]
    pub fn complete(&self, link: &mut Link, floor: Nanos, from: Nanos) -> Nanos {
        let completion = |frames: &SataFrames| frames.completion;
        link.send(floor, from, completion).after(self.interface.completion)
    }

    /// Time at which the program receives an I/O whose completion came at `posted`: after the
    /// interrupt, and once the driver has moved its data.
    #[inline(always)]
    pub fn interrupt(&mut self, floor: Nanos, posted: Nanos, bytes: u64) -> Nanos {
        let done = posted.after(self.host.interrupt);
        if self.host.fs_per_byte == 0 { done } else { self.pass_slow_host(floor, done, bytes) }
    }

    #[cold]
    fn pass_slow_host(&mut self, floor: Nanos, done: Nanos, bytes: u64) -> Nanos {
        let len = transfer(bytes, self.host.fs_per_byte);
        let from = Nanos(done.0.saturating_sub(len.0)).max(floor);
        self.data.reserve(floor, from, len).max(done)
    }
}
