//! The host: costs per command, and limits.
//!
//! Source: AHCI's and NVMe's demands on the host per command, by Intel (quoted by AnandTech,
//! "Testing SATA Express", 2014): AHCI needs four uncacheable register reads and one queue under a
//! lock, NVMe none of these. The driver is the one for the drive's protocol. The part of it that
//! commands of a queue cannot overlap is computed: register accesses times their cost, and work
//! under the queue's lock or on its processor. Left out: one processor that serves several queues.

use drivebay_units::Nanos;

use super::Protocol;
use super::key::{Key, Number, SpecError, is_set};
use super::schema::{RawDriver, RawSpec};

/// Linux's default for `max_sectors_kb` (BLK_DEF_MAX_SECTORS, block/blk-settings.c).
const TRANSFER_MAX_KIB: u64 = 1280;

/// The host of a checked profile.
#[derive(Clone, Copy, Debug)]
pub struct HostSpec {
    /// Software per command that overlaps with other commands.
    pub software: Nanos,
    /// Time per command for registers, lock and processor, during which other commands of the queue
    /// wait.
    pub serial: Nanos,
    /// Time from the drive's interrupt to the program.
    pub interrupt: Nanos,
    /// Maximum number of submission queues, each with its own processor.
    pub queues_max: u32,
    /// Maximum number of sectors per command: the limit of the block layer or the drive.
    pub transfer_max: u32,
    /// Data through the driver, in femtoseconds per byte; zero for no limit.
    pub fs_per_byte: u64,
    /// Time between the completion of a request and the beginning of the next in its slot; not part
    /// of any latency.
    pub between: Nanos,
    /// True if the drive and its link may sleep.
    pub power_saving: bool,
}

pub(super) fn check_host(raw: &RawSpec, protocol: Protocol) -> Result<HostSpec, SpecError> {
    let host = &raw.host;
    let (section, driver) = match protocol {
        Protocol::Nvme => ("host.nvme", &host.nvme),
        Protocol::Ahci | Protocol::Sata => ("host.ahci", &host.ahci),
    };
    let driver = driver.as_ref().ok_or_else(|| missing(section))?;
    let own_kib = &raw.host_interface.transfer_max_kib;
    own_kib.check("host_interface.transfer_max_kib", (8..=TRANSFER_MAX_KIB).into())?;
    Ok(HostSpec {
        software: driver.software_us.micros(),
        serial: serial(driver),
        interrupt: driver.interrupt_us.micros(),
        queues_max: host.processors.value as u32,
        transfer_max: own_kib.as_ref().map_or(TRANSFER_MAX_KIB, |most| most.value) as u32 * 2,
        fs_per_byte: driver.mb_per_s.as_ref().map_or(0, Number::fs_per_byte),
        between: host.between_us.as_ref().map_or(Nanos::ZERO, Number::micros),
        power_saving: is_set(&host.power_saving),
    })
}

fn serial(driver: &RawDriver) -> Nanos {
    let reads = driver.register_read_us.micros().times(driver.register_reads.value);
    let writes = driver.register_write_us.micros().times(driver.register_writes.value);
    driver.serial_us.micros().after(reads).after(writes)
}

/// Error for a host that lacks a section that the drive needs.
pub(super) fn missing(section: &str) -> SpecError {
    let hint = "choose another host: drivebay hosts";
    SpecError::out(section, "missing", "present for this drive", hint)
}
