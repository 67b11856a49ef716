//! Admission of writes: while the flash has no space for more writes, they wait outside and reads
//! pass them.
//!
//! Source: firmware of drives for servers holds writes to the pace at which space is freed, so that
//! concurrent reads are served as at lower rates (SSD-iq, Haas et al., VLDB 2025: reads of a
//! saturated drive in 0.2 ms alongside writes in 6 ms). Model: a write whose data has arrived is
//! admitted when the previous write has got its space, and the buffers of host and garbage
//! collection have a slot for one more flash page. While garbage collection runs, a pacer
//! (`pacer.rs`) also limits admission: in the long run one per interval, a few together. The
//! interval is fixed, or a proportional-integral control loop sets it. The loop keeps the write
//! buffer half full, so that writes come at the even pace at which the flash takes them, whatever
//! delays it. Reads may also feed the pacer: each that is served while a write is held admits one.
//! Without admission, a write that finds no space, and the copies after it, keep the flash core
//! from later commands. guess: all four rules; no maker has published its own. Left out: that a
//! command of many pages needs more space than one.

use drivebay_units::Nanos;

use crate::pacer::Pacer;
use crate::persist::{StateError, ensure, persist};
use crate::profile::AdmissionSpec;

/// Divisor of the proportional control: an interval changes by 1/256 for each 64th that the buffer
/// is fuller than half. guess: an eighth at most.
const PROPORTIONAL: i64 = 256;
/// Divisor of the integral control: the pace moves by 1/64 towards the pace of the pages since the
/// last sample. That is the pace at which the flash takes them while the buffer is full, otherwise
/// the pace of admission, which the distance from half full changes. One stall changes it little.
/// guess: under a second, as writes of a saturated drive are even (SSD-iq).
const FOLLOWS: u64 = 64;
/// Buffer level in 64ths from which the buffer sets a pace. guess: a lower level shows the demand
/// of the host, not the rate of the flash.
const PACED_64: u32 = 16;
/// Buffer level in 64ths from which the buffer itself holds writes; the pace then starts with that
/// of the flash.
const FULL_64: u32 = 56;
/// Buffer level in 64ths below which the buffer holds nothing any more. guess: an eighth; the pace
/// holds it half full.
const EMPTY_64: u32 = 8;
/// Gap between writes that counts as a pause of the host. guess: some times a program.
const PAUSE: Nanos = Nanos(10_000_000);
/// Maximum interval per page, in picoseconds: one second.
const PAGE_PS_MAX: u64 = 1_000_000_000_000;

/// State of the admission of writes.
pub struct Admission {
    spec: AdmissionSpec,
    /// Pacer in nanoseconds. Writes draw their intervals, and may draw ahead what may come
    /// together.
    pacer: Pacer,
    /// Time at which the pace admits the next write.
    turn: Nanos,
    /// Time from which there is space for a write.
    room: Nanos,
    /// Pages that the host wrote before the newest write.
    before: u64,
    /// Pages written by the host at the last sample of the buffer, and time since then without
    /// pauses.
    sampled: u64,
    since_sample: Nanos,
    /// Used part of the buffer at the last sample, in 1/64.
    taken_64: u32,
    /// Interval per page when the buffer is half full, in picoseconds; zero until the buffer was
    /// full.
    page_ps: u64,
    /// True if the buffer was full and has not been near empty since.
    backpressure: bool,
}

persist!(Admission: pacer, turn, room, before, sampled, since_sample, taken_64, page_ps, backpressure; given: spec);

impl Admission {
    /// Creates the state before the first write.
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

    /// Checks that it counted no more pages than the host has `written`.
    pub fn check(&self, written: u64) -> Result<(), StateError> {
        let ordered = self.sampled <= self.before && self.before <= written;
        let bounded = self.page_ps <= PAGE_PS_MAX && self.taken_64 <= 64;
        ensure(ordered && bounded && self.since_sample.0 < 1 << 50, "the admission's counters")?;
        self.pacer.check(PAGE_PS_MAX as i64)
    }

    /// Time from which the next write may pass.
    pub fn open_at(&self) -> Nanos {
        self.room.max(self.turn)
    }

    /// Records a read at `at`. If reads feed the pacer, a held write may pass.
    pub fn follow_read(&mut self, at: Nanos) {
        if self.spec.fed_by_reads && at < self.turn {
            self.feed_time(at);
            self.pacer.feed(self.interval(1).0);
            self.turn = at;
        }
    }

    /// True if the buffer was full and has not been near empty since, as far as sampled.
    pub fn has_backpressure(&self) -> bool {
        self.backpressure
    }

    /// True if the buffer is to be sampled at a write after which the host has `written` this many
    /// pages.
    pub fn sample_due(&self, written: u64) -> bool {
        self.spec.sample_pages.is_some_and(|pages| written - self.sampled >= pages)
    }

    /// Records a sample at a write: used part of the buffer, in 1/64.
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

    /// Records a write admitted at `at`, after which the host has `written` this many pages. There
    /// is space for another from `room` on. `paced` is true if garbage collection runs.
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

    /// Interval of the pace for a write of `pages` pages.
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
