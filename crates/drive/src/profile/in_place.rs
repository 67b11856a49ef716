//! Media that is written in place: `[nand]` with `in_place`, without `[gc]` and `[write_buffer]`.

use drivebay_units::Nanos;

use super::flash::{Geometry, PageOrder};
use super::key::{Number, Sourced, SpecError, is_set, nanos};
use super::schema::{RawGc, RawSpec, RawWriteBuffer};

/// Dies, channels and times of the media.
#[derive(Clone, Copy, Debug)]
pub struct InPlaceSpec {
    /// Dies on all channels; dies that share 4 KiB count as one. Any number is allowed.
    pub dies: u32,
    /// Channels; channels whose dies share 4 KiB count as one. Any number is allowed.
    pub channels: u32,
    /// Time of the array to read 4 KiB.
    pub read: Nanos,
    /// Time of the array to write 4 KiB.
    pub write: Nanos,
    /// Rate of a channel, in femtoseconds per byte.
    pub channel_fs_per_byte: u64,
}

pub(super) fn check_in_place(raw: &RawSpec) -> Result<Option<InPlaceSpec>, SpecError> {
    let n = &raw.nand;
    if !is_set(&n.in_place) {
        return Ok(None);
    }
    let health = raw.health.as_ref();
    let refused: [(&str, bool); 16] = [
        ("gc", raw.gc.is_some()),
        ("write_buffer", raw.write_buffer.is_some()),
        ("slc_cache", raw.slc_cache.is_some()),
        ("fdp", raw.fdp.is_some()),
        ("zns", raw.zns.is_some()),
        ("map_cache", raw.map_cache.is_some()),
        ("map_journal", raw.map_journal.is_some()),
        ("read_ahead", raw.read_ahead.is_some()),
        ("reliability", raw.reliability.is_some()),
        ("wear_leveling", raw.wear_leveling.is_some()),
        ("controller.half_duplex", raw.controller.half_duplex.is_some()),
        ("controller.admission", raw.controller.admission.is_some()),
        ("controller.mapping_unit_kib", raw.controller.mapping_unit_kib.is_some()),
        ("nand.slow_dies", n.slow_dies.is_some()),
        ("nand.parity", n.parity.is_some()),
        ("health.end_of_life", health.is_some_and(|health| health.end_of_life.is_some())),
    ];
    if let Some((field, _)) = refused.into_iter().find(|(_, given)| *given) {
        let hint =
            "media that is written in place has no map, buffer, garbage collection or spare blocks";
        return Err(SpecError::out(field, "given", "left out with nand.in_place", hint));
    }
    let dies = n.channels.value * n.dies_per_channel.value;
    let simple = [
        ("nand.planes", n.planes.value, 1),
        ("nand.page_kib", n.page_kib.value, 4),
        ("nand.bad_superblocks", n.bad_superblocks.value, 0),
        ("nand.program_us", n.program_us.value.len() as u64, 1),
    ];
    if let Some((field, given, wanted)) =
        simple.into_iter().find(|(_, given, wanted)| given != wanted)
    {
        let hint =
            "media that is written in place has one plane, pages of 4 KiB and one program time";
        return Err(SpecError::out(field, given, wanted.to_string(), hint));
    }
    let spread = n.spread_dies.as_ref().map_or(1, |dies| dies.value);
    if !n.channels.value.is_multiple_of(spread) {
        let allowed = format!("a divisor of the number of channels, {}", n.channels.value);
        let hint = "each 4 KiB is spread across dies of different channels";
        return Err(SpecError::out("nand.spread_dies", spread, allowed, hint));
    }
    // Dies that work together count as one die that is faster on its channel by that factor.
    let dies = dies / spread;
    if dies < 2 {
        let hint = "raise nand.dies_per_channel or nand.channels";
        return Err(SpecError::out("nand", "one die", "two dies or more", hint));
    }
    Ok(Some(InPlaceSpec {
        dies: dies as u32,
        channels: (n.channels.value / spread) as u32,
        read: Number::micros(&n.read_us),
        write: nanos(n.program_us.value[0]),
        channel_fs_per_byte: n.channel_mb_per_s.fs_per_byte() / spread,
    }))
}

/// Derives a geometry of only the pages that the host can address: no data is ever placed
/// elsewhere.
pub(super) fn check_geometry(raw: &RawSpec) -> Result<Geometry, SpecError> {
    let n = &raw.nand;
    let dies = n.channels.value * n.dies_per_channel.value;
    let media_sectors = dies * n.blocks_per_plane.value * n.pages_per_block.value * 8;
    let sectors = raw.drive.capacity_sectors.value;
    if !sectors.is_multiple_of(8) || sectors > media_sectors.min(u64::from(u32::MAX) * 8) {
        let allowed = format!("a multiple of 8, at most {media_sectors}, the sectors of the media");
        let hint = "add media (nand.blocks_per_plane), or offer less capacity";
        return Err(SpecError::out("drive.capacity_sectors", sectors, allowed, hint));
    }
    Ok(Geometry {
        user_sectors: sectors,
        user_pages: (sectors / 8) as u32,
        // Used as a divisor, although there are no superblocks.
        superblock_pages: 2,
        order: PageOrder::dies_first(0, 0),
        ..Geometry::default()
    })
}

/// Returns the profile with a `[gc]` and a `[write_buffer]` that have no effect, for code that
/// derives values from them.
pub(super) fn filled_in(raw: &RawSpec) -> RawSpec {
    let gc = RawGc {
        victim_policy: unused("greedy".to_owned()),
        frontiers: unused("separate".to_owned()),
        gain_max: unused(1.0),
        duty_growth: unused(1.0),
        reserve_superblocks: unused(1),
        ..RawGc::default()
    };
    let buffer = RawWriteBuffer { size_kib: unused(8), ..RawWriteBuffer::default() };
    RawSpec { gc: Some(gc), write_buffer: Some(buffer), ..raw.clone() }
}

fn unused<V>(value: V) -> Sourced<V> {
    Sourced { value, source: "not used".to_owned(), range: None }
}
