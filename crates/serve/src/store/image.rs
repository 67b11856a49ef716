//! Initial image of a drive: a raw file or a block device, which is only ever read.
//!
//! A drive in memory reads pages from the image until they are written or trimmed. A new data file
//! begins as a copy of the image, which shares its space if the file system can.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use drivebay_units::{SECTOR_BYTES, refuse_if};
use rustix::fs::{FlockOperation, OFlags, SeekFrom, flock, ioctl_ficlone, seek};
use rustix::io::Errno;

use super::extent::Extent;
use super::file::{check_room, extents, locked};
use crate::error::ServeError;

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// Image, locked against being served as data while it is used.
pub(crate) struct Image {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Image {
    /// Opens the image for a drive of `sectors`; it may be shorter than the drive.
    pub fn open(path: &Path, sectors: u64) -> Result<Image, ServeError> {
        let machine = |why: io::Error| {
            let hint = "name an image that exists and is readable: --from disk.raw";
            ServeError::machine(format!("{} cannot be read: {why}", path.display()), hint)
        };
        // Checked before it is opened, as opening some devices has side effects.
        let kind = std::fs::metadata(path).map_err(machine)?.file_type();
        let flags = match kind {
            kind if kind.is_file() => OFlags::NONBLOCK,
            // This fails if the device is mounted or part of another one, and prevents it from
            // becoming so.
            kind if kind.is_block_device() => OFlags::NONBLOCK | OFlags::EXCL,
            _ => {
                let what = "is neither a regular file nor a block device";
                let what = format!("{} {what}", path.display());
                return Err(ServeError::refused(what, "name a raw image: --from disk.raw"));
            }
        };
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
        let file = opened.map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::BUSY) => {
                let what = "is mounted, part of another device, or held by a program";
                let hint = "lsblk shows its use; free it, or name a copy";
                ServeError::machine(format!("{} {what}", path.display()), hint)
            }
            _ => machine(why),
        })?;
        flock(&file, FlockOperation::NonBlockingLockShared).map_err(|why| match why {
            Errno::WOULDBLOCK => locked(path),
            why => machine(why.into()),
        })?;
        // Metadata does not have the size of a block device.
        let bytes = seek(&file, SeekFrom::End(0)).map_err(|why| machine(why.into()))?;
        let wanted = sectors * SECTOR_BYTES;
        if bytes > wanted {
            let what = format!("has {bytes} bytes, more than the drive's {wanted}");
            let hint = "serve a larger drive: drivebay drives";
            return Err(ServeError::refused(format!("{} {what}", path.display()), hint));
        }
        Ok(Image { file, path: path.into(), bytes })
    }

    /// Reads from byte `at` on; bytes beyond the end are zeros.
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let here = self.bytes.saturating_sub(at).min(into.len() as u64) as usize;
        let (held, behind) = into.split_at_mut(here);
        behind.fill(0);
        self.file.read_exact_at(held, at)
    }

    /// Path of the file or device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Data and holes of the whole image.
    pub fn extents(&self) -> io::Result<Vec<Extent>> {
        extents(&self.file, 0, self.bytes.div_ceil(SECTOR_BYTES), usize::MAX)
    }

    /// Creates a copy at `path`, with a length of `sectors`; it appears there when it is complete.
    /// A file with content that was created meanwhile is left unchanged, and so is anything that is
    /// not a regular file.
    pub fn copy_to(
        &self,
        path: &Path,
        sectors: u64,
        cancelled: impl Fn() -> bool,
    ) -> Result<(), ServeError> {
        // A link stays, and its target is created.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.try_copy(&place, sectors, cancelled).map_err(|why| {
            let (path, image) = (path.display(), self.path.display());
            ServeError::machine(
                format!("{path} cannot become a copy of {image}: {why}"),
                "check that its folder exists, has free space, and is writable",
            )
        })
    }

    fn try_copy(&self, path: &Path, sectors: u64, cancelled: impl Fn() -> bool) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let partial = tempfile::Builder::new()
            .prefix(".drive-data-")
            .permissions(permissions)
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        let out = partial.as_file();
        if ioctl_ficlone(out, &self.file).is_err() {
            self.copy_data(out, cancelled)?;
        }
        out.set_len(sectors * SECTOR_BYTES)?;
        out.sync_all()?;
        // The copy may have taken an hour, in which another process may have created the file.
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            partial.persist(path)?;
        } else {
            partial.persist_noclobber(path)?;
        }
        Ok(())
    }

    fn copy_data(&self, out: &File, cancelled: impl Fn() -> bool) -> io::Result<()> {
        let extents = self.extents()?;
        let data = extents.iter().filter(|extent| extent.data).map(|extent| extent.sectors);
        check_room(out, data.sum::<u64>() * SECTOR_BYTES)?;
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        for Extent { sectors, data } in extents {
            let end = at + sectors * SECTOR_BYTES;
            while data && at < end {
                refuse_if(cancelled(), io::ErrorKind::Interrupted)?;
                let piece = &mut piece[..PIECE.min((end - at) as usize)];
                self.read(at, piece)?;
                out.write_all_at(piece, at)?;
                at += piece.len() as u64;
            }
            at = end;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "../../tests/unit/store_image.rs"]
mod tests;
