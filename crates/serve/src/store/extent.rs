//! Runs of sectors.

/// Run of sectors that all hold data, or all belong to a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of sectors.
    pub sectors: u64,
    /// True for data; false for a hole, which reads as zeros.
    pub data: bool,
}
