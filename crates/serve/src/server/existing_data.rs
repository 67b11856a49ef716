//! Data that exists before the first host connects, and its place in the model.

use std::io;
use std::path::Path;

use drivebay_drive::{Device, DeviceError, Io, Op, ZoneState};
use drivebay_units::SECTOR_BYTES;

use super::precondition::REST;
use crate::error::ServeError;
use crate::store::Store;

/// Sectors of a page of the store.
const PAGE_SECTORS: u64 = 8;

/// Extents of the store with data in pages that the model has not mapped (first sector, number of
/// sectors), and the number of pages with data.
type Unmapped = (Vec<(u64, u64)>, u64);

fn unmapped(device: &Device, store: &Store, is_new: bool) -> Result<Unmapped, ServeError> {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    let (mut lba, mut data_pages) = (0, 0);
    while lba < store.sectors() {
        for extent in store.extents(lba, store.sectors() - lba, 1024)? {
            let end = lba + extent.sectors;
            let pages =
                if extent.data { lba / PAGE_SECTORS..end.div_ceil(PAGE_SECTORS) } else { 0..0 };
            data_pages += pages.end - pages.start;
            for page in pages {
                let is_mapped = !is_new && device.is_mapped(page * PAGE_SECTORS);
                if is_mapped || (!is_new && is_zero(store, page)?) {
                    continue;
                }
                let first = page * PAGE_SECTORS;
                match pieces.last_mut() {
                    Some((start, sectors)) if *start + *sectors == first => {
                        *sectors += PAGE_SECTORS
                    }
                    _ => pieces.push((first, PAGE_SECTORS)),
                }
            }
            lba = end;
        }
    }
    Ok((pieces, data_pages))
}

fn is_zero(store: &Store, page: u64) -> io::Result<bool> {
    let mut bytes = [0; (PAGE_SECTORS * SECTOR_BYTES) as usize];
    let sectors = PAGE_SECTORS.min(store.sectors() - page * PAGE_SECTORS);
    store.read(page * PAGE_SECTORS, &mut bytes[..(sectors * SECTOR_BYTES) as usize])?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Maps data that the file or the image already holds and the model has not mapped. It is written
/// once, in order, before the first host connects, so that reading it goes to flash. A new drive
/// then rests like one that was filled.
///
/// A state that was not written at an orderly end lacks the data written after it. A state that
/// lacks most of the data belongs to another drive and is refused.
pub(super) fn adopt(
    mut device: Device,
    store: &Store,
    state: Option<&Path>,
    data: Option<&Path>,
) -> Result<Device, ServeError> {
    const PIECE: u64 = 256;
    let Some(data) = data else { return Ok(device) };
    let (extents, data_pages) = unmapped(&device, store, state.is_none())?;
    let pages: u64 = extents.iter().map(|(_, sectors)| sectors / PAGE_SECTORS).sum();
    if let Some(state) = state
        && 2 * pages > data_pages
    {
        let (state, data) = (state.display(), data.display());
        return Err(ServeError::refused(
            format!(
                "{state} does not belong to {data}: it lacks {pages} pages of 4 KiB that hold data"
            ),
            format!(
                "name the state that was saved with this data, or start as a new drive with this data: rm {state}"
            ),
        ));
    }
    let rests = state.is_none() && !extents.is_empty();
    // No piece spans two zones.
    let zone = device.spec().zones.map_or(u64::MAX, |zones| zones.sectors);
    for (first, sectors) in extents {
        let (mut lba, end) = (first, (first + sectors).min(store.sectors()));
        while lba < end {
            let sectors = PIECE.min(end - lba).min(zone - lba % zone) as u32;
            let io = Io::new(Op::Write, lba, sectors);
            let done = device.submit(device.now(), io).map_err(|why| not_adopted(why, data))?.done;
            device.idle_until(done);
            lba += u64::from(sectors);
        }
    }
    if rests {
        device.idle_until(device.now().after(REST));
    }
    Ok(device)
}

/// Updates the zones for a power cycle: open zones are closed, or become empty if they hold no
/// data.
pub(super) fn close_zones(device: &mut Device) -> Result<(), DeviceError> {
    for (index, zone) in device.zones().to_vec().into_iter().enumerate() {
        let op = match zone.state {
            ZoneState::Empty | ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => {
                continue;
            }
            _ if zone.written == 0 => Op::ZoneReset,
            ZoneState::Closed => continue,
            _ => Op::ZoneClose,
        };
        let sectors = device.spec().zones.map_or(0, |zones| zones.sectors);
        device.submit(device.now(), Io::new(op, index as u64 * sectors, 1))?;
    }
    Ok(())
}

/// Error for data that the zones cannot hold without the matching state.
fn not_adopted(why: DeviceError, data: &Path) -> ServeError {
    let DeviceError::Zone { zone, problem, .. } = why else { return why.into() };
    let problem = problem.to_string();
    let problem = problem.lines().next().unwrap_or_default();
    ServeError::refused(
        format!("{}: zone {zone} cannot hold this data: {problem}", data.display()),
        "name the state that was saved with it: --state, or begin with new data",
    )
}
