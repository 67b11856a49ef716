//! Commands to ublk through io_uring: the one place for `unsafe` of this transport.
//!
//! Sources: io_uring(7), io_uring_enter(2); Documentation/block/ublk.rst. A queue belongs to the
//! thread that first asked for its commands, and all of them to this one: one ring serves them all.
//! Commands carry no addresses: their data is read from the character device and written to it
//! (USER_COPY), one system call each, so that the kernel never writes to memory of ours.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use drivebay_wire::ublk::{self, ControlCommand, ControlOp, IoCommand, IoDescriptor};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use memmap2::{MmapOptions, MmapRaw};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// For how long a device that is to go may be kept open by others. guess: longer than a kernel
/// takes on a busy machine.
const DELETE_MAX: Duration = Duration::from_secs(2);

/// Control commands, one at a time.
pub(super) struct ControlRing {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: File,
}

impl ControlRing {
    /// On [`ublk::CONTROL_PATH`], open for reading and writing.
    pub fn new(file: File) -> io::Result<ControlRing> {
        Ok(ControlRing { ring: IoUring::builder().build(2)?, file })
    }

    /// A command with a number.
    pub fn command(&mut self, op: ControlOp, device: u32, data: u64) -> io::Result<()> {
        self.send(op, device, data, 0, 0)
    }

    /// A command with a structure, which it reads or writes.
    pub fn with<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
        op: ControlOp,
        device: u32,
        buffer: &mut T,
    ) -> io::Result<()> {
        let (address, len) = (std::ptr::from_mut(buffer) as u64, size_of::<T>() as u16);
        self.send(op, device, 0, address, len)
    }

    /// Removes a device. It goes, when the last that has it open closes it, also if nobody waits
    /// for that.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        self.send(ControlOp::DeleteDevice, device, 0, 0, 0)
    }

    fn send(
        &mut self,
        op: ControlOp,
        dev_id: u32,
        data: u64,
        addr: u64,
        len: u16,
    ) -> io::Result<()> {
        let queue_id = ublk::NO_QUEUE;
        let (dev_path_len, pad, reserved) = (0, 0, 0);
        let command =
            ControlCommand { dev_id, queue_id, len, addr, data, dev_path_len, pad, reserved };
        let mut bytes = [0; 80];
        bytes[..size_of::<ControlCommand>()].copy_from_slice(command.as_bytes());
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), op as u32).cmd(bytes);
        // SAFETY: the only address is that of the caller's structure, which is his until the
        // command has completed, for which all but DeleteDevice wait; that has none. Any bytes are
        // a `T`.
        unsafe { self.ring.submission().push(&entry.build()) }.expect("one at a time");
        if op == ControlOp::DeleteDevice {
            let wait = Timespec::from(DELETE_MAX);
            match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&wait)) {
                Err(why) if why.raw_os_error() == Some(rustix::io::Errno::TIME.raw_os_error()) => {
                    return Ok(());
                }
                sent => sent?,
            };
        } else {
            while self.ring.completion().is_empty() {
                match self.ring.submit_and_wait(1) {
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                    sent => _ = sent?,
                }
            }
        }
        match self.ring.completion().next().map(|done| done.result()) {
            Some(error) if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            _ => Ok(()),
        }
    }
}

/// The queues of a device: their commands, and the answers.
pub(super) struct QueueRing {
    ring: IoUring,
    file: File,
    descriptors: Vec<MmapRaw>,
    /// Tags of a queue.
    depth: u16,
    /// Tags that the kernel has.
    pub waiting: u32,
}

/// A tag of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub queue: u16,
    pub tag: u16,
}

impl Slot {
    /// As a number.
    pub fn number(self) -> u64 {
        u64::from(self.queue) << 16 | u64::from(self.tag)
    }

    /// Of such a number.
    pub fn of(number: u64) -> Slot {
        Slot { queue: (number >> 16) as u16, tag: number as u16 }
    }
}

impl QueueRing {
    /// On a device's character device, open for reading and writing.
    pub fn new(file: File, queues: u16, depth: u16) -> io::Result<QueueRing> {
        let slots = u32::from(queues) * u32::from(depth);
        // Nothing interrupts the event loop; a kernel that sleeps in it wakes.
        let ring = IoUring::builder().setup_coop_taskrun().build(slots)?;
        let page_bytes = rustix::param::page_size();
        let map = |queue| {
            let (offset, len) = ublk::descriptors(queue, depth, page_bytes);
            MmapOptions::new().offset(offset).len(len).map_raw_read_only(&file)
        };
        let descriptors = (0..queues).map(map).collect::<io::Result<_>>()?;
        Ok(QueueRing { ring, file, descriptors, depth, waiting: 0 })
    }

    /// How many tags there are.
    pub fn slots(&self) -> usize {
        self.descriptors.len() * usize::from(self.depth)
    }

    /// The place of a tag among all.
    pub fn index(&self, slot: Slot) -> usize {
        usize::from(slot.queue) * usize::from(self.depth) + usize::from(slot.tag)
    }

    /// The tag at a place.
    pub fn slot(&self, index: usize) -> Slot {
        let depth = usize::from(self.depth);
        Slot { queue: (index / depth) as u16, tag: (index % depth) as u16 }
    }

    /// Readable when a command has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open for as long as the ring, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// The character device, whose bytes are the data of commands.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Asks for the first command of every tag; in the thread that serves them.
    pub fn fetch_all(&mut self) -> io::Result<()> {
        for queue in 0..self.descriptors.len() as u16 {
            for tag in 0..self.depth {
                self.push(Slot { queue, tag }, ublk::FETCH, 0);
            }
        }
        self.send()
    }

    /// Completes a command, with bytes or an errno below zero, and asks for the tag's next, with
    /// the next [`Self::send`].
    pub fn commit(&mut self, slot: Slot, result: i32) {
        self.push(slot, ublk::COMMIT_AND_FETCH, result);
    }

    fn push(&mut self, slot: Slot, op: u32, result: i32) {
        let command = IoCommand { q_id: slot.queue, tag: slot.tag, result, addr: 0 };
        let mut bytes = [0; 16];
        bytes.copy_from_slice(command.as_bytes());
        let entry = opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), op).cmd(bytes).build();
        // SAFETY: the command has no address, and the character device is open for as long as the
        // ring.
        unsafe { self.ring.submission().push(&entry.user_data(slot.number())) }
            .expect("an entry for each tag");
        self.waiting += 1;
    }

    /// Sends what is queued.
    pub fn send(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            Err(why) if why.kind() != io::ErrorKind::Interrupted => Err(why),
            _ => Ok(()),
        }
    }

    /// Sends what is queued and waits for a command.
    #[cfg(test)]
    pub fn wait(&mut self) -> io::Result<()> {
        self.ring.submit_and_wait(1).map(|_| ())
    }

    /// The next tag that the kernel has given back: with a command, or with why there is none.
    pub fn next(&mut self) -> Option<(Slot, Result<IoDescriptor, io::Error>)> {
        let done = self.ring.completion().next()?;
        self.waiting -= 1;
        let slot = Slot::of(done.user_data());
        if done.result() < 0 {
            return Some((slot, Err(io::Error::from_raw_os_error(-done.result()))));
        }
        let place = self.descriptors[usize::from(slot.queue)].as_ptr().cast::<IoDescriptor>();
        // SAFETY: the mapping has one for each tag of the queue. The kernel has written that of
        // this tag before it completed the entry, and writes it again only when the tag is its own
        // again.
        let descriptor = unsafe { place.add(usize::from(slot.tag)).read_volatile() };
        Some((slot, Ok(descriptor)))
    }
}
