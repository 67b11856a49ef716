//! A checked profile, with everything the model needs derived from it.
//!
//! `RawSpec` -> [`Spec::check`] -> frozen [`Spec`]. A value that is not allowed is an error that names
//! the field, the value, what is allowed and what to do; nothing is clamped silently.
//!
//! Sources of derived numbers: PCIe rates and encodings, PCI-SIG base specifications 1.0 to 5.0.

use drivebay_units::Nanos;

use crate::raw::{Number, RawHeat, RawLink, RawSpec, Sourced};

/// Why a profile was refused. Shown as `error:`; what follows the line break as `hint:`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text is not TOML or JSON, or has unknown, missing or mistyped fields.
    #[error(
        "{field}: {problem}\nhint: compare with a profile of the catalog, for example drives/sm951-ahci-512.toml"
    )]
    Malformed {
        /// Dotted path of the field.
        field: String,
        /// What the parser says.
        problem: String,
    },
    /// A number outside what the model allows or its own stated range.
    #[error("{field}: {given} is not allowed; must be {allowed}\nhint: {hint}")]
    OutOfRange {
        /// Dotted path of the field.
        field: String,
        /// The value.
        given: String,
        /// What would be accepted.
        allowed: String,
        /// What to do.
        hint: String,
    },
    /// A value without a source.
    #[error(
        "{field}: has no source\nhint: add source = \"...\" with a publication, or \"guess: what it was fitted to\""
    )]
    NoSource {
        /// Dotted path of the field.
        field: String,
    },
}

/// Bytes of a mapped page.
pub const PAGE_BYTES: u64 = 4096;
/// Most throttle stages of a profile; stage 0 is "none".
pub const THROTTLE_STAGES_MAX: usize = 4;
/// Most page types of a flash cell (QLC has four).
pub const PAGE_TYPES_MAX: usize = 4;

/// Victim choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Fewest valid pages.
    Greedy,
    /// Oldest first.
    Fifo,
    /// Fewest valid pages among that many drawn at random.
    Choices(u32),
    /// Largest (1 - u) x age / (1 + u): Rosenblum and Ousterhout, 1992.
    CostBenefit,
}

/// The command interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// AHCI over PCIe: one queue.
    Ahci,
    /// NVMe.
    Nvme,
}

/// What the cores and the write path cost at one throttle stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Host core, per command.
    pub host_core: Nanos,
    /// Flash core, per read command.
    pub read_command: Nanos,
    /// Flash core, per 4 KiB read.
    pub read_page: Nanos,
    /// Flash core, per write command.
    pub write_command: Nanos,
    /// Flash core, per 4 KiB written.
    pub write_page: Nanos,
    /// Flash core, per run copied.
    pub copy_run: Nanos,
    /// Flash core, per page copied.
    pub copy_page: Nanos,
    /// Full collection slot.
    pub slot: Nanos,
    /// Write path, femtoseconds per byte.
    pub write_path_fs_per_byte: u64,
}

/// One throttle stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThrottleStage {
    /// Entered at this temperature, degrees Celsius.
    pub on_c: f64,
    /// Left below this temperature.
    pub off_c: f64,
    /// Costs while it holds.
    pub costs: Costs,
}

/// Collection thresholds, in 4 KiB pages of free space.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// Collection starts below this.
    pub start_free: u64,
    /// The slot has its full length at and below this.
    pub full_free: u64,
    /// The slot grows beyond its full length below this.
    pub low_free: u64,
    /// The slot has grown to `low_factor_256` here.
    pub critical_free: u64,
    /// Slot length there, in 1/256 of the full slot.
    pub low_factor_256: u64,
    /// Page credit of a full slot, in 1/256 pages.
    pub slot_pages_256: u64,
    /// Whether reads are followed by a slot.
    pub after_reads: bool,
}

/// Geometry, counted in 4 KiB pages ("slots") where not said otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// User pages.
    pub user_pages: u32,
    /// Slots of a superblock: one block of every plane of every die.
    pub superblock_slots: u32,
    /// Superblocks, bad ones included.
    pub superblocks: u32,
    /// Bad superblocks.
    pub bad_superblocks: u32,
    /// log2 of slots in a flash page.
    pub page_shift: u32,
    /// log2 of dies.
    pub die_shift: u32,
    /// log2 of planes.
    pub plane_shift: u32,
    /// Channels minus one: a die's channel is `die & channel_mask`.
    pub channel_mask: u32,
}

impl Geometry {
    /// Dies.
    #[must_use]
    pub fn dies(&self) -> u32 {
        1 << self.die_shift
    }

    /// Usable slots.
    #[must_use]
    pub fn usable_slots(&self) -> u64 {
        u64::from(self.superblocks - self.bad_superblocks) * u64::from(self.superblock_slots)
    }

    /// Bytes of a flash page.
    #[must_use]
    pub fn flash_page_bytes(&self) -> u64 {
        PAGE_BYTES << self.page_shift
    }
}

/// Flash timing.
#[derive(Clone, Copy, Debug)]
pub struct NandTiming {
    /// tR.
    pub read: Nanos,
    /// tPROG by page type.
    pub program: [Nanos; PAGE_TYPES_MAX],
    /// How many page types.
    pub page_types: u32,
    /// tBERS.
    pub erase: Nanos,
    /// Bound of a read's wait for a program.
    pub suspend: Nanos,
    /// Channel, femtoseconds per byte.
    pub channel_fs_per_byte: u64,
    /// Data of the next program moves during this one.
    pub cache_program: bool,
}

/// Energy per operation, in nanojoule; powers in nanojoule per millisecond, that is in microwatt.
#[derive(Clone, Copy, Debug)]
pub struct Energy {
    /// Microwatt asleep.
    pub idle_uw: u64,
    /// Microwatt awake.
    pub active_uw: u64,
    /// Microwatt of the busy flash core, on top.
    pub core_busy_uw: u64,
    /// Programming 4 KiB.
    pub program_4k_nj: u64,
    /// Reading a flash page.
    pub read_page_nj: u64,
    /// Erasing a superblock.
    pub erase_superblock_nj: u64,
    /// 4 KiB over the link.
    pub link_4k_nj: u64,
}

/// One heat node.
#[derive(Clone, Debug)]
pub struct Heat {
    /// Air, degrees Celsius.
    pub ambient_c: f64,
    /// Kelvin per watt to the air.
    pub resistance: f64,
    /// Joule per kelvin.
    pub capacity: f64,
}

/// A checked profile.
#[derive(Clone, Debug)]
pub struct Spec {
    /// As it was given, for the record.
    pub raw: RawSpec,
    /// Interface.
    pub protocol: Protocol,
    /// Most commands outstanding.
    pub queue_depth_max: u32,
    /// Host software per command.
    pub host_software: Nanos,
    /// Serial interface cost per command.
    pub interface_serial: Nanos,
    /// Link, femtoseconds per byte of payload, overheads included.
    pub link_fs_per_byte: u64,
    /// Posting a completion.
    pub link_completion: Nanos,
    /// Geometry.
    pub geometry: Geometry,
    /// Flash timing.
    pub nand: NandTiming,
    /// Write buffer, in flash pages.
    pub buffer_pages: u32,
    /// Victim choice.
    pub policy: Policy,
    /// One frontier for host and collection.
    pub shared_frontier: bool,
    /// Free superblocks kept for foreground collection.
    pub reserve_superblocks: u32,
    /// Pacing of collection.
    pub pacing: Pacing,
    /// Energy.
    pub energy: Energy,
    /// Heat.
    pub heat: Heat,
    /// Throttle stages; entry 0 is "none" with nominal costs.
    pub throttle: Vec<ThrottleStage>,
}

/// `len` bytes at `fs_per_byte`, rounded to the nearest nanosecond.
#[inline(always)]
#[must_use]
pub fn transfer(bytes: u64, fs_per_byte: u64) -> Nanos {
    Nanos((bytes * fs_per_byte + 500_000) / 1_000_000)
}

/// Reads numbers out of a raw profile, checking source, own range and the model's bounds.
struct Checker;

impl Checker {
    fn source<T>(field: &str, value: &Sourced<T>) -> Result<(), SpecError> {
        let text = value.source.trim();
        if text.is_empty() || text == "guess:" || text == "guess" {
            return Err(SpecError::NoSource { field: field.to_owned() });
        }
        Ok(())
    }

    fn out(field: &str, given: impl ToString, allowed: impl Into<String>, hint: &str) -> SpecError {
        SpecError::OutOfRange {
            field: field.to_owned(),
            given: given.to_string(),
            allowed: allowed.into(),
            hint: hint.to_owned(),
        }
    }

    fn stated<T>(field: &str, sourced: &Sourced<T>, value: f64) -> Result<(), SpecError> {
        if let Some([low, high]) = sourced.range
            && !(low <= value && value <= high)
        {
            let hint =
                "change the value, or the profile's range for it and the source of that range";
            return Err(Self::out(
                field,
                value,
                format!("in the profile's own range {low} to {high}"),
                hint,
            ));
        }
        Ok(())
    }

    fn float(field: &str, n: &Number, low: f64, high: f64) -> Result<f64, SpecError> {
        Self::source(field, n)?;
        if !(n.value.is_finite() && low <= n.value && n.value <= high) {
            let hint =
                format!("set {field} = {{ value = ..., source = \"...\" }} within these bounds");
            return Err(Self::out(field, n.value, format!("a number from {low} to {high}"), &hint));
        }
        Self::stated(field, n, n.value)?;
        Ok(n.value)
    }

    /// Microseconds to nanoseconds; at most one second.
    fn micros(field: &str, n: &Number) -> Result<Nanos, SpecError> {
        Ok(nanos(Self::float(field, n, 0.0, 1e6)?))
    }

    fn integer(field: &str, n: &Sourced<u64>, low: u64, high: u64) -> Result<u64, SpecError> {
        Self::source(field, n)?;
        if !(low..=high).contains(&n.value) {
            let hint =
                format!("set {field} = {{ value = ..., source = \"...\" }} within these bounds");
            return Err(Self::out(
                field,
                n.value,
                format!("a whole number from {low} to {high}"),
                &hint,
            ));
        }
        Self::stated(field, n, n.value as f64)?;
        Ok(n.value)
    }

    fn power_of_two(field: &str, n: &Sourced<u64>, high: u64) -> Result<u64, SpecError> {
        Self::integer(field, n, 1, high)?;
        if !n.value.is_power_of_two() {
            let (below, above) = (1 << n.value.ilog2(), n.value.next_power_of_two());
            let hint = format!(
                "use {below} or {above}; capacity can be kept by changing nand.blocks_per_plane"
            );
            return Err(Self::out(
                field,
                n.value,
                format!("a power of two from 1 to {high}"),
                &hint,
            ));
        }
        Ok(n.value)
    }

    fn one_of<T: Copy>(
        field: &str,
        given: &Sourced<String>,
        choices: &[(&str, T)],
    ) -> Result<T, SpecError> {
        Self::source(field, given)?;
        choices.iter().find(|(name, _)| *name == given.value).map(|&(_, value)| value).ok_or_else(
            || {
                let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
                let hint = format!("set {field}.value = \"{}\"", names[0]);
                Self::out(
                    field,
                    format!("\"{}\"", given.value),
                    format!("one of {}", names.join(", ")),
                    &hint,
                )
            },
        )
    }
}

fn nanos(us: f64) -> Nanos {
    Nanos((us * 1000.0).round() as u64)
}

fn pages_of_mb(mb: f64) -> u64 {
    (mb * 1e6 / PAGE_BYTES as f64).round() as u64
}

fn fs_per_byte(mb_per_s: f64) -> u64 {
    (1e9 / mb_per_s).round() as u64
}

impl Spec {
    /// Reads and checks a profile in TOML.
    ///
    /// # Errors
    /// [`SpecError`] naming the field.
    pub fn from_toml(text: &str) -> Result<Spec, SpecError> {
        let value: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            SpecError::Malformed { field: "profile".to_owned(), problem: e.message().to_owned() }
        })?;
        Self::from_value(value)
    }

    /// Reads and checks a profile in JSON.
    ///
    /// # Errors
    /// [`SpecError`] naming the field.
    pub fn from_json(text: &str) -> Result<Spec, SpecError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| {
            SpecError::Malformed { field: "profile".to_owned(), problem: e.to_string() }
        })?;
        Self::from_value(value)
    }

    fn from_value<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Spec, SpecError> {
        let raw = serde_path_to_error::deserialize(value).map_err(|e| SpecError::Malformed {
            field: e.path().to_string(),
            problem: e.inner().to_string().lines().next().unwrap_or_default().to_owned(),
        })?;
        Self::check(raw)
    }

    /// Checks a profile and derives the model's numbers.
    ///
    /// # Errors
    /// [`SpecError`] naming the first field that is not allowed.
    pub fn check(raw: RawSpec) -> Result<Spec, SpecError> {
        check_identity(&raw)?;
        let geometry = check_geometry(&raw)?;
        let nand = check_nand(&raw)?;
        let buffer_pages = check_buffer(&raw, &geometry)?;
        let nominal = check_costs(&raw)?;
        let (policy, shared_frontier) = check_policy(&raw)?;
        let reserve = Checker::integer(
            "collection.reserve_superblocks",
            &raw.collection.reserve_superblocks,
            1,
            1 << 20,
        )?;
        check_spare(&geometry, reserve)?;
        let protocol = Checker::one_of(
            "interface.protocol",
            &raw.interface.protocol,
            &[("ahci", Protocol::Ahci), ("nvme", Protocol::Nvme)],
        )?;
        let depth_bound = if protocol == Protocol::Ahci { 32 } else { 65_536 };
        Ok(Spec {
            protocol,
            queue_depth_max: Checker::integer(
                "interface.queue_depth_max",
                &raw.interface.queue_depth_max,
                1,
                depth_bound,
            )? as u32,
            host_software: Checker::micros("host.software_us", &raw.host.software_us)?,
            interface_serial: Checker::micros("interface.serial_us", &raw.interface.serial_us)?,
            link_fs_per_byte: check_link(&raw.link)?,
            link_completion: Checker::micros("link.completion_us", &raw.link.completion_us)?,
            pacing: check_pacing(&raw, &geometry)?,
            energy: check_energy(&raw, &geometry)?,
            heat: check_heat(&raw.heat)?,
            throttle: check_throttle(&raw.heat, nominal)?,
            reserve_superblocks: reserve as u32,
            geometry,
            nand,
            buffer_pages,
            policy,
            shared_frontier,
            raw,
        })
    }

    /// User capacity in bytes, in whole mapped pages.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.geometry.user_pages) * PAGE_BYTES
    }
}

fn check_identity(raw: &RawSpec) -> Result<(), SpecError> {
    let d = &raw.drive;
    let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if d.name.is_empty() || d.name.len() > 64 || !d.name.chars().all(safe) {
        let hint = "name it like sm951-ahci-512";
        let allowed = "1 to 64 lower-case letters, digits and hyphens";
        return Err(Checker::out("drive.name", format!("\"{}\"", d.name), allowed, hint));
    }
    Checker::source("drive.model", &d.model)?;
    Checker::source("drive.form_factor", &d.form_factor)?;
    Checker::source("drive.controller", &d.controller)?;
    Checker::source("drive.flash", &d.flash)?;
    if let Some(released) = &d.released {
        Checker::source("drive.released", released)?;
    }
    Ok(())
}

fn check_geometry(raw: &RawSpec) -> Result<Geometry, SpecError> {
    let n = &raw.nand;
    let channels = Checker::power_of_two("nand.channels", &n.channels, 64)?;
    let per_channel = Checker::power_of_two("nand.dies_per_channel", &n.dies_per_channel, 64)?;
    let planes = Checker::power_of_two("nand.planes", &n.planes, 8)?;
    let page_kib = Checker::power_of_two("nand.page_kib", &n.page_kib, 64)?;
    if page_kib < 4 {
        let hint = "pages under 4 KiB are not modelled; use 4";
        return Err(Checker::out("nand.page_kib", page_kib, "4, 8, 16, 32 or 64", hint));
    }
    let blocks = Checker::integer("nand.blocks_per_plane", &n.blocks_per_plane, 4, 1 << 20)?;
    let pages = Checker::integer("nand.pages_per_block", &n.pages_per_block, 2, 1 << 14)?;
    let bad = Checker::integer("nand.bad_superblocks", &n.bad_superblocks, 0, blocks - 4)?;
    let dies = channels * per_channel;
    let superblock_slots = dies * planes * pages * (page_kib / 4);
    let slots_max = u64::from(u32::MAX) - 1;
    if superblock_slots * blocks > slots_max {
        let given = format!("{} GiB of flash", superblock_slots * blocks / 262_144);
        let hint = "use fewer dies or blocks";
        return Err(Checker::out("nand", given, "at most 16 TiB of flash", hint));
    }
    let sectors =
        Checker::integer("drive.capacity_sectors", &raw.drive.capacity_sectors, 2048, 1 << 35)?;
    if sectors % 8 != 0 {
        let hint = format!("use {}", sectors / 8 * 8);
        return Err(Checker::out("drive.capacity_sectors", sectors, "a multiple of 8", &hint));
    }
    if sectors / 8 >= superblock_slots * blocks {
        let hint = "add flash (nand.blocks_per_plane), or offer less capacity";
        let allowed =
            format!("less than the flash holds: {} sectors", superblock_slots * blocks * 8);
        return Err(Checker::out("drive.capacity_sectors", sectors, allowed, hint));
    }
    Ok(Geometry {
        user_pages: (sectors / 8) as u32,
        superblock_slots: superblock_slots as u32,
        superblocks: blocks as u32,
        bad_superblocks: bad as u32,
        page_shift: (page_kib / 4).ilog2(),
        die_shift: dies.ilog2(),
        plane_shift: planes.ilog2(),
        channel_mask: (channels - 1) as u32,
    })
}

/// The drive must always find a superblock worth collecting: spare space for the frontiers, the
/// reserve, and at least one superblock of dead pages beyond them.
fn check_spare(geometry: &Geometry, reserve: u64) -> Result<(), SpecError> {
    let needed = (reserve + 3) * u64::from(geometry.superblock_slots);
    let spare = geometry.usable_slots().saturating_sub(u64::from(geometry.user_pages));
    if spare < needed {
        let superblock_mb = u64::from(geometry.superblock_slots) * PAGE_BYTES / 1_000_000;
        let given = format!("{} MB of spare flash", spare * PAGE_BYTES / 1_000_000);
        let allowed = format!(
            "at least {} superblocks of {superblock_mb} MB (two frontiers, the reserve, one to gain)",
            reserve + 3
        );
        let hint =
            "raise nand.blocks_per_plane, lower nand.bad_superblocks, or offer less capacity";
        return Err(Checker::out("drive.capacity_sectors", given, allowed, hint));
    }
    Ok(())
}

fn check_nand(raw: &RawSpec) -> Result<NandTiming, SpecError> {
    let n = &raw.nand;
    Checker::source("nand.program_us", &n.program_us)?;
    let times = &n.program_us.value;
    let fine = |us: &f64| us.is_finite() && (1.0..=1e6).contains(us);
    if times.is_empty() || times.len() > PAGE_TYPES_MAX || !times.iter().all(fine) {
        let hint = "MLC has two times, LSB and MSB: { value = [420, 1240], source = \"...\" }";
        return Err(Checker::out(
            "nand.program_us",
            format!("{times:?}"),
            "1 to 4 times from 1 to 1000000",
            hint,
        ));
    }
    let mut program = [Nanos::ZERO; PAGE_TYPES_MAX];
    for (slot, &us) in program.iter_mut().zip(times) {
        *slot = nanos(us);
    }
    Checker::source("nand.cache_program", &n.cache_program)?;
    Ok(NandTiming {
        read: Checker::micros("nand.read_us", &n.read_us)?,
        program,
        page_types: times.len() as u32,
        erase: Checker::micros("nand.erase_us", &n.erase_us)?,
        suspend: Checker::micros("nand.suspend_us", &n.suspend_us)?,
        channel_fs_per_byte: fs_per_byte(Checker::float(
            "nand.channel_mb_per_s",
            &n.channel_mb_per_s,
            1.0,
            10_000.0,
        )?),
        cache_program: n.cache_program.value,
    })
}

fn check_buffer(raw: &RawSpec, geometry: &Geometry) -> Result<u32, SpecError> {
    let kib = Checker::integer("buffer.size_kib", &raw.buffer.size_kib, 4, 1 << 24)?;
    let row = u64::from(geometry.dies()) << geometry.plane_shift;
    let pages = kib * 1024 / geometry.flash_page_bytes();
    if pages < 2 * row {
        let least = 2 * row * geometry.flash_page_bytes() / 1024;
        let hint = format!("use {least} or more: data waits until all planes of a die are filled");
        let allowed = format!("at least two rows of pages over all planes: {least} KiB");
        return Err(Checker::out("buffer.size_kib", kib, allowed, &hint));
    }
    Ok(pages as u32)
}

fn check_costs(raw: &RawSpec) -> Result<Costs, SpecError> {
    let (c, g) = (&raw.controller, &raw.collection);
    Ok(Costs {
        host_core: Checker::micros("controller.host_core_us", &c.host_core_us)?,
        read_command: Checker::micros("controller.read_command_us", &c.read_command_us)?,
        read_page: Checker::micros("controller.read_page_us", &c.read_page_us)?,
        write_command: Checker::micros("controller.write_command_us", &c.write_command_us)?,
        write_page: Checker::micros("controller.write_page_us", &c.write_page_us)?,
        copy_run: Checker::micros("collection.copy_run_us", &g.copy_run_us)?,
        copy_page: Checker::micros("collection.copy_page_us", &g.copy_page_us)?,
        slot: Checker::micros("collection.slot_us", &g.slot_us)?,
        write_path_fs_per_byte: fs_per_byte(Checker::float(
            "controller.write_path_mb_per_s",
            &c.write_path_mb_per_s,
            1.0,
            100_000.0,
        )?),
    })
}

fn check_policy(raw: &RawSpec) -> Result<(Policy, bool), SpecError> {
    let c = &raw.collection;
    let choices = Checker::integer("collection.choices", &c.choices, 1, 1024)? as u32;
    let policy = Checker::one_of(
        "collection.policy",
        &c.policy,
        &[
            ("greedy", Policy::Greedy),
            ("fifo", Policy::Fifo),
            ("d-choices", Policy::Choices(choices)),
            ("cost-benefit", Policy::CostBenefit),
        ],
    )?;
    let shared = Checker::one_of(
        "collection.frontiers",
        &c.frontiers,
        &[("separate", false), ("shared", true)],
    )?;
    Ok((policy, shared))
}

fn check_pacing(raw: &RawSpec, geometry: &Geometry) -> Result<Pacing, SpecError> {
    let c = &raw.collection;
    let spare = geometry.usable_slots() - u64::from(geometry.user_pages);
    let pool = pages_of_mb(Checker::float("collection.pool_mb", &c.pool_mb, 0.0, 1e9)?);
    let ramp = pages_of_mb(Checker::float("collection.ramp_mb", &c.ramp_mb, 0.0, 1e9)?);
    let low_free = pages_of_mb(Checker::float("collection.low_mb", &c.low_mb, 0.0, 1e9)?);
    let critical_free =
        pages_of_mb(Checker::float("collection.critical_mb", &c.critical_mb, 0.0, 1e9)?);
    if critical_free > low_free {
        let hint = "the slot grows from low_mb down to critical_mb";
        return Err(Checker::out(
            "collection.critical_mb",
            c.critical_mb.value,
            format!("at most collection.low_mb = {}", c.low_mb.value),
            hint,
        ));
    }
    Checker::source("collection.slot_after_reads", &c.slot_after_reads)?;
    let start_free = spare.saturating_sub(pool);
    let slot_pages = Checker::float("collection.slot_pages", &c.slot_pages, 0.0, 1e4)?;
    let low_factor = Checker::float("collection.low_factor", &c.low_factor, 1.0, 1e3)?;
    Ok(Pacing {
        start_free,
        full_free: start_free.saturating_sub(ramp),
        low_free,
        critical_free,
        low_factor_256: (low_factor * 256.0).round() as u64,
        slot_pages_256: (slot_pages * 256.0).round() as u64,
        after_reads: c.slot_after_reads.value,
    })
}

/// Rate of a link in femtoseconds per payload byte.
///
/// PCIe 1 and 2: 2.5 and 5 GT/s with 8b/10b; 3, 4, 5: 8, 16, 32 GT/s with 128b/130b.
fn check_link(link: &RawLink) -> Result<u64, SpecError> {
    let generation = Checker::integer("link.generation", &link.generation, 1, 5)?;
    let lanes = Checker::power_of_two("link.lanes", &link.lanes, 16)?;
    let payload = Checker::power_of_two("link.payload_bytes", &link.payload_bytes, 4096)?;
    let overhead =
        Checker::integer("link.packet_overhead_bytes", &link.packet_overhead_bytes, 12, 64)?;
    if payload < 128 {
        return Err(Checker::out("link.payload_bytes", payload, "128 to 4096", "use 128 or 256"));
    }
    let (giga_transfers, coded, bits) = [
        (2.5, 10.0, 8.0),
        (5.0, 10.0, 8.0),
        (8.0, 130.0, 128.0),
        (16.0, 130.0, 128.0),
        (32.0, 130.0, 128.0),
    ][generation as usize - 1];
    let gigabytes_per_s: f64 = giga_transfers * bits / coded / 8.0 * lanes as f64;
    let efficiency = payload as f64 / (payload + overhead) as f64;
    Ok((1e6 / (gigabytes_per_s * efficiency)).round() as u64)
}

fn check_energy(raw: &RawSpec, geometry: &Geometry) -> Result<Energy, SpecError> {
    let e = &raw.energy;
    let blocks = u64::from(geometry.dies()) << geometry.plane_shift;
    let thousandth = |field: &str, n: &Number, high: f64| -> Result<u64, SpecError> {
        Ok((Checker::float(field, n, 0.0, high)? * 1000.0).round() as u64)
    };
    Ok(Energy {
        idle_uw: thousandth("energy.idle_mw", &e.idle_mw, 1e5)?,
        active_uw: thousandth("energy.active_mw", &e.active_mw, 1e5)?,
        core_busy_uw: thousandth("energy.core_busy_mw", &e.core_busy_mw, 1e5)?,
        program_4k_nj: thousandth("energy.program_4k_uj", &e.program_4k_uj, 1e4)?,
        read_page_nj: thousandth("energy.read_page_uj", &e.read_page_uj, 1e4)?,
        erase_superblock_nj: thousandth("energy.erase_block_uj", &e.erase_block_uj, 1e6)? * blocks,
        link_4k_nj: thousandth("energy.link_4k_uj", &e.link_4k_uj, 1e4)?,
    })
}

fn check_heat(heat: &RawHeat) -> Result<Heat, SpecError> {
    Ok(Heat {
        ambient_c: Checker::float("heat.ambient_c", &heat.ambient_c, -40.0, 100.0)?,
        resistance: Checker::float(
            "heat.resistance_k_per_w",
            &heat.resistance_k_per_w,
            0.01,
            1000.0,
        )?,
        capacity: Checker::float("heat.capacity_j_per_k", &heat.capacity_j_per_k, 0.1, 1e6)?,
    })
}

fn check_throttle(heat: &RawHeat, nominal: Costs) -> Result<Vec<ThrottleStage>, SpecError> {
    if heat.throttle.len() > THROTTLE_STAGES_MAX {
        let hint = "join stages that hardly differ";
        let allowed = format!("at most {THROTTLE_STAGES_MAX} stages");
        return Err(Checker::out("heat.throttle", heat.throttle.len(), allowed, hint));
    }
    let mut stages =
        vec![ThrottleStage { on_c: f64::NEG_INFINITY, off_c: f64::NEG_INFINITY, costs: nominal }];
    for (i, raw) in heat.throttle.iter().enumerate() {
        let name = |key: &str| format!("heat.throttle[{i}].{key}");
        let on_c = Checker::float(&name("on_c"), &raw.on_c, -40.0, 200.0)?;
        let off_c = Checker::float(&name("off_c"), &raw.off_c, -40.0, 200.0)?;
        if off_c >= on_c {
            let hint = "a stage needs hysteresis: leave it some degrees below where it begins";
            return Err(Checker::out(&name("off_c"), off_c, format!("below on_c = {on_c}"), hint));
        }
        if on_c <= stages[i].on_c {
            let hint = "order the stages from mild to severe";
            return Err(Checker::out(
                &name("on_c"),
                on_c,
                format!("above the stage before, {}", stages[i].on_c),
                hint,
            ));
        }
        let percent = Checker::float(&name("clock_percent"), &raw.clock_percent, 1.0, 100.0)?;
        let mut costs = slowed(nominal, percent);
        if let Some(limit) = &raw.write_mb_per_s {
            let rate = Checker::float(&name("write_mb_per_s"), limit, 0.1, 100_000.0)?;
            costs.write_path_fs_per_byte = costs.write_path_fs_per_byte.max(fs_per_byte(rate));
        }
        stages.push(ThrottleStage { on_c, off_c, costs });
    }
    Ok(stages)
}

/// Costs of all cores at a slower clock; the write path is hardware and keeps its rate.
fn slowed(c: Costs, clock_percent: f64) -> Costs {
    let slow = |len: Nanos| Nanos((len.0 as f64 * 100.0 / clock_percent).round() as u64);
    Costs {
        host_core: slow(c.host_core),
        read_command: slow(c.read_command),
        read_page: slow(c.read_page),
        write_command: slow(c.write_command),
        write_page: slow(c.write_page),
        copy_run: slow(c.copy_run),
        copy_page: slow(c.copy_page),
        slot: slow(c.slot),
        write_path_fs_per_byte: c.write_path_fs_per_byte,
    }
}
