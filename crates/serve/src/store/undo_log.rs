//! Undo log: data that writes have replaced and that a power cut would restore.
//!
//! The store always holds the newest data. The log keeps the replaced sectors in the order of the
//! writes, one entry per mapped page of the drive. When the model has served a write, the engine
//! reports the positions of its pages; at a power cut the model reports which of them had been
//! programmed. The newest version that had been programmed stays and all later ones are undone, as
//! the model's own map falls back. A version that the model has not served yet was never
//! acknowledged, and is undone too. A flush drops all entries older than it, a write with FUA those
//! of its sectors. Simplified: a version that the model undoes counts as lost even if garbage
//! collection had copied it. A TRIM that the model has served stays, as it stays in the model's
//! map.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use drivebay_drive::StreamPage;
use drivebay_units::{Rng, SECTOR_BYTES};
use serde::Deserialize;

/// Sectors of a mapped page of the drive: 4 KiB.
pub const PAGE_SECTORS: u64 = 8;

/// Longest TRIM that a power cut can undo, sectors: 1 MiB.
pub const TRIM_MAX: u64 = 2048;

/// Data without a covering flush that a power cut loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerCutLoss {
    /// All data that the drive had not programmed.
    #[default]
    All,
    /// A random part of it; of some writes only some blocks.
    Random,
    /// All data that no flush covers, programmed or not, up to the size of the write buffer: the
    /// worst case that the specifications allow.
    Unflushed,
}

/// Progress of the model with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet served.
    Submitted,
    /// Assigned to a page of flash, which may be programmed or not.
    Placed(StreamPage),
    /// The page was deallocated.
    Unmapped,
}

/// Sectors of one page as they were before a write.
#[derive(Clone)]
struct Entry {
    /// Number of the write.
    number: u64,
    lba: u64,
    old: Vec<u8>,
    state: State,
}

impl Entry {
    fn end(&self) -> u64 {
        self.lba + self.old.len() as u64 / SECTOR_BYTES
    }

    fn page(&self) -> u64 {
        self.lba / PAGE_SECTORS
    }

    fn part(&self, from: u64, to: u64) -> Option<Entry> {
        let byte = |lba: u64| ((lba - self.lba) * SECTOR_BYTES) as usize;
        (from < to).then(|| Entry {
            number: self.number,
            lba: from,
            old: self.old[byte(from)..byte(to)].to_vec(),
            state: self.state,
        })
    }

    fn is_durable(&self, programmed: impl Fn(StreamPage) -> bool) -> bool {
        match self.state {
            State::Submitted => false,
            State::Placed(place) => programmed(place),
            State::Unmapped => true,
        }
    }
}

/// Undo log of a store.
#[derive(Clone)]
pub(super) struct UndoLog {
    entries: VecDeque<Entry>,
    loss: PowerCutLoss,
    bytes: u64,
    bytes_max: u64,
    /// Size above which the log should be pruned of pages that have been programmed meanwhile,
    /// bytes.
    prune_at: u64,
}

/// Size below which a log is not pruned, bytes.
const PRUNE_MIN: u64 = 1 << 20;

impl UndoLog {
    /// Creates an empty log that never holds more than `bytes_max`.
    pub fn new(loss: PowerCutLoss, bytes_max: u64) -> UndoLog {
        UndoLog { entries: VecDeque::new(), loss, bytes: 0, bytes_max, prune_at: PRUNE_MIN }
    }

    /// Bytes that a power cut could undo.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that the write `number`, the highest so far, replaces `old` at `lba`.
    pub fn record(&mut self, number: u64, lba: u64, old: &[u8]) {
        debug_assert!(self.entries.back().is_none_or(|last| last.number <= number));
        let (mut at, mut rest) = (lba, old);
        while !rest.is_empty() {
            let room = (PAGE_SECTORS - at % PAGE_SECTORS) * SECTOR_BYTES;
            let (piece, after) = rest.split_at(rest.len().min(room as usize));
            let state = State::Submitted;
            self.entries.push_back(Entry { number, lba: at, old: piece.to_vec(), state });
            at += piece.len() as u64 / SECTOR_BYTES;
            rest = after;
        }
        self.bytes += old.len() as u64;
        while self.bytes > self.bytes_max {
            self.drop_oldest();
        }
    }

    /// Records that the model has served the write `number`: `place` returns the position of a
    /// page's newest version.
    pub fn placed(&mut self, number: u64, place: impl Fn(u64) -> Option<StreamPage>) {
        for undo in self.entries_of_write(number) {
            undo.state = place(undo.page()).map_or(State::Unmapped, State::Placed);
        }
    }

    fn entries_of_write(&mut self, number: u64) -> impl Iterator<Item = &mut Entry> {
        let first = self.entries.partition_point(|undo| undo.number < number);
        self.entries.range_mut(first..).take_while(move |undo| undo.number == number)
    }

    /// True if the log is large enough for [`UndoLog::prune`] to be worth its time.
    pub fn is_long(&self) -> bool {
        self.loss != PowerCutLoss::Unflushed && self.bytes > self.prune_at
    }

    /// Drops versions that have been programmed, and older versions of the same pages.
    pub fn prune(&mut self, programmed: impl Fn(StreamPage) -> bool) {
        if self.loss == PowerCutLoss::Unflushed {
            return;
        }
        let durable = self.newest_durable(programmed);
        self.entries
            .retain(|undo| durable.get(&undo.page()).is_none_or(|&newest| undo.number > newest));
        self.count_bytes();
        self.prune_at = (2 * self.bytes).max(PRUNE_MIN);
    }

    /// Number of the newest durable write, by page.
    fn newest_durable(&self, programmed: impl Fn(StreamPage) -> bool) -> HashMap<u64, u64> {
        let durable = self.entries.iter().filter(|undo| undo.is_durable(&programmed));
        durable.map(|undo| (undo.page(), undo.number)).collect()
    }

    fn count_bytes(&mut self) {
        self.bytes = self.entries.iter().map(|undo| undo.old.len() as u64).sum();
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.bytes -= oldest.old.len() as u64;
        }
    }

    /// Records that all writes up to `number` are durable.
    pub fn flush(&mut self, number: u64) {
        while self.entries.front().is_some_and(|oldest| oldest.number <= number) {
            self.drop_oldest();
        }
    }

    /// Records that the data of write `number` on these sectors is durable; no older version can
    /// return there.
    pub fn flush_range(&mut self, number: u64, sectors: Range<u64>) {
        let Range { start, end } = sectors;
        let touched = |u: &Entry| u.number <= number && u.lba < end && start < u.end();
        if !self.entries.iter().any(touched) {
            return;
        }
        for undo in std::mem::take(&mut self.entries) {
            if touched(&undo) {
                let parts = [undo.part(undo.lba, start), undo.part(end, undo.end())];
                self.entries.extend(parts.into_iter().flatten());
            } else {
                self.entries.push_back(undo);
            }
        }
        self.count_bytes();
    }

    /// Handles a power cut. Returns the data to write back, in this order. `block_sectors` returns
    /// the size of the host's block at a sector; a block is never torn.
    pub fn roll_back(
        &mut self,
        programmed: impl Fn(StreamPage) -> bool,
        block_sectors: impl Fn(u64) -> u64,
        rng: &mut Rng,
    ) -> Vec<(u64, Vec<u8>)> {
        self.prune(programmed);
        self.bytes = 0;
        let newest_first = std::mem::take(&mut self.entries).into_iter().rev();
        match self.loss {
            PowerCutLoss::All | PowerCutLoss::Unflushed => {
                newest_first.map(|undo| (undo.lba, undo.old)).collect()
            }
            PowerCutLoss::Random => random_part(newest_first, block_sectors, rng),
        }
    }
}

/// Undoes all, none or some blocks of each write; under a sector that stays, older writes do not
/// matter any more.
fn random_part(
    newest_first: impl Iterator<Item = Entry>,
    block_sectors: impl Fn(u64) -> u64,
    rng: &mut Rng,
) -> Vec<(u64, Vec<u8>)> {
    let mut back = Vec::new();
    let mut stay = HashSet::new();
    let (mut number, mut fate) = (None, 0);
    for undo in newest_first {
        if number != Some(undo.number) {
            // Of five writes two are lost, two stay, one is torn.
            (number, fate) = (Some(undo.number), rng.below(5));
        }
        let block = block_sectors(undo.lba);
        let (mut drawn, mut is_block_lost) = (None, false);
        for (i, old) in undo.old.chunks(SECTOR_BYTES as usize).enumerate() {
            let lba = undo.lba + i as u64;
            if stay.contains(&lba) {
                continue;
            }
            let lost = match fate {
                0 | 1 => true,
                2 | 3 => false,
                _ if drawn == Some(lba / block) => is_block_lost,
                _ => {
                    (drawn, is_block_lost) = (Some(lba / block), rng.below(2) == 0);
                    is_block_lost
                }
            };
            if lost {
                back.push((lba, old.to_vec()));
            } else {
                stay.insert(lba);
            }
        }
    }
    back
}
