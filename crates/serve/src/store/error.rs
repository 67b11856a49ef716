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
