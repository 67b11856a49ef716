//! A profile as it is written: every number with its source.
//!
//! `drives/*.toml` and what-ifs come through here; `spec/` checks them and derives what the model
//! uses. Units stand last in each name. GB and MB are decimal.

use serde::{Deserialize, Serialize};

/// A value and where it is from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The value, in the unit that its name ends with.
    pub value: T,
    /// A publication, a computation from one, or `guess: what it was fitted to`.
    pub source: String,
    /// What is plausible; the value must lie within.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// A number with its source.
pub type Number = Sourced<f64>;
/// A word with its source.
pub type Word = Sourced<String>;

/// A drive's profile.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSpec {
    /// What is printed on the drive.
    pub drive: RawDrive,
    /// The computer around it.
    pub host: RawHost,
    /// The command interface.
    pub interface: RawInterface,
    /// The link.
    pub link: RawLink,
    /// The controller's cores and data path.
    pub controller: RawController,
    /// The write buffer.
    pub buffer: RawBuffer,
    /// The flash.
    pub nand: RawNand,
    /// Garbage collection.
    pub collection: RawCollection,
    /// Energy per operation.
    pub energy: RawEnergy,
    /// Heat and throttling.
    pub heat: RawHeat,
    /// Named sets of changes: `[variants.heatsink]` with dotted keys.
    #[serde(default)]
    pub variants: serde_json::Map<String, serde_json::Value>,
}

/// Identity, for reports.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawDrive {
    /// Name in the catalog.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Model number.
    pub model: Word,
    /// User capacity in sectors of 512 B.
    pub capacity_sectors: Sourced<u64>,
    /// Form factor.
    pub form_factor: Word,
    /// Controller's name.
    pub controller: Word,
    /// Flash, in words.
    pub flash: Word,
    /// Day of the publication that made it known, or of its launch.
    #[serde(default)]
    pub released: Option<Word>,
}

/// The computer around the drive; not a property of the drive.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawHost {
    /// Software per command that overlaps with other commands.
    pub software_us: Number,
}

/// The command interface.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawInterface {
    /// `ahci` or `nvme`.
    pub protocol: Word,
    /// Cost of one command that no other command can overlap: register access, doorbells.
    pub serial_us: Number,
    /// Most commands outstanding.
    pub queue_depth_max: Sourced<u64>,
}

/// The link.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawLink {
    /// PCIe generation, 1 to 5.
    pub generation: Sourced<u64>,
    /// Lanes: 1, 2, 4, 8 or 16.
    pub lanes: Sourced<u64>,
    /// Largest payload of one packet: 128 to 4096 bytes.
    pub payload_bytes: Sourced<u64>,
    /// Header, sequence number and check of one packet.
    pub packet_overhead_bytes: Sourced<u64>,
    /// Posting the completion and raising the interrupt.
    pub completion_us: Number,
}

/// The controller.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawController {
    /// Host core, per command.
    pub host_core_us: Number,
    /// Flash core, per read command.
    pub read_command_us: Number,
    /// Flash core, per 4 KiB read from flash: the command to the die.
    pub read_page_us: Number,
    /// Flash core, per write command.
    pub write_command_us: Number,
    /// Flash core, per 4 KiB written.
    pub write_page_us: Number,
    /// Data path from the link into the buffer.
    pub write_path_mb_per_s: Number,
}

/// The write buffer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawBuffer {
    /// Room for data on its way to flash.
    pub size_kib: Sourced<u64>,
}

/// The flash.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawNand {
    /// Channels; a power of two.
    pub channels: Sourced<u64>,
    /// Dies on each channel; a power of two.
    pub dies_per_channel: Sourced<u64>,
    /// Planes of a die; a power of two.
    pub planes: Sourced<u64>,
    /// Blocks of a plane.
    pub blocks_per_plane: Sourced<u64>,
    /// Pages of a block.
    pub pages_per_block: Sourced<u64>,
    /// Bytes of a page: 4, 8, 16 or 32 KiB.
    pub page_kib: Sourced<u64>,
    /// Superblocks lost to bad blocks.
    pub bad_superblocks: Sourced<u64>,
    /// tR.
    pub read_us: Number,
    /// tPROG by page type, in programming order (MLC: LSB, MSB).
    pub program_us: Sourced<Vec<f64>>,
    /// tBERS.
    pub erase_us: Number,
    /// Longest wait of a read for a program or erase that it suspends.
    pub suspend_us: Number,
    /// Rate of a channel, overheads included.
    pub channel_mb_per_s: Number,
    /// Whether data for the next program may be moved during a program.
    pub cache_program: Sourced<bool>,
}

/// Garbage collection.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawCollection {
    /// Victim choice: `greedy`, `fifo`, `d-choices`, `cost-benefit`.
    pub policy: Word,
    /// How many candidates `d-choices` draws.
    pub choices: Sourced<u64>,
    /// `separate` frontiers for host and collection, or one `shared`.
    pub frontiers: Word,
    /// Flash core, per run of consecutive pages copied.
    pub copy_run_us: Number,
    /// Flash core, per page copied.
    pub copy_page_us: Number,
    /// Spare space that may be used before collection starts.
    pub pool_mb: Number,
    /// Over how much further use of spare space the time slot grows to its full length.
    pub ramp_mb: Number,
    /// Full length of the time slot after each command.
    pub slot_us: Number,
    /// Most pages copied in a full slot.
    pub slot_pages: Number,
    /// Whether reads are followed by a slot as well.
    pub slot_after_reads: Sourced<bool>,
    /// Free space under which the slot grows beyond its full length.
    pub low_mb: Number,
    /// Free space at which the slot has grown to `low_factor` times.
    pub critical_mb: Number,
    /// How many times the full slot at `critical_mb`.
    pub low_factor: Number,
    /// Free superblocks that only foreground collection may use.
    pub reserve_superblocks: Sourced<u64>,
}

/// Energy.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawEnergy {
    /// Power while nothing has been asked for a while.
    pub idle_mw: Number,
    /// Power of the awake controller, without work.
    pub active_mw: Number,
    /// Flash core at work, over `active_mw`.
    pub core_busy_mw: Number,
    /// Programming 4 KiB.
    pub program_4k_uj: Number,
    /// Reading one flash page.
    pub read_page_uj: Number,
    /// Erasing one block.
    pub erase_block_uj: Number,
    /// Moving 4 KiB over the link.
    pub link_4k_uj: Number,
}

/// Heat.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawHeat {
    /// Air around the drive.
    pub ambient_c: Number,
    /// From the drive to the air.
    pub resistance_k_per_w: Number,
    /// Of the drive.
    pub capacity_j_per_k: Number,
    /// What the drive does against heat, mildest first.
    #[serde(default)]
    pub throttle: Vec<RawThrottle>,
}

/// One stage of throttling, entered at `on_c`, left below `off_c`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawThrottle {
    /// Entered at this temperature.
    pub on_c: Number,
    /// Left below this temperature.
    pub off_c: Number,
    /// Clock of the cores against the nominal one.
    pub clock_percent: Number,
    /// Limit on writes, if any.
    #[serde(default)]
    pub write_mb_per_s: Option<Number>,
}
