//! The SLC cache: `[slc_cache]`, optional. Sizes are rounded to the nearest whole superblock.
//!
//! A superblock with one bit per cell has 1/2, 1/3 or 1/4 of its pages: as many rows as there are
//! whole sets of page types.

use drivebay_units::Nanos;

use super::flash::{Geometry, NandTiming};
use super::key::{Number, SpecError, is_word};
use super::schema::RawSlcCache;

/// Handling of writes while the cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Writes go to superblocks with all bits per cell.
    Direct,
    /// Writes wait until folding has made space.
    Fold,
}

/// The SLC cache; sizes are in superblocks and pages (mapping units).
#[derive(Clone, Copy, Debug)]
pub struct SlcCacheSpec {
    /// Pages of a superblock with one bit per cell.
    pub superblock_pages: u32,
    /// Superblocks that are always used with one bit per cell.
    pub fixed: u32,
    /// Maximum number of other superblocks used with one bit per cell at a time.
    pub dynamic_max: u32,
    /// Free pages, counted with all bits per cell, that the dynamic superblocks must leave free.
    pub keep_free: u64,
    /// tPROG with one bit per cell.
    pub program: Nanos,
    /// tR with one bit per cell.
    pub read: Nanos,
    /// Handling of writes while the cache is full.
    pub when_full: WhenFull,
    /// Pages folded under load per page written, in 1/256.
    pub fold_ratio_256: u64,
    /// True if folding under load begins only when the cache is full. The cache is then closed
    /// until an idle period.
    pub fold_from_full: bool,
    /// Time without commands at the flash core after which folding in idle time begins.
    pub fold_after: Nanos,
    /// Wear of an erase, in 1/256 of an erase after use with all bits per cell.
    pub cycle_weight_256: u32,
}

pub(super) fn check_slc_cache(
    raw: &RawSlcCache,
    geometry: &Geometry,
    nand: &NandTiming,
) -> Result<SlcCacheSpec, SpecError> {
    let rows = geometry.pages_per_die() >> geometry.plane_shift;
    if nand.page_types < 2 || rows < nand.page_types {
        let given = format!("{} page types, {rows} pages to a block", nand.page_types);
        let hint = "leave out [slc_cache]; SLC flash is as fast as its cache would be";
        let allowed = "left out, or on flash with two to four page types, all of them in a block";
        return Err(SpecError::out("slc_cache", given, allowed, hint));
    }
    let superblock_pages = geometry.superblock_pages / rows * (rows / nand.page_types);
    let superblocks = |key: &str, size: &Number| -> Result<u64, SpecError> {
        let (mb, pages) = (size.value, u64::from(superblock_pages));
        let count = (geometry.pages_of(mb) + pages / 2) / pages;
        let most = u64::from(geometry.superblocks - geometry.bad_superblocks);
        let one_mb = (pages * geometry.unit_bytes()).div_ceil(1_000_000);
        if count > most || (count == 0 && mb > 0.0) {
            let allowed = format!("0, or {one_mb} (one superblock) to {}", most * one_mb);
            let hint = "sizes are amounts of data at one bit per cell";
            return Err(SpecError::out(&format!("slc_cache.{key}"), mb, allowed, hint));
        }
        Ok(count)
    };
    let fixed = superblocks("static_mb", &raw.static_mb)?;
    let good = u64::from(geometry.superblocks - geometry.bad_superblocks);
    let needed = u64::from(geometry.user_pages).div_ceil(u64::from(geometry.superblock_pages));
    if fixed > 0 && fixed + needed > good {
        let given = format!("{} ({fixed} superblocks)", raw.static_mb.value);
        let allowed = format!("at most {} superblocks", good - needed.min(good));
        let hint = "lower it, raise nand.blocks_per_plane, or offer less capacity";
        return Err(SpecError::out("slc_cache.static_mb", given, allowed, hint));
    }
    let when_full = if raw.when_full.value == "fold" { WhenFull::Fold } else { WhenFull::Direct };
    let in_256 = |number: &Number| (number.value * 256.0).round();
    Ok(SlcCacheSpec {
        superblock_pages,
        fixed: fixed as u32,
        dynamic_max: superblocks("dynamic_mb", &raw.dynamic_mb)? as u32,
        keep_free: geometry.pages_of(raw.keep_mb.value),
        program: raw.program_us.micros(),
        read: raw.read_us.micros(),
        when_full,
        fold_ratio_256: in_256(&raw.fold_ratio) as u64,
        fold_from_full: check_fold_from(raw, when_full)?,
        fold_after: raw.fold_after_ms.millis(),
        cycle_weight_256: in_256(&raw.cycle_weight) as u32,
    })
}

fn check_fold_from(raw: &RawSlcCache, when_full: WhenFull) -> Result<bool, SpecError> {
    let full = is_word(&raw.fold_from, "full");
    if full && when_full == WhenFull::Fold {
        let hint = "leave it out, or set slc_cache.when_full to direct";
        let allowed = "first-write if writes wait for folding";
        return Err(SpecError::out("slc_cache.fold_from", "full", allowed, hint));
    }
    Ok(full)
}
