//! The host's writes split in two by how long they are expected to live.
//!
//! A page that takes the place of one which lived for a short time is expected to live for a short time
//! itself. Short is: less than the mean lifespan of the superblocks of short-lived data collected last;
//! time is counted in pages that the host writes. Collection's copies go to a stream of their own.
//! Source: SepBIT (Wang et al., FAST 2022), its classes 1 and 2 for user writes, mean over 16 segments.
//! Simpler than there: the time of writing is that of opening the superblock, so that no page needs a
//! record; one class for copies in place of four; a command goes to one stream, by its first page. What
//! was copied before it is overwritten counts as long-lived, as nearly all of it is.

use drivebay_units::Lpn;

use super::Ftl;
use super::lifespans::MEAN_OF;
use crate::persist::{StateError, ensure};
use crate::superblock::{COLD, HOST};

impl Ftl {
    /// The stream to which the host's `pages` pages from `lpn` on belong. Cost: 1 map entry.
    #[inline(always)]
    pub fn stream_of(&mut self, lpn: Lpn, pages: u32) -> usize {
        if self.lifespans.is_some() { self.stream_by_lifespan(lpn, pages) } else { HOST }
    }

    #[inline(never)]
    fn stream_by_lifespan(&mut self, lpn: Lpn, pages: u32) -> usize {
        let old = self.look_up(lpn).map(|slot| self.superblocks[self.locate(slot).0 as usize]);
        let collected = self.collect_stream;
        let Some(lifespans) = &mut self.lifespans else {
            return HOST;
        };
        lifespans.clock += u64::from(pages);
        let short = old.is_some_and(|s| {
            usize::from(s.stream) != collected && lifespans.clock - s.opened < lifespans.short
        });
        if short { HOST } else { COLD }
    }

    /// A superblock has been opened.
    pub(super) fn note_birth(&mut self, index: u32) {
        if let Some(lifespans) = &self.lifespans {
            self.superblocks[index as usize].opened = lifespans.clock;
        }
    }

    /// A superblock has been collected.
    pub(super) fn note_death(&mut self, index: u32) {
        let s = self.superblocks[index as usize];
        let Some(lifespans) = &mut self.lifespans else {
            return;
        };
        if usize::from(s.stream) != HOST {
            return;
        }
        lifespans.sum += lifespans.clock - s.opened;
        lifespans.count += 1;
        if lifespans.count == MEAN_OF {
            lifespans.short = lifespans.sum / MEAN_OF;
            (lifespans.sum, lifespans.count) = (0, 0);
        }
    }

    /// Checks that no lifespan is below zero, nor a sum of them too great.
    pub(super) fn check_lifespans(&self) -> Result<(), StateError> {
        let Some(lifespans) = &self.lifespans else {
            return Ok(());
        };
        let clock = lifespans.clock;
        let born = self.superblocks.iter().all(|s| s.opened <= clock);
        let few = lifespans.count < MEAN_OF && lifespans.sum <= clock.saturating_mul(MEAN_OF);
        ensure(born && few && clock < 1 << 50, "lifespans")
    }
}
