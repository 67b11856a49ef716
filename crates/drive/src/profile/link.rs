//! The link: its rate in each direction.
//!
//! Sources. PCIe rates, encodings and packets: PCI-SIG base specifications 1.0 to 5.0. Answers to
//! reads of memory: Intel AN 456 and AN 690 (completions split at the read completion boundary,
//! tags against the round trip); packets' overhead of 20 to 28 bytes: AN 708. SATA: Serial ATA
//! revision 3.x, for the rates (1.5, 3, 6 Gb/s, 8b/10b), the sizes of the FISes and their order in
//! a queued command: register to the drive and back, DMA Setup, data of up to 8 KiB each, Set
//! Device Bits.
//!
//! Model. The link uses the smaller of the drive's and the slot's generation and lanes, as both
//! standards negotiate it. For reads, the drive writes packets of the largest payload to the host.
//! For writes, it reads from the host's memory: it has as many outstanding requests as tags, each
//! answered by completions. A request occupies its tag for the round trip and for its own data. The
//! rate is therefore the smaller of two: the wire's rate less overhead, and tags x request divided
//! by the round trip plus the time of the request's data. The first data arrives after the round
//! trip. With few tags, the rate includes the wait for the other requests; the part of the round
//! trip that this wait covers is not counted again. All of this is computed once; a transfer then
//! takes its bytes times a constant. Left out: link errors and replays; packets without payload
//! (read requests, acknowledgements, credits), 3 to 5 % of the other direction; SATA's ALIGN
//! primitives (under 1 %).

use drivebay_units::Nanos;

use super::Protocol;
use super::host::missing;
use super::key::{Key, SpecError, Whole, WholeRule};
use super::schema::RawSpec;

/// Overhead of a completion in bytes: framing (or start and sequence number), sequence number and
/// check of any packet, and a header of three words.
const COMPLETION_OVERHEAD: u64 = 8 + 12;
/// Outstanding read requests without extended tags: a tag has five bits.
const TAGS: u64 = 32;

/// The link as host and drive negotiate it.
#[derive(Clone, Copy, Debug)]
pub struct LinkSpec {
    /// Rate of data to the host, in femtoseconds per byte of payload, overheads included.
    pub up_fs_per_byte: u64,
    /// Rate of data from the host, in femtoseconds per byte of payload, overheads included.
    pub down_fs_per_byte: u64,
    /// Time from a read request of the drive to the first data.
    pub round_trip: Nanos,
    /// Time from the first request for data of a write until the data arrives at its rate.
    pub down_latency: Nanos,
    /// Frame times of SATA; `None` on PCIe.
    pub sata: Option<SataFrames>,
}

/// Overhead times on a SATA link per command and per data FIS, without the data itself.
#[derive(Clone, Copy, Debug)]
pub struct SataFrames {
    /// The command, and the answer that frees the link: two register FISes.
    pub command: Nanos,
    /// DMA Setup, before the data.
    pub setup: Nanos,
    /// A data FIS without its payload.
    pub data: Nanos,
    /// DMA Activate, which allows the next data FIS of a write; DMA Setup allows the first.
    pub activate: Nanos,
    /// Set Device Bits, which completes the command.
    pub completion: Nanos,
    /// log2 of the maximum payload of a data FIS.
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

pub(super) fn check_link(raw: &RawSpec, protocol: Protocol) -> Result<LinkSpec, SpecError> {
    let overhead = if protocol == Protocol::Sata { 12..=4096 } else { 12..=64 };
    raw.link.packet_overhead_bytes.check("link.packet_overhead_bytes", overhead.into())?;
    if protocol == Protocol::Sata { sata(raw) } else { pcie(raw) }
}

/// Checks a value of the drive's end of the link.
fn own(key: &str, number: &Whole, rule: impl Into<WholeRule>) -> Result<u64, SpecError> {
    number.check(&format!("link.{key}"), rule.into())?;
    Ok(number.value)
}

/// Link rates of PCIe: 1 and 2 have 2.5 and 5 GT/s with 8b/10b; 3, 4, 5 have 8, 16, 32 GT/s with
/// 128b/130b.
fn pcie(raw: &RawSpec) -> Result<LinkSpec, SpecError> {
    let (link, slot) = (&raw.link, &raw.host.slot);
    let generation = own("generation", &link.generation, 1..=5)?.min(slot.generation.value);
    let lanes = own("lanes", &link.lanes, WholeRule::PowerOfTwo(1..=16))?.min(slot.lanes.value);
    let rule = WholeRule::PowerOfTwo(128..=4096);
    let payload = own("payload_bytes", &link.payload_bytes, rule)?.min(slot.payload_bytes.value);
    let overhead = link.packet_overhead_bytes.value;
    let request = slot.read_request_bytes.value;
    let completion = slot.read_completion_bytes.value.min(payload).min(request);
    let tags = link.read_tags.as_ref().map_or(TAGS, |tags| tags.value);
    let round_trip = slot.round_trip_us.micros();

    let (giga_transfers, coded, bits) = [
        (2.5, 10.0, 8.0),
        (5.0, 10.0, 8.0),
        (8.0, 130.0, 128.0),
        (16.0, 130.0, 128.0),
        (32.0, 130.0, 128.0),
    ][generation as usize - 1];
    let wire: f64 = giga_transfers * bits / coded / 8.0 * lanes as f64; // bytes per nanosecond
    let carried = |payload: u64, overhead: u64| wire * payload as f64 / (payload + overhead) as f64;
    let answered = carried(completion, COMPLETION_OVERHEAD);
    let own = request as f64 / answered;
    let down = answered.min((tags * request) as f64 / (round_trip.0 as f64 + own));
    let others = Nanos(((tags - 1) as f64 * own).round() as u64);
    let fs_per_byte = |bytes_per_ns: f64| (1e6 / bytes_per_ns).round() as u64;
    Ok(LinkSpec {
        up_fs_per_byte: fs_per_byte(carried(payload, overhead)),
        down_fs_per_byte: fs_per_byte(down),
        round_trip,
        down_latency: round_trip.min(others),
        sata: None,
    })
}

/// Link rates of SATA: 1.5, 3 and 6 Gb/s with 8b/10b are 150, 300 and 600 bytes per microsecond.
fn sata(raw: &RawSpec) -> Result<LinkSpec, SpecError> {
    let link = &raw.link;
    let port = raw.host.sata_port.as_ref().ok_or_else(|| missing("host.sata_port"))?;
    let generation = own("generation", &link.generation, 1..=3)?.min(port.generation.value);
    own("lanes", &link.lanes, 1..=1)?;
    let rule = WholeRule::PowerOfTwo(512..=8192);
    let payload = own("payload_bytes", &link.payload_bytes, rule)?;
    let overhead = link.packet_overhead_bytes.value;
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
    let fs_per_byte = (1e9 / bytes_per_us as f64).round() as u64;
    Ok(LinkSpec {
        up_fs_per_byte: fs_per_byte,
        down_fs_per_byte: fs_per_byte,
        round_trip: raw.host.slot.round_trip_us.micros(),
        down_latency: Nanos::ZERO,
        sata: Some(frames),
    })
}
