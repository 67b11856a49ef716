//! Power cuts on request: after a time, after a number of requests, or at random moments.

use std::str::FromStr;

use drivebay_units::{Nanos, Rng};
use serde::Serialize;

/// Mean time between random power cuts, if none is given.
const MEAN: Nanos = Nanos::secs(10);

/// Time of a power cut.
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

/// Behaviour after a power cut, as hosts see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterCut {
    /// Hosts may connect again at once; the drive accepts their commands when it is ready.
    #[default]
    Return,
    /// Hosts may not connect for this long, on the host's clock.
    Hold(Nanos),
    /// Hosts may not connect until the power is switched on by the control socket.
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

/// Parses a time above 0, of at most three years.
fn seconds(text: &str) -> Option<Nanos> {
    let seconds: f64 = text.parse().ok().filter(|&seconds| seconds > 0.0 && seconds <= 1e8)?;
    Some(Nanos((seconds * 1e9) as u64))
}

/// Result of a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PowerCut {
    /// Time since the server started, nanoseconds of the drive's clock.
    pub at_ns: u64,
    /// Time that the drive took to become ready, nanoseconds.
    pub ready_after_ns: u64,
    /// Bytes whose newest content was lost.
    pub lost_bytes: u64,
}

/// Planned and past power cuts.
pub(crate) struct PowerCuts {
    plan: Option<PowerCutPlan>,
    /// Draws the times of random cuts.
    times: Rng,
    /// Time of the next cut, since the server started.
    next: Option<Nanos>,
    /// Draws the losses of a cut.
    pub rng: Rng,
    pub count: u64,
    pub last: Option<PowerCut>,
    pub after: AfterCut,
    /// Time until which hosts may not connect, on the host's clock since the server started.
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

    /// True if the plan cuts the power now, `elapsed` after the start and after `requests`.
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

    /// Records a cut that happened `elapsed` after the start on the host's clock.
    pub fn record(&mut self, cut: PowerCut, elapsed: Nanos) {
        self.count += 1;
        self.last = Some(cut);
        self.off_until = match self.after {
            AfterCut::Return => None,
            AfterCut::Hold(time) => Some(elapsed.after(time)),
            AfterCut::Refuse => Some(Nanos(u64::MAX)),
        };
    }

    /// Lets hosts connect again.
    pub fn power_on(&mut self) {
        self.off_until = None;
    }

    /// True if hosts may not connect now.
    pub fn is_off(&self, elapsed: Nanos) -> bool {
        self.off_until.is_some_and(|until| elapsed < until)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/faults_power_cut.rs"]
mod tests;
