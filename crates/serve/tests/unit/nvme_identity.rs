//! Unit tests of `nvme/identity.rs`, with access to its private items.

use drivebay_drive::samples::{SM951_AHCI_512, SM951_NVME_256, WINDOWS_8_1_Z97};
use drivebay_drive::whole_profile;
use drivebay_wire::nvme::{Feature, Sqe, Status};

use super::super::features::Features;
use super::*;

/// Identity values of the SM951 with other settings: (Identify Controller's vwc, the current
/// setting of the cache, Identify Namespace).
fn identity(
    has_cache: bool,
    change: impl FnOnce(&mut Spec),
) -> (u8, Result<u32, Status>, IdentifyNamespace) {
    let base = whole_profile(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("a profile").to_string();
    let mut spec = Spec::from_family(&base, SM951_NVME_256).expect("a profile");
    change(&mut spec);
    let drive = DriveIdentity {
        serial: "S".to_owned(),
        nqn: "nqn.2026-11.localhost.drivebay:S".to_owned(),
        eui64: "0123456789abcdef".to_owned(),
    };
    let identity = Identity::new(&spec, drive, has_cache);
    let mut id = IdentifyController::default();
    identity.drive_fields(&mut id, Kind::Tcp);
    let get = Sqe { cdw10: (Feature::VolatileWriteCache as u32).into(), ..Sqe::default() };
    let cache = Features::new(&identity).get(&get, &identity).map(|(value, _)| value);
    (id.vwc, cache, identity.of_all_namespaces(Kind::Tcp, SECTOR_SHIFT))
}

#[test]
fn hosts_are_told_of_a_cache_where_there_is_one() {
    for (has_cache, vwc, setting) in
        [(true, 7, Ok(1)), (false, 6, Err(Status::INVALID_FIELD.dnr()))]
    {
        let (found, cache, _) = identity(has_cache, |_| ());
        assert_eq!((found, cache), (vwc, setting));
    }
}

#[test]
fn hosts_are_told_of_mapping_units_above_4_kib() {
    let (_, _, usual) = identity(true, |_| ());
    assert_eq!((usual.nsfeat, usual.npwg.get()), (0, 0));
    let (_, _, wide) = identity(true, |spec| spec.geometry.unit_shift = 2);
    let fields = [wide.npwg, wide.npwa, wide.npdg, wide.npda, wide.nows].map(|blocks| blocks.get());
    assert_eq!((wide.nsfeat, fields), (1 << 4, [31; 5]));
}
