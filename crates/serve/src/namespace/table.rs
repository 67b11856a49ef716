//! Table of the namespaces of a drive.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use drivebay_drive::{Spec, ZoneSpec};
use drivebay_units::{SECTOR_BYTES, refuse_if};

use super::error::NamespaceError;
use super::placement::Placement;
use super::view::{
    BLOCK_SHIFTS, NAMESPACES_MAX, Namespace, NamespaceFigures, NamespaceOptions, NewNamespace,
    PAGE_BYTES, PAGE_SECTORS, ZONED_BLOCK_SHIFT,
};

/// Table of the namespaces of a drive, without their data: for implementations of
/// [`crate::Namespaces`].
#[derive(Clone, Debug)]
pub struct NamespaceTable {
    all: Vec<Option<Arc<Namespace>>>,
    /// Changes by number: how often the namespace was created, changed or deleted.
    changes: Vec<u64>,
    drive_sectors: u64,
    /// Reclaim unit handles and reclaim groups; 0 without placement.
    handles: u8,
    groups: u8,
    /// True if the drive's placement is disabled.
    is_placement_off: bool,
    zones: Option<ZoneSpec>,
}

impl NamespaceTable {
    /// Returns a table with one namespace for the whole drive.
    pub fn whole(sectors: u64, is_read_only: bool) -> NamespaceTable {
        let whole = Namespace::new(1, 0, is_read_only, NewNamespace::plain(sectors));
        let mut namespaces = NamespaceTable::empty(sectors);
        namespaces.all[0] = Some(Arc::new(whole));
        namespaces
    }

    fn empty(drive_sectors: u64) -> NamespaceTable {
        NamespaceTable {
            all: vec![None; NAMESPACES_MAX],
            changes: vec![0; NAMESPACES_MAX],
            drive_sectors,
            handles: 0,
            groups: 1,
            is_placement_off: false,
            zones: None,
        }
    }

    fn with_entries(
        entries: impl Iterator<Item = Namespace>,
        drive_sectors: u64,
    ) -> Result<NamespaceTable, NamespaceError> {
        let mut namespaces = NamespaceTable::empty(drive_sectors);
        for entry in entries {
            let nsid = entry.nsid;
            let place = namespaces.all.get_mut((nsid as usize).wrapping_sub(1));
            let place = place.filter(|_| BLOCK_SHIFTS.contains(&entry.block_shift()));
            *place.ok_or(NamespaceError::Unknown(nsid))? = Some(Arc::new(entry));
        }
        namespaces.check()?;
        Ok(namespaces)
    }

    /// Sets the number of reclaim unit handles of the drive. Each namespace without a list of
    /// handles gets all of them.
    #[must_use]
    pub fn placed(mut self, handles: usize) -> NamespaceTable {
        self.handles = handles as u8;
        for entry in self.all.iter_mut().flatten() {
            let entry = Arc::get_mut(entry).expect("nobody has it yet");
            entry.handles.retain(|&handle| handle < self.handles);
            if entry.handles.is_empty() {
                entry.handles.extend(0..self.handles);
            }
        }
        self
    }

    /// Adapts the table to a drive of this profile, with its placement or its zones.
    ///
    /// # Errors
    /// [`NamespaceError::Zones`].
    pub fn on(mut self, spec: &Spec) -> Result<NamespaceTable, NamespaceError> {
        if spec.zones.is_none() {
            self.groups = spec.streams.groups as u8;
            return Ok(self.placed(spec.streams.handles));
        }
        self.zones = spec.zones;
        for entry in self.all.iter_mut().flatten() {
            let entry = Arc::get_mut(entry).expect("nobody has it yet");
            entry.zones = spec.zones;
            entry.block_shift = AtomicU8::new(ZONED_BLOCK_SHIFT);
        }
        self.iter()
            .try_for_each(|(nsid, entry)| self.check_zones(nsid, [entry.first, entry.sectors()]))?;
        Ok(self)
    }

    /// Checks that positions are multiples of a zone on a drive with zones.
    fn check_zones(&self, nsid: u32, sectors: [u64; 2]) -> Result<(), NamespaceError> {
        let Some(zones) = &self.zones else { return Ok(()) };
        let is_whole = sectors.iter().all(|sectors| sectors.is_multiple_of(zones.sectors));
        refuse_if(!is_whole, NamespaceError::Zones { nsid, zone: zones.sectors * SECTOR_BYTES })
    }

    /// Placement configuration, for drives with placement.
    pub(crate) fn placement(&self) -> Option<Placement> {
        let Self { handles, groups, .. } = *self;
        (handles > 0).then_some(Placement { is_on: !self.is_placement_off, handles, groups })
    }

    pub(crate) fn is_placement_off(&self) -> bool {
        self.is_placement_off
    }

    /// Enables or disables placement; the drive must have no namespaces.
    pub(crate) fn set_placed(&mut self, is_placed: bool) {
        self.is_placement_off = !is_placed;
    }

    /// Chooses the handle of a namespace for which the host chose none: the last unused handle, or
    /// the last one.
    fn choose_handle(&self) -> Option<u8> {
        let is_free = |handle: &u8| self.iter().all(|(_, entry)| !entry.handles.contains(handle));
        (0..self.handles).rev().find(is_free).or(self.handles.checked_sub(1))
    }

    /// Creates the namespaces that the user requests on a drive of `sectors`.
    pub fn new(
        wanted: &[NamespaceOptions],
        sectors: u64,
    ) -> Result<NamespaceTable, NamespaceError> {
        refuse_if(wanted.len() > NAMESPACES_MAX, NamespaceError::TooMany(wanted.len()))?;
        let mut end = 0;
        let entries = (1..).zip(wanted).map(|(nsid, options)| {
            let start = options.start_bytes.map(|bytes| bytes.div_ceil(PAGE_BYTES) * PAGE_SECTORS);
            let first = start.unwrap_or(end);
            let size = options.bytes / PAGE_BYTES * PAGE_SECTORS;
            end = first.saturating_add(size);
            Namespace::new(nsid, first, options.is_read_only, NewNamespace::plain(size))
        });
        NamespaceTable::with_entries(entries, sectors)
    }

    /// Restores the saved namespaces of a drive of `sectors`.
    pub(crate) fn restore(
        kept: Vec<Namespace>,
        sectors: u64,
        is_read_only: bool,
    ) -> Result<NamespaceTable, NamespaceError> {
        let entries = kept
            .into_iter()
            .map(|entry| Namespace { is_read_only: is_read_only || entry.is_read_only, ..entry });
        NamespaceTable::with_entries(entries, sectors)
    }

    /// Returns the entries for [`NamespaceTable::restore`].
    pub(crate) fn to_keep(&self) -> Vec<&Namespace> {
        self.all.iter().flatten().map(Arc::as_ref).collect()
    }

    /// Checks that no namespace is empty, inside another one, or beyond the end of the drive.
    fn check(&self) -> Result<(), NamespaceError> {
        for (nsid, namespace) in self.iter() {
            refuse_if(namespace.sectors() == 0, NamespaceError::Empty(nsid))?;
            let inside = |(_, other): &(u32, &Arc<Namespace>)| {
                !Arc::ptr_eq(namespace, other)
                    && (other.first..other.first.saturating_add(other.sectors()))
                        .contains(&namespace.first)
            };
            if let Some((other, _)) = self.iter().find(inside) {
                return Err(NamespaceError::Overlap { nsid, other });
            }
        }
        self.iter().try_for_each(|(nsid, namespace)| self.check_room(nsid, namespace.sectors()))
    }

    /// Namespaces with their numbers, in the order of the numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Namespace>)> {
        self.all.iter().flatten().map(|namespace| (namespace.nsid, namespace))
    }

    /// Sectors per block of the namespace at a sector of the drive; 1 outside of all namespaces.
    pub(crate) fn block_sectors_at(&self, lba: u64) -> u64 {
        let here = self.iter().find(|(_, namespace)| namespace.range().contains(&lba));
        here.map_or(1, |(_, namespace)| 1 << namespace.block_sectors_log2())
    }

    pub(crate) fn get(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        self.all.get((nsid as usize).checked_sub(1)?)?.as_ref()
    }

    fn known(&self, nsid: u32) -> Result<&Namespace, NamespaceError> {
        self.get(nsid).map(Arc::as_ref).ok_or(NamespaceError::Unknown(nsid))
    }

    /// Number of times that the namespace was created, changed or deleted.
    pub fn changes(&self, nsid: u32) -> u64 {
        self.changes[nsid as usize - 1]
    }

    fn changed(&mut self, nsid: u32) {
        self.changes[nsid as usize - 1] += 1;
    }

    /// Sectors that belong to no namespace.
    pub fn free_sectors(&self) -> u64 {
        self.free_pieces().map(|piece| piece.end - piece.start).sum()
    }

    /// Free ranges of the drive, in order.
    fn free_pieces(&self) -> impl Iterator<Item = Range<u64>> {
        let mut taken: Vec<(u64, u64)> =
            self.iter().map(|(_, namespace)| (namespace.first, namespace.end())).collect();
        taken.sort_unstable();
        let starts = std::iter::once(0).chain(taken.clone().into_iter().map(|(_, end)| end));
        let ends = taken.into_iter().map(|(first, _)| first).chain([self.drive_sectors]);
        starts.zip(ends).map(|(start, end)| start.min(end)..end).filter(|piece| !piece.is_empty())
    }

    /// Figures of all namespaces for the command `status`.
    pub(crate) fn figures(&self) -> Vec<NamespaceFigures> {
        self.iter().map(|(_, namespace)| namespace.figures()).collect()
    }

    fn check_room(&self, nsid: u32, sectors: u64) -> Result<(), NamespaceError> {
        let first = self.known(nsid)?.first;
        let behind =
            self.iter().map(|(_, namespace)| namespace.first).filter(|&other| other > first);
        let end = behind.fold(self.drive_sectors, u64::min);
        let room = end.saturating_sub(first);
        if sectors > room {
            let (bytes, room) = (sectors * SECTOR_BYTES, room * SECTOR_BYTES);
            return Err(NamespaceError::NoRoom { nsid, bytes, room });
        }
        Ok(())
    }

    /// Sets the size of a namespace in bytes, rounded down to whole pages of 4 KiB; returns the
    /// sectors of the drive that it loses.
    pub fn resize(&mut self, nsid: u32, bytes: u64) -> Result<Range<u64>, NamespaceError> {
        let namespace = self.known(nsid)?;
        let (before, sectors) = (namespace.range(), bytes / PAGE_BYTES * PAGE_SECTORS);
        refuse_if(sectors == 0, NamespaceError::Empty(nsid))?;
        self.check_zones(nsid, [sectors, 0])?;
        self.check_room(nsid, sectors)?;
        let is_cut = sectors < namespace.sectors();
        refuse_if(is_cut && namespace.is_read_only, NamespaceError::ReadOnly(nsid))?;
        let (first, is_new) = (namespace.first, sectors != namespace.sectors());
        namespace.sectors.store(sectors, Ordering::Relaxed);
        if is_new {
            self.changed(nsid);
        }
        Ok((first + sectors).min(before.end)..before.end)
    }

    /// Creates a namespace in the first free range that is large enough, with the first free
    /// number; returns the number.
    pub fn create(&mut self, mut wanted: NewNamespace) -> Result<u32, NamespaceError> {
        let sectors = wanted.sectors;
        let place = self.all.iter().position(Option::is_none);
        let place = place.ok_or(NamespaceError::TooMany(NAMESPACES_MAX + 1))?;
        let nsid = place as u32 + 1;
        refuse_if(sectors == 0, NamespaceError::Empty(nsid))?;
        self.check_zones(nsid, [sectors, 0])?;
        let fits = |piece: &Range<u64>| piece.end - piece.start >= sectors;
        let Some(piece) = self.free_pieces().find(fits) else {
            let largest = self.free_pieces().map(|piece| piece.end - piece.start).max();
            let (bytes, largest) = (sectors.saturating_mul(SECTOR_BYTES), largest.unwrap_or(0));
            return Err(NamespaceError::NoPiece { bytes, largest: largest * SECTOR_BYTES });
        };
        let start = piece.start;
        let is_placed = self.placement().is_some_and(|placement| placement.is_on);
        let is_handle_chosen = is_placed && wanted.handles.is_empty();
        if is_handle_chosen {
            wanted.handles.extend(self.choose_handle());
        }
        let zones = self.zones;
        let made =
            Namespace { is_handle_chosen, zones, ..Namespace::new(nsid, start, false, wanted) };
        self.all[place] = Some(Arc::new(made));
        self.changed(nsid);
        Ok(nsid)
    }

    /// Sets the block size of a namespace.
    pub fn format(&mut self, nsid: u32, block_shift: u8) -> Result<(), NamespaceError> {
        let namespace = self.known(nsid)?;
        refuse_if(namespace.is_read_only, NamespaceError::ReadOnly(nsid))?;
        if namespace.block_shift.swap(block_shift, Ordering::Relaxed) != block_shift {
            self.changed(nsid);
        }
        Ok(())
    }

    /// Deletes a namespace; returns its sectors on the drive. Sessions that still hold it find it
    /// empty.
    pub fn delete(&mut self, nsid: u32) -> Result<Range<u64>, NamespaceError> {
        let namespace = self.known(nsid)?;
        refuse_if(namespace.is_read_only, NamespaceError::ReadOnly(nsid))?;
        let range = namespace.range();
        namespace.sectors.store(0, Ordering::Relaxed);
        self.all[nsid as usize - 1] = None;
        self.changed(nsid);
        Ok(range)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/namespace_table.rs"]
mod tests;
