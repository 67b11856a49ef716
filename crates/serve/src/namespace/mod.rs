//! Namespaces of a drive: ranges of its addresses, each of which hosts see as a separate drive.
//!
//! At the start they lie one after the other, or where the user places them; hosts over NVMe may
//! delete and create namespaces. A namespace is contiguous and never moves; its size may change,
//! into the free space after it. Addresses outside of all namespaces are never written: they are
//! spare to the model. Source: NVM Express base specification 1.4, sections 5.20 and 6.1. The
//! attachment of namespaces to controllers belongs to NVMe (`nvme/subsystem.rs`). Left out: thin
//! provisioning, namespaces of several ranges. On a drive with placement (Flexible Data Placement,
//! NVMe 2.1) each namespace has a list of handles, which is fixed when it is created. On a drive
//! with zones each namespace consists of whole zones, with blocks of 4 KiB; the zone limits apply
//! to all namespaces together.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use drivebay_drive::{Spec, ZoneSpec};
use drivebay_units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

use crate::error::ServeError;

/// Sizes and positions are whole pages of the drive's map.
const PAGE_BYTES: u64 = 4096;
const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
/// Bytes of a sector, as a power of two.
pub const SECTOR_SHIFT: u8 = SECTOR_BYTES.ilog2() as u8;
/// Block sizes that a namespace may have, as powers of two: its LBA formats, in their order.
pub const BLOCK_SHIFTS: [u8; 2] = [SECTOR_SHIFT, ZONED_BLOCK_SHIFT];
/// Block size of a namespace with zones, as a power of two: 4 KiB.
pub(crate) const ZONED_BLOCK_SHIFT: u8 = 12;
/// Most namespaces of a drive, and the largest namespace number. guess: as many as data centre
/// drives have. Tools create as many as possible, one after the other.
pub const NAMESPACES_MAX: usize = 32;

/// Namespace requested by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceOptions {
    /// Size in bytes, rounded down to whole pages of 4 KiB.
    pub bytes: u64,
    /// Start on the drive in bytes, rounded up to a whole page; by default the end of the previous
    /// namespace.
    pub start_bytes: Option<u64>,
    /// True if the namespace refuses all commands that change its data.
    pub is_read_only: bool,
}

/// Namespace requested by a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNamespace {
    /// Size in sectors.
    pub sectors: u64,
    /// Block size in bytes, as a power of two.
    pub block_shift: u8,
    /// True if several controllers may have it attached at a time.
    pub is_shared: bool,
    /// Reclaim unit handle of each placement handle; if empty, the drive chooses one.
    pub handles: Vec<u8>,
}

impl NewNamespace {
    /// Returns a shared namespace of `sectors`, with blocks of 512 B.
    pub fn plain(sectors: u64) -> NewNamespace {
        NewNamespace { sectors, block_shift: SECTOR_SHIFT, is_shared: true, handles: Vec::new() }
    }
}

/// Reason for which the namespaces are not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The namespace would be empty.
    #[error("namespace {0} has less than 4 KiB\nhint: give it a size such as 100GiB")]
    Empty(u32),
    /// Too many namespaces.
    #[error("{0} namespaces are more than {NAMESPACES_MAX}\nhint: serve several drives")]
    TooMany(usize),
    /// The namespace would end beyond the drive, or in the next namespace.
    #[error(
        "namespace {nsid} cannot have {bytes} bytes\nhint: {room} bytes are free from its start"
    )]
    NoRoom {
        /// Number of the namespace.
        nsid: u32,
        /// Requested bytes.
        bytes: u64,
        /// Bytes from its start to the next namespace, or to the drive's end.
        room: u64,
    },
    /// The namespace would begin inside another one, or at the same sector.
    #[error(
        "namespace {nsid} begins inside namespace {other}\nhint: place it after that one: SIZE@START"
    )]
    Overlap {
        /// Number of the namespace.
        nsid: u32,
        /// The existing namespace.
        other: u32,
    },
    /// No namespace has this number.
    #[error("there is no namespace {0}\nhint: drivebay ctl SOCKET status lists them")]
    Unknown(u32),
    /// Read-only data would be lost.
    #[error(
        "namespace {0} is read-only and cannot become smaller\nhint: serve it without read-only"
    )]
    ReadOnly(u32),
    /// The drive is write-protected.
    #[error(
        "the drive is read-only: its namespaces cannot change\nhint: serve it without --read-only"
    )]
    ReadOnlyDrive,
    /// No free range is large enough.
    #[error(
        "no contiguous {bytes} bytes are free\nhint: the largest free range has {largest} bytes"
    )]
    NoPiece {
        /// Requested bytes.
        bytes: u64,
        /// Bytes of the largest free range.
        largest: u64,
    },
    /// The namespace would not consist of whole zones.
    #[error(
        "namespace {nsid} does not consist of whole zones\nhint: a zone has {zone} bytes: start and size must be multiples of that"
    )]
    Zones {
        /// Number of the namespace.
        nsid: u32,
        /// Capacity of a zone, bytes.
        zone: u64,
    },
    /// A SATA drive has no namespaces, and cannot notify hosts of a new size.
    #[error(
        "an AHCI drive has one size and no namespaces\nhint: serve it over NBD or NVMe/TCP, or an NVMe drive"
    )]
    Ahci,
}

impl From<NamespaceError> for ServeError {
    fn from(why: NamespaceError) -> ServeError {
        ServeError::option(format!("--namespace: {why}"))
    }
}

/// Namespace. Values that change are read without a lock.
#[derive(Debug)]
pub struct Namespace {
    first: u64,
    /// Size; 0 after the namespace was deleted.
    sectors: AtomicU64,
    is_read_only: bool,
    /// True if several controllers may have it attached at a time.
    is_shared: bool,
    block_shift: AtomicU8,
    traffic: [AtomicU64; 4],
    handles: Vec<u8>,
    is_handle_chosen: bool,
    zones: Option<ZoneSpec>,
}

impl Namespace {
    fn new(first: u64, is_read_only: bool, wanted: NewNamespace) -> Namespace {
        Namespace {
            first,
            sectors: AtomicU64::new(wanted.sectors),
            is_read_only,
            is_shared: wanted.is_shared,
            block_shift: AtomicU8::new(wanted.block_shift),
            traffic: Default::default(),
            handles: wanted.handles,
            is_handle_chosen: false,
            zones: None,
        }
    }

    /// Reclaim unit handle of each placement handle; empty on a drive without placement.
    pub fn handles(&self) -> &[u8] {
        &self.handles
    }

    /// True if the drive has chosen the handle because the host did not.
    pub(crate) fn is_handle_chosen(&self) -> bool {
        self.is_handle_chosen
    }

    /// Zones of the drive; `None` on a drive without zones.
    pub fn zones(&self) -> Option<&ZoneSpec> {
        self.zones.as_ref()
    }

    /// First sector on the drive.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Current size, sectors of 512 B.
    pub fn sectors(&self) -> u64 {
        self.sectors.load(Ordering::Relaxed)
    }

    /// Current size, bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors() * SECTOR_BYTES
    }

    /// Sectors on the drive.
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.sectors()
    }

    /// True if the namespace refuses all commands that change its data.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Block size that hosts over NVMe see, bytes as a power of two.
    pub fn block_shift(&self) -> u8 {
        self.block_shift.load(Ordering::Relaxed)
    }

    /// Sectors of 512 B per block, as a power of two.
    pub(crate) fn block_sectors_log2(&self) -> u8 {
        self.block_shift() - SECTOR_SHIFT
    }

    /// Counts a read or a write of `sectors`.
    pub(crate) fn count(&self, is_read: bool, sectors: u32) {
        let place = usize::from(!is_read);
        self.traffic[place].fetch_add(1, Ordering::Relaxed);
        self.traffic[place + 2].fetch_add(sectors.into(), Ordering::Relaxed);
    }

    /// Number of reads, writes, sectors read and sectors written.
    pub(crate) fn traffic(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|place: usize| self.traffic[place].load(Ordering::Relaxed))
    }

    /// Restores the traffic counters.
    pub(crate) fn restore_traffic(&self, traffic: [u64; 4]) {
        for (place, count) in self.traffic.iter().zip(traffic) {
            place.store(count, Ordering::Relaxed);
        }
    }

    /// True if several controllers may have it attached at a time.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Figures for the command `status`.
    pub fn figures(&self, nsid: u32) -> NamespaceFigures {
        NamespaceFigures {
            nsid,
            start_bytes: self.first * SECTOR_BYTES,
            bytes: self.bytes(),
            is_read_only: self.is_read_only,
        }
    }

    /// End of its last page, exclusive.
    fn end(&self) -> u64 {
        self.range().end.next_multiple_of(PAGE_SECTORS)
    }
}

/// Namespace as it is saved next to the drive's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptNamespace {
    nsid: u32,
    first: u64,
    sectors: u64,
    is_read_only: bool,
    is_shared: bool,
    #[serde(default = "sector_shift")]
    block_shift: u8,
    #[serde(default)]
    handles: Vec<u8>,
    #[serde(default)]
    is_handle_chosen: bool,
}

fn sector_shift() -> u8 {
    SECTOR_SHIFT
}

/// Figures of a namespace for the command `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceFigures {
    /// Number, from 1.
    pub nsid: u32,
    /// Start on the drive, bytes.
    pub start_bytes: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// True if the namespace refuses all commands that change its data.
    pub is_read_only: bool,
}

/// Flexible Data Placement configuration of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// True if placement is enabled: writes go to the handle of their placement identifier.
    pub is_on: bool,
    /// Number of reclaim unit handles.
    pub handles: u8,
    /// Number of reclaim groups: a power of two.
    pub groups: u8,
}

impl Placement {
    /// Number of the upper bits of a placement identifier that select the reclaim group (RGIF).
    #[must_use]
    pub fn group_bits(self) -> u32 {
        u32::from(self.groups).ilog2()
    }

    /// Returns the identifier of a placement handle in a reclaim group.
    #[must_use]
    pub fn identifier(self, group: u8, handle: u16) -> u16 {
        (u32::from(group) << (16 - self.group_bits())) as u16 | handle
    }

    /// Returns the reclaim unit handle to which a namespace with `handles` writes by this
    /// identifier; the handles of the second reclaim group are numbered after those of the first.
    /// `None` if the namespace has no such placement handle.
    #[must_use]
    pub fn place(self, identifier: u16, handles: &[u8]) -> Option<u8> {
        let group = u32::from(identifier) >> (16 - self.group_bits());
        let handle = handles.get(usize::from(identifier ^ self.identifier(group as u8, 0)))?;
        Some(group as u8 * self.handles + handle)
    }
}

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
        NamespaceTable::with_entries(
            vec![Some(NamespaceTable::plain(0, sectors, is_read_only))],
            sectors,
        )
    }

    fn with_entries(all: Vec<Option<Arc<Namespace>>>, drive_sectors: u64) -> NamespaceTable {
        let mut namespaces = NamespaceTable {
            all,
            changes: vec![0; NAMESPACES_MAX],
            drive_sectors,
            handles: 0,
            groups: 1,
            is_placement_off: false,
            zones: None,
        };
        namespaces.all.resize(NAMESPACES_MAX, None);
        namespaces
    }

    fn plain(first: u64, sectors: u64, is_read_only: bool) -> Arc<Namespace> {
        Arc::new(Namespace::new(first, is_read_only, NewNamespace::plain(sectors)))
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
        if sectors.iter().all(|sectors| sectors.is_multiple_of(zones.sectors)) {
            return Ok(());
        }
        Err(NamespaceError::Zones { nsid, zone: zones.sectors * SECTOR_BYTES })
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
        if wanted.len() > NAMESPACES_MAX {
            return Err(NamespaceError::TooMany(wanted.len()));
        }
        let mut end = 0;
        let mut all = Vec::new();
        for options in wanted {
            let start = options.start_bytes.map(|bytes| bytes.div_ceil(PAGE_BYTES) * PAGE_SECTORS);
            let first = start.unwrap_or(end);
            let size = options.bytes / PAGE_BYTES * PAGE_SECTORS;
            end = first.saturating_add(size);
            all.push(Some(NamespaceTable::plain(first, size, options.is_read_only)));
        }
        let namespaces = NamespaceTable::with_entries(all, sectors);
        namespaces.check()?;
        Ok(namespaces)
    }

    /// Restores the saved namespaces of a drive of `sectors`.
    pub(crate) fn restore(
        kept: &[KeptNamespace],
        sectors: u64,
        is_read_only: bool,
    ) -> Result<NamespaceTable, NamespaceError> {
        let mut namespaces = NamespaceTable::with_entries(Vec::new(), sectors);
        for entry in kept {
            let place = (entry.nsid as usize).wrapping_sub(1);
            let place =
                namespaces.all.get_mut(place).filter(|_| BLOCK_SHIFTS.contains(&entry.block_shift));
            let place = place.ok_or(NamespaceError::Unknown(entry.nsid))?;
            let is_read_only = is_read_only || entry.is_read_only;
            let KeptNamespace { first, sectors, is_shared, block_shift, .. } = *entry;
            let handles = entry.handles.clone();
            let wanted = NewNamespace { sectors, block_shift, is_shared, handles };
            let mut made = Namespace::new(first, is_read_only, wanted);
            made.is_handle_chosen = entry.is_handle_chosen;
            *place = Some(Arc::new(made));
        }
        namespaces.check()?;
        Ok(namespaces)
    }

    /// Returns the entries for [`NamespaceTable::restore`].
    pub(crate) fn to_keep(&self) -> Vec<KeptNamespace> {
        let kept = |(nsid, namespace): (u32, &Arc<Namespace>)| KeptNamespace {
            nsid,
            first: namespace.first,
            sectors: namespace.sectors(),
            is_read_only: namespace.is_read_only,
            is_shared: namespace.is_shared,
            block_shift: namespace.block_shift(),
            handles: namespace.handles.clone(),
            is_handle_chosen: namespace.is_handle_chosen,
        };
        self.iter().map(kept).collect()
    }

    /// Checks that no namespace is empty, inside another one, or beyond the end of the drive.
    fn check(&self) -> Result<(), NamespaceError> {
        for (nsid, namespace) in self.iter() {
            if namespace.sectors() == 0 {
                return Err(NamespaceError::Empty(nsid));
            }
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
        (1..).zip(&self.all).filter_map(|(nsid, entry)| Some((nsid, entry.as_ref()?)))
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

    pub(crate) fn changes(&self, nsid: u32) -> u64 {
        self.changes[nsid as usize - 1]
    }

    fn changed(&mut self, nsid: u32) {
        self.changes[nsid as usize - 1] += 1;
    }

    pub(crate) fn free_sectors(&self) -> u64 {
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
        self.iter().map(|(nsid, namespace)| namespace.figures(nsid)).collect()
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
        if sectors == 0 {
            return Err(NamespaceError::Empty(nsid));
        }
        self.check_zones(nsid, [sectors, 0])?;
        self.check_room(nsid, sectors)?;
        if sectors < namespace.sectors() && namespace.is_read_only {
            return Err(NamespaceError::ReadOnly(nsid));
        }
        let (first, is_new) = (namespace.first, sectors != namespace.sectors());
        namespace.sectors.store(sectors, Ordering::Relaxed);
        if is_new {
            self.changed(nsid);
        }
        Ok((first + sectors).min(before.end)..before.end)
    }

    /// Creates a namespace in the first free range that is large enough, with the first free
    /// number; returns the number.
    pub(crate) fn create(&mut self, mut wanted: NewNamespace) -> Result<u32, NamespaceError> {
        let sectors = wanted.sectors;
        let place = self.all.iter().position(Option::is_none);
        let place = place.ok_or(NamespaceError::TooMany(NAMESPACES_MAX + 1))?;
        let nsid = place as u32 + 1;
        if sectors == 0 {
            return Err(NamespaceError::Empty(nsid));
        }
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
        let made = Namespace { is_handle_chosen, zones, ..Namespace::new(start, false, wanted) };
        self.all[place] = Some(Arc::new(made));
        self.changed(nsid);
        Ok(nsid)
    }

    /// Sets the block size of a namespace.
    pub(crate) fn format(&mut self, nsid: u32, block_shift: u8) -> Result<(), NamespaceError> {
        let namespace = self.known(nsid)?;
        if namespace.is_read_only {
            return Err(NamespaceError::ReadOnly(nsid));
        }
        if namespace.block_shift.swap(block_shift, Ordering::Relaxed) != block_shift {
            self.changed(nsid);
        }
        Ok(())
    }

    /// Deletes a namespace; returns its sectors on the drive. Sessions that still hold it find it
    /// empty.
    pub(crate) fn delete(&mut self, nsid: u32) -> Result<Range<u64>, NamespaceError> {
        let namespace = self.known(nsid)?;
        if namespace.is_read_only {
            return Err(NamespaceError::ReadOnly(nsid));
        }
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
