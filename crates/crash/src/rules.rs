//! The rules by which a drive keeps or loses what it has acknowledged, as its profile says.
//!
//! Sources: NVM Express Base Specification 2.0 (volatile write cache, Flush, FUA) for order `any`; the profile for the
//! size of the write buffer, the mapping unit and the dies. Simplified: pages that garbage collection or the drive's own
//! metadata put between host data are not in the stripes. Effect: on a drive at work the stripes are shorter.

use drivebay_drive::Spec;
use drivebay_units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

/// In which order what is volatile may become durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// In any: no standard promises one.
    #[default]
    Any,
    /// Each die programs its pages in their order, those of all planes at once.
    Stripes,
    /// In the order of submission.
    Fifo,
}

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
    /// In which order volatile data becomes durable.
    #[serde(default)]
    pub order: Order,
    /// Dies that program side by side.
    pub dies: u32,
    /// Bytes that a die programs at once.
    pub program_bytes: u64,
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
            order: Order::Any,
            dies: geometry.dies(),
            program_bytes: geometry.flash_page_bytes() << geometry.plane_shift,
        }
    }

    pub(crate) fn atomic_sectors(&self) -> u64 {
        (self.atomic_bytes / SECTOR_BYTES).max(1)
    }

    pub(crate) fn program_units(&self) -> usize {
        (self.program_bytes / self.atomic_bytes).max(1) as usize
    }
}
