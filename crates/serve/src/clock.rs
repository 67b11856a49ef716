//! The drive's time, and how long the server waits for it.
//!
//! Paced, the drive's clock runs with CLOCK_MONOTONIC, or faster or slower by the time scale: a
//! host that is too slow for the drive meets the modelled ratios on a slower clock. Unpaced
//! (`--pace none`), it stands still until no more requests come, then jumps to the last completion:
//! as if the host took no time.
//!
//! While the server is late with an answer, as it had no processor, the drive's clock stands still:
//! the model sees a host that is answered in time. What the clock is behind then (its debt), it
//! makes up at twice its speed while commands are in flight. So a client that waits for each answer
//! meets the drive's rate in the mean: an answer is late, those after it are early. How far that
//! went, `lateness.rs` counts.

use std::str::FromStr;
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

/// How long before a completion `Hybrid` polls. Measured on a virtual machine of 2 cores: with 15
/// us half of the wake-ups are 11 us late or more, with 60 us 0.1 us.
const POLL_BEFORE: Nanos = Nanos::micros(60);

/// For how long after the last event `Hybrid` and `None` poll for more before they sleep: about
/// what a wake-up costs, so polling costs at most as much again.
const POLL_AFTER: Nanos = Nanos::micros(50);

/// Answers that are due within this time of the first leave together where the server is late, on
/// the host's clock. guess: some iterations of the event loop, so that a server that is always
/// behind does not answer one by one.
const TOGETHER: Nanos = Nanos::micros(100);

/// Fractional bits of a [`TimeScale`].
const FRACTION: u32 = 32;
const SLOWEST: f64 = 1e-4;
const FASTEST: f64 = 100.0;

/// Most that the drive's clock makes up, on the host's clock. guess: some scheduling slices; a
/// server that was stopped for longer has not been late, it was away.
const DEBT_MAX: Nanos = Nanos::millis(100);

/// Seconds of the drive's clock in a second of the host's: 1/10000 to 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScale {
    ratio: f64,
    /// The server looks for the fastest that this machine keeps (`auto_scale.rs`), from `ratio` on.
    is_auto: bool,
    /// Fixed point of `FRACTION` bits, rounded: below 4 ns in a second.
    drive_per_host: u64,
    host_per_drive: u64,
}

impl Default for TimeScale {
    fn default() -> TimeScale {
        TimeScale::of(1.0)
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
        Ok(TimeScale::of(ratio))
    }
}

impl TimeScale {
    /// A fixed one; the nearest that is possible.
    pub(crate) fn of(ratio: f64) -> TimeScale {
        let ratio = ratio.clamp(SLOWEST, FASTEST);
        let fixed = |ratio: f64| (ratio * (1u64 << FRACTION) as f64).round() as u64;
        let (drive_per_host, host_per_drive) = (fixed(ratio), fixed(1.0 / ratio));
        TimeScale { ratio, is_auto: false, drive_per_host, host_per_drive }
    }

    /// Whether the server looks for it.
    pub fn is_auto(self) -> bool {
        self.is_auto
    }

    /// The drive's seconds in a second of the host.
    pub fn ratio(self) -> f64 {
        self.ratio
    }

    /// A duration on the drive's clock.
    #[inline]
    pub(crate) fn to_drive(self, host: Nanos) -> Nanos {
        Nanos(((u128::from(host.0) * u128::from(self.drive_per_host)) >> FRACTION) as u64)
    }

    /// A duration on the host's clock; at most the longest there is.
    #[inline]
    pub(crate) fn to_host(self, drive: Nanos) -> Nanos {
        let host = (u128::from(drive.0) * u128::from(self.host_per_drive)) >> FRACTION;
        Nanos(u64::try_from(host).unwrap_or(u64::MAX))
    }
}

/// The drive's clock, and the time at which the present iteration of the event loop began.
#[derive(Debug)]
pub(crate) struct Clock {
    pace: Pace,
    scale: TimeScale,
    started: Instant,
    /// The drive's time when the clock was started or resumed; unpaced, its time now.
    base: Nanos,
    /// When that was, on the host's clock since the server started.
    resumed: Nanos,
    /// How far it was behind then, as answers were late.
    debt: Nanos,
    /// It makes that up just now: commands are in flight.
    catches_up: bool,
    /// The drive's time when the server started, or when it last went back.
    origin: Nanos,
    /// How much of it had passed before it went back.
    before: Nanos,
    iteration: Nanos,
    /// When the present iteration began, on the host's clock.
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

    /// Goes on with another scale.
    pub fn set_scale(&mut self, ratio: f64) {
        self.settle(self.elapsed());
        self.scale = TimeScale { is_auto: self.scale.is_auto, ..TimeScale::of(ratio) };
    }

    /// The drive's time at this moment.
    #[inline]
    pub fn read(&self) -> Nanos {
        self.read_at(self.elapsed())
    }

    /// The drive's time at a moment of the host's clock.
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

    /// What the clock has made up of its debt in so much time of its own.
    fn made_up(&self, passed: Nanos) -> Nanos {
        if self.catches_up { passed.min(self.debt) } else { Nanos::ZERO }
    }

    /// Counts from `host` on.
    fn settle(&mut self, host: Nanos) {
        let passed = self.scale.to_drive(host.since_or_zero(self.resumed));
        let read = self.read_at(host);
        self.debt = self.debt.since_or_zero(self.made_up(passed));
        (self.base, self.resumed) = (read, host);
    }

    /// An iteration begins now; paced, at a time of the drive not much later than its next answer
    /// is due.
    pub fn begin_iteration(&mut self, due: Option<Nanos>) {
        self.begun = self.elapsed();
        let read = self.read_at(self.begun);
        let due = due.filter(|_| self.is_paced());
        let latest = due.map_or(read, |due| due.after(self.scale.to_drive(TOGETHER)));
        self.iteration = read.min(latest).max(self.iteration);
    }

    /// The answers of this iteration were sent at `sent`, on the host's clock; the last of them was
    /// due at `due`, and is it now.
    pub fn hold(&mut self, due: Nanos, sent: Nanos) {
        self.settle(sent);
        if self.base > due {
            let most = self.scale.to_drive(DEBT_MAX);
            self.debt = self.debt.after(self.base.since(due)).min(most);
            self.base = due;
        }
    }

    /// Commands are in flight from now on, or none are.
    #[inline]
    pub fn set_in_flight(&mut self, any: bool) {
        if any != self.catches_up {
            if self.debt > Nanos::ZERO {
                self.settle(self.elapsed());
            }
            self.catches_up = any;
        }
    }

    /// The drive's time at which the present iteration began.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.iteration
    }

    /// When requests arrived that this iteration reads, and that had waited for so long on the
    /// host's clock: on the drive's clock and on the host's.
    pub fn arrival(&self, waited: Nanos) -> (Nanos, Nanos) {
        let host = self.begun.since_or_zero(waited);
        (
            if self.is_paced() { self.read_at(host).min(self.iteration) } else { self.iteration },
            host,
        )
    }

    /// The drive's time since the server started, at a moment of its time.
    pub fn since_start(&self, at: Nanos) -> Nanos {
        self.before.after(at.since_or_zero(self.origin))
    }

    /// The opposite of [`Clock::since_start`]; the end of time stays what it is.
    pub fn at(&self, since_start: Nanos) -> Nanos {
        Nanos(self.origin.0.saturating_add(since_start.since_or_zero(self.before).0))
    }

    /// Goes on at the time of the present iteration, as if none had passed since.
    pub fn resume(&mut self) {
        if self.is_paced() {
            self.base = self.iteration;
        }
        (self.resumed, self.debt) = (self.elapsed(), Nanos::ZERO);
    }

    /// The drive's time is `time` again; what counts from the start of the server goes on.
    pub fn go_back(&mut self, time: Nanos) {
        self.before = self.since_start(self.iteration);
        (self.base, self.origin, self.iteration) = (time, time, time);
    }

    /// Wall time since the start.
    pub fn elapsed(&self) -> Nanos {
        // 2^64 ns are 584 years.
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Time since the start by which plans count: the drive's, or unpaced, as its clock then stands
    /// still between requests, the host's.
    pub fn plan_time(&self) -> Nanos {
        if self.is_paced() { self.since_start(self.read()) } else { self.elapsed() }
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

    /// How long until the drive's clock is at `due`, on the host's.
    fn until(&self, due: Nanos) -> Nanos {
        let passed = self.scale.to_drive(self.elapsed().since_or_zero(self.resumed));
        let made_up = self.made_up(passed);
        let left = due.since_or_zero(self.base.after(passed).after(made_up));
        let owed = if self.catches_up { self.debt.since_or_zero(made_up) } else { Nanos::ZERO };
        // Of the way there, at most as much again as is owed goes at twice the speed.
        self.scale.to_host(left.since_or_zero(owed.min(Nanos(left.0 / 2))))
    }

    /// How long to sleep at most, on the host's clock, when `due` comes next and the last event was
    /// `quiet` ago; no time means to poll, None to sleep until the next event.
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
#[path = "../tests/unit/clock.rs"]
mod tests;
