//! Errors of a run.

use drivebay_drive::DeviceError;

use crate::workload::WorkloadError;

/// Reason why a run ended without an outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The workload is invalid.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The drive refused a command.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The run was cancelled.
    #[error("cancelled\nhint: run it again")]
    Cancelled,
}
