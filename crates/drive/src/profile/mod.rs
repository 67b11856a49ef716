//! A checked profile, and all values that the model derives from it.
//!
//! `RawSpec` -> [`Spec::check`] -> frozen [`Spec`]. A value that is not allowed is an error that
//! names the field, the value, the allowed values and a remedy; nothing is clamped silently.
//! `schema.rs` defines the allowed values of each key; one file per part of the drive derives the
//! other values.

mod ailments;
mod constants;
mod controller;
mod family;
mod flash;
mod gc;
mod host;
mod host_interface;
mod identify;
mod in_place;
mod key;
mod link;
mod map_cache;
mod map_journal;
mod placement;
mod power;
mod read_ahead;
mod reliability;
mod schema;
mod slc_cache;
mod thermal;

use std::sync::Arc;

use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::policy_plugin::{PluginSpec, PolicyPlugin};
use crate::superblock::Streams;
use key::{Key, is_set};

pub use ailments::{EndOfLife, History, Lived, Outages};
pub use constants::{PAGE_BYTES, PAGE_TYPES_MAX, THROTTLE_STAGES_MAX, transfer};
pub use controller::{AdmissionSpec, Costs, HalfDuplexSpec, SHARE_BITS};
pub use family::whole_profile;
pub use flash::{BufferRelease, Geometry, NandTiming, SlcTiming, Spread, SuspensionSpec};
pub use gc::{BackgroundSpec, Idle, PAGES_MAX, PacingSpec, Policy};
pub use host::HostSpec;
pub use host_interface::{Interface, Protocol, QUEUES_MAX};
pub use identify::{Identify, PowerState};
pub use in_place::InPlaceSpec;
pub use key::SpecError;
pub use link::{LinkSpec, SataFrames};
pub use map_cache::{MAP_ENTRIES_SHIFT, MapCacheSpec};
pub use map_journal::MapJournalSpec;
pub use placement::{ZoneSpec, ZrwaSpec};
pub use power::{Power, Rated, Sleep};
pub use read_ahead::ReadAheadSpec;
pub use reliability::{ErrorRate, ReliabilitySpec};
pub use schema::RawSpec;
pub use slc_cache::{SlcCacheSpec, WhenFull};
pub use thermal::{Energy, NODES_MAX, ThermalSpec, ThrottleStage};

/// A checked profile.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Original profile, for the record.
    pub raw: RawSpec,
    /// SATA, AHCI or NVMe.
    pub protocol: Protocol,
    /// Maximum number of outstanding commands.
    pub queue_depth_max: u32,
    /// Computer in which the drive is tested.
    pub host: HostSpec,
    /// Queues of the command interface, and times between host and controller.
    pub host_interface: Interface,
    /// Rates and frames of the link between host and drive.
    pub link: LinkSpec,
    /// True if sanitize can overwrite all media with a pattern.
    pub sanitize_overwrite: bool,
    /// Half-duplex data path, if the controller has one.
    pub half_duplex: Option<HalfDuplexSpec>,
    /// Admission of writes, if reads pass waiting writes.
    pub admission: Option<AdmissionSpec>,
    /// Sizes of the flash and of the capacity that the host sees.
    pub geometry: Geometry,
    /// Times of flash operations and of the channels.
    pub nand: NandTiming,
    /// Size of the write buffer, in flash pages.
    pub buffer_pages: u32,
    /// Release of buffer slots as programs end; `None` for release in order.
    pub buffer_release: Option<BufferRelease>,
    /// True if flushes and forced writes are acknowledged without being done.
    pub ignore_flush: bool,
    /// True if acknowledged data survives a power cut, so that flushes and forced writes need not
    /// wait.
    pub power_loss_protection: bool,
    /// Victim policy of garbage collection.
    pub policy: Policy,
    /// Victim policy in idle time, if it differs.
    pub idle_policy: Option<Policy>,
    /// The write streams.
    pub streams: Streams,
    /// Zones, if the drive has them.
    pub zones: Option<ZoneSpec>,
    /// Free superblocks that are reserved for foreground garbage collection.
    pub reserve_superblocks: u32,
    /// Time between moves of two pages of a failed die.
    pub rebuild_interval: Nanos,
    /// Pacing of garbage collection.
    pub pacing: PacingSpec,
    /// Garbage collection in the background while the write buffer has space.
    pub background: Option<BackgroundSpec>,
    /// Plug-in that makes decisions of the controller.
    pub plugin: Option<PluginSpec>,
    /// True for dynamic wear levelling: the free superblock with the fewest erases is used next.
    pub levels_wear: bool,
    /// Garbage collection in idle time.
    pub idle: Option<Idle>,
    /// Energy per operation, and power per state.
    pub energy: Energy,
    /// Heat nodes of the drive, and its temperature sensor.
    pub thermal: ThermalSpec,
    /// Sleep states; `None` if the host does not allow sleep.
    pub power: Option<Power>,
    /// Ratings for the health log.
    pub rated: Rated,
    /// Identify data of an NVMe drive.
    pub identify: Option<Identify>,
    /// Throttle stages; entry 0 is "none" with nominal costs.
    pub throttle: Vec<ThrottleStage>,
    /// Errors and wear, if modelled.
    pub reliability: Option<ReliabilitySpec>,
    /// Cache of the map, if the map does not fit in the drive's memory.
    pub map_cache: Option<MapCacheSpec>,
    /// Journal of the map, if the drive has one.
    pub map_journal: Option<MapJournalSpec>,
    /// Read-ahead, if the drive has it.
    pub read_ahead: Option<ReadAheadSpec>,
    /// SLC cache, if the drive has one.
    pub slc_cache: Option<SlcCacheSpec>,
    /// Time without commands at the flash core after which it starts background work; `None` if it
    /// never does.
    pub idle_after: Option<Nanos>,
    /// Media that is written in place, if the drive has it instead of flash.
    pub in_place: Option<InPlaceSpec>,
    /// Outages of the drive, if there are any.
    pub outages: Option<Outages>,
    /// History of the drive before the simulation.
    pub history: History,
    /// End of life that the firmware counts down, if it does.
    pub end_of_life: Option<EndOfLife>,
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
        Self::from_value(value, None)
    }

    /// Reads and checks a profile of the family of `base`: see [`whole_profile`].
    ///
    /// # Errors
    /// [`SpecError`] naming the field.
    pub fn from_family(base: &str, text: &str) -> Result<Spec, SpecError> {
        Self::from_value(whole_profile(base, text)?, None)
    }

    /// Reads and checks a profile in JSON.
    ///
    /// # Errors
    /// [`SpecError`] naming the field.
    pub fn from_json(text: &str) -> Result<Spec, SpecError> {
        Self::with_plugin(text, None)
    }

    /// Reads and checks a profile in JSON. `plugin` is the plug-in that the profile names.
    ///
    /// # Errors
    /// [`SpecError`] naming the field.
    pub fn with_plugin(
        text: &str,
        plugin: Option<Arc<dyn PolicyPlugin>>,
    ) -> Result<Spec, SpecError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| {
            SpecError::Malformed { field: "profile".to_owned(), problem: e.to_string() }
        })?;
        Self::from_value(value, plugin)
    }

    fn from_value<'de, D: serde::Deserializer<'de>>(
        value: D,
        plugin: Option<Arc<dyn PolicyPlugin>>,
    ) -> Result<Spec, SpecError> {
        let raw = serde_path_to_error::deserialize(value).map_err(|e| SpecError::Malformed {
            field: e.path().to_string(),
            problem: e.inner().to_string().lines().next().unwrap_or_default().to_owned(),
        })?;
        Self::check(raw, plugin)
    }

    /// Checks a profile and derives the values of the model from it. `plugin` is the plug-in that
    /// the profile names.
    fn check(given: RawSpec, plugin: Option<Arc<dyn PolicyPlugin>>) -> Result<Spec, SpecError> {
        given.check("", ())?;
        check_name(&given.drive.name)?;
        let in_place = in_place::check_in_place(&given)?;
        let raw = if in_place.is_some() { in_place::filled_in(&given) } else { given.clone() };
        check_sections(&raw)?;
        let flash = Flash::check(&raw, in_place.is_some())?;
        let gc = Collection::check(&raw, &flash, plugin)?;
        let (protocol, queue_depth_max) = host_interface::check_protocol(&raw)?;
        let (streams, zones) = check_streams(&raw, &flash, &gc, protocol, in_place.is_some())?;
        let Flash { geometry, nand, slc_cache, buffer_pages, buffer_release } = flash;
        let areas = zones.and_then(|zones| zones.zrwa).map_or(0, |zrwa| zrwa.bytes());
        let handles = streams.handles * streams.groups;
        let buffer_pages =
            flash::share_buffer(&geometry, buffer_pages, buffer_release, areas, handles);
        let host = host::check_host(&raw, protocol)?;
        let link = link::check_link(&raw, protocol)?;
        let thermal = thermal::check_thermal(&raw.thermal)?;
        let energy = thermal::energy(&raw, &geometry);
        let power = power::check_power(&raw, &energy)?;
        let idle = gc::check_idle(&raw, &geometry)?.filter(|_| zones.is_none());
        let journal = |raw| map_journal::map_journal(raw, &geometry);
        let fold_after = slc_cache.map(|slc| slc.fold_after);
        let rated = power::check_rated(&raw)?;
        let flash_bytes = match in_place {
            Some(_) => geometry.user_sectors * SECTOR_BYTES,
            None => geometry.usable_pages() * geometry.unit_bytes(),
        };
        let good_superblocks = u64::from(geometry.superblocks - geometry.bad_superblocks);
        Ok(Spec {
            protocol,
            queue_depth_max,
            half_duplex: raw.controller.half_duplex.as_ref().map(controller::half_duplex),
            admission: gc.admission,
            pacing: if zones.is_some() { gc.pacing.in_foreground_only() } else { gc.pacing },
            background: gc.background,
            plugin: gc.plugin,
            idle_after: idle.map(|idle| idle.after).into_iter().chain(fold_after).min(),
            idle,
            levels_wear: raw.wear_leveling.as_ref().is_some_and(|wear| wear.dynamic.value),
            throttle: thermal::check_throttle(&raw.thermal, controller::costs(&raw))?,
            power: power.filter(|_| host.power_saving),
            history: ailments::check_history(&raw, &rated, flash_bytes, good_superblocks)?,
            end_of_life: ailments::end_of_life(&raw),
            outages: ailments::check_outages(&raw)?,
            rated,
            identify: identify::check_identify(&raw)?,
            host,
            host_interface: host_interface::check_interface(&raw, protocol, link.round_trip)?,
            link,
            energy,
            thermal,
            reserve_superblocks: gc.reserve as u32,
            rebuild_interval: flash::rebuild_interval(&raw, &geometry),
            sanitize_overwrite: is_set(&raw.controller.sanitize_overwrite),
            ignore_flush: is_set(&raw.write_buffer().ignore_flush),
            power_loss_protection: is_set(&raw.write_buffer().power_loss_protection),
            reliability: optional(&raw.reliability, &geometry, reliability::check_reliability)?,
            map_journal: raw.map_journal.as_ref().map(journal),
            map_cache: optional(&raw.map_cache, &geometry, map_cache::check_map_cache)?,
            read_ahead: raw.read_ahead.as_ref().map(|raw| read_ahead::read_ahead(raw, &geometry)),
            slc_cache,
            geometry,
            nand,
            buffer_pages,
            buffer_release,
            policy: gc.policy,
            idle_policy: gc.idle_policy,
            streams,
            zones,
            in_place,
            raw: given,
        })
    }

    /// True if a flush waits until acknowledged data is on flash.
    #[must_use]
    pub fn flush_waits(&self) -> bool {
        !(self.ignore_flush || self.power_loss_protection)
    }

    /// Number of entries of the map and its reverse, which take nearly all of a drive's memory;
    /// zero for media that is written in place.
    #[must_use]
    pub fn map_entries(&self) -> u64 {
        if self.in_place.is_some() {
            return 0;
        }
        let g = &self.geometry;
        u64::from(g.superblocks) * u64::from(g.superblock_pages) + u64::from(g.user_pages)
    }

    /// Share of the blocks for data that may fail before a new drive is worn out: spare blocks, and
    /// the blocks of superblocks that it can do without.
    #[must_use]
    pub fn spare_share(&self) -> f64 {
        let g = &self.geometry;
        let spare = g.spendable(u64::from(self.reserve_superblocks), g.usable_pages());
        let all = g.superblocks - g.bad_superblocks - g.slc_superblocks;
        let blocks = self.reliability.map_or(0, |r| r.spare_blocks);
        (spare as f64 + f64::from(blocks) / f64::from(g.superblock_blocks)) / f64::from(all)
    }

    /// User capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.geometry.user_sectors * SECTOR_BYTES
    }
}

/// Flash, its SLC cache, and the whole write buffer.
struct Flash {
    geometry: Geometry,
    nand: NandTiming,
    slc_cache: Option<SlcCacheSpec>,
    /// Flash pages in the buffers of all streams together.
    buffer_pages: u32,
    buffer_release: Option<BufferRelease>,
}

impl Flash {
    fn check(raw: &RawSpec, in_place: bool) -> Result<Flash, SpecError> {
        let geometry = match in_place {
            true => in_place::check_geometry(raw)?,
            false => flash::check_geometry(raw)?,
        };
        let nand = flash::check_nand(raw)?;
        let slc_cache = (raw.slc_cache.as_ref())
            .map(|raw| slc_cache::check_slc_cache(raw, &geometry, &nand))
            .transpose()?;
        let geometry =
            Geometry { slc_superblocks: slc_cache.map_or(0, |slc| slc.fixed), ..geometry };
        let slc = slc_cache.map(|slc| SlcTiming { read: slc.read, program: slc.program });
        let (buffer_pages, buffer_release) = flash::check_buffer(raw, &geometry)?;
        let nand = NandTiming { slc, ..nand };
        Ok(Flash { geometry, nand, slc_cache, buffer_pages, buffer_release })
    }
}

/// Garbage collection, and the parts that control it.
struct Collection {
    pacing: PacingSpec,
    plugin: Option<PluginSpec>,
    admission: Option<AdmissionSpec>,
    background: Option<BackgroundSpec>,
    policy: Policy,
    idle_policy: Option<Policy>,
    /// True if host and copies share a frontier.
    shares: bool,
    /// True if the host's writes are split by lifespan or by a plug-in.
    splits: bool,
    reserve: u64,
}

impl Collection {
    fn check(
        raw: &RawSpec,
        flash: &Flash,
        plugin: Option<Arc<dyn PolicyPlugin>>,
    ) -> Result<Collection, SpecError> {
        let (geometry, nand) = (&flash.geometry, &flash.nand);
        let pacing = gc::check_pacing(raw, geometry, nand.page_types)?;
        let plugin = gc::check_plugin(raw, geometry, nand, &pacing, plugin)?;
        let admission = controller::check_admission(raw, geometry, flash.buffer_pages)?;
        let samples_buffer = admission.as_ref().is_some_and(|a| a.sample_pages.is_some());
        let background = gc::check_background(raw, geometry, &pacing, samples_buffer)?;
        let decides = plugin.as_ref().map(|plugin| plugin.code.decides());
        let by_plugin = decides.is_some_and(|decides| decides.victim);
        let (policy, idle_policy, shares) = gc::check_policy(raw, by_plugin)?;
        let by_plugin = decides.is_some_and(|decides| decides.frontier);
        let splits = gc::check_host_frontiers(raw, shares, by_plugin)?;
        let reserve = raw.gc().reserve_superblocks.value;
        Ok(Collection {
            pacing,
            plugin,
            admission,
            background,
            policy,
            idle_policy,
            shares,
            splits,
            reserve,
        })
    }
}

/// Derives write streams and zones, and checks that there is enough spare flash for them.
fn check_streams(
    raw: &RawSpec,
    flash: &Flash,
    gc: &Collection,
    protocol: Protocol,
    in_place: bool,
) -> Result<(Streams, Option<ZoneSpec>), SpecError> {
    let others = placement::OtherFeatures {
        splits: gc.splits,
        background: gc.background.is_some(),
        plugin: gc.plugin.is_some(),
        protocol,
    };
    let (placed, zones) = placement::check_placement(raw, &flash.geometry, &others)?;
    let streams = placed.unwrap_or(Streams::plain(gc.shares, gc.splits));
    if !in_place {
        let more = streams.group_count() as u64 - 2 + u64::from(flash.slc_cache.is_some());
        // A group may hold more than its share: the superblocks that its handles have begun.
        let more = more + if streams.groups > 1 { streams.handles as u64 + 1 } else { 0 };
        let field = if zones.is_some() { "zns.active" } else { "fdp.handles" };
        flash::check_spare(&flash.geometry, gc.reserve + more, (field, streams.handles))?;
    }
    Ok((streams, zones))
}

/// Checks an optional section of a profile.
fn optional<R, S>(
    raw: &Option<R>,
    geometry: &Geometry,
    check: fn(&R, &Geometry) -> Result<S, SpecError>,
) -> Result<Option<S>, SpecError> {
    raw.as_ref().map(|raw| check(raw, geometry)).transpose()
}

/// Checks for the sections that only media written in place may leave out.
fn check_sections(raw: &RawSpec) -> Result<(), SpecError> {
    for (field, missing) in [("gc", raw.gc.is_none()), ("write_buffer", raw.write_buffer.is_none())]
    {
        if missing {
            let problem = format!("missing field `{field}`");
            return Err(SpecError::Malformed { field: field.to_owned(), problem });
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), SpecError> {
    let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(safe) {
        return Ok(());
    }
    let hint = "name it like sm951-ahci-512";
    let allowed = "1 to 64 lower-case letters, digits and hyphens";
    Err(SpecError::out("drive.name", format!("\"{name}\""), allowed, hint))
}
