//! Data in a sparse file, locked while it is served.
//!
//! Reads and writes go through the page cache; TRIM punches holes, which read as zeros. A write
//! that the file has taken survives the end of this process; fdatasync writes it to the disk. Left
//! out: asynchronous I/O. For data outside of the page cache the engine waits for the disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use drivebay_units::{SECTOR_BYTES, refuse_if};
use rustix::fs::{
    FallocateFlags, FlockOperation, SeekFrom, fallocate, flock, fstatvfs, ioctl_ficlone, seek,
};
use rustix::io::Errno;

use super::extent::Extent;
use super::sync::Syncer;
use crate::error::ServeError;
use crate::waker::Waker;

const HOLE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// Space of the host's file system that is left to other programs, as a share, and bytes at most.
/// guess: enough for logs and temporary files until somebody looks.
const RESERVE_SHARE: u64 = 20;
const RESERVE_MAX: u64 = 1 << 30;

/// Fails unless the file system of `file` has space for `bytes` more, in addition to its reserve.
pub(super) fn check_room(file: &File, bytes: u64) -> io::Result<()> {
    let space = fstatvfs(file)?;
    let reserve = (space.f_blocks / RESERVE_SHARE * space.f_frsize).min(RESERVE_MAX);
    let free = (space.f_bavail * space.f_frsize).saturating_sub(reserve);
    refuse_if(bytes > free, io::ErrorKind::StorageFull.into())
}

/// Error for a file that another server has locked.
pub(super) fn locked(path: &Path) -> ServeError {
    let what = format!("{} is in use by another drivebay serve", path.display());
    ServeError::machine(what, "stop that server, or name another file")
}

/// File with the size of the drive.
pub(super) struct DataFile {
    file: File,
    /// Folder of the file.
    pub folder: PathBuf,
    /// True if the file system can punch holes.
    pub holes: bool,
    pub syncer: Syncer,
}

impl DataFile {
    /// Opens the file, or creates it.
    pub fn open(path: &Path, sectors: u64, waker: Waker) -> Result<DataFile, ServeError> {
        let machine = |what: &str, why: io::Error| {
            let hint = "check that its folder exists, has free space, and is writable";
            ServeError::machine(format!("{} {what}: {why}", path.display()), hint)
        };
        let no_file = || {
            let what = "is not a regular file; data is never written to anything else";
            let hint = "name a file; it is created if it does not exist: --data drive.img";
            ServeError::refused(format!("{} {what}", path.display()), hint)
        };
        // Checked before it is opened, as opening some devices has side effects; and after, to be
        // sure.
        match std::fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => return Err(no_file()),
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
        let metadata = file.metadata().map_err(|why| machine("cannot be examined", why))?;
        if !metadata.is_file() {
            return Err(no_file());
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|why| match why {
            Errno::WOULDBLOCK => locked(path),
            why => machine("cannot be locked", why.into()),
        })?;
        let wanted = sectors * SECTOR_BYTES;
        match metadata.len() {
            0 => file
                .set_len(wanted)
                .map_err(|why| machine("cannot be extended to the size of the drive", why))?,
            len if len != wanted => {
                return Err(ServeError::refused(
                    format!("{} has {len} bytes, the drive has {wanted}", path.display()),
                    "name the file that belongs to this drive, or a new one",
                ));
            }
            _ => {}
        }
        let theirs = file.try_clone().map_err(|why| machine("cannot be opened", why))?;
        let syncer =
            Syncer::new(theirs, waker).map_err(|why| machine("cannot start a thread", why))?;
        // Beyond the end there is no data to lose.
        let holes = fallocate(&file, HOLE, wanted, 4096).is_ok();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        Ok(DataFile { file, folder, holes, syncer })
    }

    /// Makes `other` share this file's space until one of them is written; returns false if the
    /// file system cannot.
    pub fn reflink(&self, other: &File) -> bool {
        ioctl_ficlone(other, &self.file).is_ok()
    }

    pub fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, lba * SECTOR_BYTES)
    }

    pub fn write(&self, lba: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, lba * SECTOR_BYTES)
    }

    /// Makes sectors read as zeros; `allocated` keeps their space.
    ///
    /// # Errors
    /// No space, before anything has changed, if the host's file system has too little for the
    /// space to keep. Space that was kept before and never written counts as a hole.
    pub fn zero(&self, lba: u64, sectors: u64, allocated: bool) -> io::Result<()> {
        let (from, len) = (lba * SECTOR_BYTES, sectors * SECTOR_BYTES);
        if allocated || !self.holes {
            check_room(&self.file, self.missing(lba, sectors)?)?;
        }
        if allocated {
            match fallocate(&self.file, FallocateFlags::ZERO_RANGE, from, len) {
                Err(Errno::OPNOTSUPP) => {}
                other => return Ok(other?),
            }
        }
        if self.holes {
            fallocate(&self.file, HOLE, from, len)?;
        } else {
            self.write_zeros(from, len)?;
        }
        if allocated {
            fallocate(&self.file, FallocateFlags::empty(), from, len)?;
        }
        Ok(())
    }

    /// Most bytes of space that these sectors lack.
    fn missing(&self, lba: u64, sectors: u64) -> io::Result<u64> {
        let extents = self.extents(lba, sectors, usize::MAX)?;
        let holes = extents.iter().filter(|extent| !extent.data).map(|extent| extent.sectors);
        let metadata = self.file.metadata()?;
        let of_all = metadata.len().saturating_sub(metadata.blocks() * 512);
        Ok((holes.sum::<u64>() * SECTOR_BYTES).min(of_all))
    }

    /// Writes zeros, on file systems without holes.
    fn write_zeros(&self, from: u64, len: u64) -> io::Result<()> {
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

    /// Data and holes from `lba` on, over at most `sectors` sectors and `most` extents.
    pub fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>> {
        extents(&self.file, lba, sectors, most)
    }
}

/// Data and holes of a file from `lba` on, over at most `sectors` sectors and `most` extents. On a
/// block device everything counts as data, as the written parts are unknown.
pub(super) fn extents(file: &File, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>> {
    let end = (lba + sectors) * SECTOR_BYTES;
    let mut extents: Vec<Extent> = Vec::new();
    let mut at = lba * SECTOR_BYTES;
    let next = |from| match seek(file, from) {
        Ok(position) => Ok(position.min(end)),
        // No data from here on.
        Err(Errno::NXIO) => Ok(end),
        Err(why) => Err(why),
    };
    while at < end && extents.len() < most {
        let data_at = match next(SeekFrom::Data(at)) {
            Err(Errno::INVAL) => return Ok(vec![Extent { sectors, data: true }]),
            data_at => data_at?,
        };
        let data = data_at == at;
        let until = if data { next(SeekFrom::Hole(at))? } else { data_at };
        // An extent begins and ends at a sector boundary; its last sector may contain data and a
        // hole.
        let until = until.next_multiple_of(SECTOR_BYTES).min(end).max(at + SECTOR_BYTES);
        let sectors = (until - at) / SECTOR_BYTES;
        match extents.last_mut() {
            Some(last) if last.data == data => last.sectors += sectors,
            _ => extents.push(Extent { sectors, data }),
        }
        at = until;
    }
    Ok(extents)
}

#[cfg(test)]
#[path = "../../tests/unit/store_file.rs"]
mod tests;
