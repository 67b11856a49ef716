//! Pacing of a closed loop: a rate limit, and think time.
//!
//! Rates work like fio's `rate_iops` and `rate`: late requests are caught up, and with a bandwidth
//! limit a request is due when the bytes of the earlier requests have used up their time. Think
//! time works like fio's `thinktime` with `thinktime_blocks_type=issue`: after a number of requests
//! the host waits until all are completed, and then pauses. Left out: fio's other type, which
//! counts completions.

use drivebay_units::{Nanos, Rng};

use crate::distribution::exponential;
use crate::queue_slots::NEVER;
use crate::workload::{RateProcess, Workload};

/// Earliest times of requests.
pub(crate) struct Pacing {
    rate: Option<Rate>,
    bandwidth: Option<Bandwidth>,
    think: Option<Think>,
}

struct Bandwidth {
    ns_per_byte: f64,
    /// Time since the start.
    due_ns: f64,
}

struct Rate {
    interval_ns: f64,
    arrivals: Option<Rng>,
    /// Time since the start.
    due_ns: f64,
}

struct Think {
    pause: Nanos,
    every: u32,
    /// Requests until the next pause.
    left: u32,
    /// End of the last pause. Before a pause: the time when the rate allows the request after it.
    resumed: Nanos,
}

impl Pacing {
    /// Returns `None` for a workload without pacing.
    pub(crate) fn new(workload: &Workload, seed: u64) -> Option<Pacing> {
        let poisson = workload.rate_process == RateProcess::Poisson;
        let rate = workload.rate_iops.map(|rate| Rate {
            interval_ns: 1e9 / rate,
            arrivals: poisson.then(|| Rng::new(seed).fork("arrivals")),
            due_ns: 0.0,
        });
        let think = workload.thinktime_us.map(|pause| Think {
            pause: Nanos::micros(pause),
            every: workload.thinktime_blocks,
            left: workload.thinktime_blocks,
            resumed: Nanos::ZERO,
        });
        let bandwidth =
            workload.rate_mb_per_s.map(|rate| Bandwidth { ns_per_byte: 1e3 / rate, due_ns: 0.0 });
        let any = rate.is_some() || bandwidth.is_some() || think.is_some();
        any.then_some(Pacing { rate, bandwidth, think })
    }

    /// Notes a request of `bytes` bytes; returns the earliest time of the next one. Before a pause
    /// that is `NEVER`; see `resume`.
    pub(crate) fn next(&mut self, start: Nanos, bytes: u64) -> Nanos {
        let mut due = self.rate.as_mut().map_or(Nanos::ZERO, |rate| {
            rate.due_ns += rate.interval_ns * rate.arrivals.as_mut().map_or(1.0, exponential);
            start.after(Nanos(rate.due_ns as u64))
        });
        if let Some(cap) = &mut self.bandwidth {
            cap.due_ns += cap.ns_per_byte * bytes as f64;
            due = due.max(start.after(Nanos(cap.due_ns as u64)));
        }
        let Some(think) = &mut self.think else { return due };
        think.left -= 1;
        if think.left > 0 {
            // Slots that became free before the pause are usable from its end on.
            return due.max(think.resumed);
        }
        (think.left, think.resumed) = (think.every, due);
        NEVER
    }

    /// Returns the earliest time of the next request, after a pause whose requests were completed
    /// by `latest`.
    pub(crate) fn resume(&mut self, latest: Nanos) -> Nanos {
        self.think.as_mut().map_or(latest, |think| {
            think.resumed = think.resumed.max(latest.after(think.pause));
            think.resumed
        })
    }
}
