//! Target of a replay: an open file or block device.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::ReplayError;

/// An open file or block device.
#[derive(Debug)]
pub struct Target {
    pub(crate) file: File,
    pub(crate) direct: bool,
    pub(crate) writable: bool,
    pub(crate) capacity_bytes: u64,
}

impl Target {
    /// Opens a target; `direct` bypasses the page cache. Nothing at or beyond `capacity_bytes` is
    /// ever touched.
    ///
    /// # Errors
    /// [`ReplayError::NoDirect`], [`ReplayError::Open`].
    pub fn open(
        path: &Path,
        capacity_bytes: u64,
        direct: bool,
        write: bool,
    ) -> Result<Target, ReplayError> {
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let opened = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path);
        let path = || path.display().to_string();
        match opened {
            Ok(file) => Ok(Target { file, direct, writable: write, capacity_bytes }),
            Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => {
                Err(ReplayError::NoDirect { path: path(), error })
            }
            Err(error) => Err(ReplayError::Open { path: path(), error }),
        }
    }
}
