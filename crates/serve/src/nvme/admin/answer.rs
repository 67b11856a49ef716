//! Outcomes of admin commands, and pages that they return.

use drivebay_wire::nvme::Status;

/// Outcome of an admin command.
#[derive(Debug)]
pub(in crate::nvme) enum Outcome {
    /// Success: dword 0 of the completion, and data for the host.
    Success(u32, Vec<u8>),
    /// The command waits for an event, or for the end of its operation.
    Held,
    /// A command of an I/O queue must be aborted.
    Abort {
        /// Submission queue of the command.
        queue: u16,
        /// Command identifier.
        cid: u16,
    },
    /// A fabrics or queue command, which the transport executes.
    Transport,
}

pub(in crate::nvme) type Answer = Result<Outcome, Status>;

/// Dword 0 of an Abort command's completion: the command was not aborted.
pub(in crate::nvme) const NOT_ABORTED: u32 = 1;

/// Returns a list of namespaces, in order, for Identify and logs.
pub(super) fn namespace_list(namespaces: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut page: Vec<u8> = namespaces.take(1024).flat_map(u32::to_le_bytes).collect();
    page.resize(4096, 0);
    page
}

/// Returns the requested part of a page, with zeros beyond its end.
pub(in crate::nvme) fn part_of_page(page: Vec<u8>, offset: u64, bytes: u64) -> Answer {
    let from = usize::try_from(offset).ok().filter(|&from| from <= page.len());
    let from = from.ok_or(Status::INVALID_FIELD.dnr())?;
    let mut part = page[from..].to_vec();
    part.resize(bytes as usize, 0);
    Ok(Outcome::Success(0, part))
}

pub(in crate::nvme) fn done() -> Answer {
    Ok(Outcome::Success(0, Vec::new()))
}
