//! Identity of a drive and its controllers: Identify pages.
//!
//! Sources: the profile's `identify` section, which copies a real drive's data; NVM Express base
//! specification and NVM command set specification 2.0 for the required fields. The server adds
//! features that it supports and the drive of 2015 did not: version 2.0, its commands, log pages
//! and LBA formats, the fields of fabrics. It removes features that it does not support: security.
//! A profile without that section gets generic values without a manufacturer.

use drivebay_drive::{Identify, Spec, ZoneSpec};
use drivebay_units::SECTOR_BYTES;
use drivebay_wire::nvme::{
    IdentifyController, IdentifyIndependentNamespace, IdentifyNamespace, IdentifyNvmController,
    LbaFormat, NID_COMMAND_SET, NID_EUI64, PowerState, bytes_of, padded, padded_nqn,
};
use zerocopy::IntoBytes;

use super::events::{
    ACCESS_NOTICES, DISCOVERY_NOTICES, NAMESPACE_NOTICES, TELEMETRY_NOTICES, ZONE_NOTICES,
};
use super::records::{PersistentEvents, SLOTS};
use super::reservations::RESCAP;
use super::{access, placement, zones};
use crate::interface::drive::Drive;
use crate::interface::report::WARNING_C;
use crate::namespace::{BLOCK_SHIFTS, NAMESPACES_MAX, Namespace, SECTOR_SHIFT, ZONED_BLOCK_SHIFT};
use crate::state::identity::DriveIdentity;

/// Version of the specification that controllers report: 2.0.
pub(super) const VERSION: u32 = 0x0002_0000;
/// Namespace number that means all namespaces.
pub(super) const NSID_ALL: u32 = 0xffff_ffff;
/// Bytes of data in a capsule in addition to the command: 16 KiB, as in Linux's own target.
pub(super) const CAPSULE_DATA_MAX: u32 = 16 << 10;
/// Most data of a command over TCP, as a power of two of 4 KiB.
pub(super) const TCP_TRANSFER_MAX_LOG2: u8 = 5;
/// Granularity of the keep-alive timeout, in 100 ms.
pub(super) const KEEP_ALIVE_GRAIN: u16 = 10;
/// Optional commands: Compare, Write Uncorrectable, Dataset Management, Write Zeroes; Save and
/// Select of features; Timestamp, Verify, Copy.
const ONCS: u16 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8;
/// Optional commands: reservations, for hosts with an identifier.
const ONCS_RESERVATIONS: u16 = 1 << 5;
/// Optional admin commands: Format; firmware; Namespace Management and Attachment; Device
/// Self-test.
const OACS: u16 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
/// Sanitize by crypto and block erase; media is not modified afterwards.
const SANICAP: u32 = 1 | 1 << 1 | 1 << 30;
/// Sanitize by overwrite.
const SANITIZE_OVERWRITE: u32 = 1 << 2;
/// Sanitize always deallocates blocks afterwards.
const SANITIZE_DEALLOCATES: u32 = 1 << 29;
/// Log page attributes: SMART of each namespace, commands' effects, offsets, telemetry, persistent
/// events, supported log pages.
const LPA: u8 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;
/// The same of discovery controllers: commands' effects, offsets, supported log pages.
const LPA_OF_DISCOVERY: u8 = 1 << 1 | 1 << 2 | 1 << 5;
/// Size of the persistent event log, in units of 64 KiB.
const PELS: u32 = PersistentEvents::bytes_max().div_ceil(64 << 10) as u32;
/// Critical temperature of a profile without one: from 2.0 on the specification requires it. guess:
/// 15 degrees Celsius more than the warning temperature.
const CRITICAL_C: f64 = WARNING_C + 15.0;
/// Time to enter D3 and to resume from it, microseconds. guess: a second; the specification
/// requires a value.
const RTD3_US: u32 = 1_000_000;
/// Largest Write Zeroes, as a power of two of 4 KiB: 65,536 blocks of 512 B.
const WRITE_ZEROES_MAX_LOG2: u8 = 13;
/// Most source ranges of a Copy command minus one, and most bytes of one and of all. guess: as much
/// as eight reads of 128 KiB.
pub(super) const COPY_RANGES: u8 = 31;
pub(super) const COPY_RANGE_MAX: u32 = 128 << 10;
pub(super) const COPY_MAX: u32 = 1 << 20;
/// Time of the extended self-test, minutes. guess: as common client drives report.
pub(super) const SELF_TEST_MINUTES: u16 = 30;

/// Feature of a namespace without a volatile write cache (VWCNP): the host has switched it off.
/// From version 2.1 of the base specification; Linux evaluates it for controllers from 2.0 on.
const NO_WRITE_CACHE: u8 = 1 << 5;

/// Transport and purpose of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The drive, over TCP.
    Tcp,
    /// The drive, as a PCIe device.
    Pci,
    /// Discovery controller, which reports the subsystems to hosts.
    Discovery,
}

/// Names and constants of the drive.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Unique names of this served drive.
    pub drive: DriveIdentity,
    /// Identify data of the profile.
    pub own: Identify,
    /// Number of portals; with several, hosts see the state of their path.
    pub portals: usize,
    /// Most commands of a queue.
    pub(super) queue_entries_max: u16,
    /// Most I/O queues of a controller.
    pub(super) io_queues_max: u16,
    /// Blocks of a mapping unit.
    unit_blocks: u16,
    warning_c: f64,
    critical_c: f64,
    /// True if capacitors protect the write buffer.
    pub(super) is_protected: bool,
    pub(super) has_volatile_cache: bool,
    /// True if Sanitize supports overwrite.
    pub(super) overwrites: bool,
    /// Placement configuration, for drives with placement.
    pub(super) placement: Option<placement::Shape>,
    /// Zones, for drives with zones.
    pub(super) zones: Option<ZoneSpec>,
}

impl Identity {
    /// Creates the identity of a drive. With `has_volatile_cache`, written data is durable only
    /// after a flush.
    pub fn new(spec: &Spec, drive: DriveIdentity, has_volatile_cache: bool) -> Identity {
        Identity {
            drive,
            own: spec.identify.clone().unwrap_or_else(|| of_no_maker(spec)),
            portals: 1,
            queue_entries_max: spec.queue_depth_max.clamp(64, 1024) as u16,
            io_queues_max: spec.host_interface.queues_max.clamp(1, 64) as u16,
            unit_blocks: (spec.geometry.unit_bytes() / SECTOR_BYTES) as u16,
            warning_c: spec.rated.warning_c.unwrap_or(WARNING_C),
            critical_c: spec.rated.critical_c.unwrap_or(CRITICAL_C),
            is_protected: spec.power_loss_protection,
            has_volatile_cache,
            overwrites: spec.sanitize_overwrite,
            placement: placement::Shape::new(spec),
            zones: spec.zones,
        }
    }

    /// Command set of the namespaces.
    pub(super) fn command_set(&self) -> u8 {
        zones::command_set(self.zones.as_ref())
    }

    /// Block sizes that a namespace may have, bytes as powers of two, by LBA format.
    pub(super) fn block_shifts(&self) -> &'static [u8] {
        if self.zones.is_some() { &[ZONED_BLOCK_SHIFT] } else { &BLOCK_SHIFTS }
    }

    /// LBA format with this block size.
    pub(super) fn format_of(&self, block_shift: u8) -> u8 {
        let place = self.block_shifts().iter().position(|&shift| shift == block_shift);
        place.unwrap_or(0) as u8
    }

    /// Sanitize capabilities. A drive that supports overwrite can also leave blocks allocated, so
    /// that a host can read the pattern; zones are always empty afterwards.
    pub(super) fn sanicap(&self) -> u32 {
        let overwrite = if self.overwrites { SANITIZE_OVERWRITE } else { 0 };
        SANICAP | overwrite | if self.may_keep_blocks() { 0 } else { SANITIZE_DEALLOCATES }
    }

    /// True if blocks may stay allocated after a Sanitize.
    pub(super) fn may_keep_blocks(&self) -> bool {
        self.overwrites && self.zones.is_none()
    }

    /// Most data of a command (MDTS), as a power of two of 4 KiB.
    pub(super) fn transfer_max_log2(&self, kind: Kind) -> u8 {
        let own = self.own.transfer_max_log2;
        if kind == Kind::Pci { own } else { own.min(TCP_TRANSFER_MAX_LOG2) }
    }

    /// Most data of a command, bytes.
    pub(super) fn transfer_bytes_max(&self) -> u32 {
        4096 << self.own.transfer_max_log2
    }

    /// Warning temperature, kelvin.
    pub(super) fn warning_k(&self) -> u16 {
        kelvin(self.warning_c)
    }

    /// Identify Controller.
    pub(super) fn controller(&self, cntlid: u16, kind: Kind, drive: &dyn Drive) -> Vec<u8> {
        let mut id = IdentifyController {
            vid: self.own.pci[0].into(),
            ssvid: self.own.pci[0].into(),
            sn: padded(&self.drive.serial),
            mn: padded(&self.own.model),
            fr: padded(&self.own.firmware),
            mdts: self.transfer_max_log2(kind),
            cntlid: cntlid.into(),
            ver: VERSION.into(),
            rtd3r: RTD3_US.into(),
            rtd3e: RTD3_US.into(),
            ctratt: attributes(kind, self.own.ocp).into(),
            aerl: self.own.events_max,
            elpe: self.own.error_entries,
            lpa: LPA_OF_DISCOVERY,
            kas: KEEP_ALIVE_GRAIN.into(),
            maxcmd: self.queue_entries_max.into(),
            // SGLs, also in the capsule.
            sgls: (1 | 1 << 20).into(),
            ..IdentifyController::default()
        };
        match kind {
            Kind::Discovery => {
                id.cntrltype = 2;
                id.oaes = DISCOVERY_NOTICES.into();
                id.subnqn = padded_nqn(drivebay_wire::nvme::DISCOVERY_NQN);
            }
            Kind::Tcp | Kind::Pci => {
                self.drive_fields(&mut id, kind);
                id.nn = (NAMESPACES_MAX as u32).into();
                let bytes = |sectors: u64| u128::from(sectors * SECTOR_BYTES).into();
                id.tnvmcap = bytes(drive.sectors());
                id.unvmcap = bytes(drive.table().free_sectors());
            }
        }
        bytes_of(&id)
    }

    fn drive_fields(&self, id: &mut IdentifyController, kind: Kind) {
        let own = &self.own;
        id.cntrltype = 1;
        id.rab = own.arbitration_burst_log2;
        id.ieee.copy_from_slice(&own.oui.to_le_bytes()[..3]);
        id.oaes = (NAMESPACE_NOTICES | TELEMETRY_NOTICES).into();
        id.oacs = OACS.into();
        if self.zones.is_some() {
            id.oaes = (id.oaes.get() | ZONE_NOTICES).into();
        }
        if self.placement.is_some() {
            // Directives; endurance groups, and placement in them.
            id.oacs = (OACS | 1 << 5).into();
            id.ctratt = (id.ctratt.get() | 1 << 4 | 1 << 19).into();
            id.endgidmax = placement::GROUP.into();
        }
        id.acl = own.aborts_max;
        // Firmware slots, the first of which is read-only; activation without reset.
        id.frmw = 1 | (SLOTS as u8) << 1 | 1 << 4;
        id.lpa = LPA;
        id.pels = PELS.into();
        id.edstt = SELF_TEST_MINUTES.into();
        // One self-test at a time.
        id.dsto = 1;
        id.apsta = own.power_states.iter().any(|state| !state.operational).into();
        // Crypto erase by Format NVM; each namespace has its own format.
        id.fna = 1 << 2;
        // Copy by descriptors of format 0.
        id.ocfs = 1.into();
        id.wctemp = self.warning_k().into();
        id.cctemp = kelvin(self.critical_c).into();
        id.sanicap = self.sanicap().into();
        (id.sqes, id.cqes) = (0x66, 0x44);
        id.oncs = ONCS.into();
        // A flush of all namespaces is one command.
        id.vwc = 3 << 1 | u8::from(self.has_volatile_cache);
        [id.awun, id.awupf] = own.atomic_write.map(Into::into);
        id.subnqn = padded_nqn(&self.drive.nqn);
        let states = own.power_states.iter().zip(&mut id.psd);
        for (state, psd) in states {
            let s = state;
            *psd = PowerState::new(s.max_mw, s.entry_us, s.exit_us, s.operational);
        }
        id.npss = (own.power_states.len().max(1) - 1) as u8;
        if kind == Kind::Pci {
            (id.sgls, id.kas, id.maxcmd) = (0.into(), 0.into(), 0.into());
        } else {
            id.oncs = (ONCS | ONCS_RESERVATIONS).into();
            // More than one controller may access the drive.
            id.cmic = 1 << 1;
            if self.has_paths(kind) {
                // Through several ports, with states of the access.
                id.cmic |= 1 | 1 << 3;
                id.oaes = (id.oaes.get() | ACCESS_NOTICES).into();
                (id.anatt, id.anacap) = (access::TRANSITION_S, access::CAPABILITIES);
                (id.anagrpmax, id.nanagrpid) = (access::GROUP.into(), access::GROUP.into());
                // Required with these states; Linux refuses a controller without it.
                id.mnan = (NAMESPACES_MAX as u32).into();
            }
            id.ioccsz = ((64 + CAPSULE_DATA_MAX) / 16).into();
            id.iorcsz = 1.into();
            id.msdbd = 1;
        }
    }

    /// Identify Namespace. The used capacity is known only for the whole drive: with several
    /// namespaces each reports its full size, as the specification allows. A path without access
    /// hides the capacity.
    pub(super) fn namespace(
        &self,
        kind: Kind,
        drive: &dyn Drive,
        (nsid, namespace): (u32, &Namespace),
        hides_capacity: bool,
    ) -> Vec<u8> {
        let shift = namespace.block_sectors_log2();
        let capacity = namespace.sectors() >> shift;
        let is_alone = drive.namespace_ids().len() == 1;
        let used = if is_alone { (drive.used_sectors() >> shift).min(capacity) } else { capacity };
        let mut id = IdentifyNamespace {
            nsze: zones::blocks_of(namespace).into(),
            ncap: capacity.into(),
            nuse: used.into(),
            flbas: self.format_of(namespace.block_shift()),
            nmic: namespace.is_shared.into(),
            nvmcap: u128::from(namespace.bytes()).into(),
            // Write protected.
            nsattr: namespace.is_read_only.into(),
            endgid: self.group().into(),
            eui64: self.drive.eui64_bytes(nsid),
            anagrpid: self.access_group(kind).into(),
            ..self.of_all_namespaces(kind, namespace.block_shift())
        };
        if hides_capacity {
            (id.nuse, id.nvmcap) = (0.into(), 0.into());
        }
        bytes_of(&id)
    }

    /// True if hosts see the state of their path.
    pub(super) fn has_paths(&self, kind: Kind) -> bool {
        kind == Kind::Tcp && self.portals > 1
    }

    /// Access group of all namespaces; 0 without one.
    fn access_group(&self, kind: Kind) -> u32 {
        if self.has_paths(kind) { access::GROUP } else { 0 }
    }

    /// Endurance group of all namespaces; 0 without one.
    fn group(&self) -> u16 {
        self.placement.map_or(0, |_| placement::GROUP)
    }

    /// Values that are common to all namespaces, including those not created yet.
    pub(super) fn any_namespace(&self, kind: Kind) -> Vec<u8> {
        self.of_all_namespaces(kind, self.block_shifts()[0]).as_bytes().to_vec()
    }

    fn of_all_namespaces(&self, kind: Kind, block_shift: u8) -> IdentifyNamespace {
        // Deallocated blocks read as zeros; Write Zeroes may deallocate.
        let mut id = IdentifyNamespace { dlfeat: 1 | 1 << 3, ..IdentifyNamespace::default() };
        id.rescap = rescap(kind);
        id.nlbaf = (self.block_shifts().len() - 1) as u8;
        for (format, &shift) in id.lbaf.iter_mut().zip(self.block_shifts()) {
            *format = LbaFormat { data_shift: shift, ..LbaFormat::default() };
        }
        let blocks = |bytes: u32| bytes >> block_shift;
        id.mssrl = (blocks(COPY_RANGE_MAX) as u16).into();
        id.mcl = blocks(COPY_MAX).into();
        id.msrc = COPY_RANGES;
        if self.unit_blocks > 8 {
            // Hosts should write and deallocate whole, aligned mapping units; values are
            // zero-based.
            let unit = ((self.unit_blocks >> (block_shift - SECTOR_SHIFT)) - 1).into();
            id.nsfeat = 1 << 4;
            (id.npwg, id.npwa, id.npdg, id.npda, id.nows) = (unit, unit, unit, unit, unit);
        }
        id
    }

    /// Namespace identification descriptors of a namespace.
    pub(super) fn namespace_names(&self, nsid: u32) -> Vec<u8> {
        let mut list = vec![0; 4096];
        list[0] = NID_EUI64;
        list[1] = 8;
        list[4..12].copy_from_slice(&self.drive.eui64_bytes(nsid));
        list[12..14].copy_from_slice(&[NID_COMMAND_SET, 1]);
        list[16] = self.command_set();
        list
    }

    /// Identify data of a namespace that does not depend on its command set.
    pub(super) fn independent(
        &self,
        kind: Kind,
        namespace: &Namespace,
        write_cache: bool,
    ) -> Vec<u8> {
        bytes_of(&IdentifyIndependentNamespace {
            nsfeat: if write_cache { 0 } else { NO_WRITE_CACHE },
            nmic: namespace.is_shared.into(),
            rescap: rescap(kind),
            nsattr: namespace.is_read_only.into(),
            endgid: self.group().into(),
            anagrpid: self.access_group(kind).into(),
            // Ready.
            nstat: 1,
            ..IdentifyIndependentNamespace::default()
        })
    }

    /// Limits of commands of the NVM command set.
    pub(super) fn nvm_controller(&self) -> Vec<u8> {
        bytes_of(&IdentifyNvmController {
            wzsl: WRITE_ZEROES_MAX_LOG2,
            ..IdentifyNvmController::default()
        })
    }
}

/// Converts to whole kelvin, NVMe's unit of temperature.
pub(super) fn kelvin(celsius: f64) -> u16 {
    (celsius + 273.0).round().clamp(0.0, 65_535.0) as u16
}

fn of_no_maker(spec: &Spec) -> Identify {
    Identify {
        model: spec.raw.drive.model.value.chars().filter(char::is_ascii).take(40).collect(),
        firmware: "1.0".to_owned(),
        // No vendor; Linux would treat device 0 of vendor 0 as an empty slot.
        pci: [0, 1],
        oui: 0,
        arbitration_burst_log2: 0,
        transfer_max_log2: 5,
        atomic_write: [0, 0],
        aborts_max: 3,
        events_max: 3,
        error_entries: 63,
        ocp: false,
        power_states: Vec::new(),
    }
}

/// Controller attributes: 128-bit host identifiers; with Keep Alive, any traffic resets its timer;
/// UUIDs of vendors' pages, which OCP's have.
fn attributes(kind: Kind, has_uuids: bool) -> u32 {
    let (keep_alive_by_traffic, uuids) = (1 << 6, u32::from(has_uuids) << 9);
    match kind {
        Kind::Discovery => 1 | keep_alive_by_traffic,
        Kind::Tcp => 1 | keep_alive_by_traffic | uuids,
        Kind::Pci => 1 | uuids,
    }
}

/// Reservation capabilities of namespaces, for controllers that support the commands.
fn rescap(kind: Kind) -> u8 {
    if kind == Kind::Tcp { RESCAP } else { 0 }
}

#[cfg(test)]
#[path = "../../tests/unit/nvme_identity.rs"]
mod tests;
