//! The drive's time, and how long the server waits for it.
//!
//! Paced, the drive's clock runs with CLOCK_MONOTONIC. Unpaced (`--pace none`), it stands still until
//! no more requests come, then jumps to the last completion: as if the host took no time.

use std::time::{Duration, Instant};

use drivebay_units::Nanos;
use serde::Deserialize;

/// How the server meets the model's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// Sleeps until a completion is due: light on the processor, tens of microseconds late.
    Sleep,
    /// Sleeps until shortly before, then polls.
    #[default]
    Hybrid,
    /// Polls always: one processor core is busy.
    Spin,
    /// Answers at once: as fast as the machine allows, without the drive's timing.
    None,
}

/// How long before a completion `Hybrid` polls. Measured on a virtual machine of 2 cores: with 15 us
/// half of the wake-ups are 11 us late or more, with 60 us 0.1 us.
const POLL_BEFORE: Nanos = Nanos::micros(60);

/// For how long after the last event `Hybrid` and `None` poll for more before they sleep: about what a
/// wake-up costs, so polling costs at most as much again.
const POLL_AFTER: Nanos = Nanos::micros(50);

/// The drive's clock, and the time at which the present turn of the event loop began.
#[derive(Debug)]
pub(crate) struct Clock {
    pace: Pace,
    started: Instant,
    /// The drive's time when the clock was started; unpaced, its time now.
    base: Nanos,
    /// The drive's time when the server started.
    origin: Nanos,
    turn: Nanos,
}

impl Clock {
    /// Starts with the drive's time at `base`.
    pub fn new(pace: Pace, base: Nanos) -> Clock {
        Clock { pace, started: Instant::now(), base, origin: base, turn: base }
    }

    /// The drive's time at this moment.
    #[inline]
    pub fn read(&self) -> Nanos {
        match self.pace {
            Pace::None => self.base,
            _ => self.base.after(self.elapsed()),
        }
    }

    /// A turn begins now.
    pub fn begin_turn(&mut self) {
        self.turn = self.read().max(self.turn);
    }

    /// The drive's time at which the present turn began.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.turn
    }

    /// The drive's time since the server started, at a moment of its time.
    pub fn since_start(&self, at: Nanos) -> Nanos {
        at.since_or_zero(self.origin)
    }

    /// The opposite of [`Clock::since_start`]; the end of time stays what it is.
    pub fn at(&self, since_start: Nanos) -> Nanos {
        Nanos(self.origin.0.saturating_add(since_start.0))
    }

    /// Wall time since the start.
    pub fn elapsed(&self) -> Nanos {
        // 2^64 ns are 584 years.
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    pub fn is_paced(&self) -> bool {
        self.pace != Pace::None
    }

    /// Whether [`Clock::sleep`] depends on how long ago the last event was.
    pub fn polls_after_events(&self) -> bool {
        matches!(self.pace, Pace::Hybrid | Pace::None)
    }

    /// Unpaced, jumps to `time`.
    pub fn skip_to(&mut self, time: Nanos) {
        if self.pace == Pace::None {
            self.base = self.base.max(time);
        }
    }

    /// How long to sleep at most, when `due` comes next and the last event was `quiet` ago; no time
    /// means to poll, None to sleep until the next event.
    pub fn sleep(&self, due: Option<Nanos>, quiet: Nanos) -> Option<Duration> {
        let until = |ahead: Nanos| {
            due.map(|due| Duration::from_nanos(due.since_or_zero(self.read().after(ahead)).0))
        };
        match self.pace {
            Pace::Sleep => until(Nanos::ZERO),
            Pace::Spin => Some(Duration::ZERO),
            Pace::Hybrid | Pace::None if quiet < POLL_AFTER => Some(Duration::ZERO),
            Pace::Hybrid => until(POLL_BEFORE),
            Pace::None => due.map(|_| Duration::ZERO),
        }
    }
}
