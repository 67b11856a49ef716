//! Rules by which a drive keeps or loses acknowledged data, as specified by its profile.
//!
//! Sources: NVM Express Base Specification 2.0 (volatile write cache, Flush, FUA), which guarantees
//! no order of volatile data; the profile for the size of the write buffer and the mapping unit.
//! Left out: the order in which dies program, and the map's journal. Effect: states that a specific
//! drive never shows are among those that the standard allows (ADR 0037).

use drivebay_drive::Spec;
use drivebay_units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

/// Possible losses of a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Write buffer, bytes: acknowledged data older than the newest `buffer_bytes` is on flash.
    pub buffer_bytes: u64,
    /// Size of data that is present or lost as a whole, bytes: a power of two.
    pub atomic_bytes: u64,
    /// True with power-loss protection: acknowledged data is safe.
    pub protected: bool,
    /// True if flushes and FUA are acknowledged without making data safe.
    pub ignores_flush: bool,
}

impl Rules {
    /// Returns the rules of a drive.
    #[must_use]
    pub fn from_spec(spec: &Spec) -> Rules {
        let geometry = &spec.geometry;
        let buffer_bytes = u64::from(spec.buffer_pages) * geometry.flash_page_bytes();
        Rules {
            buffer_bytes: if spec.in_place.is_some() { 0 } else { buffer_bytes },
            atomic_bytes: geometry.unit_bytes(),
            protected: spec.power_loss_protection,
            ignores_flush: spec.ignore_flush,
        }
    }

    pub(crate) fn atomic_sectors(&self) -> u64 {
        (self.atomic_bytes / SECTOR_BYTES).max(1)
    }
}
