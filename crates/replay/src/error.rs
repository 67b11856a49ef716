//! Errors before the start of a replay. Later problems are part of its outcome.

use std::io;

/// Reason why a replay could not begin. The text before the line break is shown as `error:`, the
/// rest as `hint:`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file system or driver does not support direct I/O.
    #[error(
        "{path}: O_DIRECT is refused here ({error}); memory would be measured instead of the drive\nhint: use a file on ext4, XFS or btrfs, or a block device; or accept it: --buffered"
    )]
    NoDirect {
        /// Path of the target.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The target cannot be opened.
    #[error("{path}: cannot be opened: {error}\nhint: check the name and the permissions: ls -l")]
    Open {
        /// Path of the target.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// io_uring is not available.
    #[error("io_uring: {what}: {error}\nhint: {hint}")]
    Ring {
        /// The failed operation.
        what: &'static str,
        /// Error of the operating system.
        error: io::Error,
        /// The hint shown to the user.
        hint: &'static str,
    },
    /// Memory for the data cannot be allocated.
    #[error(
        "no memory for the data: {0}\nhint: free some: two pools of 32 MiB are needed, see: free -m"
    )]
    Memory(io::Error),
    /// The depth is out of bounds.
    #[error("depth: {0} is not allowed; must be 1 to 4096\nhint: --depth 32")]
    OutOfRange(u32),
    /// The pace is invalid.
    #[error(transparent)]
    Pace(#[from] drivebay_trace::PaceError),
}
