//! Commands to ublk through io_uring: the only file with `unsafe` of this transport.
//!
//! Sources: io_uring(7), io_uring_enter(2); Documentation/block/ublk.rst. A queue belongs to the
//! thread that first asked for its commands. All queues belong to this thread: one ring serves them
//! all. Commands carry no addresses: their data is read from the character device and written to it
//! (USER_COPY), with one system call each, so the kernel never writes to our memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use drivebay_wire::ublk::{self, ControlCommand, ControlOp, IoCommand, IoDescriptor};
use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};
use memmap2::{MmapOptions, MmapRaw};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Longest wait for a device to be removed that others keep open. guess: longer than a kernel takes
/// on a busy machine.
const DELETE_MAX: Duration = Duration::from_secs(2);
/// Longest wait for a command that needs nobody but the kernel. guess: as for [`DELETE_MAX`], with
/// time to create queues on many processors.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Time between two looks for an answer.
const PAUSE: Duration = Duration::from_millis(1);

/// Ring for control commands, one at a time. A kernel that fails inside a command never completes
/// it, so waits are bounded.
pub(super) struct ControlRing {
    ring: IoUring<Entry128, cqueue::Entry>,
    file: File,
    /// Number of commands so far: the latest one's completion has it.
    sent: u64,
}

impl ControlRing {
    /// Creates a ring on [`ublk::CONTROL_PATH`], open for reading and writing.
    pub fn new(file: File) -> io::Result<ControlRing> {
        Ok(ControlRing { ring: IoUring::builder().build(2)?, file, sent: 0 })
    }

    /// Starts or stops a device, with a number. The wait has no limit, as it includes I/O of hosts.
    pub fn command(&mut self, op: ControlOp, device: u32, data: u64) -> io::Result<()> {
        self.send(self.entry(op, device, data, 0, 0), Duration::MAX, &|| false)
    }

    /// Sends a command with a copy of a structure, which it reads or writes. The error is of the
    /// kind `TimedOut` if the kernel does not answer, `Interrupted` if `is_cancelled` ends the
    /// wait. The copy is kept after an error, as the kernel may still write there.
    pub fn with<T: FromBytes + IntoBytes + Immutable + Copy>(
        &mut self,
        op: ControlOp,
        device: u32,
        buffer: &mut T,
        is_cancelled: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let copy = Box::into_raw(Box::new(*buffer));
        let entry = self.entry(op, device, 0, copy as u64, size_of::<T>() as u16);
        self.send(entry, ANSWER_MAX, is_cancelled)?;
        // SAFETY: the command has completed, so that the kernel no longer has the address.
        *buffer = unsafe { *Box::from_raw(copy) };
        Ok(())
    }

    /// Removes a device. It disappears when its last user closes it, even if nobody waits for that.
    pub fn delete(&mut self, device: u32) {
        let entry = self.entry(ControlOp::DeleteDevice, device, 0, 0, 0);
        // An error could not be handled.
        let _ = self.send(entry, DELETE_MAX, &|| false);
    }

    fn entry(&self, op: ControlOp, dev_id: u32, data: u64, addr: u64, len: u16) -> Entry128 {
        let queue_id = ublk::NO_QUEUE;
        let (dev_path_len, pad, reserved) = (0, 0, 0);
        let command =
            ControlCommand { dev_id, queue_id, len, addr, data, dev_path_len, pad, reserved };
        let mut bytes = [0; 80];
        bytes[..size_of::<ControlCommand>()].copy_from_slice(command.as_bytes());
        opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), op as u32).cmd(bytes).build()
    }

    fn send(
        &mut self,
        entry: Entry128,
        longest: Duration,
        is_cancelled: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        self.sent += 1;
        // SAFETY: the only address is that of a structure that stays allocated until the command
        // has completed.
        unsafe { self.ring.submission().push(&entry.user_data(self.sent)) }.expect("one at a time");
        let start = Instant::now();
        loop {
            self.ring.submit()?;
            // A command that was given up may complete now.
            if let Some(done) = self.ring.completion().find(|done| done.user_data() == self.sent) {
                let error = done.result().min(0).saturating_neg();
                return (error == 0).then_some(()).ok_or(io::Error::from_raw_os_error(error));
            }
            if is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if start.elapsed() >= longest {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Queues of a device: their commands and answers.
pub(super) struct QueueRing {
    ring: IoUring,
    file: File,
    descriptors: Vec<MmapRaw>,
    /// Tags of a queue.
    depth: u16,
    /// Tags that the kernel holds.
    pub waiting: u32,
}

/// Tag of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub queue: u16,
    pub tag: u16,
}

impl Slot {
    /// Returns the slot as a number.
    pub fn number(self) -> u64 {
        u64::from(self.queue) << 16 | u64::from(self.tag)
    }

    /// Returns the slot of such a number.
    pub fn from_number(number: u64) -> Slot {
        Slot { queue: (number >> 16) as u16, tag: number as u16 }
    }
}

impl QueueRing {
    /// Creates the queues on a device's character device, open for reading and writing.
    pub fn new(file: File, queues: u16, depth: u16) -> io::Result<QueueRing> {
        let slots = u32::from(queues) * u32::from(depth);
        // Nothing interrupts the event loop; the ring wakes a loop that sleeps in the kernel.
        let ring = IoUring::builder().setup_coop_taskrun().build(slots)?;
        let page_bytes = rustix::param::page_size();
        let map = |queue| {
            let (offset, len) = ublk::descriptors(queue, depth, page_bytes);
            MmapOptions::new().offset(offset).len(len).map_raw_read_only(&file)
        };
        let descriptors = (0..queues).map(map).collect::<io::Result<_>>()?;
        Ok(QueueRing { ring, file, descriptors, depth, waiting: 0 })
    }

    /// Number of tags.
    pub fn slots(&self) -> usize {
        self.descriptors.len() * usize::from(self.depth)
    }

    /// Index of a tag among all.
    pub fn index(&self, slot: Slot) -> usize {
        usize::from(slot.queue) * usize::from(self.depth) + usize::from(slot.tag)
    }

    /// Tag at an index.
    pub fn slot(&self, index: usize) -> Slot {
        let depth = usize::from(self.depth);
        Slot { queue: (index / depth) as u16, tag: (index % depth) as u16 }
    }

    /// File descriptor that is readable when a command has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open as long as the ring, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Character device, which transfers the data of commands.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Asks for the first command of every tag; called in the thread that serves them.
    pub fn fetch_all(&mut self) -> io::Result<()> {
        for queue in 0..self.descriptors.len() as u16 {
            for tag in 0..self.depth {
                self.push(Slot { queue, tag }, ublk::FETCH, 0);
            }
        }
        self.send()
    }

    /// Completes a command, with bytes or a negative errno, and asks for the tag's next command;
    /// both are sent by the next [`Self::send`].
    pub fn commit(&mut self, slot: Slot, result: i32) {
        self.push(slot, ublk::COMMIT_AND_FETCH, result);
    }

    fn push(&mut self, slot: Slot, op: u32, result: i32) {
        let command = IoCommand { q_id: slot.queue, tag: slot.tag, result, addr: 0 };
        let mut bytes = [0; 16];
        bytes.copy_from_slice(command.as_bytes());
        let entry = opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), op).cmd(bytes).build();
        // SAFETY: the command has no address, and the character device is open as long as the ring.
        unsafe { self.ring.submission().push(&entry.user_data(slot.number())) }
            .expect("an entry for each tag");
        self.waiting += 1;
    }

    /// Sends the queued entries.
    pub fn send(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            Err(why) if why.kind() != io::ErrorKind::Interrupted => Err(why),
            _ => Ok(()),
        }
    }

    /// Sends the queued entries and waits for a command.
    #[cfg(test)]
    pub fn wait(&mut self) -> io::Result<()> {
        self.ring.submit_and_wait(1).map(|_| ())
    }

    /// Returns the next tag from the kernel, with a command or with an error.
    pub fn next(&mut self) -> Option<(Slot, Result<IoDescriptor, io::Error>)> {
        let done = self.ring.completion().next()?;
        self.waiting -= 1;
        let slot = Slot::from_number(done.user_data());
        if done.result() < 0 {
            return Some((slot, Err(io::Error::from_raw_os_error(-done.result()))));
        }
        let place = self.descriptors[usize::from(slot.queue)].as_ptr().cast::<IoDescriptor>();
        // SAFETY: the mapping has one descriptor for each tag of the queue. The kernel has written
        // the descriptor of this tag before it completed the entry, and writes it again only after
        // it gets the tag back.
        let descriptor = unsafe { place.add(usize::from(slot.tag)).read_volatile() };
        Some((slot, Ok(descriptor)))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ublk_ring.rs"]
mod tests;
