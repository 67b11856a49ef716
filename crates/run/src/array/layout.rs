//! Where an array's data lies on its members, and what a request of the host asks of them.
//!
//! Source: Linux md: md(4), and `drivers/md/raid{0,1,10,5}.c` of Linux 6.6. Chunks go around the
//! members; RAID 10 is "near 2"; parity goes around left-symmetric, md's default. A write to part
//! of a stripe reads what the new parity needs: the old data and parity (read-modify-write) where
//! these are fewer blocks, else the rest of the stripe (reconstruct-write), by rows of 4 KiB. What
//! lies on a member that failed is computed from the others. Requests of one member that touch are
//! merged. Left out: the stripe cache, which gathers small sequential writes to whole stripes
//! (those are too slow here, and too many); the rest of a page of which less is written; the lock
//! of a stripe; the bitmap, the journal, where data begins on a member; the processor's time for
//! parity.

use std::ops::Range;

use drivebay_drive::{Io, Op};
use drivebay_units::SECTOR_BYTES;

use crate::workload::WorkloadError;

/// Most members: a stripe's blocks are bits of a word.
pub const MEMBERS_MAX: usize = 32;
/// A member's data is good to the end.
pub const WHOLE: u64 = u64::MAX;
/// A row of parity: md's stripe head is a page.
const ROW_SECTORS: u64 = 8;

/// How data is spread over the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Stripes.
    Raid0,
    /// Mirrors: every member holds all.
    Raid1,
    /// Stripes over pairs of mirrors.
    Raid10,
    /// Stripes with one parity.
    Raid5,
    /// Stripes with two.
    Raid6,
}

/// A level, over so many members, in such chunks.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// How data is spread.
    pub level: Level,
    /// How many members there are.
    pub members: usize,
    /// Sectors of a chunk.
    pub chunk: u64,
}

/// What is asked of members: first these, and once all are done those.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) first: Vec<(usize, Io)>,
    pub(super) then: Vec<(usize, Io)>,
}

/// By member: up to where its data is good, none where it has failed.
pub(super) type Standing = [Option<u64>];

fn is_readable(standing: &Standing, member: usize, end: u64) -> bool {
    standing[member].is_some_and(|good| end <= good)
}

impl Plan {
    /// Cuts what is longer than a member's commands can be.
    pub(super) fn cut(&mut self, most: impl Fn(usize) -> u32) {
        for parts in [&mut self.first, &mut self.then] {
            let mut at = 0;
            while let Some(&(member, io)) = parts.get(at) {
                let most = most(member);
                if io.data_bytes() > 0 && io.sectors > most {
                    parts[at].1.sectors = most;
                    let (lba, sectors) = (io.lba + u64::from(most), io.sectors - most);
                    parts.insert(at + 1, (member, Io { lba, sectors, ..io }));
                }
                at += 1;
            }
        }
    }
}

impl Layout {
    /// Refuses what is no array, and members with which data is lost.
    ///
    /// # Errors
    /// [`WorkloadError`]
    pub fn check(&self, standing: &[Option<u64>]) -> Result<(), WorkloadError> {
        let members = standing.len();
        let least = Layout::members_min(self.level);
        let odd = self.level == Level::Raid10 && !members.is_multiple_of(2);
        if members != self.members || !(least..=MEMBERS_MAX).contains(&members) || odd {
            let pairs = if self.level == Level::Raid10 { ", in pairs" } else { "" };
            let allowed = format!("{least} to {MEMBERS_MAX}{pairs}");
            return Err(WorkloadError::refused("members", &members, &allowed));
        }
        let chunk_bytes = self.chunk * SECTOR_BYTES;
        if !(4096..=1 << 24).contains(&chunk_bytes) || !chunk_bytes.is_power_of_two() {
            let allowed = "a power of two from 4 KiB to 16 MiB";
            return Err(WorkloadError::refused("chunk_bytes", &chunk_bytes, allowed));
        }
        let missing = standing.iter().filter(|&&good| good != Some(WHOLE)).count();
        if !self.survives(standing) {
            let allowed = "fewer: data would be lost";
            return Err(WorkloadError::refused("failed members", &missing, allowed));
        }
        Ok(())
    }

    /// Members' blocks of a stripe that hold data of their own.
    pub(super) fn columns(&self) -> usize {
        match self.level {
            Level::Raid0 => self.members,
            Level::Raid1 => 1,
            Level::Raid10 => self.members / 2,
            Level::Raid5 => self.members - 1,
            Level::Raid6 => self.members - 2,
        }
    }

    /// Members that hold the same data.
    fn copies(&self) -> usize {
        match self.level {
            Level::Raid1 => self.members,
            Level::Raid10 => 2,
            _ => 1,
        }
    }

    /// Blocks of parity in a stripe.
    pub(super) fn parities(&self) -> usize {
        match self.level {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }

    /// Fewest members.
    fn members_min(level: Level) -> usize {
        match level {
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid10 | Level::Raid6 => 4,
        }
    }

    /// Sectors of the host's data in a stripe.
    #[must_use]
    pub fn stripe(&self) -> u64 {
        self.chunk * self.columns() as u64
    }

    /// Sectors of the host's data, in whole stripes, on members of which the smallest has so many.
    #[must_use]
    pub fn sectors(&self, least: u64) -> u64 {
        least / self.chunk * self.stripe()
    }

    /// Whether nothing is lost, with members as they are.
    fn survives(&self, standing: &Standing) -> bool {
        let whole = |member: &usize| standing[*member] == Some(WHOLE);
        let missing = (0..self.members).filter(|member| !whole(member)).count();
        if self.parities() > 0 {
            return missing <= self.parities();
        }
        (0..self.columns()).all(|column| self.copies_of(column).any(|member| whole(&member)))
    }

    fn copies_of(&self, column: usize) -> Range<usize> {
        column * self.copies()..(column + 1) * self.copies()
    }

    /// The member that has the block of a stripe: data first, then parity.
    fn member_of(&self, stripe: u64, block: usize) -> usize {
        let last = self.members - 1 - (stripe % self.members as u64) as usize;
        let after = (block + self.parities()) % self.members;
        (last + after) % self.members
    }

    /// What a request asks of the members; of mirrors that can be read, of the one with the fewest
    /// requests `pending`.
    pub(super) fn plan(
        &self,
        io: Io,
        standing: &Standing,
        pending: impl Fn(usize) -> usize,
        plan: &mut Plan,
    ) {
        plan.first.clear();
        plan.then.clear();
        if matches!(io.op, Op::Flush | Op::HandleUpdate) {
            let working = (0..self.members).filter(|&member| standing[member].is_some());
            plan.first.extend(working.map(|member| (member, io)));
            return;
        }
        let (mut at, end) = (io.lba, io.lba + u64::from(io.sectors));
        while at < end {
            let stripe = at / self.stripe();
            let from = at % self.stripe();
            let until = self.stripe().min(from + (end - at));
            match (self.parities() > 0, io.op) {
                (false, _) => self.plan_copies(io, stripe, from..until, standing, &pending, plan),
                (true, Op::Read) => self.plan_read(io, stripe, from..until, standing, plan),
                (true, _) => self.plan_write(io, stripe, from..until, standing, plan),
            }
            at += until - from;
        }
        if plan.first.is_empty() {
            std::mem::swap(&mut plan.first, &mut plan.then);
        }
        merge(&mut plan.first);
        merge(&mut plan.then);
    }

    /// Columns of a range of a stripe's data, each with its rows.
    fn columns_of(&self, range: &Range<u64>) -> impl Iterator<Item = (usize, u64, u64)> + use<> {
        let (chunk, from, until) = (self.chunk, range.start, range.end);
        (from / chunk..until.div_ceil(chunk)).map(move |column| {
            let begin = column * chunk;
            (column as usize, from.max(begin) - begin, until.min(begin + chunk) - begin)
        })
    }

    fn plan_copies(
        &self,
        io: Io,
        stripe: u64,
        range: Range<u64>,
        standing: &Standing,
        pending: &impl Fn(usize) -> usize,
        plan: &mut Plan,
    ) {
        for (column, from, until) in self.columns_of(&range) {
            let (lba, end) = (stripe * self.chunk + from, stripe * self.chunk + until);
            let part = Io { lba, sectors: (end - lba) as u32, ..io };
            let copies = self.copies_of(column);
            if io.op == Op::Read {
                let readable = copies.filter(|&member| is_readable(standing, member, end));
                plan.first
                    .extend(readable.min_by_key(|&member| pending(member)).map(|m| (m, part)));
            } else {
                let working = copies.filter(|&member| standing[member].is_some());
                plan.first.extend(working.map(|member| (member, part)));
            }
        }
    }

    fn plan_read(
        &self,
        io: Io,
        stripe: u64,
        range: Range<u64>,
        standing: &Standing,
        plan: &mut Plan,
    ) {
        for (column, from, until) in self.columns_of(&range) {
            let (member, base) = (self.member_of(stripe, column), stripe * self.chunk);
            if is_readable(standing, member, base + until) {
                plan.first
                    .push((member, Io { lba: base + from, sectors: (until - from) as u32, ..io }));
            } else {
                self.read_others(stripe, rows(from, until), standing, plan);
            }
        }
    }

    /// As many blocks of a row as it takes to compute the others.
    fn read_others(
        &self,
        stripe: u64,
        (from, until): (u64, u64),
        standing: &Standing,
        plan: &mut Plan,
    ) {
        let base = stripe * self.chunk;
        let blocks = (0..self.members).map(|block| self.member_of(stripe, block));
        let readable = blocks.filter(|&member| is_readable(standing, member, base + until));
        let part = Io::new(Op::Read, base + from, (until - from) as u32);
        plan.first.extend(readable.take(self.columns()).map(|member| (member, part)));
    }

    /// Rows of a stripe in which the same columns are written are planned together: at most three
    /// ranges.
    fn plan_write(
        &self,
        io: Io,
        stripe: u64,
        range: Range<u64>,
        standing: &Standing,
        plan: &mut Plan,
    ) {
        let (first, last) = (range.start / self.chunk, (range.end - 1) / self.chunk);
        let (head, tail) = (range.start % self.chunk, range.end - last * self.chunk);
        let cuts = if first == last {
            [head, tail, tail, tail]
        } else {
            [0, head.min(tail), head.max(tail), self.chunk]
        };
        for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
            let covers = |&(_, from, until): &(usize, u64, u64)| from <= cut[0] && cut[1] <= until;
            let written = self.columns_of(&range).filter(covers);
            let written = written.fold(0u64, |all, (column, ..)| all | 1 << column);
            if written > 0 {
                self.plan_rows(io, stripe, rows(cut[0], cut[1]), written, standing, plan);
            }
        }
    }

    fn plan_rows(
        &self,
        io: Io,
        stripe: u64,
        (from, until): (u64, u64),
        written: u64,
        standing: &Standing,
        plan: &mut Plan,
    ) {
        let (columns, base) = (self.columns(), stripe * self.chunk);
        let member = |block: usize| self.member_of(stripe, block);
        let readable = |&block: &usize| is_readable(standing, member(block), base + until);
        let working = |&block: &usize| standing[member(block)].is_some();
        let part = |op, block| {
            (member(block), Io { op, lba: base + from, sectors: (until - from) as u32, ..io })
        };
        let is_written = |&block: &usize| written & 1 << block != 0;

        let parity = || (columns..self.members).filter(working);
        let old = || (0..columns).filter(is_written).chain(parity());
        let rest = || (0..columns).filter(|block| !is_written(block));
        let modifies = old().all(|block| readable(&block)) && old().count() < rest().count();
        if parity().next().is_some() {
            if modifies
                || !rest().all(|block| readable(&block)) && old().all(|block| readable(&block))
            {
                plan.first.extend(old().map(|block| part(Op::Read, block)));
            } else if rest().all(|block| readable(&block)) {
                plan.first.extend(rest().map(|block| part(Op::Read, block)));
            } else {
                self.read_others(stripe, (from, until), standing, plan);
            }
        }
        let data = (0..columns).filter(is_written).filter(working);
        plan.then.extend(data.chain(parity()).map(|block| part(io.op, block)));
    }

    /// What it takes to compute sectors of a member anew: reads, and then its write.
    pub(super) fn plan_rebuild(
        &self,
        member: usize,
        lba: u64,
        sectors: u32,
        standing: &Standing,
        plan: &mut Plan,
    ) {
        plan.first.clear();
        plan.then.clear();
        let end = lba + u64::from(sectors);
        let column = member / self.copies();
        let (from, most) = if self.parities() > 0 {
            (0..self.members, self.columns())
        } else {
            (self.copies_of(column), 1)
        };
        let readable = from.filter(|&other| is_readable(standing, other, end));
        let read = Io::new(Op::Read, lba, sectors);
        plan.first.extend(readable.take(most).map(|other| (other, read)));
        plan.then.push((member, Io { op: Op::Write, ..read }));
    }
}

/// Whole rows of parity that have these sectors of a chunk.
fn rows(from: u64, until: u64) -> (u64, u64) {
    (from / ROW_SECTORS * ROW_SECTORS, until.next_multiple_of(ROW_SECTORS))
}

/// Requests of a member that touch or overlap become one.
fn merge(parts: &mut Vec<(usize, Io)>) {
    parts.sort_unstable_by_key(|&(member, io)| (member, io.lba));
    parts.dedup_by(|next, kept| {
        let end = kept.1.lba + u64::from(kept.1.sectors);
        let touches = next.0 == kept.0 && next.1.op == kept.1.op && next.1.lba <= end;
        if touches {
            let until = end.max(next.1.lba + u64::from(next.1.sectors));
            kept.1.sectors = (until - kept.1.lba) as u32;
        }
        touches
    });
}

#[cfg(test)]
#[path = "../../tests/unit/array_layout.rs"]
mod tests;
