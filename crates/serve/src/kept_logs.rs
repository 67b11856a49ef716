//! What a drive's logs hold over power cycles, beside its state, in `STATE.logs`: JSON, written
//! with the state at an orderly end.
//!
//! Source: NVM Express base specification 2.0: the count of errors, the persistent event log,
//! results of self-tests, telemetry that the controller has taken, SMART, Timestamp; OCP Datacenter
//! NVMe SSD specification 2.0: C0h and C3h. Entries of the error log, events of placement and
//! reservations that persist stay as well, which the specification leaves to the drive. What SMART
//! takes from the model is in the state. A power cut takes none of it; it begins a controller anew,
//! which aborts a short self-test.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::DriveLogs;
use crate::error::ServeError;
use crate::nvme::Records;
use crate::sidecar;

/// All of it.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptLogs {
    /// The subsystem's.
    pub records: Records,
    pub drive: DriveLogs,
}

impl KeptLogs {
    /// Those of a drive whose state was saved; none where there is no such file.
    pub fn load(state: &Path) -> Result<Option<KeptLogs>, ServeError> {
        let path = sidecar::path(state, "logs");
        let found = sidecar::load::<KeptLogs>(&path).and_then(|found| match found {
            Some(found) if !found.records.are_sound() => {
                Err(std::io::Error::other("its firmware slots or its reservations are wrong"))
            }
            found => Ok(found),
        });
        found.map_err(|why| {
            let path = path.display();
            let what = format!("the logs in {path}: {why}");
            ServeError::machine(what, format!("to begin with empty ones: rm {path}"))
        })
    }

    /// Writes them.
    pub fn save(&self, state: &Path) -> Result<(), ServeError> {
        let path = sidecar::path(state, "logs");
        sidecar::save(&path, self).map_err(|why| {
            let what = format!("the logs cannot be kept in {}: {why}", path.display());
            ServeError::machine(what, "see the disk and who may write: df, ls -ld")
        })
    }
}
