//! The data: what the drive's sectors hold, in a sparse file (`file.rs`) or in memory (`memory.rs`).
//!
//! Where there may be power cuts it also keeps the way back to what is not safe (`volatile.rs`).

mod file;
mod memory;

use std::io;
use std::path::{Path, PathBuf};

use drivebay_drive::StreamPage;
use drivebay_units::{Rng, SECTOR_BYTES};

use crate::sync::Syncer;
use crate::volatile::{Loss, TRIM_MAX, Volatile};
use file::DataFile;
use memory::Memory;

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

enum Medium {
    File(DataFile),
    Memory(Memory),
}

/// What the drive's sectors hold.
pub struct Store {
    medium: Medium,
    sectors: u64,
    /// What a power cut would take, where there may be one.
    volatile: Option<Volatile>,
}

impl Store {
    /// A store in memory that takes at most `memory_max` bytes.
    #[must_use]
    pub fn memory(sectors: u64, memory_max: u64) -> Store {
        let medium = Medium::Memory(Memory::new(sectors, memory_max));
        Store { medium, sectors, volatile: None }
    }

    /// The store in the file at `path`, made if it does not exist; locked until dropped.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path, sectors: u64, waker: &crate::Handle) -> Result<Store, StoreError> {
        let medium = Medium::File(DataFile::open(path, sectors, waker.waker())?);
        Ok(Store { medium, sectors, volatile: None })
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
        programmed: impl Fn(StreamPage) -> bool,
        rng: &mut Rng,
    ) -> io::Result<u64> {
        let Some(volatile) = &mut self.volatile else { return Ok(0) };
        let mut lost = 0;
        for (lba, old) in volatile.cut(programmed, rng) {
            lost += old.len() as u64;
            match &mut self.medium {
                Medium::File(file) => file.write(lba, &old)?,
                Medium::Memory(memory) => memory.restore(lba, &old)?,
            }
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
        match &self.medium {
            Medium::File(file) => file.holes,
            Medium::Memory(_) => true,
        }
    }

    /// Reads whole sectors into `into`.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.medium {
            Medium::File(file) => file.read(lba, into),
            Medium::Memory(memory) => {
                memory.read(lba, into);
                Ok(())
            }
        }
    }

    /// Reads whole sectors to the end of `out`, which stays as it was if that fails.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&self, lba: u64, sectors: u32, out: &mut Vec<u8>) -> io::Result<()> {
        let bytes = (u64::from(sectors) * SECTOR_BYTES) as usize;
        match &self.medium {
            Medium::File(file) => {
                let before = out.len();
                out.resize(before + bytes, 0);
                file.read(lba, &mut out[before..]).inspect_err(|_| out.truncate(before))
            }
            Medium::Memory(memory) => {
                memory.append(lba, bytes, out);
                Ok(())
            }
        }
    }

    /// Writes whole sectors. `number` grows from change to change.
    ///
    /// # Errors
    /// The system's; no space also when the memory allowed is used up.
    pub fn write(&mut self, number: u64, lba: u64, data: &[u8]) -> io::Result<()> {
        self.keep(number, lba, data.len() as u64 / SECTOR_BYTES)?;
        match &mut self.medium {
            Medium::File(file) => file.write(lba, data),
            Medium::Memory(memory) => memory.write(lba, data),
        }
    }

    /// Makes sectors read as zeros; `allocated` keeps their space. `number` as for a write.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn zero(&mut self, number: u64, lba: u64, sectors: u64, allocated: bool) -> io::Result<()> {
        if sectors <= TRIM_MAX {
            self.keep(number, lba, sectors)?;
        } else if let Some(volatile) = &mut self.volatile {
            volatile.settle_range(number, lba..lba + sectors);
        }
        match &mut self.medium {
            Medium::File(file) => file.zero(lba, sectors, allocated),
            Medium::Memory(memory) => memory.zero(lba, sectors, allocated),
        }
    }

    /// Where there is data and where holes are, from `lba` on, over at most `sectors` and `most` stretches.
    ///
    /// # Errors
    /// The system's.
    pub fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>> {
        match &self.medium {
            Medium::File(file) => file.extents(lba, sectors, most),
            Medium::Memory(memory) => Ok(memory.extents(lba, sectors, most)),
        }
    }

    fn syncer(&self) -> Option<&Syncer> {
        match &self.medium {
            Medium::File(file) => Some(&file.syncer),
            Medium::Memory(_) => None,
        }
    }

    /// Everything written so far shall reach the disk; ask [`Store::synced`] whether it has.
    pub fn sync(&mut self) -> Option<u64> {
        self.syncer().map(Syncer::draw)
    }

    /// Whether what [`Store::sync`] promised is done; an error if it cannot be.
    #[must_use]
    pub fn synced(&self, ticket: u64) -> Option<Result<(), ()>> {
        self.syncer().map_or(Some(Ok(())), |syncer| syncer.look(ticket))
    }
}
