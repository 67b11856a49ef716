//! Runs of sectors.

/// A run of sectors that all hold data, or are all a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of sectors.
    pub sectors: u64,
    /// Holds data; a hole reads as zeros.
    pub data: bool,
}
