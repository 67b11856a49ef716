//! Reclaim groups: sets of dies, each with superblocks, streams, free superblocks and victims of
//! its own.
//!
//! Source: NVMe base specification 2.1, Flexible Data Placement (TP4146): data stays in its reclaim
//! group until the host writes it anew. Superblocks belong to the groups by turns. State of one
//! group alone is in its place for the current group, which [`Ftl::enter`] changes, and in
//! [`Parked`] for the others: a drive with one group runs none of this. guess: a group holds its
//! share of the drive's capacity. Data beyond that goes to the group with least data, to the same
//! handle there: the specification leaves open what a drive does.

use std::collections::VecDeque;

use super::Ftl;
use crate::persist::{StateError, ensure};
use crate::superblock::{Purpose, State, Superblock, Victim};

impl Ftl {
    /// True if there are several reclaim groups.
    #[inline(always)]
    pub fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Current reclaim group; 0 on drives with one.
    pub fn group(&self) -> usize {
        self.groups.as_ref().map_or(0, |groups| groups.current)
    }

    /// Makes a reclaim group the current one.
    pub fn enter(&mut self, group: usize) {
        let Some(groups) = self.groups.as_mut().filter(|groups| groups.current != group) else {
            return;
        };
        for place in [groups.current, group] {
            let parked = &mut groups.parked[place];
            std::mem::swap(&mut parked.free, &mut self.placement.free);
            std::mem::swap(&mut parked.victims, &mut self.victims);
            std::mem::swap(&mut parked.sealed, &mut self.superblocks.sealed);
        }
        groups.current = group;
        self.streams = self.streams.of_group(group);
    }

    /// Derives what follows from a state that was read back.
    pub fn derive(&mut self) {
        if let Some(groups) = &self.groups {
            self.streams = self.streams.of_group(groups.current);
        }
    }

    /// The reclaim group of a superblock.
    pub fn group_of(&self, superblock: u32) -> usize {
        self.geometry.group_of(superblock) as usize
    }

    /// True if a superblock belongs to the current group.
    pub(super) fn is_in_current(&self, superblock: u32) -> bool {
        self.group_of(superblock) == self.group()
    }

    /// Pages of a group that are erased, or will be when the part of its victims already read is
    /// erased. Cost: the group's streams.
    #[cold]
    pub fn free_in_group(&self) -> u64 {
        let pages = u64::from(self.geometry.superblock_pages);
        let streams = self.streams.group_count();
        let own = self.placement.frontiers().iter().skip(self.group() * streams).take(streams);
        let room: u64 = own.map(|f| u64::from(f.end - f.next)).sum();
        let begin = |v: &Victim| self.superblocks.begin_of(v.superblock);
        let read = self.victims.iter().flatten().map(|v| u64::from(v.next - begin(v)));
        self.placement.free.len() as u64 * pages + room + read.sum::<u64>()
    }

    /// Pages of the group with the fewest, times the number of groups.
    #[cold]
    pub(super) fn usable_in_groups(&self) -> u64 {
        let groups = self.streams.groups;
        let good = |group: usize| {
            let own = self.superblocks.all().iter().skip(group).step_by(groups);
            own.filter(|s| s.state != State::Bad).count() as u64
        };
        let least = (0..groups).map(good).min().unwrap_or(0);
        least * groups as u64 * u64::from(self.geometry.superblock_pages)
    }

    /// Chooses a victim among the superblocks of the current group. Cost: a pass over them, once
    /// per victim.
    #[cold]
    pub(super) fn choose_in_group(&mut self, purpose: Purpose) -> Option<u32> {
        let (group, groups) = (self.group(), self.streams.groups);
        let suggested = self.selection.suggested().iter().copied();
        if let Some(index) = suggested.into_iter().find(|&index| self.is_in_current(index)) {
            return Some(index);
        }
        let own = self.superblocks.ordinary().iter().skip(group).step_by(groups);
        let (blocks, sealed): (Vec<_>, _) = (own.copied().collect(), self.superblocks.sealed);
        let own = self.mapping.valid().iter().skip(group).step_by(groups);
        let valid: Vec<_> = own.copied().collect();
        let place = self.selection.choose_own(purpose, (&blocks, sealed), &valid, None)?;
        Some(place * groups as u32 + group as u32)
    }

    /// Group of the superblock that was suggested first as a victim.
    pub fn suggested_group(&self) -> Option<usize> {
        self.selection.suggested().front().map(|&index| self.group_of(index))
    }

    /// Stream in which the data of one of the host's streams goes on.
    pub fn goes_on(&self, stream: usize) -> usize {
        self.groups.as_ref().map_or(stream, |groups| groups.goes_on[stream])
    }

    /// Chooses the stream in which the data of a stream goes on, as it needs another superblock:
    /// itself, or if its group has its share of the drive's data, the same one of another group.
    /// Cost: passes over all superblocks.
    #[cold]
    pub fn choose_stream(&mut self, stream: usize) -> usize {
        let (groups, count) = (self.streams.groups, self.streams.group_count());
        let held = |group: usize| {
            let own = self.mapping.valid().iter().skip(group).step_by(groups);
            own.map(|&valid| u64::from(valid)).sum::<u64>()
        };
        let share = u64::from(self.geometry.user_pages) / groups as u64;
        let full = held(stream / count) > share + u64::from(self.geometry.superblock_pages);
        let other = (0..groups).min_by_key(|&group| held(group)).filter(|_| full);
        let goes_on = other.map_or(stream, |group| group * count + stream % count);
        self.groups.iter_mut().for_each(|groups| groups.goes_on[stream] = goes_on);
        goes_on
    }

    /// Free superblocks of all groups.
    pub(super) fn all_free(&self) -> impl Iterator<Item = &u32> {
        let parked = self.groups.iter().flat_map(|groups| &groups.parked);
        self.placement.free.iter().chain(parked.flat_map(|group| &group.free))
    }

    /// Victims of all groups.
    pub(super) fn all_victims(&self) -> impl Iterator<Item = &Victim> + Clone {
        let parked = self.groups.iter().flat_map(|groups| &groups.parked);
        self.victims.iter().chain(parked.flat_map(|group| &group.victims)).flatten()
    }

    /// Most superblocks sealed in one group.
    pub(super) fn most_sealed(&self) -> u64 {
        let parked = self.groups.iter().flat_map(|groups| &groups.parked);
        parked.map(|group| group.sealed).fold(self.superblocks.sealed, u64::max)
    }

    /// Checks that each group has superblocks and streams of its own only.
    pub(super) fn check_groups(&self) -> Result<(), StateError> {
        let Some(groups) = &self.groups else { return Ok(()) };
        let is_own = |free: &VecDeque<u32>, victims: &[Option<Victim>], group: usize| {
            let victims = victims.iter().flatten().map(|victim| victim.superblock);
            free.iter().copied().chain(victims).all(|index| self.group_of(index) == group)
        };
        let mut parked = groups.parked.iter().enumerate();
        let own = parked.all(|(group, parked)| is_own(&parked.free, &parked.victims, group))
            && is_own(&self.placement.free, &self.victims, groups.current);
        let count = self.streams.group_count();
        let is_same = |(own, &other): (usize, &usize)| {
            other < self.streams.count && own % count == other % count
        };
        ensure(groups.goes_on.iter().enumerate().all(is_same), "a stream of another handle")?;
        ensure(groups.current < self.streams.groups && own, "superblocks of a reclaim group")?;
        let of_stream = |(index, s): (u32, &Superblock)| {
            s.state != State::Open
                || self.streams.group_of(usize::from(s.stream)) == self.group_of(index)
        };
        ensure(
            (0..).zip(self.superblocks.all()).all(of_stream),
            "a stream in another reclaim group",
        )
    }
}
