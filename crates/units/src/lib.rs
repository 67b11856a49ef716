//! Units: time, sizes and addresses as types, and the seeded generator.
//!
//! Time is integer nanoseconds, an address says what it counts, and only operations that make sense
//! exist. This crate knows nothing of drives, workloads or files.

mod address;
mod divide;
mod rng;
mod time;

pub use address::{Lpn, SECTOR_BYTES, Slot};
pub use divide::Divider;
pub use rng::Rng;
pub use time::Nanos;
