//! Admission of writes: while the flash has no room for more, they wait outside and reads pass
//! them.
//!
//! Source: firmware of drives for servers holds writes to the pace at which space comes free, so
//! that reads beside them are served as at lower rates (SSD-iq, Haas et al., VLDB 2025: reads of a
//! saturated drive in 0.2 ms beside writes in 6 ms). Model: a write whose data has come is admitted
//! when the one before it has found room, and the buffers of host and garbage collection have a
//! place for one flash page more. While garbage collection runs, a pacer (`pacer.rs`) admits them
//! as well: one in an interval in the long run, a few together. The interval is fixed, or a
//! proportional-integral control loop sets it, which keeps the write buffer half full, so that
//! writes come at the even pace at which the flash takes them, whatever holds it up. Reads may feed
//! the pacer too: each that is served while a write is held admits one. Without admission a write
//! that finds no room, and the copies behind it, keep the flash core from what comes after them.
//! guess: all four rules; no maker has published its own. Left out: that a command of many pages
//! needs more room than one.

use drivebay_units::Nanos;

use crate::pacer::Pacer;
use crate::persist::{StateError, ensure, persist};
use crate::profile::AdmissionSpec;

/// An interval moves by one in so many for each 64th that the buffer is fuller than half. guess: an
/// eighth at most.
const PROPORTIONAL: i64 = 256;
/// The pace follows that of the pages since the last sample by one in so many: that at which the
/// flash takes them while the buffer is full, else that at which they were admitted, which the
/// distance from half moves; one stall moves it little. guess: under a second, as writes of a
/// saturated drive are even (SSD-iq).
const FOLLOWS: u64 = 64;
/// Fuller than so many 64ths the buffer sets a pace. guess: less is what the host asks for, not
/// what the flash takes.
const PACED_64: u32 = 16;
/// Fuller than so many 64ths it holds writes up by itself, and the pace begins with that of the
/// flash.
const FULL_64: u32 = 56;
/// Emptier than so many 64ths it holds nothing up any more. guess: an eighth; the pace holds it
/// half full.
const EMPTY_64: u32 = 8;
/// Longer gaps between writes are pauses of the host. guess: some times a program.
const PAUSE: Nanos = Nanos(10_000_000);
/// Longest interval for a page: a second.
const PAGE_PS_MAX: u64 = 1_000_000_000_000;

/// When writes are admitted.
pub struct Admission {
    spec: AdmissionSpec,
    /// Nanoseconds; writes draw their intervals, ahead by what may come together.
    pacer: Pacer,
    /// When the next comes by the pace.
    turn: Nanos,
    /// No write comes before there is room.
    room: Nanos,
    /// Pages that the host wrote before the newest write.
    before: u64,
    /// The pages at the last sample of the buffer, and the time since then, pauses left out.
    sampled: u64,
    since_sample: Nanos,
    /// How much of the buffer was taken then, in 1/64.
    taken_64: u32,
    /// Picoseconds for each page at half; zero until the buffer was full.
    page_ps: u64,
    /// The buffer was full, and has not been near empty since.
    backpressure: bool,
}

persist!(Admission: pacer, turn, room, before, sampled, since_sample, taken_64, page_ps, backpressure; given: spec);

impl Admission {
    /// Nothing admitted yet.
    pub fn new(spec: AdmissionSpec) -> Admission {
        Admission {
            spec,
            pacer: Pacer::default(),
            turn: Nanos::ZERO,
            room: Nanos::ZERO,
            before: 0,
            sampled: 0,
            since_sample: Nanos::ZERO,
            taken_64: 0,
            page_ps: 0,
            backpressure: false,
        }
    }

    /// Whether it counted no more than what the host has `written`.
    pub fn check(&self, written: u64) -> Result<(), StateError> {
        let ordered = self.sampled <= self.before && self.before <= written;
        let bounded = self.page_ps <= PAGE_PS_MAX && self.taken_64 <= 64;
        ensure(ordered && bounded && self.since_sample.0 < 1 << 50, "the admission's counters")?;
        self.pacer.check(PAGE_PS_MAX as i64)
    }

    /// From when on the next write may pass.
    pub fn open_at(&self) -> Nanos {
        self.room.max(self.turn)
    }

    /// A read came at `at`: where that feeds the pacer, a write that it holds may pass.
    pub fn follow_read(&mut self, at: Nanos) {
        if self.spec.fed_by_reads && at < self.turn {
            self.feed_time(at);
            self.pacer.feed(self.interval(1).0);
            self.turn = at;
        }
    }

    /// Whether the buffer was full and has not been near empty since, as far as was sampled.
    pub fn has_backpressure(&self) -> bool {
        self.backpressure
    }

    /// Whether a write after which the host has written so many pages is one to sample the buffer
    /// at.
    pub fn sample_due(&self, written: u64) -> bool {
        self.spec.sample_pages.is_some_and(|pages| written - self.sampled >= pages)
    }

    /// At a write so much of the buffer was taken, in 1/64.
    pub fn sample(&mut self, written: u64, taken_64: u32) {
        let page_ps = (self.since_sample.0 * 1000 / (written - self.sampled)).min(PAGE_PS_MAX);
        self.page_ps = match self.page_ps {
            0 if taken_64 >= FULL_64 => page_ps,
            before if before == 0 || taken_64 < PACED_64 => before,
            before => before + page_ps / FOLLOWS - before / FOLLOWS,
        };
        self.backpressure = taken_64 >= FULL_64 || self.backpressure && taken_64 >= EMPTY_64;
        (self.sampled, self.since_sample, self.taken_64) = (written, Nanos::ZERO, taken_64);
    }

    /// A write was admitted at `at`, after which the host has `written` so many pages, and there is
    /// room for another from `room` on; `paced`: garbage collection runs.
    pub fn admit(&mut self, at: Nanos, room: Nanos, paced: bool, written: u64) {
        self.room = room;
        let pages = written - self.before;
        self.before = written;
        self.feed_time(at);
        self.turn = Nanos::ZERO;
        if paced {
            let interval = self.interval(pages);
            self.pacer.draw(interval.0);
            let due = at.0.saturating_add_signed(-self.pacer.tokens());
            self.turn = Nanos(due.saturating_sub(interval.times(self.spec.together).0));
        }
    }

    fn feed_time(&mut self, at: Nanos) {
        let elapsed = self.pacer.feed_time(at, 0);
        self.since_sample = self.since_sample.after(elapsed.min(PAUSE));
    }

    /// How long a write of so many pages takes of the pace.
    fn interval(&self, pages: u64) -> Nanos {
        if self.taken_64 < PACED_64 {
            return self.spec.interval;
        }
        let above = i64::from(self.taken_64) - 32;
        let page_ps = self.page_ps as i64 + self.page_ps as i64 * above / PROPORTIONAL;
        self.spec.interval.max(Nanos(pages.saturating_mul(page_ps as u64) / 1000))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/host_admission.rs"]
mod tests;
