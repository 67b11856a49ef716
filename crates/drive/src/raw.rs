//! A profile as it is written: every number with its source.
//!
//! `drives/*.toml` and what-ifs come through here; `spec/` checks them and derives what the model
//! uses. Units stand last in each name. GB and MB are decimal.

mod identify;
mod media;
mod slc_cache;
mod sourced;

use serde::{Deserialize, Serialize};

pub use identify::RawIdentify;
pub use media::{RawCompression, RawMapCache, RawReadAhead, RawReliability};
pub use slc_cache::RawSlcCache;
pub use sourced::{Number, Sourced, Word};

/// A drive's profile.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSpec {
    /// What is printed on the drive.
    pub drive: RawDrive,
    /// The computer around it.
    pub host: RawHost,
    /// The command interface.
    pub host_interface: RawHostInterface,
    /// The link.
    pub link: RawLink,
    /// The controller's cores and data path.
    pub controller: RawController,
    /// The write buffer.
    pub write_buffer: RawWriteBuffer,
    /// The flash.
    pub nand: RawNand,
    /// Garbage collection.
    pub gc: RawGc,
    /// The map's journal; none if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_journal: Option<RawMapJournal>,
    /// Energy per operation.
    pub energy: RawEnergy,
    /// Heat and throttling.
    pub thermal: RawThermal,
    /// What the drive and its link sleep in; nothing if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<RawPower>,
    /// What the health log needs to know; without it wear and warnings are not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<RawHealth>,
    /// What an NVMe drive says of itself; absent: what can be said of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identify: Option<RawIdentify>,
    /// How wear is spread; absent: superblocks are used again in the order in which they came free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_leveling: Option<RawWearLeveling>,
    /// Errors and wear of the flash; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<RawReliability>,
    /// A map that does not fit the drive's memory; absent: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<RawMapCache>,
    /// Reading ahead of sequential streams; absent: the drive fetches what it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<RawReadAhead>,
    /// Superblocks used with one bit per cell; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<RawSlcCache>,
    /// A controller that compresses; absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<RawCompression>,
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
    /// Work of a processor per command that its other commands wait for; none if left out. Each
    /// submission queue has a processor of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<Number>,
    /// Most commands that the host's driver keeps at the drive; as many as the interface if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_max: Option<Sourced<u64>>,
    /// Most data of one command; 1,280 KiB if left out, to which Linux's block layer cuts requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_max_kib: Option<Sourced<u64>>,
    /// Most data that the host's driver moves, both ways together; no limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mb_per_s: Option<Number>,
    /// Whether the host lets drive and link sleep; it does not if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_saving: Option<Sourced<bool>>,
    /// Where the drive is plugged in; a slot as fast as the drive if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<RawSlot>,
}

/// A slot or port: the link runs at the lesser of the slot's and the drive's generation and lanes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSlot {
    /// As in `link`.
    pub generation: Sourced<u64>,
    /// As in `link`.
    pub lanes: Sourced<u64>,
}

/// The command interface.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawHostInterface {
    /// `sata`, `ahci` (over PCIe) or `nvme`.
    pub protocol: Word,
    /// Cost of one command that no other command can overlap: register access, doorbells.
    pub serial_us: Number,
    /// Most commands outstanding, in each queue.
    pub queue_depth_max: Sourced<u64>,
    /// Most submission queues (NVMe); one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues_max: Option<Sourced<u64>>,
    /// Whether weighted round robin with urgent class is offered (NVMe); it is not if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted_round_robin: Option<Sourced<bool>>,
    /// From the doorbell to the command in the controller, overlapping with others; none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_us: Option<Number>,
}

/// The link.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawLink {
    /// PCIe generation, 1 to 5; SATA: 1, 2, 3 for 1.5, 3 and 6 Gb/s.
    pub generation: Sourced<u64>,
    /// Lanes: 1, 2, 4, 8 or 16; SATA: 1.
    pub lanes: Sourced<u64>,
    /// Largest payload of one packet: 128 to 4096 bytes; of a SATA data FIS: up to 8192.
    pub payload_bytes: Sourced<u64>,
    /// PCIe: header, sequence number and check of one packet. SATA: start, check, end and handshake
    /// of one FIS, in byte times.
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
    /// Data path from flash to the link; no limit of its own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_path_mb_per_s: Option<Number>,
    /// Of a half-duplex controller, which serves reads and writes in turns: the change from one to the
    /// other. Left out: it serves both at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnaround_us: Option<Number>,
}

/// The write buffer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawWriteBuffer {
    /// Room for data on its way to flash.
    pub size_kib: Sourced<u64>,
    /// A drive that lies: flushes and forced writes are acknowledged at once, and nothing is made safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_flush: Option<Sourced<bool>>,
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
    /// tR by page type, in programming order; absent: `read_us` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_by_type_us: Option<Sourced<Vec<f64>>>,
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
    /// How places differ in their times; not at all if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<RawVariation>,
}

/// How blocks and pages differ in their times: standard deviations in percent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawVariation {
    /// Of blocks, in reads and programs.
    pub block_percent: Number,
    /// Of the pages of a block, in reads and programs.
    pub page_percent: Number,
    /// Of blocks, in erases.
    pub erase_percent: Number,
}

/// Garbage collection.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawGc {
    /// Victim choice: `greedy`, `fifo`, `d-choices`, `cost-benefit`.
    pub victim_policy: Word,
    /// How many candidates `d-choices` draws.
    pub choices: Sourced<u64>,
    /// `separate` frontiers for host and collection, or one `shared`.
    pub frontiers: Word,
    /// The host's frontiers: `one`, or two `by-lifespan` of what is overwritten; one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_frontiers: Option<Word>,
    /// Flash core, per run of consecutive pages copied.
    pub copy_extent_us: Number,
    /// Flash core, per page copied.
    pub copy_page_us: Number,
    /// Spare space that may be used before collection starts.
    pub threshold_mb: Number,
    /// Free space that the control loop holds in the long run.
    pub target_mb: Number,
    /// Gain of the control loop where collection starts, with the most space free.
    pub gain_min: Number,
    /// Gain with nothing free; it is one at `target_mb`.
    pub gain_max: Number,
    /// Most that collection takes of the flash core per page that the host writes.
    pub duty_limit_us: Number,
    /// How many times as much it may take with nothing free; as much at `target_mb`.
    pub duty_growth: Number,
    /// Free superblocks that only foreground collection may use.
    pub reserve_superblocks: Sourced<u64>,
    /// Collection in the foreground between two marks of free space; only by the reserve if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreground: Option<RawForeground>,
    /// Collection while nothing is asked of the drive; none if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<RawIdle>,
}

/// The map's journal, on a drive that holds its map in memory.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawMapJournal {
    /// Bytes of the record of one changed entry.
    pub entry_bytes: Sourced<u64>,
    /// Flash core, per program of journal or summary.
    pub program_us: Number,
}

/// Collection in the foreground: the host waits from one mark of free space to the other.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawForeground {
    /// Free space below which it begins.
    pub start_mb: Number,
    /// Free space at which it ends.
    pub stop_mb: Number,
}

/// Wear levelling.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawWearLeveling {
    /// Dynamic: of the free superblocks the one with the fewest erases is used next.
    pub dynamic: Sourced<bool>,
    /// Static: data is moved out of the superblock with the fewest erases when it is so many behind the
    /// one with the most; 0 for never.
    pub spread_max: Sourced<u64>,
}

/// Collection in idle time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawIdle {
    /// How long the flash core has had no command when it begins.
    pub after_ms: Number,
    /// Free space at which it ends.
    pub free_mb: Number,
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

/// Heat: one node, or a network of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawThermal {
    /// Air around the drive.
    pub ambient_c: Number,
    /// One node: from the drive to still air.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resistance_k_per_w: Option<Number>,
    /// One node: of the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_j_per_k: Option<Number>,
    /// Several nodes, in place of the two numbers above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<RawNetwork>,
    /// Air moving over the drive; resistances to the air fall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub air: Option<RawAir>,
    /// The sensor as the health log reports it; whole degrees, without delay, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensor: Option<RawSensor>,
    /// What the drive does against heat, mildest first.
    #[serde(default)]
    pub throttle: Vec<RawThrottle>,
}

/// A network of heat nodes: controller and flash on the module, a heatsink over both if there is one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawNetwork {
    /// Heat capacity of the controller; its cores' and the link's energy goes there.
    pub controller_j_per_k: Number,
    /// Of the flash packages; array operations' energy goes there.
    pub nand_j_per_k: Number,
    /// Of the circuit board and the rest.
    pub module_j_per_k: Number,
    /// From controller to board.
    pub controller_to_module_k_per_w: Number,
    /// From flash to board.
    pub nand_to_module_k_per_w: Number,
    /// From board and packages to still air.
    pub module_to_air_k_per_w: Number,
    /// The heatsink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heatsink: Option<RawHeatsink>,
}

/// A heatsink on controller and flash.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawHeatsink {
    /// Its heat capacity.
    pub capacity_j_per_k: Number,
    /// From controller to heatsink, through the pad.
    pub from_controller_k_per_w: Number,
    /// From flash to heatsink, through the pad.
    pub from_nand_k_per_w: Number,
    /// From heatsink to still air.
    pub to_air_k_per_w: Number,
}

/// Moving air: every resistance to the air is divided by 1 + gain x sqrt(speed in m/s).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawAir {
    /// Speed of the air.
    pub speed_m_per_s: Number,
    /// Conductance that 1 m/s adds, against still air's.
    pub gain: Number,
}

/// A temperature sensor.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSensor {
    /// Where it sits: `drive`, or in a network `controller`, `nand`, `module`, `heatsink`.
    pub node: Word,
    /// How often the firmware reads it: a multiple of 100 ms.
    pub interval_ms: Sourced<u64>,
    /// Time constant with which it follows its node.
    pub lag_ms: Number,
}

/// What the drive and its link sleep in while nothing is asked of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawPower {
    /// Part of `energy.active_mw` and `energy.idle_mw` that is the link's, awake.
    pub link_awake_mw: Number,
    /// States of the drive (NVMe's PS3 and PS4), lightest first.
    #[serde(default)]
    pub device: Vec<RawSleep>,
    /// States of the link (PCIe's L1.2; SATA's Partial, Slumber, DevSleep), lightest first.
    #[serde(default)]
    pub link: Vec<RawSleep>,
}

/// A state of sleep.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawSleep {
    /// Its name in the standard.
    pub name: String,
    /// Idle time after which it is entered.
    pub after_us: Number,
    /// How long entering takes; it cannot be broken off.
    pub entry_us: Number,
    /// How long leaving takes.
    pub exit_us: Number,
    /// Power of the drive without its link, or of the link alone.
    pub power_mw: Number,
}

/// What the health log needs to know.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawHealth {
    /// Program/erase cycles at which the drive counts as used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rated_cycles: Option<Number>,
    /// NVMe's WCTEMP: time above it is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_c: Option<Number>,
    /// NVMe's CCTEMP: likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_c: Option<Number>,
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
    /// The node that it follows; the hottest there is by design if left out: `drive`, in a network
    /// `controller`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensor: Option<Word>,
    /// Limit on writes, if any.
    #[serde(default)]
    pub write_mb_per_s: Option<Number>,
    /// Limit on reads, if any.
    #[serde(default)]
    pub read_mb_per_s: Option<Number>,
}
