//! Amount of garbage collection after the host's writes: a control loop on free space, carried out
//! by pacers.
//!
//! Model: for each page that the host writes one must be reclaimed. A victim with a share u of
//! valid pages gives 1 - u of its pages for u copied, so this takes u / (1 - u) copies. That
//! balance is multiplied by a gain: below one while more than the target is free, above one below
//! it, by the distance from the target. So free space settles at the target, and write
//! amplification follows from the valid pages of the victims there: policy, spare space and load
//! decide it, no count of pages. Per page that the host writes, garbage collection takes no more of
//! the flash core than its duty limit, which grows below the target. It binds after a fill, when
//! victims are nearly full; then free space falls until they are not. With `gc.duty_pages_max` the
//! duty limit counts only the first pages of a command: firmware that copies a bounded piece
//! between two commands, whatever their size. With `gc.runs_behind` it runs once for each word line
//! that the host fills instead of after each command: its reads overlap on the dies then, and
//! writes after them wait for the flash core.
//!
//! Background collection (Yan et al., "Tiny-Tail Flash", FAST 2017): while the write buffer has
//! space, the debt adds up. So many pages a second are copied in the background, and once more than
//! that is due a round is made: a word line of all planes of every die at once, before whose end no
//! write is admitted; reads pass. Once the buffer is full, collection runs after word lines again,
//! so that a saturated drive is even.
//!
//! Sources: the balance is arithmetic; u / (1 - u) as in Desnoyers (SYSTOR 2012). That firmware
//! paces so is a hypothesis: docs/adr/0024-garbage-collection-as-a-control-loop.md. guess:
//! background and rounds, in view of SSD-iq's latencies (Haas et al., VLDB 2025), where below
//! saturation some writes of the 7450s wait milliseconds. Left out: the flash core's work for
//! copies in the background and in rounds, as if another core did it.

use drivebay_units::Nanos;

use crate::pacer::{Pacer, TOKENS_MAX};
use crate::persist::{StateError, persist};
use crate::policy_plugin::Pace;
use crate::profile::{BackgroundSpec, PAGES_MAX, PacingSpec};

/// Debts of garbage collection, and its budgets.
#[derive(Debug)]
pub struct Ledger {
    spec: PacingSpec,
    /// Work in the background while the write buffer has room.
    deferral: Option<BackgroundSpec>,
    /// Time of the flash core, nanoseconds.
    core_time: Pacer,
    /// Pages to be reclaimed, in 1/65536.
    debt: Pacer,
    /// Pages that the host wrote since it ran.
    written: Pacer,
    /// Time in which pages are copied in the background, nanoseconds.
    background: Pacer,
}

persist!(Ledger: core_time, debt, written, background; given: spec, deferral);

impl Ledger {
    pub fn new(spec: PacingSpec, deferral: Option<BackgroundSpec>) -> Ledger {
        let empty = Pacer::default();
        Ledger { spec, deferral, core_time: empty, debt: empty, written: empty, background: empty }
    }

    /// Checks that no pacer holds more than it can.
    pub fn check(&self) -> Result<(), StateError> {
        self.core_time.check(0)?;
        self.debt.check(if self.deferral.is_some() { TOKENS_MAX } else { 0 })?;
        self.written.check(self.spec.every_pages as i64 - 1)?;
        self.background.check(TOKENS_MAX)
    }

    /// True if garbage collection runs at this much free space.
    #[inline(always)]
    pub fn starts_at(&self, free: u64) -> bool {
        free < self.spec.start_free
    }

    /// Counts `pages` that the host wrote; returns the pages that collection runs for now, if it is
    /// due.
    #[inline(always)]
    pub fn due(&mut self, pages: u64) -> Option<u64> {
        self.written.feed(pages);
        self.written.draw_quantum(self.spec.every_pages)
    }

    /// The quantum of foreground collection, in victims.
    pub fn foreground_victims(&self) -> u32 {
        self.spec.foreground_victims
    }

    /// True if work may be deferred.
    #[inline(always)]
    pub fn may_defer(&self) -> bool {
        self.deferral.is_some()
    }

    /// The control loop's pace at this much free space.
    #[inline(always)]
    pub fn own(&self, free: u64) -> Pace {
        Pace { gain_256: self.spec.gain_256(free), duty_256: self.spec.duty_256(free) }
    }

    /// Adds the debt of `pages` that the host wrote; `duty`: the duty limit at the present clock.
    #[inline(always)]
    pub fn add_debt(&mut self, pages: u64, duty: Nanos, pace: Pace) {
        let pages = pages.min(PAGES_MAX);
        self.core_time.feed((duty.0 * pages.min(self.spec.duty_pages) * pace.duty_256) >> 8);
        self.debt.feed((pages * pace.gain_256) << 8);
    }

    /// True if another flash page may be copied after the command.
    #[inline(always)]
    pub fn allows(&self) -> bool {
        self.core_time.allows() && self.debt.allows()
    }

    /// Spends core time and reclaimed pages (in 1/65536) of a copy.
    #[inline(always)]
    pub fn spend(&mut self, time: Nanos, given: u64) {
        self.core_time.draw(time.0);
        self.debt.draw(given);
    }

    /// Drops what was not used after a command; overdrafts stay.
    #[inline(always)]
    pub fn settle(&mut self) {
        self.core_time.keep(0);
        self.debt.keep(0);
    }

    /// Moves the time on to `at` and defers what is due; time without debts allows no later copies.
    pub fn defer(&mut self, had_debt: bool, at: Nanos) {
        self.core_time.keep(0);
        self.background.feed_time(at, TOKENS_MAX);
        if !had_debt {
            self.background.keep(0);
        }
    }

    /// True if there is a debt.
    pub fn has_debt(&self) -> bool {
        self.debt.allows()
    }

    /// Counts pages copied in the background and the pages that this reclaimed; returns true if
    /// another flash page may be copied.
    pub fn copies_in_background(&mut self, pages: u64, given: u64) -> bool {
        let Some(deferral) = &self.deferral else { return false };
        self.background.draw(deferral.interval.times(pages).0);
        self.debt.draw(given);
        self.debt.allows() && self.background.tokens() >= 0
    }

    /// Pages to be copied in a round now, if one is due, of a victim that gives so much for each,
    /// in 1/65536.
    pub fn round_due(&self, given_per_copy: u64) -> Option<u64> {
        let pages = self.deferral?.round_pages;
        let gives = given_per_copy.saturating_mul(pages) as i64;
        (gives > 0 && self.debt.tokens() > gives).then_some(pages)
    }

    /// Spends the pages that a copy of a round reclaimed.
    pub fn spend_in_round(&mut self, given: u64) {
        self.debt.draw(given);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/firmware_gc_pacing.rs"]
mod tests;
