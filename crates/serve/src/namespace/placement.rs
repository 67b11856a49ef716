//! Flexible Data Placement configuration of a drive, and its placement identifiers.

/// Flexible Data Placement configuration of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// True if placement is enabled: writes go to the handle of their placement identifier.
    pub is_on: bool,
    /// Number of reclaim unit handles.
    pub handles: u8,
    /// Number of reclaim groups: a power of two.
    pub groups: u8,
}

impl Placement {
    /// Number of the upper bits of a placement identifier that select the reclaim group (RGIF).
    #[must_use]
    pub fn group_bits(self) -> u32 {
        u32::from(self.groups).ilog2()
    }

    /// Returns the identifier of a placement handle in a reclaim group.
    #[must_use]
    pub fn identifier(self, group: u8, handle: u16) -> u16 {
        (u32::from(group) << (16 - self.group_bits())) as u16 | handle
    }

    /// Returns the reclaim unit handle to which a namespace with `handles` writes by this
    /// identifier; the handles of the second reclaim group are numbered after those of the first.
    /// `None` if the namespace has no such placement handle.
    #[must_use]
    pub fn place(self, identifier: u16, handles: &[u8]) -> Option<u8> {
        let group = u32::from(identifier) >> (16 - self.group_bits());
        let handle = handles.get(usize::from(identifier ^ self.identifier(group as u8, 0)))?;
        Some(group as u8 * self.handles + handle)
    }
}
