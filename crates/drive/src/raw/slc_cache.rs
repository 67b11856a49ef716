//! The SLC cache: `[slc_cache]`, optional. Absent: every superblock holds all its bits per cell.

use serde::{Deserialize, Serialize};

use super::sourced::{Number, Word};

/// Superblocks used with one bit per cell, for what the host has just written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSlcCache {
    /// Data that superblocks hold which are always used this way; the user's capacity is without them.
    pub static_mb: Number,
    /// Most data that free superblocks hold which are used this way for a while.
    pub dynamic_mb: Number,
    /// Free flash, counted with all its bits per cell, that the dynamic part leaves alone.
    pub keep_mb: Number,
    /// tPROG with one bit per cell.
    pub program_us: Number,
    /// tR with one bit per cell.
    pub read_us: Number,
    /// What becomes of writes while the cache is full: they go `direct` to the rest of the flash, or wait
    /// for room that folding makes (`fold`).
    pub when_full: Word,
    /// Folding under load: pages folded per page that the host writes into the cache.
    pub fold_ratio: Number,
    /// Folding at rest: how long the flash core has had no command when it begins.
    pub fold_after_ms: Number,
    /// What an erase after use with one bit per cell wears, against one after use with all: 0 to 1.
    pub cycle_weight: Number,
    /// Energy of programming 4 KiB with one bit per cell.
    pub program_4k_uj: Number,
}
