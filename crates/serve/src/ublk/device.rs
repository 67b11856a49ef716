//! Session of a block device: translates commands of the kernel to requests to the drive.
//!
//! Memory: a tag has one command at a time. The data of a write is read into one buffer and passed
//! to the drive at once; the data of a read goes from the store to the character device when the
//! command completes. After a power cut commands in flight fail, and so do all commands while the
//! power is off: the device stays, like a drive in a computer.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use drivebay_units::{SECTOR_BYTES, refuse_if};
use drivebay_wire::ublk::{IoDescriptor, IoOp, data_offset};
use rustix::io::Errno;

use super::ring::{QueueRing, Slot};
use crate::interface::drive::Drive;
use crate::interface::session::{Next, Session};
use crate::namespace::Namespace;
use crate::request::{Completion, Op, Request, Status};

/// Slices of memory that one system call moves: 4 KiB each, a command of 256 KiB.
const PIECES: usize = 64;
/// Mask of the tag in a request's token; the upper half counts the power cuts so far.
const SLOT: u64 = 0xffff_ffff;

/// A block device.
pub(super) struct UblkDevice {
    ring: QueueRing,
    namespace: Arc<Namespace>,
    /// Buffer for the longest command.
    buffer: Vec<u8>,
    /// True for tags, of one queue after the other, whose command the drive has.
    inflight: Box<[bool]>,
    /// Number of power cuts: completions of commands from before are ignored.
    cuts: u32,
    is_started: bool,
    /// Sender that signals the end of the device, by a message or by being dropped.
    ending: Option<Sender<()>>,
}

impl UblkDevice {
    /// Creates a session for these queues, whose commands have at most `transfer_bytes_max`. It
    /// signals the end of the device through `ending`.
    pub fn new(
        ring: QueueRing,
        namespace: &Arc<Namespace>,
        transfer_bytes_max: u32,
        ending: Sender<()>,
    ) -> UblkDevice {
        UblkDevice {
            inflight: vec![false; ring.slots()].into(),
            ring,
            namespace: Arc::clone(namespace),
            buffer: vec![0; transfer_bytes_max as usize],
            cuts: 0,
            is_started: false,
            ending: Some(ending),
        }
    }

    /// Submits a command, or refuses it with an errno.
    fn start(
        &mut self,
        drive: &mut dyn Drive,
        slot: Slot,
        descriptor: &IoDescriptor,
    ) -> Result<(), Errno> {
        refuse_if(drive.is_off(), Errno::IO)?;
        let token = u64::from(self.cuts) << 32 | slot.number();
        let (request, bytes) = request(descriptor, &self.namespace, token)?;
        let data = self.buffer.get_mut(..bytes).ok_or(Errno::INVAL)?;
        let mut done = 0;
        while done < bytes {
            let offset = data_offset(slot.queue, slot.tag) + done as u64;
            match rustix::io::pread(self.ring.file(), &mut data[done..], offset)? {
                0 => return Err(Errno::IO),
                more => done += more,
            }
        }
        drive.submit(request, data);
        self.inflight[self.ring.index(slot)] = true;
        Ok(())
    }

    /// Passes the data of a read to the kernel.
    fn hand_over(&mut self, drive: &dyn Drive, slot: Slot, request: &Request) -> io::Result<()> {
        let bytes = request.sectors as usize * SECTOR_BYTES as usize;
        let offset = data_offset(slot.queue, slot.tag);
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let count = drive.pieces(request.lba, request.sectors, &mut pieces);
        let pieces = &pieces[..count];
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() == bytes {
            let written = rustix::io::pwritev(self.ring.file(), pieces, offset)?;
            return if written == bytes { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) };
        }
        let data = &mut self.buffer[..bytes];
        drive.read(request.lba, data)?;
        let mut done = 0;
        while done < bytes {
            let offset = offset + done as u64;
            match rustix::io::pwrite(self.ring.file(), &data[done..], offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                more => done += more,
            }
        }
        Ok(())
    }

    fn result(&mut self, drive: &dyn Drive, slot: Slot, completion: &Completion) -> i32 {
        let Completion { request, status, .. } = completion;
        if *status != Status::Ok {
            return -errno_of(*status).raw_os_error();
        }
        match request.op {
            Op::Read => match self.hand_over(drive, slot, request) {
                Ok(()) => (request.sectors * SECTOR_BYTES as u32) as i32,
                Err(_) => -Errno::IO.raw_os_error(),
            },
            Op::Write { .. } => (request.sectors * SECTOR_BYTES as u32) as i32,
            _ => 0,
        }
    }
}

/// Returns the request of a command, and the bytes of data from the host.
fn request(
    descriptor: &IoDescriptor,
    namespace: &Namespace,
    token: u64,
) -> Result<(Request, usize), Errno> {
    let op = match descriptor.op().ok_or(Errno::OPNOTSUPP)? {
        IoOp::Flush => return Ok((Request::flush(token), 0)),
        IoOp::Read => Op::Read,
        IoOp::Write { fua } => Op::Write { fua },
        IoOp::Discard => Op::Trim { fua: false },
        IoOp::WriteZeroes { fua, no_unmap } => Op::WriteZeroes { fua, allocated: no_unmap },
    };
    let (lba, sectors) = (descriptor.start_sector, descriptor.nr_sectors);
    // The namespace may have become smaller since.
    let end = lba.checked_add(sectors.into());
    refuse_if(end.is_none_or(|end| end > namespace.sectors()), Errno::IO)?;
    refuse_if(op.changes_data() && namespace.is_read_only, Errno::PERM)?;
    let bytes = if matches!(op, Op::Write { .. }) { sectors as usize * 512 } else { 0 };
    Ok((Request::new(op, namespace.first + lba, sectors, token), bytes))
}

/// Errno by which the kernel's block layer identifies an error (`errno_to_blk_status`).
fn errno_of(status: Status) -> Errno {
    match status {
        Status::MediaError => Errno::NODATA,
        Status::NoSpace => Errno::NOSPC,
        _ => Errno::IO,
    }
}

impl Session for UblkDevice {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.fd())
    }

    /// The loop runs, in the thread that will own the queues.
    fn notified(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        self.is_started = true;
        self.ring.fetch_all()
    }

    fn readable(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        while let Some((slot, command)) = self.ring.next() {
            // When the device ends the kernel returns tags without a command.
            let Ok(descriptor) = command else { continue };
            if let Err(why) = self.start(drive, slot, &descriptor) {
                self.ring.commit(slot, -why.raw_os_error());
            }
        }
        Ok(())
    }

    fn complete(&mut self, drive: &mut dyn Drive, completion: Completion) {
        let token = completion.request.token;
        let slot = Slot::from_number(token & SLOT);
        if token >> 32 != u64::from(self.cuts) {
            return;
        }
        self.inflight[self.ring.index(slot)] = false;
        let result = self.result(drive, slot, &completion);
        self.ring.commit(slot, result);
    }

    fn flush(&mut self, _drive: &mut dyn Drive) -> io::Result<Next> {
        self.ring.send()?;
        Ok(Next::Wait { read: true, write: false })
    }

    fn protocol(&self) -> Option<&'static str> {
        self.is_started.then_some("ublk")
    }

    fn power_cut(&mut self) -> bool {
        self.cuts = self.cuts.wrapping_add(1);
        for (index, _) in self.inflight.iter().enumerate().filter(|(_, is_there)| **is_there) {
            self.ring.commit(self.ring.slot(index), -Errno::IO.raw_os_error());
        }
        self.inflight.fill(false);
        true
    }

    /// The kernel removes the device, for which it may have to write, and then returns all tags.
    fn is_stopped(&mut self) -> bool {
        if let Some(ending) = self.ending.take() {
            // The receiver may have failed.
            let _ = ending.send(());
        }
        self.ring.waiting == 0 && !self.inflight.contains(&true)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ublk_device.rs"]
mod tests;
