//! Optional sections of a profile: flash that wears out, a map that does not fit the drive's memory, data
//! that is compressed, reading ahead.
//!
//! A section that is absent is not modelled: flash without errors and without end of life, a map wholly
//! in the drive's own memory, data stored as it comes, nothing read that was not asked for.

use serde::{Deserialize, Serialize};

use super::sourced::{Number, Sourced};

/// Errors, read retry, growing bad blocks: `[reliability]`. Absent: none of them.
///
/// Raw bit error rate of a page by P/E cycles c, reads r and age a:
/// `fresh_rber + wear_factor c^wear_exponent + disturb_factor c^disturb_cycle_exponent
/// r^disturb_read_exponent + age_factor c^age_cycle_exponent a^age_exponent`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawReliability {
    /// Rate of fresh flash, without retention and reads.
    pub fresh_rber: Number,
    /// Factor of the cycles' term.
    pub wear_factor: Number,
    /// Exponent of the cycles' term.
    pub wear_exponent: Number,
    /// Factor of the reads' term.
    pub disturb_factor: Number,
    /// Exponent of cycles in the reads' term.
    pub disturb_cycle_exponent: Number,
    /// Exponent of reads: mean reads of a block's page since its erase.
    pub disturb_read_exponent: Number,
    /// Factor of the age's term.
    pub age_factor: Number,
    /// Exponent of cycles in the age's term.
    pub age_cycle_exponent: Number,
    /// Exponent of the age: days since the superblock was opened.
    pub age_exponent: Number,
    /// Pages differ: standard deviation of the natural logarithm of their rates.
    pub page_spread: Number,
    /// Data bytes of one codeword of the error correction.
    pub codeword_bytes: Sourced<u64>,
    /// Wrong bits that it corrects.
    pub correctable_bits: Sourced<u64>,
    /// Most times a page is read again with other reference voltages.
    pub retries_max: Sourced<u64>,
    /// What each retry leaves of the rate, 0 to 1.
    pub retry_gain: Number,
    /// Die time of one retry: setting the voltages, and sensing.
    pub retry_read_us: Number,
    /// Reads of a block, per page, after which its data is moved; 0 for never.
    pub refresh_reads: Number,
    /// Cycles after which 63.2 % of blocks have failed (Weibull's scale).
    pub block_life_cycles: Number,
    /// How suddenly they fail (Weibull's shape).
    pub block_life_shape: Number,
    /// Blocks that replace failed ones.
    pub spare_blocks: Sourced<u64>,
}

/// A map in flash with a cache of it: `[map_cache]`. Absent: the whole map is in the drive's memory.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawMapCache {
    /// The controller's own memory for translation pages of 4 KiB (1,024 entries).
    pub sram_kib: Sourced<u64>,
    /// Memory of the host lent to the drive; 0 for none.
    pub host_buffer_mib: Sourced<u64>,
    /// One look-up in the host's memory, over the link and back.
    pub host_buffer_us: Number,
}

/// Reading ahead: `[read_ahead]`. Absent: none.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawReadAhead {
    /// Most that is fetched ahead of a stream.
    pub window_kib: Sourced<u64>,
    /// Sequential streams that are told apart.
    pub streams: Sourced<u64>,
}

/// A controller that compresses: `[compression]`. Absent: content makes no difference.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawCompression {
    /// Compressed, 4 KiB take a multiple of this on flash: a power of two from 64 to 4,096.
    pub unit_bytes: Sourced<u64>,
}
