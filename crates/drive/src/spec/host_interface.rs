//! Host, interface and link.
//!
//! Sources. PCIe rates and encodings: PCI-SIG base specifications 1.0 to 5.0. SATA: Serial ATA
//! revision 3.x, for the rates (1.5, 3, 6 Gb/s, 8b/10b), the sizes of the FISes and their order in a
//! queued command: register to the drive and back, DMA Setup, data of up to 8 KiB each, Set Device Bits.
//! The link runs at the lesser of the drive's and the slot's generation and lanes, as both standards
//! negotiate it. Left out: link errors and replays; SATA's ALIGN primitives (under 1 %).

use drivebay_units::Nanos;

use super::key::{Key, Number, SpecError, Whole, WholeRule, is_set};
use super::schema::{RawHost, RawLink, RawSlot, RawSpec};

/// Most submission queues that are modelled.
pub const QUEUES_MAX: usize = 128;

/// Linux's default for `max_sectors_kb` (BLK_DEF_MAX_SECTORS, block/blk-settings.c). NVMe drives ask for
/// less (the SM951's MDTS: 128 KiB), which a profile can say.
const TRANSFER_MAX_KIB: u64 = 1280;

/// The command interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SATA with native command queuing: one queue, one transfer at a time in either direction.
    Sata,
    /// AHCI over PCIe: one queue.
    Ahci,
    /// NVMe.
    Nvme,
}

/// What the computer around the drive limits.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// A processor's serial work per command.
    pub cpu: Nanos,
    /// Most commands that the driver keeps at the drive.
    pub outstanding_max: u32,
    /// Most sectors of one command.
    pub transfer_max: u32,
    /// Data through the driver, femtoseconds per byte; zero for no limit.
    pub fs_per_byte: u64,
    /// Drive and link may sleep.
    pub power_saving: bool,
}

/// How commands get to the controller.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Most submission queues.
    pub queues_max: u32,
    /// Weighted round robin is offered.
    pub weighted: bool,
    /// From doorbell to controller.
    pub fetch: Nanos,
    /// SATA's frames; none on PCIe.
    pub sata: Option<SataFrames>,
}

/// Time on a SATA link besides the data itself, per command and per data FIS.
#[derive(Clone, Copy, Debug)]
pub struct SataFrames {
    /// The command, and the answer that frees the link: two register FISes.
    pub command: Nanos,
    /// DMA Setup, before the data.
    pub setup: Nanos,
    /// A data FIS, its payload not counted.
    pub data: Nanos,
    /// DMA Activate, which allows the next data FIS of a write; DMA Setup allows the first.
    pub activate: Nanos,
    /// Set Device Bits, which completes.
    pub completion: Nanos,
    /// log2 of a data FIS's largest payload.
    pub payload_shift: u32,
}

/// Bytes of SATA's frames without start, check and end.
mod fis {
    pub const REGISTER: u64 = 20;
    pub const DMA_SETUP: u64 = 28;
    pub const DMA_ACTIVATE: u64 = 4;
    pub const DATA_HEADER: u64 = 4;
    pub const SET_DEVICE_BITS: u64 = 8;
}

pub(super) fn check_protocol(raw: &RawSpec) -> Result<(Protocol, u32), SpecError> {
    let i = &raw.host_interface;
    let choices = [("ahci", Protocol::Ahci), ("nvme", Protocol::Nvme), ("sata", Protocol::Sata)];
    let protocol = i.protocol.one_of("host_interface.protocol", &choices)?;
    let bound = if protocol == Protocol::Nvme { 65_536 } else { 32 };
    i.queue_depth_max.check("host_interface.queue_depth_max", (1..=bound).into())?;
    Ok((protocol, i.queue_depth_max.value as u32))
}

/// The number, or this if it is left out.
fn value_or(number: &Option<Whole>, otherwise: u64) -> u32 {
    number.as_ref().map_or(otherwise, |n| n.value) as u32
}

pub(super) fn host_limits(host: &RawHost) -> HostLimits {
    HostLimits {
        cpu: host.cpu_us.as_ref().map_or(Nanos::ZERO, Number::micros),
        outstanding_max: value_or(&host.outstanding_max, 65_536),
        transfer_max: value_or(&host.transfer_max_kib, TRANSFER_MAX_KIB) * 2,
        fs_per_byte: host.mb_per_s.as_ref().map_or(0, Number::fs_per_byte),
        power_saving: is_set(&host.power_saving),
    }
}

/// Rate of the negotiated link in femtoseconds per payload byte, and the interface on it.
pub(super) fn check_interface(
    raw: &RawSpec,
    protocol: Protocol,
) -> Result<(u64, Interface), SpecError> {
    let i = &raw.host_interface;
    let high = if protocol == Protocol::Nvme { QUEUES_MAX as u64 } else { 1 };
    i.queues_max.check("host_interface.queues_max", (1..=high).into())?;
    let weighted = is_set(&i.weighted_round_robin);
    if weighted && protocol != Protocol::Nvme {
        let hint = "leave host_interface.weighted_round_robin out";
        let allowed = "false: only NVMe has queues to weigh";
        return Err(SpecError::out("host_interface.weighted_round_robin", weighted, allowed, hint));
    }
    let slot = raw.host.slot.as_ref();
    let (rate, sata) = if protocol == Protocol::Sata {
        let (rate, frames) = sata_link(&raw.link, slot)?;
        (rate, Some(frames))
    } else {
        (pcie_link(&raw.link, slot)?, None)
    };
    let interface = Interface {
        queues_max: value_or(&i.queues_max, 1),
        weighted,
        fetch: i.fetch_us.as_ref().map_or(Nanos::ZERO, Number::micros),
        sata,
    };
    Ok((rate, interface))
}

/// Generation and lanes that drive and slot agree on.
fn negotiated(
    link: &RawLink,
    slot: Option<&RawSlot>,
    generation_max: u64,
    lanes_max: u64,
) -> Result<(u64, u64), SpecError> {
    let check = |place: &str, generation: &Whole, lanes: &Whole| {
        generation.check(&format!("{place}.generation"), (1..=generation_max).into())?;
        lanes.check(&format!("{place}.lanes"), WholeRule::PowerOfTwo(lanes_max))?;
        Ok((generation.value, lanes.value))
    };
    let drive = check("link", &link.generation, &link.lanes)?;
    let Some(slot) = slot else { return Ok(drive) };
    let slot = check("host.slot", &slot.generation, &slot.lanes)?;
    Ok((drive.0.min(slot.0), drive.1.min(slot.1)))
}

/// Largest payload and overhead of a packet or FIS.
fn packet(link: &RawLink, payload_max: u64, overhead_max: u64) -> Result<(u64, u64), SpecError> {
    let (payload, overhead) = (&link.payload_bytes, &link.packet_overhead_bytes);
    payload.check("link.payload_bytes", WholeRule::PowerOfTwo(payload_max))?;
    overhead.check("link.packet_overhead_bytes", (12..=overhead_max).into())?;
    Ok((payload.value, overhead.value))
}

/// PCIe 1 and 2: 2.5 and 5 GT/s with 8b/10b; 3, 4, 5: 8, 16, 32 GT/s with 128b/130b.
fn pcie_link(link: &RawLink, slot: Option<&RawSlot>) -> Result<u64, SpecError> {
    let (generation, lanes) = negotiated(link, slot, 5, 16)?;
    let (payload, overhead) = packet(link, 4096, 64)?;
    if payload < 128 {
        return Err(SpecError::out("link.payload_bytes", payload, "128 to 4096", "use 128 or 256"));
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

/// 1.5, 3 and 6 Gb/s with 8b/10b: 150, 300 and 600 bytes per microsecond.
fn sata_link(link: &RawLink, slot: Option<&RawSlot>) -> Result<(u64, SataFrames), SpecError> {
    let (generation, _) = negotiated(link, slot, 3, 1)?;
    let (payload, overhead) = packet(link, 8192, 4096)?;
    if payload < 512 {
        return Err(SpecError::out("link.payload_bytes", payload, "512 to 8192", "use 8192"));
    }
    let bytes_per_us = 75u64 << generation;
    let frame = |bytes: u64| Nanos(((bytes + overhead) * 1000 + bytes_per_us / 2) / bytes_per_us);
    let frames = SataFrames {
        command: frame(fis::REGISTER).times(2),
        setup: frame(fis::DMA_SETUP),
        data: frame(fis::DATA_HEADER),
        activate: frame(fis::DMA_ACTIVATE),
        completion: frame(fis::SET_DEVICE_BITS),
        payload_shift: payload.ilog2(),
    };
    Ok(((1e9 / bytes_per_us as f64).round() as u64, frames))
}
