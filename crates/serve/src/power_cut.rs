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

impl FromStr for PowerCutPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<PowerCutPlan, String> {
        let must = "must be after=SECONDS, ios=N, at-random or at-random=MEAN_SECONDS";
        let wrong = || format!("--power-cut {text}: {must}\nhint: --power-cut after=10");
        let seconds = |text| seconds(text).ok_or_else(wrong);
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

/// What hosts meet after a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterCut {
    /// They may connect again at once; the drive takes its commands when it is ready.
    #[default]
    Return,
    /// Nobody may connect for this long, on the host's clock.
    Hold(Nanos),
    /// Nobody may connect until the power is switched on by the control socket.
    Refuse,
}

impl FromStr for AfterCut {
    type Err = String;

    fn from_str(text: &str) -> Result<AfterCut, String> {
        let after = match text.split_once('=') {
            None if text == "return" => Some(AfterCut::Return),
            None if text == "refuse" => Some(AfterCut::Refuse),
            Some(("hold", time)) => seconds(time).map(AfterCut::Hold),
            _ => None,
        };
        let must = "must be return, refuse or hold=SECONDS";
        after.ok_or_else(|| format!("--after-cut {text}: {must}\nhint: --after-cut hold=30"))
    }
}

/// A time above 0, of three years at most.
fn seconds(text: &str) -> Option<Nanos> {
    let seconds: f64 = text.parse().ok().filter(|&seconds| seconds > 0.0 && seconds <= 1e8)?;
    Some(Nanos((seconds * 1e9) as u64))
}

/// What a power cut did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PowerCut {
    /// When, since the server started, nanoseconds of the drive's clock.
    pub at_ns: u64,
    /// How long the drive took to become ready, nanoseconds.
    pub ready_after_ns: u64,
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
    after: AfterCut,
    /// Until when nobody may connect, on the host's clock since the server started.
    off_until: Option<Nanos>,
}

impl PowerCuts {
    pub fn new(rng: Rng) -> PowerCuts {
        PowerCuts {
            plan: None,
            times: rng.fork("cuts"),
            next: None,
            rng,
            count: 0,
            last: None,
            after: AfterCut::Return,
            off_until: None,
        }
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

    pub fn set_after(&mut self, after: AfterCut) {
        self.after = after;
    }

    /// The cut has been, `elapsed` after the start on the host's clock.
    pub fn record(&mut self, cut: PowerCut, elapsed: Nanos) {
        self.count += 1;
        self.last = Some(cut);
        self.off_until = match self.after {
            AfterCut::Return => None,
            AfterCut::Hold(time) => Some(elapsed.after(time)),
            AfterCut::Refuse => Some(Nanos(u64::MAX)),
        };
    }

    /// Hosts may connect again.
    pub fn power_on(&mut self) {
        self.off_until = None;
    }

    /// Whether nobody may connect now.
    pub fn is_off(&self, elapsed: Nanos) -> bool {
        self.off_until.is_some_and(|until| elapsed < until)
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

    #[test]
    fn after_a_cut_the_drive_returns_at_once_later_or_when_it_is_told() {
        let cut = PowerCut { at_ns: 0, ready_after_ns: 0, lost_bytes: 0 };
        for (after, off_at) in
            [("return", [false; 2]), ("hold=2", [true, false]), ("refuse", [true; 2])]
        {
            let mut cuts = PowerCuts::new(Rng::new(1));
            cuts.set_after(after.parse().expect(after));
            assert!(!cuts.is_off(Nanos::secs(1)), "{after}");
            cuts.record(cut, Nanos::secs(1));
            let found = [2, 3].map(|second| cuts.is_off(Nanos::secs(second)));
            assert_eq!(found, off_at, "{after}");
            cuts.power_on();
            assert!(!cuts.is_off(Nanos::secs(2)), "{after}");
        }
        for wrong in ["", "hold", "hold=", "hold=0", "hold=-1", "hold=nan", "refuse=1", "never"] {
            assert!(wrong.parse::<AfterCut>().is_err(), "{wrong}");
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
