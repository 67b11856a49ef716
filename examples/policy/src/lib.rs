//! Victim policies written outside the core: how to add one of your own, by two that are published.
//!
//! A policy is a type with one function: of the superblocks that can be victims, it names one. It goes
//! into a drive by [`Spec::with_policy`]. `cargo run --release -p drivebay-policy-example` compares these
//! with the core's own under the load of `drivebay bench`.
//!
//! Sources: windowed greedy as in Hu et al. (SYSTOR 2009); cost-age-times as in Chiang, Lee and Chang
//! (Software: Practice and Experience 29, 1999), its "u / (1 - u) x 1 / age x erases", smallest first,
//! without that paper's sorting of data by how hot it is.

pub mod small;

use std::cmp::Ordering;

use drivebay_drive::{Candidate, Choice, VictimPolicy};

/// Fewest valid pages, of equals the oldest: what the core calls "greedy", to weigh the trait itself.
#[derive(Debug)]
pub struct Greedy;

impl VictimPolicy for Greedy {
    fn choose(&self, choice: Choice<'_>) -> Option<u32> {
        choice.candidates().min_by_key(|c| (c.valid, u64::MAX - c.age)).map(|c| c.index)
    }
}

/// Fewest valid pages among the oldest superblocks.
///
/// A window of one is FIFO; one of all superblocks is greedy. Between them lies a rule that needs to keep
/// count of a few superblocks only.
#[derive(Debug)]
pub struct Windowed {
    /// How many of the oldest it looks at.
    pub window: usize,
}

impl VictimPolicy for Windowed {
    fn choose(&self, choice: Choice<'_>) -> Option<u32> {
        let mut oldest: Vec<Candidate> = choice.candidates().collect();
        if self.window < oldest.len() {
            oldest.select_nth_unstable_by_key(self.window, |c| u64::MAX - c.age);
            oldest.truncate(self.window);
        }
        oldest.into_iter().min_by_key(|c| (c.valid, u64::MAX - c.age)).map(|c| c.index)
    }
}

/// Cheapest to clean for its age and wear.
#[derive(Debug)]
pub struct CostAgeTimes;

impl VictimPolicy for CostAgeTimes {
    fn choose(&self, choice: Choice<'_>) -> Option<u32> {
        let pages = choice.pages;
        // Fractions, compared without dividing: the same on every machine.
        let cost = |c: &Candidate| u128::from(c.valid) * u128::from(c.erases + 1);
        let gain = |c: &Candidate| u128::from(pages - c.valid) * u128::from(c.age + 1);
        let cheaper = |a: &Candidate, b: &Candidate| -> Ordering {
            (cost(a) * gain(b)).cmp(&(cost(b) * gain(a))).then(b.age.cmp(&a.age))
        };
        choice.candidates().min_by(cheaper).map(|c| c.index)
    }
}
