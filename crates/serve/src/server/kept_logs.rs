//! Logs of a drive that outlast power cycles, next to its state, in `STATE.logs`: JSON, written
//! with the state at an orderly end.
//!
//! Source: NVM Express base specification 2.0: the count of errors, the persistent event log,
//! results of self-tests, telemetry that the controller has captured, SMART, Timestamp; OCP
//! Datacenter NVMe SSD specification 2.0: C0h and C3h. Entries of the error log, placement events
//! and persistent reservations are also kept, which the specification leaves to the drive. The
//! state has the values that SMART takes from the model. A power cut loses none of it; it resets
//! the controller, which aborts a short self-test.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::DriveLogs;
use crate::error::ServeError;
use crate::nvme::Records;
use crate::state::sidecar;

/// Content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptLogs {
    /// Records of the NVMe subsystem.
    pub records: Records,
    pub drive: DriveLogs,
}

impl KeptLogs {
    /// Loads the logs of a saved drive; `None` if the file does not exist.
    pub fn load(state: &Path) -> Result<Option<KeptLogs>, ServeError> {
        let path = sidecar::path(state, "logs");
        let logs = sidecar::load::<KeptLogs>(&path).and_then(|logs| match logs {
            Some(logs) if !logs.records.are_sound() => {
                Err(std::io::Error::other("its firmware slots or its reservations are wrong"))
            }
            logs => Ok(logs),
        });
        logs.map_err(|why| {
            let path = path.display();
            let what = format!("the logs in {path}: {why}");
            ServeError::machine(what, format!("to start with empty logs: rm {path}"))
        })
    }

    /// Writes the logs.
    pub fn save(&self, state: &Path) -> Result<(), ServeError> {
        let path = sidecar::path(state, "logs");
        sidecar::save(&path, self).map_err(|why| {
            let what = format!("the logs cannot be saved in {}: {why}", path.display());
            ServeError::machine(what, "check the disk and the permissions: df, ls -ld")
        })
    }
}
