//! The host interface: the host's software, submission queues, registers and completions.
//!
//! Sources: AHCI's register accesses per command and the single queue against NVMe's doorbells (Intel,
//! quoted in AnandTech's SM951 review). A host that limits the data rate moves data while the link does: it
//! delays a completion only when it falls behind.
//! Not modelled: interrupt coalescing, which delays completions at low load.

use drivebay_units::Nanos;

use crate::link::Link;
use crate::persist::{StateError, persist};
use crate::spec::{QUEUES_MAX, SataFrames, Spec, transfer};
use crate::timeline::{Calendar, Fifo};

/// The host's side of the drive.
pub struct HostInterface {
    software: Nanos,
    /// Interface and processor work that commands of one queue wait for.
    serial: Nanos,
    fetch: Nanos,
    completion: Nanos,
    /// Nothing but data and a fixed completion: PCIe without fetch time or host limit.
    plain: bool,
    queues: [Fifo; QUEUES_MAX],
    host_fs_per_byte: u64,
    host: Calendar,
}

persist!(HostInterface: queues, host;
    given: software, serial, fetch, completion, plain, host_fs_per_byte);

impl HostInterface {
    pub fn new(spec: &Spec) -> HostInterface {
        HostInterface {
            software: spec.host_software,
            serial: spec.interface_serial.after(spec.host.cpu),
            fetch: spec.host_interface.fetch,
            completion: spec.link_completion,
            plain: spec.host_interface.sata.is_none()
                && spec.host_interface.fetch == Nanos::ZERO
                && spec.host.fs_per_byte == 0,
            queues: [Fifo::default(); QUEUES_MAX],
            host_fs_per_byte: spec.host.fs_per_byte,
            host: Calendar::default(),
        }
    }

    pub fn check(&self) -> Result<(), StateError> {
        self.host.check()
    }

    /// A command that the host begins at `now` is ready in a submission queue.
    #[inline]
    pub fn post(&mut self, queue: usize, now: Nanos) -> Nanos {
        self.queues[queue].reserve(now.after(self.software), self.serial).1
    }

    /// A command ready at `from` reaches the controller.
    #[inline(always)]
    pub fn fetch(&mut self, link: &mut Link, floor: Nanos, from: Nanos) -> Nanos {
        if self.plain {
            return from;
        }
        let command = |frames: &SataFrames| frames.command;
        link.send(floor, from, command).after(self.fetch)
    }

    /// The completion of an I/O reaches the host.
    #[inline(always)]
    pub fn complete(&mut self, link: &mut Link, floor: Nanos, from: Nanos) -> Nanos {
        let completion = |frames: &SataFrames| frames.completion;
        let sent = if self.plain { from } else { link.send(floor, from, completion) };
        sent.after(self.completion)
    }

    /// How long the host's driver still moves the data of an I/O that the drive completed at `posted`.
    #[inline(always)]
    pub fn pass_host(&mut self, floor: Nanos, posted: Nanos, bytes: u64) -> Option<Nanos> {
        if self.plain { None } else { self.pass_slow_host(floor, posted, bytes) }
    }

    #[cold]
    fn pass_slow_host(&mut self, floor: Nanos, posted: Nanos, bytes: u64) -> Option<Nanos> {
        if self.host_fs_per_byte == 0 {
            return None;
        }
        let len = transfer(bytes, self.host_fs_per_byte);
        let from = Nanos(posted.0.saturating_sub(len.0)).max(floor);
        Some(self.host.reserve(floor, from, len).since_or_zero(posted))
    }
}
