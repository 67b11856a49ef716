//! Probability that a page cannot be decoded, as a function of the raw bit error rate: a table.
//!
//! Wrong bits of a codeword are Poisson (the rate is small); the rate of a page is the middle
//! page's times a lognormal factor. The table is even in the rate's logarithm, so the factor is a
//! shift.

use libm::{exp, log};

use crate::profile::ReliabilitySpec;

const POINTS: usize = 4096;
const RATE_MIN: f64 = 1e-9;
const RATE_MAX: f64 = 0.5;
/// Standard deviations to both sides over which the spread is summed, and steps per deviation.
const DEVIATIONS: i32 = 5;
const STEPS_PER_DEVIATION: i32 = 8;

/// A function stored as a table of its values.
pub struct Curve {
    low: f64,
    step: f64,
    fails: Vec<f64>,
}

impl Curve {
    /// Computes the curve for this code and this spread of pages.
    pub fn new(spec: &ReliabilitySpec) -> Curve {
        let low = log(RATE_MIN);
        let step = (log(RATE_MAX) - low) / (POINTS - 1) as f64;
        let limit = spec.correctable_bits;
        let ln_factorial = ln_factorial(limit);
        let fails = (0..POINTS)
            .map(|i| {
                let wrong = exp(low + step * i as f64) * f64::from(spec.codeword_bits);
                let good = 1.0 - poisson_above(wrong, limit, ln_factorial);
                1.0 - (0..spec.codewords).fold(1.0, |product, _| product * good)
            })
            .collect();
        let exact = Curve { low, step, fails };
        match spec.rate.page_spread {
            0.0 => exact,
            spread => exact.spread(spread),
        }
    }

    /// Mean over pages whose rates have a lognormal spread.
    fn spread(&self, deviation: f64) -> Curve {
        let last = DEVIATIONS * STEPS_PER_DEVIATION;
        let nodes = || (-last..=last).map(|i| f64::from(i) / f64::from(STEPS_PER_DEVIATION));
        let weight = |z: f64| exp(-z * z / 2.0);
        let whole: f64 = nodes().map(weight).sum();
        let mean = |i: usize| {
            let at = self.low + self.step * i as f64;
            nodes().map(|z| weight(z) * self.at(at + deviation * z)).sum::<f64>() / whole
        };
        Curve { fails: (0..POINTS).map(mean).collect(), ..*self }
    }

    /// Probability that a page cannot be decoded if the middle page has this rate.
    pub fn fails(&self, rate: f64) -> f64 {
        if rate < RATE_MIN { 0.0 } else { self.at(log(rate)) }
    }

    fn at(&self, ln_rate: f64) -> f64 {
        let place = (ln_rate - self.low) / self.step;
        if place < 0.0 {
            return 0.0;
        }
        let index = (place as usize).min(POINTS - 2);
        let part = (place - index as f64).min(1.0);
        self.fails[index] * (1.0 - part) + self.fails[index + 1] * part
    }
}

fn ln_factorial(n: u32) -> f64 {
    (2..=n).map(|n| log(f64::from(n))).sum()
}

/// Probability of more than `limit` events where `mean` are expected.
fn poisson_above(mean: f64, limit: u32, ln_factorial: f64) -> f64 {
    let at_limit = exp(f64::from(limit) * log(mean) - mean - ln_factorial);
    // Terms only shrink from the limit away from the mean, so that side is summed.
    let (mut term, mut sum) = (at_limit, 0.0);
    if mean > f64::from(limit) {
        let mut n = limit;
        while term > 1e-18 * sum {
            sum += term;
            if n == 0 {
                break;
            }
            term *= f64::from(n) / mean;
            n -= 1;
        }
        return (1.0 - sum).max(0.0);
    }
    let mut n = limit;
    loop {
        n += 1;
        term *= mean / f64::from(n);
        sum += term;
        if term <= 1e-18 * sum {
            return sum.min(1.0);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/physics_reliability_curve.rs"]
mod tests;
