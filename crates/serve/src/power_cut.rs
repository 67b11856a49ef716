//! Power cuts on request: after a time, after a number of requests, or at random moments.

use std::str::FromStr;

use drivebay_units::{Nanos, Rng};
use serde::Serialize;

/// Mean time between random power cuts, if none is given.
const MEAN: Nanos = Nanos::secs(10);

/// When the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCutPlan {
    /// Once, this long after the start by the drive's clock.
    After(Nanos),
    /// Once, after this number of requests.
    Requests(u64),
    /// Repeatedly; intervals are uniform from 0 to twice this mean, by the drive's clock.
    Random(Nanos),
}

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--power-cut {0}: must be after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS\nhint: --power-cut after=10"
)]
pub struct PowerCutPlanError(String);

impl FromStr for PowerCutPlan {
    type Err = PowerCutPlanError;

    fn from_str(text: &str) -> Result<PowerCutPlan, PowerCutPlanError> {
        let wrong = || PowerCutPlanError(text.into());
        let seconds = |text: &str| {
            let seconds: f64 = text.parse().map_err(|_| wrong())?;
            let allowed = seconds > 0.0 && seconds <= 1e8;
            if allowed { Ok(Nanos((seconds * 1e9) as u64)) } else { Err(wrong()) }
        };
        match text.split_once('=') {
            Some(("after", time)) => Ok(PowerCutPlan::After(seconds(time)?)),
            Some(("ios", count)) => {
                count.parse().ok().filter(|&n| n > 0).map(PowerCutPlan::Requests).ok_or_else(wrong)
            }
            Some(("at-random", mean)) => Ok(PowerCutPlan::Random(seconds(mean)?)),
            None if text == "at-random" => Ok(PowerCutPlan::Random(MEAN)),
            _ => Err(wrong()),
        }
    }
}

/// What a power cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PowerCut {
    /// When, since the server started, nanoseconds of the drive's clock.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// How long the drive took to become ready, nanoseconds.
    #[serde(rename = "ready_after_ns")]
    pub ready_after: Nanos,
    /// Bytes whose newest content was lost.
    pub lost_bytes: u64,
}

/// The power cuts that are planned, and those that have been.
pub(crate) struct PowerCuts {
    plan: Option<PowerCutPlan>,
    /// Draws the times of random cuts.
    times: Rng,
    /// The next cut by time, since the server started.
    next: Option<Nanos>,
    /// Decides what a cut takes.
    pub rng: Rng,
    pub count: u64,
    pub last: Option<PowerCut>,
}

impl PowerCuts {
    pub fn new(rng: Rng) -> PowerCuts {
        PowerCuts { plan: None, times: rng.fork("cuts"), next: None, rng, count: 0, last: None }
    }

    pub fn set_plan(&mut self, plan: Option<PowerCutPlan>) {
        self.plan = plan;
        self.draw(Nanos::ZERO);
    }

    fn draw(&mut self, now: Nanos) {
        self.next = match self.plan {
            None | Some(PowerCutPlan::Requests(_)) => None,
            Some(PowerCutPlan::After(time)) => Some(time),
            Some(PowerCutPlan::Random(mean)) => {
                Some(now.after(Nanos(self.times.below(2 * mean.0))))
            }
        };
    }

    /// Whether the plan cuts the power now, `elapsed` after the start and after `requests`.
    pub fn is_due(&mut self, elapsed: Nanos, requests: u64) -> bool {
        let is_due = match self.plan {
            Some(PowerCutPlan::Requests(count)) => requests >= count,
            _ => self.next.is_some_and(|next| next <= elapsed),
        };
        if is_due {
            self.plan = self.plan.filter(|plan| matches!(plan, PowerCutPlan::Random(_)));
            self.draw(elapsed);
        }
        is_due
    }

    pub fn record(&mut self, cut: PowerCut) {
        self.count += 1;
        self.last = Some(cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_and_nonsense_is_refused() {
        assert_eq!("after=1.5".parse(), Ok(PowerCutPlan::After(Nanos::millis(1500))));
        assert_eq!("ios=100".parse(), Ok(PowerCutPlan::Requests(100)));
        assert_eq!("at-random".parse(), Ok(PowerCutPlan::Random(MEAN)));
        assert_eq!("at-random=2".parse(), Ok(PowerCutPlan::Random(Nanos::secs(2))));
        for wrong in ["", "after", "after=", "after=-1", "after=nan", "ios=0", "ios=x", "never=1"] {
            assert!(wrong.parse::<PowerCutPlan>().is_err(), "{wrong}");
        }
    }

    fn planned(plan: PowerCutPlan) -> PowerCuts {
        let mut cuts = PowerCuts::new(Rng::new(1));
        cuts.set_plan(Some(plan));
        cuts
    }

    #[test]
    fn one_cut_or_many() {
        let mut once = planned(PowerCutPlan::Requests(3));
        let due: Vec<bool> = (1..6).map(|n| once.is_due(Nanos::ZERO, n)).collect();
        assert_eq!(due, [false, false, true, false, false]);
        let mut often = planned(PowerCutPlan::Random(Nanos::secs(1)));
        let seconds = (0..10_000).map(|n| Nanos::millis(10 * n));
        let cuts = seconds.filter(|&at| often.is_due(at, 0)).count();
        assert!((70..130).contains(&cuts), "{cuts} cuts in 100 s");
    }
}
