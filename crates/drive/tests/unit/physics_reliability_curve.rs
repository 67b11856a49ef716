//! Unit tests of `physics/reliability/curve.rs`, with its private items in reach.

use super::{ln_factorial, poisson_above};

#[test]
fn poisson_tails_are_those_of_the_sum() {
    for mean in [0.1f64, 1.0, 5.0, 20.0, 60.0] {
        let mut term = (-mean).exp();
        let mut below = term;
        for limit in 1..100u32 {
            term *= mean / f64::from(limit);
            below += term;
            let got = poisson_above(mean, limit, ln_factorial(limit));
            assert!((got - (1.0 - below)).abs() < 1e-12, "{mean} {limit}: {got}");
        }
    }
}
