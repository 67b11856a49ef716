//! Admission of writes: while the flash has no room for more, they wait outside and reads pass them.
//!
//! Source: firmware of drives for servers holds writes to the pace at which space comes free, so that reads
//! beside them are served as at lower rates (SSD-iq, Haas et al., VLDB 2025: reads of a saturated drive in 0.2 ms beside
//! writes in 6 ms). Model: a write whose data has come is let in when the one before it has found room, and the
//! buffers of host and garbage collection have a place for one flash page more. Where the profile says so, writes are
//! also paced while garbage collection runs, by a virtual scheduling algorithm (ITU-T I.371): one in an
//! interval in the long run, a few together. The interval is fixed, or balanced: a proportional-integral control loop
//! keeps the write buffer half full, so that writes come at the even pace at which the flash takes them, whatever holds it
//! up. Where reads release writes, each read that is served lets one more pass, as firmware looks at those that wait whenever
//! it has served something. Without admission a write that finds no room, and the copies behind it, keep the flash core from what comes
//! after them.
//! guess: all four rules; no maker has published its own. Left out: that a command of many pages needs more room than
//! one.

use drivebay_units::Nanos;

use crate::persist::{StateError, ensure, persist};
use crate::profile::AdmissionSpec;

/// An interval moves by one in so many for each 64th that the buffer is fuller than half. guess: an eighth at most.
const PROPORTIONAL: i64 = 256;
/// The pace follows that of the pages since the last look by one in so many: that at which the flash takes them while the
/// buffer is full, else that at which they were let in, which the distance from half moves; one stall moves it little.
/// guess: under a second, as writes of a saturated drive are even (SSD-iq).
const FOLLOWS: u64 = 64;
/// Fuller than so many 64ths the buffer sets a pace. guess: less is what the host asks for, not what the flash takes.
const PACED_64: u32 = 16;
/// Fuller than so many 64ths it holds writes up by itself, and the pace begins with that of the flash.
const FULL_64: u32 = 56;
/// Emptier than so many 64ths it presses no more. guess: an eighth; the pace holds it half full.
const EMPTY_64: u32 = 8;
/// Longer gaps between writes are pauses of the host. guess: some times a program.
const PAUSE: Nanos = Nanos(10_000_000);
/// Longest interval for a page: a second.
const PAGE_PS_MAX: u64 = 1_000_000_000_000;

/// When writes are let in.
pub struct Admission {
    spec: AdmissionSpec,
    /// When the next write would come if all came in their intervals.
    due: Nanos,
    /// When the next comes by the pace.
    turn: Nanos,
    /// No write comes before there is room.
    room: Nanos,
    /// Writes that may pass beyond the pace, and when the newest was released.
    released: u64,
    released_at: Nanos,
    /// Pages that the host wrote before the newest write.
    before: u64,
    /// When that was let in.
    let_in_at: Nanos,
    /// The pages at the last look, and the time since then, pauses left out.
    looked: u64,
    since_look: Nanos,
    /// How much of the buffer was taken then, in 1/64.
    taken_64: u32,
    /// Picoseconds for each page at half; zero until the buffer was full.
    page_ps: u64,
    /// The buffer was full, and has not been near empty since.
    pressed: bool,
}

persist!(Admission: due, turn, room, released, released_at, before, let_in_at, looked, since_look, taken_64, page_ps,
    pressed; given: spec);

impl Admission {
    /// Nothing let in yet.
    pub fn new(spec: AdmissionSpec) -> Admission {
        Admission {
            spec,
            due: Nanos::ZERO,
            turn: Nanos::ZERO,
            room: Nanos::ZERO,
            released: 0,
            released_at: Nanos::ZERO,
            before: 0,
            let_in_at: Nanos::ZERO,
            looked: 0,
            since_look: Nanos::ZERO,
            taken_64: 0,
            page_ps: 0,
            pressed: false,
        }
    }

    /// Whether it counted no more than what the host has `written`.
    pub fn check(&self, written: u64) -> Result<(), StateError> {
        let ordered = self.looked <= self.before && self.before <= written;
        let bounded = self.page_ps <= PAGE_PS_MAX && self.taken_64 <= 64;
        let bounded = bounded && self.since_look.0 < 1 << 50 && self.released < 1 << 40;
        ensure(ordered && bounded, "the admission's counters")
    }

    /// From when on the next write may pass.
    pub fn open_at(&self) -> Nanos {
        let turn = if self.released > 0 { self.released_at } else { self.turn };
        self.room.max(turn)
    }

    /// A read came at `at`: where that releases writes, one that the pace holds may pass. Returns whether one may.
    pub fn follow_read(&mut self, at: Nanos) -> bool {
        let releases = self.spec.reads_release && at < self.turn;
        if releases {
            self.released += 1;
            self.released_at = at;
        }
        releases
    }

    /// Whether the buffer was full and has not been near empty since, as far as was looked.
    pub fn is_pressed(&self) -> bool {
        self.pressed
    }

    /// Whether a write after which the host has written so many pages is one to look at the buffer at.
    pub fn looks(&self, written: u64) -> bool {
        self.spec.look_pages.is_some_and(|pages| written - self.looked >= pages)
    }

    /// At a write so much of the buffer was taken, in 1/64.
    pub fn look(&mut self, written: u64, taken_64: u32) {
        let page_ps = (self.since_look.0 * 1000 / (written - self.looked)).min(PAGE_PS_MAX);
        self.page_ps = match self.page_ps {
            0 if taken_64 >= FULL_64 => page_ps,
            before if before == 0 || taken_64 < PACED_64 => before,
            before => before + page_ps / FOLLOWS - before / FOLLOWS,
        };
        self.pressed = taken_64 >= FULL_64 || self.pressed && taken_64 >= EMPTY_64;
        (self.looked, self.since_look, self.taken_64) = (written, Nanos::ZERO, taken_64);
    }

    /// A write was let in at `at`, after which the host has `written` so many pages, and there is room for another from
    /// `room` on; `paced`: garbage collection runs.
    pub fn let_in(&mut self, at: Nanos, room: Nanos, paced: bool, written: u64) {
        self.room = room;
        let pages = written - self.before;
        self.before = written;
        let elapsed = at.since_or_zero(self.let_in_at);
        self.since_look = self.since_look.after(elapsed.min(PAUSE));
        self.let_in_at = at;
        if !paced {
            (self.turn, self.released) = (Nanos::ZERO, 0);
        } else if self.released > 0 && at < self.turn {
            self.released -= 1;
        } else {
            let interval = self.interval(pages);
            self.due = self.due.max(at).after(interval);
            let together = interval.times(self.spec.together);
            (self.turn, self.released) = (Nanos(self.due.0.saturating_sub(together.0)), 0);
        }
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
mod tests {
    use super::*;

    const FREE: AdmissionSpec =
        AdmissionSpec { interval: Nanos(14), together: 0, reads_release: false, look_pages: None };

    /// When the write behind each of these may pass; there is room from 5 on.
    fn open_at(together: u64, let_in: &[u64]) -> Vec<u64> {
        let mut admission = Admission::new(AdmissionSpec { together, ..FREE });
        let follow = |&at: &u64| {
            admission.let_in(Nanos(at), Nanos(5), true, 0);
            admission.open_at().0
        };
        let_in.iter().map(follow).collect()
    }

    #[test]
    fn the_next_write_waits_for_its_interval() {
        assert_eq!(open_at(0, &[100, 114, 200]), [114, 128, 214]);
    }

    #[test]
    fn a_few_come_together_and_are_made_up_for() {
        assert_eq!(open_at(2, &[100, 100, 100, 114, 128]), [86, 100, 114, 128, 142]);
    }

    #[test]
    fn a_read_releases_a_write_that_the_pace_holds() {
        let mut admission = Admission::new(AdmissionSpec { reads_release: true, ..FREE });
        let let_in = |admission: &mut Admission, at, room| {
            admission.let_in(Nanos(at), Nanos(room), true, 0);
            admission.open_at().0
        };
        admission.follow_read(Nanos(90)); // nothing is held
        assert_eq!(let_in(&mut admission, 100, 5), 114);
        admission.follow_read(Nanos(104));
        assert_eq!(admission.open_at().0, 104);
        assert_eq!(let_in(&mut admission, 104, 5), 114, "it takes nothing of the pace");
        for at in [105, 106] {
            admission.follow_read(Nanos(at));
        }
        assert_eq!(let_in(&mut admission, 106, 110), 110, "a second one, once there is room");
        assert_eq!(let_in(&mut admission, 120, 5), 134, "none came before its turn");
        admission.follow_read(Nanos(134));
        assert_eq!(admission.open_at().0, 134);
    }

    #[test]
    fn a_full_buffer_presses_until_it_is_near_empty() {
        let mut admission = Admission::new(AdmissionSpec { look_pages: Some(1), ..FREE });
        let pressed = [16, 55, 56, 32, 8, 7, 8, 55, 64].map(|taken_64| {
            admission.look(admission.looked + 1, taken_64);
            admission.is_pressed()
        });
        assert_eq!(pressed, [false, false, true, true, true, false, false, false, true]);
    }

    #[test]
    fn without_collection_the_next_write_waits_for_room_alone() {
        let mut admission = Admission::new(FREE);
        admission.let_in(Nanos(100), Nanos(105), false, 0);
        assert_eq!(admission.open_at(), Nanos(105));
    }

    /// Writes of 4 pages, `ns` apart, until the next look: the interval of the next, beside so full a buffer.
    fn interval_after(admission: &mut Admission, clock: &mut u64, ns: u64, taken_64: u32) -> u64 {
        let mut written = admission.looked;
        while !admission.looks(written) {
            *clock += ns;
            written += 4;
            admission.let_in(Nanos(*clock), Nanos::ZERO, true, written);
        }
        admission.look(written, taken_64);
        // Long after all that is due.
        *clock += 1_000_000_000_000;
        admission.let_in(Nanos(*clock), Nanos::ZERO, true, written + 4);
        admission.open_at().0 - *clock
    }

    #[test]
    fn the_interval_is_that_of_the_pages_before_and_grows_with_the_buffer() {
        let mut admission = Admission::new(AdmissionSpec { look_pages: Some(4096), ..FREE });
        let mut clock = 0;
        let mut after = |ns, taken_64| interval_after(&mut admission, &mut clock, ns, taken_64);
        assert_eq!(after(40_000, 32), 14, "it was not full so far");
        let close = |got: u64, expected: f64| {
            assert!((got as f64 / expected - 1.0).abs() < 0.005, "{got} against {expected}");
        };
        // A pause of a thousand seconds counts as 10 ms beside the 41 ms of 1,024 writes.
        let first = 40_000.0 * 51.0 / 41.0;
        close(after(40_000, 56), first * (1.0 + 24.0 / 256.0));
        close(after(40_000, 32), first);
        // A sixty-fourth of the way to 90 us.
        close(after(80_000, 40), (first + 40_000.0 / 64.0) * (1.0 + 8.0 / 256.0));
        assert_eq!(after(80_000, 15), 14, "an empty buffer sets no pace");
        close(
            after(80_000, 16),
            (first + 40_000.0 / 64.0 + 39_400.0 / 64.0) * (1.0 - 16.0 / 256.0),
        );
    }
}
