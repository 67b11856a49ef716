//! The drive's time, and the time that the server waits for it.
//!
//! When paced, the drive's clock runs with CLOCK_MONOTONIC, or faster or slower by the time scale:
//! a host that is too slow for the drive sees the modelled ratios on a slower clock. Unpaced
//! (`--pace none`), the clock stands still until no more requests come, then jumps to the last
//! completion, as if the host took no time.
//!
//! While the server is late with an answer because it had no processor, the drive's clock stands
//! still: the model sees a host that is answered in time. The clock is then behind by this time
//! (its debt), and makes it up at twice its speed while commands are in flight. So a client that
//! waits for each answer sees the drive's rate on average: one answer is late, the following ones
//! are early. `lateness.rs` measures the effect.

use std::str::FromStr;
use std::time::{Duration, Instant};

use drivebay_units::Nanos;
use serde::Deserialize;

/// Method by which the server keeps the model's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// Sleeps until a completion is due: uses little processor time, tens of microseconds late.
    Sleep,
    /// Sleeps until shortly before, then polls.
    #[default]
    Hybrid,
    /// Always polls: one processor core is busy.
    Spin,
    /// Answers at once: as fast as the machine allows, without the drive's timing.
    None,
}

/// Time before a completion at which `Hybrid` begins to poll. Measured on a virtual machine of 2
/// cores: with 15 us half of the wake-ups are 11 us late or more, with 60 us 0.1 us.
const POLL_BEFORE: Nanos = Nanos::micros(60);

/// Time after the last event for which `Hybrid` and `None` poll before they sleep. It is about the
/// cost of a wake-up, so polling at most doubles that cost.
const POLL_AFTER: Nanos = Nanos::micros(50);

/// Answers due within this time of the first are sent together if the server is late, on the host's
/// clock. guess: some iterations of the event loop, so that a server that is always behind does not
/// answer one by one.
const TOGETHER: Nanos = Nanos::micros(100);

/// Fractional bits of a [`TimeScale`].
const FRACTION: u32 = 32;
const SLOWEST: f64 = 1e-4;
const FASTEST: f64 = 100.0;

/// Largest debt that the drive's clock makes up, on the host's clock. guess: some scheduling
/// slices; a server that was stopped for longer has not been late, it was away.
const DEBT_MAX: Nanos = Nanos::millis(100);

/// Seconds of the drive's clock per second of the host's clock: 1/10000 to 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScale {
    ratio: f64,
    /// True if the server searches for the fastest scale that this machine can keep
    /// (`auto_scale.rs`), starting at `ratio`.
    is_auto: bool,
    /// Fixed point with `FRACTION` bits, rounded: error below 4 ns per second.
    drive_per_host: u64,
    host_per_drive: u64,
}

impl Default for TimeScale {
    fn default() -> TimeScale {
        TimeScale::fixed(1.0)
    }
}

impl FromStr for TimeScale {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeScale, String> {
        if text == "auto" {
            return Ok(TimeScale { is_auto: true, ..TimeScale::default() });
        }
        let must = "must be auto, or a number or a fraction from 1/10000 to 100";
        let wrong = || format!("--time-scale {text}: {must}\nhint: --time-scale 1/20");
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
        let ratio = match text.split_once('/') {
            Some((above, below)) => number(above)? / number(below)?,
            None => number(text)?,
        };
        if !(SLOWEST..=FASTEST).contains(&ratio) {
            return Err(wrong());
        }
        Ok(TimeScale::fixed(ratio))
    }
}

impl TimeScale {
    /// Fixed scale, the nearest possible one to `ratio`.
    pub(crate) fn fixed(ratio: f64) -> TimeScale {
        let ratio = ratio.clamp(SLOWEST, FASTEST);
        let fixed = |ratio: f64| (ratio * (1u64 << FRACTION) as f64).round() as u64;
        let (drive_per_host, host_per_drive) = (fixed(ratio), fixed(1.0 / ratio));
        TimeScale { ratio, is_auto: false, drive_per_host, host_per_drive }
    }

    /// True if the server searches for the scale.
    pub fn is_auto(self) -> bool {
        self.is_auto
    }

    /// Seconds of the drive per second of the host.
    pub fn ratio(self) -> f64 {
        self.ratio
    }

    /// Converts a duration to the drive's clock.
    #[inline]
    pub(crate) fn to_drive(self, host: Nanos) -> Nanos {
        Nanos(((u128::from(host.0) * u128::from(self.drive_per_host)) >> FRACTION) as u64)
    }

    /// Converts a duration to the host's clock, saturating.
    #[inline]
    pub(crate) fn to_host(self, drive: Nanos) -> Nanos {
        let host = (u128::from(drive.0) * u128::from(self.host_per_drive)) >> FRACTION;
        Nanos(u64::try_from(host).unwrap_or(u64::MAX))
    }
}

/// The drive's clock, and the start time of the current iteration of the event loop.
#[derive(Debug)]
pub(crate) struct Clock {
    pace: Pace,
    scale: TimeScale,
    started: Instant,
    /// The drive's time when the clock was started or resumed; unpaced, its current time.
    base: Nanos,
    /// Moment of `base` on the host's clock since the server started.
    resumed: Nanos,
    /// Time that the clock was behind at that moment because answers were late.
    debt: Nanos,
    /// True while the clock makes up its debt: commands are in flight.
    catches_up: bool,
    /// The drive's time when the server started, or when the clock last went back.
    origin: Nanos,
    /// Drive time from the start of the server until the clock went back.
    before: Nanos,
    iteration: Nanos,
    /// Start of the current iteration on the host's clock.
    begun: Nanos,
}

impl Clock {
    /// Starts with the drive's time at `base`.
    pub fn new(pace: Pace, scale: TimeScale, base: Nanos) -> Clock {
        Clock {
            pace,
            scale,
            started: Instant::now(),
            base,
            resumed: Nanos::ZERO,
            debt: Nanos::ZERO,
            catches_up: false,
            origin: base,
            before: Nanos::ZERO,
            iteration: base,
            begun: Nanos::ZERO,
        }
    }

    pub fn scale(&self) -> TimeScale {
        self.scale
    }

    /// Continues with another scale.
    pub fn set_scale(&mut self, ratio: f64) {
        self.settle(self.elapsed());
        self.scale = TimeScale { is_auto: self.scale.is_auto, ..TimeScale::fixed(ratio) };
    }

    /// Returns the drive's current time.
    #[inline]
    pub fn read(&self) -> Nanos {
        self.read_at(self.elapsed())
    }

    /// Returns the drive's time at a moment of the host's clock.
    #[inline]
    fn read_at(&self, host: Nanos) -> Nanos {
        match self.pace {
            Pace::None => self.base,
            _ => {
                let passed = self.scale.to_drive(host.since_or_zero(self.resumed));
                self.base.after(passed).after(self.made_up(passed))
            }
        }
    }

    /// Part of the debt that the clock makes up in `passed` of its own time.
    fn made_up(&self, passed: Nanos) -> Nanos {
        if self.catches_up { passed.min(self.debt) } else { Nanos::ZERO }
    }

    /// Makes `host` the new base of the clock.
    fn settle(&mut self, host: Nanos) {
        let passed = self.scale.to_drive(host.since_or_zero(self.resumed));
        let read = self.read_at(host);
        self.debt = self.debt.since_or_zero(self.made_up(passed));
        (self.base, self.resumed) = (read, host);
    }

    /// Begins an iteration now; when paced, at a drive time not much later than the due time of the
    /// next answer.
    pub fn begin_iteration(&mut self, due: Option<Nanos>) {
        self.begun = self.elapsed();
        let read = self.read_at(self.begun);
        let due = due.filter(|_| self.is_paced());
        let latest = due.map_or(read, |due| due.after(self.scale.to_drive(TOGETHER)));
        self.iteration = read.min(latest).max(self.iteration);
    }

    /// Sets the clock back to `due`, the due time of the last answer of this iteration, which was
    /// sent at `sent` on the host's clock.
    pub fn hold(&mut self, due: Nanos, sent: Nanos) {
        self.settle(sent);
        if self.base > due {
            let most = self.scale.to_drive(DEBT_MAX);
            self.debt = self.debt.after(self.base.since(due)).min(most);
            self.base = due;
        }
    }

    /// Reports if commands are in flight from now on.
    #[inline]
    pub fn set_in_flight(&mut self, any: bool) {
        if any != self.catches_up {
            if self.debt > Nanos::ZERO {
                self.settle(self.elapsed());
            }
            self.catches_up = any;
        }
    }

    /// The drive's time at the start of the current iteration.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.iteration
    }

    /// Arrival time of requests that this iteration reads and that waited for `waited` on the
    /// host's clock: on the drive's clock and on the host's.
    pub fn arrival(&self, waited: Nanos) -> (Nanos, Nanos) {
        let host = self.begun.since_or_zero(waited);
        (
            if self.is_paced() { self.read_at(host).min(self.iteration) } else { self.iteration },
            host,
        )
    }

    /// Converts a drive time to the time since the server started.
    pub fn since_start(&self, at: Nanos) -> Nanos {
        self.before.after(at.since_or_zero(self.origin))
    }

    /// Inverse of [`Clock::since_start`]; the end of time stays unchanged.
    pub fn at(&self, since_start: Nanos) -> Nanos {
        Nanos(self.origin.0.saturating_add(since_start.since_or_zero(self.before).0))
    }

    /// Continues at the time of the current iteration, as if no time had passed since.
    pub fn resume(&mut self) {
        if self.is_paced() {
            self.base = self.iteration;
        }
        (self.resumed, self.debt) = (self.elapsed(), Nanos::ZERO);
    }

    /// Sets the drive's time back to `time`; times since the start of the server continue.
    pub fn go_back(&mut self, time: Nanos) {
        self.before = self.since_start(self.iteration);
        (self.base, self.origin, self.iteration) = (time, time, time);
    }

    /// Wall time since the start.
    pub fn elapsed(&self) -> Nanos {
        // 2^64 ns are 584 years.
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Time since the start that planned events use: drive time, or host time when unpaced, as the
    /// drive's clock then stands still between requests.
    pub fn plan_time(&self) -> Nanos {
        if self.is_paced() { self.since_start(self.read()) } else { self.elapsed() }
    }

    pub fn is_paced(&self) -> bool {
        self.pace != Pace::None
    }

    /// True if [`Clock::sleep`] depends on the time since the last event.
    pub fn polls_after_events(&self) -> bool {
        matches!(self.pace, Pace::Hybrid | Pace::None)
    }

    /// Jumps to `time` when unpaced.
    pub fn skip_to(&mut self, time: Nanos) {
        if self.pace == Pace::None {
            self.base = self.base.max(time);
        }
    }

    /// Time on the host's clock until the drive's clock reaches `due`.
    fn until(&self, due: Nanos) -> Nanos {
        let passed = self.scale.to_drive(self.elapsed().since_or_zero(self.resumed));
        let made_up = self.made_up(passed);
        let left = due.since_or_zero(self.base.after(passed).after(made_up));
        let owed = if self.catches_up { self.debt.since_or_zero(made_up) } else { Nanos::ZERO };
        // While the debt lasts, the clock covers the way at twice its speed.
        self.scale.to_host(left.since_or_zero(owed.min(Nanos(left.0 / 2))))
    }

    /// Longest time to sleep, on the host's clock, if `due` comes next and the last event was
    /// `quiet` ago. Zero means to poll, `None` to sleep until the next event.
    pub fn sleep(&self, due: Option<Nanos>, quiet: Nanos) -> Option<Duration> {
        let until = |ahead: Nanos| {
            due.map(|due| Duration::from_nanos(self.until(due).since_or_zero(ahead).0))
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

#[cfg(test)]
#[path = "../../tests/unit/pacing_clock.rs"]
mod tests;
