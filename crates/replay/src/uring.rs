//! Commands and completions through io_uring: the only module with `unsafe`.
//!
//! Sources: io_uring(7), io_uring_setup(2), io_uring_enter(2); fallocate(2) on block devices. A
//! trim is sent as "punch hole": a file gets a hole, a block device gets Write Zeroes with
//! deallocation (the block layer's, if the drive supports it; otherwise the request fails with "not
//! supported"). Left out: polled completion (IOPOLL), and many queues: one thread submits.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::time::Duration;

use drivebay_trace::Op;
use drivebay_units::Nanos;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use crate::buffers::{BufferPool, Extent, POOL_BYTES};
use crate::error::ReplayError;
use crate::options::ReplayOptions;
use crate::target::Target;

/// An I/O command for the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Read, write, trim or flush.
    pub op: Op,
    /// First byte on the target.
    pub offset_bytes: u64,
    /// Length; 0 for a flush.
    pub bytes: u64,
}

/// Result of queueing a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Queued for the next `send`.
    Yes,
    /// No memory is free until a request completes.
    NoMemory,
    /// The command can never be sent.
    TooLong,
}

/// Wait of `send` for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// No wait.
    Now,
    /// Sleep for at most this long.
    After(Nanos),
    /// Sleep until a completion, but not much longer than this.
    Completion(Nanos),
}

/// Backend that takes commands and returns completions: the kernel, or a test's simulation.
pub trait IoBackend {
    /// Queues a command under an unused slot.
    fn queue(&mut self, slot: u32, command: &Command) -> Queueing;

    /// Sends the queued commands, then waits.
    ///
    /// # Errors
    /// If the ring itself fails; the replay cannot continue.
    fn send(&mut self, until: WaitFor) -> io::Result<()>;

    /// Returns the slot of a completed command, and its result: bytes, or a negative errno.
    fn reap(&mut self) -> Option<(u32, i32)>;
}

/// Numbers of the read and the write pool among the registered buffers.
const READ_POOL: u16 = 0;
const WRITE_POOL: u16 = 1;
/// The only registered file.
const FILE: Fixed = Fixed(0);
/// User data of the timeout's completion; slots are below 2^32.
const TICK: u64 = u64::MAX;

/// An io_uring with one registered file and registered memory.
pub struct Uring {
    ring: ManuallyDrop<IoUring>,
    /// Read pool, and write pool if writes are allowed.
    buffers: ManuallyDrop<[Option<BufferPool>; 2]>,
    /// Dropped after the ring.
    _target: Target,
    extents: Box<[Option<(u16, Extent)>]>,
    out: u32,
    /// True if the memory is registered (fixed buffers).
    pub(crate) fixed: bool,
    /// True while a timeout is queued, which ends a wait for a completion.
    ticking: bool,
    /// Length of the timeout. The kernel reads it when it takes the entry, possibly in a later
    /// call.
    tick: Box<Timespec>,
}

impl Uring {
    /// Creates a ring; must be called in the thread that will submit.
    ///
    /// # Errors
    /// [`ReplayError::Ring`], [`ReplayError::Memory`].
    pub fn new(target: Target, options: &ReplayOptions) -> Result<Uring, ReplayError> {
        let ReplayOptions { depth, seed, zeros, .. } = *options;
        let seed = (!zeros).then_some(seed);
        let ring = new_ring(depth + 1)?; // one more for the timeout
        let write_area = target.writable.then(|| BufferPool::to_write(seed)).transpose()?;
        let mut buffers = [Some(BufferPool::to_read()?), write_area];
        ring.submitter().register_files(&[target.file.as_raw_fd()]).map_err(|error| {
            let hint = "raise the limit of open files: ulimit -n";
            ReplayError::Ring { what: "registering the file failed", error, hint }
        })?;
        let vectors: Vec<libc::iovec> = buffers
            .iter_mut()
            .flatten()
            .map(|area| {
                let (base, len) = area.whole();
                libc::iovec { iov_base: base.cast(), iov_len: len }
            })
            .collect();
        // SAFETY: the pools stay mapped until `Uring` is dropped, which waits for the kernel or
        // leaks them. Without the permission to lock so much memory, the kernel maps pages for each
        // request.
        let fixed = unsafe { ring.submitter().register_buffers(&vectors) }.is_ok();
        Ok(Uring {
            ring: ManuallyDrop::new(ring),
            buffers: ManuallyDrop::new(buffers),
            _target: target,
            extents: vec![None; depth as usize].into(),
            out: 0,
            fixed,
            ticking: false,
            tick: Box::default(),
        })
    }

    fn entry(&mut self, slot: u32, command: &Command) -> Result<squeue::Entry, Queueing> {
        let Command { op, offset_bytes: at, bytes } = *command;
        let (number, write) = match op {
            Op::Flush => {
                let sync = opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC);
                return Ok(sync.build());
            }
            Op::Trim => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                let punch = opcode::Fallocate::new(FILE, bytes).offset(at);
                return Ok(punch.mode(mode).build());
            }
            Op::Read => (READ_POOL, false),
            Op::Write | Op::WriteFua => (WRITE_POOL, true),
        };
        if bytes > POOL_BYTES as u64 {
            return Err(Queueing::TooLong);
        }
        let area = self.buffers[usize::from(number)].as_mut().expect("opened for writing");
        let extent = area.take(bytes as usize).ok_or(Queueing::NoMemory)?;
        let address = area.address(extent);
        self.extents[slot as usize] = Some((number, extent));
        let len = bytes as u32;
        Ok(match (write, self.fixed) {
            (false, true) => opcode::ReadFixed::new(FILE, address, len, number).offset(at).build(),
            (true, true) => opcode::WriteFixed::new(FILE, address, len, number).offset(at).build(),
            (false, false) => opcode::Read::new(FILE, address, len).offset(at).build(),
            (true, false) => opcode::Write::new(FILE, address, len).offset(at).build(),
        })
    }
}

/// Creates a ring that delivers completions only on request, so that nothing interrupts the
/// submitting thread.
fn new_ring(depth: u32) -> Result<IoUring, ReplayError> {
    let modern = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(depth);
    // Fallback without these flags, before Linux 6.1.
    let ring = modern.or_else(|_| IoUring::new(depth)).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM) => {
                "allow it: sysctl kernel.io_uring_disabled=0 (in a container: its seccomp rules)"
            }
            Some(libc::ENOMEM) => "raise the limit of locked memory: ulimit -l unlimited",
            _ => "Linux 5.11 or later is needed: uname -r",
        };
        ReplayError::Ring { what: "cannot be set up", error, hint }
    })?;
    if !ring.params().is_feature_ext_arg() {
        let error = io::Error::from_raw_os_error(libc::ENOSYS);
        let hint = "Linux 5.11 or later is needed: uname -r";
        let what = "this kernel's version has no timed waits";
        return Err(ReplayError::Ring { what, error, hint });
    }
    Ok(ring)
}

impl IoBackend for Uring {
    fn queue(&mut self, slot: u32, command: &Command) -> Queueing {
        let entry = match self.entry(slot, command) {
            Ok(entry) => entry.user_data(u64::from(slot)),
            Err(refused) => return refused,
        };
        // SAFETY: the memory in the entry belongs to this slot alone until its completion is
        // reaped, and is unmapped only when nothing is outstanding; the file is registered.
        unsafe { self.ring.submission().push(&entry) }.expect("one entry per slot fits");
        self.out += 1;
        Queueing::Yes
    }

    fn send(&mut self, until: WaitFor) -> io::Result<()> {
        let sent = match until {
            WaitFor::Now => {
                let queue = self.ring.submission();
                if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
                    return Ok(());
                }
                drop(queue);
                self.ring.submit()
            }
            WaitFor::After(length) => {
                let timeout = Timespec::from(Duration::from_nanos(length.0));
                let arguments = SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
            // A timer per wait costs some microseconds on a virtual machine, so one timer serves
            // many waits.
            WaitFor::Completion(length) => {
                if !self.ticking {
                    *self.tick = Timespec::from(Duration::from_nanos(length.0));
                    let entry = opcode::Timeout::new(&raw const *self.tick).build().user_data(TICK);
                    // SAFETY: the time lives as long as `self`, and changes only while no entry
                    // refers to it.
                    unsafe { self.ring.submission().push(&entry) }.expect("it has a place");
                    self.ticking = true;
                }
                self.ring.submit_and_wait(1)
            }
        };
        match sent {
            Ok(_) => Ok(()),
            // Time-out, signal, and conditions that end when completions are taken.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn reap(&mut self) -> Option<(u32, i32)> {
        let mut completion = self.ring.completion().next()?;
        if completion.user_data() == TICK {
            self.ticking = false;
            completion = self.ring.completion().next()?;
        }
        let slot = completion.user_data() as u32;
        self.out -= 1;
        if let Some((number, extent)) = self.extents[slot as usize].take() {
            self.buffers[usize::from(number)].as_mut().expect("was taken from").release(extent);
        }
        Some((slot, completion.result()))
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The drive may still write to the memory of outstanding requests, so the memory is leaked.
        if self.out == 0 {
            // SAFETY: dropped only here, once; the ring first, which ends the kernel's use of the
            // memory.
            unsafe {
                ManuallyDrop::drop(&mut self.ring);
                ManuallyDrop::drop(&mut self.buffers);
            }
        }
    }
}
