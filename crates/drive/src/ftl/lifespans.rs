//! What is known of the lifespans of the host's data.

use crate::persist::persist;
use crate::spec::Spec;

/// Over how many superblocks the mean is taken.
pub const MEAN_OF: u64 = 16;

/// What is known of lifespans, in pages that the host has written.
#[derive(Debug)]
pub struct Lifespans {
    /// Now.
    pub clock: u64,
    /// Less than this is short.
    pub short: u64,
    pub sum: u64,
    pub count: u64,
}

persist!(Lifespans: clock, short, sum, count);

/// Nothing, unless the profile splits the host's writes.
pub fn new(spec: &Spec) -> Option<Box<Lifespans>> {
    let none = Lifespans { clock: 0, short: u64::MAX, sum: 0, count: 0 };
    spec.by_lifespan.then(|| Box::new(none))
}
