//! Units: time, sizes and addresses as types, the seeded random generator, histograms of times,
//! counts of I/Os, the control of a running job, and refusal of wrong input.
//!
//! Time is integer nanoseconds, each kind of address is a type, and only meaningful operations
//! exist. This crate knows nothing of drives, workloads or files.

mod address;
mod control;
mod divide;
mod histogram;
mod io_counts;
mod named;
mod refuse;
mod rng;
mod time;

pub use address::{Lpn, Ppa, SECTOR_BYTES};
pub use control::Control;
pub use divide::Divider;
pub use histogram::{Bin, Histogram};
pub use io_counts::IoCounts;
pub use refuse::refuse_if;
pub use rng::{Rng, mix, mix_upper};
pub use time::Nanos;
