//! Admission of writes: while the flash has no room for more, they wait outside and reads pass them.
//!
//! Source: firmware of drives for servers holds writes to the pace at which space comes free, so that reads
//! beside them are served as at lower rates (SSD-iq, Haas et al., VLDB 2025: reads of a saturated drive in 0.2 ms beside
//! writes in 6 ms). Model: a write whose data has come is let in when the one before it has found room, and the
//! buffers of host and garbage collection have a place for one flash page more. Where the profile says so, writes are
//! also paced while garbage collection runs, by a virtual scheduling algorithm (ITU-T I.371): one in an
//! interval in the long run, a few together. Beside reads the interval may follow write amplification: programs of
//! what is let in, and of what was copied of late for as much, then take a share of the dies' time. Without admission
//! a write that finds no room, and the copies behind it, keep the flash core from what comes after them.
//! guess: all three rules; no maker has published its own. Left out: that a command of many pages needs more room than
//! one; that programs take less time in an SLC cache.

use drivebay_units::Nanos;

use crate::persist::{StateError, ensure, persist};
use crate::spec::AdmissionSpec;

/// How long after a read writes are let in as beside reads. guess: some times a program, so that it bridges the gaps
/// between reads that come steadily.
const BESIDE_READS: Nanos = Nanos(10_000_000);
/// Pages that the host writes between two looks at write amplification. guess: 16 MiB of pages of 4 KiB, some tens of ms.
const LOOK_PAGES: u64 = 4096;

/// Pages so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct PagesWritten {
    /// Written by the host.
    pub host: u64,
    /// Copied by garbage collection.
    pub copied: u64,
}

persist!(PagesWritten: host, copied);

/// When writes are let in.
pub struct Admission {
    spec: AdmissionSpec,
    /// When the next write would come if all came in their intervals.
    due: Nanos,
    /// Not before this.
    open_at: Nanos,
    /// When the newest read was served.
    read_at: Option<Nanos>,
    /// Pages before the newest write.
    before: PagesWritten,
    /// Pages when write amplification was last looked at.
    looked: PagesWritten,
    /// Pages programmed for 256 that the host wrote, when looked at.
    programmed_256: u64,
}

persist!(Admission: due, open_at, read_at, before, looked, programmed_256; given: spec);

impl Admission {
    /// Nothing let in yet.
    pub fn new(spec: AdmissionSpec) -> Admission {
        Admission {
            spec,
            due: Nanos::ZERO,
            open_at: Nanos::ZERO,
            read_at: None,
            before: PagesWritten::default(),
            looked: PagesWritten::default(),
            programmed_256: 256,
        }
    }

    /// Whether it counted no more than what is `written`.
    pub fn check(&self, written: PagesWritten) -> Result<(), StateError> {
        let within = |a: PagesWritten, b: PagesWritten| a.host <= b.host && a.copied <= b.copied;
        let ordered = within(self.looked, self.before) && within(self.before, written);
        ensure(ordered && self.programmed_256 < 1 << 24, "the admission's counters")
    }

    /// From when on the next write may pass.
    pub fn open_at(&self) -> Nanos {
        self.open_at
    }

    /// A read was served at `at`.
    pub fn note_read(&mut self, at: Nanos) {
        self.read_at = Some(at);
    }

    /// A write was let in at `at`, after which so many pages are `written`, and there is room for another from `room`
    /// on; `paced`: garbage collection runs.
    pub fn let_in(&mut self, at: Nanos, room: Nanos, paced: bool, written: PagesWritten) {
        self.open_at = room;
        let interval = self.interval(at, written);
        if paced {
            self.due = self.due.max(at).after(interval);
            let together = interval.times(self.spec.together);
            self.open_at = room.max(Nanos(self.due.0.saturating_sub(together.0)));
        }
    }

    /// How long a write let in at `at` takes of the pace.
    fn interval(&mut self, at: Nanos, written: PagesWritten) -> Nanos {
        let Some(page_ps) = self.spec.page_ps_beside_reads else { return self.spec.interval };
        let pages = written.host - self.before.host;
        self.before = written;
        let host = written.host - self.looked.host;
        if host >= LOOK_PAGES {
            let copied = written.copied - self.looked.copied;
            self.programmed_256 = ((host + copied) << 8) / host;
            self.looked = written;
        }
        if self.read_at.is_none_or(|read| read.after(BESIDE_READS) < at) {
            return self.spec.interval;
        }
        self.spec.interval.max(Nanos((pages * self.programmed_256 * page_ps / 1000) >> 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: AdmissionSpec =
        AdmissionSpec { interval: Nanos(14), together: 0, page_ps_beside_reads: None };

    /// When the write behind each of these may pass; there is room from 5 on.
    fn open_at(together: u64, let_in: &[u64]) -> Vec<u64> {
        let mut admission = Admission::new(AdmissionSpec { together, ..FREE });
        let follow = |&at: &u64| {
            admission.let_in(Nanos(at), Nanos(5), true, PagesWritten::default());
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
    fn without_collection_the_next_write_waits_for_room_alone() {
        let mut admission = Admission::new(FREE);
        admission.let_in(Nanos(100), Nanos(105), false, PagesWritten::default());
        assert_eq!(admission.open_at(), Nanos(105));
    }

    #[test]
    fn beside_reads_the_interval_is_that_of_the_pages_programmed() {
        let page_ps_beside_reads = Some(2_000_000);
        let mut admission = Admission::new(AdmissionSpec { page_ps_beside_reads, ..FREE });
        let mut written = PagesWritten::default();
        let mut interval = |admission: &mut Admission, at: u64, host, copied| {
            written = PagesWritten { host: written.host + host, copied: written.copied + copied };
            admission.let_in(Nanos(at), Nanos::ZERO, true, written);
            admission.open_at().0 - at
        };
        assert_eq!(interval(&mut admission, 1_000_000, 1, 1), 14, "no read so far");
        admission.note_read(Nanos(1_500_000));
        assert_eq!(interval(&mut admission, 2_000_000, 1, 2), 2_000, "not yet looked at");
        // 4,096 pages and 4,096 copies: two programmed for each; this command has 4,094 of them.
        assert_eq!(interval(&mut admission, 11_400_000, 4094, 4093), 4094 * 4_000);
        assert_eq!(interval(&mut admission, 40_000_000, 3, 0), 14, "the read was long ago");
        admission.note_read(Nanos(60_000_000));
        assert_eq!(interval(&mut admission, 60_000_000, 3, 0), 3 * 4_000);
    }
}
