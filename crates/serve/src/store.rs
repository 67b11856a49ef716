//! The data: a sparse file as large as the drive, on a file system or in memory.
//!
//! A file in memory is a memfd, so both are one: reads and writes go through the page cache; TRIM
//! punches holes, which read as zeros. A write that the store has taken survives the end of this
//! process; fdatasync, for which flush and FUA wait, brings it to the disk.
//! Left out: asynchronous I/O. What is not in the page cache makes the engine wait for the disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use drivebay_drive::Place;
use drivebay_units::{Rng, SECTOR_BYTES};
use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, SeekFrom, fallocate, flock, seek};
use rustix::io::Errno;

use crate::mailbox::Waker;
use crate::sync::Syncer;
use crate::volatile::{Loss, TRIM_MAX, Volatile};

/// How often a file in memory is weighed: after so many bytes written.
const WEIGH_EVERY: u64 = 16 << 20;

const HOLE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Only a regular file is ever written.
    #[error(
        "{0} is not a regular file; data is never written to anything else\nhint: name a file, it is made if it does not exist: --data drive.img"
    )]
    NotAFile(PathBuf),
    /// Another size than the drive's.
    #[error(
        "{path} has {found} bytes, the drive has {wanted}\nhint: name the file that belongs to this drive, or a new one"
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size, bytes.
        found: u64,
        /// The drive's capacity, bytes.
        wanted: u64,
    },
    /// Somebody serves it.
    #[error("{0} is in use by another drivebay serve\nhint: stop that one, or name another file")]
    Locked(PathBuf),
    /// The machine.
    #[error("{what}: {why}\nhint: {hint}")]
    Machine {
        /// What could not be done.
        what: String,
        /// The system's words.
        why: io::Error,
        /// What to try.
        hint: &'static str,
    },
}

/// A stretch of sectors that all hold data, or are all a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many sectors.
    pub sectors: u64,
    /// Holds data; a hole reads as zeros.
    pub data: bool,
}

/// What the drive's sectors hold.
pub struct Store {
    file: File,
    sectors: u64,
    /// The file system can punch holes.
    holes: bool,
    /// What a power cut would take, where there may be one.
    volatile: Option<Volatile>,
    syncer: Option<Syncer>,
    /// In memory: most bytes.
    memory_max: u64,
    /// Bytes that may be written before the memory is weighed again.
    unweighed: u64,
}

impl Store {
    /// A store in memory that takes at most `memory_max` bytes.
    ///
    /// # Errors
    /// [`StoreError::Machine`].
    pub fn memory(sectors: u64, memory_max: u64) -> Result<Store, StoreError> {
        let made = || -> io::Result<File> {
            let file = File::from(rustix::fs::memfd_create("drivebay", MemfdFlags::CLOEXEC)?);
            file.set_len(sectors * SECTOR_BYTES)?;
            Ok(file)
        };
        let file = made().map_err(|why| StoreError::Machine {
            what: "no file in memory".into(),
            why,
            hint: "keep the data in a file: --data drive.img",
        })?;
        Ok(Store {
            file,
            sectors,
            holes: true,
            volatile: None,
            syncer: None,
            memory_max,
            unweighed: WEIGH_EVERY,
        })
    }

    /// The store in the file at `path`, made if it does not exist; locked until dropped.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path, sectors: u64, waker: &crate::Handle) -> Result<Store, StoreError> {
        Self::open_waking(path, sectors, waker.waker())
    }

    fn open_waking(path: &Path, sectors: u64, waker: Waker) -> Result<Store, StoreError> {
        let machine = |what: &str, why: io::Error| StoreError::Machine {
            what: format!("{} {what}", path.display()),
            why,
            hint: "see that its folder exists, has room, and may be written",
        };
        // Looked at before it is opened, as opening some devices acts on them; and after, to be sure.
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(StoreError::NotAFile(path.into())),
            _ => {}
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(path)
            .map_err(|why| machine("cannot be opened", why))?;
        let found = file.metadata().map_err(|why| machine("cannot be looked at", why))?;
        if !found.is_file() {
            return Err(StoreError::NotAFile(path.into()));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|why| match why {
            Errno::WOULDBLOCK => StoreError::Locked(path.into()),
            why => machine("cannot be locked", why.into()),
        })?;
        let wanted = sectors * SECTOR_BYTES;
        match found.len() {
            0 => file.set_len(wanted).map_err(|why| machine("cannot be made so large", why))?,
            len if len != wanted => {
                return Err(StoreError::Size { path: path.into(), found: len, wanted });
            }
            _ => {}
        }
        let theirs = file.try_clone().map_err(|why| machine("cannot be opened", why))?;
        let syncer = Syncer::new(theirs, waker).map_err(|why| machine("has no thread", why))?;
        // Behind the end there is nothing to lose.
        let holes = fallocate(&file, HOLE, wanted, 4096).is_ok();
        let (memory_max, unweighed) = (u64::MAX, u64::MAX);
        Ok(Store {
            file,
            sectors,
            holes,
            volatile: None,
            syncer: Some(syncer),
            memory_max,
            unweighed,
        })
    }

    /// Sectors of the drive.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// From now on the data that is not safe can be lost; at most `bytes_max` of it.
    pub fn may_lose(&mut self, loss: Loss, bytes_max: u64) {
        self.volatile = Some(Volatile::new(loss, bytes_max));
    }

    /// What a power cut would take, where there may be one.
    pub(crate) fn volatile(&mut self) -> Option<&mut Volatile> {
        self.volatile.as_mut()
    }

    /// Bytes that a power cut would take at most.
    #[must_use]
    pub(crate) fn losable_bytes(&self) -> u64 {
        self.volatile.as_ref().map_or(0, Volatile::bytes)
    }

    /// What was not safe is gone; returns how many bytes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn power_cut(
        &mut self,
        programmed: impl Fn(Place) -> bool,
        rng: &mut Rng,
    ) -> io::Result<u64> {
        let Some(volatile) = &mut self.volatile else { return Ok(0) };
        let mut lost = 0;
        for (lba, old) in volatile.cut(programmed, rng) {
            lost += old.len() as u64;
            self.file.write_all_at(&old, lba * SECTOR_BYTES)?;
        }
        Ok(lost)
    }

    /// Keeps what write `number` is about to replace.
    fn keep(&mut self, number: u64, lba: u64, sectors: u64) -> io::Result<()> {
        if self.volatile.is_none() {
            return Ok(());
        }
        let mut old = vec![0; (sectors * SECTOR_BYTES) as usize];
        self.read(lba, &mut old)?;
        let volatile = self.volatile.as_mut().expect("looked at above");
        volatile.replace(number, lba, &old);
        Ok(())
    }

    /// Whether zeros come without being written.
    #[must_use]
    pub fn zeroes_fast(&self) -> bool {
        self.holes
    }

    /// Reads whole sectors into `into`.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, lba * SECTOR_BYTES)
    }

    /// Writes whole sectors. `number` grows from change to change.
    ///
    /// # Errors
    /// The system's; no space also when the memory allowed is used up.
    pub fn write(&mut self, number: u64, lba: u64, data: &[u8]) -> io::Result<()> {
        self.weigh(data.len() as u64)?;
        self.keep(number, lba, data.len() as u64 / SECTOR_BYTES)?;
        self.file.write_all_at(data, lba * SECTOR_BYTES)
    }

    /// Makes sectors read as zeros; `allocated` keeps their space. `number` as for a write.
    ///
    /// # Errors
    /// The system's.
    pub fn zero(&mut self, number: u64, lba: u64, sectors: u64, allocated: bool) -> io::Result<()> {
        let (from, len) = (lba * SECTOR_BYTES, sectors * SECTOR_BYTES);
        if sectors <= TRIM_MAX {
            self.keep(number, lba, sectors)?;
        } else if let Some(volatile) = &mut self.volatile {
            volatile.settle_range(number, lba..lba + sectors);
        }
        if self.holes {
            fallocate(&self.file, HOLE, from, len)?;
        } else {
            self.write_zeros(from, len)?;
        }
        if allocated {
            self.weigh(len)?;
            fallocate(&self.file, FallocateFlags::empty(), from, len)?;
        }
        Ok(())
    }

    /// For file systems without holes.
    fn write_zeros(&mut self, from: u64, len: u64) -> io::Result<()> {
        const PIECE: u64 = 1 << 20;
        let zeros = vec![0; PIECE.min(len) as usize];
        let end = from + len;
        let mut at = from;
        while at < end {
            let piece = &zeros[..PIECE.min(end - at) as usize];
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Where there is data and where holes are, from `lba` on, over at most `sectors` and `most` stretches.
    ///
    /// # Errors
    /// The system's.
    pub fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>> {
        let end = (lba + sectors) * SECTOR_BYTES;
        let mut found: Vec<Extent> = Vec::new();
        let mut at = lba * SECTOR_BYTES;
        let next = |from| match seek(&self.file, from) {
            Ok(found) => Ok(found.min(end)),
            // No data from here on.
            Err(Errno::NXIO) => Ok(end),
            Err(why) => Err(why),
        };
        while at < end && found.len() < most {
            let data_at = next(SeekFrom::Data(at))?;
            let data = data_at == at;
            let until = if data { next(SeekFrom::Hole(at))? } else { data_at };
            // A stretch begins and ends with a sector, and its last one may hold both.
            let until = until.next_multiple_of(SECTOR_BYTES).min(end).max(at + SECTOR_BYTES);
            let sectors = (until - at) / SECTOR_BYTES;
            match found.last_mut() {
                Some(last) if last.data == data => last.sectors += sectors,
                _ => found.push(Extent { sectors, data }),
            }
            at = until;
        }
        Ok(found)
    }

    /// Everything written so far shall reach the disk; ask [`Store::synced`] whether it has.
    pub fn sync(&mut self) -> Option<u64> {
        self.syncer.as_ref().map(Syncer::draw)
    }

    /// Whether what [`Store::sync`] promised is done; an error if it cannot be.
    #[must_use]
    pub fn synced(&self, ticket: u64) -> Option<Result<(), ()>> {
        self.syncer.as_ref().map_or(Some(Ok(())), |syncer| syncer.look(ticket))
    }

    /// Refuses more than the memory allowed.
    fn weigh(&mut self, more: u64) -> io::Result<()> {
        if self.unweighed >= more {
            self.unweighed -= if self.syncer.is_some() { 0 } else { more };
            return Ok(());
        }
        let used = rustix::fs::fstat(&self.file)?.st_blocks as u64 * 512;
        if used + more > self.memory_max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.unweighed = WEIGH_EVERY.min(self.memory_max - used - more);
        Ok(())
    }
}
