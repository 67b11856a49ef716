//! The location of an array's data on its members, and the member commands of a host request.
//!
//! Source: Linux md: md(4), and `drivers/md/raid{0,1,10,5}.c` of Linux 6.6. Chunks are distributed
//! round robin over the members; RAID 10 is "near 2"; parity rotates left-symmetric, md's default.
//! A write to part of a stripe first reads the blocks that the new parity needs: the old data and
//! parity (read-modify-write) where these are fewer blocks, else the rest of the stripe
//! (reconstruct-write), by rows of 4 KiB. Data of a failed member is computed from the others.
//! Adjacent requests to one member are merged. Left out: the stripe cache, which gathers small
//! sequential writes into whole stripes (such writes are too slow here, and too many); rewriting
//! the rest of a partly written page; the stripe lock; the bitmap, the journal, the offset of data
//! on a member; processor time for parity.

use std::ops::Range;

use drivebay_drive::{Io, Op};
use drivebay_units::SECTOR_BYTES;

use crate::workload::WorkloadError;

/// Most members: the blocks of a stripe are bits of a 64-bit word.
pub const MEMBERS_MAX: usize = 32;
/// Marks a member whose data is valid to the end.
pub const WHOLE: u64 = u64::MAX;
/// Sectors of a parity row: md's stripe head is one page.
const ROW_SECTORS: u64 = 8;

drivebay_units::named! {
    /// Distribution of data over the members.
    pub enum Level {
        /// Striping.
        Raid0 = "0",
        /// Mirroring: every member holds all data.
        Raid1 = "1",
        /// Striping over pairs of mirrors.
        Raid10 = "10",
        /// Striping with one parity block per stripe.
        Raid5 = "5",
        /// Striping with two parity blocks per stripe.
        Raid6 = "6",
    }
}

/// RAID level, number of members, and chunk size.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// RAID level.
    pub level: Level,
    /// Number of members.
    pub members: usize,
    /// Sectors per chunk.
    pub chunk: u64,
}

/// Member commands of a request: those of `first`, and those of `then` once all of `first` are
/// done.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) first: Vec<(usize, Io)>,
    pub(super) then: Vec<(usize, Io)>,
}

/// Per member: end of its valid data; `None` if the member failed.
pub(super) type Standing = [Option<u64>];

fn is_readable(standing: &Standing, member: usize, end: u64) -> bool {
    standing[member].is_some_and(|good| end <= good)
}

impl Plan {
    /// Splits commands that are longer than a member supports.
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
    /// Rejects an impossible layout, and failed members that mean data loss.
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
            return WorkloadError::refuse("members", &members, &allowed);
        }
        let chunk_bytes = self.chunk * SECTOR_BYTES;
        if !(4096..=1 << 24).contains(&chunk_bytes) || !chunk_bytes.is_power_of_two() {
            let allowed = "a power of two from 4 KiB to 16 MiB";
            return WorkloadError::refuse("chunk_bytes", &chunk_bytes, allowed);
        }
        let missing = standing.iter().filter(|&&good| good != Some(WHOLE)).count();
        if !self.survives(standing) {
            let allowed = "fewer: data would be lost";
            return WorkloadError::refuse("failed members", &missing, allowed);
        }
        Ok(())
    }

    /// Blocks with distinct data per stripe.
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

    /// Parity blocks per stripe.
    pub(super) fn parities(&self) -> usize {
        match self.level {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }

    /// Fewest members of a level.
    fn members_min(level: Level) -> usize {
        match level {
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid10 | Level::Raid6 => 4,
        }
    }

    /// Sectors of host data per stripe.
    #[must_use]
    pub fn stripe(&self) -> u64 {
        self.chunk * self.columns() as u64
    }

    /// Sectors of host data, in whole stripes, if the smallest member has `least` sectors.
    #[must_use]
    pub fn sectors(&self, least: u64) -> u64 {
        least / self.chunk * self.stripe()
    }

    /// True if all data can be read or computed from the working members.
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

    /// Returns the member that holds a block of a stripe; blocks are numbered data first, then
    /// parity.
    fn member_of(&self, stripe: u64, block: usize) -> usize {
        let last = self.members - 1 - (stripe % self.members as u64) as usize;
        let after = (block + self.parities()) % self.members;
        (last + after) % self.members
    }

    /// Plans the member commands of a request. A mirrored read goes to the readable member with the
    /// fewest `pending` requests.
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
            let (stripe, from) = (at / self.stripe(), at % self.stripe());
            let until = self.stripe().min(from + (end - at));
            let base = stripe * self.chunk;
            let part = Part { layout: self, standing, io, stripe, base, range: from..until };
            match (self.parities() > 0, io.op) {
                (false, _) => part.plan_copies(&pending, plan),
                (true, Op::Read) => part.plan_read(plan),
                (true, _) => part.plan_write(plan),
            }
            at += until - from;
        }
        if plan.first.is_empty() {
            std::mem::swap(&mut plan.first, &mut plan.then);
        }
        merge(&mut plan.first);
        merge(&mut plan.then);
    }

    /// Plans the reads that recompute sectors of a member, and the write that stores them.
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

/// The part of a request that lies in one stripe.
struct Part<'a> {
    layout: &'a Layout,
    standing: &'a Standing,
    io: Io,
    stripe: u64,
    /// First sector of the stripe on each member.
    base: u64,
    /// Sectors of the stripe's data.
    range: Range<u64>,
}

impl Part<'_> {
    /// Returns the columns, each with its first and last sector.
    fn columns(&self) -> impl Iterator<Item = (usize, u64, u64)> + use<> {
        let (chunk, Range { start: from, end: until }) = (self.layout.chunk, self.range.clone());
        (from / chunk..until.div_ceil(chunk)).map(move |column| {
            let begin = column * chunk;
            (column as usize, from.max(begin) - begin, until.min(begin + chunk) - begin)
        })
    }

    fn member_of(&self, block: usize) -> usize {
        self.layout.member_of(self.stripe, block)
    }

    fn is_readable(&self, member: usize, until: u64) -> bool {
        is_readable(self.standing, member, self.base + until)
    }

    fn command(&self, op: Op, from: u64, until: u64) -> Io {
        Io { op, lba: self.base + from, sectors: (until - from) as u32, ..self.io }
    }

    fn plan_copies(&self, pending: &impl Fn(usize) -> usize, plan: &mut Plan) {
        for (column, from, until) in self.columns() {
            let part = self.command(self.io.op, from, until);
            let copies = self.layout.copies_of(column);
            if self.io.op == Op::Read {
                let readable = copies.filter(|&member| self.is_readable(member, until));
                plan.first
                    .extend(readable.min_by_key(|&member| pending(member)).map(|m| (m, part)));
            } else {
                let working = copies.filter(|&member| self.standing[member].is_some());
                plan.first.extend(working.map(|member| (member, part)));
            }
        }
    }

    fn plan_read(&self, plan: &mut Plan) {
        for (column, from, until) in self.columns() {
            let member = self.member_of(column);
            if self.is_readable(member, until) {
                plan.first.push((member, self.command(self.io.op, from, until)));
            } else {
                self.read_others(rows(from, until), plan);
            }
        }
    }

    /// Reads enough blocks of the rows to compute the others.
    fn read_others(&self, (from, until): (u64, u64), plan: &mut Plan) {
        let blocks = (0..self.layout.members).map(|block| self.member_of(block));
        let readable = blocks.filter(|&member| self.is_readable(member, until));
        let part = Io::new(Op::Read, self.base + from, (until - from) as u32);
        plan.first.extend(readable.take(self.layout.columns()).map(|member| (member, part)));
    }

    /// Plans a write. Rows in which the same columns are written are planned together, as at most
    /// three ranges.
    fn plan_write(&self, plan: &mut Plan) {
        let (chunk, Range { start, end }) = (self.layout.chunk, self.range.clone());
        let (first, last) = (start / chunk, (end - 1) / chunk);
        let (head, tail) = (start % chunk, end - last * chunk);
        let cuts = if first == last {
            [head, tail, tail, tail]
        } else {
            [0, head.min(tail), head.max(tail), chunk]
        };
        for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
            let covers = |&(_, from, until): &(usize, u64, u64)| from <= cut[0] && cut[1] <= until;
            let written = self.columns().filter(covers);
            let written = written.fold(0u64, |all, (column, ..)| all | 1 << column);
            if written > 0 {
                self.plan_rows(rows(cut[0], cut[1]), written, plan);
            }
        }
    }

    fn plan_rows(&self, (from, until): (u64, u64), written: u64, plan: &mut Plan) {
        let columns = self.layout.columns();
        let readable = |&block: &usize| self.is_readable(self.member_of(block), until);
        let working = |&block: &usize| self.standing[self.member_of(block)].is_some();
        let part = |op, block| (self.member_of(block), self.command(op, from, until));
        let is_written = |&block: &usize| written & 1 << block != 0;

        let parity = || (columns..self.layout.members).filter(working);
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
                self.read_others((from, until), plan);
            }
        }
        let data = (0..columns).filter(is_written).filter(working);
        plan.then.extend(data.chain(parity()).map(|block| part(self.io.op, block)));
    }
}

/// Rounds a range of a chunk's sectors out to whole parity rows.
fn rows(from: u64, until: u64) -> (u64, u64) {
    (from / ROW_SECTORS * ROW_SECTORS, until.next_multiple_of(ROW_SECTORS))
}

/// Merges adjacent and overlapping commands of a member.
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
