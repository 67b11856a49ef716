//! Which time it is on the drive, and how the server waits for a time to come.
//!
//! Paced, the drive's clock runs with CLOCK_MONOTONIC. Unpaced (`--pace none`), it stands still until
//! nothing more is asked, then goes on to the last completion: as if the host took no time.

use std::time::{Duration, Instant};

use drivebay_units::Nanos;
use serde::Deserialize;

/// How the server meets the times of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// Sleeps until something is due: light on the processor, tens of microseconds late.
    Sleep,
    /// Sleeps until shortly before, then waits awake.
    Hybrid,
    /// Never sleeps: one processor core is busy always.
    Spin,
    /// Answers at once: as fast as it goes, without the drive's timing.
    None,
}

/// How long before its time `Hybrid` waits awake. Measured on a virtual machine of 2 cores: with 15 us
/// half of the wake-ups are 11 us late or more, with 60 us 0.1 us.
const AWAKE: Nanos = Nanos::micros(60);

/// For how long after something happened `Hybrid` and `None` look for more before they sleep: about
/// what a wake-up costs, so waiting awake costs at most as much again.
const LINGER: Nanos = Nanos::micros(50);

/// The drive's clock.
#[derive(Debug)]
pub struct Clock {
    pace: Pace,
    started: Instant,
    /// The drive's time when the clock was started; unpaced, its time now.
    base: Nanos,
}

impl Clock {
    /// Starts with the drive's time at `base`.
    #[must_use]
    pub fn new(pace: Pace, base: Nanos) -> Clock {
        Clock { pace, started: Instant::now(), base }
    }

    /// The drive's time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        match self.pace {
            Pace::None => self.base,
            // 2^64 ns are 584 years.
            _ => self.base.after(Nanos(self.started.elapsed().as_nanos() as u64)),
        }
    }

    /// Wall time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// How it waits.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Unpaced, goes on to `time`.
    pub fn skip_to(&mut self, time: Nanos) {
        if self.pace == Pace::None {
            self.base = self.base.max(time);
        }
    }

    /// How long to sleep at most, when `due` comes next and something happened `quiet` ago; no time
    /// means to look and not to sleep.
    #[must_use]
    pub fn sleep(&self, due: Option<Nanos>, quiet: Nanos) -> Option<Duration> {
        let until = |ahead: Nanos| {
            due.map(|due| Duration::from_nanos(due.since_or_zero(self.now().after(ahead)).0))
        };
        match self.pace {
            Pace::Sleep => until(Nanos::ZERO),
            Pace::Spin => Some(Duration::ZERO),
            Pace::Hybrid | Pace::None if quiet < LINGER => Some(Duration::ZERO),
            Pace::Hybrid => until(AWAKE),
            Pace::None => due.map(|_| Duration::ZERO),
        }
    }
}
