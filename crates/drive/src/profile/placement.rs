//! Data placement by the host: write streams of a drive with Flexible Data Placement or zones.
//!
//! Sources: NVMe base specification 2.1, Flexible Data Placement (TP4146): reclaim unit handles,
//! initially and persistently isolated; NVMe Zoned Namespace command set 1.1 (zones, their limits).
//! A zone's size is the next power of two of its capacity, as Linux requires
//! (drivers/nvme/host/zns.c). Left out: reclaim units that are not whole superblocks, and their
//! time limit.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::flash::Geometry;
use super::host_interface::Protocol;
use super::key::{SpecError, is_set, nanos};
use super::schema::{RawSpec, RawZrwa};
use crate::per_stream::STREAMS_MAX;
use crate::superblock::Streams;

/// Zones and the costs of their commands.
#[derive(Clone, Copy, Debug)]
pub struct ZoneSpec {
    /// Number of zones.
    pub count: u32,
    /// Capacity of a zone, in pages.
    pub pages: u32,
    /// Capacity of a zone, in sectors of 512 B.
    pub sectors: u64,
    /// Distance between the first blocks of zones in the host's addresses, in sectors of 512 B.
    pub size_sectors: u64,
    /// Maximum number of active zones.
    pub active: u32,
    /// Maximum number of open zones.
    pub open: u32,
    /// Additional time of the flash core for a zone append compared with a write.
    pub append: Nanos,
    /// Time from the end of the flash core's work to the acknowledgement of a write.
    pub write_latency: Nanos,
    /// Additional time until the address of an append is returned, compared with a write.
    pub append_latency: Nanos,
    /// Time of the flash core for a reset.
    pub reset: Nanos,
    /// Additional time of a reset for each written sector, in picoseconds.
    pub reset_ps_per_sector: u64,
    /// Time of the flash core to close the blocks of a zone that is not full.
    pub close: Nanos,
    /// Maximum time of this work in one slice.
    pub slice: Nanos,
    /// Zone random write areas, if the drive has them.
    pub zrwa: Option<ZrwaSpec>,
}

/// Zone random write areas (ZRWA).
#[derive(Clone, Copy, Debug)]
pub struct ZrwaSpec {
    /// Maximum number of zones that have an area at the same time.
    pub zones: u32,
    /// Size of the area after the write pointer, in sectors of 512 B.
    pub sectors: u64,
    /// Step of the write pointer, in sectors of 512 B.
    pub granularity: u64,
}

impl ZrwaSpec {
    /// New write pointer, from the zone's beginning, after a write that ends at `end`. The pointer
    /// moves no further than needed for `end` to be within the area.
    #[must_use]
    pub fn pointer(&self, end: u64) -> u64 {
        end.saturating_sub(self.sectors).next_multiple_of(self.granularity)
    }

    /// Space of all areas together in the write buffer, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.zones) * self.sectors * SECTOR_BYTES
    }
}

/// Other features of the profile that restrict placement.
pub(super) struct OtherFeatures {
    /// True if the host's writes are split by lifespan or by a policy.
    pub splits: bool,
    /// True if copies run in the background and in rounds.
    pub background: bool,
    /// True if a plug-in decides.
    pub plugin: bool,
    pub protocol: Protocol,
}

/// Derives the streams of a drive whose host places its data, and its zones; `None` without
/// placement.
pub(super) fn check_placement(
    raw: &RawSpec,
    geometry: &Geometry,
    others: &OtherFeatures,
) -> Result<(Option<Streams>, Option<ZoneSpec>), SpecError> {
    let (field, given) = match (&raw.fdp, &raw.zns) {
        (None, None) => return Ok((None, None)),
        (Some(fdp), _) => ("fdp.handles", fdp.handles.value),
        (None, Some(zns)) => ("zns.active", zns.active.value),
    };
    let zones = raw.zns.is_some();
    let apart = raw.fdp.as_ref().is_some_and(|fdp| fdp.isolation.value == "persistent");
    let cannot = [
        (raw.slc_cache.is_some(), "an SLC cache, which mixes data", "leave out [slc_cache]"),
        (
            others.splits,
            "writes split by lifespan or by a policy",
            "leave out gc.host_frontiers and gc.plugin",
        ),
        (
            apart && raw.gc().frontiers.value == "single",
            "gc.frontiers single: the host takes the space that copies on their own frontier need",
            "use initial isolation, or set gc.frontiers to separate",
        ),
        (
            (apart || zones) && others.background,
            "gc.background_pages_per_s, whose rounds use one frontier",
            "use initial isolation, or leave out gc.background_pages_per_s",
        ),
        (zones && raw.fdp.is_some(), "zones", "leave out [fdp] or [zns]"),
        (zones && raw.map_cache.is_some(), "a map cache", "leave out [map_cache]"),
        (
            zones && geometry.unit_shift > 0,
            "a mapping unit above 4 KiB, because a zone may end within a unit",
            "leave out controller.mapping_unit_kib",
        ),
        (zones && others.protocol != Protocol::Nvme, "AHCI or SATA", "only NVMe drives have zones"),
    ];
    if let Some((_, other, hint)) = cannot.into_iter().find(|(cannot, _, _)| *cannot) {
        let allowed = format!("left out with {other}");
        return Err(SpecError::out(field, given, allowed, hint));
    }
    let streams = Streams::placed(given as usize, apart, 1 << geometry.group_shift);
    let groups = "fdp.reclaim_groups";
    if streams.groups > 1 && (others.background || others.plugin) {
        let allowed = "1 with gc.background_pages_per_s or gc.plugin, which do not support groups";
        return Err(SpecError::out(groups, streams.groups, allowed, "leave these out"));
    }
    if streams.count > STREAMS_MAX {
        let allowed = format!(
            "few enough that the handles and copy frontiers of all groups, now {}, are at most {STREAMS_MAX}",
            streams.count
        );
        let hint = "use fewer fdp.handles, or fewer groups";
        return Err(SpecError::out(groups, streams.groups, allowed, hint));
    }
    Ok((Some(streams), check_zones(raw, geometry)?))
}

fn check_zones(raw: &RawSpec, geometry: &Geometry) -> Result<Option<ZoneSpec>, SpecError> {
    let Some(zns) = &raw.zns else { return Ok(None) };
    let pages = zns.zone_superblocks.value * u64::from(geometry.superblock_pages);
    let sectors = pages * geometry.unit_bytes() / SECTOR_BYTES;
    let capacity = geometry.user_sectors;
    if capacity < sectors || !capacity.is_multiple_of(sectors) || sectors > u64::from(u32::MAX) {
        let allowed = format!(
            "a size that divides drive.capacity_sectors, {capacity}; a zone has {sectors} sectors, and at most 2 TiB"
        );
        let multiple = (capacity / sectors).max(1) * sectors;
        let hint = format!("use drive.capacity_sectors = {multiple}, or zones of another capacity");
        let given = zns.zone_superblocks.value;
        return Err(SpecError::out("zns.zone_superblocks", given, allowed, &hint));
    }
    let active = zns.active.value;
    let open = zns.open.as_ref().map_or(active, |open| open.value);
    if open > active {
        let allowed = format!("at most zns.active, {active}");
        let hint = "raise zns.active, as every open zone is active";
        return Err(SpecError::out("zns.open", open, allowed, hint));
    }
    let sectors_per_gib = (1u64 << 30) / SECTOR_BYTES;
    Ok(Some(ZoneSpec {
        count: (capacity / sectors) as u32,
        pages: pages as u32,
        sectors,
        size_sectors: sectors.next_power_of_two(),
        active: active as u32,
        open: open as u32,
        append: zns.append_us.micros(),
        write_latency: zns.write_latency_us.micros(),
        append_latency: zns.append_latency_us.micros(),
        reset: zns.reset_us.micros(),
        reset_ps_per_sector: nanos(zns.reset_us_per_gib.value).0 * 1000 / sectors_per_gib,
        close: zns.close_us.micros(),
        slice: zns.slice_us.micros(),
        zrwa: zns.zrwa.as_ref().map(|zrwa| check_zrwa(raw, zrwa, active, sectors)).transpose()?,
    }))
}

fn check_zrwa(
    raw: &RawSpec,
    zrwa: &RawZrwa,
    active: u64,
    zone_sectors: u64,
) -> Result<ZrwaSpec, SpecError> {
    let (zones, size, step) = (zrwa.zones.value, zrwa.size_kib.value, zrwa.granularity_kib.value);
    let is_safe = is_set(&raw.write_buffer().power_loss_protection);
    let room = raw.write_buffer().size_kib.value;
    let odd = |kib: u64| !kib.is_multiple_of(step) || !step.is_multiple_of(4);
    let wrong = [
        (!is_safe, "size_kib", size, "left out without write_buffer.power_loss_protection".into()),
        (zones > active, "zones", zones, format!("at most zns.active, {active}")),
        (
            odd(size) || odd(zone_sectors / 2),
            "granularity_kib",
            step,
            format!(
                "a multiple of 4 that divides {size} KiB and a zone's {} KiB",
                zone_sectors / 2
            ),
        ),
        (
            zones * size > room / 2,
            "size_kib",
            size,
            format!("at most half of write_buffer.size_kib, {room}, for {zones} zones together"),
        ),
    ];
    if let Some((_, key, given, allowed)) = wrong.into_iter().find(|(wrong, ..)| *wrong) {
        let field = format!("zns.zrwa.{key}");
        let hint = "the write buffer holds the areas' data, and must keep it through power cuts";
        return Err(SpecError::out(&field, given, allowed, hint));
    }
    Ok(ZrwaSpec { zones: zones as u32, sectors: size * 2, granularity: step * 2 })
}
