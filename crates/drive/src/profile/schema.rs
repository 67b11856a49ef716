//! The keys of a profile, each declared once with its allowed values.
//!
//! `drives/*.toml` and what-ifs are read into these types; the other files of `profile/` derive the
//! values that the model uses. Key names end with the unit. GB and MB are decimal. An absent
//! section is not modelled: without `[reliability]` flash has no errors and no end of life, without
//! `[map_cache]` the whole map is in the drive's memory, without `[read_ahead]` nothing is read
//! ahead.

use std::ops::RangeInclusive;

use super::constants::PAGE_BYTES;
use super::key::{
    Flag, Key, Number, Numbers, Sourced, SpecError, Whole, WholeRule, Word, sections,
};

/// Bounds for times of commands and of flash: at most one second.
const MICROS: RangeInclusive<f64> = 0.0..=1e6;
/// Bounds for times of sleep: at most one hour.
const HOUR: RangeInclusive<f64> = 0.0..=3.6e9;
const MEGABYTES: RangeInclusive<f64> = 0.0..=1e9;
const HEAT_CAPACITY: RangeInclusive<f64> = 0.1..=1e6;
const RESISTANCE: RangeInclusive<f64> = 0.01..=1000.0;
const TEMPERATURE: RangeInclusive<f64> = -40.0..=200.0;
const EXPONENT: RangeInclusive<f64> = 0.0..=10.0;

/// Rule for the size of a packet: a power of two from `low` to 4096.
fn packet(low: u64) -> WholeRule {
    WholeRule::PowerOfTwo(low..=4096)
}

fn power_of_two(high: u64) -> WholeRule {
    WholeRule::PowerOfTwo(1..=high)
}

sections! {
    /// A drive's profile.
    RawSpec {
        /// Identity of the drive.
        drive: RawDrive,
        /// Computer in which the drive is tested.
        host: RawHost,
        /// Command interface.
        host_interface: RawHostInterface,
        /// Link between host and drive.
        link: RawLink,
        /// Cores and data path of the controller.
        controller: RawController,
        /// Write buffer. Required, except for media that is written in place.
        write_buffer: Option<RawWriteBuffer>,
        /// Flash, or media that is written in place.
        nand: RawNand,
        /// Garbage collection. Required, except for media that is written in place.
        gc: Option<RawGc>,
        /// Journal of the map. Optional; default: no journal.
        map_journal: Option<RawMapJournal>,
        /// Energy per operation.
        energy: RawEnergy,
        /// Heat and throttling.
        thermal: RawThermal,
        /// Sleep states of the drive and its link. Optional; default: they never sleep.
        power: Option<RawPower>,
        /// Ratings for the health log. Optional; default: wear and temperature warnings are not
        /// reported.
        health: Option<RawHealth>,
        /// Identify data of an NVMe drive. Optional; default: generic data that is valid for any
        /// drive.
        identify: Option<RawIdentify>,
        /// Wear levelling. Optional; default: superblocks are reused in the order in which they
        /// became free.
        wear_leveling: Option<RawWearLeveling>,
        /// Errors and wear of the flash. Optional; default: no errors and no wear.
        reliability: Option<RawReliability>,
        /// Cache for a map that does not fit in the drive's memory. Optional; default: the map
        /// fits.
        map_cache: Option<RawMapCache>,
        /// Read-ahead of sequential streams. Optional; default: the drive reads only requested
        /// data.
        read_ahead: Option<RawReadAhead>,
        /// Superblocks that are used with one bit per cell. Optional; default: no SLC cache.
        slc_cache: Option<RawSlcCache>,
        /// Flexible Data Placement. Optional; default: the host cannot control where its data is
        /// placed.
        fdp: Option<RawFdp>,
        /// Zoned Namespaces. Optional; default: blocks may be written in any order.
        zns: Option<RawZns>,
        /// Named sets of changes with dotted keys, for example `[variants.heatsink]`.
        #[serde(default)]
        variants: serde_json::Map<String, serde_json::Value>,
    }

    /// Identity of the drive, for reports.
    RawDrive {
        /// Name in the catalog.
        name: String,
        /// Display name.
        title: String,
        /// Model number.
        model: Word,
        /// User capacity in sectors of 512 B.
        capacity_sectors: Whole = 2048..=1 << 37,
        /// Form factor.
        form_factor: Word,
        /// Name of the controller.
        controller: Word,
        /// Description of the flash.
        flash: Word,
        /// Reason why the profile is a stand-in: too little is known about the drive. The profile
        /// is labelled as a stand-in wherever it is shown. Optional; left out for a drive with its
        /// own figures.
        stand_in: Option<String>,
        /// Name in hosts/ of the host that its reviews used. The drive is tested in this host
        /// unless another is requested. Optional; left out if the profile has its own `[host]`.
        host: Option<String>,
        /// Date of the publication that introduced the drive, or of its launch. Optional.
        released: Option<Word>,
    }

    /// Computer in which the drive is tested, from `hosts/*.toml`; not a property of the drive.
    RawHost {
        /// Name in the list of hosts.
        name: String,
        /// Display name.
        title: String,
        /// Operating system and test program.
        system: Word,
        /// Processor and mainboard.
        machine: Word,
        /// Number of logical processors. With NVMe each may have its own submission queue.
        processors: Whole = 1..=4096,
        /// Time of the test program between the completion of a request and the beginning of the
        /// next request in its slot, in µs. It is not part of any latency, because fio's `lat`
        /// starts at the beginning of a request. Optional; default 0.
        between_us: Option<Number> = MICROS,
        /// True if the host lets the drive and its link sleep. Optional; default false.
        power_saving: Option<Flag>,
        /// Driver for AHCI devices, over PCIe and SATA. Optional; without it the host refuses them.
        ahci: Option<RawDriver>,
        /// Driver for NVMe devices. Optional; without it the host refuses them.
        nvme: Option<RawDriver>,
        /// PCIe slot.
        slot: RawSlot,
        /// SATA port. Optional; without it the host refuses SATA drives.
        sata_port: Option<RawSataPort>,
    }

    /// A driver and its costs per command.
    RawDriver {
        /// Name of the driver in its operating system.
        driver: Word,
        /// Software time per command that overlaps with other commands, in µs.
        software_us: Number = MICROS,
        /// Processor time per command during which the other commands of the queue wait, in µs:
        /// under the lock of AHCI's single queue, or on the processor of an NVMe queue.
        serial_us: Number = MICROS,
        /// Number of uncacheable reads of device registers per command.
        register_reads: Whole = 0..=100,
        /// Time of one register read, for which the processor waits, in µs.
        register_read_us: Number = MICROS,
        /// Number of writes to device registers per command: AHCI's command issue and interrupt
        /// status, NVMe's doorbells.
        register_writes: Whole = 0..=100,
        /// Time of one register write, in µs.
        register_write_us: Number = MICROS,
        /// Time from the device's interrupt to the waiting program, in µs; shorter for a driver
        /// that polls.
        interrupt_us: Number = MICROS,
        /// Maximum data rate of the driver for reads and writes together, in MB/s. Optional;
        /// default: no limit.
        mb_per_s: Option<Number> = 1.0..=1e6,
    }

    /// A PCIe slot. The link uses the smaller of the slot's and the drive's generation, lanes and
    /// payload.
    RawSlot {
        /// PCIe generation, as in `link`.
        generation: Whole = 1..=5,
        /// Number of lanes, as in `link`.
        lanes: Whole = power_of_two(16),
        /// Maximum payload of one packet (Max_Payload_Size), in bytes.
        payload_bytes: Whole = packet(128),
        /// Maximum size of one read request of the drive to memory (Max_Read_Request_Size), in
        /// bytes.
        read_request_bytes: Whole = packet(128),
        /// Payload of the completions with which memory answers a read request, in bytes: the read
        /// completion boundary of 64 or 128 bytes, or a multiple of it. At most the link's payload.
        read_completion_bytes: Whole = packet(64),
        /// Time from a read request of the drive to the first data from the host's memory, in µs.
        round_trip_us: Number = 0.0..=100.0,
    }

    /// A SATA port.
    RawSataPort {
        /// SATA generation: 1, 2 or 3 for 1.5, 3 and 6 Gb/s.
        generation: Whole = 1..=3,
    }

    /// Command interface.
    RawHostInterface {
        /// Protocol: `sata`, `ahci` (over PCIe) or `nvme`.
        protocol: Word = &["ahci", "nvme", "sata"],
        /// Maximum number of outstanding commands in each queue.
        queue_depth_max: Whole,
        /// Maximum number of submission queues (NVMe). Optional; default 1.
        queues_max: Option<Whole>,
        /// Maximum number of commands in the controller, for all submission queues together (NVMe).
        /// Optional; default: no limit.
        commands_max: Option<Whole>,
        /// Size of the commands into which the host cuts larger requests, in KiB. Optional;
        /// default: the host's limit, 1280.
        transfer_max_kib: Option<Whole>,
    }

    /// The drive's end of the link.
    RawLink {
        /// PCIe generation, 1 to 5; SATA: 1, 2, 3 for 1.5, 3 and 6 Gb/s.
        generation: Whole,
        /// Number of lanes: 1, 2, 4, 8 or 16; SATA: 1.
        lanes: Whole,
        /// Maximum payload of one packet, in bytes: 128 to 4096. SATA: of one data FIS, up to 8192.
        payload_bytes: Whole,
        /// Overhead per packet, in bytes. PCIe: header, sequence number and check of a packet that
        /// the drive writes. SATA: start, check, end and handshake of one FIS, in byte times.
        packet_overhead_bytes: Whole,
        /// Maximum number of outstanding read requests of the drive to the host's memory (PCIe).
        /// Optional; default 32, the limit without extended tags.
        read_tags: Option<Whole> = 1..=1024,
        /// Periodic outages in which the link goes down and retrains. Optional; default: no
        /// outages.
        outage: Option<RawOutage>,
    }

    /// Cores and data path of the controller.
    RawController {
        /// Time of the host core per command, in µs.
        host_core_us: Number = MICROS,
        /// Time of the flash core per read command, in µs.
        read_command_us: Number = MICROS,
        /// Time of the flash core per mapping unit read from flash, in µs: the command to the die.
        read_page_us: Number = MICROS,
        /// Time of the flash core per write command, in µs.
        write_command_us: Number = MICROS,
        /// Time of the flash core per mapping unit written, in µs.
        write_page_us: Number = MICROS,
        /// Coefficient of variation of the flash core's time for a command: standard deviation
        /// divided by mean. The mean is the sum of the costs above. This part of each time is drawn
        /// from the exponential distribution. Optional; default 0.
        service_cv: Option<Number> = 0.0..=1.0,
        /// Data per entry of the map (mapping unit, indirection unit), in KiB: 4 to 64, at most one
        /// flash page of every plane. For a partial write of a unit, the rest is read and the whole
        /// unit is programmed. Optional; default 4.
        mapping_unit_kib: Option<Whole> = power_of_two(64),
        /// True if sanitize can overwrite all media with a pattern (NVMe SANICAP, overwrite).
        /// Optional; default false.
        sanitize_overwrite: Option<Flag>,
        /// Data rate from the link into the buffer, in MB/s.
        write_path_mb_per_s: Number = 1.0..=1e5,
        /// Data rate from flash to the link, in MB/s. Optional; default: no separate limit.
        read_path_mb_per_s: Option<Number> = 1.0..=1e5,
        /// Time of error correction from the last byte over a channel to the first corrected byte,
        /// in µs. This latency of a read does not delay other reads. Optional; default 0 (included
        /// in `read_us`).
        decode_us: Option<Number> = MICROS,
        /// Single data path for both directions. Optional; default: reads and writes pass at the
        /// same time.
        half_duplex: Option<RawHalfDuplex>,
        /// Admission of writes: reads pass writes that wait for buffer space. Optional; default:
        /// all commands wait for the flash core in the order of their arrival.
        admission: Option<RawAdmission>,
        /// Periodic firmware work during which all commands wait. Optional; default: none.
        stall: Option<RawOutage>,
    }

    /// Periodic outage of a part, timed by the drive's clock.
    RawOutage {
        /// Period from the beginning of one outage to the beginning of the next, in s. The first
        /// begins one period after the drive was made.
        every_s: Number = 0.001..=1e8,
        /// Duration of each outage, in ms; less than `every_s`.
        for_ms: Number = 0.0..=1e7,
    }

    /// Half-duplex controller: reads and writes take turns on its data path, each for a batch of
    /// commands.
    RawHalfDuplex {
        /// Time from the end of the last transfer in one direction to the first transfer in the
        /// other, in µs.
        turnaround_us: Number = MICROS,
        /// Number of commands after which a batch ends if the other direction waits.
        batch_commands: Whole = 1..=65_536,
        /// Maximum time that a batch continues while the other direction waits, in µs.
        batch_wait_us: Number = MICROS,
    }

    /// Admission of writes.
    RawAdmission {
        /// Minimum time between two admitted writes while garbage collection runs, in µs; 0 for
        /// none.
        interval_us: Number = MICROS,
        /// Number of writes that may be admitted together after a pause, in addition to one per
        /// interval. Optional; default 0.
        together: Option<Whole> = 0..=65_536,
        /// Rule by which the pacer admits writes while garbage collection runs: one write per
        /// `interval_us` (`fixed`), additionally one for each read that is served while a write is
        /// held (`with-reads`), or at a rate that keeps the write buffer half full (`balanced`).
        /// Optional; default `fixed`.
        pace: Option<Word>,
    }

    /// Write buffer.
    RawWriteBuffer {
        /// Space for data on its way to flash, in KiB.
        size_kib: Whole = 4..=1 << 24,
        /// True for a drive that lies: it acknowledges flushes and forced writes at once and makes
        /// nothing safe. Optional; default false.
        ignore_flush: Option<Flag>,
        /// True if capacitors bring all acknowledged data to flash when power fails, so that
        /// flushes and forced writes need not wait. Optional; default false.
        power_loss_protection: Option<Flag>,
        /// Order in which buffer slots are released: `in-order` (first taken, first released), or
        /// `word-lines` (as programs end, all pages of a die's word line together, as in one-pass
        /// programming). `word-lines` requires `power_loss_protection`. Optional; default
        /// `in-order`.
        release: Option<Word> = &["in-order", "word-lines"],
    }

    /// Geometry and times of the flash.
    RawNand {
        /// True for media that is written in place, for example 3D XPoint: it has no map, no erase
        /// and no garbage collection, and a write is complete when the media has it. `read_us` and
        /// `program_us` are then the array's times for 4 KiB. Optional; default false.
        in_place: Option<Flag>,
        /// Number of dies, on as many channels, across which each 4 KiB is spread; only for media
        /// that is written in place. Optional; default 1.
        spread_dies: Option<Whole> = 1..=64,
        /// Number of channels; a power of two, unless the media is written in place.
        channels: Whole = 1..=64,
        /// Number of dies per channel; a power of two, unless the media is written in place.
        dies_per_channel: Whole = 1..=64,
        /// Number of planes per die; a power of two.
        planes: Whole = power_of_two(8),
        /// Number of blocks per plane.
        blocks_per_plane: Whole = 4..=1 << 20,
        /// Number of pages per block.
        pages_per_block: Whole = 2..=1 << 14,
        /// Size of a page, in KiB: 4, 8, 16, 32 or 64.
        page_kib: Whole = power_of_two(64),
        /// Order of consecutive flash pages of a row: `dies-first` (one page on each die, then on
        /// the next plane of each), or `word-lines-first` (all planes and page types of a die's
        /// word line, as one-pass programming requires). Optional; default `dies-first`.
        page_order: Option<Word> = &["dies-first", "word-lines-first"],
        /// For scaled drives, which have smaller blocks: only one erase in this many takes time,
        /// for all of them. A stall then keeps its length. Optional; default 1.
        erase_one_in: Option<Number> = 1.0..=4096.0,
        /// Number of superblocks lost to bad blocks.
        bad_superblocks: Whole,
        /// tR: time from the array to the page register, in µs.
        read_us: Number = MICROS,
        /// Relative tR by page type, in programming order, in µs. The values are scaled so that
        /// their mean is `read_us`. Optional; default: no difference.
        read_by_type_us: Option<Numbers>,
        /// tPROG by page type, in programming order (MLC: LSB, MSB), in µs.
        program_us: Numbers,
        /// tBERS: time to erase a block, in µs.
        erase_us: Number = MICROS,
        /// Parallelism of reads on a die: `together` (one read at a time on all planes), or
        /// `independent` (one read per plane). Optional; default `together`.
        read_planes: Option<Word> = &["together", "independent"],
        /// Maximum wait of a read for a program or erase that it suspends, in µs; without effect
        /// if nothing is suspended (`resumed_program`).
        suspend_us: Number = MICROS,
        /// Mean wait of a read for a suspended program, in µs, drawn from the exponential
        /// distribution up to the maximum. Optional; default: always the maximum.
        suspend_mean_us: Option<Number> = MICROS,
        /// Maximum wait of a read for a suspended erase, in µs, drawn uniformly from 0 to this.
        /// Optional; default: as for a program.
        erase_suspend_us: Option<Number> = MICROS,
        /// Behaviour of a program after suspension by a host read: it resumes (`goes-on`), or
        /// `restarts` together with its word line. Or `not-suspended`: a die programs all pages of
        /// a word line at once, after the last one, and reads wait for the end of programs, and of
        /// erases without `erase_suspend_us`. Optional; default `goes-on`.
        resumed_program: Option<Word> = &["goes-on", "restarts", "not-suspended"],
        /// Data rate of a channel including overheads, in MB/s.
        channel_mb_per_s: Number = 1.0..=1e4,
        /// True if data for the next program can be transferred during a program.
        cache_program: Flag,
        /// Variation of times between blocks and pages. Optional; default: no variation.
        variation: Option<RawVariation>,
        /// Dies that are slower than the others. Optional; default: none.
        slow_dies: Option<RawSlowDies>,
        /// Parity across dies (RAIN), from which the data of a failed die can be computed.
        /// Optional; default: no parity.
        parity: Option<RawParity>,
    }

    /// Parity across dies.
    RawParity {
        /// Number of dies in a stripe, including the die whose page holds the parity of the others.
        dies: Whole = 2..=4096,
        /// Rate at which the data of a failed die is rebuilt on the others, in MB/s.
        rebuild_mb_per_s: Number = 0.1..=1e5,
    }

    /// Slow dies, which are neighbours and chosen by the drive's seed.
    RawSlowDies {
        /// Number of slow dies.
        dies: Whole = 1..=4096,
        /// Read, program and erase times relative to the other dies, in percent.
        time_percent: Number = 100.0..=1e5,
    }

    /// Variation of times between blocks and pages, as standard deviations in percent.
    RawVariation {
        /// Variation of reads and programs between blocks, in percent.
        block_percent: Number = 0.0..=14.0,
        /// Variation of reads and programs between the pages of a block, in percent.
        page_percent: Number = 0.0..=14.0,
        /// Variation of erases between blocks, in percent.
        erase_percent: Number = 0.0..=14.0,
    }

    /// Garbage collection.
    RawGc {
        /// Victim policy of garbage collection after writes.
        victim_policy: Word,
        /// Number of superblocks that `d-choices` draws.
        choices: Whole = 1..=1024,
        /// Number of the oldest sealed superblocks from which `windowed` chooses. Required with
        /// that policy.
        window: Option<Whole> = 1..=1 << 20,
        /// Write frontiers of host and garbage collection: `separate`, or one for both. With
        /// `single`, one victim is emptied at a time, as in models in the literature; with
        /// `shared`, victims are emptied in a row until a superblock beyond the reserve is free.
        frontiers: Word,
        /// With one frontier for both, the maximum number of victims that foreground collection
        /// empties in a row once the host has space after their copies. Optional; default 1 with
        /// `single`, as many as needed with `shared`.
        foreground_victims: Option<Whole> = 1..=1 << 20,
        /// Write frontiers of the host: `one`, or two that separate data `by-lifespan` of the
        /// overwritten data. Optional; default `one`.
        host_frontiers: Option<Word>,
        /// Policy plug-in, `name@digest`, whose decisions override the profile's. The user must
        /// load it with `--policy`; a profile cannot load it. Optional; default: none.
        plugin: Option<Word>,
        /// Time of the flash core per copied run of consecutive pages, in µs.
        copy_extent_us: Number = MICROS,
        /// Time of the flash core per copied page (mapping unit), in µs.
        copy_page_us: Number = MICROS,
        /// Spare space that may be used before garbage collection starts, in MB.
        threshold_mb: Number = MEGABYTES,
        /// Free space that the control loop maintains in the long run, in MB.
        target_mb: Number = MEGABYTES,
        /// Gain of the control loop at the start of garbage collection, when free space is largest.
        gain_min: Number = 0.0..=1.0,
        /// Gain of the control loop when nothing is free; the gain is 1 at `target_mb`.
        gain_max: Number = 1.0..=100.0,
        /// Maximum flash core time of garbage collection per page (mapping unit) written by the
        /// host, in µs.
        duty_limit_us: Number = 0.0..=1e4,
        /// Factor of the duty limit when nothing is free; it is 1 at `target_mb`.
        duty_growth: Number = 1.0..=100.0,
        /// Maximum number of pages (mapping units) of a command that count for the duty limit.
        /// Optional; default: all pages.
        duty_pages_max: Option<Whole> = 1..=1 << 19,
        /// Trigger of garbage collection under writes: after each write command (`commands`), or
        /// each time the host has filled a word line of all planes of a die (`word-lines`).
        /// Optional; default `commands`.
        runs_behind: Option<Word>,
        /// Pages (mapping units) per second that are copied in the background while the write
        /// buffer has space. Further due copies are made in rounds of one word line of all planes
        /// of every die, for which writes wait. Requires `runs_behind = "word-lines"` and a
        /// balanced pace of admission. Optional; default: no copy is deferred.
        background_pages_per_s: Option<Number> = 1.0..=1e7,
        /// Number of free superblocks that only foreground garbage collection may use.
        reserve_superblocks: Whole = 1..=1 << 20,
        /// Garbage collection while the drive has no commands. Optional; default: none.
        idle: Option<RawIdle>,
    }

    /// Journal of the map, for a drive that holds its map in memory.
    RawMapJournal {
        /// Size of the journal entry for one extent, in bytes.
        entry_bytes: Whole = 4..=64,
        /// Time of the flash core per program of journal, summary or map, in µs.
        program_us: Number = MICROS,
        /// Amount of journal after which the whole map is written while the host waits, in MB.
        /// Optional; default: the map is written in small parts at no additional cost.
        checkpoint_mb: Option<Number> = 0.01..=1e6,
    }

    /// Wear levelling.
    RawWearLeveling {
        /// True for dynamic wear levelling: the free superblock with the fewest erases is used
        /// next.
        dynamic: Flag,
    }

    /// Garbage collection during idle time.
    RawIdle {
        /// Time without commands at the flash core after which collection begins, in ms.
        after_ms: Number = 0.0..=1e6,
        /// Free space at which collection ends, in MB.
        free_mb: Number = MEGABYTES,
        /// Victim policy during idle time, with the same values as `gc.victim_policy`. Optional;
        /// default: the policy in `gc.victim_policy`.
        policy: Option<Word>,
    }

    /// Energy per operation, and power per state.
    RawEnergy {
        /// Power after a period without commands, in mW.
        idle_mw: Number = 0.0..=1e5,
        /// Power of the awake controller without work, in mW.
        active_mw: Number = 0.0..=1e5,
        /// Additional power of the busy flash core over `active_mw`, in mW.
        core_busy_mw: Number = 0.0..=1e5,
        /// Energy to program 4 KiB, in µJ.
        program_4k_uj: Number = 0.0..=1e4,
        /// Energy to read one flash page, in µJ.
        read_page_uj: Number = 0.0..=1e4,
        /// Energy to erase one block, in µJ.
        erase_block_uj: Number = 0.0..=1e6,
        /// Energy of the controller to move 4 KiB of read data through flash channel and error
        /// correction, in µJ. Optional; default 0.
        read_4k_uj: Option<Number> = 0.0..=1e4,
        /// Energy to move 4 KiB over the link, in µJ.
        link_4k_uj: Number = 0.0..=1e4,
    }

    /// Heat: a single node, or a network of nodes.
    RawThermal {
        /// Temperature of the air around the drive, in °C.
        ambient_c: Number = -40.0..=100.0,
        /// Single node: thermal resistance from the drive to still air, in K/W.
        resistance_k_per_w: Option<Number> = RESISTANCE,
        /// Single node: heat capacity of the drive, in J/K.
        capacity_j_per_k: Option<Number> = HEAT_CAPACITY,
        /// Several nodes. Replaces `resistance_k_per_w` and `capacity_j_per_k`.
        network: Option<RawNetwork>,
        /// Sensor that the health log reports. Optional; default: whole degrees without delay.
        sensor: Option<RawSensor>,
        /// Stages of throttling, mildest first.
        #[serde(default)]
        throttle: Vec<RawThrottle>,
    }

    /// Network of heat nodes: controller and flash on the module, and optionally a heatsink on
    /// both.
    RawNetwork {
        /// Heat capacity of the controller, in J/K. The energy of its cores and of the link heats
        /// it.
        controller_j_per_k: Number = HEAT_CAPACITY,
        /// Heat capacity of the flash packages, in J/K. The energy of array operations heats them.
        nand_j_per_k: Number = HEAT_CAPACITY,
        /// Heat capacity of the circuit board and other parts, in J/K.
        module_j_per_k: Number = HEAT_CAPACITY,
        /// Thermal resistance from controller to board, in K/W.
        controller_to_module_k_per_w: Number = RESISTANCE,
        /// Thermal resistance from flash to board, in K/W.
        nand_to_module_k_per_w: Number = RESISTANCE,
        /// Thermal resistance from board and packages to still air, in K/W.
        module_to_air_k_per_w: Number = RESISTANCE,
        /// Heatsink on controller and flash. Optional; default: none.
        heatsink: Option<RawHeatsink>,
    }

    /// A heatsink on controller and flash.
    RawHeatsink {
        /// Heat capacity of the heatsink, in J/K.
        capacity_j_per_k: Number = HEAT_CAPACITY,
        /// Thermal resistance from controller to heatsink, through the pad, in K/W.
        from_controller_k_per_w: Number = RESISTANCE,
        /// Thermal resistance from flash to heatsink, through the pad, in K/W.
        from_nand_k_per_w: Number = RESISTANCE,
        /// Thermal resistance from heatsink to still air, in K/W.
        to_air_k_per_w: Number = RESISTANCE,
    }

    /// A temperature sensor.
    RawSensor {
        /// Heat node that the sensor measures: `drive`; in a network `controller`, `nand`, `module`
        /// or `heatsink`.
        node: Word,
        /// Interval at which the firmware reads the sensor, in ms; a multiple of 100.
        interval_ms: Whole = 100..=60_000,
    }

    /// Sleep states of the drive and its link, which they enter while no commands arrive.
    RawPower {
        /// Part of `energy.active_mw` and `energy.idle_mw` that the awake link consumes, in mW.
        link_awake_mw: Number = 0.0..=1e5,
        /// Sleep states of the drive (NVMe's PS3 and PS4), lightest first.
        #[serde(default)]
        device: Vec<RawSleep>,
        /// Sleep states of the link (PCIe's L1.2; SATA's Partial, Slumber, DevSleep), lightest
        /// first.
        #[serde(default)]
        link: Vec<RawSleep>,
    }

    /// A sleep state.
    RawSleep {
        /// Name of the state in the standard.
        name: String,
        /// Idle time after which the state is entered, in µs.
        after_us: Number = HOUR,
        /// Time to enter the state, in µs; entering cannot be aborted.
        entry_us: Number = HOUR,
        /// Time to leave the state, in µs.
        exit_us: Number = HOUR,
        /// Power in the state, in mW: of the drive without its link, or of the link alone.
        power_mw: Number = 0.0..=1e5,
    }

    /// Ratings for the health log.
    RawHealth {
        /// Number of program/erase cycles at which the drive counts as worn out. Optional; default:
        /// wear is not reported.
        rated_cycles: Option<Number> = 1.0..=1e9,
        /// Warning temperature (NVMe's WCTEMP), in °C; time above it is counted. Optional.
        warning_c: Option<Number> = TEMPERATURE,
        /// Critical temperature (NVMe's CCTEMP), in °C; time above it is counted. Optional.
        critical_c: Option<Number> = TEMPERATURE,
        /// Wear at the beginning, in percent of `rated_cycles`, which it requires. Optional;
        /// default 0 (new).
        worn_percent: Option<Number> = 0.0..=255.0,
        /// Remaining life that the firmware counts down. Optional; default: no such end of life.
        end_of_life: Option<RawEndOfLife>,
    }

    /// End of life as the firmware counts it: the reported spare blocks fall evenly with writes,
    /// and the drive refuses writes when none are left.
    RawEndOfLife {
        /// Available spare at the beginning, in percent.
        spare_percent: Whole = 1..=100,
        /// Data that the host can still write, in MB.
        writes_mb: Number = 0.0..=1e12,
    }

    /// A stage of throttling. It is entered when the drive (in a network the controller) reaches
    /// `on_c` and left below `off_c`. With `full_c` it takes effect gradually.
    RawThrottle {
        /// Temperature at which the stage is entered, in °C.
        on_c: Number = TEMPERATURE,
        /// Temperature below which the stage is left, in °C.
        off_c: Number = TEMPERATURE,
        /// Temperature at which the clock, which falls evenly from `on_c`, reaches `clock_percent`,
        /// in °C. Optional; default: the full effect at `on_c`.
        full_c: Option<Number> = TEMPERATURE,
        /// Clock of the cores, in percent of the nominal clock.
        clock_percent: Number = 1.0..=100.0,
        /// Limit on writes, in MB/s. Optional; default: no limit.
        write_mb_per_s: Option<Number> = 0.1..=1e5,
        /// Limit on reads, in MB/s. Optional; default: no limit.
        read_mb_per_s: Option<Number> = 0.1..=1e5,
    }

    /// Errors, read retry and growing bad blocks: `[reliability]`. Default: none of them.
    ///
    /// Raw bit error rate of a page by P/E cycles c, reads r and age a: `fresh_rber + wear_factor
    /// c^wear_exponent + disturb_factor c^disturb_cycle_exponent r^disturb_read_exponent +
    /// age_factor c^age_cycle_exponent a^age_exponent`.
    RawReliability {
        /// Raw bit error rate of fresh flash, without retention and reads.
        fresh_rber: Number = 0.0..=0.5,
        /// Factor of the wear term.
        wear_factor: Number = 0.0..=1.0,
        /// Exponent of cycles in the wear term.
        wear_exponent: Number = EXPONENT,
        /// Factor of the read disturb term.
        disturb_factor: Number = 0.0..=1.0,
        /// Exponent of cycles in the read disturb term.
        disturb_cycle_exponent: Number = EXPONENT,
        /// Exponent of reads in the read disturb term; reads are the mean per page of a block since
        /// its erase.
        disturb_read_exponent: Number = EXPONENT,
        /// Factor of the retention term.
        age_factor: Number = 0.0..=1.0,
        /// Exponent of cycles in the retention term.
        age_cycle_exponent: Number = EXPONENT,
        /// Exponent of age in the retention term; age is in days since the superblock was opened.
        age_exponent: Number = EXPONENT,
        /// Variation between pages: standard deviation of the natural logarithm of their error
        /// rates.
        page_spread: Number = 0.0..=3.0,
        /// Data per codeword of the error correction, in bytes.
        codeword_bytes: Whole = power_of_two(PAGE_BYTES),
        /// Number of wrong bits per codeword that the error correction corrects.
        correctable_bits: Whole = 1..=4096,
        /// Maximum number of retries of a page with other reference voltages; real tables have some
        /// dozens.
        retries_max: Whole = 0..=64,
        /// Factor by which each retry reduces the error rate, up to 1.
        retry_gain: Number = 0.01..=1.0,
        /// Die time of one retry, in µs: setting the voltages, and sensing.
        retry_read_us: Number = MICROS,
        /// Reads of a block, per page, after which its data is moved; 0 for never.
        refresh_reads: Number = 0.0..=1e6,
        /// Number of cycles after which 63.2 % of blocks have failed (Weibull's scale).
        block_life_cycles: Number = 1.0..=1e9,
        /// Weibull's shape of block failures; larger values concentrate them around
        /// `block_life_cycles`.
        block_life_shape: Number = 0.1..=100.0,
        /// Number of blocks that replace failed blocks.
        spare_blocks: Whole = 0..=1_000_000,
    }

    /// Cache of a map that is in flash: `[map_cache]`. Default: the whole map is in the
    /// drive's memory.
    RawMapCache {
        /// Memory of the controller for translation pages of 4 KiB (1,024 entries), in KiB.
        sram_kib: Whole = 4..=1 << 24,
        /// Host memory that the drive may use (host memory buffer), in MiB; 0 for none.
        host_buffer_mib: Whole = 0..=1 << 14,
        /// Time of one look-up in the host's memory, over the link and back, in µs.
        host_buffer_us: Number = MICROS,
    }

    /// Read-ahead: `[read_ahead]`. Default: none.
    RawReadAhead {
        /// Maximum amount that is read ahead of a stream, in KiB.
        window_kib: Whole = 8..=16_384,
        /// Number of sequential streams that the drive can distinguish.
        streams: Whole = 1..=64,
    }

    /// SLC cache: superblocks that are used with one bit per cell for newly written host data.
    RawSlcCache {
        /// Data that the superblocks hold that are always used with one bit per cell, in MB. They
        /// are not part of the user's capacity.
        static_mb: Number = MEGABYTES,
        /// Maximum data that free superblocks hold that are temporarily used with one bit per cell,
        /// in MB.
        dynamic_mb: Number = MEGABYTES,
        /// Free flash, counted with all bits per cell, that the dynamic part must leave free, in
        /// MB.
        keep_mb: Number = MEGABYTES,
        /// tPROG with one bit per cell, in µs.
        program_us: Number = MICROS,
        /// tR with one bit per cell, in µs.
        read_us: Number = MICROS,
        /// Handling of writes while the cache is full: they go `direct` to the other flash, or wait
        /// until data is migrated out of the cache (`fold`).
        when_full: Word = &["direct", "fold"],
        /// Migration under load: pages migrated (folded) per page that the host writes.
        fold_ratio: Number = 0.0..=16.0,
        /// Start of migration under load: with the `first-write` into the cache, or when the cache
        /// is `full`. With `full`, writes then bypass the cache until the drive has been idle and
        /// has migrated data; this requires `when_full = "direct"`. Optional; default
        /// `first-write`.
        fold_from: Option<Word> = &["first-write", "full"],
        /// Time without commands at the flash core after which migration in idle time begins, in
        /// ms.
        fold_after_ms: Number = 0.0..=1e6,
        /// Wear of an erase after use with one bit per cell, relative to an erase after use with
        /// all bits: 0 to 1.
        cycle_weight: Number = 0.0..=1.0,
        /// Energy to program 4 KiB with one bit per cell, in µJ.
        program_4k_uj: Number = 0.0..=1e4,
    }

    /// Flexible Data Placement: a superblock is the reclaim unit. It replaces `gc.frontiers` and
    /// `gc.host_frontiers`.
    RawFdp {
        /// Number of reclaim unit handles: host streams, each with its own superblocks and a share
        /// of the write buffer.
        handles: Whole = 1..=64,
        /// Isolation of handles during garbage collection: data of several handles is combined
        /// (`initial`: initially isolated), or kept separate, with one frontier per handle
        /// (`persistent`).
        isolation: Word = &["initial", "persistent"],
        /// Number of reclaim groups: sets of dies (channels first), each with its own superblocks,
        /// handles and garbage collection. No data is copied between groups. Optional; default 1.
        reclaim_groups: Option<Whole> = 1..=64,
    }

    /// Zoned Namespaces: an active zone is a stream with its own superblocks and a share of the
    /// write buffer. It replaces `gc.frontiers`. Garbage collection only handles the remains of
    /// power cuts and errors.
    RawZns {
        /// Number of superblocks per zone. They make the zone's capacity; its size is the next
        /// power of two.
        zone_superblocks: Whole = 1..=4096,
        /// Maximum number of active zones: open, or closed and not yet full.
        active: Whole = 1..=64,
        /// Maximum number of open zones. Optional; default: `active`.
        open: Option<Whole> = 1..=64,
        /// Additional time of the flash core for a zone append compared with a write, in µs.
        append_us: Number = MICROS,
        /// Time from the end of the flash core's work to the acknowledgement of a write to a zone,
        /// in µs. This latency does not delay other commands.
        write_latency_us: Number = MICROS,
        /// Additional latency of a zone append until its address is returned, compared with a
        /// write, in µs.
        append_latency_us: Number = MICROS,
        /// Time of the flash core to reset a zone with one block, in µs.
        reset_us: Number = MICROS,
        /// Additional time of a reset per GiB written to the zone, in µs.
        reset_us_per_gib: Number = MICROS,
        /// Time of the flash core to close the blocks of a zone that is not full, in µs: before a
        /// reset and after a finish.
        close_us: Number = MICROS,
        /// Slice of this work after which the flash core serves waiting commands, in µs.
        slice_us: Number = 1.0..=1e6,
        /// Zone random write areas. Require `write_buffer.power_loss_protection`. Optional;
        /// default: none.
        zrwa: Option<RawZrwa>,
    }

    /// Zone random write areas: a zone that is opened with one accepts writes in any order, and
    /// overwrites, in the blocks after its write pointer. The areas occupy a part of the write
    /// buffer, and their data goes to flash as the pointer moves.
    RawZrwa {
        /// Maximum number of zones that have a random write area at the same time.
        zones: Whole = 1..=64,
        /// Size of the area after the write pointer, in KiB.
        size_kib: Whole = 4..=65536,
        /// Step of the write pointer, in KiB; size and capacity of a zone are multiples of it.
        granularity_kib: Whole = 4..=65536,
    }

    /// Identify data of the drive.
    RawIdentify {
        /// Model number, at most 40 characters.
        model: Word,
        /// Firmware revision, at most 8 characters.
        firmware: Word,
        /// PCI vendor ID.
        vendor: Sourced<u16>,
        /// PCI device ID.
        device: Sourced<u16>,
        /// IEEE OUI of the maker, 6 hexadecimal digits.
        oui: Word,
        /// Recommended arbitration burst, as a power of two (RAB).
        arbitration_burst_log2: Sourced<u8>,
        /// Maximum data of a command, as a power of two in units of 4 KiB (MDTS).
        transfer_max_log2: Whole = 1..=8,
        /// Number of blocks that are written atomically, minus one (AWUN).
        atomic_write: Sourced<u16>,
        /// Number of blocks that are written atomically at a power cut, minus one (AWUPF).
        atomic_write_power_fail: Sourced<u16>,
        /// Maximum number of outstanding aborts, minus one (ACL).
        aborts_max: Sourced<u8>,
        /// Maximum number of outstanding asynchronous event requests, minus one (AERL).
        events_max: Sourced<u8>,
        /// Number of entries of the error log, minus one (ELPE).
        error_entries: Sourced<u8>,
        /// True if the drive follows the OCP Datacenter NVMe SSD specification: it has its log
        /// pages and features. Optional; default: false.
        ocp: Option<Flag>,
        /// Power states, PS0 first.
        #[serde(default)]
        power_states: Vec<RawPowerState>,
    }

    /// A power state.
    RawPowerState {
        /// Maximum power in this state (MP), in mW.
        max_mw: Number = 0.0..=655_350.0,
        /// Entry latency (ENLAT), in µs.
        entry_us: Number = 0.0..=4e9,
        /// Exit latency (EXLAT), in µs.
        exit_us: Number = 0.0..=4e9,
        /// True if the drive serves I/O in this state.
        operational: Flag,
    }
}

impl RawSpec {
    /// Returns `[gc]`, which every drive of flash has.
    #[must_use]
    pub fn gc(&self) -> &RawGc {
        self.gc.as_ref().expect("checked: flash has [gc]")
    }

    /// Returns `[write_buffer]`, which every drive of flash has.
    #[must_use]
    pub fn write_buffer(&self) -> &RawWriteBuffer {
        self.write_buffer.as_ref().expect("checked: flash has [write_buffer]")
    }
}
