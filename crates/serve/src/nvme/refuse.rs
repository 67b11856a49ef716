//! Refusal of a wrong command.

use drivebay_wire::nvme::Status;

/// Ends a command with a status, which a retry does not change, if it is wrong.
pub(super) fn refuse_if(is_wrong: bool, status: Status) -> Result<(), Status> {
    if is_wrong { Err(status.dnr()) } else { Ok(()) }
}
