//! The identity of a drive and its controllers: Identify pages.
//!
//! Source: the profile's `identify` section, which copies a real drive's data. The server adds what it
//! can do itself and the drive of 2015 could not: version 1.4, Sanitize, log pages with offsets, the
//! fields of fabrics. It takes away what it does not do: firmware download, security, Write
//! Uncorrectable, autonomous power state transitions. A profile without that section gets figures of no
//! maker.

use drivebay_drive::{Identify, Spec};
use drivebay_units::SECTOR_BYTES;
use drivebay_wire::nvme::{
    IdentifyController, IdentifyNamespace, LbaFormat, NID_EUI64, PowerState, padded, padded_nqn,
};
use zerocopy::IntoBytes;

use super::events::{DISCOVERY_NOTICES, NAMESPACE_NOTICES};
use crate::drive::Drive;
use crate::identity::DriveIdentity;
use crate::namespace::{NAMESPACES_MAX, Namespace};

/// Version of the specification that controllers report: 1.4.
pub(super) const VERSION: u32 = 0x0001_0400;
/// Stands for all namespaces.
pub(super) const NSID_ALL: u32 = 0xffff_ffff;
/// Bytes of a block.
pub(super) const BLOCK_BYTES: u32 = 512;
/// Bytes of command and data in one capsule: the command and 16 KiB, as Linux's own target has it.
pub(super) const CAPSULE_DATA_MAX: u32 = 16 << 10;
/// Granularity of the keep-alive timeout, in 100 ms.
pub(super) const KEEP_ALIVE_GRAIN: u16 = 10;
/// Optional commands: Compare, Dataset Management, Write Zeroes; Select of Get Features.
const ONCS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 4;
/// Optional admin commands: Format; Namespace Management and Attachment.
const OACS: u16 = 1 << 1 | 1 << 3;
/// Sanitize by block erase; media is not modified after.
const SANICAP: u32 = 1 << 1 | 1 << 30;

/// How a controller is reached, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The drive, over TCP.
    Tcp,
    /// The drive, as a PCIe device.
    Pci,
    /// The discovery controller: it tells hosts which subsystems there are.
    Discovery,
}

/// The drive's names and constants.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Names that are this served drive's own.
    pub drive: DriveIdentity,
    /// The profile's data.
    pub own: Identify,
    /// Commands of a queue, at most.
    pub(super) queue_entries_max: u16,
    /// I/O queues of a controller, at most.
    pub(super) io_queues_max: u16,
    /// Blocks of a mapping unit.
    unit_blocks: u16,
    warning_c: Option<f64>,
    critical_c: Option<f64>,
}

impl Identity {
    /// The identity of a drive.
    pub fn new(spec: &Spec, drive: DriveIdentity) -> Identity {
        Identity {
            drive,
            own: spec.identify.clone().unwrap_or_else(|| of_no_maker(spec)),
            queue_entries_max: spec.queue_depth_max.clamp(64, 1024) as u16,
            io_queues_max: spec.host_interface.queues_max.clamp(1, 64) as u16,
            unit_blocks: (spec.geometry.unit_bytes() / SECTOR_BYTES) as u16,
            warning_c: spec.rated.warning_c,
            critical_c: spec.rated.critical_c,
        }
    }

    /// Most data of a command, bytes.
    pub(super) fn transfer_bytes_max(&self) -> u32 {
        4096 << self.own.transfer_max_log2
    }

    /// The warning temperature, kelvin; 0 where the drive has none.
    pub(super) fn warning_k(&self) -> u16 {
        self.warning_c.map_or(0, kelvin)
    }

    /// Identify Controller.
    pub(super) fn controller(&self, cntlid: u16, kind: Kind, drive: &dyn Drive) -> Vec<u8> {
        let mut id = IdentifyController {
            vid: self.own.pci[0].into(),
            ssvid: self.own.pci[0].into(),
            sn: padded(&self.drive.serial),
            mn: padded(&self.own.model),
            fr: padded(&self.own.firmware),
            mdts: self.own.transfer_max_log2,
            cntlid: cntlid.into(),
            ver: VERSION.into(),
            // 128-bit host identifiers, keep-alive by any traffic.
            ctratt: (1 | 1 << 6).into(),
            aerl: self.own.events_max,
            elpe: self.own.error_entries,
            lpa: 1 << 2,
            kas: KEEP_ALIVE_GRAIN.into(),
            maxcmd: self.queue_entries_max.into(),
            // SGLs, in the capsule as well.
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
                id.unvmcap = bytes(drive.free_sectors());
            }
        }
        id.as_bytes().to_vec()
    }

    fn drive_fields(&self, id: &mut IdentifyController, kind: Kind) {
        let own = &self.own;
        id.cntrltype = 1;
        id.rab = own.arbitration_burst_log2;
        id.ieee.copy_from_slice(&own.oui.to_le_bytes()[..3]);
        id.oaes = NAMESPACE_NOTICES.into();
        id.oacs = OACS.into();
        id.acl = own.aborts_max;
        // One firmware slot, which cannot be written.
        id.frmw = 1 << 1 | 1;
        // SMART of the namespace is that of the drive; effects; offsets.
        id.lpa = 1 | 1 << 1 | 1 << 2;
        id.wctemp = self.warning_k().into();
        id.cctemp = self.critical_c.map_or(0, kelvin).into();
        id.sanicap = SANICAP.into();
        (id.sqes, id.cqes) = (0x66, 0x44);
        id.oncs = ONCS.into();
        // A cache that a flush of all namespaces reaches: with power-loss protection, too, as the data's file on this
        // machine is safe only once a host has flushed.
        id.vwc = 7;
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
            // More than one controller may look at the drive.
            id.cmic = 1 << 1;
            id.ioccsz = ((64 + CAPSULE_DATA_MAX) / 16).into();
            id.iorcsz = 1.into();
            id.msdbd = 1;
        }
    }

    /// Identify Namespace. How much is in use is known of a drive, not of its parts: one among several says all, as
    /// the specification allows.
    pub(super) fn namespace(&self, drive: &dyn Drive, nsid: u32, namespace: &Namespace) -> Vec<u8> {
        let blocks = namespace.sectors();
        let is_alone = drive.namespace_ids().len() == 1;
        let used = if is_alone { drive.used_sectors().min(blocks) } else { blocks };
        let id = IdentifyNamespace {
            nsze: blocks.into(),
            ncap: blocks.into(),
            nuse: used.into(),
            nmic: namespace.is_shared().into(),
            nvmcap: u128::from(namespace.bytes()).into(),
            // Write protected.
            nsattr: namespace.is_read_only().into(),
            eui64: self.drive.eui64_bytes(nsid),
            ..self.of_all_namespaces()
        };
        id.as_bytes().to_vec()
    }

    /// What holds for every namespace, also those that are yet to be made.
    pub(super) fn any_namespace(&self) -> Vec<u8> {
        self.of_all_namespaces().as_bytes().to_vec()
    }

    fn of_all_namespaces(&self) -> IdentifyNamespace {
        // Deallocated blocks read as zeros; Write Zeroes may deallocate.
        let mut id = IdentifyNamespace { dlfeat: 1 | 1 << 3, ..IdentifyNamespace::default() };
        id.lbaf[0] = LbaFormat { data_shift: 9, ..LbaFormat::default() };
        if self.unit_blocks > 8 {
            // Hosts should write and deallocate whole mapping units, aligned to them; zeroes-based.
            let unit = (self.unit_blocks - 1).into();
            id.nsfeat = 1 << 4;
            (id.npwg, id.npwa, id.npdg, id.npda, id.nows) = (unit, unit, unit, unit, unit);
        }
        id
    }

    /// A namespace's names.
    pub(super) fn namespace_names(&self, nsid: u32) -> Vec<u8> {
        let mut list = vec![0; 4096];
        list[0] = NID_EUI64;
        list[1] = 8;
        list[4..12].copy_from_slice(&self.drive.eui64_bytes(nsid));
        list
    }
}

/// Whole kelvin, as NVMe has temperatures.
pub(super) fn kelvin(celsius: f64) -> u16 {
    (celsius + 273.0).round().clamp(0.0, 65_535.0) as u16
}

fn of_no_maker(spec: &Spec) -> Identify {
    Identify {
        model: spec.raw.drive.model.value.chars().filter(char::is_ascii).take(40).collect(),
        firmware: "1.0".to_owned(),
        pci: [0, 0],
        oui: 0,
        arbitration_burst_log2: 0,
        transfer_max_log2: 5,
        atomic_write: [0, 0],
        aborts_max: 3,
        events_max: 3,
        error_entries: 63,
        power_states: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use drivebay_drive::whole_profile;
    use drivebay_wire::nvme::{Feature, Sqe, Status};

    use super::super::features::Features;
    use super::*;

    /// The identity of the SM951 with other values: (Identify Controller's vwc, the present setting of the cache, Identify
    /// Namespace).
    fn identity(change: impl FnOnce(&mut Spec)) -> (u8, Result<u32, Status>, IdentifyNamespace) {
        let host = include_str!("../../../../hosts/windows-8.1-z97.toml");
        let base = include_str!("../../../../drives/sm951-ahci-512.toml");
        let base = whole_profile(host, base).expect("a profile").to_string();
        let text = include_str!("../../../../drives/sm951-nvme-256.toml");
        let mut spec = Spec::from_family(&base, text).expect("a profile");
        change(&mut spec);
        let drive = DriveIdentity {
            serial: "S".to_owned(),
            nqn: "nqn.2026-11.localhost.drivebay:S".to_owned(),
            eui64: "0123456789abcdef".to_owned(),
        };
        let identity = Identity::new(&spec, drive);
        let mut id = IdentifyController::default();
        identity.drive_fields(&mut id, Kind::Tcp);
        let get = Sqe { cdw10: (Feature::VolatileWriteCache as u32).into(), ..Sqe::default() };
        let cache = Features::new(&identity).get(&get, &identity).map(|(value, _)| value);
        (id.vwc, cache, identity.of_all_namespaces())
    }

    /// Its data may lie in a file, which only a flush makes safe against the machine that serves it.
    #[test]
    fn a_protected_drive_asks_for_flushes_like_any_other() {
        for protected in [false, true] {
            let (vwc, cache, _) = identity(|spec| spec.power_loss_protection = protected);
            assert_eq!((vwc, cache), (7, Ok(1)));
        }
    }

    #[test]
    fn hosts_are_told_of_mapping_units_above_4_kib() {
        let (_, _, usual) = identity(|_| ());
        assert_eq!((usual.nsfeat, usual.npwg.get()), (0, 0));
        let (_, _, wide) = identity(|spec| spec.geometry.unit_shift = 2);
        let fields =
            [wide.npwg, wide.npwa, wide.npdg, wide.npda, wide.nows].map(|blocks| blocks.get());
        assert_eq!((wide.nsfeat, fields), (1 << 4, [31; 5]));
    }
}
