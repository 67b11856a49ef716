//! Flexible Data Placement as hosts see it: directives, reclaim unit handles, events; its log
//! pages: `placement_logs.rs`.
//!
//! Sources: NVM Express base specification 2.1, Flexible Data Placement (TP4146); the NVM command
//! set's I/O Management commands. There is one endurance group, the drive, with one configuration;
//! if a host leaves out the endurance group of the feature (0), this group is used, as tools
//! expect. Counters come from the model: the host's bytes are those of the handles, the media's
//! bytes include everything programmed and erased. Media Reallocated reports how much of a handle's
//! data garbage collection has moved since the last check, but not its addresses. Left out: time
//! limits of reclaim units, and their event.

use std::collections::VecDeque;

use drivebay_drive::{HandleUse, Spec};
use drivebay_units::Nanos;
use drivebay_wire::nvme::{
    AdminOpcode, CREATE_HANDLE_LIST, CREATE_HANDLES, DIRECTIVE_PLACEMENT, Feature, HANDLES_MAX,
    HandleStatus, LogPage, MANAGE_HANDLES, PlacementEvent, PlacementEventKind, Sqe, Status,
};
use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes;

use super::refuse::refuse_if;
use super::timestamp::Timestamp;
use crate::interface::drive::{Drive, Namespaces};
use crate::namespace::{Namespace, Placement, SECTOR_SHIFT};

/// The only endurance group.
pub(super) const GROUP: u16 = 1;
/// Most events of a page.
const EVENTS_MAX: usize = 63;
pub(super) const PAGE_BYTES: u64 = 4096;

/// Placement parameters of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub handles: usize,
    /// Number of reclaim groups.
    pub groups: usize,
    pub is_persistent: bool,
    pub unit_bytes: u64,
}

impl Shape {
    /// Returns the parameters of this profile; `None` without placement.
    pub fn new(spec: &Spec) -> Option<Shape> {
        let (streams, geometry) = (spec.streams, &spec.geometry);
        (streams.handles > 0 && spec.zones.is_none()).then(|| Shape {
            handles: streams.handles,
            groups: streams.groups,
            is_persistent: streams.are_apart(),
            unit_bytes: u64::from(geometry.superblock_pages) * geometry.unit_bytes(),
        })
    }
}

/// Placement event.
#[derive(Serialize, Deserialize)]
struct Seen {
    kind: u8,
    at: Nanos,
    group: u8,
    handle: u8,
    /// Namespace and placement identifier of the host's command, if a host caused it.
    by: Option<(u32, u16)>,
    moved_4k: u64,
}

/// Enabled events of each handle, and the most recent events. Events of kinds that no host has
/// enabled are dropped.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Events {
    /// Size of a reclaim unit, in 4 KiB.
    pub unit_4k: u64,
    /// Reclaim unit handles of a group.
    #[serde(skip)]
    handles: u8,
    /// Enabled kinds by handle, one bit for each kind, in their order.
    wanted: Vec<u8>,
    /// Host events and controller events, oldest first.
    kept: [VecDeque<Seen>; 2],
    /// Copied data at the last check, by handle.
    copied_4k: Vec<u64>,
}

impl Events {
    /// Creates the events of a drive with this placement.
    pub fn new(shape: Option<Shape>) -> Events {
        let unit_4k = shape.map_or(0, |shape| shape.unit_bytes / PAGE_BYTES);
        let handles = shape.map_or(1, |shape| shape.handles as u8);
        Events { unit_4k, handles, ..Events::default() }
    }

    /// Restores saved events.
    pub fn restore(&mut self, kept: Events) {
        *self = Events { unit_4k: self.unit_4k, handles: self.handles, ..kept };
    }

    /// Adds an event of a handle in a reclaim group; `by` and `moved_4k` as in [`Seen`].
    fn add(
        &mut self,
        kind: PlacementEventKind,
        (group, handle): (u8, u8),
        at: Nanos,
        by: Option<(u32, u16)>,
        moved_4k: u64,
    ) {
        let wanted = self.wanted.get(usize::from(handle)).copied().unwrap_or(0);
        if wanted & bit_of(kind) == 0 {
            return;
        }
        let kind = kind as u8;
        let kept = &mut self.kept[usize::from(kind >= 0x80)];
        if kept.len() >= EVENTS_MAX {
            kept.pop_front();
        }
        kept.push_back(Seen { kind, at, group, handle, by, moved_4k });
    }

    /// Adds an event that a host's command has caused; `place` is the handle among those of all
    /// groups.
    pub fn note(&mut self, kind: PlacementEventKind, place: u8, by: (u32, u16), at: Nanos) {
        self.add(kind, (place / self.handles, place % self.handles), at, Some(by), 0);
    }

    /// Adds Media Reallocated events for data copied since the last check.
    pub fn look_at(&mut self, used: &[HandleUse], at: Nanos) {
        self.copied_4k.resize(used.len(), 0);
        for (place, now) in used.iter().enumerate() {
            let moved_4k = now.copied_4k.saturating_sub(self.copied_4k[place]);
            self.copied_4k[place] = now.copied_4k;
            if let Some(handle) = now.handle.filter(|_| moved_4k > 0) {
                let kind = PlacementEventKind::MediaReallocated;
                self.add(kind, (now.group, handle), at, None, moved_4k);
            }
        }
    }

    /// Adds events for handles to which the drive has assigned other reclaim units although the old
    /// ones were written to.
    pub fn note_modified(&mut self, before: &[HandleUse], after: &[HandleUse], at: Nanos) {
        for (before, after) in before.iter().zip(after) {
            let is_other = before.unit_left_4k < after.unit_left_4k;
            if let Some(handle) = after.handle.filter(|_| is_other) {
                let kind = PlacementEventKind::HandleModified;
                self.add(kind, (after.group, handle), at, None, 0);
            }
        }
    }

    /// Log page of the host's or the controller's events. Moved blocks have the block size of the
    /// namespace with the handle; 512 B if there is none.
    pub fn page(&self, of_hosts: bool, timestamp: &Timestamp, drive: &dyn Drive) -> Vec<u8> {
        let namespaces: Vec<_> =
            drive.namespace_ids().into_iter().filter_map(|nsid| drive.namespace(nsid)).collect();
        let block_bytes = |handle: u8| {
            let owner = namespaces.iter().find(|namespace| namespace.handles.contains(&handle));
            1 << owner.map_or(SECTOR_SHIFT, |namespace| namespace.block_shift())
        };
        let kept = &self.kept[usize::from(!of_hosts)];
        let mut page = vec![0; 64];
        page[..4].copy_from_slice(&(kept.len() as u32).to_le_bytes());
        for event in kept {
            let (nsid, pid) = event.by.unwrap_or_default();
            let event = PlacementEvent {
                kind: event.kind,
                // Reclaim group and handle are always valid.
                flags: 1 << 2 | if event.by.is_some() { 3 } else { 0 },
                pid: pid.into(),
                timestamp: timestamp.value(event.at).into(),
                nsid: nsid.into(),
                moved_blocks: u16::try_from(
                    event.moved_4k * PAGE_BYTES / block_bytes(event.handle),
                )
                .unwrap_or(u16::MAX)
                .into(),
                group: u16::from(event.group).into(),
                handle: event.handle,
                ..PlacementEvent::default()
            };
            page.extend_from_slice(event.as_bytes());
        }
        page
    }

    /// Set Features, Placement Events: enables or disables these kinds. `sqe` names the handle of
    /// its namespace.
    pub fn set(&mut self, sqe: &Sqe, handle: u8, kinds: &[u8]) -> Result<(), Status> {
        let bits = kinds.iter().map(|&kind| PlacementEventKind::from_code(kind).map(bit_of));
        let bits: Option<u8> = bits.sum::<Option<u8>>();
        let bits = bits.filter(|_| !kinds.is_empty()).ok_or(Status::INVALID_FIELD.dnr())?;
        if self.wanted.len() <= usize::from(handle) {
            self.wanted.resize(usize::from(handle) + 1, 0);
        }
        let wanted = &mut self.wanted[usize::from(handle)];
        *wanted = if sqe.cdw12.get() & 1 != 0 { *wanted | bits } else { *wanted & !bits };
        Ok(())
    }

    /// Get Features: kinds of events and their enable flags, at most `most` of them.
    pub fn get(&self, handle: u8, most: usize) -> Vec<u8> {
        let wanted = self.wanted.get(usize::from(handle)).copied().unwrap_or(0);
        let entry = |&kind: &PlacementEventKind| [kind as u8, (wanted & bit_of(kind) != 0).into()];
        PlacementEventKind::ALL.iter().take(most).flat_map(entry).collect()
    }
}

fn bit_of(kind: PlacementEventKind) -> u8 {
    let place = PlacementEventKind::ALL.iter().position(|&other| other == kind);
    1 << place.unwrap_or_default()
}

/// True if the feature's command names the endurance group, or leaves it out.
pub(super) fn names_group(sqe: &Sqe) -> bool {
    matches!(sqe.cdw11.get() as u16, 0 | GROUP)
}

/// Byte of an admin command about placement that caused the error: the endurance group, or the
/// configuration.
pub(super) fn error_location(sqe: &Sqe) -> Option<u16> {
    const GROUP_OF_FEATURE: u16 = 44;
    const GROUP_OF_LOG: u16 = 46;
    const CONFIGURATION: u16 = 49;
    let code = sqe.cdw10.get() as u8;
    match AdminOpcode::from_code(sqe.opcode)? {
        AdminOpcode::GetLogPage
            if sqe.log_group() != GROUP && is_of_group(LogPage::from_code(code)?) =>
        {
            Some(GROUP_OF_LOG)
        }
        AdminOpcode::GetFeatures | AdminOpcode::SetFeatures
            if Feature::from_code(code) == Some(Feature::Placement) =>
        {
            Some(if names_group(sqe) { CONFIGURATION } else { GROUP_OF_FEATURE })
        }
        _ => None,
    }
}

/// True if a log page belongs to an endurance group.
pub(super) fn is_of_group(log: LogPage) -> bool {
    use LogPage as L;
    matches!(
        log,
        L::EnduranceGroup
            | L::PlacementConfigurations
            | L::PlacementUsage
            | L::PlacementStatistics
            | L::PlacementEvents
    )
}

/// Reclaim unit handle of a namespace's placement handle, from the fields of a feature command.
pub(super) fn handle_of_feature(sqe: &Sqe, drive: &dyn Drive) -> Result<u8, Status> {
    let namespace = drive.namespace(sqe.nsid.get()).ok_or(Status::INVALID_NAMESPACE.dnr())?;
    refuse_if(!drive.is_placed(), Status::PLACEMENT_DISABLED)?;
    let handle = namespace.handles.get(usize::from(sqe.cdw11.get() as u16));
    handle.copied().ok_or(Status::INVALID_FIELD.dnr())
}

/// Returns the 16-bit numbers of a list from a host.
pub(super) fn numbers(list: &[u8]) -> impl Iterator<Item = u16> {
    list.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]))
}

/// List of placement handles of a new namespace.
pub(super) fn wanted_handles(
    data: &[u8],
    shape: Option<Shape>,
    is_placed: bool,
) -> Result<Vec<u8>, Status> {
    let count = numbers(&data[CREATE_HANDLES]).next().map_or(0, usize::from);
    let most = shape.filter(|_| is_placed).map_or(0, |shape| shape.handles);
    let invalid = Status::INVALID_PLACEMENT_HANDLE_LIST.dnr();
    if count > most.min(HANDLES_MAX) {
        return Err(if most == 0 { Status::INVALID_FIELD.dnr() } else { invalid });
    }
    let list: Vec<u16> = numbers(&data[CREATE_HANDLE_LIST..]).take(count).collect();
    let is_right =
        |(n, &handle): (usize, &u16)| usize::from(handle) < most && !list[..n].contains(&handle);
    if !list.iter().enumerate().all(is_right) {
        return Err(invalid);
    }
    Ok(list.into_iter().map(|handle| handle as u8).collect())
}

/// Directive Receive and Send: returns the parameters of the Identify directive; hosts cannot
/// switch directives.
pub(super) fn directive(sqe: &Sqe, drive: &dyn Drive, bytes: usize) -> Result<Vec<u8>, Status> {
    let (operation, kind) = (sqe.cdw11.get() as u8, (sqe.cdw11.get() >> 8) as u8);
    let is_receive = AdminOpcode::from_code(sqe.opcode) == Some(AdminOpcode::DirectiveReceive);
    refuse_if(!is_receive || (operation, kind) != (1, 0), Status::INVALID_FIELD)?;
    // Supported, enabled, and enabled after a reset: one bit per directive.
    let enabled = 1 | u8::from(drive.is_placed()) << DIRECTIVE_PLACEMENT;
    let mut page = vec![0; 4096.max(bytes)];
    (page[0], page[32], page[64]) = (1 | 1 << DIRECTIVE_PLACEMENT, enabled, enabled);
    page.truncate(bytes);
    Ok(page)
}

/// Placement of a write command.
pub(super) struct Place {
    /// Reclaim unit handle; the handles of the second reclaim group are numbered after those of the
    /// first.
    pub handle: u8,
    /// True if the command named a placement identifier that its namespace does not have.
    pub is_invalid: bool,
}

/// Returns the placement of a write command in this namespace.
pub(super) fn place_of(
    sqe: &Sqe,
    namespaces: &dyn Namespaces,
    namespace: &Namespace,
) -> Result<Place, Status> {
    let first = namespace.handles.first().copied().unwrap_or(0);
    match (sqe.directive(), namespaces.placement()) {
        (0, _) => Ok(Place { handle: first, is_invalid: false }),
        (DIRECTIVE_PLACEMENT, Some(placement)) if placement.is_on => {
            let named = placement.place(sqe.directive_value(), &namespace.handles);
            Ok(Place { handle: named.unwrap_or(first), is_invalid: named.is_none() })
        }
        _ => Err(Status::INVALID_FIELD.dnr()),
    }
}

/// Checks the operation of an I/O Management command: returns the placement for the operation on
/// handles, `None` for "no action".
pub(super) fn about_handles(
    sqe: &Sqe,
    namespaces: &dyn Namespaces,
) -> Result<Option<Placement>, Status> {
    let placement = namespaces.placement().filter(|placement| placement.is_on);
    match (sqe.cdw10.get() as u8, placement) {
        (0, _) => Ok(None),
        (MANAGE_HANDLES, Some(placement)) => Ok(Some(placement)),
        (MANAGE_HANDLES, None) => Err(Status::PLACEMENT_DISABLED.dnr()),
        _ => Err(Status::INVALID_FIELD.dnr()),
    }
}

/// I/O Management Receive: status of a namespace's handles in each reclaim group, truncated to
/// `bytes`.
pub(super) fn status(
    placement: Placement,
    namespace: &Namespace,
    used: &[HandleUse],
    bytes: usize,
) -> Vec<u8> {
    let blocks_of_4k = 12 - u32::from(namespace.block_shift());
    let groups = 0..placement.groups;
    let mut data = vec![0; 16];
    let count = namespace.handles.len() * usize::from(placement.groups);
    data[14..].copy_from_slice(&(count as u16).to_le_bytes());
    for (number, &handle) in (0..).zip(&namespace.handles) {
        for group in groups.clone() {
            let is_it = |handle_use: &&HandleUse| {
                handle_use.group == group && handle_use.handle == Some(handle)
            };
            let left_4k = used.iter().find(is_it).map_or(0, |handle_use| handle_use.unit_left_4k);
            let status = HandleStatus {
                pid: placement.identifier(group, number).into(),
                handle: u16::from(handle).into(),
                blocks_left: (left_4k << blocks_of_4k).into(),
                ..HandleStatus::default()
            };
            data.extend_from_slice(status.as_bytes());
        }
    }
    data.resize(bytes, 0);
    data
}

/// I/O Management Send: handles that begin a new reclaim unit, with their placement identifiers.
/// All or none.
pub(super) fn updated(
    sqe: &Sqe,
    data: &[u8],
    placement: Placement,
    namespace: &Namespace,
) -> Result<Vec<(u16, u8)>, Status> {
    let count = (sqe.cdw10.get() >> 16) as usize + 1;
    let list = data.get(..2 * count).ok_or(Status::SGL_LENGTH_INVALID.dnr())?;
    let place = |pid| Some((pid, placement.place(pid, &namespace.handles)?));
    let named: Option<Vec<_>> = numbers(list).map(place).collect();
    // At most as many as the configuration allows.
    let most = namespace.handles.len() * usize::from(placement.groups);
    named.filter(|all| all.len() <= most).ok_or(Status::INVALID_FIELD.dnr())
}
