//! Life that is not simulated: the events since a mark are repeated many times by computation.
//!
//! A method of sampled simulation (as Wunderlich et al., "SMARTS", ISCA 2003, for processors): a
//! window of real commands is simulated at the present age, then wear, time and counters advance by
//! multiples of the window's, and the next window follows. Data, map, free space, heat and clock
//! stay as they were at the end of the window.
//!
//! Erases spread evenly over the superblocks that the load has erased so far, separately for those
//! of a static SLC cache: the share of each superblock in one window is chance, which evens out
//! over many. Data that the load has written is as old as the writes since then take at the load's
//! pace, pauses included: a steady load has the same ages after a leap. Data from before the load
//! ages by the leap. Blocks fail as they would erase by erase; a superblock whose blocks find no
//! spare stays in use until its next erase, which is simulated. Therefore the caller must choose
//! steps that are small compared with the remaining spares. Left out: the time that each superblock
//! waited for its turn, heat of the time between, energy, and `health.end_of_life`, which counts
//! commands.

use drivebay_units::Nanos;

use super::Device;
use crate::physics::reliability::{FlashMark, Leap};
use crate::profile::Lived;
use crate::timeline::NEVER;

/// State of a drive at a moment: [`Device::mark`].
#[derive(Clone, Debug)]
pub struct Mark {
    flash: FlashMark,
    /// All counters, simulated or not.
    counted: Lived,
}

impl Device {
    /// Returns a mark of the present state.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let superblocks = self.media.page_mapped().map(|flash| flash.backend.ftl.cycles_of_all());
        let flash = FlashMark {
            at: self.now(),
            cycles: superblocks.unwrap_or_default(),
            reliability: self.counters().reliability,
        };
        Mark { flash, counted: self.counted() }
    }

    /// Repeats the events since the mark `since` `times` times without simulation. `elapsed` is the
    /// time of all of it, simulated or not, that the clock does not show; `began` is a mark of the
    /// beginning of the load. No request may be under way.
    pub fn live(&mut self, began: &Mark, since: &Mark, times: f64, elapsed: Nanos) {
        debug_assert_eq!(self.next_arrival(), NEVER, "no request is under way");
        assert!((0.0..=1e9).contains(&times), "a multiple of the window");
        let (now, before) = (self.counted(), &since.counted);
        let more =
            |now: u64, before: u64| (now.saturating_sub(before) as f64 * times).round() as u64;
        let window = self.now().since_or_zero(since.flash.at);
        let whole = window.after(elapsed).0 as f64;
        let once = whole / (1.0 + times);
        let pace = (once / window.0.max(1) as f64).round().max(1.0) as u64;
        let leap = Leap { times, length: Nanos((once * times) as u64), pace };
        let lived = &mut self.lived;
        lived.written_bytes += more(now.written_bytes, before.written_bytes);
        lived.read_bytes += more(now.read_bytes, before.read_bytes);
        lived.reads += more(now.reads, before.reads);
        lived.writes += more(now.writes, before.writes);
        lived.host_4k += more(now.host_4k, before.host_4k);
        lived.programmed_4k += more(now.programmed_4k, before.programmed_4k);
        lived.flash_read_bytes += more(now.flash_read_bytes, before.flash_read_bytes);
        lived.busy = lived.busy.after(Nanos(more(now.busy.0, before.busy.0)).min(elapsed));
        lived.power_on = lived.power_on.after(elapsed);
        if let Some(flash) = self.media.page_mapped_mut() {
            let erases = flash.backend.live(&began.flash, &since.flash, &leap);
            self.lived.erases += erases;
        }
    }

    /// All counters since the drive was made, and from its life before, except erases.
    fn counted(&self) -> Lived {
        let (health, counters) = (self.health(), self.counters());
        let (read_bytes, written_bytes) = self.host_bytes();
        Lived {
            written_bytes,
            read_bytes,
            reads: health.host_reads,
            writes: health.host_writes,
            host_4k: counters.host_pages,
            programmed_4k: counters.placed_pages,
            flash_read_bytes: counters.read_bytes,
            busy: health.busy,
            ..Lived::default()
        }
    }
}
