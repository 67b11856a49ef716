//! Why a store cannot be opened.

use std::io;
use std::path::PathBuf;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Opening a device or a pipe can act on it, so only regular files are.
    #[error(
        "{0} is not a regular file; data is never written to anything else\nhint: name a file, it is made if it does not exist: --data drive.img"
    )]
    NotAFile(PathBuf),
    /// Another size than the drive's.
    #[error(
        "{path} has {found} bytes, the drive has {wanted}\nhint: name the file that belongs to this drive, or a new one"
    )]
    Size {
        /// The file of the data.
        path: PathBuf,
        /// Its size, bytes.
        found: u64,
        /// The drive's capacity, bytes.
        wanted: u64,
    },
    /// Only these are read, and are there again when they are read again.
    #[error(
        "{0} is neither a regular file nor a block device\nhint: name a raw image: --from disk.raw"
    )]
    NotAnImage(PathBuf),
    /// An image has more than the drive.
    #[error(
        "{path} has {found} bytes, more than the drive's {wanted}\nhint: serve a larger drive: drivebay drives"
    )]
    TooLarge {
        /// The image.
        path: PathBuf,
        /// Its size, bytes.
        found: u64,
        /// The drive's capacity, bytes.
        wanted: u64,
    },
    /// What says which pages are the image's does not fit.
    #[error(
        "the table of what {path} holds takes {} MiB, more than --memory leaves for data\nhint: --memory {}MiB at least, and what is written comes to that; or a copy: --data FILE", .table.div_ceil(1 << 20), .memory.div_ceil(1 << 20)
    )]
    ImageTable {
        /// The image.
        path: PathBuf,
        /// Bytes of the table.
        table: u64,
        /// Least `--memory` with which it fits, bytes.
        memory: u64,
    },
    /// The image cannot be searched.
    #[error("the image cannot be searched for data: {0}\nhint: see the disk: dmesg")]
    Search(#[from] io::Error),
    /// An image on a device that may change at any time.
    #[error(
        "{0} is mounted, part of another device, or held by a program\nhint: lsblk shows by what; free it, or name a copy"
    )]
    InUse(PathBuf),
    /// Another server has locked it.
    #[error("{0} is in use by another drivebay serve\nhint: stop that one, or name another file")]
    Locked(PathBuf),
    /// A system call failed.
    #[error("{what}: {why}\nhint: {hint}")]
    Machine {
        /// What could not be done.
        what: String,
        /// The system's error.
        why: io::Error,
        /// The hint shown to the user.
        hint: &'static str,
    },
}
