//! The flash: geometry, timing, and minimum sizes of write buffer and spare space.

use drivebay_units::Nanos;

use super::constants::{PAGE_BYTES, PAGE_TYPES_MAX};
use super::key::{Key, Number, Numbers, SpecError, is_set, is_word, nanos};
use super::schema::{RawNand, RawSlowDies, RawSpec, RawVariation};

/// Order in which numbers of flash pages run through dies, planes and page types.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOrder {
    /// log2 of the distance between neighbouring planes of a die.
    pub plane_shift: u32,
    /// log2 of the distance between page types.
    pub type_shift: u32,
    /// Consecutive flash pages on a die before the next die.
    pub die_pages: u32,
    /// Shift, multiplication and shift that together divide a number by `die_pages`.
    divide: (u32, u64, u32),
}

impl PageOrder {
    /// Returns the order in which a page on each die comes first, then the next plane of each die,
    /// then the next page type.
    pub const fn dies_first(die_shift: u32, plane_shift: u32) -> PageOrder {
        PageOrder {
            plane_shift: die_shift,
            type_shift: die_shift + plane_shift,
            die_pages: 1,
            divide: (0, 1, 0),
        }
    }

    #[inline(always)]
    fn before_die(&self, page: u32) -> u32 {
        let (first, factor, then) = self.divide;
        ((u64::from(page >> first) * factor) >> then) as u32
    }
}

/// Geometry of the flash. Counts are in mapping units ("pages", 4 KiB on most drives) unless noted
/// otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    /// Sectors that the host can address.
    pub user_sectors: u64,
    /// Pages that hold these sectors; the last may be used in part.
    pub user_pages: u32,
    /// log2 of the number of 4 KiB units in a page.
    pub unit_shift: u32,
    /// Pages of a superblock: one block of every plane of every die of its reclaim group. Without
    /// several groups this is the whole drive.
    pub superblock_pages: u32,
    /// Superblocks, bad ones included.
    pub superblocks: u32,
    /// Bad superblocks.
    pub bad_superblocks: u32,
    /// Blocks of a superblock: one on every plane of each of its dies.
    pub superblock_blocks: u32,
    /// log2 of pages in a flash page. Flash pages of planes across which a page lies count as one.
    pub page_shift: u32,
    /// log2 of the dies of a superblock.
    pub die_shift: u32,
    /// Number of dies of a superblock, minus one.
    pub die_mask: u32,
    /// log2 of the number of reclaim groups. Superblocks and dies belong to the groups in turn.
    pub group_shift: u32,
    /// log2 of planes.
    pub plane_shift: u32,
    /// Order in which flash pages run through dies, planes and page types.
    pub order: PageOrder,
    /// Number of channels minus one: a die's channel is `die & channel_mask`.
    pub channel_mask: u32,
    /// Superblocks that are always used with one bit per cell, for the SLC cache.
    pub slc_superblocks: u32,
    /// Dies of a parity stripe, if the drive has parity.
    pub parity_dies: Option<u32>,
}

impl Geometry {
    /// Number of dies on all channels.
    #[must_use]
    pub fn dies(&self) -> u32 {
        1 << (self.die_shift + self.group_shift)
    }

    /// Usable pages, without those of the static SLC cache and those of parity.
    #[must_use]
    pub fn usable_pages(&self) -> u64 {
        self.data_pages(
            u64::from(self.superblocks - self.bad_superblocks - self.slc_superblocks)
                * u64::from(self.superblock_pages),
        )
    }

    /// Pages that hold data among `addresses` pages of whole superblocks. The others are parity. A
    /// superblock has one more stripe than would fill it, because its first and last stripes are
    /// short.
    #[must_use]
    pub fn data_pages(&self, addresses: u64) -> u64 {
        let Some(dies) = self.parity_dies else { return addresses };
        let unit = u64::from(self.order.die_pages << self.page_shift);
        let parity = (u64::from(self.superblock_pages) / unit).div_ceil(u64::from(dies)) + 1;
        addresses - addresses / u64::from(self.superblock_pages) * parity * unit
    }

    /// Superblocks without those of the static SLC cache. The cache's superblocks come last; bad
    /// superblocks come before them, or last if there are none.
    #[must_use]
    pub fn ordinary_superblocks(&self) -> u32 {
        let others = self.bad_superblocks + self.slc_superblocks;
        self.superblocks - if self.slc_superblocks > 0 { others } else { 0 }
    }

    /// Flash pages of a superblock on one die.
    #[must_use]
    pub fn pages_per_die(&self) -> u32 {
        self.superblock_pages >> (self.page_shift + self.die_shift)
    }

    /// Spare pages that garbage collection needs to make progress: for each reclaim group the
    /// frontiers, the reserve, and one superblock to gain.
    #[must_use]
    pub fn spare_needed(&self, reserve_superblocks: u64) -> u64 {
        ((reserve_superblocks + 3) * u64::from(self.superblock_pages)) << self.group_shift
    }

    /// Superblocks that a drive with this reserve and so many pages for data can lose.
    #[must_use]
    pub fn spendable(&self, reserve_superblocks: u64, usable: u64) -> u64 {
        let row = u64::from(self.superblock_pages) << self.group_shift;
        let needed = u64::from(self.user_pages) + self.spare_needed(reserve_superblocks);
        (usable.saturating_sub(needed) / row) << self.group_shift
    }

    /// The reclaim group of a superblock.
    #[inline(always)]
    #[must_use]
    pub fn group_of(&self, superblock: u32) -> u32 {
        superblock & ((1 << self.group_shift) - 1)
    }

    /// The plane of the flash page with this number.
    #[inline(always)]
    #[must_use]
    pub fn plane_of(&self, page: u32) -> u32 {
        (page >> self.order.plane_shift) & ((1 << self.plane_shift) - 1)
    }

    /// The die of the flash page with this number.
    #[inline(always)]
    #[must_use]
    pub fn die_of(&self, page: u32) -> u32 {
        let die = self.order.before_die(page) & self.die_mask;
        if self.group_shift == 0 { die } else { self.group_die(page, die) }
    }

    /// The `die`th die of the flash page's reclaim group.
    #[cold]
    #[inline(never)]
    fn group_die(&self, page: u32, die: u32) -> u32 {
        die << self.group_shift | self.group_of(page / (self.superblock_pages >> self.page_shift))
    }

    /// The channel of the flash page with this number.
    #[inline(always)]
    #[must_use]
    pub fn channel_of(&self, page: u32) -> usize {
        self.channel_of_die(self.die_of(page))
    }

    /// The channel of a die.
    #[inline(always)]
    #[must_use]
    pub fn channel_of_die(&self, die: u32) -> usize {
        (die & self.channel_mask) as usize
    }

    /// The first flash page on a die. `turn` is the die, or any number that counts through the dies
    /// repeatedly.
    #[must_use]
    pub fn first_on_die(&self, turn: u32) -> u32 {
        let die = turn & (self.dies() - 1);
        let superblock = self.group_of(die) * (self.superblock_pages >> self.page_shift);
        superblock + (die >> self.group_shift) * self.order.die_pages
    }

    /// The plane of a flash page, numbered across all dies.
    #[must_use]
    pub fn plane_of_all(&self, page: u32) -> usize {
        (self.die_of(page) << self.plane_shift | self.plane_of(page)) as usize
    }

    /// Flash pages of a row across all dies and planes of a superblock.
    #[must_use]
    pub fn row_pages(&self) -> u64 {
        1 << (self.die_shift + self.plane_shift)
    }

    /// Bytes of a page (mapping unit).
    #[inline(always)]
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        PAGE_BYTES << self.unit_shift
    }

    /// Bytes of a flash page.
    #[must_use]
    pub fn flash_page_bytes(&self) -> u64 {
        self.unit_bytes() << self.page_shift
    }

    /// Converts megabytes to pages, rounded to the nearest.
    #[must_use]
    pub fn pages_of(&self, mb: f64) -> u64 {
        (mb * 1e6 / self.unit_bytes() as f64).round() as u64
    }

    /// Converts pages to megabytes.
    #[must_use]
    pub fn mb_of(&self, pages: u64) -> u64 {
        pages * self.unit_bytes() / 1_000_000
    }
}

/// Times of flash used with one bit per cell.
#[derive(Clone, Copy, Debug)]
pub struct SlcTiming {
    /// tR of ONFI: from the array to the page register.
    pub read: Nanos,
    /// tPROG of ONFI: from the page register to the array.
    pub program: Nanos,
}

/// Times of flash operations, and the rate of a channel.
#[derive(Clone, Copy, Debug)]
pub struct NandTiming {
    /// tR of ONFI, as the mean of all page types.
    pub read: Nanos,
    /// tR by page type, if they differ.
    pub read_by_type: Option<[Nanos; PAGE_TYPES_MAX]>,
    /// tPROG by page type.
    pub program: [Nanos; PAGE_TYPES_MAX],
    /// Number of page types.
    pub page_types: u32,
    /// Times of superblocks in the SLC cache, if there is one.
    pub slc: Option<SlcTiming>,
    /// tBERS of ONFI: the erase of a block.
    pub erase: Nanos,
    /// True if each plane of a die reads independently.
    pub independent_planes: bool,
    /// Maximum wait of a read for a program.
    pub suspend: Nanos,
    /// True if a die programs the pages of a word line at once.
    pub one_pass: bool,
    /// Distribution of this wait and of the wait for an erase, if they are drawn.
    pub suspension: Option<SuspensionSpec>,
    /// Rate of a channel, in femtoseconds per byte.
    pub channel_fs_per_byte: u64,
    /// Time from a read's last byte over the channel to its corrected data.
    pub decode: Nanos,
    /// True if data of the next program is transferred during this one.
    pub cache_program: bool,
    /// One erase in this many takes time, for all of them.
    pub erase_one_in: f64,
    /// Variation of times between places, if there is any.
    pub spread: Option<Spread>,
}

/// Dies that are slower than the others.
#[derive(Clone, Copy, Debug)]
pub struct SlowDies {
    /// Number of slow dies.
    pub dies: u32,
    /// Times relative to the other dies, in 1/256.
    pub time_256: u64,
}

/// Maximum wait for a program or erase that is not suspended: longer than any.
const NOT_SUSPENDED: Nanos = Nanos::millis(1_000_000);

/// Waits of reads for the operations that they suspend.
#[derive(Clone, Copy, Debug)]
pub struct SuspensionSpec {
    /// Mean wait for a program, if it is drawn.
    pub mean: Option<Nanos>,
    /// Maximum wait for an erase, if it differs from that for a program.
    pub erase: Option<Nanos>,
    /// True if a program that a host read suspends restarts with its word line.
    pub restarts: bool,
}

/// Standard deviations, in 2^-24 per unit of a draw, and slow dies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    /// Variation of reads and programs between blocks.
    pub block: i64,
    /// Variation of reads and programs between the pages of a block.
    pub page: i64,
    /// Variation of erases between blocks.
    pub erase: i64,
    /// Dies with different times.
    pub slow_dies: Option<SlowDies>,
}

impl Spread {
    fn check(nand: &RawNand) -> Result<Option<Spread>, SpecError> {
        let slow_dies = nand.slow_dies.as_ref().map(|slow| slow_dies(slow, nand)).transpose()?;
        let spread = nand.variation.as_ref().map(Spread::new);
        if spread.is_none() && slow_dies.is_none() {
            return Ok(None);
        }
        Ok(Some(Spread { slow_dies, ..spread.unwrap_or_default() }))
    }

    fn new(raw: &RawVariation) -> Spread {
        // Four uniform bytes have a variance of 4 (256^2 - 1) / 12.
        let units =
            |percent: &Number| (percent.value / 100.0 * 2f64.powi(24) / 147.801).round() as i64;
        Spread {
            block: units(&raw.block_percent),
            page: units(&raw.page_percent),
            erase: units(&raw.erase_percent),
            slow_dies: None,
        }
    }
}

fn slow_dies(raw: &RawSlowDies, nand: &RawNand) -> Result<SlowDies, SpecError> {
    let (dies, all) = (raw.dies.value, nand.channels.value * nand.dies_per_channel.value);
    if dies > all {
        let hint = "if all dies are slow, raise nand.read_us instead";
        return Err(SpecError::out("nand.slow_dies.dies", dies, format!("at most {all}"), hint));
    }
    Ok(SlowDies { dies: dies as u32, time_256: (raw.time_percent.value * 2.56).round() as u64 })
}

pub(super) fn check_geometry(raw: &RawSpec) -> Result<Geometry, SpecError> {
    let n = &raw.nand;
    let (channels, planes, page_kib) = (n.channels.value, n.planes.value, n.page_kib.value);
    if page_kib < 4 {
        let hint = "pages under 4 KiB are not modelled; use 4";
        return Err(SpecError::out("nand.page_kib", page_kib, "4, 8, 16, 32 or 64", hint));
    }
    for (field, count) in
        [("nand.channels", channels), ("nand.dies_per_channel", n.dies_per_channel.value)]
    {
        if !count.is_power_of_two() {
            let next = count.next_power_of_two();
            let hint = format!("use {} or {next}", next / 2);
            return Err(SpecError::out(field, count, "a power of two", &hint));
        }
    }
    let unit_kib = raw.controller.mapping_unit_kib.as_ref().map_or(4, |unit| unit.value);
    if unit_kib < 4 || unit_kib > page_kib * planes {
        let hint = "a unit must fit in the pages that the planes of a die read together; leave it out for 4 KiB";
        let allowed = format!("4 KiB to a flash page of every plane: {}", page_kib * planes);
        return Err(SpecError::out("controller.mapping_unit_kib", unit_kib, allowed, hint));
    }
    let unit_sectors = unit_kib * 2;
    // A unit larger than a flash page lies on planes that read and program together, like a single
    // plane with longer pages.
    let joined = (unit_kib / page_kib).max(1);
    let (planes, page_kib) = (planes / joined, page_kib * joined);
    let blocks = n.blocks_per_plane.value;
    n.bad_superblocks.check("nand.bad_superblocks", (0..=blocks - 4).into())?;
    let all_dies = channels * n.dies_per_channel.value;
    let groups = check_groups(raw, all_dies)?;
    let (dies, blocks) = (all_dies / groups, blocks * groups);
    let superblock_pages = dies * planes * n.pages_per_block.value * (page_kib / unit_kib);
    let pages_max = u64::from(u32::MAX) - 1;
    if superblock_pages * blocks > pages_max {
        let given = format!("{} GiB of flash", (superblock_pages * blocks * unit_kib) >> 20);
        let hint = "use fewer dies or blocks, or a larger controller.mapping_unit_kib";
        let allowed = format!("at most {} TiB of flash", unit_kib * 4);
        return Err(SpecError::out("nand", given, allowed, hint));
    }
    let sectors = raw.drive.capacity_sectors.value;
    if !sectors.is_multiple_of(8) {
        let hint = format!("use {}", sectors / 8 * 8);
        return Err(SpecError::out("drive.capacity_sectors", sectors, "a multiple of 8", &hint));
    }
    let flash_sectors = superblock_pages * blocks * unit_sectors;
    if sectors >= flash_sectors {
        let hint = "add flash (nand.blocks_per_plane), or offer less capacity";
        let allowed = format!("less than the flash holds: {flash_sectors} sectors");
        return Err(SpecError::out("drive.capacity_sectors", sectors, allowed, hint));
    }
    Ok(Geometry {
        user_sectors: sectors,
        user_pages: sectors.div_ceil(unit_sectors) as u32,
        unit_shift: (unit_kib / 4).ilog2(),
        superblock_pages: superblock_pages as u32,
        superblocks: blocks as u32,
        bad_superblocks: (n.bad_superblocks.value * groups) as u32,
        superblock_blocks: (dies * n.planes.value) as u32,
        page_shift: (page_kib / unit_kib).ilog2(),
        die_shift: dies.ilog2(),
        die_mask: (dies - 1) as u32,
        group_shift: groups.ilog2(),
        plane_shift: planes.ilog2(),
        order: page_order(n, dies.ilog2(), planes.ilog2()),
        channel_mask: (channels - 1) as u32,
        slc_superblocks: 0,
        parity_dies: check_parity(raw, all_dies)?,
    })
}

/// Number of reclaim groups, which divide the dies. It is a power of two because the number of dies
/// is.
fn check_groups(raw: &RawSpec, dies: u64) -> Result<u64, SpecError> {
    let groups = raw.fdp.as_ref().and_then(|fdp| fdp.reclaim_groups.as_ref());
    let groups = groups.map_or(1, |groups| groups.value);
    if !dies.is_multiple_of(groups) {
        let allowed = format!("a power of two, at most {dies}, the drive's number of dies");
        let hint = "all groups have the same number of dies; use 2";
        return Err(SpecError::out("fdp.reclaim_groups", groups, allowed, hint));
    }
    Ok(groups)
}

/// Dies of a parity stripe, if the drive has parity.
fn check_parity(raw: &RawSpec, dies: u64) -> Result<Option<u32>, SpecError> {
    let Some(parity) = &raw.nand.parity else { return Ok(None) };
    let width = parity.dies.value;
    let zoned = raw.zns.is_some() || raw.fdp.is_some();
    let (allowed, hint) = if width > dies {
        (
            format!("at most {dies}, the drive's number of dies"),
            "a stripe has a page on each of its dies",
        )
    } else if zoned || raw.slc_cache.is_some() {
        let allowed = "left out with an SLC cache, placement handles or zones".to_owned();
        (allowed, "their sizes are counted in whole superblocks without parity")
    } else {
        return Ok(Some(width as u32));
    };
    Err(SpecError::out("nand.parity.dies", width, allowed, hint))
}

/// Time between moves of two pages of a failed die; zero without parity, as no page is moved then.
pub(super) fn rebuild_interval(raw: &RawSpec, geometry: &Geometry) -> Nanos {
    let rate = raw.nand.parity.as_ref().map(|parity| parity.rebuild_mb_per_s.value * 1e6);
    let seconds = rate.map_or(0.0, |rate| geometry.unit_bytes() as f64 / rate);
    Nanos((seconds * 1e9).round() as u64)
}

/// Checks that garbage collection can always find a victim that gains space. It needs spare space
/// for the frontiers, the reserve, and at least one superblock of invalid pages beyond them.
/// `reserve` includes one superblock for each frontier beyond two, and one for a superblock of the
/// SLC cache that may be half folded.
pub(super) fn check_spare(
    geometry: &Geometry,
    reserve: u64,
    (field, handles): (&str, usize),
) -> Result<(), SpecError> {
    let needed = geometry.spare_needed(reserve);
    let spare = geometry.usable_pages().saturating_sub(u64::from(geometry.user_pages));
    if spare < needed {
        let superblock_mb = geometry.mb_of(u64::from(geometry.superblock_pages));
        let given = format!("{} MB of spare flash", geometry.mb_of(spare));
        let allowed = format!(
            "at least {} superblocks of {superblock_mb} MB (frontiers, the reserve, one to gain)",
            reserve + 3
        );
        if handles > 0 {
            let allowed = format!("few enough for {given}; needed are {allowed}");
            let hint = "use fewer, initial isolation of handles, or less capacity";
            return Err(SpecError::out(field, handles, allowed, hint));
        }
        let hint =
            "raise nand.blocks_per_plane, lower nand.bad_superblocks, or offer less capacity";
        return Err(SpecError::out("drive.capacity_sectors", given, allowed, hint));
    }
    Ok(())
}

/// Checks a list of one to four times, in programming order.
fn by_type(field: &str, times: &Numbers) -> Result<[Nanos; PAGE_TYPES_MAX], SpecError> {
    let given = &times.value;
    let fine = |us: &f64| us.is_finite() && (1.0..=1e6).contains(us);
    if given.is_empty() || given.len() > PAGE_TYPES_MAX || !given.iter().all(fine) {
        let hint = format!(
            "MLC has two, LSB and MSB: {field} = {{ value = [420, 1240], source = \"...\" }}"
        );
        let allowed = "1 to 4 times from 1 to 1000000";
        return Err(SpecError::out(field, format!("{given:?}"), allowed, &hint));
    }
    let mut checked = [Nanos::ZERO; PAGE_TYPES_MAX];
    for (time, &us) in checked.iter_mut().zip(given) {
        *time = nanos(us);
    }
    Ok(checked)
}

pub(super) fn check_nand(raw: &RawSpec) -> Result<NandTiming, SpecError> {
    let n = &raw.nand;
    let program = by_type("nand.program_us", &n.program_us)?;
    let page_types = n.program_us.value.len();
    let read_by_type = match &n.read_by_type_us {
        None => None,
        Some(times) if times.value.len() != page_types => {
            let given = format!("{} times", times.value.len());
            let allowed = format!("{page_types} times, one for each of nand.program_us");
            let hint = "list both in the same order of page types, or leave this out";
            return Err(SpecError::out("nand.read_by_type_us", given, allowed, hint));
        }
        Some(times) => {
            let given = by_type("nand.read_by_type_us", times)?;
            let mean = times.value.iter().sum::<f64>() / page_types as f64;
            let scale = n.read_us.value / mean;
            Some(given.map(|time| Nanos((time.0 as f64 * scale).round() as u64)))
        }
    };
    let one_pass = is_word(&n.resumed_program, "not-suspended");
    if one_pass && let Some(mean) = &n.suspend_mean_us {
        let hint = "reads wait for the end of programs; leave it out";
        return Err(SpecError::out("nand.suspend_mean_us", mean.value, "no value", hint));
    }
    Ok(NandTiming {
        read: n.read_us.micros(),
        read_by_type,
        program,
        page_types: page_types as u32,
        slc: None,
        erase: n.erase_us.micros(),
        independent_planes: is_word(&n.read_planes, "independent"),
        suspend: if one_pass { NOT_SUSPENDED } else { n.suspend_us.micros() },
        one_pass,
        suspension: suspension(n),
        channel_fs_per_byte: n.channel_mb_per_s.fs_per_byte(),
        decode: raw.controller.decode_us.as_ref().map_or(Nanos::ZERO, Number::micros),
        cache_program: n.cache_program.value,
        erase_one_in: n.erase_one_in.as_ref().map_or(1.0, |one_in| one_in.value),
        spread: Spread::check(n)?,
    })
}

fn suspension(nand: &RawNand) -> Option<SuspensionSpec> {
    let restarts = is_word(&nand.resumed_program, "restarts");
    let times = [&nand.suspend_mean_us, &nand.erase_suspend_us];
    let [mean, erase] = times.map(|time| time.as_ref().map(Number::micros));
    let differs = mean.is_some() || erase.is_some() || restarts;
    differs.then_some(SuspensionSpec { mean, erase, restarts })
}

/// Release of write buffer slots as programs end.
#[derive(Clone, Copy, Debug)]
pub struct BufferRelease {
    pub dies: u32,
    /// Programs of a die that release their slots together.
    pub programs: u32,
}

/// Flash pages that fit in the write buffer, and the order of their release if it is not in order.
pub(super) fn check_buffer(
    raw: &RawSpec,
    geometry: &Geometry,
) -> Result<(u32, Option<BufferRelease>), SpecError> {
    let release = check_release(raw, geometry)?;
    let least = least_buffer(geometry, release);
    let kib = raw.write_buffer().size_kib.value;
    let pages = kib * 1024 / geometry.flash_page_bytes();
    if pages < least {
        let least = (least * geometry.flash_page_bytes()).div_ceil(1024);
        let hint = format!("use {least} or more: data waits until all planes of a die are filled");
        let allowed = format!("at least {least} KiB, enough to fill all planes of all dies");
        return Err(SpecError::out("write_buffer.size_kib", kib, allowed, &hint));
    }
    Ok((pages as u32, release))
}

/// Flash pages of a placement handle's write buffer: its share of the buffer without random write
/// areas (`areas`, in bytes), but at least enough to fill all planes of all dies. guess: that
/// firmware divides it evenly.
pub(super) fn share_buffer(
    geometry: &Geometry,
    whole: u32,
    release: Option<BufferRelease>,
    areas: u64,
    handles: usize,
) -> u32 {
    let pages = u64::from(whole - areas.div_ceil(geometry.flash_page_bytes()) as u32);
    let share = pages / handles.max(1) as u64;
    share.max(least_buffer(geometry, release)).min(pages) as u32
}

/// Flash pages that a stream's buffer must hold at least.
fn least_buffer(geometry: &Geometry, release: Option<BufferRelease>) -> u64 {
    // Each die may hold a word line except one program; one of them is filled.
    let row = geometry.row_pages();
    let programs = release.map_or(1, |release| u64::from(release.programs));
    let by_rows = geometry.order.die_pages <= 1 << geometry.plane_shift;
    match by_rows {
        true => (1 + programs) * row,
        false => (2 * row).max((programs - 1) * row + ((programs + 1) << geometry.plane_shift)),
    }
}

/// Checks the release order. Release as programs end requires power loss protection, because the
/// order of pages determines what a flush waits for.
fn check_release(raw: &RawSpec, geometry: &Geometry) -> Result<Option<BufferRelease>, SpecError> {
    let buffer = raw.write_buffer();
    if !is_word(&buffer.release, "word-lines") {
        return Ok(None);
    }
    if !is_set(&buffer.power_loss_protection) {
        let hint = "set write_buffer.power_loss_protection, or leave this out";
        let allowed = "in-order without protection";
        return Err(SpecError::out("write_buffer.release", "word-lines", allowed, hint));
    }
    let programs = raw.nand.program_us.value.len() as u32;
    Ok(Some(BufferRelease { dies: geometry.dies(), programs }))
}

/// Returns the page order that the profile names; the default is dies first.
fn page_order(nand: &RawNand, die_shift: u32, plane_shift: u32) -> PageOrder {
    if !is_word(&nand.page_order, "word-lines-first") {
        return PageOrder::dies_first(die_shift, plane_shift);
    }
    let types = nand.program_us.value.len() as u32;
    // A third of any u32 is its product with 2^33 / 3, rounded up, over 2^33.
    let divide = match types {
        3 => (plane_shift, 0xAAAA_AAAB, 33),
        // A power of two of page types; a wrong count is refused later.
        _ => (plane_shift + types.max(1).ilog2(), 1, 0),
    };
    PageOrder { plane_shift: 0, type_shift: plane_shift, die_pages: types << plane_shift, divide }
}
