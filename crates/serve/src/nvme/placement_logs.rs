//! Log pages of the endurance group and of Flexible Data Placement, and the feature that enables
//! it.
//!
//! Source: NVM Express base specification 2.1, Get Log Page (09h, 20h to 23h) and Set Features.
//! Counters come from the model.

use drivebay_units::SECTOR_BYTES;
use drivebay_wire::nvme::{
    EnduranceGroupLog, LogPage, PlacementConfiguration, PlacementConfigurations,
    PlacementStatistics, Sqe, Status, bytes_of,
};
use zerocopy::IntoBytes;

use super::identity::Identity;
use super::placement::{Events, GROUP, PAGE_BYTES, Shape, names_group};
use super::refuse::refuse_if;
use super::subsystem::status_of;
use super::timestamp::Timestamp;
use crate::interface::drive::{Drive, Namespaces};
use crate::interface::report::SPARE_THRESHOLD;
use crate::namespace::NAMESPACES_MAX;

/// Log page of the endurance group.
pub(super) fn page(
    log: LogPage,
    sqe: &Sqe,
    drive: &mut dyn Drive,
    identity: &Identity,
    (events, errors, timestamp): (&mut Events, u64, &Timestamp),
) -> Result<Vec<u8>, Status> {
    let shape = identity.placement.ok_or(Status::INVALID_LOG_PAGE.dnr())?;
    refuse_if(sqe.log_group() != GROUP, Status::INVALID_FIELD)?;
    match log {
        LogPage::EnduranceGroup => Ok(group(drive, errors)),
        LogPage::PlacementConfigurations => Ok(configurations(shape, identity.has_volatile_cache)),
        _ if !drive.is_placed() => Err(Status::PLACEMENT_DISABLED.dnr()),
        LogPage::PlacementUsage => Ok(usage(shape, drive)),
        LogPage::PlacementStatistics => Ok(statistics(shape, drive)),
        _ => {
            events.look_at(&drive.handle_use(), drive.now());
            Ok(events.page(sqe.log_specific() & 1 != 0, timestamp, drive))
        }
    }
}

fn group(drive: &mut dyn Drive, errors: u64) -> Vec<u8> {
    let (health, counters) = (drive.health(), drive.counters());
    // Units of the health log have 512,000 bytes.
    let billions = |bytes: u128| bytes.div_ceil(1_000_000_000).into();
    let wide = |count: u64| u128::from(count).into();
    bytes_of(&EnduranceGroupLog {
        critical_warning: u8::from(health.available_spare_percent < SPARE_THRESHOLD)
            | u8::from(drive.is_read_only()) << 3,
        available_spare: health.available_spare_percent,
        spare_threshold: SPARE_THRESHOLD,
        percentage_used: health.percentage_used.unwrap_or(0),
        data_units_read: billions(u128::from(health.data_units_read) * 512_000),
        data_units_written: billions(u128::from(health.data_units_written) * 512_000),
        media_units_written: billions(u128::from(counters.placed_pages * PAGE_BYTES)),
        host_reads: wide(health.host_reads),
        host_writes: wide(health.host_writes),
        media_errors: wide(health.media_errors),
        error_entries: wide(errors),
        capacity: wide(drive.sectors() * SECTOR_BYTES),
        free_capacity: wide(drive.table().free_sectors() * SECTOR_BYTES),
        ..EnduranceGroupLog::default()
    })
}

fn configurations(shape: Shape, has_volatile_cache: bool) -> Vec<u8> {
    let handles = shape.handles as u16;
    let isolation = if shape.is_persistent { 2 } else { 1 };
    let bytes = (size_of::<PlacementConfiguration>() + 4 * shape.handles).next_multiple_of(8);
    let configuration = PlacementConfiguration {
        bytes: (bytes as u16).into(),
        attributes: 1 << 7 | u8::from(has_volatile_cache) << 4 | shape.groups.ilog2() as u8,
        groups: (shape.groups as u32).into(),
        handles: handles.into(),
        identifiers_max: (handles * shape.groups as u16 - 1).into(),
        namespaces: (NAMESPACES_MAX as u32).into(),
        unit_bytes: shape.unit_bytes.into(),
        ..PlacementConfiguration::default()
    };
    let all = size_of::<PlacementConfigurations>() + bytes;
    let head = PlacementConfigurations {
        bytes: (all as u32).into(),
        ..PlacementConfigurations::default()
    };
    let mut page = [head.as_bytes(), configuration.as_bytes()].concat();
    page.extend((0..shape.handles).flat_map(|_| [isolation, 0, 0, 0]));
    page.resize(all, 0);
    page
}

/// Use of each handle: unused, chosen by a host, or chosen by the drive for a namespace.
fn usage(shape: Shape, namespaces: &dyn Namespaces) -> Vec<u8> {
    let mut page = vec![0; 8 * (1 + shape.handles)];
    page[..2].copy_from_slice(&(shape.handles as u16).to_le_bytes());
    for nsid in namespaces.namespace_ids() {
        let Some(namespace) = namespaces.namespace(nsid) else { continue };
        for &handle in &namespace.handles {
            let by = &mut page[8 * (1 + usize::from(handle))];
            *by = if namespace.is_handle_chosen && *by != 1 { 2 } else { 1 };
        }
    }
    page
}

fn statistics(shape: Shape, drive: &mut dyn Drive) -> Vec<u8> {
    let (used, counters) = (drive.handle_use(), drive.counters());
    let hosts = used.iter().filter(|handle_use| handle_use.handle.is_some());
    let written: u64 = hosts.map(|handle_use| handle_use.written_4k).sum();
    bytes_of(&PlacementStatistics {
        host_bytes: u128::from(written * PAGE_BYTES).into(),
        media_bytes: u128::from(counters.placed_pages * PAGE_BYTES).into(),
        erased_bytes: (u128::from(counters.erases) * u128::from(shape.unit_bytes)).into(),
        ..PlacementStatistics::default()
    })
}

/// Set Features, Placement.
pub(super) fn switch(sqe: &Sqe, drive: &mut dyn Drive) -> Result<(), Status> {
    refuse_if(!names_group(sqe) || sqe.cdw12.get() & 0xff00 != 0, Status::INVALID_FIELD)?;
    refuse_if(!drive.namespace_ids().is_empty(), Status::COMMAND_SEQUENCE)?;
    let is_on = sqe.cdw12.get() & 1 != 0;
    drive.set_placed(is_on).map_err(|why| status_of(&why))
}
