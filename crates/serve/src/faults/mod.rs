//! Faults on request: injected errors and delays, and power cuts.

mod injected;
pub(crate) mod power_cut;

pub use injected::{FailureMode, Fault, FaultError, Kind};
pub(crate) use injected::{Faults, check_all};
