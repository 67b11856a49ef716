//! What a power cut would take: the data that writes have replaced and that is not safe yet.
//!
//! The store always holds the newest data; this is the way back, a log of old sectors in the order of
//! the writes, a piece per mapped page of the drive. When the model has served a write, the engine says
//! where its pages were put; a cut asks the model which of them had been programmed by then. The newest
//! version that had been stays, all after it go, as the model's own map falls back. A version that the
//! model has not served yet was never answered, and goes too.
//! A flush drops what is older than it, a write with FUA what lies under it.
//! Simplified: what the model takes back although collection had copied it counts as lost. A TRIM that
//! the model has served stays, as it stays in the model's map.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use drivebay_drive::StreamPage;
use drivebay_units::{Rng, SECTOR_BYTES};
use serde::Deserialize;

/// Sectors of a mapped page of the drive: 4 KiB.
pub const PAGE_SECTORS: u64 = 8;

/// Longest TRIM that can be taken back, sectors: 1 MiB.
pub const TRIM_MAX: u64 = 2048;

/// How much of what is not safe is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// All that the drive had not programmed.
    #[default]
    All,
    /// A random part of it; of some writes only some sectors.
    Random,
    /// All that no flush covers, programmed or not, up to the size of the write buffer: the worst that
    /// a specification allows.
    Unflushed,
}

/// How far the model is with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Not yet served.
    Asked,
    /// On its way to flash.
    Placed(StreamPage),
    /// Not data of the drive: the page is unmapped.
    Unmapped,
}

/// Sectors of one page as they were before a write.
struct Undo {
    /// The write's number.
    number: u64,
    lba: u64,
    old: Vec<u8>,
    standing: Standing,
}

impl Undo {
    fn end(&self) -> u64 {
        self.lba + self.old.len() as u64 / SECTOR_BYTES
    }

    fn page(&self) -> u64 {
        self.lba / PAGE_SECTORS
    }

    fn part(&self, from: u64, to: u64) -> Option<Undo> {
        let byte = |lba: u64| ((lba - self.lba) * SECTOR_BYTES) as usize;
        (from < to).then(|| Undo {
            number: self.number,
            lba: from,
            old: self.old[byte(from)..byte(to)].to_vec(),
            standing: self.standing,
        })
    }

    fn is_safe(&self, programmed: impl Fn(StreamPage) -> bool) -> bool {
        match self.standing {
            Standing::Asked => false,
            Standing::Placed(place) => programmed(place),
            Standing::Unmapped => true,
        }
    }
}

/// The way back to what is safe.
pub struct Volatile {
    log: VecDeque<Undo>,
    loss: Loss,
    bytes: u64,
    bytes_max: u64,
    /// Beyond so many bytes it is worth asking what has been programmed meanwhile.
    sweep_at: u64,
}

/// Below this the log is not swept, bytes.
const SWEEP_MIN: u64 = 1 << 20;

impl Volatile {
    /// Nothing to lose yet; never more than `bytes_max`.
    pub fn new(loss: Loss, bytes_max: u64) -> Volatile {
        Volatile { log: VecDeque::new(), loss, bytes: 0, bytes_max, sweep_at: SWEEP_MIN }
    }

    /// Bytes that could be lost.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The write `number`, the highest so far, replaces `old` at `lba`.
    pub fn replace(&mut self, number: u64, lba: u64, old: &[u8]) {
        debug_assert!(self.log.back().is_none_or(|last| last.number <= number));
        let (mut at, mut rest) = (lba, old);
        while !rest.is_empty() {
            let room = (PAGE_SECTORS - at % PAGE_SECTORS) * SECTOR_BYTES;
            let (piece, after) = rest.split_at(rest.len().min(room as usize));
            let standing = Standing::Asked;
            self.log.push_back(Undo { number, lba: at, old: piece.to_vec(), standing });
            at += piece.len() as u64 / SECTOR_BYTES;
            rest = after;
        }
        self.bytes += old.len() as u64;
        while self.bytes > self.bytes_max {
            self.drop_oldest();
        }
    }

    /// The model has served the write `number`: `place` says where a page's newest version was put.
    pub fn placed(&mut self, number: u64, place: impl Fn(u64) -> Option<StreamPage>) {
        for undo in self.of(number) {
            undo.standing = place(undo.page()).map_or(Standing::Unmapped, Standing::Placed);
        }
    }

    fn of(&mut self, number: u64) -> impl Iterator<Item = &mut Undo> {
        let first = self.log.partition_point(|undo| undo.number < number);
        self.log.range_mut(first..).take_while(move |undo| undo.number == number)
    }

    /// Whether it has grown so much that [`Volatile::sweep`] is worth its time.
    pub fn is_long(&self) -> bool {
        self.loss != Loss::Unflushed && self.bytes > self.sweep_at
    }

    /// Forgets what has been programmed, and what is older in the same pages.
    pub fn sweep(&mut self, programmed: impl Fn(StreamPage) -> bool) {
        if self.loss == Loss::Unflushed {
            return;
        }
        let safe = self.newest_safe(programmed);
        self.log.retain(|undo| safe.get(&undo.page()).is_none_or(|&safe| undo.number > safe));
        self.weigh();
        self.sweep_at = (2 * self.bytes).max(SWEEP_MIN);
    }

    /// By page the number of its newest write that is safe.
    fn newest_safe(&self, programmed: impl Fn(StreamPage) -> bool) -> HashMap<u64, u64> {
        let safe = self.log.iter().filter(|undo| undo.is_safe(&programmed));
        safe.map(|undo| (undo.page(), undo.number)).collect()
    }

    fn weigh(&mut self) {
        self.bytes = self.log.iter().map(|undo| undo.old.len() as u64).sum();
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.log.pop_front() {
            self.bytes -= oldest.old.len() as u64;
        }
    }

    /// All writes up to `number` are safe.
    pub fn settle(&mut self, number: u64) {
        while self.log.front().is_some_and(|oldest| oldest.number <= number) {
            self.drop_oldest();
        }
    }

    /// What the write `number` put on these sectors is safe; so nothing older there comes back.
    pub fn settle_range(&mut self, number: u64, sectors: Range<u64>) {
        let Range { start, end } = sectors;
        let touched = |u: &Undo| u.number <= number && u.lba < end && start < u.end();
        if !self.log.iter().any(touched) {
            return;
        }
        for undo in std::mem::take(&mut self.log) {
            if touched(&undo) {
                let parts = [undo.part(undo.lba, start), undo.part(end, undo.end())];
                self.log.extend(parts.into_iter().flatten());
            } else {
                self.log.push_back(undo);
            }
        }
        self.weigh();
    }

    /// The power goes. Returns what is to be written back, in this order.
    pub fn cut(
        &mut self,
        programmed: impl Fn(StreamPage) -> bool,
        rng: &mut Rng,
    ) -> Vec<(u64, Vec<u8>)> {
        self.sweep(programmed);
        self.bytes = 0;
        let newest_first = std::mem::take(&mut self.log).into_iter().rev();
        match self.loss {
            Loss::All | Loss::Unflushed => newest_first.map(|undo| (undo.lba, undo.old)).collect(),
            Loss::Random => random_part(newest_first, rng),
        }
    }
}

/// Of each write all, nothing or some sectors are taken back; under a sector that stays, no older write
/// of it matters any more.
fn random_part(newest_first: impl Iterator<Item = Undo>, rng: &mut Rng) -> Vec<(u64, Vec<u8>)> {
    let mut back = Vec::new();
    let mut stay = HashSet::new();
    let (mut of, mut fate) = (None, 0);
    for undo in newest_first {
        if of != Some(undo.number) {
            // Out of five writes two are lost, two stay, one is torn.
            (of, fate) = (Some(undo.number), rng.below(5));
        }
        for (i, old) in undo.old.chunks(SECTOR_BYTES as usize).enumerate() {
            let lba = undo.lba + i as u64;
            if stay.contains(&lba) {
                continue;
            }
            let lost = match fate {
                0 | 1 => true,
                2 | 3 => false,
                _ => rng.below(2) == 0,
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
