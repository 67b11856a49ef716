//! Pacing of a served drive by the wall clock: the drive's clock, the lateness of answers, and the
//! search for a clock rate that this machine can keep.

pub(crate) mod auto_scale;
pub(crate) mod clock;
pub(crate) mod lateness;
pub(crate) mod starvation;
