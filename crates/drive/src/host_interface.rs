//! The front of the drive: host software, command interface and link.
//!
//! Sources: AHCI's register accesses per command and the single queue against NVMe's doorbells (Intel,
//! quoted in AnandTech's SM951 review); rates and frames in `spec/host_interface.rs`. A PCIe link is full
//! duplex: write data moves down in command order, read data moves up whenever it is ready. A SATA
//! link carries one frame at a time, whichever way, commands and completions included.
//! A host that limits the data rate moves data while the link does: it delays a completion only when
//! it falls behind.
//! Not modelled: flow-control credits; commands' and completions' own bytes on PCIe (under 3 % of a
//! 4 KiB I/O's); interrupt coalescing, which delays completions at low load.

use drivebay_units::Nanos;

use crate::persist::{StateError, persist};
use crate::spec::{QUEUES_MAX, SataFrames, Spec, transfer};
use crate::timeline::{Calendar, Fifo};

/// Host, interface and link.
pub struct HostInterface {
    software: Nanos,
    /// Interface and processor work that commands of one queue wait for.
    serial: Nanos,
    fetch: Nanos,
    completion: Nanos,
    fs_per_byte: u64,
    sata: Option<SataFrames>,
    /// Nothing but data and a fixed completion: PCIe without fetch time or host limit.
    plain: bool,
    down: Fifo,
    /// The way up; on SATA both ways.
    up: Calendar,
    queues: [Fifo; QUEUES_MAX],
    host_fs_per_byte: u64,
    host: Calendar,
    /// Payload bytes of reads over the link so far.
    pub bytes_up: u64,
    /// And of writes.
    pub bytes_down: u64,
}

persist!(HostInterface: down, up, queues, host, bytes_up, bytes_down;
    given: software, serial, fetch, completion, fs_per_byte, sata, plain, host_fs_per_byte);

impl HostInterface {
    /// Whether the calendars are sound.
    pub fn check(&self) -> Result<(), StateError> {
        self.up.check()?;
        self.host.check()
    }

    /// An idle front.
    pub fn new(spec: &Spec) -> HostInterface {
        HostInterface {
            software: spec.host_software,
            serial: spec.interface_serial.after(spec.host.cpu),
            fetch: spec.host_interface.fetch,
            completion: spec.link_completion,
            fs_per_byte: spec.link_fs_per_byte,
            sata: spec.host_interface.sata,
            plain: spec.host_interface.sata.is_none()
                && spec.host_interface.fetch == Nanos::ZERO
                && spec.host.fs_per_byte == 0,
            down: Fifo::default(),
            up: Calendar::default(),
            queues: [Fifo::default(); QUEUES_MAX],
            host_fs_per_byte: spec.host.fs_per_byte,
            host: Calendar::default(),
            bytes_up: 0,
            bytes_down: 0,
        }
    }

    /// A command that the host begins at `now` is ready in a submission queue.
    #[inline]
    pub fn post(&mut self, queue: usize, now: Nanos) -> Nanos {
        self.queues[queue].reserve(now.after(self.software), self.serial).1
    }

    /// A command ready at `from` reaches the controller.
    #[inline(always)]
    pub fn fetch(&mut self, floor: Nanos, from: Nanos) -> Nanos {
        if self.plain { from } else { self.fetch_apart(floor, from) }
    }

    #[cold]
    fn fetch_apart(&mut self, floor: Nanos, from: Nanos) -> Nanos {
        let sent = match self.sata {
            Some(frames) => self.up.reserve(floor, from, frames.command),
            None => from,
        };
        sent.after(self.fetch)
    }

    /// Data of a write arrives in the controller.
    #[inline(always)]
    pub fn move_down(&mut self, floor: Nanos, from: Nanos, bytes: u64) -> Nanos {
        self.bytes_down += bytes;
        if let Some(frames) = self.sata {
            return self.move_framed(floor, from, bytes, frames.around_write(bytes));
        }
        self.down.reserve(from, transfer(bytes, self.fs_per_byte)).1
    }

    /// Data of a read arrives in the host's memory.
    #[inline(always)]
    pub fn move_up(&mut self, floor: Nanos, from: Nanos, bytes: u64) -> Nanos {
        self.bytes_up += bytes;
        if let Some(frames) = self.sata {
            return self.move_framed(floor, from, bytes, frames.around_read(bytes));
        }
        self.up.reserve(floor, from, transfer(bytes, self.fs_per_byte))
    }

    /// Data over SATA, either way, with what is around it.
    #[cold]
    fn move_framed(&mut self, floor: Nanos, from: Nanos, bytes: u64, around: Nanos) -> Nanos {
        self.up.reserve(floor, from, around.after(transfer(bytes, self.fs_per_byte)))
    }

    /// The completion of an I/O reaches the host.
    #[inline(always)]
    pub fn complete(&mut self, floor: Nanos, from: Nanos) -> Nanos {
        let sent = if self.plain { from } else { self.complete_apart(floor, from) };
        sent.after(self.completion)
    }

    #[cold]
    fn complete_apart(&mut self, floor: Nanos, from: Nanos) -> Nanos {
        match self.sata {
            Some(frames) => self.up.reserve(floor, from, frames.completion),
            None => from,
        }
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

impl SataFrames {
    /// How many data FISes carry so many bytes.
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
