//! When the power goes: after a time, after a number of requests, or at random moments.

use std::str::FromStr;

use drivebay_units::{Nanos, Rng};

/// Mean time between cuts at random moments, if none is given.
const MEAN: Nanos = Nanos::secs(10);

/// When to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Once, after so long.
    After(Nanos),
    /// Once, after so many requests.
    Requests(u64),
    /// Again and again, uniform in 0 to twice the mean.
    Random(Nanos),
}

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--power-cut {0}: must be after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS\nhint: --power-cut after=10"
)]
pub struct CutsError(String);

impl FromStr for Cuts {
    type Err = CutsError;

    fn from_str(text: &str) -> Result<Cuts, CutsError> {
        let wrong = || CutsError(text.into());
        let seconds = |text: &str| {
            let seconds: f64 = text.parse().map_err(|_| wrong())?;
            let allowed = seconds > 0.0 && seconds <= 1e8;
            if allowed { Ok(Nanos((seconds * 1e9) as u64)) } else { Err(wrong()) }
        };
        match text.split_once('=') {
            Some(("after", time)) => Ok(Cuts::After(seconds(time)?)),
            Some(("ios", count)) => {
                count.parse().ok().filter(|&n| n > 0).map(Cuts::Requests).ok_or_else(wrong)
            }
            Some(("at-random", mean)) => Ok(Cuts::Random(seconds(mean)?)),
            None if text == "at-random" => Ok(Cuts::Random(MEAN)),
            _ => Err(wrong()),
        }
    }
}

/// A plan under way.
pub struct Plan {
    cuts: Cuts,
    rng: Rng,
    /// The next cut by time, since the server began.
    next: Option<Nanos>,
    over: bool,
}

impl Plan {
    /// Begins with the server.
    pub fn new(cuts: Cuts, rng: Rng) -> Plan {
        let mut plan = Plan { cuts, rng, next: None, over: false };
        plan.draw(Nanos::ZERO);
        plan
    }

    fn draw(&mut self, now: Nanos) {
        self.next = match self.cuts {
            Cuts::After(time) => Some(time),
            Cuts::Requests(_) => None,
            Cuts::Random(mean) => Some(now.after(Nanos(self.rng.below(2 * mean.0)))),
        };
    }

    /// Whether the power goes now, `elapsed` since the beginning and after `requests`.
    pub fn strikes(&mut self, elapsed: Nanos, requests: u64) -> bool {
        let now = !self.over
            && match self.cuts {
                Cuts::Requests(count) => requests >= count,
                _ => self.next.is_some_and(|next| next <= elapsed),
            };
        if now {
            self.over = !matches!(self.cuts, Cuts::Random(_));
            self.draw(elapsed);
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_and_nonsense_is_refused() {
        assert_eq!("after=1.5".parse(), Ok(Cuts::After(Nanos::millis(1500))));
        assert_eq!("ios=100".parse(), Ok(Cuts::Requests(100)));
        assert_eq!("at-random".parse(), Ok(Cuts::Random(MEAN)));
        assert_eq!("at-random=2".parse(), Ok(Cuts::Random(Nanos::secs(2))));
        for wrong in ["", "after", "after=", "after=-1", "after=nan", "ios=0", "ios=x", "never=1"] {
            assert!(wrong.parse::<Cuts>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_cut_or_many() {
        let mut once = Plan::new(Cuts::Requests(3), Rng::new(1));
        let strikes: Vec<bool> = (1..6).map(|n| once.strikes(Nanos::ZERO, n)).collect();
        assert_eq!(strikes, [false, false, true, false, false]);
        let mut often = Plan::new(Cuts::Random(Nanos::secs(1)), Rng::new(1));
        let seconds = (0..10_000).map(|n| Nanos::millis(10 * n));
        let cuts = seconds.filter(|&at| often.strikes(at, 0)).count();
        assert!((70..130).contains(&cuts), "{cuts} cuts in 100 s");
    }
}
