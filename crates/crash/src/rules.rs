//! Rules by which a drive keeps or loses acknowledged data, as specified by its profile.
//!
//! Sources: NVM Express Base Specification 2.0 (volatile write cache, Flush, FUA), which guarantees
//! no order of volatile data; NVM Command Set Specification 1.0, section 2.1.4 (AWUPF: a larger
//! write that fails has "no guarantee" for its blocks); ATA ACS-4, which has no rule for a write
//! during power loss, and IDENTIFY DEVICE words 106 (logical sectors per physical one) and 69
//! (reads of trimmed sectors); Hitachi 5K320 SATA OEM specification, section 5.1 (at most one
//! unreadable sector); the profile for the size of the write buffer and the mapping unit.
//! Left out: the order in which dies program, and the map's journal. Effect: states that a specific
//! drive never shows are among those that the standard allows (ADR 0037). Also left out: atomic
//! boundaries (NABSPF), and more than one damaged part per state.

use drivebay_drive::Spec;
use drivebay_units::{SECTOR_BYTES, named};
use serde::{Deserialize, Serialize};

/// Standard that defines the content of a part that was not durable at the power cut. Without one,
/// a part of `Rules::atomic_bytes` is old or new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standard {
    /// A command of at most `Rules::atomic_bytes` (AWUPF) is old or new as a whole. Each such part
    /// of a larger command may also be damaged. Deallocated and unwritten sectors hold anything.
    Nvme,
    /// A part may be damaged. An unreadable one takes its physical sector of 4 KiB with it.
    /// Trimmed and unwritten sectors hold anything.
    Ata,
    /// A part is old or new; one per state may be unreadable.
    Disk,
}

named! {
    /// Content of a damaged part.
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Kind {
        /// Neither the old nor the new data.
        Garbage = "garbage",
        /// The first half is new, the second half old.
        Sheared = "sheared",
        /// A read error. A file shows garbage instead.
        Unreadable = "unreadable",
        /// Garbage in sectors that were never written, or were deallocated.
        Unwritten = "unwritten",
    }
}

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
    /// Standard for parts that are not durable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard: Option<Standard>,
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
            standard: None,
        }
    }

    pub(crate) fn atomic_sectors(&self) -> u64 {
        (self.atomic_bytes / SECTOR_BYTES).max(1)
    }
}
