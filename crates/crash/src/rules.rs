//! The rules by which a drive keeps or loses what it has acknowledged, as its profile says.
//!
//! Sources: NVM Express Base Specification 2.0 (volatile write cache, Flush, FUA), which promises
//! no order of what is volatile; the profile for the size of the write buffer and the mapping unit.
//! Left out: the order in which dies program, and the map's journal. Effect: states that the one
//! drive never shows are among those that the standard allows (ADR 0037).

use drivebay_drive::Spec;
use drivebay_units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

/// What a power cut may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Write buffer: what has been acknowledged before the newest so many bytes is on flash.
    pub buffer_bytes: u64,
    /// What is there or not as a whole, bytes: a power of two.
    pub atomic_bytes: u64,
    /// Power-loss protection: what was acknowledged is safe.
    pub protected: bool,
    /// Flushes and FUA are acknowledged and make nothing safe.
    pub ignores_flush: bool,
}

impl Rules {
    /// Those of a drive.
    #[must_use]
    pub fn of(spec: &Spec) -> Rules {
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
