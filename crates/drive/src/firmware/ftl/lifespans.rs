//! The host's writes split in two by how long they are expected to live.
//!
//! A page that takes the place of one which lived for a short time is expected to live for a short
//! time itself. Short is: less than the mean lifespan of the superblocks of short-lived data that
//! were reclaimed last; time is counted in pages that the host writes. Garbage collection's copies
//! go to a stream of their own. Source: SepBIT (Wang et al., FAST 2022), its classes 1 and 2 for
//! user writes, mean over 16 segments. Simpler than there: the time of writing is that of opening
//! the superblock, so that no page needs a record; one class for copies in place of four; a command
//! goes to one stream, by its first page. What was copied before it is overwritten counts as
//! long-lived, as nearly all of it is.

use crate::persist::{StateError, ensure, persist};
use crate::policy_plugin::{HostWrite, NONE};
use crate::profile::Spec;
use crate::superblock::{COLD, HOST, Superblock};

/// Number of superblocks over which the mean is taken.
const MEAN_OF: u64 = 16;

/// Lifespans, in pages that the host has written.
#[derive(Debug)]
pub struct Lifespans {
    /// Pages that the host has written so far.
    pub clock: u64,
    /// Lifespan below which data is short-lived.
    short: u64,
    sum: u64,
    count: u64,
    copies: usize,
}

persist!(Lifespans: clock, short, sum, count; given: copies);

impl Lifespans {
    /// Lifespans; none unless the profile splits the host's writes.
    pub fn new(spec: &Spec) -> Option<Box<Lifespans>> {
        let copies = spec.streams.copies;
        let none = Lifespans { clock: 0, short: u64::MAX, sum: 0, count: 0, copies };
        spec.streams.splits().then(|| Box::new(none))
    }

    /// Stream of a command of so many pages, the first of which replaces one in superblock `old`.
    pub fn stream_of(&mut self, pages: u32, old: Option<Superblock>) -> usize {
        self.clock += u64::from(pages);
        let short = old.is_some_and(|s| {
            usize::from(s.stream) != self.copies && self.clock - s.opened < self.short
        });
        if short { HOST } else { COLD }
    }

    /// View of a command that [`Lifespans::stream_of`] has counted, for a plug-in.
    pub fn write(&self, lpn: u64, pages: u32, old: Option<Superblock>) -> HostWrite {
        HostWrite {
            lpn,
            lifespan_pages: old.map_or(0, |s| self.clock - s.opened),
            mean_lifespan_pages: self.short,
            pages,
            replaced_stream: old.map_or(NONE, |s| u32::from(s.stream)),
        }
    }

    /// Notes that garbage collection has emptied a superblock.
    pub fn note_emptied(&mut self, s: &Superblock) {
        if usize::from(s.stream) != HOST {
            return;
        }
        self.sum += self.clock - s.opened;
        self.count += 1;
        if self.count == MEAN_OF {
            self.short = self.sum / MEAN_OF;
            (self.sum, self.count) = (0, 0);
        }
    }

    /// Checks that no lifespan is below zero, nor a sum of them too great.
    pub fn check(&self, superblocks: &[Superblock]) -> Result<(), StateError> {
        let clock = self.clock;
        let opened = superblocks.iter().all(|s| s.opened <= clock);
        let few = self.count < MEAN_OF && self.sum <= clock.saturating_mul(MEAN_OF);
        ensure(opened && few && clock < 1 << 50, "lifespans")
    }
}
