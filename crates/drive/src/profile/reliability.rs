//! Errors and wear: `[reliability]`, optional.
//!
//! Source of the rate's formula, and of its numbers for 72-layer TLC flash (fresh 1.48e-3; wear
//! 3.90e-10 and 2.05; reads 3.73e-9, 0.33 and 1.71; age 6.28e-5, 0.14 and 0.54): Kim, Choi and Min,
//! "Design Tradeoffs for SSD Reliability", FAST 2019. `physics/reliability.rs` explains the rest.

use drivebay_units::Nanos;

use super::flash::Geometry;
use super::key::SpecError;
use super::schema::RawReliability;

/// Coefficients of the raw bit error rate; see [`RawReliability`] for the formula.
#[derive(Clone, Copy, Debug)]
pub struct ErrorRate {
    /// Rate of fresh flash.
    pub fresh: f64,
    /// Factor and exponent of cycles.
    pub wear: [f64; 2],
    /// Factor, exponent of cycles, exponent of reads per page.
    pub disturb: [f64; 3],
    /// Factor, exponent of cycles, exponent of days.
    pub age: [f64; 3],
    /// Standard deviation of the logarithm between pages.
    pub page_spread: f64,
}

/// Parameters of errors and wear.
#[derive(Clone, Copy, Debug)]
pub struct ReliabilitySpec {
    /// Raw bit error rate.
    pub rate: ErrorRate,
    /// Data bits per codeword.
    pub codeword_bits: u32,
    /// Codewords per page.
    pub codewords: u32,
    /// Wrong bits per codeword that can be corrected.
    pub correctable_bits: u32,
    /// Maximum number of retries of a read.
    pub retries_max: u32,
    /// Factor by which a retry reduces the rate.
    pub retry_gain: f64,
    /// Die time of one retry.
    pub retry_read: Nanos,
    /// Flash page reads of a superblock after which its data is moved; `u32::MAX` for never.
    pub refresh_reads: u32,
    /// Weibull's scale of a block's life, in cycles.
    pub life_cycles: f64,
    /// Weibull's shape of a block's life.
    pub life_shape: f64,
    /// Blocks of a superblock.
    pub superblock_blocks: u32,
    /// Flash pages of a superblock.
    pub superblock_flash_pages: u32,
    /// Spare blocks of a new drive.
    pub spare_blocks: u32,
}

pub(super) fn check_reliability(
    raw: &RawReliability,
    geometry: &Geometry,
) -> Result<ReliabilitySpec, SpecError> {
    let codeword_bytes = raw.codeword_bytes.value;
    if codeword_bytes < 512 {
        let hint = "present codes use 1024 to 4096 bytes; use 1024";
        let allowed = "512, 1024, 2048 or 4096";
        return Err(SpecError::out("reliability.codeword_bytes", codeword_bytes, allowed, hint));
    }
    let superblock_flash_pages = geometry.superblock_pages >> geometry.page_shift;
    // Counters are 32 bits wide; 4 billion reads of one superblock are beyond any run.
    let refresh_reads = match (raw.refresh_reads.value * f64::from(superblock_flash_pages)).round()
    {
        0.0 => u32::MAX,
        reads => reads.min(f64::from(u32::MAX)) as u32,
    };
    Ok(ReliabilitySpec {
        rate: ErrorRate {
            fresh: raw.fresh_rber.value,
            wear: [raw.wear_factor.value, raw.wear_exponent.value],
            disturb: [
                raw.disturb_factor.value,
                raw.disturb_cycle_exponent.value,
                raw.disturb_read_exponent.value,
            ],
            age: [raw.age_factor.value, raw.age_cycle_exponent.value, raw.age_exponent.value],
            page_spread: raw.page_spread.value,
        },
        codeword_bits: codeword_bytes as u32 * 8,
        codewords: (geometry.unit_bytes() / codeword_bytes) as u32,
        correctable_bits: raw.correctable_bits.value as u32,
        retries_max: raw.retries_max.value as u32,
        retry_gain: raw.retry_gain.value,
        retry_read: raw.retry_read_us.micros(),
        refresh_reads,
        life_cycles: raw.block_life_cycles.value,
        life_shape: raw.block_life_shape.value,
        superblock_blocks: geometry.superblock_blocks,
        superblock_flash_pages,
        spare_blocks: raw.spare_blocks.value as u32,
    })
}
