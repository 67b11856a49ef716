//! Why a replay could not begin. What happens later is in its outcome.

use std::io;

/// Why a replay could not begin. Shown as `error:`; what follows the line break as `hint:`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file system or driver has no direct I/O.
    #[error(
        "{path}: O_DIRECT is refused here ({error}); memory would be measured instead of the drive\nhint: use a file on ext4, XFS or btrfs, or a block device; or accept it: --buffered"
    )]
    NoDirect {
        /// What was to be opened.
        path: String,
        /// What the operating system answered.
        error: io::Error,
    },
    /// The target cannot be opened.
    #[error("{path}: cannot be opened: {error}\nhint: check the name and the permissions: ls -l")]
    Open {
        /// What was to be opened.
        path: String,
        /// What the operating system answered.
        error: io::Error,
    },
    /// The kernel gives no io_uring.
    #[error("io_uring: {what}: {error}\nhint: {hint}")]
    Ring {
        /// What failed.
        what: &'static str,
        /// What the operating system answered.
        error: io::Error,
        /// The hint shown to the user.
        hint: &'static str,
    },
    /// No memory for the data.
    #[error(
        "no memory for the data: {0}\nhint: free some: two areas of 32 MiB are needed, see: free -m"
    )]
    Memory(io::Error),
    /// An option out of bounds.
    #[error("{field}: {given} is not allowed; must be {allowed}\nhint: {hint}")]
    OutOfRange {
        /// Name of the option.
        field: &'static str,
        /// Its value, as it was given.
        given: u64,
        /// The values that are allowed, in words.
        allowed: &'static str,
        /// The hint shown to the user.
        hint: &'static str,
    },
    /// The pace is not possible.
    #[error(transparent)]
    Pace(#[from] drivebay_trace::PaceError),
}
