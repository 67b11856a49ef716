//! Saved state of a drive: its snapshots, and the files next to its model's state.

pub(crate) mod identity;
pub(crate) mod namespace_file;
pub(crate) mod sidecar;
pub(crate) mod snapshots;
