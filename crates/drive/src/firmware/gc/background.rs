//! Garbage collection that is put off: a little of it in the background, the rest in rounds.
//!
//! Model: while the host's writes leave the write buffer room, what is owed for them (`pacing.rs`) adds up. So many pages a
//! second are copied in the background while something is owed. Once a round would not give more than is owed, one is made: a word
//! line of all planes of every die is copied at once, and no write is let in before the time at which that would be programmed if
//! no read came; reads pass. How long a round takes is the flash's to say. Once the buffer is full, collection runs behind
//! the host's word lines, until the buffer is near empty: so a drive that is saturated is even, and one that is nearly so may be slower.
//! Background and foreground collection are the usual terms (Yan et al., "Tiny-Tail Flash", FAST 2017, on what the latter
//! does to tails). guess: that a drive does this, the size of a round and when it is made; no maker has published its own. In view
//! of SSD-iq's latencies (Haas et al., VLDB 2025), where below saturation some writes of the 7450s wait milliseconds.
//! Left out: the flash core's work for these copies, which leaves its commands alone, as if another core did it; the restarts of
//! a round's programs (`flash/nand/suspension.rs`), for which writes would wait twice as long as published.

use drivebay_units::Nanos;

use crate::persist::{StateError, TIME_MAX, ensure, persist};
use crate::profile::BackgroundSpec;

/// What has been put off.
#[derive(Debug)]
pub struct Background {
    spec: BackgroundSpec,
    /// Pages to be given back, in 1/65536; below zero what copies gave beyond.
    owed: i64,
    /// When the next page may be copied in the background.
    next_at: Nanos,
    /// No write is let in before this: the end of the newest round.
    writes_from: Nanos,
}

persist!(Background: owed, next_at, writes_from; given: spec);

impl Background {
    pub fn new(spec: BackgroundSpec) -> Background {
        Background { spec, owed: 0, next_at: Nanos::ZERO, writes_from: Nanos::ZERO }
    }

    /// Whether what is remembered can be.
    pub fn check(&self) -> Result<(), StateError> {
        let owed = self.owed.unsigned_abs() <= TIME_MAX;
        ensure(owed, "garbage collection that was put off")
    }

    /// Pages are to be given back, in 1/65536, at `at`. Time without debts copies nothing later.
    pub fn owe(&mut self, given: u64, at: Nanos) {
        if self.owed <= 0 {
            self.next_at = self.next_at.max(at);
        }
        // No more than that: where victims give nothing, rounds are no help.
        self.owed = (self.owed + given as i64).min(1 << 50);
    }

    /// Whether a page is to be copied in the background by `at`.
    pub fn copies_by(&self, at: Nanos) -> bool {
        self.owed > 0 && self.next_at <= at
    }

    /// So many pages were copied in the background, which gave so much.
    pub fn note_copies(&mut self, pages: u64, given: u64) {
        self.next_at = self.next_at.after(self.spec.interval.times(pages));
        self.owed -= given as i64;
    }

    /// Pages to be copied in a round now, if one is due, of a victim that gives so much for each, in 1/65536.
    pub fn round_due(&self, given_per_copy: u64) -> Option<u64> {
        let gives = given_per_copy.saturating_mul(self.spec.round_pages) as i64;
        (gives > 0 && self.owed > gives).then_some(self.spec.round_pages)
    }

    /// A round's copy gave so much.
    pub fn note_round_copy(&mut self, given: u64) {
        self.owed -= given as i64;
    }

    /// A round was made, whose programs end at `end`.
    pub fn note_round(&mut self, end: Nanos) {
        self.writes_from = end;
    }

    /// Since when writes may be let in.
    pub fn writes_from(&self) -> Nanos {
        self.writes_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn background() -> Background {
        Background::new(BackgroundSpec { interval: Nanos(100), round_pages: 10 })
    }

    #[test]
    fn so_many_pages_are_copied_in_a_second_while_some_are_owed() {
        let mut background = background();
        assert!(!background.copies_by(Nanos(5000)));
        background.owe(7 << 16, Nanos(1000));
        let mut times = Vec::new();
        for at in (0..3000).map(Nanos) {
            while background.copies_by(at) {
                background.note_copies(2, 1 << 16);
                times.push(at.0);
            }
        }
        assert_eq!(times, [1000, 1200, 1400, 1600, 1800, 2000, 2200]);
        background.owe(1 << 16, Nanos(9000));
        assert!(!background.copies_by(Nanos(8999)), "what was not owed then is not made up for");
    }

    #[test]
    fn a_round_is_due_when_more_is_owed_than_it_gives() {
        let mut background = background();
        background.owe(5 << 16, Nanos::ZERO);
        assert_eq!(background.round_due(1 << 15), None);
        background.owe(1, Nanos::ZERO);
        assert_eq!(background.round_due(1 << 15), Some(10));
        assert_eq!(background.round_due(0), None, "no victim");
        background.note_round_copy(1 << 15);
        assert_eq!(background.round_due(1 << 15), None);
    }

    #[test]
    fn what_cannot_be_is_no_state() {
        let mut background = background();
        assert!(background.check().is_ok());
        background.owed = i64::MIN;
        assert!(background.check().is_err());
    }
}
