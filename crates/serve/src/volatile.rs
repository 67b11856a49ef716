//! What a power cut would take: the data that writes have replaced and no flush has made safe.
//!
//! The store always holds the newest data; this is the way back, a log of old sectors in the order of
//! the writes. A flush drops what is older than it, a write with FUA what lies under it.
//! The log holds as much as the drive's write buffer: what is pushed out of it has been programmed.
//! Simplified: of the model's buffer only the size is used, not which page is on flash already, so
//! between two flushes more is lost than the model's own [`Recovery`] counts: the worst the
//! specification allows. A TRIM of more than [`TRIM_MAX`] sectors is safe at once.
//!
//! [`Recovery`]: drivebay_drive::Recovery

use std::collections::{HashSet, VecDeque};

use drivebay_units::{Rng, SECTOR_BYTES};
use serde::Deserialize;

/// Longest TRIM that can be taken back, sectors: 1 MiB.
pub const TRIM_MAX: u64 = 2048;

/// How much of what is not safe is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// All of it.
    #[default]
    All,
    /// A random part; of some writes only some sectors.
    Random,
}

/// Sectors as they were before a write.
struct Undo {
    /// The write's number.
    number: u64,
    lba: u64,
    old: Vec<u8>,
}

impl Undo {
    fn end(&self) -> u64 {
        self.lba + self.old.len() as u64 / SECTOR_BYTES
    }

    fn part(&self, from: u64, to: u64) -> Option<Undo> {
        let byte = |lba: u64| ((lba - self.lba) * SECTOR_BYTES) as usize;
        (from < to).then(|| Undo {
            number: self.number,
            lba: from,
            old: self.old[byte(from)..byte(to)].to_vec(),
        })
    }
}

/// The way back to what is safe.
pub struct Volatile {
    log: VecDeque<Undo>,
    bytes: u64,
    bytes_max: u64,
}

impl Volatile {
    /// Nothing to lose yet; never more than `bytes_max`.
    pub fn new(bytes_max: u64) -> Volatile {
        Volatile { log: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Bytes that could be lost.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The write `number`, the highest so far, replaces `old` at `lba`.
    pub fn replace(&mut self, number: u64, lba: u64, old: Vec<u8>) {
        debug_assert!(self.log.back().is_none_or(|last| last.number <= number));
        self.bytes += old.len() as u64;
        self.log.push_back(Undo { number, lba, old });
        while self.bytes > self.bytes_max {
            self.drop_oldest();
        }
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
    pub fn settle_range(&mut self, number: u64, lba: u64, sectors: u64) {
        let end = lba + sectors;
        let touched = |u: &Undo| u.number <= number && u.lba < end && lba < u.end();
        if !self.log.iter().any(touched) {
            return;
        }
        for undo in std::mem::take(&mut self.log) {
            if touched(&undo) {
                let parts = [undo.part(undo.lba, lba), undo.part(end, undo.end())];
                self.log.extend(parts.into_iter().flatten());
            } else {
                self.log.push_back(undo);
            }
        }
        self.bytes = self.log.iter().map(|undo| undo.old.len() as u64).sum();
    }

    /// The power goes. Returns what is to be written back, in this order.
    pub fn cut(&mut self, loss: Loss, rng: &mut Rng) -> Vec<(u64, Vec<u8>)> {
        self.bytes = 0;
        let newest_first = std::mem::take(&mut self.log).into_iter().rev();
        match loss {
            Loss::All => newest_first.map(|undo| (undo.lba, undo.old)).collect(),
            Loss::Random => random_part(newest_first, rng),
        }
    }
}

/// Of each write all, nothing or some sectors are taken back; under a sector that stays, no older write
/// of it matters any more.
fn random_part(newest_first: impl Iterator<Item = Undo>, rng: &mut Rng) -> Vec<(u64, Vec<u8>)> {
    let mut back = Vec::new();
    let mut stay = HashSet::new();
    for undo in newest_first {
        // Out of five writes two are lost, two stay, one is torn.
        let fate = rng.below(5);
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
