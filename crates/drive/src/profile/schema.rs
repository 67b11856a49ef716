//! A profile as it is written: every key once, with what it may be.
//!
//! `drives/*.toml` and what-ifs are read into these; the other files of `profile/` derive what the
//! model uses. Units stand last in each name. GB and MB are decimal. A section that is absent is
//! not modelled: flash without errors and without end of life, a map wholly in the drive's own
//! memory, nothing read that was not asked for.

use std::ops::RangeInclusive;

use super::constants::PAGE_BYTES;
use super::key::{
    Flag, Key, Number, Numbers, Sourced, SpecError, Whole, WholeRule, Word, sections,
};

/// Times of commands and of flash: at most a second.
const MICROS: RangeInclusive<f64> = 0.0..=1e6;
/// Times of sleep: at most an hour.
const HOUR: RangeInclusive<f64> = 0.0..=3.6e9;
const MEGABYTES: RangeInclusive<f64> = 0.0..=1e9;
const HEAT_CAPACITY: RangeInclusive<f64> = 0.1..=1e6;
const RESISTANCE: RangeInclusive<f64> = 0.01..=1000.0;
const TEMPERATURE: RangeInclusive<f64> = -40.0..=200.0;
const EXPONENT: RangeInclusive<f64> = 0.0..=10.0;

/// A packet's size: a power of two from this to 4096.
fn packet(low: u64) -> WholeRule {
    WholeRule::PowerOfTwo(low..=4096)
}

fn power_of_two(high: u64) -> WholeRule {
    WholeRule::PowerOfTwo(1..=high)
}

sections! {
    /// A drive's profile.
    RawSpec {
        /// What is printed on the drive.
        drive: RawDrive,
        /// The computer that it is tested in.
        host: RawHost,
        /// The command interface.
        host_interface: RawHostInterface,
        /// The link between host and drive.
        link: RawLink,
        /// The controller's cores and data path.
        controller: RawController,
        /// The write buffer; every drive has one but those whose media is written in place.
        write_buffer: Option<RawWriteBuffer>,
        /// The flash.
        nand: RawNand,
        /// Garbage collection; every drive has it but those whose media is written in place.
        gc: Option<RawGc>,
        /// The map's journal; none if it is left out.
        map_journal: Option<RawMapJournal>,
        /// Energy per operation.
        energy: RawEnergy,
        /// Heat and throttling.
        thermal: RawThermal,
        /// What the drive and its link sleep in; nothing if it is left out.
        power: Option<RawPower>,
        /// What the health log needs to know; without it wear and warnings are not reported.
        health: Option<RawHealth>,
        /// What an NVMe drive says of itself; absent: what can be said of any.
        identify: Option<RawIdentify>,
        /// How wear is spread; absent: superblocks are used again in the order in which they came
        /// free.
        wear_leveling: Option<RawWearLeveling>,
        /// Errors and wear of the flash; absent: none.
        reliability: Option<RawReliability>,
        /// A map that does not fit the drive's memory; absent: it does.
        map_cache: Option<RawMapCache>,
        /// Reading ahead of sequential streams; absent: the drive fetches what it is asked for.
        read_ahead: Option<RawReadAhead>,
        /// Superblocks used with one bit per cell; absent: none.
        slc_cache: Option<RawSlcCache>,
        /// Flexible Data Placement; absent: the host has no say in where its data is put.
        fdp: Option<RawFdp>,
        /// Zoned Namespaces; absent: blocks may be written in any order.
        zns: Option<RawZns>,
        /// Named sets of changes: `[variants.heatsink]` with dotted keys.
        #[serde(default)]
        variants: serde_json::Map<String, serde_json::Value>,
    }

    /// Identity, for reports.
    RawDrive {
        /// Name in the catalog.
        name: String,
        /// Name for people.
        title: String,
        /// Model number.
        model: Word,
        /// User capacity in sectors of 512 B.
        capacity_sectors: Whole = 2048..=1 << 37,
        /// Form factor.
        form_factor: Word,
        /// Controller's name.
        controller: Word,
        /// Flash, in words.
        flash: Word,
        /// Why too little is known of the drive, so that its profile is a stand-in and is called
        /// one wherever it is shown; left out for a drive with figures of its own.
        stand_in: Option<String>,
        /// The host of its reviews by its name in hosts/, in which it is tested unless another is
        /// asked for; none for a profile that has a `[host]` of its own.
        host: Option<String>,
        /// Day of the publication that made it known, or of its launch.
        released: Option<Word>,
    }

    /// The computer that the drive is tested in, as `hosts/*.toml` has it; not a property of the
    /// drive.
    RawHost {
        /// Name in the list of hosts.
        name: String,
        /// Name for people.
        title: String,
        /// Operating system and test program.
        system: Word,
        /// Processor and mainboard.
        machine: Word,
        /// Logical processors: with NVMe each may have a submission queue.
        processors: Whole = 1..=4096,
        /// Time of the test program from the completion of a request to the beginning of the next
        /// in its place, which is in no latency: fio's `lat` begins with a request. None if left
        /// out.
        between_us: Option<Number> = MICROS,
        /// Whether the host lets drive and link sleep; it does not if left out.
        power_saving: Option<Flag>,
        /// The driver of AHCI devices, over PCIe and SATA; without one the host refuses them.
        ahci: Option<RawDriver>,
        /// The driver of NVMe devices; without one the host refuses them.
        nvme: Option<RawDriver>,
        /// The PCIe slot.
        slot: RawSlot,
        /// The SATA port; without one the host refuses SATA drives.
        sata_port: Option<RawSataPort>,
    }

    /// A driver, and what a command costs in it.
    RawDriver {
        /// Name of the driver, as its operating system calls it.
        driver: Word,
        /// Software per command that overlaps with other commands.
        software_us: Number = MICROS,
        /// Work of a processor per command that the queue's other commands wait for: under the lock
        /// of AHCI's one queue, on the queue's own processor with NVMe.
        serial_us: Number = MICROS,
        /// Uncacheable reads of the device's registers per command.
        register_reads: Whole = 0..=100,
        /// One such read, for which the processor waits.
        register_read_us: Number = MICROS,
        /// Writes of the device's registers per command: AHCI's command issue and interrupt status,
        /// NVMe's doorbells.
        register_writes: Whole = 0..=100,
        /// One such write.
        register_write_us: Number = MICROS,
        /// From the device's interrupt to the program that waits; a driver that polls has less.
        interrupt_us: Number = MICROS,
        /// Most data that the driver moves, both ways together; no limit if left out.
        mb_per_s: Option<Number> = 1.0..=1e6,
    }

    /// A PCIe slot: the link runs at the lesser of the slot's and the drive's generation, lanes and
    /// payload.
    RawSlot {
        /// As in `link`.
        generation: Whole = 1..=5,
        /// As in `link`.
        lanes: Whole = power_of_two(16),
        /// Largest payload of one packet (Max_Payload_Size).
        payload_bytes: Whole = packet(128),
        /// Most that the drive may ask of memory in one request (Max_Read_Request_Size).
        read_request_bytes: Whole = packet(128),
        /// Payload of the completions in which memory answers: the read completion boundary of 64
        /// or 128 bytes, or a multiple of it; no more than the link's payload.
        read_completion_bytes: Whole = packet(64),
        /// From a read request of the drive to the first data from the host's memory.
        round_trip_us: Number = 0.0..=100.0,
    }

    /// A SATA port.
    RawSataPort {
        /// 1, 2, 3 for 1.5, 3 and 6 Gb/s.
        generation: Whole = 1..=3,
    }

    /// The command interface.
    RawHostInterface {
        /// `sata`, `ahci` (over PCIe) or `nvme`.
        protocol: Word = &["ahci", "nvme", "sata"],
        /// Most commands outstanding, in each queue.
        queue_depth_max: Whole,
        /// Most submission queues (NVMe); one if left out.
        queues_max: Option<Whole>,
        /// Most commands in the controller, of all submission queues together (NVMe); no limit if
        /// left out.
        commands_max: Option<Whole>,
    }

    /// The drive's end of the link.
    RawLink {
        /// PCIe generation, 1 to 5; SATA: 1, 2, 3 for 1.5, 3 and 6 Gb/s.
        generation: Whole,
        /// Lanes: 1, 2, 4, 8 or 16; SATA: 1.
        lanes: Whole,
        /// Largest payload of one packet: 128 to 4096 bytes; of a SATA data FIS: up to 8192.
        payload_bytes: Whole,
        /// PCIe: header, sequence number and check of a packet that the drive writes. SATA: start,
        /// check, end and handshake of one FIS, in byte times.
        packet_overhead_bytes: Whole,
        /// PCIe: read requests that the drive has outstanding at the host's memory at most; 32 if
        /// left out, as many as there are without extended tags.
        read_tags: Option<Whole> = 1..=1024,
        /// Times in which the link is down and trained anew; none if left out.
        outage: Option<RawOutage>,
    }

    /// The controller's cores and its data path.
    RawController {
        /// Host core, per command.
        host_core_us: Number = MICROS,
        /// Flash core, per read command.
        read_command_us: Number = MICROS,
        /// Flash core, per mapping unit read from flash: the command to the die.
        read_page_us: Number = MICROS,
        /// Flash core, per write command.
        write_command_us: Number = MICROS,
        /// Flash core, per mapping unit written.
        write_page_us: Number = MICROS,
        /// Coefficient of variation of the flash core's time for a command: its standard deviation
        /// over its mean, which is the sum of the costs above. So much of each time is drawn from
        /// the exponential distribution; none if left out.
        service_cv: Option<Number> = 0.0..=1.0,
        /// Data that one entry of the map stands for (mapping unit, indirection unit): 4 to 64 KiB,
        /// at most a flash page of every plane; 4 if left out. Of a unit that is written in part
        /// the rest is read, and all of it programmed.
        mapping_unit_kib: Option<Whole> = power_of_two(64),
        /// Sanitize can overwrite all media with a pattern (NVMe SANICAP, overwrite); not so if
        /// left out.
        sanitize_overwrite: Option<Flag>,
        /// Data path from the link into the buffer.
        write_path_mb_per_s: Number = 1.0..=1e5,
        /// Data path from flash to the link; no limit of its own if left out.
        read_path_mb_per_s: Option<Number> = 1.0..=1e5,
        /// Error correction of what came over a channel, from its last byte to the first corrected
        /// one: a latency of each read that holds up no other. None of its own (in `read_us`) if
        /// left out.
        decode_us: Option<Number> = MICROS,
        /// A controller with one data path for both directions; left out: reads and writes pass at
        /// the same time.
        half_duplex: Option<RawHalfDuplex>,
        /// Writes that find no room wait where reads pass them; left out: commands wait for the
        /// flash core in the order in which they come.
        admission: Option<RawAdmission>,
        /// Work of the firmware for which every command waits; none if left out.
        stall: Option<RawOutage>,
    }

    /// A part that does nothing for a while, again and again, by the drive's clock.
    RawOutage {
        /// From the beginning of one to that of the next; the first begins so long after the drive
        /// was made.
        every_s: Number = 0.001..=1e8,
        /// How long each takes, less than `every_s`.
        for_ms: Number = 0.0..=1e7,
    }

    /// A half-duplex controller: reads and writes have its data path in turns, each for a batch of
    /// commands.
    RawHalfDuplex {
        /// From the end of the last transfer in one direction to the first in the other.
        turnaround_us: Number = MICROS,
        /// Commands after which a batch ends if the other direction waits.
        batch_commands: Whole = 1..=65_536,
        /// How long a batch goes on while the other direction waits.
        batch_wait_us: Number = MICROS,
    }

    /// Admission of writes.
    RawAdmission {
        /// Least time between two writes that are admitted while garbage collection runs; 0 for
        /// none.
        interval_us: Number = MICROS,
        /// Writes that may come together after a pause, beyond one in an interval; none if left
        /// out.
        together: Option<Whole> = 0..=65_536,
        /// What feeds the pacer that admits writes while garbage collection runs: time, one write
        /// in `interval_us` (`fixed`; so if left out), reads as well, each that is served while a
        /// write is held (`with-reads`), or time at a rate that keeps the write buffer half full
        /// (`balanced`).
        pace: Option<Word>,
    }

    /// The write buffer.
    RawWriteBuffer {
        /// Room for data on its way to flash.
        size_kib: Whole = 4..=1 << 24,
        /// A drive that lies: flushes and forced writes are acknowledged at once, and nothing is
        /// made safe.
        ignore_flush: Option<Flag>,
        /// Capacitors bring all that was acknowledged to flash when the power fails: flushes and
        /// forced writes have nothing to wait for. Not so if left out.
        power_loss_protection: Option<Flag>,
        /// When places come free: `in-order` (the one taken first comes free first; so if left
        /// out), or `word-lines` (as programs end, all pages of a die's word line together, as in
        /// one-pass programming). The second only with `power_loss_protection`.
        release: Option<Word> = &["in-order", "word-lines"],
    }

    /// Geometry and times of the flash.
    RawNand {
        /// Media that is written where the data lies, as 3D XPoint: no map, no erase, no garbage
        /// collection, and a write is complete when the media has it. `read_us` and `program_us`
        /// are then the array's times for 4 KiB. Not so if left out.
        in_place: Option<Flag>,
        /// Dies of as many channels over which each 4 KiB are spread, on media that is written in
        /// place; one if left out.
        spread_dies: Option<Whole> = 1..=64,
        /// Channels; a power of two, unless the media is written in place.
        channels: Whole = 1..=64,
        /// Dies on each channel; a power of two, unless the media is written in place.
        dies_per_channel: Whole = 1..=64,
        /// Planes of a die; a power of two.
        planes: Whole = power_of_two(8),
        /// Blocks of a plane.
        blocks_per_plane: Whole = 4..=1 << 20,
        /// Pages of a block.
        pages_per_block: Whole = 2..=1 << 14,
        /// Bytes of a page: 4, 8, 16 or 32 KiB.
        page_kib: Whole = power_of_two(64),
        /// Where consecutive flash pages of a row lie: `dies-first` (a page on each die, then on
        /// the next plane of each; so if left out) or `word-lines-first` (all planes and page types
        /// of a die's word line, as one-pass programming needs them).
        page_order: Option<Word> = &["dies-first", "word-lines-first"],
        /// In a scaled drive, whose blocks are smaller: one erase in so many takes its time, for
        /// all of them, as a stall keeps its length then. Absent: each does.
        erase_one_in: Option<Number> = 1.0..=4096.0,
        /// Superblocks lost to bad blocks.
        bad_superblocks: Whole,
        /// tR: from the array to the page register.
        read_us: Number = MICROS,
        /// How tR differs by page type, in programming order; its mean is `read_us` whatever theirs
        /// is. Absent: no difference.
        read_by_type_us: Option<Numbers>,
        /// tPROG by page type, in programming order (MLC: LSB, MSB).
        program_us: Numbers,
        /// tBERS: the erase of a block.
        erase_us: Number = MICROS,
        /// Reads of a die: `together`, one at a time whatever its plane, or `independent`, one on
        /// each plane; together if left out.
        read_planes: Option<Word> = &["together", "independent"],
        /// Longest wait of a read for a program or erase that it suspends.
        suspend_us: Number = MICROS,
        /// Mean wait for a program, drawn from the exponential distribution up to the longest;
        /// always the longest if left out.
        suspend_mean_us: Option<Number> = MICROS,
        /// Longest wait for an erase, anything up to it as likely; as for a program if left out.
        erase_suspend_us: Option<Number> = MICROS,
        /// A program that a host's read suspends, afterwards: `goes-on`, or `restarts` with its
        /// word line, whose pages are programmed at once; goes on if left out.
        resumed_program: Option<Word> = &["goes-on", "restarts"],
        /// Rate of a channel, overheads included.
        channel_mb_per_s: Number = 1.0..=1e4,
        /// Whether data for the next program may be moved during a program.
        cache_program: Flag,
        /// How places differ in their times; not at all if it is left out.
        variation: Option<RawVariation>,
        /// Dies that are slower than the others; none if left out.
        slow_dies: Option<RawSlowDies>,
        /// Parity across dies (RAIN), with which what a failed die held can be computed; none if
        /// left out.
        parity: Option<RawParity>,
    }

    /// Parity across dies.
    RawParity {
        /// Dies that a stripe lies across; the page of one holds the parity of the others.
        dies: Whole = 2..=4096,
        /// Rate at which what a failed die held is brought to the others.
        rebuild_mb_per_s: Number = 0.1..=1e5,
    }

    /// Dies that are slow, chosen by the drive's seed, neighbours of one another.
    RawSlowDies {
        /// How many.
        dies: Whole = 1..=4096,
        /// Their times of reading, programming and erasing against the usual ones.
        time_percent: Number = 100.0..=1e5,
    }

    /// How blocks and pages differ in their times: standard deviations in percent.
    RawVariation {
        /// Of blocks, in reads and programs.
        block_percent: Number = 0.0..=14.0,
        /// Of the pages of a block, in reads and programs.
        page_percent: Number = 0.0..=14.0,
        /// Of blocks, in erases.
        erase_percent: Number = 0.0..=14.0,
    }

    /// Garbage collection.
    RawGc {
        /// Victim policy behind writes.
        victim_policy: Word,
        /// Number of superblocks that `d-choices` draws.
        choices: Whole = 1..=1024,
        /// Number of superblocks, the oldest sealed ones, among which `windowed` chooses; required
        /// with that policy.
        window: Option<Whole> = 1..=1 << 20,
        /// `separate` frontiers for host and garbage collection, or one for both: `single`, with
        /// one victim at a time as in the literature's models, or `shared`, with as many victims in
        /// a row as bring a superblock beyond the reserve.
        frontiers: Word,
        /// With one frontier for both, most victims that foreground collection empties in a row
        /// once the host has room behind their copies; if left out, 1 with `single`, and as many as
        /// it takes with `shared`.
        foreground_victims: Option<Whole> = 1..=1 << 20,
        /// The host's frontiers: `one`, or two `by-lifespan` of what is overwritten; one if left
        /// out.
        host_frontiers: Option<Word>,
        /// A policy plug-in, `name@digest`, whose decisions go before the profile's; none if left
        /// out. It must be loaded: `--policy`, never by a profile.
        plugin: Option<Word>,
        /// Flash core, per run of consecutive pages copied.
        copy_extent_us: Number = MICROS,
        /// Flash core, per page (mapping unit) copied.
        copy_page_us: Number = MICROS,
        /// Spare space that may be used before garbage collection starts.
        threshold_mb: Number = MEGABYTES,
        /// Free space that the control loop holds in the long run.
        target_mb: Number = MEGABYTES,
        /// Gain of the control loop where garbage collection starts, with the most space free.
        gain_min: Number = 0.0..=1.0,
        /// Gain with nothing free; it is one at `target_mb`.
        gain_max: Number = 1.0..=100.0,
        /// Most that garbage collection takes of the flash core per page (mapping unit) that the
        /// host writes.
        duty_limit_us: Number = 0.0..=1e4,
        /// How many times as much it may take with nothing free; as much at `target_mb`.
        duty_growth: Number = 1.0..=100.0,
        /// Most pages (mapping units) of a command that the duty limit counts; all if left out.
        duty_pages_max: Option<Whole> = 1..=1 << 19,
        /// When it runs beside writes: behind every command of them (`commands`), or each time that
        /// the host has filled a word line of all planes of a die (`word-lines`); behind commands
        /// if left out.
        runs_behind: Option<Word>,
        /// Pages (mapping units) copied in the background in a second while the write buffer has
        /// room. What is due beyond is copied in rounds of a word line of all planes of every die,
        /// for which writes wait. Left out: nothing is deferred. Only with `runs_behind =
        /// "word-lines"` and a balanced pace of admission.
        background_pages_per_s: Option<Number> = 1.0..=1e7,
        /// Free superblocks that only garbage collection in the foreground may use.
        reserve_superblocks: Whole = 1..=1 << 20,
        /// Garbage collection while nothing is asked of the drive; none if it is left out.
        idle: Option<RawIdle>,
    }

    /// The map's journal, on a drive that holds its map in memory.
    RawMapJournal {
        /// Bytes of the entry of one extent.
        entry_bytes: Whole = 4..=64,
        /// Flash core, per program of journal, summary or map.
        program_us: Number = MICROS,
        /// Journal after which the whole map is written while the host waits; absent: it is written
        /// in small parts, which cost nothing more.
        checkpoint_mb: Option<Number> = 0.01..=1e6,
    }

    /// Wear levelling.
    RawWearLeveling {
        /// Dynamic: of the free superblocks the one with the fewest erases is used next.
        dynamic: Flag,
    }

    /// Garbage collection in idle time.
    RawIdle {
        /// How long the flash core has had no command when it begins.
        after_ms: Number = 0.0..=1e6,
        /// Free space at which it ends.
        free_mb: Number = MEGABYTES,
        /// Victim policy in idle time, a word as for `gc.victim_policy`, which holds for both if
        /// this is left out.
        policy: Option<Word>,
    }

    /// Energy per operation, and power in each state.
    RawEnergy {
        /// Power while nothing has been asked for a while.
        idle_mw: Number = 0.0..=1e5,
        /// Power of the awake controller, without work.
        active_mw: Number = 0.0..=1e5,
        /// Flash core at work, over `active_mw`.
        core_busy_mw: Number = 0.0..=1e5,
        /// Programming 4 KiB.
        program_4k_uj: Number = 0.0..=1e4,
        /// Reading one flash page.
        read_page_uj: Number = 0.0..=1e4,
        /// Erasing one block.
        erase_block_uj: Number = 0.0..=1e6,
        /// Moving 4 KiB that were read through the flash channel and error correction; the
        /// controller's.
        read_4k_uj: Option<Number> = 0.0..=1e4,
        /// Moving 4 KiB over the link.
        link_4k_uj: Number = 0.0..=1e4,
    }

    /// Heat: one node, or a network of them.
    RawThermal {
        /// Air around the drive.
        ambient_c: Number = -40.0..=100.0,
        /// One node: from the drive to still air.
        resistance_k_per_w: Option<Number> = RESISTANCE,
        /// One node: of the drive.
        capacity_j_per_k: Option<Number> = HEAT_CAPACITY,
        /// Several nodes, in place of the two numbers above.
        network: Option<RawNetwork>,
        /// The sensor as the health log reports it; whole degrees, without delay, if left out.
        sensor: Option<RawSensor>,
        /// What the drive does against heat, mildest first.
        #[serde(default)]
        throttle: Vec<RawThrottle>,
    }

    /// A network of heat nodes: controller and flash on the module, a heatsink over both if there
    /// is one.
    RawNetwork {
        /// Heat capacity of the controller; its cores' and the link's energy goes there.
        controller_j_per_k: Number = HEAT_CAPACITY,
        /// Of the flash packages; array operations' energy goes there.
        nand_j_per_k: Number = HEAT_CAPACITY,
        /// Of the circuit board and the rest.
        module_j_per_k: Number = HEAT_CAPACITY,
        /// From controller to board.
        controller_to_module_k_per_w: Number = RESISTANCE,
        /// From flash to board.
        nand_to_module_k_per_w: Number = RESISTANCE,
        /// From board and packages to still air.
        module_to_air_k_per_w: Number = RESISTANCE,
        /// A heatsink over controller and flash; none if left out.
        heatsink: Option<RawHeatsink>,
    }

    /// A heatsink on controller and flash.
    RawHeatsink {
        /// Its heat capacity.
        capacity_j_per_k: Number = HEAT_CAPACITY,
        /// From controller to heatsink, through the pad.
        from_controller_k_per_w: Number = RESISTANCE,
        /// From flash to heatsink, through the pad.
        from_nand_k_per_w: Number = RESISTANCE,
        /// From heatsink to still air.
        to_air_k_per_w: Number = RESISTANCE,
    }

    /// A temperature sensor.
    RawSensor {
        /// Where it sits: `drive`, or in a network `controller`, `nand`, `module`, `heatsink`.
        node: Word,
        /// How often the firmware reads it: a multiple of 100 ms.
        interval_ms: Whole = 100..=60_000,
    }

    /// What the drive and its link sleep in while nothing is asked of them.
    RawPower {
        /// Part of `energy.active_mw` and `energy.idle_mw` that is the link's, awake.
        link_awake_mw: Number = 0.0..=1e5,
        /// States of the drive (NVMe's PS3 and PS4), lightest first.
        #[serde(default)]
        device: Vec<RawSleep>,
        /// States of the link (PCIe's L1.2; SATA's Partial, Slumber, DevSleep), lightest first.
        #[serde(default)]
        link: Vec<RawSleep>,
    }

    /// A state of sleep.
    RawSleep {
        /// Its name in the standard.
        name: String,
        /// Idle time after which it is entered.
        after_us: Number = HOUR,
        /// How long entering takes; it cannot be broken off.
        entry_us: Number = HOUR,
        /// How long leaving takes.
        exit_us: Number = HOUR,
        /// Power of the drive without its link, or of the link alone.
        power_mw: Number = 0.0..=1e5,
    }

    /// What the health log needs to know.
    RawHealth {
        /// Program/erase cycles at which the drive counts as used up.
        rated_cycles: Option<Number> = 1.0..=1e9,
        /// NVMe's WCTEMP: time above it is counted.
        warning_c: Option<Number> = TEMPERATURE,
        /// NVMe's CCTEMP: likewise.
        critical_c: Option<Number> = TEMPERATURE,
        /// Wear that the drive begins with, of `rated_cycles`, which must be given; new if left
        /// out.
        worn_percent: Option<Number> = 0.0..=255.0,
        /// What is left of the drive's life, if its firmware counts it down; no such end if left
        /// out.
        end_of_life: Option<RawEndOfLife>,
    }

    /// The end of a drive's life as its firmware counts it: the spare blocks that it reports fall
    /// evenly, and with none left it refuses to be written.
    RawEndOfLife {
        /// Available spare at first, percent.
        spare_percent: Whole = 1..=100,
        /// What the host can still write.
        writes_mb: Number = 0.0..=1e12,
    }

    /// One stage of throttling, entered when the drive, or in a network its controller, is at
    /// `on_c`, left below `off_c`; with `full_c` it takes hold little by little.
    RawThrottle {
        /// Entered at this temperature.
        on_c: Number = TEMPERATURE,
        /// Left below this temperature.
        off_c: Number = TEMPERATURE,
        /// The clock falls evenly from `on_c`, reaches `clock_percent` here; all of it at `on_c` if
        /// left out.
        full_c: Option<Number> = TEMPERATURE,
        /// Clock of the cores against the nominal one.
        clock_percent: Number = 1.0..=100.0,
        /// Limit on writes, if any.
        write_mb_per_s: Option<Number> = 0.1..=1e5,
        /// Limit on reads, if any.
        read_mb_per_s: Option<Number> = 0.1..=1e5,
    }

    /// Errors, read retry, growing bad blocks: `[reliability]`. Absent: none of them.
    ///
    /// Raw bit error rate of a page by P/E cycles c, reads r and age a:
    /// `fresh_rber + wear_factor c^wear_exponent + disturb_factor c^disturb_cycle_exponent
    /// r^disturb_read_exponent + age_factor c^age_cycle_exponent a^age_exponent`.
    RawReliability {
        /// Rate of fresh flash, without retention and reads.
        fresh_rber: Number = 0.0..=0.5,
        /// Factor of the cycles' term.
        wear_factor: Number = 0.0..=1.0,
        /// Exponent of the cycles' term.
        wear_exponent: Number = EXPONENT,
        /// Factor of the reads' term.
        disturb_factor: Number = 0.0..=1.0,
        /// Exponent of cycles in the reads' term.
        disturb_cycle_exponent: Number = EXPONENT,
        /// Exponent of reads: mean reads of a block's page since its erase.
        disturb_read_exponent: Number = EXPONENT,
        /// Factor of the age's term.
        age_factor: Number = 0.0..=1.0,
        /// Exponent of cycles in the age's term.
        age_cycle_exponent: Number = EXPONENT,
        /// Exponent of the age: days since the superblock was opened.
        age_exponent: Number = EXPONENT,
        /// Pages differ: standard deviation of the natural logarithm of their rates.
        page_spread: Number = 0.0..=3.0,
        /// Data bytes of one codeword of the error correction.
        codeword_bytes: Whole = power_of_two(PAGE_BYTES),
        /// Wrong bits that it corrects.
        correctable_bits: Whole = 1..=4096,
        /// Most times a page is read again with other reference voltages; real tables have some
        /// dozens.
        retries_max: Whole = 0..=64,
        /// What each retry leaves of the rate, 0 to 1.
        retry_gain: Number = 0.01..=1.0,
        /// Die time of one retry: setting the voltages, and sensing.
        retry_read_us: Number = MICROS,
        /// Reads of a block, per page, after which its data is moved; 0 for never.
        refresh_reads: Number = 0.0..=1e6,
        /// Cycles after which 63.2 % of blocks have failed (Weibull's scale).
        block_life_cycles: Number = 1.0..=1e9,
        /// How suddenly they fail (Weibull's shape).
        block_life_shape: Number = 0.1..=100.0,
        /// Blocks that replace failed ones.
        spare_blocks: Whole = 0..=1_000_000,
    }

    /// A map in flash with a cache of it: `[map_cache]`. Absent: the whole map is in the drive's
    /// memory.
    RawMapCache {
        /// The controller's own memory for translation pages of 4 KiB (1,024 entries).
        sram_kib: Whole = 4..=1 << 24,
        /// Memory of the host lent to the drive; 0 for none.
        host_buffer_mib: Whole = 0..=1 << 14,
        /// One look-up in the host's memory, over the link and back.
        host_buffer_us: Number = MICROS,
    }

    /// Reading ahead: `[read_ahead]`. Absent: none.
    RawReadAhead {
        /// Most that is fetched ahead of a stream.
        window_kib: Whole = 8..=16_384,
        /// Sequential streams that are told apart.
        streams: Whole = 1..=64,
    }

    /// Superblocks used with one bit per cell, for what the host has just written.
    RawSlcCache {
        /// Data that superblocks hold which are always used this way; the user's capacity is
        /// without them.
        static_mb: Number = MEGABYTES,
        /// Most data that free superblocks hold which are used this way for a while.
        dynamic_mb: Number = MEGABYTES,
        /// Free flash, counted with all its bits per cell, that the dynamic part leaves alone.
        keep_mb: Number = MEGABYTES,
        /// tPROG with one bit per cell.
        program_us: Number = MICROS,
        /// tR with one bit per cell.
        read_us: Number = MICROS,
        /// What becomes of writes while the cache is full: they go `direct` to the rest of the
        /// flash, or wait for room that folding makes (`fold`).
        when_full: Word = &["direct", "fold"],
        /// Folding under load: pages folded per page that the host writes.
        fold_ratio: Number = 0.0..=16.0,
        /// When that begins: with the `first-write` into the cache (so if left out), or when the
        /// cache is `full`; then writes go past it until the drive has had a rest in which it
        /// folds. The second only where `when_full` is `direct`.
        fold_from: Option<Word> = &["first-write", "full"],
        /// Folding at rest: how long the flash core has had no command when it begins.
        fold_after_ms: Number = 0.0..=1e6,
        /// What an erase after use with one bit per cell wears, against one after use with all: 0
        /// to 1.
        cycle_weight: Number = 0.0..=1.0,
        /// Energy of programming 4 KiB with one bit per cell.
        program_4k_uj: Number = 0.0..=1e4,
    }

    /// Flexible Data Placement: a superblock is the reclaim unit, and there is one reclaim group.
    /// It takes the place of `gc.frontiers` and `gc.host_frontiers`.
    RawFdp {
        /// Reclaim unit handles: streams of the host with superblocks of their own, and a share of
        /// the write buffer.
        handles: Whole = 1..=64,
        /// What garbage collection does with the data of several handles: puts it together
        /// (`initial`: initially isolated), or apart, with a frontier for each (`persistent`).
        isolation: Word = &["initial", "persistent"],
        /// Reclaim groups: sets of dies (channels first) with superblocks, handles and garbage
        /// collection of their own, among which no data is copied; one if left out.
        reclaim_groups: Option<Whole> = 1..=64,
    }

    /// Zoned Namespaces: an active zone is a stream with superblocks of its own, and a share of the
    /// write buffer. It takes the place of `gc.frontiers`; garbage collection is left for what
    /// power cuts and errors leave.
    RawZns {
        /// Superblocks that a zone fills, which make its capacity; its size is the next power of
        /// two of that.
        zone_superblocks: Whole = 1..=4096,
        /// Zones that may be active at a time: open, or closed and not yet full.
        active: Whole = 1..=64,
        /// Zones that may be open at a time; as many as may be active if left out.
        open: Option<Whole> = 1..=64,
        /// Flash core, of a zone append beside a write.
        append_us: Number = MICROS,
        /// Until a write to a zone is acknowledged, behind the flash core: a latency that holds up
        /// no other.
        write_latency_us: Number = MICROS,
        /// The same, until the address of a zone append is told, beside that.
        append_latency_us: Number = MICROS,
        /// Flash core, of a reset of a zone with one block.
        reset_us: Number = MICROS,
        /// The same, for each GiB written to it.
        reset_us_per_gib: Number = MICROS,
        /// Flash core, of closing the blocks of a zone that is not full: before a reset, and behind
        /// a finish.
        close_us: Number = MICROS,
        /// After so much of that work the flash core does what commands wait for.
        slice_us: Number = 1.0..=1e6,
        /// Zone random write areas, which need `write_buffer.power_loss_protection`; none if left
        /// out.
        zrwa: Option<RawZrwa>,
    }

    /// Zone random write areas: a zone that is opened with one takes writes in any order, and
    /// overwrites, in the blocks behind its write pointer. They are kept in the write buffer, which
    /// is so much smaller, and go to flash as the pointer moves.
    RawZrwa {
        /// How many zones may have one at a time.
        zones: Whole = 1..=64,
        /// How much behind the write pointer.
        size_kib: Whole = 4..=65536,
        /// Steps of the write pointer; size and capacity of a zone are multiples of it.
        granularity_kib: Whole = 4..=65536,
    }

    /// The drive's own identify data.
    RawIdentify {
        /// Model number, at most 40 characters.
        model: Word,
        /// Firmware revision, at most 8 characters.
        firmware: Word,
        /// PCI vendor.
        vendor: Sourced<u16>,
        /// PCI device.
        device: Sourced<u16>,
        /// The maker's IEEE OUI, 6 hexadecimal digits.
        oui: Word,
        /// Recommended arbitration burst, as a power of two (RAB).
        arbitration_burst_log2: Sourced<u8>,
        /// Most data of a command, as a power of two in units of 4 KiB (MDTS).
        transfer_max_log2: Whole = 1..=8,
        /// Blocks written atomically, less one (AWUN).
        atomic_write: Sourced<u16>,
        /// The same when the power goes (AWUPF).
        atomic_write_power_fail: Sourced<u16>,
        /// Outstanding aborts, less one (ACL).
        aborts_max: Sourced<u8>,
        /// Outstanding asynchronous event requests, less one (AERL).
        events_max: Sourced<u8>,
        /// Entries of the error log, less one (ELPE).
        error_entries: Sourced<u8>,
        /// Power states, PS0 first.
        #[serde(default)]
        power_states: Vec<RawPowerState>,
    }

    /// One power state.
    RawPowerState {
        /// Maximum power (MP) in this state.
        max_mw: Number = 0.0..=655_350.0,
        /// Entry latency (ENLAT).
        entry_us: Number = 0.0..=4e9,
        /// Time to leave.
        exit_us: Number = 0.0..=4e9,
        /// Whether it serves I/O.
        operational: Flag,
    }
}

impl RawSpec {
    /// Garbage collection, on a drive of flash.
    #[must_use]
    pub fn gc(&self) -> &RawGc {
        self.gc.as_ref().expect("checked: flash has [gc]")
    }

    /// The write buffer, on a drive of flash.
    #[must_use]
    pub fn write_buffer(&self) -> &RawWriteBuffer {
        self.write_buffer.as_ref().expect("checked: flash has [write_buffer]")
    }
}
